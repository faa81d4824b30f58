"""Plan: an order as a chain or a tree of joins, with what really went through every node."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cepviz.errors import CepError, PlanError
from cepviz.language.build import as_pattern
from cepviz.language.pattern import Pattern
from cepviz.plans.plan import Order, Tree
from cepviz.steps import Arrive, Move, Put, Replan, Test
from cepviz.trace import Trace
from cepviz.views.marks import LONGEST_TITLE
from cepviz.views.scene import Scene, remembered, shortened
from cepviz.views.timeline_page import pattern_of

BOX, HIGH, GAP = 178, 112, 46


@dataclass
class Node:
    """A node of a plan: a variable, or a join of two parts."""

    name: str
    title: str
    type: str = ""
    parts: tuple[Node, ...] = ()
    tried: int | None = None
    passed: int | None = None
    events: int | None = None
    kept: int | None = None
    out: int | None = None
    x: float = 0
    y: float = 0

    def lines(self, expected: float | None) -> list[str]:
        """What is known about the node, one thing a line."""
        told = []
        if self.type:
            told.append(f"{_count(self.events, 'event')}" if self.events is not None else "")
        if self.kept is not None and self.tried is None:
            told.append(f"{self.kept:,} kept{_share(self.kept, self.events)}")
        if self.tried is not None and self.passed is not None:
            told.append(f"{self.passed:,} of {self.tried:,} passed")
        if self.out is not None:
            told.append(f"{_count(self.out, 'run')} out")
        if expected is not None:
            told.append(f"{expected:,.4g} expected{_off(self.out, expected)}")
        return [line for line in told if line]


def plan(
    source: Trace | Order | Tree,
    index: int | None = None,
    *,
    pattern: Pattern | str | None = None,
    counts: Mapping[str, int] | None = None,
    expected: Mapping[str, float] | None = None,
) -> Scene:
    """Draws the order or the tree in which a pattern is evaluated, with real numbers in it.

    From a trace come the events of each type, how often each node was tried and how often it
    passed, up to the step `index`. `counts` gives the events by type where there is no trace;
    `expected` what a cost model expects to come out of a node, by its name: `b` or `(a b)`.
    """
    chosen, root, note = _nodes(source, index, pattern, counts)
    say = f"{'Order' if isinstance(chosen, Order) else 'Tree'} {chosen}{note}."
    expected = expected or {}
    if isinstance(chosen, Order):
        return _chain(root, say, expected)
    return _tree(root[0], say, expected)


def plan_text(
    source: Trace | Order | Tree,
    index: int | None = None,
    *,
    pattern: Pattern | str | None = None,
    counts: Mapping[str, int] | None = None,
    expected: Mapping[str, float] | None = None,
) -> str:
    """The plan in letters, as a database's EXPLAIN ANALYZE would print it.

    >>> print(plan_text(Tree((("a", "b"), "c"))))
    Tree ((a b) c).
    join ((a b) c)
      join (a b)
        a
        b
      c
    """
    chosen, root, note = _nodes(source, index, pattern, counts)
    lines = [f"{'Order' if isinstance(chosen, Order) else 'Tree'} {chosen}{note}."]

    def tell(node: Node, depth: int) -> None:
        facts = "; ".join(node.lines((expected or {}).get(node.name)))
        name = shortened(node.title, 60)
        lines.append(f"{'  ' * depth}{name}{f'  ({facts})' if facts else ''}")
        for part in node.parts:
            tell(part, depth + 1)

    for place, node in enumerate(root):
        tell(node, place if isinstance(chosen, Order) else 0)
    return "\n".join(lines)


# ---- what goes through the nodes ----


def as_plan(text: str) -> Order | Tree:
    """The plan that a text stands for.

    >>> as_plan("c, a, b"), as_plan("((a b) c)")
    (Order('c', 'a', 'b'), Tree((('a', 'b'), 'c')))
    """
    if "(" not in text:
        return Order(*(name.strip() for name in text.split(",") if name.strip()))
    words = re.findall(r"[()]|[^\s()]+", text)
    stack: list[list[Any]] = [[]]
    for word in words:
        if word == "(":
            stack.append([])
        elif word == ")" and len(stack) > 1:
            done = stack.pop()
            stack[-1].append(tuple(done))
        else:
            stack[-1].append(word)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise PlanError(f"{shortened(text, 80)!r} is no plan: write c, a, b or ((a b) c)")
    return Tree(stack[0][0])


@dataclass
class Measured:
    """The steps that concern each node, so that any moment of a trace can be counted."""

    arrived: dict[str, list[int]] = field(default_factory=dict)
    tried: dict[str, list[int]] = field(default_factory=dict)
    passed: dict[str, list[int]] = field(default_factory=dict)
    out: dict[str, list[int]] = field(default_factory=dict)
    kept: dict[str, list[int]] = field(default_factory=dict)


def _measured(trace: Trace) -> Measured:
    """Which node a step belongs to: the edge says it, by its variable or by where it leads."""
    tree = trace.graph.kind == "zstream"
    edges = trace.graph.edges
    nodes = {edge.name: _bare(edge.target if tree else edge.variable) for edge in edges}
    begins = {edge.source: edge.variable for edge in edges if edge.action == "begin"}
    # To proceed out of a loop is to try whether the next variable may begin.
    nodes |= {e.name: begins.get(e.target, "") for e in edges if e.action == "proceed"}
    found = Measured()

    def note(table: dict[str, list[int]], name: str, index: int) -> None:
        table.setdefault(name, []).append(index)

    for index, step in enumerate(trace):
        match step:
            case Arrive():
                note(found.arrived, step.type, index)
            case Put():
                note(found.kept, _bare(step.buffer), index)
            case Test():
                name = nodes.get(step.edge, "")
                note(found.tried, name, index)
                if step.passed:
                    note(found.passed, name, index)
            case Move() if step.action in ("begin", "take"):
                # The last move of a tree leads from its root to the final state.
                name = nodes.get(step.edge, "")
                if not tree or name == _bare(step.target):
                    note(found.out, name, index)
    return found


def _bare(name: str) -> str:
    """A name without the number of its branch: `2:(a b)` is `(a b)`."""
    number, colon, rest = name.partition(":")
    return rest if colon and number.isdigit() else name


def _nodes(
    source: Any,
    index: int | None,
    pattern: Pattern | str | None,
    counts: Mapping[str, int] | None,
) -> tuple[Order | Tree, list[Node], str]:
    trace = source if isinstance(source, Trace) else None
    if trace is None and not isinstance(source, Order | Tree):
        raise CepError(f"plan shows a Trace, an Order or a Tree, not {type(source).__name__}")
    known = as_pattern(pattern) if pattern is not None else pattern_of(trace) if trace else None
    note = ""
    if trace is not None:
        index = range(len(trace))[-1 if index is None else index] if len(trace) else -1
        chosen, note = _plan_at(trace, index, known)
    else:
        chosen = source
    types = {v.name: v.type for v in known.variables.values()} if known else {}
    kleene = {v.name for v in known.variables.values() if v.kleene} if known else set()
    measured = remembered(trace, "measured", lambda: _measured(trace)) if trace else Measured()

    def count(table: dict[str, list[int]], name: str) -> int | None:
        if trace is None or index is None:
            return None
        return bisect_right(table.get(name, []), index)

    def leaf(name: str, title: str, tested: bool) -> Node:
        type = types.get(name, "")
        node = Node(name, title, type)
        node.events = count(measured.arrived, type) if type else None
        if counts is not None and type:
            node.events = counts.get(type, 0)
        if tested and name in measured.tried:
            node.tried, node.passed = count(measured.tried, name), count(measured.passed, name)
            node.out = count(measured.out, name)
        elif name in measured.kept:
            node.kept = count(measured.kept, name)
        return node

    def variable(name: str) -> str:
        shown = f"{name}[]" if name in kleene else name
        return f"{shown}: {types[name]}" if name in types else shown

    def join(shape: Any) -> Node:
        if isinstance(shape, str):
            return leaf(shape, variable(shape), False)
        parts = tuple(join(part) for part in shape)
        name = f"({parts[0].name} {parts[1].name})"
        node = Node(name, f"join {name}", parts=parts)
        if name in measured.tried:
            node.tried, node.passed = count(measured.tried, name), count(measured.passed, name)
            node.out = count(measured.out, name)
        return node

    if isinstance(chosen, Tree):
        return chosen, [join(chosen.shape)], note
    listed = enumerate(chosen.names, 1)
    return chosen, [leaf(name, f"{n}. {variable(name)}", True) for n, name in listed], note


def _plan_at(trace: Trace, index: int, pattern: Pattern | None) -> tuple[Order | Tree, str]:
    text = trace.plan
    for step in trace.steps[: index + 1] if index >= 0 else ():
        if isinstance(step, Replan):
            text = step.after
    if text:
        return as_plan(text), ""
    names = [v.name for v in pattern.variables.values() if not v.negated] if pattern else []
    if not names:
        raise CepError("this trace has neither a plan nor a pattern that could be read")
    return Order(*names), ", as the pattern is written (this engine has no plan of its own)"


# ---- drawing ----


def _box(scene: Scene, node: Node, x: float, y: float, expected: Mapping[str, float]) -> None:
    key = f"node:{node.name}"
    lines = node.lines(expected.get(node.name))
    title = shortened(". ".join([node.title, *lines]), LONGEST_TITLE)
    scene.add(key, "rect", "state", x=x, y=y, width=BOX, height=HIGH, rx=8, title=title)
    scene.label(f"{key}:name", x + 12, y + 21, node.title, "label", most=20)
    for number, line in enumerate(lines):
        scene.label(f"{key}:{number}", x + 12, y + 39 + number * 15, line, "small", most=24)
    tried, passed = node.tried, node.passed
    if tried is None:
        tried, passed = node.events, node.kept
    if tried is not None and passed is not None:
        # A bar of what was tried, filled as far as it passed.
        share = passed / tried if tried else 0.0
        y += HIGH - 13
        scene.add(f"{key}:all", "rect", "cell", x=x + 12, y=y, width=BOX - 66, height=6)
        filled = round((BOX - 66) * min(share, 1.0), 1)
        scene.add(f"{key}:part", "rect", "dot", x=x + 12, y=y, width=filled, height=6)
        scene.label(f"{key}:share", x + BOX - 10, y + 7, _percent(share), "small end")


def _chain(nodes: list[Node], say: str, expected: Mapping[str, float]) -> Scene:
    width = 24 + len(nodes) * (BOX + GAP) - GAP
    scene = Scene(max(width, 320), HIGH + 24, say)
    for place, node in enumerate(nodes):
        x, y = 12 + place * (BOX + GAP), 12
        _box(scene, node, x, y, expected)
        if place:
            key = f"flow:{nodes[place - 1].name}:{node.name}"
            middle = y + HIGH / 2
            start = x - GAP + 3
            path = f"M{start},{middle}H{x - 4}m-7,-5l7,5l-7,5"
            scene.add(key, "path", "take", d=path)
            out = nodes[place - 1].out
            text = _compact(out) if out is not None else ""
            scene.label(f"{key}:text", x - GAP / 2, middle - 7, text, "small middle")
    return scene


def _tree(root: Node, say: str, expected: Mapping[str, float]) -> Scene:
    leaves: list[Node] = []

    def height(node: Node) -> int:
        if not node.parts:
            node.x = 12 + len(leaves) * (BOX + 22)
            leaves.append(node)
            return 0
        tall = 1 + max(height(part) for part in node.parts)
        node.x = sum(part.x for part in node.parts) / len(node.parts)
        node.y = tall
        return tall

    levels = height(root)
    step = HIGH + 44
    scene = Scene(24 + len(leaves) * (BOX + 22) - 22, 24 + levels * step + HIGH, say)

    def top(node: Node) -> float:
        return 12 + (levels - node.y) * step

    def draw(node: Node) -> None:
        for part in node.parts:
            x1, y1 = part.x + BOX / 2, top(part)
            x2, y2 = node.x + BOX / 2, top(node) + HIGH
            path = f"M{x1:g},{y1:g}C{x1:g},{y1 - 24:g} {x2:g},{y2 + 24:g} {x2:g},{y2 + 2:g}"
            scene.add(f"flow:{part.name}:{node.name}", "path", "take", d=path)
            flow = part.out if part.parts else part.kept
            text = _compact(flow) if flow is not None else ""
            # Beside the foot of the line, away from its bend.
            x = x1 - 8 if x1 < x2 - 1 else x1 + 8
            anchor = "small end" if x < x1 else "small"
            scene.label(f"flow:{part.name}:{node.name}:text", x, y1 - 8, text, anchor)
            draw(part)
        _box(scene, node, node.x, top(node), expected)

    draw(root)
    return scene


# ---- words ----


def _count(number: int | None, word: str) -> str:
    return "" if number is None else f"{number:,} {word}{'' if number == 1 else 's'}"


def _share(part: int, whole: int | None) -> str:
    return f", {_percent(part / whole)}" if whole else ""


def _percent(share: float) -> str:
    percent = share * 100
    return f"{percent:.0f}%" if percent >= 10 or percent == 0 else f"{percent:.2g}%"


def _off(actual: int | None, expected: float) -> str:
    """How many times as many there were as expected."""
    return f" (×{actual / expected:.2g})" if expected and actual is not None else ""


def _compact(number: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= size:
            unit = 10**3 if letter == "k" else size
            return f"{number / unit:.3g}{letter}"
    return f"{number:,}"
