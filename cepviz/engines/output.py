"""What happens between positive bindings and a match: negation, one match for equal bindings of
two branches, and non-overlapping output. Shared by the engines that find bindings their own way."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from cepviz.engines.base import Engine, Match, before, events_of, partition_key
from cepviz.events import Event
from cepviz.language.compile import predicate
from cepviz.language.pattern import STRICT, Branch, Negation

Held = Mapping[str, Event | tuple[Event, ...]]
Key = Any  # a partition: whatever `partition_key` gives


class Absence:
    """A negation at work: the events that could break it, kept by partition while they may."""

    def __init__(self, negation: Negation, branch: Branch, engine: Engine):
        self.negation = negation
        self.engine = engine
        name = negation.variable.name
        places = {v.name: f"m[{index}]" for index, v in enumerate(branch.variables)}
        self.names = list(places)
        kleene = [v.name for v in branch.variables if v.kleene]
        # Own predicates are tried once, when the event comes; the others on each match.
        own = [c for c in negation.conjuncts if c.variables == {name}]
        related = [c for c in negation.conjuncts if c.variables != {name}]
        self.own = predicate(own, {name: "e"}, candidate=name, failed=engine.failed)
        self.related = predicate(
            related, {**places, name: "e"}, candidate=name, kleene=kleene, failed=engine.failed
        )
        self.events: dict[Key, list[Event]] = {}
        self.order: deque[tuple[Event, Key]] = deque()

    def note(self, event: Event, key: Key) -> None:
        """Keeps an event that could break the negation."""
        if event.type == self.negation.variable.type and self.own(event, ()):
            self.events.setdefault(key, []).append(event)
            self.order.append((event, key))

    def broken(self, held: Held, key: Key) -> Event | None:
        """The first event that breaks the negation for these bindings."""
        events = self.events.get(key)
        if not events:
            return None
        after = [e.position for e in _of(held, self.negation.after)]
        before_them = [e.position for e in _of(held, self.negation.before)]
        position = attrgetter("position")
        low = bisect_right(events, max(after), key=position) if after else 0
        high = bisect_left(events, min(before_them), key=position) if before_them else len(events)
        for event in events[low:high]:
            if self.breaks(event, held):
                return event
        return None

    def breaks(self, event: Event, held: Held) -> bool:
        """Whether this event, which passed its own predicates, breaks the negation."""
        engine = self.engine
        all_events = list(events_of(held))
        first = min(all_events, key=lambda e: e.start)
        last = max(all_events, key=lambda e: e.end)
        if engine.by_count:
            first = min(all_events, key=lambda e: e.position)
            last = max(all_events, key=lambda e: e.position)
        return (
            all(before(e, event) for e in _of(held, self.negation.after))
            and all(before(event, e) for e in _of(held, self.negation.before))
            and engine.fits(event, last)
            and engine.fits(first, event)
            and self.related(event, tuple(held.get(name) for name in self.names))
        )

    def prune(self, expired: Callable[[Event], bool]) -> None:
        """Forgets the events that are too old to break a match still to come."""
        while self.order and expired(self.order[0][0]):
            _, key = self.order.popleft()
            self.events[key].pop(0)
            if not self.events[key]:
                del self.events[key]


class Candidate:
    """Positive bindings on their way to become a match."""

    __slots__ = ("branch", "completed", "first", "held", "key", "positions", "run")

    def __init__(self, branch: Branch, held: Held, completed: Event, run: str, key: Key):
        self.branch = branch
        self.held = held
        self.completed = completed
        self.run = run
        self.key = key
        self.positions = sorted(event.position for event in events_of(held))
        self.first = min(events_of(held), key=lambda event: event.start)

    @property
    def order(self) -> tuple[int, list[int]]:
        """By completion, then by start, then by events."""
        return self.positions[-1], self.positions


class Output:
    """Judges candidates and reports matches."""

    def __init__(
        self,
        engine: Engine,
        branches: tuple[Branch, ...],
        on_match: Callable[[Key, int], None] | None = None,
    ):
        self.engine = engine
        self.partition = partition_key(engine.pattern.same, engine.schema)
        self.absences = {
            id(branch): [Absence(negation, branch, engine) for negation in branch.negations]
            for branch in branches
        }
        self.all = [absence for listed in self.absences.values() for absence in listed]
        self.types = {absence.negation.variable.type for absence in self.all}
        self.overlap = engine.pattern.output == "all"
        self.on_match = on_match
        self.several = len(engine.pattern.branches) > 1
        self.told: dict[Key, Event] = {}
        self.waiting: list[tuple[Any, int, Candidate]] = []
        self.by_key: dict[Key, list[Candidate]] = {}
        self.dead: set[int] = set()
        self.decided: list[Candidate] = []
        self.ends: dict[Key, int] = {}
        self.number = 0
        #: Whether candidates come with the event that completes them, never later.
        self.in_order = True

    @property
    def idle(self) -> bool:
        """Whether events do not concern it: nothing is negated, nothing is held back."""
        return not self.all and self.overlap and not self.several

    def early(self, branch: Branch) -> list[tuple[frozenset[str], Absence]]:
        """The negations that can be judged before a match is complete, those with an event on
        both sides, each with the variables that must be bound for that."""
        found = []
        for absence in self.absences[id(branch)]:
            negation = absence.negation
            if negation.after and negation.before:
                about = frozenset().union(*(c.variables for c in negation.conjuncts))
                needed = negation.after | negation.before | about - {negation.variable.name}
                found.append((needed, absence))
        return found

    # ---- the stream ----

    def note(self, event: Event) -> None:
        """An event comes: it settles what waited for the window's end, and may break the rest."""
        self.settle(event)
        if event.type not in self.types:
            return
        key = self.partition(event)
        for absence in self.all:
            absence.note(event, key)
        if key in self.by_key:
            for candidate in self.by_key[key]:
                for absence in self.absences[id(candidate.branch)]:
                    if absence.negation.variable.type != event.type:
                        continue
                    if absence.own(event, ()) and absence.breaks(event, candidate.held):
                        self.refuse(candidate, absence.negation, event)
                        break

    def settle(self, event: Event | None) -> None:
        """Decides the candidates whose window has passed; at the end of the stream, all."""
        engine = self.engine
        while self.waiting and (event is None or not engine.fits(self.waiting[0][2].first, event)):
            _, number, candidate = heapq.heappop(self.waiting)
            if number in self.dead:
                self.dead.discard(number)
                continue
            self._forget(candidate)
            self.decide(candidate)
        if self.several and event is not None and self.in_order:
            self._forget_told(event)
        if not self.overlap and (self.in_order or event is None):
            self.settle_order()

    def settle_order(self, earliest: Event | None = None) -> None:
        """Non-overlap: reports what is decided, up to the earliest candidate still waiting, and
        to the earliest event with which one still to come may begin."""
        horizons = [self._horizon(), None if earliest is None else (earliest.position, [])]
        self.release(min((h for h in horizons if h is not None), default=None))

    def prune(self, expired: Callable[[Event], bool]) -> None:
        """Forgets the events that are too old to break a match still to come."""
        for absence in self.all:
            absence.prune(expired)

    # ---- candidates ----

    def candidate(self, branch: Branch, held: Held, completed: Event, run: str = "") -> None:
        """Takes bindings that satisfy everything positive."""
        key = self.partition(completed)
        candidate = Candidate(branch, held, completed, run, key)
        absences = self.absences.get(id(branch), ())
        for absence in absences:
            culprit = absence.broken(held, key)
            if culprit is not None:
                self.refuse(candidate, absence.negation, culprit, new=True)
                return
        latest = self.engine.latest
        trailing = any(absence.negation.trailing for absence in absences)
        if trailing and latest is not None and self.engine.fits(candidate.first, latest):
            self.number += 1
            time = candidate.first.position if self.engine.by_count else candidate.first.start
            heapq.heappush(self.waiting, (time, self.number, candidate))
            self.by_key.setdefault(key, []).append(candidate)
            return
        self.decide(candidate)

    def refuse(
        self, candidate: Candidate, negation: Negation, culprit: Event, new: bool = False
    ) -> None:
        engine = self.engine
        if not new:
            number = next(n for _, n, known in self.waiting if known is candidate)
            self.dead.add(number)
            self._forget(candidate)
        if engine.emit is not None:
            engine.negated(candidate.run, negation.variable.name, candidate.held, culprit)

    def _forget(self, candidate: Candidate) -> None:
        listed = self.by_key[candidate.key]
        self.by_key[candidate.key] = [known for known in listed if known is not candidate]
        if not self.by_key[candidate.key]:
            del self.by_key[candidate.key]

    def decide(self, candidate: Candidate) -> None:
        if self.overlap:
            self.report(candidate)
        else:
            self.decided.append(candidate)

    def _horizon(self) -> tuple[int, list[int]] | None:
        """The earliest candidate that is still waiting, in the order of non-overlap."""
        return min((c.order for _, n, c in self.waiting if n not in self.dead), default=None)

    def release(self, horizon: tuple[int, list[int]] | None) -> None:
        """Reports decided candidates up to a horizon, leaving out those that overlap."""
        if not self.decided:
            return
        ready = [c for c in self.decided if horizon is None or c.order < horizon]
        self.decided = [c for c in self.decided if not (horizon is None or c.order < horizon)]
        for candidate in sorted(ready, key=lambda candidate: candidate.order):
            key = () if self.engine.pattern.strategy == STRICT else candidate.key
            if candidate.positions[0] <= self.ends.get(key, -1):
                continue
            self.ends[key] = candidate.positions[-1]
            self.report(candidate)
            if self.on_match is not None:
                self.on_match(key, candidate.positions[-1])

    def report(self, candidate: Candidate) -> None:
        held = {**candidate.held, **dict.fromkeys(candidate.branch.empty, ())}
        if self.several:
            key = Match(held, candidate.completed).key
            if key in self.told:
                return
            self.told[key] = candidate.first
        self.engine.found(held, candidate.completed, candidate.run)

    def _forget_told(self, event: Event) -> None:
        fits = self.engine.fits
        while self.told:
            key, first = next(iter(self.told.items()))
            if fits(first, event) and self.engine.window is not None:
                break
            del self.told[key]


def _of(held: Held, names: Any) -> list[Event]:
    return list(events_of({name: held[name] for name in names}))
