"""What went through every node of a plan, at any step of a trace, and what was to be expected."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from cepviz.errors import CepError, PlanError
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import window_size
from cepviz.plans.cost import expected as expected_by_cost
from cepviz.plans.plan import Branched, Order, Plan, Split, Tree
from cepviz.plans.statistics import Statistics
from cepviz.steps import Arrive, Move, Put, Replan, Stats, Test
from cepviz.trace import Trace
from cepviz.views.marks import compact
from cepviz.views.scene import remembered, shortened


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
    expected: float | None = None
    x: float = 0
    y: float = 0

    @property
    def actual(self) -> int | None:
        """What really came out: runs, or the events that were kept of a leaf of a tree."""
        return self.kept if self.out is None else self.out

    def lines(self) -> list[str]:
        """What went through the node, one thing a line."""
        told = []
        if self.type:
            told.append(_count(self.events, "event"))
        if self.kept is not None and self.tried is None:
            told.append(f"{self.kept:,} kept{_share(self.kept, self.events)}")
        if self.tried is not None and self.passed is not None:
            told.append(f"{self.passed:,} of {self.tried:,} passed")
        if self.out is not None:
            told.append(f"{_count(self.out, 'run')} out")
        return [line for line in told if line]

    def all_lines(self) -> list[str]:
        """The same, and what was expected."""
        if self.expected is None:
            return self.lines()
        off = _off(self.actual, self.expected)
        return [*self.lines(), f"{about(self.expected)} expected{off}"]


def _count(number: int | None, word: str) -> str:
    return "" if number is None else f"{number:,} {word}{'' if number == 1 else 's'}"


def _share(part: int, whole: int | None) -> str:
    return f", {percent(part / whole)}" if whole else ""


def percent(share: float) -> str:
    """A share in per cent, with two digits where it is small."""
    number = share * 100
    return f"{number:.0f}%" if number >= 10 or number == 0 else f"{number:.2g}%"


def _off(actual: int | None, expected: float) -> str:
    """How many times as many there were as expected."""
    return f" (×{actual / expected:.2g})" if expected and actual is not None else ""


def about(number: float) -> str:
    """A number that is only an estimate: three digits, and no more of them than it has."""
    return compact(round(number)) if number >= 100 else f"{number:.3g}"


def as_plan(text: str, names: Collection[str] = ()) -> Plan:
    """The plan that a text stands for; `names` tells the variable `bid` from b, i and d.

    >>> as_plan("c, a, b"), as_plan("((a b) c)"), as_plan("bc/a")
    (Order('c', 'a', 'b'), Tree((('a', 'b'), 'c')), Split('bc', 'a'))
    """
    if " | " in text:
        parts: Any = tuple(as_plan(part, names) for part in text.split(" | "))
        return Branched(parts)
    if "/" in text:
        groups = (group.strip() for group in text.split("/", 1))
        return Split(*((group,) if group in names else group for group in groups))
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
class Epoch:
    """The time of one plan in a trace: from which step, and how the names of its runs begin."""

    start: int
    text: str | None
    label: str = ""
    stats: Mapping[str, float] | None = None


#: Of which plan and which branch a name is, and the name itself.
Key = tuple[str, str, str]


@dataclass
class Measured:
    """The steps that concern each node, so that any moment of a trace can be counted."""

    epochs: list[Epoch]
    arrivals: list[int] = field(default_factory=list)  # every event, and when it was
    times: list[float] = field(default_factory=list)
    arrived: dict[str, list[int]] = field(default_factory=dict)
    tried: dict[Key, list[int]] = field(default_factory=dict)
    passed: dict[Key, list[int]] = field(default_factory=dict)
    out: dict[Key, list[int]] = field(default_factory=dict)
    kept: dict[Key, list[int]] = field(default_factory=dict)


def _epochs(trace: Trace) -> list[Epoch]:
    epochs = [Epoch(-1, trace.plan)]
    stats: Mapping[str, float] | None = None
    for index, step in enumerate(trace):
        if isinstance(step, Stats):
            stats = step.values
        elif isinstance(step, Replan):
            if epochs[-1].text is None:
                epochs[-1].text = step.before
            if step.after != epochs[-1].text:
                epochs.append(Epoch(index, step.after, step.label, stats))
    return epochs


def measured(trace: Trace) -> Measured:
    """Which node a step belongs to: the edge says it, by its variable or by where it leads."""
    found = Measured(_epochs(trace))
    labels = {epoch.label for epoch in found.epochs}
    edges = trace.graph.edges
    joins = {edge.name for edge in edges if edge.name.startswith("join ")}
    nodes = {e.name: e.target if e.name in joins else e.variable for e in edges}
    begins = {edge.source: edge.variable for edge in edges if edge.action == "begin"}
    # To proceed out of a loop is to try whether the next variable may begin.
    nodes |= {e.name: begins.get(e.target, "") for e in edges if e.action == "proceed"}
    keys: dict[str, list[Key]] = {}
    for edge in edges:
        label, branch, _ = _parted(edge.source, labels)
        name = _parted(nodes[edge.name], labels)[2]
        keys[edge.name] = _keys(label, branch, name)

    def note(table: dict[Key, list[int]], listed: list[Key], index: int) -> None:
        for key in listed:
            table.setdefault(key, []).append(index)

    for index, step in enumerate(trace):
        match step:
            case Arrive():
                found.arrived.setdefault(step.type, []).append(index)
                found.arrivals.append(index)
                found.times.append(step.end)
            case Put():
                note(found.kept, _keys(*_parted(step.buffer, labels)), index)
            case Test():
                listed = keys.get(step.edge, [])
                note(found.tried, listed, index)
                if step.passed:
                    note(found.passed, listed, index)
            case Move() if step.action in ("begin", "take"):
                # The last move of a tree leads from its root to the final state.
                listed = keys.get(step.edge, [])
                name = _parted(step.target, labels)[2]
                if step.edge not in joins or any(key[2] == name for key in listed):
                    note(found.out, listed, index)
    return found


def _keys(label: str, branch: str, name: str) -> list[Key]:
    """Under what a node is counted: in all branches of a plan, and in its own."""
    return [(label, "", name), *([(label, branch, name)] if branch else [])]


def _parted(name: str, labels: set[str]) -> Key:
    """A name without its plan and its branch: `p2:1:(a b)` is `(a b)` in branch 1 of plan p2."""
    label = max((known for known in labels if name.startswith(known)), key=len, default="")
    rest = name[len(label) :]
    number, colon, bare = rest.partition(":")
    return (label, number, bare) if colon and number.isdigit() else (label, "", rest)


def nodes_of(
    source: Any,
    index: int | None,
    pattern: Pattern | None,
    counts: Mapping[str, int] | None,
    expected: Mapping[str, float] | None,
) -> tuple[Plan, list[list[Node]], str]:
    """The plan at a step, the nodes of each branch (for a tree its root alone), and a remark."""
    trace = source if isinstance(source, Trace) else None
    if trace is None and not isinstance(source, Order | Tree | Split | Branched):
        raise CepError(f"plan shows a Trace or a plan, not {type(source).__name__}")
    note = ""
    epoch = Epoch(-1, None)
    numbers = Measured([])
    chosen: Plan
    if trace is not None:
        index = range(len(trace))[-1 if index is None else index] if len(trace) else -1
        numbers = remembered(trace, "measured", lambda: measured(trace))
        epoch = numbers.epochs[
            max(bisect_right(numbers.epochs, index, key=lambda e: e.start) - 1, 0)
        ]
        chosen, note = _plan_of(epoch, pattern)
        if expected is None:
            expected = _expected(trace, numbers, epoch, index, chosen, pattern)
    else:
        chosen = source
    maker = Maker(trace, index, pattern, counts, expected or {}, epoch, numbers)
    parts = chosen.plans if isinstance(chosen, Branched) else (chosen,)
    made = []
    for number, part in enumerate(parts, 1):
        maker.branch = str(number) if len(parts) > 1 else ""
        made.append([maker.join(part.shape)] if isinstance(part, Tree) else maker.row(part))
    return chosen, made, note


class Maker:
    """Makes nodes, with their numbers at a step."""

    def __init__(
        self,
        trace: Trace | None,
        index: int | None,
        pattern: Pattern | None,
        counts: Mapping[str, int] | None,
        expected: Mapping[str, float],
        epoch: Epoch,
        numbers: Measured,
    ):
        self.trace, self.index, self.counts = trace, index, counts
        self.expected, self.epoch, self.numbers = expected, epoch, numbers
        variables = pattern.variables.values() if pattern else ()
        self.types = {v.name: v.type for v in variables}
        self.kleene = {v.name for v in variables if v.kleene}
        self.branch = ""

    def count(self, table: Mapping[Any, list[int]], key: Any) -> int | None:
        if self.trace is None or self.index is None:
            return None
        listed = table.get(key, [])
        return bisect_right(listed, self.index) - bisect_right(listed, self.epoch.start)

    def put_numbers(self, node: Node) -> Node:
        node.expected = self.expected.get(self.prefix + node.name)
        return node

    @property
    def prefix(self) -> str:
        return f"{self.branch}:" if self.branch else ""

    def leaf(self, name: str, title: str, tested: bool) -> Node:
        type = self.types.get(name, "")
        node = Node(name, title, type)
        node.events = self.count(self.numbers.arrived, type) if type else None
        if self.counts is not None and type:
            node.events = self.counts.get(type, 0)
        key = (self.epoch.label, self.branch, name)
        if tested and key in self.numbers.tried:
            self.put_tests(node, key)
        elif key in self.numbers.kept:
            node.kept = self.count(self.numbers.kept, key)
        return self.put_numbers(node)

    def put_tests(self, node: Node, key: Key) -> None:
        node.tried = self.count(self.numbers.tried, key)
        node.passed = self.count(self.numbers.passed, key)
        node.out = self.count(self.numbers.out, key)

    def variable(self, name: str) -> str:
        shown = f"{name}[]" if name in self.kleene else name
        return f"{shown}: {self.types[name]}" if name in self.types else shown

    def row(self, plan: Order | Split) -> list[Node]:
        """An order from first to last; of a split the eager ones, then the lazy ones."""
        names = plan.names if isinstance(plan, Order) else (*plan.eager, *plan.lazy)
        listed = enumerate(names, 1)
        return [self.leaf(name, f"{n}. {self.variable(name)}", True) for n, name in listed]

    def join(self, shape: Any) -> Node:
        if isinstance(shape, str):
            return self.leaf(shape, self.variable(shape), False)
        parts = tuple(self.join(part) for part in shape)
        name = f"({parts[0].name} {parts[1].name})"
        node = Node(name, f"join {name}", parts=parts)
        key = (self.epoch.label, self.branch, name)
        if key in self.numbers.tried:
            self.put_tests(node, key)
        return self.put_numbers(node)


def _plan_of(epoch: Epoch, pattern: Pattern | None) -> tuple[Plan, str]:
    if epoch.text:
        return as_plan(epoch.text, pattern.variables if pattern else ()), ""
    names = [v.name for v in pattern.variables.values() if not v.negated] if pattern else []
    if not names:
        raise CepError("this trace has neither a plan nor a pattern that could be read")
    return Order(*names), ", as the pattern is written (this engine has no plan of its own)"


def _expected(
    trace: Trace, numbers: Measured, epoch: Epoch, index: int, plan: Plan, pattern: Pattern | None
) -> dict[str, float] | None:
    """What the statistics that a plan was made from promise for the time since then."""
    if epoch.stats is None or pattern is None or pattern.within is None:
        return None
    window = window_size(pattern, trace.clock)
    first, last = (bisect_right(numbers.arrivals, step) for step in (epoch.start, index))
    if not window or last - first < 2:
        return None
    passed: float = last - first
    if not pattern.within.in_events:
        passed = numbers.times[last - 1] - numbers.times[first]
    statistics = Statistics().with_values(epoch.stats)
    return expected_by_cost(plan, pattern, statistics, passed / window)
