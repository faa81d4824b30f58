"""Timeline, what stays: the lanes of a trace or a stream, and the place of each event."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepviz.errors import CepError, one_of
from cepviz.events import Schema, Stream
from cepviz.language.build import as_pattern
from cepviz.language.pattern import Negation, Pattern
from cepviz.steps import Arrive, Matched, Scope
from cepviz.trace import Trace
from cepviz.views.axis import LETTER, Scale
from cepviz.views.scene import Number, Shape, remembered, shortened

LANES = ("type", "variable")
#: A stream of more events is shown a page at a time; a new page begins every HOP events.
MOST_EVENTS, PAGE, HOP = 400, 300, 100
MOST_LANES = 12
MOST_ROWS = 6  # events at one place stand one below the other, up to here
LEFT, RIGHT = 128, 32


@dataclass(frozen=True)
class Lane:
    """A line of events: those of one type, or those that one variable may stand for."""

    name: str
    types: frozenset[str] | None  # None takes what no other lane takes
    variable: str = ""


@dataclass
class Facts:
    """What is known of a source without regard to any step."""

    source: Trace | Stream
    clock: Schema
    count: int
    lanes: tuple[Lane, ...]
    pattern: Pattern | None = None
    negations: tuple[Negation, ...] = ()
    trace: Trace | None = None
    events: list[Arrive] = field(default_factory=list)
    ordinal: dict[str, int] = field(default_factory=dict)
    arrivals: list[int] = field(default_factory=list)
    stores: bool = False
    backwards: bool = False
    scopes: list[int] = field(default_factory=list)
    pages: dict[Any, Page] = field(default_factory=dict)

    @property
    def window(self) -> str:
        within = self.pattern.within if self.pattern else None
        return "" if within is None or within.amount is None else str(within)

    def part(self, low: int, high: int) -> list[Arrive]:
        if isinstance(self.source, Stream):
            return [Arrive.of(event) for event in self.source[low:high]]
        return self.events[low:high]

    def lanes_of(self, event: Arrive) -> list[Lane]:
        named = [lane for lane in self.lanes if lane.types and event.type in lane.types]
        return named or [lane for lane in self.lanes if lane.types is None][:1]


def pattern_of(trace: Trace) -> Pattern | None:
    """The pattern a trace was recorded with; None where its text is none."""
    try:
        return remembered(trace, "pattern", lambda: as_pattern(trace.pattern))
    except CepError:
        return None


def facts_of(source: Trace | Stream, lanes: str) -> Facts:
    if lanes not in LANES:
        raise CepError(f"lanes are by {one_of(map(repr, LANES))}, not {lanes!r}")
    if isinstance(source, Trace):
        return remembered(source, ("timeline", lanes), partial(_facts_of_trace, source, lanes))
    if isinstance(source, Stream):
        return remembered(source, ("timeline", lanes), partial(_facts_of_stream, source))
    raise CepError(f"a timeline shows a Trace or a Stream, not {type(source).__name__}")


def _facts_of_stream(stream: Stream) -> Facts:
    return Facts(stream, stream.schema, len(stream), _by_type(stream.counts(), None))


def _facts_of_trace(trace: Trace, lanes: str) -> Facts:
    pattern, events = pattern_of(trace), trace.events
    counts = Counter(event.type for event in events)
    negations: dict[Any, Negation] = {}
    for branch in pattern.branches if pattern else ():
        for negation in branch.negations:
            negations[negation.variable, negation.after, negation.before] = negation
    named = _by_variable(counts, pattern) if lanes == "variable" and pattern else None
    occurring = trace.counts()
    return Facts(
        trace,
        trace.clock,
        len(events),
        named or _by_type(counts, pattern),
        pattern,
        tuple(negations.values()),
        trace,
        events,
        {event.event: place for place, event in enumerate(events)},
        [place for place, step in enumerate(trace) if isinstance(step, Arrive)],
        # Buffers with pointers hold what runs took; the others are input buffers.
        stores="put" in occurring and "link" not in occurring,
        backwards="put" in occurring and "link" not in occurring,
        scopes=[place for place, step in enumerate(trace) if isinstance(step, Scope)],
    )


def _by_type(counts: dict[str, int], pattern: Pattern | None) -> tuple[Lane, ...]:
    wanted = [v.type for v in pattern.variables.values()] if pattern else []
    types = list(dict.fromkeys([*wanted, *counts]))
    if len(types) > MOST_LANES:
        often = sorted(types, key=lambda name: (name not in wanted, -counts.get(name, 0)))
        kept = set(often[: MOST_LANES - 1])
        types = [name for name in types if name in kept]
    lanes = tuple(Lane(name, frozenset({name})) for name in types)
    rest = len(counts.keys() - set(types))
    return (*lanes, Lane(f"{rest} other types", None)) if rest else lanes


def _by_variable(counts: dict[str, int], pattern: Pattern) -> tuple[Lane, ...]:
    lanes = tuple(
        Lane(f"{'~' if v.negated else ''}{v}: {v.type}", frozenset({v.type}), v.name)
        for v in pattern.variables.values()
    )
    known = {v.type for v in pattern.variables.values()}
    return (*lanes, Lane("other types", None)) if counts.keys() - known else lanes


@dataclass(frozen=True)
class Spot:
    """Where one event is drawn in one lane; `start` differs from `x` for one that lasts."""

    key: str
    event: Arrive
    lane: Lane
    start: float
    x: float
    y: float
    label: str
    place: int  # of the event among all


@dataclass
class Page:
    """The place of every event that is shown, and the heights of what is around."""

    low: int
    high: int
    scale: Scale
    spots: list[Spot]
    rails: list[tuple[Lane, float]]
    top: float
    bottom: float
    matches_at: float | None
    big: float
    small: float
    by_label: dict[str, list[Spot]]
    brackets: dict[str, float]
    #: Events that complete matches, with the steps of those: their places in the trace, and they.
    matches: dict[str, tuple[list[int], list[Matched]]]
    #: What was drawn for an event before: it looks alike in most steps.
    drawn: dict[Any, dict[str, Shape]] = field(default_factory=dict)


def page_of(facts: Facts, current: int, width: int) -> Page:
    low, high = 0, facts.count
    if facts.count > MOST_EVENTS:
        low = max(0, min(current // HOP * HOP - HOP, facts.count - PAGE))
        high = low + PAGE
    if (low, width) not in facts.pages:
        facts.pages[low, width] = _laid_out(facts, low, high, width)
    return facts.pages[low, width]


def _laid_out(facts: Facts, low: int, high: int, width: int) -> Page:
    events = facts.part(low, high)
    times = [time for event in events for time in (finite(event.start), finite(event.end))]
    crowded = len(events) > 90
    big, small, apart = (4.0, 2.5, 9.5) if crowded else (5.5, 3.5, 14.0)
    scale = Scale(times, LEFT + 12, width - RIGHT, even=False)
    rows = _rows(facts, events, scale, apart)
    if max(rows.values(), default=0) >= MOST_ROWS:
        evenly = Scale(times, LEFT + 12, width - RIGHT, even=True)
        spread = _rows(facts, events, evenly, apart)
        if max(spread.values()) < max(rows.values()):
            scale, rows = evenly, spread

    brackets: dict[str, float] = {}
    top = 22.0
    for name, wanted in (("window", facts.window), ("scope", facts.scopes)):
        if wanted:
            top += 22
            brackets[name] = top - 6
    top += 20
    height = 11.0 if crowded else 27.0
    y, spots, rails = top, [], []
    names = Counter[str]()
    by_lane: dict[str, list[tuple[int, Arrive]]] = {}
    for place, event in enumerate(events):
        for lane in facts.lanes_of(event):
            by_lane.setdefault(lane.name, []).append((place, event))
    for lane in facts.lanes:
        inside = by_lane.get(lane.name, [])
        deep = max((min(rows[place, lane.name], MOST_ROWS - 1) for place, _ in inside), default=0)
        first = y + (14 if crowded else 21)
        rails.append((lane, first + deep * height / 2))
        ends: dict[int, float] = {}
        for place, event in inside:
            row = min(rows[place, lane.name], MOST_ROWS - 1)
            x, start = scale(finite(event.end)), scale(finite(event.start))
            label = shortened(event.event, 9)
            half = len(label) * LETTER / 2
            if crowded or x - half < ends.get(row, -math.inf):
                label = ""
            else:
                ends[row] = x + half + 3
            key = f"event:{event.event}{f':{lane.variable}' if lane.variable else ''}"
            names[key] += 1
            if names[key] > 1:  # labels that a hand-made trace gave twice
                key = f"{key}~{names[key]}"
            y_here = first + row * height
            spots.append(Spot(key, event, lane, start, x, y_here, label, low + place))
        y = first + deep * height + (12 if crowded else 13)
    if facts.negations:
        y += 14
    matches_at = None
    if facts.trace is not None and facts.trace.matches:
        matches_at, y = y + 15, y + 27
    by_label: dict[str, list[Spot]] = {}
    for spot in spots:
        by_label.setdefault(spot.event.event, []).append(spot)
    matches: dict[str, tuple[list[int], list[Matched]]] = {}
    for place, step in facts.trace.matches if facts.trace is not None else ():
        if step.event in by_label:
            places, steps = matches.setdefault(step.event, ([], []))
            places.append(place)
            steps.append(step)
    return Page(
        low, high, scale, spots, rails, top, y, matches_at, big, small, by_label, brackets, matches
    )


def _rows(
    facts: Facts, events: list[Arrive], scale: Scale, apart: float
) -> dict[tuple[int, str], int]:
    """For each event in each lane, how far below the first row it must stand to be seen."""
    placed: dict[tuple[int, str], int] = {}
    ends: dict[str, list[float]] = {}
    order = sorted(range(len(events)), key=lambda place: (finite(events[place].start), place))
    for place in order:
        event = events[place]
        start, end = scale(finite(event.start)), scale(finite(event.end))
        for lane in facts.lanes_of(event):
            taken = ends.setdefault(lane.name, [])
            row = next((r for r, edge in enumerate(taken) if edge <= start), len(taken))
            taken[row : row + 1] = [end + apart]
            placed[place, lane.name] = row
    return placed


def finite(value: Any) -> Number:
    return value if isinstance(value, int | float) else 0  # a saved time that was not finite
