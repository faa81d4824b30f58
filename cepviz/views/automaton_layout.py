"""Where the states, edges and labels of an automaton are: made once for a graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from cepviz.steps import Edge, Graph, Pass, State
from cepviz.views.layout import Point, layout
from cepviz.views.marks import width_of
from cepviz.views.scene import shortened

#: Lines of formula on an edge, and characters in each.
LINES, ACROSS = 3, 30
_LEFT, _TOP, _RIGHT = 40, 16, 132
_HIGH, _LOOP = 58, 34  # a state's height, a loop's


@dataclass(frozen=True, slots=True)
class Box:
    """A state's place: its centre, its size and the lines in it."""

    x: float
    y: float
    width: float
    height: float
    circle: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """An edge's place: its curve, where its head points, from where, and its label's box."""

    d: str
    tip: Point
    tail: Point
    x: float  # of the label: centre and first base line
    y: float
    above: float = 0.0  # the label's height where it sits on the line: a shorter one sinks


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph with places for everything."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


_Passes = tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]


def drawing_of(graph: Graph) -> Drawing:
    passes = tuple((p.name, tuple(p.formulas.items())) for p in graph.passes)
    return _drawn(graph.states, graph.edges, graph.kind, passes)


@lru_cache(maxsize=64)
def _drawn(
    states: tuple[State, ...], edges: tuple[Edge, ...], kind: str, passes: _Passes
) -> Drawing:
    """Each automaton of the graph laid out by itself, one below the other (or side by side)."""
    graph = Graph(states, edges, kind, tuple(Pass(n, dict(formulas)) for n, formulas in passes))
    boxes: dict[str, Box] = {}
    lines: dict[int, Line] = {}
    x, y, width, height = 0.0, float(_TOP), 0.0, 0.0
    for part in _parts(graph):
        numbers = [n for n, edge in enumerate(graph.edges) if edge.source in part]
        piece = _placed(graph, part, numbers)
        boxes |= {name: _shifted(box, x, y) for name, box in zip(part, piece.boxes, strict=True)}
        lines |= {n: _moved(line, x, y) for n, line in zip(numbers, piece.lines, strict=True)}
        width, height = max(width, x + piece.width), max(height, y + piece.height)
        if kind == "zstream":
            x += piece.width
        else:
            y += piece.height + 12
    return Drawing(
        round(width),
        round(height),
        tuple(boxes[state.name] for state in graph.states),
        tuple(lines[number] for number in range(len(graph.edges))),
    )


def _parts(graph: Graph) -> list[list[str]]:
    """The states of each automaton that hangs together, in the order of the graph."""
    part = {state.name: {state.name} for state in graph.states}
    for edge in graph.edges:
        one, other = part[edge.source], part[edge.target]
        if one is not other:
            one |= other
            part |= dict.fromkeys(other, one)
    found: dict[int, list[str]] = {}
    for name, members in part.items():
        found.setdefault(id(members), []).append(name)
    return [*found.values()]


def _shifted(box: Box, x: float, y: float) -> Box:
    return replace(box, x=round(box.x + x, 1), y=round(box.y + y, 1))


def _moved(line: Line, x: float, y: float) -> Line:
    def move(found: re.Match[str]) -> str:
        return f"{float(found[1]) + x:.1f},{float(found[2]) + y:.1f}"

    d = re.sub(r"(-?[\d.]+),(-?[\d.]+)", move, line.d)
    end, tail = (Point(round(p.x + x, 1), round(p.y + y, 1)) for p in (line.tip, line.tail))
    return Line(d, end, tail, round(line.x + x, 1), round(line.y + y, 1), line.above)


def _placed(graph: Graph, names: list[str], numbers: list[int]) -> Drawing:
    """One automaton, from the left upper corner."""
    tree = graph.kind == "zstream"
    by_name = {state.name: state for state in graph.states}
    sizes = [_size(graph, by_name[name]) for name in names]
    place = {name: number for number, name in enumerate(names)}
    edges = [graph.edges[number] for number in numbers]
    labels = [(0.0, 0.0) if tree else _label_size(graph, edge) for edge in edges]
    loops = [edge.source == edge.target for edge in edges]
    listed = [*zip(edges, labels, loops, strict=True)]
    widest = max((width for _, (width, _), loop in listed if loop), default=0.0)
    room = [0.0] * len(sizes)  # over and under a state, for its loops
    inward: dict[str, list[str]] = {}
    outward: dict[str, list[str]] = {}
    for edge, (_, height), loop in listed:
        if loop:
            number = place[edge.source]
            room[number] = max(room[number], height + _LOOP + 4)
        else:
            inward.setdefault(edge.target, []).append(edge.source)
            outward.setdefault(edge.source, []).append(edge.target)
    fans = any(len(found) > 1 for found in outward.values())
    # Graphviz sees no text, only sizes: whatever a label says, the source is harmless.
    dot = [f"digraph {{ rankdir={'BT' if tree else 'LR'}; nodesep={0.5 if tree else 0.25};"]
    dot += [f"ranksep={0.5 if tree or fans else 0.28};"]
    dot += ['node [shape=box fixedsize=true label=""];']
    for number, (width, height, _, _) in enumerate(sizes):
        tall = height + 2 * room[number]
        dot.append(f"n{number} [width={width / 72:.3f} height={tall / 72:.3f}];")
    for edge, (width, height), loop in listed:
        source, target = (f"n{place[end]}" for end in (edge.source, edge.target))
        if tree:
            dot.append(f"{source}:n -> {target}:s;")
        elif not loop:  # labels of neighbouring loops must not meet
            size = f'WIDTH="{max(width, widest - 70):.0f}" HEIGHT="{height:.0f}"'
            table = f'<<TABLE BORDER="0" FIXEDSIZE="TRUE" {size}><TR><TD></TD></TR></TABLE>>'
            dot.append(f"{source}:e -> {target}:w [label={table}];")
    placed = layout("\n".join([*dot, "}"]))
    boxes = [
        Box(round(placed.node(f"n{number}").centre.x, 1), placed.node(f"n{number}").centre.y, *size)
        for number, size in enumerate(sizes)
    ]
    lines = []
    for edge, (width, height), loop in listed:
        start, end = boxes[place[edge.source]], boxes[place[edge.target]]
        if loop:
            lines.append(_loop(start, edge.action != "ignore", height))
        elif tree:
            sides = sorted(boxes[place[name]].x for name in inward[edge.target])
            shift = (sides.index(start.x) + 0.5) / len(sides) - 0.5
            lines.append(_rise(start, end, shift * min(80, end.width / 2)))
        else:
            fan_out, fan_in = len(outward[edge.source]) > 1, len(inward[edge.target]) > 1
            lines.append(_along(start, end, width, height, fan_out, fan_in))
    # Only now is it known how far labels and loops reach.
    tops = [box.y - box.height / 2 - 14 for box in boxes]
    bottoms = [box.y + box.height / 2 + 14 for box in boxes]
    lefts = [box.x - box.width / 2 - _LEFT for box in boxes]
    for line, (_, (width, height), loop) in zip(lines, listed, strict=True):
        if not tree:
            tops.append(line.y - 14)
            bottoms.append(line.y + height - 14)
            lefts.append(line.x - width / 2 - 6 if loop else line.x)
    left, top = min(lefts), min(tops)
    right = max(box.x + box.width / 2 for box in boxes)
    return Drawing(
        right - left + (_RIGHT if not tree else 40),
        max(bottoms) - top + (24 if tree else 4),
        tuple(_shifted(box, -left, -top) for box in boxes),
        tuple(_moved(line, -left, -top) for line in lines),
    )


def _rise(source: Box, target: Box, shift: float) -> Line:
    """A line from a node up to its join."""
    start = Point(source.x, source.y - source.height / 2)
    end = Point(round(target.x + shift, 1), target.y + target.height / 2)
    dx, dy = start.x - end.x, start.y - end.y
    back = 10 / ((dx * dx + dy * dy) ** 0.5 or 1)
    tail = Point(round(end.x + dx * back, 1), round(end.y + dy * back, 1))
    return Line(f"M{start.x:g},{start.y:g} L{tail.x:g},{tail.y:g}", end, tail, end.x, end.y)


def _along(
    source: Box, target: Box, width: float, height: float, fan_out: bool, fan_in: bool
) -> Line:
    """A curve to the right, its label where it is flat: in the middle, or at the lonelier end."""
    start = Point(round(source.x + source.width / 2, 1), source.y)
    end = Point(round(target.x - target.width / 2, 1), target.y)
    tail = Point(end.x - 10, end.y)
    if abs(start.y - end.y) < 2:
        x = end.x - 18 - width / 2 if fan_out else (start.x + end.x) / 2 - 4
        y = end.y - height + 12
        d = f"M{start.x:g},{start.y:g} L{tail.x:g},{tail.y:g}"
        return Line(d, end, tail, round(x, 1), round(y, 1), height)
    # Steep at the crowded end, so that it is flat where its label sits.
    across = tail.x - start.x
    one, two = (0.62, 0.85) if fan_in else (0.15, 0.38) if fan_out else (0.5, 0.5)
    d = f"M{start.x:g},{start.y:g} C{start.x + across * one:g},{start.y:g} "
    d += f"{start.x + across * two:g},{end.y:g} {tail.x:g},{tail.y:g}"
    near, far = (start, end) if fan_in else (end, start)
    x = start.x + 12 + width / 2 if fan_in else end.x - 18 - width / 2
    above = near.y < far.y
    y = near.y - height + 12 if above else near.y + 17
    return Line(d, end, tail, round(x, 1), round(y, 1), height if above else 0.0)


def _loop(box: Box, above: bool, height: float) -> Line:
    """A loop over or under its state; its label sits beyond it."""
    side = -1 if above else 1
    half = box.width / 2
    reach = (half * half - 144) ** 0.5 if box.circle else box.height / 2
    edge, far = box.y + side * reach, box.y + side * (box.height / 2 + 42)
    end = Point(round(box.x - 12, 1), round(edge, 1))  # on the left: the right is the badge's
    tail = Point(round(box.x - 16, 1), round(edge + side * 12, 1))
    d = f"M{box.x + 12:g},{edge:g} C{box.x + 34:g},{far:g} {box.x - 34:g},{far:g} "
    d += f"{tail.x + 1:g},{tail.y - side * 2:g}"
    beyond = box.y + side * (box.height / 2 + _LOOP)
    y = round(beyond - height + 12 if above else beyond + 14, 1)
    return Line(d, end, tail, box.x, y, height if above else 0.0)


def _size(graph: Graph, state: State) -> tuple[float, float, bool, tuple[str, ...]]:
    lines = [shortened(state.name, 20)]
    if graph.kind == "zstream":
        found: list[str] = [state.label] if state.label else []
        found = found or next((list(e.formula) for e in graph.edges if e.target == state.name), [])
        lines += cut_formula(found)
    elif state.label:
        lines.append(shortened(state.label, 20))
    widths = [width_of(lines[0], 13) * 1.08, *(width_of(line, 11) for line in lines[1:])]
    if max(widths) <= 48 and (graph.kind != "zstream" or state.kind == "final"):
        return _HIGH, _HIGH, True, tuple(lines)
    if graph.kind != "zstream":
        return max(widths) + 24, _HIGH, False, tuple(lines)
    verdict = 0 if state.kind == "start" else 15  # a join says in its box what came of it
    return max(96.0, max(widths) + 52), 26.0 + 15 * len(lines) + verdict, False, tuple(lines)


def cut_formula(formula: Sequence[str]) -> list[str]:
    """A formula as a few short lines, one for each conjunct."""
    if len(formula) > LINES:
        rest = len(formula) - LINES + 1
        return [*(shortened(c, ACROSS) for c in formula[: LINES - 1]), f"and {rest} more"]
    return [shortened(conjunct, ACROSS) for conjunct in formula]


def word_of(graph: Graph, edge: Edge) -> str:
    """What an edge does, in a word or two: `take`, `store b, c`."""
    named = edge.variable and (graph.kind != "nfab" or edge.action == "negate")
    return shortened(f"{edge.action} {edge.variable}" if named else edge.action, 20)


def _label_size(graph: Graph, edge: Edge) -> tuple[float, float]:
    """Room for the longest label that the edge has after any pass, and for a verdict."""
    formulas = [edge.formula, *(p.formulas.get(edge.name, ()) for p in graph.passes)]
    cut = [cut_formula(formula) for formula in formulas]
    texts = [width_of(line, 11) + 28 for lines in cut for line in lines]
    room = width_of(word_of(graph, edge), 12) + 2 * 64
    return max([room, *texts]), max(map(label_height, cut))


def label_height(lines: Sequence[str]) -> float:
    """How high a label is: its word and its lines of formula."""
    return 6 + 14 * (1 + len(lines))
