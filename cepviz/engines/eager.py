"""`eager`: the eager NFA of LAZY section 3, which extends every prefix as soon as it can.

A sequence of n events is a chain of n + 1 states. An instance waits in state k with k events in its
match buffer; an event that satisfies the take edge splits it: one copy takes the event, the other
ignores it and goes on waiting (skip_till_any_match).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from cepviz.engines.base import Engine, labels_of
from cepviz.events import Event
from cepviz.language.compile import predicate
from cepviz.language.evaluate import explain
from cepviz.language.pattern import ANY, Pattern
from cepviz.steps import Drop, Edge, Graph, Move, Spawn, State, Test


class Instance:
    """A copy of the automaton: its match buffer, and a name for those who watch."""

    __slots__ = ("events", "name")

    def __init__(self, events: tuple[Event, ...], name: str):
        self.events = events
        self.name = name


class Eager(Engine):
    """The eager sequence NFA, with the counters of LAZY section 7."""

    name = "eager"

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        if pattern.strategy != ANY:
            return f"it knows skip_till_any_match only, not {pattern.strategy}"
        if len(pattern.branches) > 1:
            return "it has no OR and no T*"
        (branch,) = pattern.branches
        if not branch.is_sequence:
            return "it has no AND"
        if any(variable.kleene for variable in branch.variables):
            return "it has no Kleene closure"
        if branch.negations:
            return "it has no negation"
        if pattern.output != "all":
            return "it gives all results only"
        return None

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        (self.branch,) = self.pattern.branches
        self.names = [variable.name for variable in self.branch.variables]
        # An event is a candidate for a variable by its type and its own predicates; the edge
        # condition is then what relates it to the events in the match buffer.
        self.own = [
            predicate(self.branch.own(name), {name: "e"}, candidate=name, failed=self.failed)
            for name in self.names
        ]
        self.conditions = [
            [c for c in self.branch.placed(name, "begin") if c not in self.branch.own(name)]
            for name in self.names
        ]
        self.relates = [
            predicate(tests, self.places(name), candidate=name, failed=self.failed)
            for name, tests in zip(self.names, self.conditions, strict=True)
        ]
        # The last state first, so that no instance takes the same event twice.
        self.states_of: dict[str, list[int]] = {}
        for index in reversed(range(len(self.names))):
            self.states_of.setdefault(self.branch.variables[index].type, []).append(index)
        # Instances by state and by their first event: a whole family expires at once.
        self.waiting: list[dict[int, list[Instance]]] = [{} for _ in self.names]
        self.families: deque[Event] = deque()
        self.live = self.counters.runs = self.counters.peak_runs = 1  # the empty one at q1
        self.initial = Instance((), "0")

    def places(self, name: str) -> dict[str, str]:
        """Where an edge's predicate finds its events: in the match buffer, and the newest."""
        held = self.names[: self.names.index(name)]
        return {other: f"m[{index}]" for index, other in enumerate(held)} | {name: "e"}

    @property
    def graph(self) -> Graph:
        count = len(self.names)
        states = [
            State(f"q{k + 1}", "start" if k == 0 else "middle", name)
            for k, name in enumerate(self.names)
        ]
        timing = () if self.pattern.within is None else (f"within {self.pattern.within}",)
        edges = []
        for k, name in enumerate(self.names):
            here, there = f"q{k + 1}", f"q{k + 2}" if k + 1 < count else "F"
            formula = (*map(str, self.branch.placed(name, "begin")), *timing)
            edges.append(Edge(f"take {name}", here, there, "take", name, formula))
            edges.append(Edge(f"ignore at {here}", here, here, "ignore", "", timing))
        return Graph((*states, State("F", "final")), tuple(edges), "eager")

    def read(self, event: Event) -> None:
        self.expire(event)
        counters = self.counters
        for state in self.states_of.get(event.type, ()):
            counters.filters += 1
            if not self.own[state](event, ()):
                continue
            if state == 0:
                counters.evaluations += 1
                self.take(self.initial, 0, event)
                continue
            relates = self.relates[state]
            for family in self.waiting[state].values():
                for instance in family:
                    counters.evaluations += 1
                    if relates(event, instance.events):
                        self.take(instance, state, event)
                    elif self.emit is not None:
                        self.watch_refusal(instance, state, event)
        if self.live > counters.peak_runs:
            counters.peak_runs = self.live

    def take(self, instance: Instance, state: int, event: Event) -> None:
        """Copies an instance; the copy takes the event, the instance ignores it."""
        events = (*instance.events, event)
        copy = Instance(events, str(self.counters.runs))
        self.counters.runs += 1
        if self.emit is not None:
            self.watch_take(instance, copy, state, event)
        if state + 1 == len(self.names):
            self.found(dict(zip(self.names, events, strict=True)), event, copy.name)
            return
        if state == 0:
            self.families.append(event)
        self.waiting[state + 1].setdefault(events[0].position, []).append(copy)
        self.live += 1
        if self.live > self.budget.runs:
            self.stop("runs", event)

    def expire(self, event: Event) -> None:
        """Discards the instances whose first event is too old (the timing predicate)."""
        while self.families and not self.fits(self.families[0], event):
            first = self.families.popleft()
            for state, families in enumerate(self.waiting):
                for instance in families.pop(first.position, ()):
                    self.live -= 1
                    if self.emit is not None:
                        self.watch_expiry(instance, state, event)

    # ---- for those who watch ----

    def watch_refusal(self, instance: Instance, state: int, event: Event) -> None:
        assert self.emit is not None
        self.watch_test(instance, state, event, False)
        here = f"q{state + 1}"
        held = self.held(instance)
        self.emit(Move(instance.name, event.label, "ignore", f"ignore at {here}", here, here, held))

    def watch_take(self, instance: Instance, copy: Instance, state: int, event: Event) -> None:
        assert self.emit is not None
        self.watch_test(instance, state, event, True)
        here = f"q{state + 1}"
        there = f"q{state + 2}" if state + 1 < len(self.names) else "F"
        self.emit(Spawn(instance.name, copy.name, event.label, here, "take-ignore"))
        edge = f"take {self.names[state]}"
        self.emit(Move(copy.name, event.label, "take", edge, here, there, self.held(copy)))

    def watch_test(self, instance: Instance, state: int, event: Event, passed: bool) -> None:
        assert self.emit is not None
        name = self.names[state]
        bound = {**dict(zip(self.names, instance.events, strict=False)), name: event}
        tests = [explain(c, bound) for c in self.branch.placed(name, "begin")]
        shown = f"q{state + 1}"
        self.emit(
            Test(instance.name, event.label, shown, f"take {name}", "take", tuple(tests), passed)
        )

    def watch_expiry(self, instance: Instance, state: int, event: Event) -> None:
        assert self.emit is not None
        first = instance.events[0]
        window = self.pattern.within
        detail = f"its first event {first.label} left the window of {window}"
        self.emit(Drop(instance.name, "window", event.label, detail))

    def held(self, instance: Instance) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return labels_of(dict(zip(self.names, instance.events, strict=False)))
