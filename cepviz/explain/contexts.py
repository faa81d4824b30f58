"""`why` and `why_not` of a CONTEXT query: which rule kept an initiator, which one rejected it.

Contexts and windows depend on everything before, so the stream is watched from its beginning, and
the trace is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from cepviz.engines.base import Match, events_of, labels_of
from cepviz.engines.naive import Held
from cepviz.errors import CepError
from cepviz.events import Event, Stream
from cepviz.explain.blockers import Blocker
from cepviz.explain.candidate import bound_events, contains
from cepviz.explain.fixes import Fix
from cepviz.explain.running import quietly, watched
from cepviz.explain.shown import cut, events_in, role, told
from cepviz.explain.story import Choice, Part, Why, choices, history, locate, numbered
from cepviz.explain.verdict import WhyNot
from cepviz.language.contexts import CONTEXTS, ContextQuery
from cepviz.matching import Result
from cepviz.steps import Drop, Move, Test, Tested
from cepviz.trace import Trace


def _upto(stream: Stream, event: Event) -> Stream:
    """The stream up to an event."""
    row = int(np.searchsorted(stream.positions, event.position, side="right"))
    part: Stream = stream[:row]
    return part


# ---- why ----


def why_context(
    match: Match, query: ContextQuery, trace: Trace | None, result: Result | None
) -> Why:
    """The story of a match of a CONTEXT query."""
    if trace is None:
        assert result is not None
        trace = watched(query, _upto(result.stream, match.completed))
    step = locate(match, trace)
    if step is None:
        if trace.note:
            raise CepError(f"the trace ends before this match: {trace.note}")
        raise CepError(f"{told(match.bindings)} is no match of this trace of {trace.engine}")
    lineage, steps = history(trace, step, match)
    parts = list(_parts(match, trace, step))
    taken = {part.step for part in parts if part.step is not None}
    return Why(
        match,
        query,  # type: ignore[arg-type]
        trace,
        step,
        sorted({*steps, *taken}),
        parts,
        _splits(choices(trace, steps, lineage)),
        list(_rejected(match, trace, step)),
        [],
        numbered(match, result),
    )


def _splits(found: list[Choice]) -> list[Choice]:
    """Not those where a path went on after its output: nothing was chosen there."""
    return [choice for choice in found if choice.because not in ("take-proceed", "take-ignore")]


def _parts(match: Match, trace: Trace, step: int) -> Iterator[Part]:
    """Each event with the move that took it, and what was asked of it then."""
    wanted = {name: set(labels) for name, labels in labels_of(match.bindings)}
    moves: dict[str, tuple[int, Move]] = {}
    asked: dict[tuple[str, str], list[Tested]] = {}
    for index, known in enumerate(trace.steps[:step]):
        if isinstance(known, Test) and known.passed:
            asked.setdefault((known.run, known.event), []).extend(known.tests)
        if isinstance(known, Move) and known.action in ("begin", "take"):
            held = dict(known.bindings)
            if all(set(labels) <= wanted.get(name, set()) for name, labels in held.items()):
                moves[known.event] = (index, known)
    for event in match.events:
        place, move = moves.get(event.label, (None, None))
        run = move.run if move is not None else ""
        tests = asked.get((run, event.label), []) or asked.get(("", event.label), [])
        if move is not None and move.action == "begin":
            tests = asked.get(("", event.label), [])
        said = move.say() if move is not None else "It is one of the later initiators."
        action = move.action if move is not None else ""
        yield Part(role(match.bindings, event), event, place, action, said,
                   tuple(dict.fromkeys(tests)))  # fmt: skip


def _rejected(match: Match, trace: Trace, step: int) -> Iterator[str]:
    """The initiators that the context rejected in favour of this match."""
    labels = {event.label for event in events_of(match.bindings)}
    for known in trace.steps[:step]:
        if isinstance(known, Drop) and known.reason == "context" and known.culprit in labels:
            begun = dict(next(m.bindings for m in _moves(trace, known.run)))
            lost = " ".join(label for held in begun.values() for label in held)
            if lost not in labels:
                yield f"{lost} was rejected: {known.detail}."


def _moves(trace: Trace, run: str) -> Iterator[Move]:
    for index in trace.run_history(run):
        step = trace[index]
        if isinstance(step, Move):
            yield step


# ---- why not ----


class ContextWhyNot(WhyNot):
    """The verdict on some events of a CONTEXT query: a match, or what was in the way."""

    @property
    def partial(self) -> bool:
        return False

    @cached_property
    def trace(self) -> Trace:
        """Every step from the beginning of the stream to the last event that is asked about."""
        latest = max(events_of(self.bindings), key=lambda event: event.position)
        query: Any = self.pattern
        return watched(query, _upto(self.stream, latest))

    @cached_property
    def _around(self) -> tuple[int, int]:
        rows = [
            int(np.searchsorted(self.stream.positions, event.position))
            for event in events_of(self.bindings)
        ]
        return max(0, min(rows) - 20), max(rows) + 20

    @cached_property
    def fixes(self) -> list[Fix]:
        """Another context, or no window, where that makes it match; each is checked."""
        if self.is_match:
            return []
        query: Any = self.pattern
        ways: list[tuple[str, ContextQuery]] = [
            (f"CONTEXT {short}", replace(query, context=word))
            for word, short in CONTEXTS.items()
            if word != query.context
        ]
        if query.window is not None:
            ways.append((f"without {query.window}", replace(query, window=None)))
        source = query.source
        if getattr(source, "window", None) is not None:
            changed = replace(query, source=replace(source, window=None))
            ways.append((f"without {source.window}", changed))
        found = []
        for text, changed in ways:
            given = {name: bound for name, bound in self.given.items() if name in changed.variables}
            result, _ = quietly(changed, self.stream)
            if any(_holds(match.bindings, given) for match in result):
                found.append(Fix(text, changed, (text,)))  # type: ignore[arg-type]
        return found


def _holds(bindings: Held, given: Held) -> bool:
    """Whether a match has the events asked about in their roles."""
    return contains(bindings, given) or all(
        set(events_in(bound)) <= set(events_in(bindings.get(name, ())))
        for name, bound in given.items()
    )


def why_not_context(query: ContextQuery, stream: Stream, bindings: dict[str, Any]) -> WhyNot:
    """Whether some events are in a match of a CONTEXT query, by role, and if not, why not."""
    if not bindings:
        names = ", ".join(f"{name}=..." for name in list(query.variables)[:2])
        raise CepError(f"why_not of a CONTEXT query asks about events: why_not(query, s, {names})")
    given, late = bound_events(query, stream, bindings)  # type: ignore[arg-type]
    result, _ = quietly(query, stream)
    pattern: Any = query
    for match in result:
        if _holds(match.bindings, given):
            return ContextWhyNot(pattern, stream, given, match.bindings, match, [], True)
    verdict = ContextWhyNot(pattern, stream, given, given, None, [], False, late=late)
    verdict.blockers = _blockers(query, verdict, given)
    return verdict


def _blockers(query: ContextQuery, verdict: ContextWhyNot, given: Held) -> list[Blocker]:
    """What was in the way, as the trace tells it."""
    found: dict[str, Blocker] = {}

    def add(kind: str, text: str, *events: str) -> None:
        found.setdefault(text, Blocker(kind, f"{text.rstrip('.')}.", events))

    for name, bound in given.items():
        for event in events_in(bound):
            if event.type != query.variables[name].type:
                kind = query.variables[name].type
                add("type", f"{event.label} is of type {event.type}; {name} needs {kind}",
                    event.label)  # fmt: skip
    if found:
        return list(found.values())
    trace = verdict.trace
    first = next(iter(query.variables))
    begun = {event.label for event in events_in(given.get(first, ()))}
    others = [e.label for name, b in given.items() if name != first for e in events_in(b)]
    runs = [
        step.run
        for step in trace
        if isinstance(step, Move) and step.action == "begin" and (step.event in begun or not begun)
    ]
    for label in begun:
        _initiator(trace, label, runs, add)
    for run in runs[-5:]:
        _followed(trace, run, others, add)
    if not found:
        text = f"{told(given)} were not found together"
        add("missing", text, *(event.label for event in events_of(given)))
    return list(found.values())


def _initiator(trace: Trace, label: str, runs: list[str], add: Any) -> None:
    """Why an event did not begin a path, where it did not."""
    for step in trace:
        if isinstance(step, Test) and (step.run, step.event, step.passed) == ("", label, False):
            for test in step.tests:
                if test.truth is not True:
                    add("predicate", f"as initiator: {test.say()}", label)
    if not runs:
        add("missing", f"no path begins with {label}", label)


def _followed(trace: Trace, run: str, others: list[str], add: Any) -> None:
    """What happened to a path on its way to the events asked about."""
    steps = [trace[index] for index in trace.run_history(run)]
    moves = [step for step in steps if isinstance(step, Move)]
    drop = next((step for step in steps if isinstance(step, Drop)), None)
    taken = [label for label in others if any(move.event == label for move in moves)]
    begun = next(label for _, labels in moves[0].bindings for label in labels)
    for label in others:
        if label in taken:
            continue
        tried = [step for step in steps if isinstance(step, Test) and step.event == label]
        for step in tried:
            for test in step.tests:
                if test.truth is True or step.passed:
                    continue
                kind = "order" if "starts at" in test.said else "predicate"
                if drop is not None and drop.reason == "context" and test.said == drop.detail:
                    kind = "context"
                add(kind, test.said if kind != "predicate" else test.say(), label)
        if not tried and drop is not None:
            kind = drop.reason if drop.reason in ("context", "window") else "slide"
            add(kind, f"the path of {begun} had ended at {drop.culprit}: {drop.detail}", label)
        elif not tried and moves[-1].action != "begin":
            last = [move.event for move in moves if move.action == "take"]
            text = f"the successor of {begun} is {cut(last[:1])}, not {label}"
            add("successor", text, label)
    if others and len(taken) == len(others) and drop is not None:
        add("slide", f"the path of {begun} ended at {drop.culprit}: {drop.detail}", drop.culprit)
