"""`zstream`: evaluation trees after ZStream (INVARIANTS sections 2 and 4), any binary tree as plan.

Events gather at the leaves, one for each variable. A node joins what its two sides hold: sequence
and conjunction are the same join with other order constraints between the sides. Each predicate is
tried at the lowest node that has all its variables; equalities between the sides are looked up by
hash. A new entry joins with all that the other side holds already, so every pair meets once.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from cepviz.engines.base import labels_of
from cepviz.engines.branches import BranchEngine
from cepviz.errors import PlanError
from cepviz.events import Event
from cepviz.language.compile import predicate
from cepviz.language.evaluate import explain
from cepviz.language.expressions import (
    Attribute,
    Compare,
    Expression,
    element_wise,
)
from cepviz.language.pattern import ANY, Branch, Pattern
from cepviz.plans.by_rate import by_rate
from cepviz.plans.plan import Order, Plan, Tree, follows
from cepviz.plans.statistics import Statistics
from cepviz.steps import Drop, Edge, Graph, Move, Prune, Put, State, Test

Values = tuple[Any, ...]


class Entry:
    """A partial match: its events by variable, and how far it reaches."""

    __slots__ = ("first", "high", "keys", "last", "low", "name", "values")

    def __init__(self, values: Values, first: int, last: int, low: Any, high: Any):
        self.values = values
        self.first = first  # positions
        self.last = last
        self.low = low  # marks in the window
        self.high = high
        self.keys: Any = None
        self.name = ""


class Node:
    """A leaf or a join, with the buffer of what it holds."""

    def __init__(self, evaluation: Evaluation, variables: frozenset[int], text: str):
        self.evaluation = evaluation
        self.variables = variables
        self.text = text
        self.label = evaluation.prefix + text
        self.parent: Join | None = None
        self.entries: dict[int, Entry] = {}
        self.expiry: list[tuple[Any, int, Entry]] = []
        self.by_key: dict[Any, dict[int, Entry]] = {}
        self.received = 0  # entries in all, for plans with actual cardinalities

    def add(self, entry: Entry, event: Event) -> None:
        """Keeps an entry and joins it with what is on the other side."""
        evaluation = self.evaluation
        self.received += 1
        if self.parent is None:
            evaluation.complete(entry, event)
            return
        engine = evaluation.engine
        entry.keys = self.parent.key_of(self, entry.values)
        if entry.keys is not None or not self.parent.equal:
            number = evaluation.number = evaluation.number + 1
            self.entries[number] = entry
            if self.parent.equal:
                self.by_key.setdefault(entry.keys, {})[number] = entry
            if engine.window is not None:
                heapq.heappush(self.expiry, (entry.low, number, entry))
            engine.hold(1, event)
            if engine.emit is not None:
                engine.emit(Put(self.label, entry.name))
            self.parent.join(self, entry, event)

    def expire(self, edge: Any, event: Event, why: str = "") -> None:
        gone = []
        while self.expiry and self.expiry[0][0] <= edge:
            _, number, entry = heapq.heappop(self.expiry)
            del self.entries[number]
            if self.parent is not None and self.parent.equal:
                alike = self.by_key[entry.keys]
                del alike[number]
                if not alike:
                    del self.by_key[entry.keys]
            gone.append(entry)
        engine = self.evaluation.engine
        if gone:
            engine.hold(-len(gone), event)
            if engine.emit is not None:
                names = tuple(entry.name for entry in gone)
                passed = f"the window has passed at {event.label}"
                engine.emit(Prune(self.label, names, why or passed))
                reason, detail = ("replan", why) if why else ("window", "it left the window")
                for entry in gone if isinstance(self, Join) else ():
                    engine.emit(Drop(entry.name, reason, event.label, detail))


class Leaf(Node):
    """The events of one variable; of a Kleene variable, all lists of them that may be."""

    def __init__(self, evaluation: Evaluation, index: int):
        self.variable = evaluation.branch.variables[index]
        name = self.variable.name
        super().__init__(evaluation, frozenset({index}), name)
        self.index = index
        own = evaluation.branch.own(name)
        failed = evaluation.engine.failed
        self.own = predicate(own, {name: "e"}, candidate=name, failed=failed)
        rest = [c for c in evaluation.branch.conjuncts if c.variables == {name} and c not in own]
        kleene = evaluation.kleene

        def compiled(tests: list[Expression], candidate: str | None, first: bool) -> Any:
            if not tests:
                return None
            return predicate(
                tests, {name: "m"}, candidate=candidate, kleene=kleene, first=first, failed=failed
            )

        first, more, whole = element_wise(rest, name)
        self.first = compiled(first, name, True)
        self.more = compiled(more, name, False)
        self.whole = compiled(whole, None, False)
        self.lists: list[tuple[Event, ...]] = []

    def read(self, event: Event) -> None:
        engine = self.evaluation.engine
        engine.counters.filters += 1
        if not self.own(event, ()):
            return
        if not self.variable.kleene:
            self.add(self.evaluation.entry(self.index, event, event, event), event)
            return
        self.lists = [known for known in self.lists if engine.fits(known[0], event)]
        grown = []
        for known in [(), *self.lists]:
            test = self.more if known else self.first
            if test is not None:
                engine.counters.evaluations += 1
            if test is None or test(event, known):
                grown.append((*known, event))
        self.lists += grown
        if len(self.lists) > engine.budget.runs:
            engine.stop("runs", event)
        for events in grown:
            if self.whole is None or self.whole(event, events):
                self.add(self.evaluation.entry(self.index, events, events[0], event), event)


class Join(Node):
    """A node that joins two others: order, window, then predicates."""

    def __init__(self, evaluation: Evaluation, left: Node, right: Node):
        text = f"({left.text} {right.text})"
        super().__init__(evaluation, left.variables | right.variables, text)
        self.left, self.right = left, right
        left.parent = right.parent = self
        names = evaluation.names
        order = evaluation.branch.order
        between = [(u, w) for u in left.variables for w in right.variables]
        forward = [(u, w) for u, w in between if (names[u], names[w]) in order]
        backward = [(u, w) for u, w in between if (names[w], names[u]) in order]
        # All of one side before all of the other is one comparison; otherwise pair by pair.
        self.sequence = len(forward) == len(between)
        self.reverse = len(backward) == len(between)
        self.forward, self.backward = forward, backward
        types = [variable.type for variable in evaluation.branch.variables]
        ordered = {*forward, *backward}
        self.alike = [(u, w) for u, w in between if types[u] == types[w] and (u, w) not in ordered]
        mine = {names[index] for index in self.variables}
        sides = [{names[index] for index in side.variables} for side in (left, right)]
        conjuncts = [
            c
            for c in evaluation.branch.conjuncts
            if c.variables <= mine and not any(c.variables <= side for side in sides)
        ]
        self.equal = [pair for c in conjuncts if (pair := self._equality(c)) is not None]
        looked_up = {id(pair[2]) for pair in self.equal}
        self.conjuncts = tuple(conjuncts)
        self.tests = predicate(
            [c for c in conjuncts if id(c) not in looked_up],
            {name: f"m[{names.index(name)}]" for name in mine},
            kleene=evaluation.kleene,
            failed=evaluation.engine.failed,
        )
        # The negations that this node is the first to be able to judge.
        self.absences = [
            absence
            for needed, absence in evaluation.engine.output.early(evaluation.branch)
            if needed <= mine and not any(needed <= side for side in sides)
        ]

    def _equality(self, conjunct: Expression) -> tuple[Attribute, Attribute, Expression] | None:
        """An equality of two attributes, one on each side: (left's, right's, conjunct)."""
        if not isinstance(conjunct, Compare) or conjunct.operator != "=":
            return None
        one, other = conjunct.left, conjunct.right
        if not (isinstance(one, Attribute) and isinstance(other, Attribute)):
            return None
        if one.index in ("i", "i-1") or other.index in ("i", "i-1"):
            return None
        names = self.evaluation.names
        if names.index(one.variable) in self.left.variables:
            pair = (one, other)
        else:
            pair = (other, one)
        return (*pair, conjunct) if one.variable != other.variable else None

    def key_of(self, side: Node, values: Values) -> Any:
        """What an entry of a side is looked up by; None if it can equal nothing."""
        if not self.equal:
            return None
        key = []
        for pair in self.equal:
            reference = pair[0] if side is self.left else pair[1]
            bound = values[self.evaluation.names.index(reference.variable)]
            if isinstance(bound, tuple):
                bound = bound[0] if reference.index == "1" else bound[-1]
            found = bound.get(reference.name)
            if found is None:
                return None
            key.append(found if found.__hash__ is not None else repr(found))
        return tuple(key)

    def join(self, side: Node, entry: Entry, event: Event) -> None:
        """Joins a new entry of one side with all that the other side holds."""
        other = self.right if side is self.left else self.left
        if self.equal:
            candidates: Iterable[Entry] = list(other.by_key.get(entry.keys, {}).values())
        else:
            candidates = list(other.entries.values())
        for found in candidates:
            left, right = (entry, found) if side is self.left else (found, entry)
            self.meet(left, right, event)

    def meet(self, left: Entry, right: Entry, event: Event) -> None:
        evaluation = self.evaluation
        engine = evaluation.engine
        if self.sequence:
            if left.last >= right.first:
                return
        elif self.reverse:
            if right.last >= left.first:
                return
        elif not self.in_order(left.values, right.values):
            return
        low, high = min(left.low, right.low), max(left.high, right.high)
        if engine.window is not None and high - low >= engine.window:
            return
        border = engine.border
        if (
            border is not None
            and min(left.first, right.first) >= border
            and not evaluation.holds_before(border, self.variables)
        ):
            return
        values = tuple(
            [
                one if one is not None else two
                for one, two in zip(left.values, right.values, strict=True)
            ]
        )
        engine.counters.evaluations += 1
        passed = self.tests(event, values)
        joined = Entry(values, min(left.first, right.first), max(left.last, right.last), low, high)
        if engine.emit is not None:
            evaluation.tell_join(self, left, right, joined, event, passed)
        if not passed:
            return
        for absence in self.absences:
            held = evaluation.held(values)
            culprit = absence.broken(held, engine.output.partition(event))
            if culprit is not None:
                engine.negated(joined.name, absence.negation.variable.name, held, culprit)
                return
        engine.counters.runs += 1
        self.add(joined, event)

    def in_order(self, left: Values, right: Values) -> bool:
        return (
            all(_last(left[u]) < _first(right[w]) for u, w in self.forward)
            and all(_last(right[w]) < _first(left[u]) for u, w in self.backward)
            and not any(_share(left[u], right[w]) for u, w in self.alike)
        )


def _first(bound: Any) -> int:
    return bound[0].position if isinstance(bound, tuple) else bound.position  # type: ignore[no-any-return]


def _last(bound: Any) -> int:
    return bound[-1].position if isinstance(bound, tuple) else bound.position  # type: ignore[no-any-return]


def _share(one: Any, other: Any) -> bool:
    """Whether two variables stand for the same event."""
    ones = one if isinstance(one, tuple) else (one,)
    others = other if isinstance(other, tuple) else (other,)
    return any(event is known for event in ones for known in others)


class Evaluation:
    """The evaluation tree of one branch."""

    def __init__(self, engine: ZStream, branch: Branch, prefix: str):
        self.engine = engine
        self.branch = branch
        self.prefix = prefix
        self.names = [variable.name for variable in branch.variables]
        self.kleene = frozenset(v.name for v in branch.variables if v.kleene)
        self.number = 0
        self.created = 0
        self.nodes: list[Node] = []
        self.root = self.build(engine.plan.of(branch, engine.pattern))
        self.leaves: dict[str, list[Leaf]] = {}
        for node in self.nodes:
            if isinstance(node, Leaf):
                self.leaves.setdefault(node.variable.type, []).append(node)

    def build(self, shape: Any) -> Node:
        node: Node
        if isinstance(shape, str):
            node = Leaf(self, self.names.index(shape))
        else:
            node = Join(self, self.build(shape[0]), self.build(shape[1]))
        self.nodes.append(node)
        return node

    def entry(self, index: int, bound: Any, first: Event, last: Event) -> Entry:
        values = tuple([bound if i == index else None for i in range(len(self.names))])
        by_count = self.engine.by_count
        made = Entry(
            values,
            first.position,
            last.position,
            first.position if by_count else first.start,
            last.position if by_count else last.end,
        )
        if self.engine.emit is not None:
            events = bound if isinstance(bound, tuple) else (bound,)
            made.name = " ".join(event.label for event in events)
        return made

    def holds_before(self, border: int, apart_from: frozenset[int]) -> bool:
        """Whether a leaf, other than of these variables, holds an event before a border."""
        for node in self.nodes:
            if isinstance(node, Leaf) and not node.variables <= apart_from:
                entries = node.entries.values()
                # Single events are kept in order, lists are not.
                held = entries if node.variable.kleene else itertools.islice(entries, 1)
                if any(entry.first < border for entry in held):
                    return True
        return False

    def complete(self, entry: Entry, event: Event) -> None:
        border = self.engine.border
        if border is not None and entry.first >= border:
            return
        self.engine.output.candidate(self.branch, self.held(entry.values), event, entry.name)

    def held(self, values: Values) -> dict[str, Any]:
        named = zip(self.names, values, strict=True)
        return {name: bound for name, bound in named if bound is not None}

    # ---- for those who watch ----

    def tell_join(
        self, node: Join, left: Entry, right: Entry, joined: Entry, event: Event, passed: bool
    ) -> None:
        emit = self.engine.emit
        assert emit is not None
        held = self.held(joined.values)
        self.created += 1
        joined.name = f"{self.prefix}{self.created}"
        tests = tuple(explain(c, held) for c in node.conjuncts)
        source = node.left if any(left.values[i] is not None for i in node.left.variables) else node
        edge = f"join {source.label}"
        emit(Test(joined.name, event.label, source.label, edge, "take", tests, passed))
        if passed:
            here = "F" if node.parent is None else node.label
            there = f"{self.prefix}F" if here == "F" else here
            emit(
                Move(
                    joined.name,
                    event.label,
                    "take",
                    edge,
                    source.label,
                    node.label,
                    labels_of(held),
                )
            )
            if node.parent is None:
                emit(
                    Move(
                        joined.name, event.label, "take", f"join {node.label}", node.label, there,
                        labels_of(held),
                    )
                )  # fmt: skip
        else:
            emit(Drop(joined.name, "predicate", event.label))


class ZStream(BranchEngine):
    """Evaluation trees as in ZStream: joins bottom up, in the shape of the plan."""

    name = "zstream"

    @classmethod
    def planned(cls, pattern: Pattern, counts: Mapping[str, int]) -> Plan:
        order = by_rate(pattern, Statistics(counts)).plan
        assert isinstance(order, Order)
        return Tree.left_deep(*order.names)

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        if pattern.strategy != ANY:
            return f"it knows skip_till_any_match only, not {pattern.strategy}"
        return None

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        if self.plan is None:
            names = [v.name for v in self.pattern.variables.values() if not v.negated]
            self.plan = Tree.left_deep(*names)
        elif not follows(self.plan, Tree):
            raise PlanError(
                f"zstream follows a tree, as in Tree(('a', ('b', 'c'))), not {self.plan!r}"
            )
        branches = self.pattern.branches
        self.evaluations = [
            Evaluation(self, branch, prefix)
            for branch, prefix in zip(branches, self.prefixes(len(branches)), strict=True)
        ]

    @property
    def graph(self) -> Graph:
        states, edges = [], []
        for evaluation in self.evaluations:
            final = f"{evaluation.prefix}F"
            for node in evaluation.nodes:
                kind = "start" if isinstance(node, Leaf) else "middle"
                formula: tuple[str, ...] = ()
                if isinstance(node, Leaf):
                    formula = tuple(map(str, evaluation.branch.own(node.variable.name)))
                states.append(State(node.label, kind, " and ".join(formula)))
                target = node.parent.label if node.parent else final
                tests = tuple(map(str, node.parent.conjuncts)) if node.parent else ()
                edges.append(Edge(f"join {node.label}", node.label, target, "take", "", tests))
            states.append(State(final, "final"))
        return Graph(tuple(states), tuple(edges), "zstream")

    def expire(self, event: Event, edge: int | float) -> None:
        for evaluation in self.evaluations:
            for node in evaluation.nodes:
                if node.expiry and node.expiry[0][0] <= edge:
                    node.expire(edge, event)

    def process(self, event: Event, mark: int | float) -> None:
        for evaluation in self.evaluations:
            for leaf in evaluation.leaves.get(event.type, ()):
                leaf.read(event)

    def close(self, event: Event, why: str) -> None:
        for evaluation in self.evaluations:
            for node in evaluation.nodes:
                node.expire(math.inf, event, why)
