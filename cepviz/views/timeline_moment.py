"""Timeline, what moves: what one step, one run or one match makes of the events."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cepviz.errors import CepError, did_you_mean
from cepviz.steps import Arrive, Drop, Matched, Move, Scope, Spawn, Test
from cepviz.trace import Bindings, Trace
from cepviz.views.marks import told_bindings
from cepviz.views.scene import Number
from cepviz.views.timeline_page import Facts, finite


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
    candidate: bool = False  # whether the bindings are only asked about
    #: The events in its way, each with the reason in a word and in a sentence.
    culprits: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def bound(self) -> dict[str, str]:
        """Each event that the run or match holds, with its variable."""
        return {label: name for name, labels in self.bindings for label in labels}


def moment_of(facts: Facts, index: int | None, run: str | None, match: int | None) -> Moment:
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


def candidate_of(
    facts: Facts, bindings: Mapping[str, Iterable[str]], culprits: Mapping[str, tuple[str, str]]
) -> Moment:
    """Some events that someone asks about, and those that stand in their way."""
    held = tuple((name, tuple(labels)) for name, labels in bindings.items())
    for _, labels in held:
        for label in labels:
            if label not in facts.ordinal:
                near = did_you_mean(label, facts.ordinal)
                raise CepError(f"there is no event {label!r} in this trace{near}")
    say = f"Candidate: {told_bindings(held)}."
    return Moment(None, facts.count - 1, say, bindings=held, candidate=True, culprits=culprits)


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


def state_of(moment: Moment, event: Arrive, place: int) -> str:
    """What an event is at this moment: the name of its mark."""
    label = event.event
    if place > moment.current:
        return "later"
    if label in moment.culprits and label not in moment.bound:
        return "culprit"
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


def limits_of(facts: Facts, moment: Moment) -> tuple[Number, Number, str] | None:
    """From when to when the events of the run or match may lie, and a word for it."""
    places = sorted(facts.ordinal[label] for label in moment.bound if label in facts.ordinal)
    if not places or not facts.window:
        return None
    events = [facts.events[place] for place in places]
    first = min(finite(event.start) for event in events)
    last = max(finite(event.end) for event in events)
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
        return finite(low), finite(high), said
    length = facts.clock.duration(window.amount, window.unit or None)
    # Whoever takes events out of a buffer looks back too: no event may be older than this.
    return (min(first, last - length) if facts.backwards else first), first + length, said


def gaps_of(facts: Facts, moment: Moment) -> list[tuple[Number, Number, str]]:
    """Between which times an event of a negation had to be absent, with a word for it."""
    groups = {name: [facts.ordinal[e] for e in labels if e in facts.ordinal]
              for name, labels in moment.bindings}  # fmt: skip
    groups = {name: places for name, places in groups.items() if places}
    limits = limits_of(facts, moment)
    dropped = moment.dropped if moment.dropped and moment.dropped.reason == "negation" else None
    if not groups or (dropped is None and moment.matched is None):
        return []
    culprit = facts.ordinal.get(dropped.culprit) if dropped else None
    found = []
    for negation in facts.negations:
        if not (negation.after | negation.before) <= groups.keys():
            continue
        left = [finite(facts.events[p].end) for n in negation.after for p in groups[n]]
        right = [finite(facts.events[p].start) for n in negation.before for p in groups[n]]
        low = max(left) if left else (limits[0] if limits else -math.inf)
        high = min(right) if right else (limits[1] if limits else math.inf)
        if moment.matched is not None and not right and facts.window:
            high = _reach(facts, groups)
        if dropped is not None:
            event = None if culprit is None else facts.events[culprit]
            if event is None or event.type != negation.variable.type:
                continue
            if not low <= finite(event.start) or not finite(event.end) <= high:
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
        return finite(facts.events[min(first + int(window.amount) - 1, facts.count - 1)].end)
    length = facts.clock.duration(window.amount, window.unit or None)
    return finite(facts.events[first].start) + length
