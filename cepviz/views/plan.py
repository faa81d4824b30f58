"""Plan: an order as a chain or a tree of joins, with what really went through every node."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cepviz.language.build import as_pattern
from cepviz.language.pattern import Pattern
from cepviz.plans.plan import Order, Plan, Split, Tree, follows
from cepviz.trace import Trace
from cepviz.views.marks import LONGEST_TITLE, compact, tick
from cepviz.views.plan_numbers import Node, about, nodes_of, percent
from cepviz.views.scene import Scene, shortened
from cepviz.views.timeline_page import pattern_of

BOX, HIGH, GAP = 178, 112, 46
BARS = 66  # the longest bar of an estimate
#: An estimate that is this many times too high or too low is marked.
FAR_OFF = 4


def plan(
    source: Trace | Plan,
    index: int | None = None,
    *,
    pattern: Pattern | str | None = None,
    counts: Mapping[str, int] | None = None,
    expected: Mapping[str, float] | None = None,
) -> Scene:
    """Draws the order or the tree in which a pattern is evaluated, with real numbers in it.

    From a trace come the events of each type, how often each node was tried and how often it
    passed, up to the step `index`; after a replan, since then. `counts` gives the events by type
    where there is no trace. `expected` is what a cost model expects to come out of a node, by
    its name, `b` or `(a b)`; in a trace of plans that adapt it follows from the statistics the
    plan was made from. Each branch of an OR has its own row.
    """
    chosen, branches, say = _at(source, index, pattern, counts, expected)
    order = not follows(chosen, Tree)
    estimates = _Estimates([node for nodes in branches for node in nodes])
    high = estimates.high
    sizes = [_row_size(nodes, high) if order else _tree_size(nodes[0], high) for nodes in branches]
    scene = Scene(max([320, *(w for w, _ in sizes)]), sum(h for _, h in sizes), say)
    y = 0.0
    for number, (nodes, (_, height)) in enumerate(zip(branches, sizes, strict=True), 1):
        key = f"{number}:" if len(branches) > 1 else ""
        if order:
            _row(scene, nodes, estimates, key, y)
        else:
            _tree(scene, nodes[0], estimates, key, y)
        y += height
    return scene


def plan_text(
    source: Trace | Plan,
    index: int | None = None,
    *,
    pattern: Pattern | str | None = None,
    counts: Mapping[str, int] | None = None,
    expected: Mapping[str, float] | None = None,
) -> str:
    """The plan in letters, as a database's EXPLAIN ANALYZE would print it.

    >>> from cepviz.plans.plan import Tree
    >>> print(plan_text(Tree((("a", "b"), "c"))))
    Tree ((a b) c).
    join ((a b) c)
      join (a b)
        a
        b
      c
    """
    chosen, branches, say = _at(source, index, pattern, counts, expected)
    lines = [say]

    def tell(node: Node, depth: int) -> None:
        facts = "; ".join(node.all_lines())
        name = shortened(node.title, 60)
        lines.append(f"{'  ' * depth}{name}{f'  ({facts})' if facts else ''}")
        for part in node.parts:
            tell(part, depth + 1)

    for number, nodes in enumerate(branches, 1):
        if len(branches) > 1:
            lines.append(f"branch {number}")
        for place, node in enumerate(nodes):
            tell(node, 0 if follows(chosen, Tree) else place)
    return "\n".join(lines)


def _at(
    source: Trace | Plan,
    index: int | None,
    pattern: Pattern | str | None,
    counts: Mapping[str, int] | None,
    expected: Mapping[str, float] | None,
) -> tuple[Plan, list[list[Node]], str]:
    known = as_pattern(pattern) if pattern is not None else None
    if known is None and isinstance(source, Trace):
        known = pattern_of(source)
    chosen, branches, note = nodes_of(source, index, known, counts, expected)
    kind = next(k for k in (Order, Tree, Split) if follows(chosen, k))
    return chosen, branches, f"{kind.__name__} {chosen}{note}."


class _Estimates:
    """What a cost model expects of each node, and the one scale on which all bars are drawn."""

    def __init__(self, nodes: list[Node]):
        most, waiting, known, told = 1.0, list(nodes), False, False
        while waiting:
            node = waiting.pop()
            known, told = known or node.expected is not None, told or bool(node.lines())
            most = max(most, node.expected or 0, node.actual or 0)
            waiting += node.parts
        #: How high a box is above its estimates, and in all. A plan alone has names only.
        self.body = HIGH if told or not known else 34
        self.high = self.body + ((66 if told else 28) if known else 0)
        self.most = math.log10(1 + most)

    def bar(self, number: float) -> float:
        """Its length on a scale of powers of ten: estimates are right or wrong by factors."""
        return round(max(1.5, BARS * math.log10(1 + number) / self.most), 1)

    def draw(self, scene: Scene, node: Node, key: str, x: float, y: float) -> None:
        """Two bars, one below the other: expected hollow, actual filled, and how far apart."""
        expected = node.expected
        if expected is None:
            return
        scene.add(f"{key}:line", "line", "grid", x1=x + 1, y1=y, x2=x + BOX - 1, y2=y)
        rows = [("expected", expected, about(expected), "other-side")]
        if node.actual is not None:
            rows.append(("actual", node.actual, compact(node.actual), "watched"))
        for place, (word, number, text, classes) in enumerate(rows):
            at = y + 12 + 18 * place
            scene.label(f"{key}:{word}", x + 12, at + 7, word, "small")
            long = self.bar(number)
            scene.add(f"{key}:{word}:bar", "rect", classes, x=x + 68, y=at - 1, width=long,
                      height=8)  # fmt: skip
            scene.label(f"{key}:{word}:number", x + 72 + long, at + 7, text, "small")
        words, far = _apart(node.actual, expected)
        if far:
            tick(scene, f"{key}:far", x + 17, y + 52, False)
        shift = 28 if far else 12
        scene.label(f"{key}:off", x + shift, y + 56, words, "small no" if far else "small")


def _box(scene: Scene, node: Node, estimates: _Estimates, branch: str, x: float, y: float) -> None:
    key = f"node:{branch}{node.name}"
    lines = node.lines()
    title = shortened(". ".join([node.title, *node.all_lines()]), LONGEST_TITLE)
    scene.add(key, "rect", "state", x=x, y=y, width=BOX, height=estimates.high, rx=8, title=title)
    estimates.draw(scene, node, key, x, y + estimates.body)
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
        scene.label(f"{key}:share", x + BOX - 10, y + 7, percent(share), "small end")


def _row_size(nodes: list[Node], high: float) -> tuple[float, float]:
    return 24 + len(nodes) * (BOX + GAP) - GAP, high + 24


def _row(scene: Scene, nodes: list[Node], estimates: _Estimates, branch: str, top: float) -> None:
    for place, node in enumerate(nodes):
        x, y = 12 + place * (BOX + GAP), top + 12
        _box(scene, node, estimates, branch, x, y)
        if place:
            key = f"flow:{branch}{nodes[place - 1].name}:{node.name}"
            middle = y + estimates.body / 2
            start = x - GAP + 3
            path = f"M{start},{middle}H{x - 4}m-7,-5l7,5l-7,5"
            scene.add(key, "path", "take", d=path)
            out = nodes[place - 1].out
            text = compact(out) if out is not None else ""
            scene.label(f"{key}:text", x - GAP / 2, middle - 7, text, "small middle")


STEP = 44  # between two levels of a tree


def _tree_size(root: Node, high: float) -> tuple[float, float]:
    """Places the nodes, and gives the size of the whole."""
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
    return 24 + len(leaves) * (BOX + 22) - 22, 24 + levels * (high + STEP) + high


def _tree(scene: Scene, root: Node, estimates: _Estimates, branch: str, above: float) -> None:
    high = estimates.high

    def top(node: Node) -> float:
        return above + 12 + (root.y - node.y) * (high + STEP)

    def draw(node: Node) -> None:
        for part in node.parts:
            x1, y1 = part.x + BOX / 2, top(part)
            x2, y2 = node.x + BOX / 2, top(node) + high
            path = f"M{x1:g},{y1:g}C{x1:g},{y1 - 24:g} {x2:g},{y2 + 24:g} {x2:g},{y2 + 2:g}"
            key = f"flow:{branch}{part.name}:{node.name}"
            scene.add(key, "path", "take", d=path)
            flow = part.out if part.parts else part.kept
            text = compact(flow) if flow is not None else ""
            # Beside the foot of the line, away from its bend.
            x = x1 - 8 if x1 < x2 - 1 else x1 + 8
            anchor = "small end" if x < x1 else "small"
            scene.label(f"{key}:text", x, y1 - 8, text, anchor)
            draw(part)
        _box(scene, node, estimates, branch, node.x, top(node))

    draw(root)


def _apart(actual: int | None, expected: float) -> tuple[str, bool]:
    """How far an estimate was off in words, and whether that is far."""
    if actual is None:
        return "", False
    if not actual and expected < 1:
        return "as expected", False
    if not actual or not expected:
        return "none came" if expected else "none were expected", True
    times = max(actual / expected, expected / actual)
    if times < 1.05:
        return "as expected", False
    told = f"{times:.2g}" if times < 10 else compact(round(times))
    return f"{told} times {'more' if actual > expected else 'fewer'}", times >= FAR_OFF
