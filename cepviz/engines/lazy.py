"""What the lazy NFAs of LAZY share: one input buffer, scopes, and instances that hand out events.

An *instance* holds events for some of the variables. To go on, it picks a variable it still lacks
and *hands out* that variable's events: each one in its scope makes a copy of the instance that
takes it. The scope lies between the held events that must come before and those that must come
after, in sequence order (not in the order of evaluation, where the paper's formula slips), and in
the window. Events still to come may be in scope too; the instance then stays and waits.

Every match comes out exactly once, whatever variable is picked when. An instance remembers for each
variable up to which position it has handed out events (`since`). Handing out splits the matches
that extend the instance by the variable's event: those with an event up to now go to the copies,
those with a later one stay with the instance. The copies and what stays are disjoint, and together
they are all; nothing else ever creates a copy. For a Kleene variable, "its event" is the last
element.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from cepviz.engines.base import labels_of
from cepviz.engines.branches import BranchEngine
from cepviz.events import Event
from cepviz.language.compile import Predicate, predicate
from cepviz.language.evaluate import explain
from cepviz.language.expressions import Expression, element_wise, needs_all
from cepviz.language.pattern import ANY, Branch, Pattern
from cepviz.steps import Drop, Edge, Move, Prune, Put, Scope, Spawn, Test

Values = tuple[Any, ...]  # by variable: an event, a tuple of events, or None


class InputBuffer:
    """The events that fit one variable, in stream order, while the window may still need them."""

    __slots__ = ("events", "gone", "marks", "positions")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.positions: list[int] = []
        self.marks: list[int | float] = []
        self.gone = 0  # how many at the front have expired; removed in large pieces

    def __len__(self) -> int:
        return len(self.events) - self.gone

    def put(self, event: Event, mark: int | float) -> None:
        self.events.append(event)
        self.positions.append(event.position)
        self.marks.append(mark)

    def prune(self, edge: int | float) -> list[Event]:
        """Takes out the events marked up to `edge`."""
        if self.gone == len(self.events) or self.marks[self.gone] > edge:
            return []
        cut = bisect_right(self.marks, edge, self.gone)
        out = self.events[self.gone : cut]
        self.gone = cut
        if cut * 2 > len(self.events):
            del self.events[:cut], self.positions[:cut], self.marks[:cut]
            self.gone = 0
        return out


class Instance:
    """A copy of the automaton: what it holds, and what it has handed out."""

    __slots__ = ("alive", "high", "last", "low", "name", "order", "parent", "prefixes", "since",
                 "values")  # fmt: skip

    def __init__(self, values: Values, order: tuple[int, ...], since: tuple[int, ...]):
        self.values = values
        self.order = order  # the variables it holds, in the order it took them
        self.since = since
        self.low: int | float | None = None  # marks and last position of what it holds
        self.high: int | float | None = None
        self.prefixes: dict[int, list[tuple[Event, ...]]] = {}
        self.alive = True
        self.name = ""


class EdgeTests:
    """The conditions on taking a variable when certain others are held, compiled.

    Of a Kleene variable each element is tested when it is added (`first`, `more`) and the whole
    list when it is handed out (`whole`).
    """

    __slots__ = ("conjuncts", "first", "more", "passed", "tried", "whole")

    def __init__(self, machine: Machine, held: frozenset[int], index: int):
        names = machine.names
        name = names[index]
        kleene = machine.kleene
        known = {names[other] for other in held} | {name}
        own = machine.branch.own(name)
        conjuncts = [
            c
            for c in machine.branch.conjuncts
            if name in c.variables and c.variables <= known and c not in own
        ]
        self.conjuncts = tuple(conjuncts)
        places = {other: f"m[{names.index(other)}]" for other in known}
        failed = machine.engine.failed

        def compiled(
            tests: list[Expression], candidate: str | None, first: bool
        ) -> Predicate | None:
            if not tests:
                return None
            return predicate(
                tests, places if candidate is None or name in kleene else {**places, name: "e"},
                candidate=candidate, kleene=kleene, first=first, failed=failed,
            )  # fmt: skip

        self.whole: Predicate | None = None
        self.more: Predicate | None = None
        if name in kleene:
            first, more, whole = element_wise(conjuncts, name)
            self.first = compiled(first, name, True)
            self.more = compiled(more, name, False)
            self.whole = compiled(whole, None, False)
        else:
            self.first = compiled(conjuncts, name, False)
        self.tried = self.passed = 0

    @property
    def rate(self) -> float:
        """The share of candidates that passed so far; a guess before any was tried."""
        if not self.conjuncts:
            return 1.0
        # A condition is there to be selective: until it was tried, one in ten is guessed to pass.
        return (self.passed + 1) / (self.tried + 10)


class Machine:
    """A lazy automaton for one branch of the pattern."""

    def __init__(self, engine: Lazy, branch: Branch, prefix: str):
        self.engine = engine
        self.branch = branch
        self.prefix = prefix
        self.names = [variable.name for variable in branch.variables]
        self.kleene = frozenset(v.name for v in branch.variables if v.kleene)
        indices = range(len(self.names))
        self.before = [
            [u for u in indices if (self.names[u], self.names[v]) in branch.order] for v in indices
        ]
        self.after = [
            [w for w in indices if (self.names[v], self.names[w]) in branch.order] for v in indices
        ]
        types = [variable.type for variable in branch.variables]
        self.alike = [
            [u for u in indices if u != v and types[u] == types[v]
             and u not in self.before[v] and u not in self.after[v]]
            for v in indices
        ]  # fmt: skip
        self.own = [
            predicate(branch.own(name), {name: "e"}, candidate=name, failed=engine.failed)
            if branch.own(name) else None
            for name in self.names
        ]  # fmt: skip
        self.of_type: dict[str, list[int]] = {}
        for index, type in enumerate(types):
            self.of_type.setdefault(type, []).append(index)
        self.buffers = [InputBuffer() for _ in indices]
        self.tests: dict[tuple[frozenset[int], int], EdgeTests] = {}
        nothing = tuple(None for _ in indices)
        self.root = Instance(nothing, (), tuple(-1 for _ in indices))
        self.root.name = f"{prefix}0"
        self.waiting: list[dict[int, Instance]] = [{} for _ in indices]
        self.expiry: list[tuple[Any, int, Instance]] = []
        self.created = 0
        self.begin_at = 0

    def settle(self) -> None:
        """Called once the engine is complete: the root begins to wait."""
        self.absences = [
            (frozenset(map(self.names.index, needed)), absence)
            for needed, absence in self.engine.output.early(self.branch)
        ]
        self.engine.counters.runs += 1
        self.engine.alive(1, None)
        self.wait(self.root)

    # ---- events ----

    def read(self, event: Event, mark: int | float) -> None:
        """Stores an event under every variable it fits, and lets the waiting instances go on."""
        fitting = []
        counters = self.engine.counters
        for index in self.of_type.get(event.type, ()):
            counters.filters += 1
            own = self.own[index]
            if own is None or own(event, ()):
                fitting.append(index)
        for index in fitting:
            self.buffers[index].put(event, mark)
            self.engine.hold(1, event)
            if self.engine.emit is not None:
                self.engine.emit(Put(self.prefix + self.names[index], event.label))
        offered: dict[int, Instance] = {}
        for index in fitting:
            offered.update(self.waiting[index])
        for instance in list(offered.values()):
            if instance.alive:
                self.go_on(instance, event)

    def expire(self, event: Event, edge: int | float) -> None:
        """Drops instances whose first event left the window, and prunes the input buffers."""
        engine = self.engine
        while self.expiry and self.expiry[0][0] <= edge:
            instance = heapq.heappop(self.expiry)[2]
            if instance.alive:
                if engine.emit is not None:
                    first = min(_events(instance.values), key=lambda e: e.position)
                    detail = f"its first event {first.label} left the window"
                    engine.emit(Drop(instance.name, "window", event.label, detail))
                self.leave(instance)
        self.prune(edge, event)

    def prune(self, edge: int | float, event: Event, why: str = "") -> None:
        """Takes events up to an edge out of the input buffers."""
        engine = self.engine
        for index, buffer in enumerate(self.buffers):
            gone = buffer.prune(edge)
            if gone:
                engine.hold(-len(gone), event)
                if engine.emit is not None:
                    labels = tuple(old.label for old in gone)
                    why = why or f"the window has passed at {event.label}"
                    engine.emit(Prune(self.prefix + self.names[index], labels, why))

    # ---- instances ----

    def go_on(self, instance: Instance, event: Event) -> None:
        """Hands out events of the variable to take next, as long as there is one."""
        picked = self.engine.pick(self, instance)
        if picked is None:
            if self.hopeless(instance):
                self.exhausted(instance, event)
            return
        index, low, high = picked
        self.hand_out(instance, index, low, high, event)
        if self.closed(instance, index):
            self.exhausted(instance, event)

    def scope(self, instance: Instance, index: int) -> tuple[int, int]:
        """The part of a variable's input buffer that lies in an instance's scope."""
        buffer = self.buffers[index]
        values = instance.values
        low, high = buffer.gone, len(buffer.events)
        for other in self.before[index]:
            bound = values[other]
            if bound is not None:
                position = bound[-1].position if isinstance(bound, tuple) else bound.position
                low = max(low, bisect_right(buffer.positions, position, buffer.gone))
        for other in self.after[index]:
            bound = values[other]
            if bound is not None:
                position = bound[0].position if isinstance(bound, tuple) else bound.position
                high = min(high, bisect_left(buffer.positions, position, buffer.gone))
        window = self.engine.window
        if window is not None and instance.low is not None and instance.high is not None:
            low = max(low, bisect_right(buffer.marks, instance.high - window, buffer.gone))
            high = min(high, bisect_left(buffer.marks, instance.low + window, buffer.gone))
        return low, max(low, high)

    def fresh(self, instance: Instance, index: int, low: int, high: int) -> int:
        """Where the events begin that an instance has not handed out yet."""
        return max(
            low, bisect_right(self.buffers[index].positions, instance.since[index], low, high)
        )

    def closed(self, instance: Instance, index: int) -> bool:
        """Whether no event to come can be in scope: one that must follow is held already."""
        return any(instance.values[other] is not None for other in self.after[index])

    def hopeless(self, instance: Instance) -> bool:
        """Whether a variable has no event left to hand out, and none can come."""
        for index, bound in enumerate(instance.values):
            if bound is None and self.closed(instance, index):
                low, high = self.scope(instance, index)
                if self.fresh(instance, index, low, high) >= high:
                    return True
        return False

    def hand_out(self, instance: Instance, index: int, low: int, high: int, event: Event) -> None:
        engine = self.engine
        buffer = self.buffers[index]
        if engine.border is not None and len(instance.order) == len(self.names) - 1:
            high = self.up_to_border(instance, index, low, high)
        start = self.fresh(instance, index, low, high)
        tests = self.edge(instance.order, index)
        if engine.emit is not None:
            self.tell_scope(instance, index, buffer.events[low:high])
        if start < high:
            candidates = buffer.events[start:high]
            since = list(instance.since)
            since[index] = candidates[-1].position
            instance.since = tuple(since)
            if self.names[index] in self.kleene:
                known = instance.prefixes.get(index)
                if known is None:
                    # Elements handed out before it was a copy may still begin a list.
                    known = instance.prefixes[index] = []
                    for candidate in buffer.events[low:start]:
                        self.grow(instance, index, tests, known, candidate, event)
                for candidate in candidates:
                    for elements in self.grow(instance, index, tests, known, candidate, event):
                        values = self.put(instance.values, index, elements)
                        if tests.whole is None or tests.whole(candidate, values):
                            self.take(instance, index, elements, elements[0], elements[-1], event)
            else:
                for candidate in candidates:
                    if self.alike[index] and self.used(instance, index, candidate):
                        continue
                    if self.passes(instance, index, tests, tests.first, candidate, instance.values):
                        self.take(instance, index, candidate, candidate, candidate, event)

    def grow(
        self,
        instance: Instance,
        index: int,
        tests: EdgeTests,
        known: list[tuple[Event, ...]],
        candidate: Event,
        event: Event,
    ) -> list[tuple[Event, ...]]:
        """The lists that end in an element: it alone, and it behind every list known so far."""
        if self.alike[index] and self.used(instance, index, candidate):
            return []
        engine = self.engine
        grown = []
        known[:] = [prefix for prefix in known if engine.fits(prefix[0], candidate)]
        for prefix in [(), *known]:
            test = tests.more if prefix else tests.first
            values = self.put(instance.values, index, prefix)
            if self.passes(instance, index, tests, test, candidate, values):
                grown.append((*prefix, candidate))
        known += grown
        if len(known) > engine.budget.runs:
            engine.stop("runs", event)
        return grown

    def passes(
        self,
        instance: Instance,
        index: int,
        tests: EdgeTests,
        test: Predicate | None,
        candidate: Event,
        values: Values,
    ) -> bool:
        """Tries the edge's condition on one event."""
        self.engine.counters.evaluations += 1
        tests.tried += 1
        passed = test is None or test(candidate, values)
        tests.passed += passed
        if self.engine.emit is not None:
            self.tell_test(instance, index, tests, candidate, values, passed)
        return passed

    def take(
        self, instance: Instance, index: int, bound: Any, first: Event, last: Event, event: Event
    ) -> None:
        """A copy of the instance takes a variable's event, or events, and goes on at once."""
        engine = self.engine
        values = self.put(instance.values, index, bound)
        copy = Instance(values, (*instance.order, index), instance.since)
        by_count = engine.by_count
        start = first.position if by_count else first.start
        end = last.position if by_count else last.end
        copy.low = start if instance.low is None else min(instance.low, start)
        copy.high = end if instance.high is None else max(instance.high, end)
        if engine.border is not None and not self.begins_before(copy, engine.border):
            return
        self.created += 1
        engine.counters.runs += 1
        if engine.emit is not None:
            copy.name = f"{self.prefix}{self.created}"
            self.tell_take(instance, copy, index, last)
        for needed, absence in self.absences:
            if index in needed and needed <= frozenset(copy.order):
                held = self.held(copy)
                culprit = absence.broken(held, engine.output.partition(last))
                if culprit is not None:
                    engine.negated(copy.name, absence.negation.variable.name, held, culprit)
                    return
        if len(copy.order) == len(self.names):
            engine.output.candidate(self.branch, self.held(copy), event, copy.name)
            return
        engine.alive(1, event)
        self.wait(copy)
        self.go_on(copy, event)

    def begins_before(self, instance: Instance, border: int) -> bool:
        """Whether a match of the instance can have an event before a border: it holds one, or one
        is in the scope of a variable that it lacks."""
        if any(held.position < border for held in _events(instance.values)):
            return True
        for index, bound in enumerate(instance.values):
            if bound is None:
                low, high = self.scope(instance, index)
                if self.names[index] not in self.kleene:
                    low = self.fresh(instance, index, low, high)
                if low < high and self.buffers[index].positions[low] < border:
                    return True
        return False

    def up_to_border(self, instance: Instance, index: int, low: int, high: int) -> int:
        """The end of the last variable's scope, where only an event before the border can make
        the match begin there. A list may end behind it."""
        border = self.engine.border
        if border is None or self.names[index] in self.kleene:
            return high
        if any(held.position < border for held in _events(instance.values)):
            return high
        return max(low, bisect_left(self.buffers[index].positions, border, low, high))

    def wait(self, instance: Instance) -> None:
        """The instance waits for events of every variable that may still come."""
        for index in self.engine.awaits(self, instance):
            self.waiting[index][id(instance)] = instance
        if instance.low is not None and self.engine.window is not None:
            heapq.heappush(self.expiry, (instance.low, self.created, instance))

    def exhausted(self, instance: Instance, event: Event) -> None:
        """The instance has handed out all it can, and no event to come is in its scope."""
        if instance.alive and self.engine.emit is not None:
            why = "it has handed out all that its scope can hold"
            self.engine.emit(Drop(instance.name, "exhausted", event.label, why))
        self.leave(instance)

    def leave(self, instance: Instance) -> None:
        if not instance.alive:
            return
        instance.alive = False
        self.engine.alive(-1, None)
        for waiting in self.waiting:
            waiting.pop(id(instance), None)
        self.engine.left(self, instance)

    # ---- small things ----

    def edge(self, order: tuple[int, ...], index: int) -> EdgeTests:
        key = (frozenset(order), index)
        tests = self.tests.get(key)
        if tests is None:
            tests = self.tests[key] = EdgeTests(self, key[0], index)
        return tests

    def used(self, instance: Instance, index: int, event: Event) -> bool:
        """Whether an event stands for another variable of its type already."""
        for other in self.alike[index]:
            bound = instance.values[other]
            if bound is not None and (
                event in bound if isinstance(bound, tuple) else event is bound
            ):
                return True
        return False

    @staticmethod
    def put(values: Values, index: int, bound: Any) -> Values:
        return (*values[:index], bound, *values[index + 1 :])

    def held(self, instance: Instance) -> dict[str, Any]:
        named = zip(self.names, instance.values, strict=True)
        return {name: bound for name, bound in named if bound is not None}

    # ---- for those who watch ----

    def state(self, order: tuple[int, ...]) -> str:
        return self.engine.state_name(self, order)

    def tell_scope(self, instance: Instance, index: int, events: list[Event]) -> None:
        assert self.engine.emit is not None
        start, end = self.scope_ends(instance.order, index)
        self.engine.emit(
            Scope(
                instance.name,
                self.prefix + self.names[index],
                self._end_label(instance, start, -1),
                self._end_label(instance, end, 0),
                tuple(event.label for event in events),
            )
        )

    def _end_label(self, instance: Instance, name: str, which: int) -> str:
        if name in ("start", "finish"):
            return name
        bound = instance.values[self.names.index(name)]
        event = bound[which] if isinstance(bound, tuple) else bound
        return str(event.label)

    def scope_ends(self, order: tuple[int, ...], index: int) -> tuple[str, str]:
        """The scoping parameters of a take edge: the latest held variable that must come before
        and the earliest that must come after, in sequence order."""
        earlier = [other for other in self.before[index] if other in order]
        later = [other for other in self.after[index] if other in order]
        latest = [u for u in earlier if not any(u in self.before[w] for w in earlier)]
        earliest = [w for w in later if not any(w in self.after[u] for u in later)]
        return (
            self.names[latest[-1]] if latest else "start",
            self.names[earliest[0]] if earliest else "finish",
        )

    def tell_test(
        self,
        instance: Instance,
        index: int,
        tests: EdgeTests,
        candidate: Event,
        values: Values,
        passed: bool,
    ) -> None:
        assert self.engine.emit is not None
        name = self.names[index]
        held = {n: bound for n, bound in zip(self.names, values, strict=True) if bound}
        bound = (*held.get(name, ()), candidate) if name in self.kleene else candidate
        shown = [
            explain(c, {**held, name: bound}, newest=name)
            for c in (*self.branch.own(name), *tests.conjuncts)
            if not needs_all(c, name)
        ]
        here = self.state(instance.order)
        edge = f"{self.prefix}take {name} at {here}"
        self.engine.emit(
            Test(instance.name, candidate.label, here, edge, "take", tuple(shown), passed)
        )

    def tell_take(self, instance: Instance, copy: Instance, index: int, last: Event) -> None:
        assert self.engine.emit is not None
        here, there = self.state(instance.order), self.state(copy.order)
        edge = f"{self.prefix}take {self.names[index]} at {here}"
        self.engine.emit(Spawn(instance.name, copy.name, last.label, here, "take"))
        held = labels_of(self.held(copy))
        self.engine.emit(Move(copy.name, last.label, "take", edge, here, there, held))


def _events(values: Values) -> Iterator[Event]:
    for bound in values:
        if isinstance(bound, tuple):
            yield from bound
        elif bound is not None:
            yield bound


class Lazy(BranchEngine):
    """The part of a lazy engine that does not depend on which variable is picked next."""

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        if pattern.strategy != ANY:
            return f"it knows skip_till_any_match only, not {pattern.strategy}"
        return None

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        branches = self.pattern.branches
        self.machines = [
            Machine(self, branch, prefix)
            for branch, prefix in zip(branches, self.prefixes(len(branches)), strict=True)
        ]
        self.prepare()
        for machine in self.machines:
            machine.settle()

    def prepare(self) -> None:
        """What an engine sets up before its automata start."""

    def pick(self, machine: Machine, instance: Instance) -> tuple[int, int, int] | None:
        """The variable to hand out next and its scope in the input buffer; None to wait."""
        raise NotImplementedError

    def awaits(self, machine: Machine, instance: Instance) -> list[int]:
        """The variables whose events let an instance go on."""
        raise NotImplementedError

    def state_name(self, machine: Machine, order: tuple[int, ...]) -> str:
        raise NotImplementedError

    def left(self, machine: Machine, instance: Instance) -> None:
        """An instance is gone."""

    def expire(self, event: Event, edge: int | float) -> None:
        for machine in self.machines:
            machine.expire(event, edge)

    def process(self, event: Event, mark: int | float) -> None:
        for machine in self.machines:
            machine.read(event, mark)

    def close(self, event: Event, why: str) -> None:
        for machine in self.machines:
            machine.prune(math.inf, event, why)
            for instance in {
                id(i): i for waits in machine.waiting for i in waits.values()
            }.values():
                if self.emit is not None:
                    self.emit(Drop(instance.name, "replan", event.label, why))
                machine.leave(instance)


def take_edges(machine: Machine, order: tuple[int, ...], index: int) -> Edge:
    """The take edge of a variable from the state of an order, with its scope and formula."""
    name = machine.names[index]
    here = machine.state(order)
    there = machine.state((*order, index))
    tests = machine.edge(order, index)
    formula = (
        *map(str, machine.branch.own(name)),
        *map(str, tests.conjuncts),
        "scope ({}, {})".format(*machine.scope_ends(order, index)),
    )
    return Edge(f"{machine.prefix}take {name} at {here}", here, there, "take", name, formula)


def loops(machine: Machine, order: tuple[int, ...], stored: list[int]) -> list[Edge]:
    """The store and ignore edges of a state."""
    here = machine.state(order)
    names = machine.names
    edges = [Edge(f"{machine.prefix}store at {here}", here, here, "store",
                  ", ".join(names[index] for index in stored))] if stored else []  # fmt: skip
    if order:
        ignored = ", ".join(names[index] for index in order)
        edges.append(Edge(f"{machine.prefix}ignore at {here}", here, here, "ignore", ignored))
    return edges
