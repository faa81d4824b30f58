"""Timeline: the events of a trace or a stream on a time axis, and what one run makes of them."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepviz.errors import CepError, one_of
from cepviz.events import Schema, Stream
from cepviz.language.build import as_pattern
from cepviz.language.pattern import Negation, Pattern
from cepviz.steps import Arrive, Drop, Matched, Move, Scope, Spawn, Test
from cepviz.trace import Bindings, Trace
from cepviz.views.scene import Number, Scene, remembered, shortened

LANES = ("type", "variable")
#: A stream of more events is shown a page at a time; a new page begins every HOP events.
MOST_EVENTS, PAGE, HOP = 400, 300, 100
MOST_LANES = 12
MOST_ROWS = 6  # events at one place stand one below the other, up to here
LEFT, RIGHT = 128, 32
LETTER = 6.7  # the width of a letter of 11 px
LONGEST_TITLE = 600

SIGNS = {
    "later": "˙", "read": "·", "ignored": "○", "stored": "□", "found": "■", "bound": "●",
    "end": "◆", "culprit": "✕",
}  # fmt: skip


def timeline(
    source: Trace | Stream,
    index: int | None = None,
    *,
    run: str | None = None,
    match: int | None = None,
    lanes: str = "type",
    width: int = 960,
) -> Scene:
    """Draws the events in lanes over time: which were read, and what one run did with them.

    The run is `run`, that of match number `match`, or the one the step at `index` (by default the
    last) is about. A stream is drawn without a run; `index` is then the place of an event. Lanes
    are the types of events or, with `lanes="variable"`, the variables of the pattern.
    """
    facts = _facts(source, lanes)
    return _Drawing(facts, _moment(facts, index, run, match), width).scene()


def timeline_text(
    source: Trace | Stream,
    index: int | None = None,
    *,
    run: str | None = None,
    match: int | None = None,
    lanes: str = "type",
    width: int = 100,
) -> str:
    """The same picture in letters, for a terminal: a line for each lane.

    >>> trace = Trace(pattern="PATTERN SEQ(A a, B b) WITHIN 9")
    >>> for n, letter in enumerate("AAB"):
    ...     trace(Arrive(f"e{n}", letter, str(n), {}, n, n))
    >>> trace(Matched(1, "", "e2", (("a", ("e0",)), ("b", ("e2",))), "2 of 9"))
    >>> print(timeline_text(trace, width=32))
    window ├─────────────────────┤
    A      ●          ·
    B                            ◆
                                 ▲ e2
           0                     2
    Match #1: a = e0, b = e2, 2 of 9.
    ● in the match  ◆ its end  · read
    """
    facts = _facts(source, lanes)
    return _text(facts, _moment(facts, index, run, match), width)


# ---- what stays the same while a trace is stepped through ----


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


def _facts(source: Trace | Stream, lanes: str) -> Facts:
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


# ---- where things are ----


class Scale:
    """From time to place: in proportion or, where events crowd, evenly from one to the next."""

    def __init__(self, times: list[Number], low: float, high: float, even: bool):
        self.even = even
        self.times = sorted(set(times)) or [0]
        self.low, self.high = low, high
        first, last = self.times[0], self.times[-1]
        self.first, self.last = (first - 1, last + 1) if first == last else (first, last)

    def __call__(self, time: Number) -> float:
        room = self.high - self.low
        if not self.even or len(self.times) < 2:
            share = (time - self.first) / (self.last - self.first)
            return round(self.low + min(1.0, max(0.0, share)) * room, 1)
        place = bisect_left(self.times, time)
        if place == len(self.times):
            return self.high
        share = float(place)
        if time < self.times[place] and place:
            before = self.times[place - 1]
            share += (time - before) / (self.times[place] - before) - 1
        return round(self.low + share / (len(self.times) - 1) * room, 1)

    def holds(self, time: Number) -> bool:
        return self.first <= time <= self.last

    def ticks(self, clock: Schema) -> tuple[list[tuple[float, str]], str]:
        """The marks of the axis, and what is common to them."""
        if self.even:
            step = max(1, math.ceil(len(self.times) / 7))
            chosen = self.times[::step]
        else:
            chosen = nice_times(self.first, self.last, clock)
        texts, common = _without_common([clock.format_time(time) for time in chosen])
        unit = "" if clock.zone else f"time in {clock.unit}"
        caption = " ".join(filter(None, [common, unit]))
        caption += ", not to scale" if self.even else ""
        placed = [(self(time), text) for time, text in zip(chosen, texts, strict=True)]
        kept: list[tuple[float, str]] = []
        edge = -math.inf
        for x, text in placed:
            if x - len(text) * LETTER / 2 > edge:
                kept.append((x, text))
                edge = x + len(text) * LETTER / 2 + 8
        return kept, caption


def nice_times(first: Number, last: Number, clock: Schema, most: int = 7) -> list[Number]:
    """A few round times between two.

    >>> nice_times(0, 10, Schema())
    [0, 2, 4, 6, 8, 10]
    """
    span = last - first
    if clock.zone is None:
        rough = span / most
        size = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
        step: Number = next(s * size for s in (1, 2, 5, 10) if s * size >= rough * 0.999)
        offset: Number = 0
        if float(step).is_integer() and isinstance(first, int):
            step = int(step)
    else:
        units = [("ns", 1), ("us", 1), ("ms", 1), ("s", 1), ("min", 1), ("h", 1), ("day", 1)]
        counts = {"min": (1, 2, 5, 10, 15, 30), "h": (1, 2, 3, 6, 12), "s": (1, 2, 5, 10, 15, 30)}
        days = (1, 2, 7, 14, 30, 90, 180, 365, 730, 1825, 3650, 36500)
        fine = (1, 2, 5, 10, 20, 50, 100, 200, 500)
        steps = [
            clock.duration(n, unit)
            for unit, _ in units
            for n in (days if unit == "day" else counts.get(unit, fine))
        ]
        step = next((s for s in steps if s and s >= span / most), steps[-1])
        offset = _offset(clock, first)
    start = math.ceil((first + offset) / step) * step - offset
    count = int((last - start) // step) + 1 if last >= start else 0
    return [start + n * step for n in range(count)] or [first]


def _offset(clock: Schema, time: Number) -> Number:
    """How far the clock's zone is ahead, so that marks fall on its full hours and days."""
    text = clock.format_time(time)
    if len(text) > 6 and text[-6] in "+-" and text[-3] == ":":
        minutes = int(text[-5:-3]) * 60 + int(text[-2:])
        return clock.duration(minutes if text[-6] == "+" else -minutes, "minutes")
    return 0


def _without_common(texts: list[str]) -> tuple[list[str], str]:
    """Dates and zones that all texts share are said once."""
    dated = all(len(text) > 18 and text[10] == " " for text in texts)
    if not dated or not texts:
        return texts, ""
    day = texts[0][:10] if len({text[:10] for text in texts}) == 1 else ""
    zone = texts[0][-6:] if texts[0][-6] in "+-" else ""
    if not all(text.endswith(zone) for text in texts):
        zone = ""
    cut = [text[11 if day else 5 : len(text) - len(zone)] for text in texts]
    if all(text.endswith(":00") for text in cut):
        cut = [text[:-3] for text in cut]
    return cut, " ".join(filter(None, [day or texts[0][:4], f"UTC{zone}" if zone else ""]))


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


def _page(facts: Facts, current: int, width: int) -> Page:
    low, high = 0, facts.count
    if facts.count > MOST_EVENTS:
        low = max(0, min(current // HOP * HOP - HOP, facts.count - PAGE))
        high = low + PAGE
    if (low, width) not in facts.pages:
        facts.pages[low, width] = _laid_out(facts, low, high, width)
    return facts.pages[low, width]


def _laid_out(facts: Facts, low: int, high: int, width: int) -> Page:
    events = facts.part(low, high)
    times = [time for event in events for time in (_number(event.start), _number(event.end))]
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
            x, start = scale(_number(event.end)), scale(_number(event.start))
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
    return Page(
        low, high, scale, spots, rails, top, y, matches_at, big, small, by_label, brackets
    )  # fmt: skip


def _rows(
    facts: Facts, events: list[Arrive], scale: Scale, apart: float
) -> dict[tuple[int, str], int]:
    """For each event in each lane, how far below the first row it must stand to be seen."""
    placed: dict[tuple[int, str], int] = {}
    ends: dict[str, list[float]] = {}
    order = sorted(range(len(events)), key=lambda place: (_number(events[place].start), place))
    for place in order:
        event = events[place]
        start, end = scale(_number(event.start)), scale(_number(event.end))
        for lane in facts.lanes_of(event):
            taken = ends.setdefault(lane.name, [])
            row = next((r for r, edge in enumerate(taken) if edge <= start), len(taken))
            taken[row : row + 1] = [end + apart]
            placed[place, lane.name] = row
    return placed


def _number(value: Any) -> Number:
    return value if isinstance(value, int | float) else 0  # a saved time that was not finite


# ---- one moment of it ----


@dataclass
class Moment:
    """What one step, or one chosen run or match, has to show."""

    index: int | None  # of the step
    current: int  # how many events were read, less one
    say: str
    now: str = ""
    run: str = ""
    bindings: Bindings = ()
    matched: Matched | None = None
    dropped: Drop | None = None
    scope: Scope | None = None
    tested: Test | None = None
    ignored: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()

    @property
    def bound(self) -> dict[str, str]:
        """Each event that the run or match holds, with its variable."""
        return {label: name for name, labels in self.bindings for label in labels}


def _moment(facts: Facts, index: int | None, run: str | None, match: int | None) -> Moment:
    trace = facts.trace
    if trace is None:
        return _moment_of_stream(facts, index, run, match)
    if match is not None:
        found = [(i, step) for i, step in trace.matches if step.number == match]
        if not found:
            known = f"1 to {len(trace.matches)}" if trace.matches else "none"
            raise CepError(f"there is no match #{match} in this trace: it has {known}")
        place, matched = found[0]
        index = place if index is None else index
    if len(trace) == 0:
        return Moment(None, -1, "Nothing happened.")
    if index is None and run is not None:
        history = trace.run_history(run)
        index = history[-1] if history else None
    index = range(len(trace))[-1 if index is None else index]
    current = bisect_right(facts.arrivals, index) - 1
    moment = Moment(index, current, trace[index].say())
    moment.now = facts.events[current].event if current >= 0 else ""
    step = trace[index]
    if isinstance(step, Test):
        moment.tested = step
    if facts.stores:
        moment.stored = frozenset(e for held in trace.at(index).buffers.values() for e in held)
    if match is not None:
        moment.run, moment.matched, moment.bindings = matched.run, matched, matched.bindings
        moment.say = matched.say()
    else:
        moment.run = run if run is not None else _run_at(facts, trace, index)
    if moment.run:
        _follow(trace, moment, index)
    elif isinstance(step, Matched):
        moment.matched, moment.bindings = step, step.bindings
    since = facts.arrivals[current] if current >= 0 and run is None else 0
    family = _family(trace, moment.run) if run is not None else None
    for place in reversed(facts.scopes[: bisect_right(facts.scopes, index)]):
        found_scope = trace[place]
        if place < since:
            break
        if isinstance(found_scope, Scope) and (family is None or found_scope.run in family):
            moment.scope = found_scope
            break
    return moment


def _moment_of_stream(
    facts: Facts, index: int | None, run: str | None, match: int | None
) -> Moment:
    if run is not None or match is not None:
        raise CepError("a stream has no runs and no matches: give the trace of a pattern on it")
    told = f"{facts.count:,} event{'' if facts.count == 1 else 's'}."
    if index is None:
        return Moment(None, facts.count - 1, told)
    if not -facts.count <= index < facts.count:
        raise IndexError(f"there is no event {index}: this stream has {told}")
    current = range(facts.count)[index]
    (event,) = facts.part(current, current + 1)
    return Moment(None, current, event.say(), event.event)


def _run_at(facts: Facts, trace: Trace, index: int) -> str:
    """The run that a step is about, or the last one before it while the same event is read."""
    for place in range(index, -1, -1):
        step = trace[place]
        if isinstance(step, Arrive):
            break
        if isinstance(step, Matched) and not step.run:
            break
        named = step.child if isinstance(step, Spawn) else getattr(step, "run", "")
        if named:
            return str(named)
    return ""


def _follow(trace: Trace, moment: Moment, index: int) -> None:
    history = trace.run_history(moment.run, ancestors=True)
    history = history[: bisect_right(history, index)]
    if moment.matched is None:
        for place in reversed(history):
            step = trace[place]
            if isinstance(step, Drop) and step.run == moment.run and moment.dropped is None:
                moment.dropped = step
            if isinstance(step, Matched) and step.run == moment.run:
                moment.matched, moment.bindings = step, step.bindings
                break
            if isinstance(step, Move):
                moment.bindings = step.bindings
                break
    ignored = {
        step.event
        for place in history
        if isinstance(step := trace[place], Move) and step.action == "ignore"
    }
    moment.ignored = frozenset(ignored - moment.bound.keys())


def _family(trace: Trace, run: str) -> set[str]:
    steps = (trace[place] for place in trace.run_history(run, ancestors=True))
    return {run, *(str(getattr(step, "run", "")) for step in steps)}


def _state(moment: Moment, event: Arrive, place: int) -> str:
    """What an event is at this moment: the name of its mark."""
    label = event.event
    if place > moment.current:
        return "later"
    if moment.dropped and moment.dropped.reason == "negation" and moment.dropped.culprit == label:
        return "culprit"
    if label in moment.bound:
        return "bound"
    if label in moment.ignored:
        return "ignored"
    if label in moment.stored:
        found = moment.scope.events if moment.scope else None
        return "stored" if found is not None and label not in found else "found"
    return "read"


def _limits(facts: Facts, moment: Moment) -> tuple[Number, Number, str] | None:
    """From when to when the events of the run or match may lie, and a word for it."""
    places = sorted(facts.ordinal[label] for label in moment.bound if label in facts.ordinal)
    if not places or not facts.window:
        return None
    events = [facts.events[place] for place in places]
    first = min(_number(event.start) for event in events)
    last = max(_number(event.end) for event in events)
    if moment.matched is not None:
        return first, last, f"window: {moment.matched.span}" if moment.matched.span else "window"
    window = facts.pattern.within if facts.pattern else None
    assert window is not None
    if not isinstance(window.amount, int | float):
        return None
    said = f"window {facts.window}"
    if window.in_events:
        reach = int(window.amount) - 1
        high = facts.events[min(places[0] + reach, facts.count - 1)].end
        low = facts.events[max(places[-1] - reach, 0)].start if facts.backwards else first
        return _number(low), _number(high), said
    length = facts.clock.duration(window.amount, window.unit or None)
    # Whoever takes events out of a buffer looks back too: no event may be older than this.
    return (min(first, last - length) if facts.backwards else first), first + length, said


def _gaps(facts: Facts, moment: Moment) -> list[tuple[Number, Number, str]]:
    """Between which times an event of a negation had to be absent, with a word for it."""
    groups = {name: [facts.ordinal[e] for e in labels if e in facts.ordinal]
              for name, labels in moment.bindings}  # fmt: skip
    groups = {name: places for name, places in groups.items() if places}
    limits = _limits(facts, moment)
    dropped = moment.dropped if moment.dropped and moment.dropped.reason == "negation" else None
    if not groups or (dropped is None and moment.matched is None):
        return []
    culprit = facts.ordinal.get(dropped.culprit) if dropped else None
    found = []
    for negation in facts.negations:
        if not (negation.after | negation.before) <= groups.keys():
            continue
        left = [_number(facts.events[p].end) for n in negation.after for p in groups[n]]
        right = [_number(facts.events[p].start) for n in negation.before for p in groups[n]]
        low = max(left) if left else (limits[0] if limits else -math.inf)
        high = min(right) if right else (limits[1] if limits else math.inf)
        if moment.matched is not None and not right and facts.window:
            high = _reach(facts, groups)
        if dropped is not None:
            event = None if culprit is None else facts.events[culprit]
            if event is None or event.type != negation.variable.type:
                continue
            if not low <= _number(event.start) or not _number(event.end) <= high:
                continue
        found.append((low, high, f"no {negation.variable.type} {negation.variable.name}"))
        if dropped is not None:
            break
    return found


def _reach(facts: Facts, groups: dict[str, list[int]]) -> Number:
    """Until when a trailing negation looks: the end of the window of the match's first event."""
    window = facts.pattern.within if facts.pattern else None
    first = min(place for places in groups.values() for place in places)
    if window is None or not isinstance(window.amount, int | float):
        return math.inf
    if window.in_events:
        return _number(facts.events[min(first + int(window.amount) - 1, facts.count - 1)].end)
    length = facts.clock.duration(window.amount, window.unit or None)
    return _number(facts.events[first].start) + length


# ---- drawing ----


class _Drawing:
    def __init__(self, facts: Facts, moment: Moment, width: int):
        self.facts = facts
        self.moment = moment
        self.width = width
        self.page = _page(facts, max(moment.current if moment.now else 0, 0), width)
        self.foot = self.page.bottom + (52 if facts.count > MOST_EVENTS else 40)
        self.picture = Scene(width, self.foot + 10, moment.say)

    def scene(self) -> Scene:
        self.caption()
        self.rails()
        self.gaps()
        self.axis()
        self.brackets()
        self.current()
        self.join()
        for spot in self.page.spots:
            self.event(spot)
        self.verdict()
        self.matches()
        self.legend()
        return self.picture

    def caption(self) -> None:
        moment = self.moment
        order = list(self.facts.pattern.variables) if self.facts.pattern else []
        held = sorted(moment.bindings, key=lambda pair: (*order, pair[0]).index(pair[0]))
        said = ", ".join(f"{name} = {' '.join(labels)}" for name, labels in held)
        who = f"run {moment.run}" if moment.run else ""
        if moment.matched is not None:
            who = f"match #{moment.matched.number}" + (f" of {who}" if who else "")
        if moment.dropped is not None:
            who += f", dropped ({moment.dropped.reason})"
        text = ": ".join(filter(None, [who, said]))
        self.picture.label("caption", 8, 15, text, "text", most=int((self.width - 16) / 7.2))

    def rails(self) -> None:
        page, picture = self.page, self.picture
        for number, (lane, y) in enumerate(page.rails):
            right = self.width - RIGHT + 12
            picture.add(f"lane:{number}", "line", "grid", x1=LEFT, y1=y, x2=right, y2=y)
            picture.label(f"lane:{number}:name", LEFT - 10, y + 4, lane.name, "text end", most=16)
        text = f"◀ {page.low:,} earlier" if page.low else ""
        picture.label("earlier", LEFT - 10, page.bottom + 32, text, "small end")
        later = self.facts.count - page.high
        text = f"{later:,} later ▶" if later else ""
        picture.label("later", self.width - 6, page.bottom + 32, text, "small end")

    def gaps(self) -> None:
        page, scale = self.page, self.page.scale
        parts, words = [], []
        for low, high, word in _gaps(self.facts, self.moment):
            x1, x2 = scale(low) if low > -math.inf else scale.low, scale(min(high, scale.last))
            parts.append(f"M{x1},{page.top}H{x2}V{page.bottom}H{x1}Z")
            words.append(((x1 + x2) / 2, word))
        self.picture.add("gap", "path", "gap", d=" ".join(parts))
        x = words[0][0] if words else LEFT
        foot = page.bottom - (27 if page.matches_at is not None else 0) - 5
        text = ", ".join(dict.fromkeys(word for _, word in words))
        half = min(len(text), 28) * LETTER / 2
        x = min(max(x, LEFT + half), self.width - half - 4)
        self.picture.label("gap:text", round(x, 1), foot, text, "said-drop middle")

    def axis(self) -> None:
        page, picture = self.page, self.picture
        y = page.bottom
        right = self.width - RIGHT + 12
        picture.add("axis", "line", "edge", x1=LEFT, y1=y, x2=right, y2=y)
        ticks, caption = page.scale.ticks(self.facts.clock)
        for number, (x, text) in enumerate(ticks):
            picture.add(f"tick:{number}", "line", "edge", x1=x, y1=y, x2=x, y2=y + 4)
            picture.label(f"tick:{number}:text", x, y + 16, text, "small middle")
        picture.label("axis:name", self.width - 6, self.foot, caption, "small end", most=40)

    def brackets(self) -> None:
        page, moment, scale = self.page, self.moment, self.page.scale
        limits = _limits(self.facts, moment) if self.facts.window else None
        if "window" in page.brackets:
            self.bracket("window", limits, "window", "small")
        if "scope" in page.brackets:
            scope, found = moment.scope, None
            if scope is not None:
                low, high = self.end_of(scope.start, -1), self.end_of(scope.end, 1)
                low = scale.first if low is None else low
                high = scale.last + 1 if high is None else high
                count = len(scope.events)
                found = (low, high, f"scope of {scope.buffer} ({scope.start}, {scope.end}): "
                         f"{count} found")  # fmt: skip
            self.bracket("scope", found, "scope", "said-store")

    def end_of(self, label: str, side: int) -> Number | None:
        place = self.facts.ordinal.get(label)
        if place is None:
            return None
        event = self.facts.events[place]
        return _number(event.end if side < 0 else event.start)

    def bracket(
        self, key: str, limits: tuple[Number, Number, str] | None, classes: str, words: str
    ) -> None:
        scale, y = self.page.scale, self.page.brackets[key]
        path, text, x = "", "", float(LEFT)
        if limits is not None:
            low, high, text = limits
            x1, x2 = scale(low), scale(high)
            # An end that lies outside of the picture is open, and points there.
            left, right = f"M{x1},{y + 6}V{y}", f"V{y + 6}"
            if low < scale.first:
                left = f"M{x1 - 4},{y - 4}l-5,4l5,4m-5,-4"
            if high > scale.last:
                right = "h9m-5,-4l5,4l-5,4"
            path = f"{left}H{x2}{right}"
            x = min(x1, self.width - 6 - min(len(text), 60) * LETTER)
        self.picture.add(key, "path", classes, d=path, title=text or None)
        self.picture.label(f"{key}:text", round(x, 1), y - 5, text, words, most=60)

    def spot(self, label: str) -> Spot | None:
        spots = self.page.by_label.get(label, [])
        variable = self.moment.bound.get(label)
        return next((s for s in spots if s.lane.variable == variable), spots[0] if spots else None)

    def current(self) -> None:
        page, moment = self.page, self.moment
        spot = self.spot(moment.now) if moment.now else None
        path = "" if spot is None else f"M{spot.x},{page.top}V{page.bottom}"
        self.picture.add("now", "path", "now", d=path)
        text = "" if spot is None else shortened(moment.now, 16)
        x = LEFT if spot is None else min(spot.x, self.width - len(text) * 4 - 4)
        self.picture.label("now:text", x, page.top - 3, text, "text middle bold")

    def join(self) -> None:
        path = ""
        if self.moment.matched is not None:
            spots = [spot for label in self.moment.bound if (spot := self.spot(label))]
            spots.sort(key=lambda spot: (_number(spot.event.end), spot.x))
            path = " ".join(f"{'L' if n else 'M'}{s.x},{s.y}" for n, s in enumerate(spots))
        self.picture.add("join", "path", "join", d=path)

    def last(self) -> str:
        """The event at which the match that is shown ends."""
        labels = [e for e in self.moment.bound if e in self.facts.ordinal]
        if self.moment.matched is None or not labels:
            return ""
        return max(labels, key=lambda e: self.facts.ordinal[e])

    def event(self, spot: Spot) -> None:
        page, moment, event = self.page, self.moment, spot.event
        state = _state(moment, event, spot.place)
        if state == "bound" and spot.lane.variable not in ("", moment.bound[event.event]):
            state = "read"
        ending = state == "bound" and event.event == self.last()
        title = event.say()
        if state == "bound":
            title += f" It is {moment.bound[event.event]}."
        elif state in WORDS:
            title += f" It is {WORDS[state]}."
        title = shortened(title, LONGEST_TITLE)
        classes = CLASS_OF[state]
        r = page.big if state not in ("read", "later") else page.small
        # All marks are paths, so that one event changes by its shape, not by its place.
        x, y = spot.x, spot.y
        if spot.start != x:
            h = r * 0.75
            path = f"M{spot.start},{y - h}H{x}V{y + h}H{spot.start}Z"
            if ending:
                path, classes = f"{path} {diamond(x, y, r + 2)}", "match"
        elif ending:
            path, classes = diamond(x, y, r + 2), "match"
        elif state in ("stored", "found"):
            s = round(r * 0.85, 1)
            path = f"M{x - s:g},{y - s:g}h{2 * s:g}v{2 * s:g}h{-2 * s:g}Z"
        else:
            path = circle(x, y, r)
        self.picture.add(spot.key, "path", classes, d=path, title=title)
        marked = event.event == moment.now
        if moment.tested is not None and moment.tested.event == event.event:
            marked = True
        if state == "culprit":
            s = r + 3
            cross = f"M{x - s},{y - s}l{2 * s},{2 * s}m0,{-2 * s}l{-2 * s},{2 * s}"
            self.picture.add(f"{spot.key}:cross", "path", "drop", d=cross)
        if marked:
            self.picture.add(f"{spot.key}:ring", "path", "ring", d=circle(x, y, page.big + 4))
        text = spot.label or (shortened(event.event, 9) if state == "culprit" else "")
        if text and event.event != moment.now:  # that one is named above
            faint = " dim" if state == "later" else ""
            y = spot.y - page.big - 5 - (2 if marked else 0)
            self.picture.label(f"{spot.key}:text", x, round(y, 1), text, f"small middle{faint}")

    def verdict(self) -> None:
        """Whether the event just tried fits: a tick or a cross beside it."""
        tested = self.moment.tested
        spot = self.spot(tested.event) if tested else None
        x, y = (spot.x + self.page.big + 6, spot.y + 4) if spot else (LEFT, self.page.top)
        text = "" if tested is None or spot is None else "✓" if tested.passed else "✗"
        classes = "text yes" if text == "✓" else "text no"
        self.picture.label("verdict", round(x, 1), y, text, classes)

    def matches(self) -> None:
        page, trace = self.page, self.facts.trace
        if page.matches_at is None or trace is None:
            return
        y = page.matches_at
        self.picture.label("matches:name", LEFT - 10, y + 4, "matches", "said-match end")
        ends: dict[str, list[Matched]] = {}
        places: set[float] = set()  # of all matches, so that a label never covers one to come
        for place, step in trace.matches:
            places.update(spot.x for spot in page.by_label.get(step.event, [])[:1])
            if self.moment.index is not None and place <= self.moment.index:
                ends.setdefault(step.event, []).append(step)
        stops = [-math.inf, *sorted(places), math.inf]
        for label, found in ends.items():
            spots = page.by_label.get(label)
            if not spots:
                continue
            numbers = [step.number for step in found]
            text = f"#{numbers[0]}" + (f"–{numbers[-1]}" if len(numbers) > 1 else "")
            x = spots[0].x
            said = " ".join(step.say() for step in found[:8])
            more = f" And {len(found) - 8} more." if len(found) > 8 else ""
            title = shortened(said, LONGEST_TITLE) + more
            key = f"matches:{label}"
            self.picture.add(key, "path", "match", d=diamond(x, y, page.big + 0.5), title=title)
            room = len(text) * 7.6 + 9
            at = stops.index(x)
            if x + room < min(stops[at + 1] - 8, self.width):
                self.picture.label(f"{key}:text", x + 9, y + 4, text, "said-match")
            elif stops[at + 1] == math.inf and x - room > stops[at - 1] + 6:
                self.picture.label(f"{key}:text", x - 9, y + 4, text, "said-match end")

    def legend(self) -> None:
        facts, picture, y = self.facts, self.picture, self.foot
        items = [("read", "read"), ("later", "to come")]
        if facts.trace is not None:
            items = [("bound", "in the run"), ("ignored", "ignored"), *items]
            if facts.stores:
                items[2:2] = [("found", "stored")]
                if facts.scopes:
                    items[3:3] = [("stored", "stored, out of scope")]
            if self.page.matches_at is not None:
                items.append(("end", "match"))
            if facts.negations:
                items.append(("culprit", "must not be"))
        x = float(LEFT)
        for name, words in items:
            key = f"legend:{name}"
            if name == "end":
                path, classes = diamond(x, y - 4, 6), "match"
            elif name == "culprit":
                path, classes = f"M{x - 5},{y - 9}l10,10m0,-10l-10,10", "drop"
            elif name in ("stored", "found"):
                path, classes = f"M{x - 4},{y - 8}h8v8h-8Z", CLASS_OF[name]
            else:
                r = 3 if name in ("read", "later") else 5
                path, classes = circle(x, y - 4, r), CLASS_OF[name]
            picture.add(key, "path", classes, d=path)
            picture.label(f"{key}:text", x + 10, y, words, "small")
            x = round(x + 28 + len(words) * LETTER, 1)


CLASS_OF = {
    "later": "read dim", "read": "read", "ignored": "hollow", "stored": "hollow-square",
    "found": "square", "bound": "dot", "culprit": "hollow",
}  # fmt: skip
WORDS = {
    "later": "still to come", "ignored": "ignored", "stored": "stored, outside of the scope",
    "found": "stored", "culprit": "what must not be there",
}  # fmt: skip


def circle(x: float, y: float, r: float) -> str:
    """A circle as a path."""
    return f"M{x - r:g},{y:g}a{r:g},{r:g} 0 1 0 {2 * r:g},0a{r:g},{r:g} 0 1 0 {-2 * r:g},0Z"


def diamond(x: float, y: float, r: float) -> str:
    """A diamond as a path."""
    return f"M{x - r:g},{y:g}L{x:g},{y - r:g}L{x + r:g},{y:g}L{x:g},{y + r:g}Z"


# ---- in letters ----


def _text(facts: Facts, moment: Moment, width: int) -> str:
    page = _page(facts, max(moment.current if moment.now else 0, 0), 960)
    names = [shortened(lane.name, 20) for lane in facts.lanes]
    left = max(map(len, [*names, "window" if facts.window else ""]), default=0) + 1
    room = max(width - left - 1, 10)
    scale = page.scale

    def column(time: Number) -> int:
        share = (scale(time) - scale.low) / (scale.high - scale.low)
        return round(share * (room - 2))

    lines = []
    limits = _limits(facts, moment) if facts.window else None
    if limits:
        lines.append(f"{'window':{left}}{_span(column, scale, *limits[:2])}")
    if moment.scope is not None:
        ends = []
        for label, side, other in ((moment.scope.start, -1, scale.first - 1),
                                   (moment.scope.end, 1, scale.last + 1)):  # fmt: skip
            place = facts.ordinal.get(label)
            event = facts.events[place] if place is not None else None
            ends.append(other if event is None else event.end if side < 0 else event.start)
        lines.append(f"{'scope':{left}}{_span(column, scale, ends[0], ends[1])}")
    last = max(
        (e for e in moment.bound if e in facts.ordinal), key=facts.ordinal.__getitem__, default=""
    )
    rank = list(SIGNS.values())
    seen = set()
    for lane, name in zip(facts.lanes, names, strict=True):
        cells = [" "] * room
        for spot in page.spots:
            if spot.lane is not lane:
                continue
            state = _state(moment, spot.event, spot.place)
            bound_as = moment.bound.get(spot.event.event)
            if state == "bound" and lane.variable not in ("", bound_as):
                state = "read"
            if state == "bound" and moment.matched is not None and spot.event.event == last:
                state = "end"
            end = column(_number(spot.event.end))
            for at in range(column(_number(spot.event.start)), end):
                cells[at] = "━" if cells[at] == " " else cells[at]
            if cells[end] not in rank or rank.index(cells[end]) < rank.index(SIGNS[state]):
                cells[end] = SIGNS[state]
            seen.add(state)
        lines.append(f"{name:{left}}{''.join(cells)}".rstrip())
    if moment.now:
        spots = page.by_label.get(moment.now, [])
        at = column(_number(spots[0].event.end)) if spots else 0
        lines.append(f"{' ' * (left + at)}▲ {shortened(moment.now, 20)}")
    first, final = (shortened(facts.clock.format_time(t), 40) for t in (scale.first, scale.last))
    lines.append(f"{'':{left}}{first}{final:>{max(room - 1 - len(first), len(final) + 1)}}")
    outside = [f"{page.low:,} events earlier"] if page.low else []
    outside += [f"{facts.count - page.high:,} events later"] if page.high < facts.count else []
    lines += [f"{'':{left}}{', '.join(outside)}"] if outside else []
    lines.append(shortened(moment.say, LONGEST_TITLE))
    holder = "in the match" if moment.matched is not None else "in the run"
    told = {"bound": holder, "end": "its end", "ignored": "ignored", "found": "stored",
            "stored": "stored, out of scope", "read": "read", "later": "to come",
            "culprit": "must not be"}  # fmt: skip
    lines.append("  ".join(f"{SIGNS[state]} {words}" for state, words in told.items()
                           if state in seen))  # fmt: skip
    return "\n".join(lines)


def _span(column: Any, scale: Scale, low: Number, high: Number) -> str:
    start, end = column(max(low, scale.first)), column(min(high, scale.last))
    left, right = ("├" if low >= scale.first else "◂"), ("┤" if high <= scale.last else "▸")
    return f"{' ' * start}{left}{'─' * max(end - start - 1, 0)}{right}"
