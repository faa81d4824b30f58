"""`why`: the story of a match, told from the run that found it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from cepviz.engines.base import Match, events_of, labels_of
from cepviz.errors import CepError
from cepviz.events import Event, Stream
from cepviz.explain.candidate import Ground
from cepviz.explain.running import watched
from cepviz.explain.shown import Explanation, Table, cut, events_in, frame, role, told, view
from cepviz.language.contexts import ContextQuery
from cepviz.language.evaluate import elements, explain
from cepviz.language.expressions import Compare, Expression, needs_all
from cepviz.language.parser import parse
from cepviz.language.pattern import ANY, Branch, Pattern
from cepviz.language.resolve import resolve
from cepviz.matching import Result
from cepviz.steps import Arrive, Link, Matched, Move, Put, Spawn, Tested
from cepviz.trace import Trace
from cepviz.versions import compatible, read

#: Of a condition on a long list, how many elements are shown.
MOST_SHOWN = 1000


@dataclass(frozen=True)
class Part:
    """One event of the match: what it stands for, how the run took it, and what was asked of it."""

    role: str
    event: Event
    step: int | None
    action: str
    said: str
    tests: tuple[Tested, ...]


@dataclass(frozen=True)
class Choice:
    """A point where the run split: what the match's run did, and what the other one did."""

    step: int
    event: str
    because: str
    did: str
    instead: str
    other: str


@dataclass
class Why(Explanation):
    """The story of one match.

    `parts` are its events in stream order, `choices` the points where the run could have gone
    another way, `absent` a sentence for each negation, `pointers` how it was read from the buffer
    of `sase`. `steps` are the indices into `trace` that tell it, `step` that of the match itself.
    """

    match: Match
    pattern: Pattern
    trace: Trace
    step: int
    steps: list[int]
    parts: list[Part]
    choices: list[Choice]
    absent: list[str]
    pointers: list[Link]
    number: int | None = None
    note: str = ""

    def lines(self) -> list[str]:
        found = self.trace[self.step]
        assert isinstance(found, Matched)
        number = f" #{self.number}" if self.number else ""
        run = f", by run {found.run}" if found.run else ""
        said = [
            f"Match{number}: {told(self.match.bindings)}. {found.span}{run} of {self.trace.engine}."
        ]
        return said + ([self.note] if self.note else []) + self.absent

    def tables(self) -> list[Table]:
        schema = self.match._schema
        rows = []
        for part in self.parts:
            tests = [test.said for test in part.tests] or [""]
            when = schema.format_time(part.event.end)
            label = f"{part.event.label} {part.event.type}"
            rows.append((part.role, label, when, part.said, tests[0]))
            rows += [("", "", "", "", test) for test in tests[1:]]
        heads = ("variable", "event", "time", "what the run did", "conditions, all true")
        found: list[Table] = [("Events", heads, rows)]
        if self.choices:
            choices = [
                (str(c.step), c.event, c.because, c.did, f"run {c.other} {c.instead}")
                for c in self.choices
            ]
            heads = ("step", "event", "choice", "this match", "instead")
            found.append(("Where it could have gone another way", heads, choices))
        if self.pointers:
            links = [
                (
                    f"{link.event} in {link.buffer}",
                    f"{link.to_event} in {link.to_buffer}" if link.to_event else "nothing",
                    link.version,
                )
                for link in self.pointers
            ]
            title = "Read from the buffer, last event first"
            found.append((title, ("event", "points to", "version"), links))
        return found

    def picture(self, width: int = 960) -> Any:
        """The story as a picture: its events in time, and beside each what made it fit."""
        return view("story", "story")(self, width=width)

    def to_frame(self) -> Any:
        """A row for each event: what it stands for, the step that took it, and its conditions."""
        rows = [
            {
                "variable": part.role,
                "id": part.event.id,
                "type": part.event.type,
                "time": self.match._schema.format_time(part.event.end),
                "step": part.step,
                "action": part.action,
                "conditions": [test.said for test in part.tests],
            }
            for part in self.parts
        ]
        return frame(rows, ["variable", "id", "type", "time", "step", "action", "conditions"])

    def __repr__(self) -> str:
        return self.text()


def why(match: Match, trace: Trace | None = None) -> Why:
    """Tells the story of a match: its events, the run's moves, the conditions and the choices.

    Without a trace, the part of the stream that the match spans is run again and watched.

    >>> import cepviz as cep
    >>> rows = [{"type": "A", "time": 1, "x": 3}, {"type": "B", "time": 2, "x": 4}]
    >>> result = cep.match("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 5", rows)
    >>> why(result[0])
    Match #1: a = e0, b = e1. 1 of 5, by run 1.1 of sase.
    <BLANKLINE>
    Events
      variable  event  time  what the run did              conditions, all true
      a         e0 A   1     Run 1 begins with e0 and is at b.
      b         e1 B   2     Run 1.1 begins with e1 and is at F.  b.x 4 > a.x 3
    ...
    """
    if not isinstance(match, Match):
        raise CepError(f"why takes a match, such as result[0], not a {type(match).__name__}")
    result: Result | None = match.result
    note = ""
    if result is None and trace is None:
        raise CepError(
            "this match does not know its stream: take it from a result, as in match(...)[0], "
            "or give the trace it is in, as in why(match, trace)"
        )
    pattern: Any
    if result is not None:
        pattern = result.pattern
    else:
        assert trace is not None
        pattern = resolve(parse(trace.pattern), match._schema)
    if isinstance(pattern, ContextQuery):
        from cepviz.explain.contexts import why_context

        return why_context(match, pattern, trace, result)
    if trace is None:
        assert result is not None
        trace, note = _watch(match, pattern, result.stream)
    step = locate(match, trace)
    if step is None:
        if trace.note:
            raise CepError(f"the trace ends before this match: {trace.note}")
        raise CepError(f"{told(match.bindings)} is no match of this trace of {trace.engine}")
    branch = _branch(pattern, match)
    lineage, steps = history(trace, step, match)
    stream = None if result is None else result.stream
    return Why(
        match,
        pattern,
        trace,
        step,
        steps,
        _parts(match, branch, trace, steps, lineage),
        choices(trace, steps, lineage),
        _absent(match, branch, pattern, stream),
        _pointers(trace, step, match),
        numbered(match, result),
        note,
    )


def _watch(match: Match, pattern: Pattern, stream: Stream) -> tuple[Trace, str]:
    """The trace of the events from the first to the last of the match.

    An earlier event begins other runs only. A negation cannot break what was found to be a match.
    """
    events = match.events
    ground = Ground(pattern, stream)
    part: Stream = stream[ground.row(events[0]) : ground.row(events[-1]) + 1]
    query = replace(pattern, output="all")
    trace = watched(query, part)
    if locate(match, trace) is not None or pattern.strategy != ANY:
        return trace, ""
    # Skipped events have no say under any-match; they only multiply the runs.
    alone = Stream.from_records(events)
    if trace.note:
        note = "Too many runs to watch: the trace has the events of the match alone."
        return watched(query, alone), note
    return watched(query, alone, "naive"), f"The engine {trace.engine} does not find this match."


def locate(match: Match, trace: Trace) -> int | None:
    wanted = dict(labels_of(match.bindings))
    return next((index for index, step in trace.matches if dict(step.bindings) == wanted), None)


def _branch(pattern: Pattern, match: Match) -> Branch:
    there = {name for name, bound in match.bindings.items() if bound}
    fitting = [branch for branch in pattern.branches if set(branch.by_name) == there]
    for branch in fitting:
        types = {v.name: v.type for v in branch.variables}
        if all(e.type == types[n] for n in there for e in events_in(match.bindings[n])):
            return branch
    raise CepError(f"the pattern has no branch with {', '.join(sorted(there))}")


def numbered(match: Match, result: Result | None) -> int | None:
    if result is None:
        return None
    return next((n for n, other in enumerate(result, 1) if other is match or other == match), None)


def history(trace: Trace, step: int, match: Match) -> tuple[list[str], list[int]]:
    """The run of the match and those it split from, and the steps that tell its story."""
    found = trace[step]
    assert isinstance(found, Matched)
    lineage = [found.run] if found.run else []
    indices: set[int] = {step}
    if found.run:
        history = [i for i in trace.run_history(found.run, ancestors=True) if i <= step]
        indices |= set(history)
        for index in reversed(history):
            born = trace[index]
            if isinstance(born, Spawn) and born.child == lineage[-1]:
                lineage.append(born.run)
    labels = {event.label for event in events_of(match.bindings)}
    for index in range(step):
        known = trace.steps[index]
        if isinstance(known, Arrive) and known.event in labels:
            indices.add(index)
    return lineage, sorted(indices)


def _parts(
    match: Match, branch: Branch, trace: Trace, steps: list[int], lineage: list[str]
) -> list[Part]:
    moves: dict[str, tuple[int, Move | None]] = {}
    for index in steps:
        step = trace[index]
        if isinstance(step, Move) and step.action in ("begin", "take", "store"):
            moves[step.event] = (index, step)
    tests = _tests(match, branch)
    parts = []
    for event in match.events:
        place, move = moves.get(event.label, (-1, None))
        parts.append(
            Part(
                role(match.bindings, event),
                event,
                None if move is None else place,
                move.action if move else "",
                move.say() if move else "",
                tuple(tests.get(event.position, ())),
            )
        )
    return parts


def _tests(match: Match, branch: Branch) -> dict[int, list[Tested]]:
    """Each condition with its values, filed under the event that decides it."""
    names = [variable.name for variable in branch.variables]
    found: dict[int, list[Tested]] = {}
    bindings = match.bindings
    for conjunct in branch.conjuncts:
        if isinstance(conjunct, Compare) and conjunct.left == conjunct.right:
            continue  # that `[attr]` of a variable is its own says nothing
        for at in itertools.islice(elements(conjunct, bindings), MOST_SHOWN):
            decided = _decider(conjunct, bindings, at, names)
            found.setdefault(decided.position, []).append(explain(conjunct, bindings, at))
    return found


def _decider(conjunct: Expression, bindings: Any, at: dict[str, int], names: list[str]) -> Event:
    about = [name for name in names if name in conjunct.variables] or names[:1]
    events = [
        events_in(bindings[name])[at[name] if name in at else -1 if _whole(conjunct, name) else 0]
        for name in about
    ]
    return max(events, key=lambda event: event.position)


def _whole(conjunct: Expression, name: str) -> bool:
    return needs_all(conjunct, name)


def choices(trace: Trace, steps: list[int], lineage: list[str]) -> list[Choice]:
    found = []
    for index in steps:
        step = trace[index]
        if not isinstance(step, Spawn):
            continue
        ours = step.child if step.child in lineage else step.run
        other = step.run if step.child in lineage else step.child
        found.append(
            Choice(
                index,
                step.event,
                step.because,
                _did(trace, index, ours, step.event),
                _did(trace, index, other, step.event),
                other,
            )
        )
    return found


def _did(trace: Trace, index: int, run: str, event: str) -> str:
    """What a run did with an event after a split, in a word or two."""
    end = trace.next(index, "arrive")
    verbs = {"begin": "begins with it", "take": "takes it", "store": "stores it",
             "proceed": "proceeds", "ignore": "ignores it"}  # fmt: skip
    done = [
        verbs.get(step.action, step.action)
        for step in trace.steps[index:end]
        if isinstance(step, Move) and step.run == run and step.event == event
    ]
    return " and ".join(done) or "ignores it"


def _absent(match: Match, branch: Branch, pattern: Pattern, stream: Stream | None) -> list[str]:
    said = []
    for negation in branch.negations:
        name = f"~({negation.variable.type} {negation.variable.name})"
        if stream is None:
            said.append(f"{name}: no such event.")
            continue
        ground = Ground(pattern, stream)
        near = [
            event.label
            for event in ground.forbidden(match.bindings)
            if event.type == negation.variable.type
        ]
        there = f"; {cut(near)} near it lie elsewhere or fail its conditions" if near else ""
        said.append(f"{name}: no such event{there}.")
    return said


def _pointers(trace: Trace, step: int, match: Match) -> list[Link]:
    """The path through the buffer of `sase`, from the last event back; empty where it has none."""
    if not any(isinstance(known, Put) for known in trace.steps[:step]):
        return []
    links: dict[tuple[str, str], list[Link]] = {}
    for known in trace.steps[:step]:
        if isinstance(known, Link):
            links.setdefault((known.buffer, known.event), []).append(known)
    wanted = [event.label for event in reversed(match.events)]

    def follow(link: Link, rest: list[str]) -> list[Link] | None:
        if not link.to_event:
            return None if rest else [link]
        if not rest or link.to_event != rest[0]:
            return None
        for older in reversed(links.get((link.to_buffer, link.to_event), ())):
            if compatible(read(link.version), read(older.version)):
                path = follow(older, rest[1:])
                if path is not None:
                    return [link, *path]
        return None

    for (_, event), last in links.items():
        if event == wanted[0]:
            for link in reversed(last):
                path = follow(link, wanted[1:])
                if path is not None:
                    return path
    return []
