"""`why_not`: whether some events are a match, and if not, every rule that is in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from cepviz.engines.base import Match, events_of, labels_of
from cepviz.engines.naive import Held
from cepviz.errors import BudgetError, CepError, one_of
from cepviz.events import Event, Stream
from cepviz.explain.blockers import Blocker
from cepviz.explain.candidate import NEAR, Ground, bound_events, contains
from cepviz.explain.closest import applicable, completion, cut_short, nearest
from cepviz.explain.fixes import Fix, fixes, reported
from cepviz.explain.funnel import Funnel, funnel
from cepviz.explain.running import quietly, watched
from cepviz.explain.shown import Explanation, Table, count, events_in, frame, told, view
from cepviz.language.build import as_query
from cepviz.language.chain import Chain
from cepviz.language.contexts import ContextQuery
from cepviz.language.pattern import ANY, NEXT, STRICT, Branch, Pattern
from cepviz.matching import Result, as_stream, with_composites
from cepviz.steps import Arrive, Drop, Move, Test
from cepviz.trace import Trace

#: Up to this many events the whole stream is run to say which number a match has.
NUMBERED = 5000

#: Up to this many events around the candidate, the text names the step where it was given up.
SHOWN = 300


class WhyNot(Explanation):
    """The verdict on some bindings: a match, or the blockers and what would remove them.

    `is_match` is True or False, or None if there were too many completions to try. `bindings` are
    the events judged: those given and, where some were left open, the closest ones for the others.
    `blockers` are the reasons, `fix` the changed pattern that would match, `fixes` all such changes
    of the same size. `trace` and `step` lead to where an engine gave the candidate up, and
    `timeline()` draws it among the events around it. `note` says which query of a chain it is.
    """

    def __init__(
        self,
        pattern: Pattern,
        stream: Stream,
        given: Held,
        bindings: Held,
        found: Match | None,
        reasons: list[Blocker],
        is_match: bool | None,
        branch: Branch | None = None,
        late: frozenset[Event] = frozenset(),
    ):
        self.pattern = pattern
        self.stream = stream
        self.given = given
        self.bindings = bindings
        self.match = found
        self.blockers = reasons
        self.is_match = is_match
        self.note = ""
        self._branch = branch
        self._late = late

    @property
    def partial(self) -> bool:
        """Whether some variables were left open."""
        return any(bound and name not in self.given for name, bound in self.bindings.items())

    @cached_property
    def fixes(self) -> list[Fix]:
        """The smallest changes of the pattern that make it match, each checked by re-running."""
        if self.is_match or self._branch is None:
            return []  # also where only a budget kept the match out of the result
        rules = [blocker for blocker in self.blockers if blocker.kind != "budget"]
        return fixes(self.pattern, self.stream, self.bindings, rules)

    @property
    def fix(self) -> Pattern | None:
        """The pattern after the smallest change that makes it match; None if there is none."""
        return self.fixes[0].pattern if self.fixes else None

    @cached_property
    def number(self) -> int | None:
        """Which match it is, counted from 1 as `match` reports them; None if that is not known."""
        if self.match is None or len(self.stream) > NUMBERED:
            return None
        budget = {"runs": 20_000, "matches": 20_000}
        found, _ = quietly(self.pattern, self.stream, budget=budget)
        key = self.match.key
        return next((n for n, other in enumerate(found, 1) if other.key == key), None)

    # ---- the trace ----

    @cached_property
    def trace(self) -> Trace:
        """Every step of an engine on the part of the stream around the candidate."""
        low, high = self._around
        return watched(self.pattern, self.stream[low:high])

    @cached_property
    def _around(self) -> tuple[int, int]:
        """The rows of the stream that lie near the candidate."""
        here = {name: bound for name, bound in self.bindings.items()
                if not self._late & frozenset(events_in(bound))}  # fmt: skip
        if not any(True for _ in events_of(here)):
            return 0, min(len(self.stream), SHOWN)
        return Ground(self.pattern, self.stream).reach(here)

    @cached_property
    def step(self) -> int | None:
        """The step of the trace at which the run that came furthest was refused or dropped."""
        wanted = {name: set(labels) for name, labels in labels_of(self.bindings)}
        last = {label for labels in wanted.values() for label in labels}
        holds: dict[str, int] = {"": 0}
        best: tuple[int, int] | None = None
        for index, step in enumerate(self.trace):
            if isinstance(step, Move):
                held = dict(step.bindings)
                right = all(set(labels) <= wanted.get(name, set()) for name, labels in held.items())
                holds[step.run] = sum(map(len, held.values())) if right else -1
            elif (isinstance(step, Test) and not step.passed and step.event in last) or (
                isinstance(step, Drop)
            ):
                depth = holds.get(step.run, 0)
                if depth >= 0 and (best is None or depth > best[0]):
                    best = (depth, index)
        return None if best is None else best[1]

    # ---- showing ----

    def timeline(self, width: int = 960) -> Any:
        """The candidate among the events around it: its window, and what is in its way."""
        low, high = self._around
        shown = Trace(pattern=str(self.pattern), schema=self.stream.schema)
        events = [*self.stream[low:high], *self._late]
        for event in sorted(events, key=lambda event: (event.end, event.position)):
            shown(Arrive.of(event))
        reasons: dict[str, tuple[str, str]] = {}
        for blocker in self.blockers:
            for label in blocker.events:
                kinds, said = reasons.get(label, ("", ""))
                kinds = kinds if blocker.kind in kinds.split(", ") else f"{kinds}, {blocker.kind}"
                reasons[label] = kinds.removeprefix(", "), f"{said} {blocker}".strip()
        held = dict(labels_of(self.bindings))
        if self.is_match:  # the whole of it, as it was found
            held = dict(labels_of(self.match.bindings)) if self.match else held
        picture = view("timeline", "timeline")(
            shown, lanes="variable", width=width, candidate=held, culprits=reasons
        )
        picture.say = " ".join(self._verdict())
        return picture

    def picture(self) -> Any:
        """The timeline of the candidate; None where no event is bound."""
        return self.timeline() if any(True for _ in events_of(self.bindings)) else None

    def lines(self) -> list[str]:
        said = self._verdict()
        if self.is_match is False or (self.is_match is None and self.partial):
            if self.fixes:
                said += [f"Closest: {self.fixes[0].text} would match (checked)."]
                said += [f"     or: {fix.text} (checked)." for fix in self.fixes[1:3]]
            else:
                said += ["No small change of the pattern makes it match."]
            said += self._leads()
        return said

    def _leads(self) -> list[str]:
        """Where to look further: what to write behind the name of this verdict."""
        if not any(True for _ in events_of(self.bindings)):
            return []
        leads = ["[.timeline()]"]
        low, high = self._around
        if high - low <= SHOWN and self.step is not None:
            step = self.trace[self.step]
            assert isinstance(step, Test | Drop)
            end = f"refused {step.event}" if isinstance(step, Test) else "dropped"
            leads.append(f"[.trace[{self.step}], where run {step.run} was {end}]")
        return [f"Show: {' '.join(leads)}"]

    def _verdict(self) -> list[str]:
        note = [self.note] if self.note else []
        return note + self._judged()

    def _judged(self) -> list[str]:
        if self.is_match and self.blockers:
            reasons = count(len(self.blockers), "reason")
            but = f"It is a match, but it is not in the result, for {reasons}"
            return [f"{but}: {told(self.bindings)}.", *self._numbered()]
        if self.is_match:
            number = f", #{self.number}" if self.number else ""
            what = f"{told(self.given)} is in a match" if self.partial else "It is a match"
            return [f"{what}{number}: {told(self.bindings)}."]
        reasons = count(len(self.blockers), "reason")
        if self.is_match is None and not self.partial:
            return ["Not decided.", *self._numbered()]
        if self.partial:
            sure = "No match contains" if self.is_match is False else "No match was found with"
            said = [f"{sure} {told(self.given)}."]
            said += [f"Nearest: {told(self.bindings)}; {reasons}."]
        else:
            said = [f"Not a match: {reasons}."]
        return said + self._numbered()

    def _numbered(self) -> list[str]:
        width = max((len(blocker.kind) for blocker in self.blockers), default=0)
        return [
            f"{number}  {blocker.kind:{width}}  {blocker.text}"
            for number, blocker in enumerate(self.blockers, 1)
        ]

    def tables(self) -> list[Table]:
        return []

    def to_frame(self) -> Any:
        """A row for each blocker: its kind, its sentence and the events it is about."""
        rows = [{"kind": b.kind, "reason": b.text, "events": list(b.events)} for b in self.blockers]
        return frame(rows, ["kind", "reason", "events"])


def why_not(pattern: Any, stream: Any = None, /, **bindings: Any) -> WhyNot | Funnel:
    """Says why some events are not a match: every rule they break, and what would help.

    Events are given by their ids, a list of them for a Kleene variable (all of its elements).
    Variables that are left out may stand for anything. Without any, the answer is a funnel: where
    the candidates get lost on their way to a match. The verdict is on the semantics, not on what
    an engine happens to do: the oracle `naive` judges, on the part of the stream that matters.

    Of a chain, the last query that has all the variables is judged, on what those before it
    returned. A result, or the `BudgetError` that ended it, stands for its pattern and its stream:
    `why_not(result, a=3)` also says if a budget kept the match out of it.

    >>> import cepviz as cep
    >>> rows = [{"type": "A", "time": 0, "x": 101}, {"type": "B", "time": 302, "x": 98}]
    >>> s = cep.Stream.from_records(rows)
    >>> why_not("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 300 seconds", s, a=0, b=1)
    Not a match: 2 reasons.
    1  window     a@0 to b@302 is 302 s; WITHIN 300 seconds needs less.
    2  predicate  b.x > a.x: 98 > 101 is false, short by 3.
    Closest: WITHIN 303 seconds and b.x >= a.x - 3 would match (checked).
         or: WITHIN 303 seconds and without b.x > a.x (checked).
    Show: [.timeline()] [.trace[6], where run 1 was dropped]
    """
    result, note = None, ""
    if isinstance(pattern, BudgetError) and pattern.result is not None:
        pattern = pattern.result
    if isinstance(pattern, Result) and stream is None:
        result, pattern, stream = pattern, pattern.pattern, pattern.stream
    if stream is None:
        raise CepError(
            "why_not needs a stream: why_not(pattern, stream, a=3), or why_not(result, a=3)"
        )
    if isinstance(pattern, Chain):
        query, events, note = _of_chain(pattern, as_stream(stream), bindings)
    else:
        query, events = as_query(pattern), as_stream(stream)
    if isinstance(query, ContextQuery):
        from cepviz.explain.contexts import why_not_context

        judged = why_not_context(query, events, bindings)
        judged.note = note
        return judged
    if not bindings:
        found = funnel(query, events)
        found.verdict = " ".join(filter(None, [note, found.verdict]))
        return found
    given, late = bound_events(query, events, bindings)
    verdict = _verdict(Ground(query, events), given, late)
    verdict.note = note
    if result is not None and result.stopped and verdict.match is not None:
        reported = verdict.match.key in {other.key for other in result}
        verdict.blockers = [] if reported else [Blocker("budget", result.stopped)]
    return verdict


def _of_chain(
    chain: Chain, stream: Stream, bindings: Mapping[str, Any]
) -> tuple[Pattern | ContextQuery, Stream, str]:
    """The query of a chain that is asked about, and the stream it reads."""
    queries = chain.queries
    fitting = [n for n, query in enumerate(queries) if bindings.keys() <= query.variables.keys()]
    if not fitting:
        known = "; ".join(
            f"query {n} has {one_of(query.variables)}" for n, query in enumerate(queries, 1)
        )
        names = " and ".join(bindings)
        raise CepError(f"no query of the chain has {names}: {known}. Ask about one query at a time")
    query: Any
    for number, query in enumerate(queries):
        note = f"Query {number + 1} of {len(queries)} of the chain."
        if number == fitting[-1]:
            return query, stream, note
        result, stopped = quietly(query, stream)
        # Without bindings it is the first query that finds nothing: those after it cannot.
        if not bindings and not len(result):
            return query, stream, note
        if stopped:
            raise CepError(
                f"query {number + 1} of the chain has too many matches: {result.stopped} "
                "Ask about it alone first"
            )
        stream = with_composites(result)
    raise AssertionError("one of the queries fits")


def _verdict(ground: Ground, given: Held, late: frozenset[Event]) -> WhyNot:
    pattern, stream = ground.pattern, ground.stream
    if not any(True for _ in events_of(given)):
        return _without_events(ground, given)
    branches = applicable(ground, given)
    if not branches:
        return WhyNot(pattern, stream, given, given, None, _no_branch(ground, given), False)
    if not late:
        try:
            found = completion(ground, given)
        except BudgetError as error:
            text = f"{error}; bind more variables, or narrow the window."
            return WhyNot(pattern, stream, given, given, None, [Blocker("budget", text)], None)
        if found is not None:
            return _found(ground, given, found)
    branch, held, reasons = nearest(ground, given, late)
    if any(blocker.kind in ("strategy", "contiguity") for blocker in reasons):
        reasons = _under_any(ground, held, reasons)
    if not reasons:  # the rules and the run of the oracle must agree; say so if they ever do not
        reasons = [Blocker("missing", "the events were not found together in the stream.")]
    is_match: bool | None = False
    if not late and not _fills(branch, given) and cut_short(ground, given):
        is_match = None
        text = f"only {NEAR:,} events on either side were searched for the other variables."
        reasons.append(Blocker("budget", text))
    complete = branch if all(held.get(v.name) for v in branch.variables) and not late else None
    return WhyNot(pattern, stream, given, held, None, reasons, is_match, complete, late)


def _fills(branch: Branch, bindings: Held) -> bool:
    return set(branch.by_name) == {name for name, bound in bindings.items() if bound}


def _under_any(ground: Ground, held: Held, reasons: list[Blocker]) -> list[Blocker]:
    """Says of a strategy that it alone is in the way, where it is."""
    if any(blocker.kind not in ("strategy", "contiguity") for blocker in reasons):
        return reasons
    for strategy, name in ((NEXT, "next-match"), (ANY, "any-match")):
        if strategy == ground.pattern.strategy:
            continue
        changed = replace(ground.pattern, strategy=strategy)
        found = Ground(changed, ground.stream).found(held)
        if found and reported(changed, ground.stream, held):
            first = replace(
                reasons[0], text=f"{reasons[0].text[:-1]}; under {name} it would match."
            )
            return [first, *reasons[1:]]
    return reasons


def _no_branch(ground: Ground, given: Held) -> list[Blocker]:
    """Why no branch of the pattern has room for these bindings together."""
    optional = {name for branch in ground.pattern.branches for name in branch.empty}
    found = [
        Blocker("missing", f"{name}[] needs at least one event.")
        for name, bound in given.items()
        if not events_in(bound) and name not in optional
    ]
    if not found:
        names = " and ".join(name for name, bound in given.items() if events_in(bound))
        text = f"{names} stand in different branches of the pattern: no match has them together."
        found = [Blocker("branch", text)]
    return found


def _without_events(ground: Ground, given: Held) -> WhyNot:
    """Bindings such as b=[]: is there a match that has nothing for b?"""
    pattern, stream = ground.pattern, ground.stream
    if not applicable(ground, given):
        return WhyNot(pattern, stream, given, given, None, _no_branch(ground, given), False)
    names = ", ".join(given)
    budget = {"runs": 20_000, "matches": 20_000}
    result, _ = quietly(pattern, stream, budget=budget)
    for found in result:
        if all(found.bindings.get(name) == () for name in given):
            return WhyNot(pattern, stream, given, found.bindings, found, [], True)
    text = f"the stream has no match in which {names} is empty."
    return WhyNot(pattern, stream, given, given, None, [Blocker("missing", text)], False)


def _found(ground: Ground, given: Held, found: Match) -> WhyNot:
    """The verdict on a match, which under OUTPUT non_overlap may have to give way to another."""
    pattern, stream = ground.pattern, ground.stream
    if pattern.output == "all":
        return WhyNot(pattern, stream, given, found.bindings, found, [], True)
    result, _ = quietly(pattern, stream)
    for other in result:
        if contains(other.bindings, given):
            return WhyNot(pattern, stream, given, other.bindings, other, [], True)
    branch = next(b for b in applicable(ground, given) if _fills(b, found.bindings))
    reasons = [_overlap(pattern, found, result)]
    return WhyNot(pattern, stream, given, found.bindings, None, reasons, False, branch)


def _overlap(pattern: Pattern, found: Match, result: Result) -> Blocker:
    """The match that is reported instead of this one."""
    same = () if pattern.strategy == STRICT else pattern.same
    partition = [found.events[0].get(name) for name in same]
    low, high = found.events[0].position, found.events[-1].position
    for other in result:
        events = other.events
        if (
            [events[0].get(name) for name in same] == partition
            and events[0].position <= high
            and low <= events[-1].position
        ):
            text = f"it overlaps {told(other.bindings)}, which is reported first (non_overlap)."
            return Blocker("overlap", text, tuple(event.label for event in events))
    return Blocker("overlap", "another match is reported instead of it (non_overlap).")
