"""One candidate: the events it names, and whether `naive` takes exactly these.

`Focused` is the oracle itself with everything else pruned away, so that it is quick on a candidate
even where all matches together would be too many.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cepviz.engines.base import Match, before, events_of
from cepviz.engines.naive import Held, Naive
from cepviz.errors import CepError, StreamError, did_you_mean, one_of
from cepviz.events import Event, Stream
from cepviz.explain.shown import events_in
from cepviz.language.pattern import ANY, Branch, Pattern
from cepviz.language.structure import Variable

#: How many events on either side are looked at where no window says how far to look.
NEAR = 2000

#: How many moves of runs the search for a completion may take.
MOST_MOVES = 200_000


class Focused(Naive):
    """`naive` with only those runs that can still become the wanted bindings.

    With `free`, variables that are not wanted may stand for any event; without, for none.
    """

    name = "naive"

    def __init__(self, pattern: Pattern, wanted: Held, free: bool = False, **keywords: Any):
        super().__init__(pattern, **keywords)
        self.wanted = wanted
        self.free = free
        self.moves = 0

    def choices(
        self, branch: Branch, variable: Variable, held: Held, last: Event
    ) -> Iterator[Event | tuple[Event, ...]]:
        wanted = self.wanted.get(variable.name)
        if wanted is None:
            if self.free:
                yield from super().choices(branch, variable, held, last)
            return
        alone = replace(variable, kleene=False)
        allowed = [e for e in super().choices(branch, alone, held, last) if e in events_in(wanted)]
        if not variable.kleene:
            yield from allowed
        elif wanted and tuple(allowed) == wanted and in_order(allowed):  # type: ignore[arg-type]
            yield wanted

    def begin(self, branch: Branch, held: Held, event: Event) -> list[Held]:
        begun = super().begin(branch, held, event)
        # What a run could do decides what it may ignore, so only new runs are pruned here.
        return begun if held else [new for new in begun if self.hopeful(new)]

    def move(self, branch: Branch, held: Held, event: Event) -> list[Held]:
        self.moves += 1
        if self.moves > MOST_MOVES:
            self.stop("runs", event)
        return [new for new in super().move(branch, held, event) if self.hopeful(new)]

    def hopeful(self, held: Held) -> bool:
        """Whether a run holds only what is wanted; its last list may still be growing."""
        names = list(held)
        for name, bound in held.items():
            wanted = self.wanted.get(name)
            if wanted is None:
                if not self.free:
                    return False
            elif isinstance(bound, tuple) and isinstance(wanted, tuple):
                whole = wanted if name != names[-1] else wanted[: len(bound)]
                if bound != whole:
                    return False
            elif bound != wanted:
                return False
        return True


def in_order(events: Iterable[Event]) -> bool:
    """Whether each event comes before the next one."""
    listed = list(events)
    return all(before(one, two) for one, two in itertools.pairwise(listed))


def bound_events(
    pattern: Pattern, stream: Stream, bindings: Mapping[str, Any]
) -> tuple[Held, frozenset[Event]]:
    """The events that bindings by id stand for, and those of them that came too late."""
    declared = pattern.variables
    late: set[Event] = set()
    held: Held = {}
    for name, given in bindings.items():
        variable = declared.get(name)
        if variable is None:
            raise CepError(
                f"the pattern has no variable {name!r}{did_you_mean(name, declared)}; "
                f"it has {one_of(declared)}"
            )
        if variable.negated:
            raise CepError(
                f"{name} must not occur in a match, so it cannot be bound: "
                f"bind the others, and why_not says which {variable.type} breaks ~({name})"
            )
        several = isinstance(given, Collection) and not isinstance(given, str | Event)
        ids = list(given) if several else [given]
        if not variable.kleene and len(ids) != 1:
            raise CepError(f"{name} is one event, not a list of {len(ids)}: give one id")
        found = [_event(stream, one, late) for one in ids]
        if variable.kleene:
            held[name] = tuple(sorted(found, key=lambda event: event.position))
        else:
            held[name] = found[0]
    return held, frozenset(late)


def _event(stream: Stream, given: Any, late: set[Event]) -> Event:
    if isinstance(given, Event):
        if given in stream.late:  # numbers of late rows can be those of other events, too
            late.add(given)
            return given
        given = given.id
    for source in (stream, stream.late):
        rows = _rows(source, given)
        if not len(rows) and isinstance(given, str) and given[:1] == "e" and given[1:].isdigit():
            rows = _rows(source, int(given[1:]))  # a label such as e3
        if len(rows):
            event: Event = source[int(rows[0])]
            if source is not stream:
                late.add(event)
            return event
    known = stream.ids.tolist()
    if isinstance(given, str):
        near = did_you_mean(given, [str(one) for one in known[:10_000]])
    else:
        near = f"; ids go from {known[0]} to {known[-1]}" if known else ""
    raise StreamError(f"no event of the stream has the id {given!r}{near}")


def _rows(stream: Stream, given: Any) -> Any:
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
    if stream.ids.dtype != object and number != (stream.ids.dtype.kind in "iuf"):
        return np.arange(0)
    return np.flatnonzero(np.asarray(stream.ids == given))


class Ground:
    """A pattern on a stream, cut down to what lies near a candidate."""

    def __init__(self, pattern: Pattern, stream: Stream):
        self.stream = stream
        self.schema = stream.schema
        #: The oracle, asked rule by rule: its window, its negations, its moves.
        self.rules = Naive(pattern, schema=stream.schema)
        self.pattern = self.rules.pattern
        self._offset = int(stream.positions[0]) if len(stream) else 0

    def row(self, event: Event) -> int:
        return event.position - self._offset

    def reach(self, held: Held, near: int | None = None) -> tuple[int, int]:
        """The rows, from and up to, that can lie in one window with the candidate.

        Without a window it is the candidate's own span, and `near` events on either side.
        """
        events = list(events_of(held))
        rows = [self.row(event) for event in events]
        low, high = min(rows), max(rows) + 1
        rules = self.rules
        if rules.window is None:
            wide = near or 0
            return max(0, low - wide), min(len(self.stream), high + wide)
        if rules.by_count:
            size = int(rules.window)
            start, end = max(rows) - size + 1, min(rows) + size
        else:
            first, last = min(e.start for e in events), max(e.end for e in events)
            start = int(np.searchsorted(self.stream.ends, last - rules.window, side="right"))
            end = int(np.searchsorted(self.stream.ends, first + rules.window, side="left"))
        low, high = min(low, max(0, start)), max(high, min(len(self.stream), end))
        if near is not None:  # a window of a million events is not searched
            low, high = max(low, min(rows) - near), min(high, max(rows) + 1 + near)
        return low, high

    def events(self, low: int, high: int) -> list[Event]:
        return list(self.stream[low:high])

    def forbidden(self, held: Held) -> list[Event]:
        """The events near the candidate that could break a negation, by their type."""
        types = {n.variable.type for branch in self.pattern.branches for n in branch.negations}
        if not types & set(self.schema.types):
            return []
        return [event for event in self.events(*self.reach(held)) if event.type in types]

    def found(self, held: Held, free: bool = False, near: int | None = None) -> Match | None:
        """The match with these bindings, if `naive` finds one in the stream around them."""
        if not any(True for _ in events_of(held)):
            return None
        if self.pattern.strategy == ANY and not free:
            # Any other event is skipped, so it has no say.
            known = {e.position: e for e in (*self.forbidden(held), *events_of(held))}
            events = [known[position] for position in sorted(known)]
        else:
            events = self.events(*self.reach(held, near))
        engine = Focused(replace(self.pattern, output="all"), held, free, schema=self.schema)
        for event in events:
            for match in engine.push(event):
                if contains(match.bindings, held):
                    return match
        return next((m for m in engine.flush() if contains(m.bindings, held)), None)


def contains(bindings: Held, wanted: Held) -> bool:
    """Whether bindings agree with the wanted ones, and may have more."""
    return all(name in bindings and bindings[name] == bound for name, bound in wanted.items())
