"""The automaton of a trace: states, edges and formulas, and where the live runs are at a step.

Everything that stays (the layout) is made once for a graph; a step changes classes and badges only.
A graph too large to read is summed up: the states that live now, in columns by depth.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from cepviz.errors import CepError, did_you_mean
from cepviz.steps import (
    Drop,
    Edge,
    Graph,
    Matched,
    Merge,
    Move,
    Pass,
    Put,
    Scope,
    Spawn,
    State,
    Test,
    Tested,
)
from cepviz.trace import Snapshot, Trace
from cepviz.views.layout import Point, layout
from cepviz.views.scene import Number, Scene, shortened

#: More states than this are summed up instead of drawn.
MOST_STATES = 24
#: Lines of formula on an edge, and characters in each.
LINES, ACROSS = 3, 30
#: Runs that the tooltip of a badge lists, and the characters any tooltip has.
LISTED, LONGEST_TIP = 20, 1500

_LEFT, _TOP, _RIGHT = 40, 16, 104
_ACTIONS = ("begin", "take", "ignore", "proceed", "store", "negate")
_HIGH, _LOOP = 58, 34  # a state's height, a loop's


# ---- marks, shared with the buffer view ----


def width_of(text: str, size: Number) -> float:
    """About how many pixels a text takes: fonts differ, wide characters count double.

    >>> width_of("ab", 10) < width_of("漢字", 10)
    True
    """
    ems = 0.0
    for c in text:
        if unicodedata.east_asian_width(c) in "WF":
            ems += 1.1
        elif c in "iljtfrI.,:;[](){}!|' ":
            ems += 0.38
        else:
            ems += 0.8 if c in "mwMW%@…" or c.isupper() else 0.61
    return round(ems * size, 1)


def tip(text: str) -> str:
    """A tooltip: its lines kept, each harmless, the whole cut in the middle where it is long."""
    clean = "\n".join(shortened(line, LONGEST_TIP) for line in text.splitlines())
    if len(clean) <= LONGEST_TIP:
        return clean
    return f"{clean[: LONGEST_TIP * 2 // 3]}…{clean[-LONGEST_TIP // 3 :]}"


def head(scene: Scene, key: str, classes: str, at: Point, tail: Point, size: float = 11) -> None:
    """Draws an arrow head that points to `at`, coming from `tail`."""
    dx, dy = at.x - tail.x, at.y - tail.y
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    bx, by, half = at.x - ux * size, at.y - uy * size, size * 0.4
    corners = [at, Point(bx - uy * half, by + ux * half), Point(bx + uy * half, by - ux * half)]
    points = " ".join(f"{p.x:.1f},{p.y:.1f}" for p in corners)
    scene.add(key, "polygon", classes, points=points)


def tick(scene: Scene, key: str, x: Number, y: Number, truth: bool | None) -> None:
    """Draws a tick, a cross, or for unknown a dash."""
    paths = {
        True: f"M{x - 4:g},{y:g} L{x - 1:g},{y + 3.5:g} L{x + 4.5:g},{y - 4:g}",
        False: f"M{x - 3.5:g},{y - 3.5:g} l7,7 m0,-7 l-7,7",
        None: f"M{x - 4:g},{y:g} l8,0",
    }
    scene.add(key, "path", {True: "tick", False: "cross", None: "edge"}[truth], d=paths[truth])


def fork(scene: Scene, key: str, x: Number, y: Number, title: str | None = None) -> None:
    """Draws the mark of a split: one line that becomes two."""
    d = f"M{x - 5:g},{y:g} l4,0 m6,-4 l-3,0 l-3,4 l3,4 l3,0"
    scene.add(key, "path", "fork", title=title, d=d)


def badge(scene: Scene, key: str, x: Number, y: Number, count: int, title: str, dim: bool) -> None:
    """Draws a counted badge with its centre at a place."""
    text = str(count) if count <= 99 else "99+"
    width = max(20.0, width_of(text, 11) + 12)
    faint = " dim" if dim else ""
    scene.add(
        key, "rect", f"badge{faint}", title=tip(title), x=x - width / 2, y=y - 10, width=width,
        height=20, rx=10,
    )  # fmt: skip
    scene.add(f"{key}:text", "text", f"badge-text{faint}", text=text, x=x, y=y + 4)


def told_bindings(bindings: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """`a = e1 e2, b = e6`."""
    return ", ".join(f"{name} = {' '.join(events)}" for name, events in bindings)


def checked_run(trace: Trace, run: str | None) -> None:
    """Refuses a run that is nowhere in the trace."""
    if run is not None and not trace.run_history(run):
        known = {getattr(step, role, "") for step in trace for role in ("run", "child")} - {""}
        raise CepError(f"there is no run {run!r} in this trace{did_you_mean(run, known)}")


# ---- what stays: the drawing of a graph ----


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


def _drawing(graph: Graph) -> Drawing:
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
    bend = (tail.x - start.x) / 2
    d = f"M{start.x:g},{start.y:g} C{start.x + bend:g},{start.y:g} "
    d += f"{tail.x - bend:g},{end.y:g} {tail.x:g},{tail.y:g}"
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
        lines += _cut(found)
    elif state.label:
        lines.append(shortened(state.label, 20))
    widths = [width_of(lines[0], 13) * 1.08, *(width_of(line, 11) for line in lines[1:])]
    if max(widths) <= 48 and (graph.kind != "zstream" or state.kind == "final"):
        return _HIGH, _HIGH, True, tuple(lines)
    if graph.kind != "zstream":
        return max(widths) + 24, _HIGH, False, tuple(lines)
    verdict = 0 if state.kind == "start" else 15  # a join says in its box what came of it
    return max(96.0, max(widths) + 52), 26.0 + 15 * len(lines) + verdict, False, tuple(lines)


def _cut(formula: Sequence[str]) -> list[str]:
    """A formula as a few short lines, one for each conjunct."""
    if len(formula) > LINES:
        rest = len(formula) - LINES + 1
        return [*(shortened(c, ACROSS) for c in formula[: LINES - 1]), f"and {rest} more"]
    return [shortened(conjunct, ACROSS) for conjunct in formula]


def _word(graph: Graph, edge: Edge) -> str:
    """What an edge does, in a word or two: `take`, `store b, c`."""
    named = edge.variable and (graph.kind != "nfab" or edge.action == "negate")
    return shortened(f"{edge.action} {edge.variable}" if named else edge.action, 20)


def _label_size(graph: Graph, edge: Edge) -> tuple[float, float]:
    """Room for the longest label that the edge has after any pass, and for a verdict."""
    formulas = [edge.formula, *(p.formulas.get(edge.name, ()) for p in graph.passes)]
    cut = [_cut(formula) for formula in formulas]
    texts = [width_of(line, 11) + 28 for lines in cut for line in lines]
    room = width_of(_word(graph, edge), 12) + 2 * 64
    return max([room, *texts]), max(map(_tall, cut))


def _tall(lines: Sequence[str]) -> float:
    """How high a label is: its word and its lines of formula."""
    return 6 + 14 * (1 + len(lines))


def _formula(graph: Graph, edge: Edge, passes: int | None) -> tuple[str, ...] | None:
    """An edge's formula, finally or after a pass; None where the pass does not have the edge."""
    if passes is None or edge.action == "negate":
        return edge.formula
    return graph.passes[passes - 1].formulas.get(edge.name)


# ---- what moves: one step ----


@dataclass(frozen=True)
class _Now:
    """What a step says about the graph: which edges it used, what it tested and where."""

    edges: frozenset[str] = frozenset()
    verdict: bool | None = None
    event: str = ""
    action: str = ""
    tests: tuple[Tested, ...] = ()
    state: str = ""
    note: str = ""  # split, drop, match or merge, shown at the state
    said: str = ""
    path: frozenset[str] = frozenset()  # the states of the current path, in a tree
    used: frozenset[str] = frozenset()  # and its edges


def _now(trace: Trace, snapshot: Snapshot, run: str | None) -> _Now:
    graph, step = trace.graph, snapshot.step
    history = _moves(trace, snapshot.index, run or str(getattr(step, "run", "")))
    path = used = frozenset[str]()
    if graph.kind == "tree":
        path = frozenset(end for move in history for end in (move.source, move.target))
        used = frozenset(move.edge for move in history)
        if isinstance(step, Test | Scope) and not path:
            path = frozenset(state.name for state in graph.states if state.kind == "start")
    here = _where(trace, snapshot.index, getattr(step, "run", ""))
    match step:
        case Test():
            edges = _edges(graph, step.edge)
            return _Now(edges, step.passed, step.event, step.action, step.tests, step.state,
                        path=path, used=used)  # fmt: skip
        case Move():
            edges = _edges(graph, step.edge, step)
            return _Now(edges, None, step.event, step.action, (), step.target, path=path, used=used)
        case Put() if graph.kind in ("chain", "tree"):
            edges = frozenset(_storing(graph, snapshot, step.buffer))
            return _Now(edges, None, step.event, "store")
        case Spawn():
            return _Now(state=step.state, note="split", said=step.because, path=path, used=used)
        case Merge():
            said = shortened(f"into {step.into}", 14)
            return _Now(state=step.state, note="merge", said=said, path=path, used=used)
        case Drop():
            edges = frozenset(_forbidding(trace, step) if step.reason == "negation" else ())
            return _Now(edges, None, step.culprit, "negate", (), here, "drop", step.reason,
                        path, used)  # fmt: skip
        case Matched():
            final, edge = _accepting(graph, here)
            return _Now(edge, None, "", "proceed", (), final, "match", f"match #{step.number}",
                        path, used)  # fmt: skip
        case _:
            return _Now(path=path, used=used)


def _moves(trace: Trace, index: int, run: str) -> list[Move]:
    """The moves of a run and its ancestors up to a step."""
    if not run or trace.graph.kind != "tree":
        return []
    steps = (trace[i] for i in trace.run_history(run, ancestors=True) if i <= index)
    return [step for step in steps if isinstance(step, Move)]


def _where(trace: Trace, index: int, run: str) -> str:
    """The state a run is or was in, by what was last said about it."""
    for place in reversed(trace.run_history(run) if run else []):
        step = trace[place]
        if place > index:
            continue
        if isinstance(step, Move):
            return step.target
        if isinstance(step, Test | Spawn):
            return step.state
    return ""


def _edges(graph: Graph, name: str, move: Move | None = None) -> frozenset[str]:
    """The edges a step used: the one it names, or, in a tree of joins, both sides of the join."""
    named = next((edge for edge in graph.edges if edge.name == name), None)
    if named is None and move is not None:
        same = (move.source, move.target, move.action)
        named = next((e for e in graph.edges if (e.source, e.target, e.action) == same), None)
    if named is None:
        return frozenset()
    if graph.kind == "zstream":
        return frozenset(edge.name for edge in graph.edges if edge.target == named.target)
    return frozenset({named.name})


def _prefix(name: str) -> str:
    """What tells apart the states of several automata: `2:` of `2:q1`."""
    found = re.match(r"\d+:", name)
    return found[0] if found else ""


def _storing(graph: Graph, snapshot: Snapshot, buffer: str) -> Iterable[str]:
    """The store edges that an event in an input buffer went along: those of states in use."""
    live = {run.state for run in snapshot.runs.values()}
    live |= {state.name for state in graph.states if state.kind == "start"}
    for edge in graph.edges:
        names = [_prefix(edge.source) + name for name in edge.variable.split(", ")]
        if edge.action == "store" and edge.source in live and buffer in names:
            yield edge.name


def _forbidding(trace: Trace, step: Drop) -> Iterable[str]:
    """The negate edges that an event can have gone along."""
    types = {arrived.type for arrived in trace.events if arrived.event == step.culprit}
    labels = {state.name: state.label for state in trace.graph.states}
    for edge in trace.graph.edges:
        if edge.action == "negate" and labels[edge.target] in types:
            yield edge.name


def _accepting(graph: Graph, here: str) -> tuple[str, frozenset[str]]:
    """The final state of a match, and the edge to it where the run itself stays behind."""
    finals = [state.name for state in graph.states if state.kind == "final"]
    if here in finals:
        return here, frozenset()
    for edge in graph.edges:
        if edge.source == here and edge.target in finals:
            return edge.target, frozenset({edge.name})
    return next((name for name in finals if _prefix(name) == _prefix(here)), ""), frozenset()


def _occupants(trace: Trace, snapshot: Snapshot | None) -> dict[str, dict[str, str]]:
    """What the badges count: state to run to what it holds. In a tree of joins, what nodes hold."""
    found: dict[str, dict[str, str]] = {}
    if snapshot is None:
        return found
    if trace.graph.kind == "zstream":
        for name, held in snapshot.buffers.items():
            found[name] = {entry: held_by(snapshot, entry) for entry in held}
        finals = {state.name for state in trace.graph.states if state.kind == "final"}
    for run in snapshot.runs.values():
        if trace.graph.kind != "zstream" or run.state in finals:
            found.setdefault(run.state, {})[run.id] = told_bindings(run.bindings)
    return found


def held_by(snapshot: Snapshot, entry: str) -> str:
    """What an entry of a tree's buffer stands for: itself, or the events of the run it names."""
    run = snapshot.runs.get(entry)
    return entry if run is None else told_bindings(run.bindings)


def automaton(
    trace: Trace, index: int | None = None, *, run: str | None = None, passes: int | None = None
) -> Scene:
    """Draws an engine's automaton after a step: where the runs are and what just happened.

    `index` is the step, the last by default. `run` follows one run: its state is outlined and
    other badges are dim. `passes` shows the formulas after that pass of compilation (SASE+
    Figure 2), counted from 1. `scene.say` is the step's sentence.
    """
    graph = trace.graph
    checked_run(trace, run)
    if passes is not None and not 1 <= passes <= len(graph.passes):
        known = ", ".join(p.name for p in graph.passes)
        has = f"its passes are {known}" if known else "this graph keeps none, only sase's does"
        raise CepError(f"there is no pass {passes} of compilation: {has}")
    snapshot = trace.at(-1 if index is None else index) if len(trace) or index else None
    now = _Now() if snapshot is None else _now(trace, snapshot, run)
    say = "Nothing has arrived yet." if snapshot is None else snapshot.say()
    if not graph.states:
        return _nothing(trace, say)
    occupants = _occupants(trace, snapshot)
    if len(graph.states) > MOST_STATES:
        return _summed_up(graph, occupants, now, run, say)
    drawing = _drawing(graph)
    legend = _legend(graph, drawing.width)
    scene = Scene(max(drawing.width, legend.width), drawing.height + legend.height, say)
    listed = [*enumerate(zip(graph.edges, drawing.lines, strict=True))]
    for number, (edge, line) in listed:
        _draw_edge(scene, graph, number, edge, line, now, passes)
    if graph.kind != "zstream":  # a join says in its box what it checks
        for number, (edge, line) in listed:
            _draw_label(scene, graph, number, edge, line, now, passes)
    for number, (state, box) in enumerate(zip(graph.states, drawing.boxes, strict=True)):
        here = occupants.get(state.name, {})
        _draw_state(scene, graph, number, state, box, here, now, run)
    if snapshot is not None and graph.kind == "tree":
        _draw_counters(scene, graph, drawing, snapshot, now)
    if passes is not None:
        said = f"after pass {graph.passes[passes - 1].name}"
        scene.label("pass", 8, 16, tip(said), "label", 60)
    scene.place("legend:", legend, 0, drawing.height)
    return scene


def _nothing(trace: Trace, say: str) -> Scene:
    """The picture of an engine without an automaton."""
    scene = Scene(460, 60, say)
    name = trace.engine or "this engine"
    scene.label("none", 16, 26, f"{shortened(name)} has no automaton to draw:", "label", 60)
    scene.label("none:2", 16, 46, "it tries the combinations of events one by one.", "text", 60)
    return scene


def _draw_edge(
    scene: Scene, graph: Graph, number: int, edge: Edge, line: Line, now: _Now, passes: int | None
) -> None:
    key, action = f"edge:{number}", _action(edge)
    formula = _formula(graph, edge, passes)
    lit = " lit" if edge.name in now.edges else " path" if edge.name in now.used else ""
    faint = " dim" if formula is None else ""
    scene.add(key, "path", f"{action}{lit}{faint}", title=_told(edge, formula), d=line.d)
    head(scene, f"{key}:head", f"{action}-head{faint}", line.tip, line.tail)


def _draw_label(
    scene: Scene, graph: Graph, number: int, edge: Edge, line: Line, now: _Now, passes: int | None
) -> None:
    """An edge's word, its formula and, where the step used it, what came of it."""
    key, action, word = f"edge:{number}", _action(edge), _word(graph, edge)
    formula = _formula(graph, edge, passes)
    title, faint = _told(edge, formula), " dim" if formula is None else ""
    lines = _cut(formula or ())
    top = line.y + (line.above - _tall(lines) if line.above else 0)
    said = "said-keep" if action == "store" else f"said-{action}"
    scene.add(f"{key}:word", "text", f"middle {said} halo{faint}", text=word, title=title,
              x=line.x, y=top)  # fmt: skip
    lit = edge.name in now.edges
    tests = {test.text: test for test in now.tests} if lit else {}
    for place, text in enumerate(lines):
        test = tests.get(formula[place]) if formula else None
        y = top + 14 * (place + 1)
        _draw_conjunct(scene, f"{key}:{place}", line.x, y, text, title, test)
    if lit:
        x = line.x + width_of(word, 12) * 1.05 / 2 + 9
        _draw_verdict(scene, key, x, top, now, action)


def _action(edge: Edge) -> str:
    """The kind of line an edge is drawn as."""
    return edge.action if edge.action in _ACTIONS else "take"


def _told(edge: Edge, formula: tuple[str, ...] | None) -> str:
    """An edge in words, for its tooltip."""
    told = "\n".join(formula or ()) or "no condition"
    return tip(f"{edge.name}: {edge.source} to {edge.target}\n{told}")


def _draw_conjunct(
    scene: Scene, key: str, x: float, y: float, text: str, title: str, test: Tested | None
) -> None:
    if test is None:
        scene.add(key, "text", "small middle halo", text=text, title=title, x=x, y=y)
        return
    colour = {True: " yes", False: " no", None: ""}[test.truth]
    scene.add(key, "text", f"small middle halo{colour}", text=text, title=tip(test.say()), x=x, y=y)
    tick(scene, f"{key}:mark", x - width_of(text, 11) * 1.06 / 2 - 9, y - 4, test.truth)


def _draw_verdict(scene: Scene, key: str, x: float, y: float, now: _Now, action: str) -> None:
    """What the step did on an edge: `e6 ✓ yes` of a test, a dot and `e6` of a move."""
    event = shortened(now.event, 8)
    wide = width_of(event, 11)
    if now.verdict is not None:
        scene.add(f"{key}:event", "text", "small", text=event, x=x - 3, y=y)
        tick(scene, f"{key}:mark", x + wide + 7, y - 4, now.verdict)
        answer = "yes" if now.verdict else "no"
        scene.add(f"{key}:answer", "text", f"small {answer}", text=answer, x=x + wide + 15, y=y)
        return
    if not event:
        return
    if action == "store":
        scene.add(f"{key}:mark", "rect", "square", x=x - 2, y=y - 8, width=8, height=8)
    elif action == "negate":
        tick(scene, f"{key}:mark", x + 2, y - 4, False)
    else:
        dot = "hollow" if action == "ignore" else "dot"
        scene.add(f"{key}:mark", "circle", dot, cx=x + 2, cy=y - 4, r=4)
    scene.add(f"{key}:event", "text", "text bold", text=event, x=x + 10, y=y)


def _draw_state(
    scene: Scene,
    graph: Graph,
    number: int,
    state: State,
    box: Box,
    here: Mapping[str, str],
    now: _Now,
    run: str | None,
) -> None:
    key = f"state:{number}"
    accepted = now.note == "match" and now.state == state.name
    past = graph.kind == "tree" and not here and state.kind in ("middle", "past")
    base = "accepted" if accepted else "negated" if state.kind == "negated" else "state"
    if past and not accepted and state.name not in now.path:
        base = "past"
    marks = " path" if state.name in now.path else ""
    marks += " selected" if run is not None and run in here else ""
    marks += " lit" if now.state == state.name and now.note in ("split", "drop", "merge") else ""
    title = tip(_about(graph, state))
    _outline(scene, key, box, 0, base + marks, title)
    if state.kind == "final":
        _outline(scene, f"{key}:ring", box, 4, "final", None)
    if state.kind == "start":
        up = graph.kind == "zstream"
        at = Point(box.x, box.y + box.height / 2) if up else Point(box.x - box.width / 2, box.y)
        tail = Point(at.x, at.y + 26) if up else Point(at.x - 28, at.y)
        d = f"M{tail.x:g},{tail.y:g} L{at.x:g},{at.y + 8:g}" if up else ""
        d = d or f"M{tail.x:g},{tail.y:g} L{at.x - 8:g},{at.y:g}"
        scene.add(f"{key}:start", "path", "start-arrow", d=d)
        head(scene, f"{key}:start:head", "ink-head", at, tail)
    if accepted:
        _diamond(scene, f"{key}:diamond", box.x, box.y, 13, "on-green")
    else:
        _draw_name(scene, graph, key, box, title, now, state.name)
    if state.choices:
        places = box.width / 2 * (0.72 if box.circle else 1) + 9
        choices = f"may split: {', '.join(state.choices)}"
        fork(scene, f"{key}:choices", box.x - places, box.y - box.height * 0.36 - 4, tip(choices))
    if now.state == state.name and now.note:
        _draw_note(scene, key, box, now)
    if here:
        shift = box.width / 2 * (0.72 if box.circle else 1) + (2 if box.circle else -4)
        told = _told_runs(graph, state, here)
        dim = run is not None and run not in here
        badge(scene, f"{key}:badge", box.x + shift, box.y - box.height * 0.42, len(here), told, dim)


def _draw_name(
    scene: Scene, graph: Graph, key: str, box: Box, title: str, now: _Now, name: str
) -> None:
    """The lines in a state: its name, then what it waits for (or, at a join, what it checks)."""
    joins = graph.kind == "zstream" and not box.circle
    rows = len(box.lines) + (joins and any(edge.target == name for edge in graph.edges))
    top = box.y + 5 - 7.5 * (rows - 1)
    scene.add(f"{key}:name", "text", "label middle", text=box.lines[0], title=title,
              x=box.x, y=top)  # fmt: skip
    targets = {edge.target for edge in graph.edges if edge.name in now.edges}
    tests = {t.text: t for t in now.tests} if graph.kind == "zstream" and name in targets else {}
    full = next((e.formula for e in graph.edges if e.target == name), ()) if tests else ()
    for place, text in enumerate(box.lines[1:]):
        test = tests.get(full[place]) if place < len(full) else None
        y = top + 15 * (place + 1)
        _draw_conjunct(scene, f"{key}:line:{place}", box.x, y, text, title, test)
    if joins and name in targets:
        _draw_verdict(scene, key, box.x - 26, top + 15 * (rows - 1), now, now.action)


def _outline(
    scene: Scene, key: str, box: Box, inset: float, classes: str, title: str | None
) -> None:
    if box.circle:
        scene.add(key, "circle", classes, title=title, cx=box.x, cy=box.y,
                  r=box.width / 2 - inset)  # fmt: skip
    else:
        scene.add(key, "rect", classes, title=title, x=box.x - box.width / 2 + inset,
                  y=box.y - box.height / 2 + inset, width=box.width - 2 * inset,
                  height=box.height - 2 * inset, rx=16 - inset)  # fmt: skip


def _diamond(
    scene: Scene, key: str, x: float, y: float, size: float, classes: str = "match"
) -> None:
    points = f"{x:g},{y - size:g} {x + size:g},{y:g} {x:g},{y + size:g} {x - size:g},{y:g}"
    scene.add(key, "polygon", classes, points=points)


def _draw_note(scene: Scene, key: str, box: Box, now: _Now) -> None:
    """What just happened to a run here, under the edge that leaves the state on the right."""
    x = box.x + box.width / 2 * (0.72 if box.circle else 1) + 12
    y = box.y + box.height * 0.42 + 4
    said = {"drop": "no", "match": "yes"}.get(now.note, "bold")
    words = {"split": f"split ({now.said})", "merge": f"merges {now.said}"}.get(now.note, now.said)
    scene.add(f"{key}:note", "text", f"text {said} halo", text=shortened(words, 24), x=x + 10, y=y)
    if now.note == "drop":
        tick(scene, f"{key}:note:mark", x, y - 4, False)
    elif now.note == "match":
        _diamond(scene, f"{key}:note:mark", x, y - 4, 6)
    else:
        fork(scene, f"{key}:note:mark", x, y - 4)


def _draw_counters(
    scene: Scene, graph: Graph, drawing: Drawing, snapshot: Snapshot, now: _Now
) -> None:
    """At the end of a tree's current path: how many events wait for each variable it lacks."""
    step = snapshot.step
    here = now.state or (_scope_state(snapshot, step, graph) if isinstance(step, Scope) else "")
    for number, (state, box) in enumerate(zip(graph.states, drawing.boxes, strict=True)):
        if state.name != here or not state.label or now.note:
            continue
        names = [(name, _prefix(here) + name) for name in state.label.split(", ")]
        told = [f"{name} {len(snapshot.buffers.get(held, ()))}" for name, held in names]
        x = box.x - box.width / 2 * (0.72 if box.circle else 1) - 4
        scene.add(f"state:{number}:counters", "text", "small end bold halo",
                  text=shortened(" · ".join(told)),
                  title=tip("events in the input buffers: " + ", ".join(told)),
                  x=x, y=box.y + box.height * 0.42 + 10)  # fmt: skip


def _scope_state(snapshot: Snapshot, step: Scope, graph: Graph) -> str:
    run = snapshot.runs.get(step.run)
    if run is not None:
        return run.state
    starts = [state.name for state in graph.states if state.kind == "start"]
    same = [name for name in starts if _prefix(name) == _prefix(step.buffer)]
    return same[0] if same else ""


def _about(graph: Graph, state: State) -> str:
    """A state in words, for its tooltip."""
    kinds = {"start": "where runs begin", "final": "where matches end",
             "negated": "an event here forbids the match"}  # fmt: skip
    parts = [state.name, kinds.get(state.kind, "")]
    verb = "is" if state.kind == "negated" else "waits for"
    verb = "checks" if graph.kind == "zstream" else verb
    parts += [f"{verb} {state.label}" if state.label else ""]
    parts += [f"may split: {', '.join(state.choices)}" if state.choices else ""]
    return ", ".join(filter(None, parts))


def _told_runs(graph: Graph, state: State, here: Mapping[str, str]) -> str:
    """The tooltip of a badge: the first runs with what they hold, then how many more."""
    thing = "partial match" if graph.kind == "zstream" else "live run"
    many = f"{thing}{'' if len(here) == 1 else 'es' if thing.endswith('h') else 's'}"
    lines = [f"{len(here)} {many} at {state.name}"]
    for name, held in [*here.items()][:LISTED]:
        lines.append(f"{name}: {shortened(held, 60)}" if held and held != name else name)
    rest = len(here) - LISTED
    return "\n".join([*lines, *([f"and {rest} more"] if rest > 0 else [])])


# ---- the legend ----


def _legend(graph: Graph, width: float) -> Scene:
    """One row (or more) that says what the kinds of lines in use mean."""
    used = {edge.action for edge in graph.edges}
    words = {"negate": "forbids", "take": "join" if graph.kind == "zstream" else "take"}
    items: list[tuple[str, str]] = [(action, words.get(action, action)) for action in _ACTIONS
                                    if action in used]  # fmt: skip
    if any(state.choices for state in graph.states):
        items.append(("fork", "may split"))
    items.append(("badge", "partial matches" if graph.kind == "zstream" else "live runs"))
    scene = Scene(0, 0)
    x, y, right = 12.0, 18.0, 0.0
    for kind, word in items:
        long = 48 + width_of(word, 11) + 16
        if x + long > max(width, 360) and x > 12:
            x, y = 12.0, y + 20
        _draw_sample(scene, kind, x, y)
        scene.add(f"{kind}:word", "text", "small", text=word, x=x + 44, y=y + 4)
        x += long
        right = max(right, x)
    scene.width, scene.height = right, y + 14
    return scene


def _draw_sample(scene: Scene, kind: str, x: float, y: float) -> None:
    if kind == "fork":
        fork(scene, "fork", x + 28, y)
    elif kind == "badge":
        badge(scene, "badge", x + 26, y, 2, "how many runs are in a state", False)
    else:
        scene.add(kind, "path", kind, d=f"M{x:g},{y:g} L{x + 28:g},{y:g}")
        head(scene, f"{kind}:head", f"{kind}-head", Point(x + 38, y), Point(x, y))


# ---- graphs too large to read ----


@lru_cache(maxsize=16)
def _depths(states: tuple[State, ...], edges: tuple[Edge, ...]) -> Mapping[str, int]:
    """How many edges a state is away from where runs begin."""
    follow: dict[str, list[str]] = {}
    for edge in edges:
        follow.setdefault(edge.source, []).append(edge.target)
    depth = {state.name: 0 for state in states if state.kind == "start"}
    front = list(depth)
    while front:
        found = []
        for name in front:
            for target in follow.get(name, ()):
                if target not in depth:
                    depth[target] = depth[name] + 1
                    found.append(target)
        front = found
    return {state.name: depth.get(state.name, 0) for state in states}


#: Live states shown in a column of a graph that is summed up.
ROWS = 6


def _summed_up(
    graph: Graph, occupants: Mapping[str, Mapping[str, str]], now: _Now, run: str | None, say: str
) -> Scene:
    """A large graph in columns by depth: how many states there are, and which live now."""
    depths = _depths(graph.states, graph.edges)
    columns: dict[int, list[State]] = {}
    for state in graph.states:
        columns.setdefault(depths[state.name], []).append(state)
    wide, gap, top, row = 148, 64, 40, 34
    legend = _legend(graph, len(columns) * (wide + gap))
    width = len(columns) * (wide + gap) + 48
    scene = Scene(max(width, legend.width), top + (ROWS + 2) * row + legend.height + 8, say)
    title = f"{len(graph.states)} states: those with live runs, by depth"
    scene.label("title", 16, 18, title, "label", 60)
    crossed = {(depths[e.source], depths[e.target]) for e in graph.edges if e.name in now.edges}
    for left, right in pairwise(sorted(columns)):
        x = 16 + left * (wide + gap) + wide
        lit = " lit" if (left, right) in crossed else ""
        y = top + row / 2
        scene.add(f"step:{left}", "path", f"take{lit}", d=f"M{x + 4},{y:g} L{x + gap - 12},{y:g}")
        head(scene, f"step:{left}:head", "take-head", Point(x + gap - 4, y), Point(x, y))
        if lit:
            word = shortened(f"{now.action} {now.event}".strip(), 14)
            scene.add(f"step:{left}:word", "text", "text middle", text=word, x=x + gap / 2 - 4,
                      y=y - 8)  # fmt: skip
            if now.verdict is not None:
                tick(scene, f"step:{left}:mark", x + gap / 2 - 12, y + 14, now.verdict)
                answer = "yes" if now.verdict else "no"
                scene.add(f"step:{left}:answer", "text", f"small {answer}", text=answer,
                          x=x + gap / 2 - 4, y=y + 18)  # fmt: skip
    for depth, states in columns.items():
        x = 16 + depth * (wide + gap)
        runs = sum(len(occupants.get(state.name, {})) for state in states)
        scene.add(f"column:{depth}", "rect", "state", x=x, y=top, width=wide, height=row, rx=8)
        many = f"{len(states)} state{'' if len(states) == 1 else 's'}"
        scene.add(f"column:{depth}:name", "text", "label middle", text=many, x=x + wide / 2 - 12,
                  y=top + 21, title=f"depth {depth}: {many}, {runs} live runs")  # fmt: skip
        if runs:
            badge(
                scene,
                f"column:{depth}:badge",
                x + wide - 20,
                top + row / 2,
                runs,
                f"{runs} live runs",
                False,
            )
        shown = [s for s in states if s.name == now.state or s.name in now.path]
        others = [s for s in states if occupants.get(s.name) and s not in shown]
        shown += sorted(others, key=lambda s: -len(occupants[s.name]))
        for slot, state in enumerate(shown[:ROWS]):
            y = top + (slot + 1) * row + 6
            box = Box(x + wide / 2, y + 12, wide - 12, 24, False, (shortened(state.name, 17),))
            here = occupants.get(state.name, {})
            _draw_slot(scene, f"slot:{depth}:{slot}", graph, state, box, here, now, run)
        if len(shown) > ROWS:
            y = top + (ROWS + 1) * row + 20
            scene.add(f"column:{depth}:more", "text", "small middle", x=x + wide / 2, y=y,
                      text=f"and {len(shown) - ROWS} more")  # fmt: skip
    scene.place("legend:", legend, 0, scene.height - legend.height)
    return scene


def _draw_slot(
    scene: Scene,
    key: str,
    graph: Graph,
    state: State,
    box: Box,
    here: Mapping[str, str],
    now: _Now,
    run: str | None,
) -> None:
    accepted = now.note == "match" and now.state == state.name
    classes = "accepted" if accepted else "cell"
    classes += " path" if state.name in now.path else ""
    classes += " selected" if run in here or now.state == state.name else ""
    scene.add(key, "rect", classes, title=tip(_about(graph, state)), x=box.x - box.width / 2,
              y=box.y - 12, width=box.width, height=24, rx=6)  # fmt: skip
    text = "text middle on-green" if accepted else "text middle"
    scene.add(f"{key}:name", "text", text, text=box.lines[0], x=box.x, y=box.y + 4)
    if here:
        told = _told_runs(graph, state, here)
        dim = run is not None and run not in here
        badge(scene, f"{key}:badge", box.x + box.width / 2, box.y - 8, len(here), told, dim)
    if now.note and now.state == state.name:
        x, y = box.x + box.width / 2 + 12, box.y + 8
        tick(scene, f"{key}:mark", x, y - 4, now.note == "match") if now.note in (
            "match", "drop") else fork(scene, f"{key}:mark", x, y - 4)  # fmt: skip
        said = now.said if now.note != "split" else "split"
        colour = {"drop": "no", "match": "yes"}.get(now.note, "bold")
        scene.add(f"{key}:note", "text", f"small {colour}", text=shortened(said, 12), x=x + 8, y=y)


# ---- as text ----


def automaton_text(trace: Trace, index: int | None = None) -> str:
    """The automaton for a terminal: states with their runs and edges, the edge just used marked.

    A `*` stands before the edge that the step used, with the verdict of a test behind it.
    """
    graph = trace.graph
    snapshot = trace.at(-1 if index is None else index) if len(trace) or index else None
    now = _Now() if snapshot is None else _now(trace, snapshot, None)
    occupants = _occupants(trace, snapshot)
    states: Sequence[State] = graph.states
    lines = []
    if len(states) > MOST_STATES:
        states = [s for s in states if occupants.get(s.name) or s.name == now.state]
        lines.append(f"{len(states)} of {len(graph.states)} states are in use:")
    names = [shortened(state.name, 20) for state in states]
    labels = [shortened(state.label, 16) for state in states]
    across = max(map(len, names), default=0)
    along = max(map(len, labels), default=0)
    for state, name, label in zip(states, names, labels, strict=True):
        here = occupants.get(state.name, {})
        count = f"{len(here)} run{'' if len(here) == 1 else 's'}" if here else "-"
        sign = {"start": ">", "final": "F", "negated": "~"}.get(state.kind, " ")
        going = "  ".join(
            _told_edge(graph, edge, now) for edge in graph.edges if edge.source == state.name
        )
        note = (
            f"  <- {now.note}: {shortened(now.said, 40)}"
            if now.note and now.state == state.name
            else ""
        )
        row = f"{sign} {name:{across}}  {label:{along}}  {count:7}  {going}{note}"
        lines.append(row.rstrip())
    if not graph.states:
        lines.append("This engine has no automaton.")
    said = "Nothing has arrived yet." if snapshot is None else snapshot.say()
    return "\n".join([*lines, shortened(said, 400)])


def _told_edge(graph: Graph, edge: Edge, now: _Now) -> str:
    where = "(loop)" if edge.source == edge.target else f"-> {shortened(edge.target, 20)}"
    told = f"{_word(graph, edge)} {where}"
    if edge.name not in now.edges:
        return told
    verdict = {True: "? yes", False: "? no", None: ""}[now.verdict]
    return f"*{told} {shortened(now.event, 12)}{verdict}*"
