"""`naive`: the brute-force oracle, written straight from SEMANTICS. Slow, and right.

Under skip_till_any_match it tries every assignment of events to variables. Under the other
strategies it keeps every run of SASE+ section 3 as the events it holds, and moves each by the
rules of section 4. Negations are then judged on each result by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cepviz.engines.base import Engine, Match, before, events_of
from cepviz.events import Event
from cepviz.language.evaluate import holds
from cepviz.language.pattern import ANY, NEXT, PARTITION, STRICT, Branch, Negation
from cepviz.language.structure import Variable

Held = dict[str, Event | tuple[Event, ...]]


@dataclass(eq=False)
class Candidate:
    """Bindings that satisfy everything positive; a trailing negation may still break them."""

    branch: Branch
    held: Held
    completed: Event

    @property
    def order(self) -> tuple[Any, ...]:
        """By completion, then by start, then by the events: the order of non-overlap output."""
        positions = sorted(event.position for event in events_of(self.held))
        return positions[-1], positions


class Naive(Engine):
    """The brute-force oracle that every other engine is held to."""

    name = "naive"
    takes_intervals = True

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.events: list[Event] = []
        self.runs: list[tuple[Branch, Held]] = []
        self.waiting: list[Candidate] = []
        self.decided: list[Candidate] = []
        self.told: set[tuple[Any, ...]] = set()
        self.ends: dict[tuple[Any, ...], int] = {}

    def read(self, event: Event) -> None:
        settled = [c for c in self.waiting if not self.fits(_first(c.held), event)]
        self.waiting = [c for c in self.waiting if c not in settled]
        self.release(settled)
        self.events.append(event)
        self.waiting = [c for c in self.waiting if not self.broken(c, [event])]
        complete = [
            candidate
            for branch, held in self.completions(event)
            if not self.broken(candidate := Candidate(branch, held, event), self.events)
        ]
        ahead = [c for c in complete if any(n.trailing for n in c.branch.negations)]
        self.waiting += ahead
        self.release([c for c in complete if c not in ahead])

    def finish(self) -> None:
        settled, self.waiting = self.waiting, []
        self.release(settled)

    # ---- output ----

    def release(self, settled: list[Candidate]) -> None:
        """Reports what is decided: each bindings once, and without overlap if that is asked."""
        self.decided += settled
        if self.pattern.output == "all":
            ready, self.decided = self.decided, []
        else:
            # A match that completed earlier goes first, so it must be decided first.
            earliest = min((c.order for c in self.waiting), default=None)
            ready = [c for c in self.decided if earliest is None or c.order < earliest]
            self.decided = [c for c in self.decided if c not in ready]
            ready.sort(key=lambda candidate: candidate.order)
        for candidate in ready:
            held = {**candidate.held, **dict.fromkeys(candidate.branch.empty, ())}
            key = Match(held, candidate.completed).key
            if key not in self.told and self.starts_after_previous(candidate):
                self.told.add(key)
                self.found(held, candidate.completed)

    def starts_after_previous(self, candidate: Candidate) -> bool:
        if self.pattern.output == "all":
            return True
        positions = candidate.order[1]
        same = () if self.pattern.strategy == STRICT else self.pattern.same
        first = next(iter(events_of(candidate.held)))
        partition = tuple(first.get(name) for name in same)
        if positions[0] <= self.ends.get(partition, -1):
            return False
        self.ends[partition] = positions[-1]
        return True

    # ---- negation ----

    def broken(self, candidate: Candidate, events: list[Event]) -> bool:
        return any(
            self.breaks(negation, candidate.held, event)
            for negation in candidate.branch.negations
            for event in events
        )

    def breaks(self, negation: Negation, held: Held, event: Event) -> bool:
        """Whether this event is one that the negation forbids."""
        name = negation.variable.name
        return (
            event.type == negation.variable.type
            and all(before(e, event) for e in _of(held, negation.after))
            and all(before(event, e) for e in _of(held, negation.before))
            and self.fit(*events_of(held), event)
            and self.true(negation.conjuncts, {**held, name: event})
        )

    # ---- positive part ----

    def completions(self, event: Event) -> Iterator[tuple[Branch, Held]]:
        """The bindings that are complete with this event as their last."""
        if self.pattern.strategy == ANY:
            for branch in self.pattern.branches:
                for held in self.assignments(branch, 0, {}, event):
                    if event in events_of(held):
                        yield branch, held
            return
        live = self.runs
        self.runs = []
        for branch in self.pattern.branches:
            moved = [
                held
                for known, old in live
                if known is branch
                for held in self.move(branch, old, event)
            ]
            for held in [*moved, *self.begin(branch, {}, event)]:
                variable = branch.variables[len(held) - 1]
                closed = len(held) == len(branch.variables) and _latest(held) is event
                if closed and self.true(branch.placed(variable.name, "proceed"), held):
                    yield branch, held
                if len(held) < len(branch.variables) or variable.kleene:
                    self.runs.append((branch, held))
        self.counters.peak_runs = max(self.counters.peak_runs, len(self.runs))
        if len(self.runs) > self.budget.runs:
            self.stop("runs", event)

    def assignments(self, branch: Branch, index: int, held: Held, last: Event) -> Iterator[Held]:
        """Every way to give events up to `last` to the variables from `index` on."""
        if index == len(branch.variables):
            yield held
            return
        variable = branch.variables[index]
        for choice in self.choices(branch, variable, held, last):
            bound = {**held, variable.name: choice}
            tests = [
                c
                for c in branch.conjuncts
                if c.variables <= set(bound) and (variable.name in c.variables or index == 0)
            ]
            if self.fit(*events_of(bound)) and self.true(tests, bound):
                yield from self.assignments(branch, index + 1, bound, last)

    def choices(
        self, branch: Branch, variable: Variable, held: Held, last: Event
    ) -> Iterator[Event | tuple[Event, ...]]:
        """The events, or for a Kleene variable the non-empty lists of events, it may stand for."""
        used = set(events_of(held))
        allowed = [
            event
            for event in self.events
            if event.type == variable.type and event not in used and self.fit(event, last)
            and all(
                before(other, event)
                for u, v in branch.order if v == variable.name and u in held
                for other in _of(held, {u})
            )
            and all(
                before(event, other)
                for u, v in branch.order if u == variable.name and v in held
                for other in _of(held, {v})
            )
        ]  # fmt: skip
        if not variable.kleene:
            yield from allowed
            return
        lists: list[tuple[Event, ...]] = [()]
        for event in allowed:
            lists += [(*old, event) for old in lists if not old or before(old[-1], event)]
            if len(lists) > self.budget.runs:
                self.stop("runs", event)
        yield from lists[1:]

    def begin(self, branch: Branch, held: Held, event: Event) -> list[Held]:
        """The run with this event as the first of its next component, if it can begin it."""
        variable = branch.variables[len(held)]
        choice = (event,) if variable.kleene else event
        return self.extended(branch, held, variable, choice, "begin", event)

    def extended(
        self,
        branch: Branch,
        held: Held,
        variable: Variable,
        choice: Event | tuple[Event, ...],
        action: str,
        event: Event,
    ) -> list[Held]:
        bound = {**held, variable.name: choice}
        able = (
            event.type == variable.type
            and (not held or before(_latest(held), event))
            and self.true(branch.placed(variable.name, action), bound)
        )
        return [bound] if able else []

    def move(self, branch: Branch, held: Held, event: Event) -> list[Held]:
        """What becomes of a run that reads an event: the edges of SASE+ section 3."""
        if not self.fit(*events_of(held), event):
            return []
        variable = branch.variables[len(held) - 1]
        taken: list[Held] = []
        if variable.kleene:
            so_far = held[variable.name]
            assert isinstance(so_far, tuple)
            taken = self.extended(branch, held, variable, (*so_far, event), "take", event)
        begun: list[Held] = []
        may_begin = not variable.kleene or self.true(branch.placed(variable.name, "proceed"), held)
        if may_begin and len(held) < len(branch.variables):
            begun = self.begin(branch, held, event)
        relevant = taken if variable.kleene else begun
        if self.pattern.strategy == NEXT:
            ignored = not relevant
        elif self.pattern.strategy == PARTITION:
            first = _first(held)
            ignored = not all(
                event.get(name) is not None and event.get(name) == first.get(name)
                for name in self.pattern.same
            )
        else:
            ignored = False
        return [*taken, *begun, *([held] if ignored else [])]

    # ---- judging ----

    def true(self, conjuncts: Any, held: Held) -> bool:
        for conjunct in conjuncts:
            self.counters.evaluations += 1
            if not holds(conjunct, held, self.failed):
                return False
        return True

    def fit(self, *events: Event) -> bool:
        """Whether events lie within one window."""
        if self.window is None:
            return True
        if self.by_count:
            positions = [event.position for event in events]
            return max(positions) - min(positions) < self.window
        return max(e.end for e in events) - min(e.start for e in events) < self.window


def _of(held: Held, names: Any) -> Iterator[Event]:
    return events_of({name: held[name] for name in names})


def _first(held: Held) -> Event:
    return min(events_of(held), key=lambda event: event.position)


def _latest(held: Held) -> Event:
    return max(events_of(held), key=lambda event: event.position)
