"""`why_not(pattern, stream)`: where the events get lost on their way to a match."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cepviz.engines.base import before
from cepviz.engines.naive import Held, Naive
from cepviz.events import Event, Stream
from cepviz.explain.running import quietly, watched
from cepviz.explain.shown import Explanation, Table, count, frame
from cepviz.language.evaluate import holds
from cepviz.language.expressions import Expression, looks_back, needs_all
from cepviz.language.pattern import Branch, Pattern
from cepviz.steps import Drop, Matched, Merge, Move, Spawn, Test
from cepviz.trace import Trace

#: Beyond these, events and pairs are sampled and only the first events are traced.
MOST_EVENTS, MOST_PAIRS, MOST_TRACED = 20_000, 20_000, 1_000


@dataclass(frozen=True)
class Stage:
    """One step of the funnel: of `before` events, pairs or runs, `after` went on."""

    stage: str
    what: str
    before: int
    after: int
    sampled: bool = False


@dataclass
class Funnel(Explanation):
    """How many events, pairs and runs get how far, and a sentence on where it ends.

    `stages` is the funnel, `drops` counts what ended the runs by reason, `refusals` the conditions
    that refused the runs that came furthest, `trace` is the trace they were counted in.
    """

    pattern: Pattern
    stream: Stream
    stages: list[Stage]
    verdict: str
    matches: int
    trace: Trace
    furthest: tuple[int, int, int] = (0, 0, 0)
    drops: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    traced: int = 0

    @property
    def is_match(self) -> bool:
        """Whether the pattern has any match in the stream."""
        return self.matches > 0

    def lines(self) -> list[str]:
        return [self.verdict]

    def tables(self) -> list[Table]:
        rows = []
        for stage in self.stages:
            about = "about " if stage.sampled else ""
            rows.append((stage.stage, stage.what, f"{stage.before:,}", f"{about}{stage.after:,}"))
        found: list[Table] = [("Funnel", ("stage", "what", "of", "left"), rows)]
        if any(stage.sampled for stage in self.stages):
            sampled = f"Funnel (sampled: {MOST_EVENTS:,} events, {MOST_PAIRS:,} pairs at most)"
            found = [(sampled, *found[0][1:])]
        runs, bound, total = self.furthest
        if runs:
            rest = len(self.stream) - self.traced
            only = f", of the first {self.traced:,} events only" if rest else ""
            ways = [("got furthest", f"{bound} of {total} variables", f"{runs:,}")]
            ways += [("ended by", reason, f"{n:,}") for reason, n in self.drops.most_common()]
            ways += [("refused by", text, f"{n:,}") for text, n in self.refusals.most_common(5)]
            found.append((f"Runs of {self.trace.engine}{only}", ("runs", "what", "count"), ways))
        return found

    def to_frame(self) -> Any:
        """A row for each stage of the funnel."""
        rows = [
            {
                "stage": s.stage,
                "what": s.what,
                "of": s.before,
                "left": s.after,
                "sampled": s.sampled,
            }
            for s in self.stages
        ]
        return frame(rows, ["stage", "what", "of", "left", "sampled"])

    def __repr__(self) -> str:
        return self.text()


def funnel(pattern: Pattern, stream: Stream) -> Funnel:
    """Counts what gets how far, first by the conditions alone, then by the runs of an engine."""
    rules = Naive(pattern, schema=stream.schema)
    query = rules.pattern
    stages: list[Stage] = []
    dead: list[str] = []
    counts = stream.counts()
    listed = list(_sample(stream))
    for number, branch in enumerate(query.branches, 1):
        prefix = f"branch {number}: " if len(query.branches) > 1 else ""
        more, verdict = _branch(rules, branch, listed, counts, len(stream))
        stages += [Stage(s.stage, prefix + s.what, s.before, s.after, s.sampled) for s in more]
        dead.append(prefix + verdict if verdict else "")
    recorded = watched(query, stream[:MOST_TRACED])
    result, stopped = quietly(query, stream, budget={"runs": 20_000, "matches": 20_000})
    made = Funnel(query, stream, stages, "", len(result), recorded)
    made.traced = min(len(stream), MOST_TRACED)
    total = max(len(branch.variables) for branch in query.branches)
    _runs(made, recorded, total)
    made.verdict = _verdict(made, dead, stopped)
    return made


def _sample(stream: Stream) -> Iterator[Event]:
    """The events, or evenly spaced blocks of them: neighbours stay neighbours."""
    if len(stream) <= MOST_EVENTS:
        yield from stream
        return
    blocks = 20
    size = MOST_EVENTS // blocks
    for block in range(blocks):
        low = block * (len(stream) - size) // (blocks - 1)
        yield from stream[low : low + size]


def _branch(
    rules: Naive, branch: Branch, events: list[Event], counts: dict[str, int], total: int
) -> tuple[list[Stage], str]:
    """The stages of one branch, and where it ends if it ends here."""
    stages: list[Stage] = []
    verdict = ""
    sampled = len(events) < total
    passing: dict[str, list[Event]] = {}
    for variable in branch.variables:
        name, of_type = variable.name, counts.get(variable.type, 0)
        stages.append(Stage("type", f"{variable.type} for {variable}", total, of_type))
        if not of_type:
            verdict = verdict or f"the stream has no event of type {variable.type}, for {name}."
        fitting = [event for event in events if event.type == variable.type]
        for conjunct in branch.own(name):
            left = [e for e in fitting if _true(conjunct, {name: _bound(variable.kleene, e)})]
            stages.append(Stage("own", str(conjunct), len(fitting), len(left), sampled))
            if fitting and not left:
                verdict = verdict or f"no {variable.type} passes {conjunct}, for {name}."
            fitting = left
        passing[name] = fitting
    for one, two in _pairs_of(branch):
        tests = [c for c in branch.shared() if _between(c, one, two)]
        pairs, cut = _pairs(rules, branch, passing, one, two)
        said = f"{one}, {two} in order" + (" and in the window" if rules.window else "")
        if not tests and (one, two) not in branch.order:
            continue
        of = len(passing[one]) * len(passing[two])
        stages.append(Stage("pair", said, of, len(pairs), sampled or cut))
        if not pairs and passing[one] and passing[two]:
            where = " within one window" if rules.window else ""
            verdict = verdict or f"no {one} comes before a {two}{where}."
        for conjunct in tests:
            left = [held for held in pairs if _true(conjunct, held)]  # type: ignore[misc]
            stages.append(Stage("pair", str(conjunct), len(pairs), len(left), sampled or cut))
            if pairs and not left:
                verdict = verdict or f"no pair of {one} and {two} passes {conjunct}."
            pairs = left  # type: ignore[assignment]
    return stages, verdict


def _pairs_of(branch: Branch) -> list[tuple[str, str]]:
    """Pairs of variables that are next to each other, or that a condition relates; a Kleene
    variable is paired with itself where a condition looks back."""
    names = [variable.name for variable in branch.variables]
    found = list(itertools.pairwise(names))
    for conjunct in branch.shared():
        about = sorted(conjunct.variables, key=names.index)
        if len(about) == 1 and looks_back(conjunct, about[0]):
            found.append((about[0], about[0]))
        elif len(about) == 2:
            found.append((about[0], about[1]))
    return list(dict.fromkeys(found))


def _between(conjunct: Expression, one: str, two: str) -> bool:
    """Whether a pair of events, one for each variable, decides a condition."""
    if conjunct.variables != {one, two}:
        return False
    return not any(needs_all(conjunct, name) for name in (one, two)) and (
        one == two or not any(looks_back(conjunct, name) for name in (one, two))
    )


def _pairs(
    rules: Naive, branch: Branch, passing: dict[str, list[Event]], one: str, two: str
) -> tuple[list[Held], bool]:
    """Pairs in order and in one window, evenly from all firsts; and whether some were left out."""
    first, second = passing[one], passing[two]
    free = one != two and (one, two) not in branch.order and (two, one) not in branch.order
    if (two, one) in branch.order:
        first, second, one, two = second, first, two, one
    kleene = {name: branch.by_name[name].kleene for name in (one, two)}
    pairs: list[Held] = []
    total = len(first) * len(second)
    each = max(1, MOST_PAIRS // max(1, len(first)))
    step = max(1, len(first) // MOST_PAIRS)
    start, cut = 0, step > 1
    for event in first[::step]:
        while start < len(second) and not free and second[start].position <= event.position:
            start += 1
        taken = 0
        for other in second[0 if free else start :]:
            if other == event or not (free or before(event, other)):
                continue
            if not rules.fit(event, other):
                if other.position > event.position and not other.is_interval:
                    break
                continue
            if taken == each and total > MOST_PAIRS:
                cut = True
                break
            taken += 1
            if one == two:
                pairs.append({one: (event, other)})
            else:
                pairs.append({one: _bound(kleene[one], event), two: _bound(kleene[two], other)})
    return pairs, cut


def _bound(kleene: bool, event: Event) -> Event | tuple[Event, ...]:
    return (event,) if kleene else event


def _true(conjunct: Expression, held: Held) -> bool:
    return holds(conjunct, held, lambda *_: None)


# ---- runs ----


def _runs(made: Funnel, recorded: Trace, total: int) -> None:
    """Counts how far the runs of a trace came, and what ended them."""
    held: dict[str, int] = {}
    ended: dict[str, str] = {}
    refused: dict[str, Counter[str]] = {}
    for step in recorded:
        if isinstance(step, Move) and step.bindings:
            held[step.run] = max(held.get(step.run, 0), sum(1 for _, e in step.bindings if e))
        elif isinstance(step, Spawn):
            held[step.child] = held.get(step.run, 0)
        elif isinstance(step, Drop):
            ended[step.run] = step.reason
        elif isinstance(step, Matched):
            ended.setdefault(step.run, "match")
        elif isinstance(step, Merge):
            ended[step.run] = "merged"
        elif isinstance(step, Test) and not step.passed:
            failed = [test.text for test in step.tests if test.truth is not True]
            refused.setdefault(step.run, Counter()).update(failed[:1])
    if not held:
        return
    most = max(held.values())
    furthest = [run for run, depth in held.items() if depth == most]
    made.furthest = (len(furthest), most, total)
    made.drops = Counter(ended.get(run, "end of the stream") for run in furthest)
    for run in furthest:
        made.refusals.update(refused.get(run, Counter()))


def _verdict(made: Funnel, dead: list[str], stopped: bool) -> str:
    if made.matches:
        more = "at least " if stopped else ""
        found = count(made.matches, "match", "matches")
        return f"It does match: {more}{found} in {count(len(made.stream), 'event')}."
    if stopped:
        return "Not decided: the run was stopped by its budget before it found a match."
    start = f"No match in {count(len(made.stream), 'event')}: "
    if all(dead):
        return start + " ".join(dead)
    runs, bound, total = made.furthest
    if not runs:
        only = f" of the first {made.traced:,} events" if made.traced < len(made.stream) else ""
        return (
            f"{start}every condition can hold by itself, but none of the events{only} begins a run."
        )
    reason, times = made.drops.most_common(1)[0]
    text = (
        f"{start}{count(runs, 'run')} came to {bound} of {total} variables; "
        f"{'all' if times == runs else times} ended by {reason}"
    )
    if made.refusals and reason != "negation":
        condition, often = made.refusals.most_common(1)[0]
        text += f", after {condition} refused {count(often, 'event')}"
    return text + "."
