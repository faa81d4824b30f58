"""The experiments of LAZY section 7 (Figures 7 to 10), and the bars of the lazy engines.

The paper's stocks are made up here (`sector_ticks`): ten stocks of each sector, a price each
minute, a history and a window of ten minutes, so 100 events of a and of b in a window. T is set so
that one pair in a hundred passes. Counts are exact and the same on every machine; times are not.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from _measure import Report, interleaved, main, progress, ratio

import cepviz as cep
from cepviz.data import (
    FINANCE,
    HI_TECH,
    correlated,
    correlation_threshold,
    letters,
    paired,
    sector_ticks,
)
from cepviz.engines.base import Engine, bag
from cepviz.engines.registry import ENGINES
from cepviz.events import Event, Stream
from cepviz.language.pattern import Pattern

#: Far above what is needed here: the stream decides how long a run takes.
BUDGET = {"runs": 10**9, "buffered": 10**9, "matches": 10**9}

CHAINS = tuple("".join(order) for order in itertools.permutations("abc"))
CASES = ("eager", *CHAINS, "tree")
#: zstream, with c and b joined first.
JOINS = "(a (b c))"
#: The sequences of Figures 7 and 8.
SEQUENCES = ("abc", "cba", "acb")
#: Events are made this many at a time, off the clock.
PIECE = 10_000


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    #: f_c, and how many events: enough c events where c is rare, few where all is frequent.
    rates: dict[float, int] = field(
        default_factory=lambda: {
            0.001: 60_000, 0.003: 40_000, 0.01: 30_000, 0.03: 15_000, 0.1: 10_000, 0.3: 6_000,
            1.0: 4_000,
        }
    )  # fmt: skip
    stationary: dict[float, int] = field(
        default_factory=lambda: {
            0.001: 40_000, 0.01: 20_000, 0.03: 12_000, 0.1: 6_000, 0.3: 6_000, 1.0: 6_000,
        }
    )  # fmt: skip
    kinds: tuple[str, ...] = ("stocks", "letters")
    seeds: tuple[int, ...] = (1, 2, 3)
    inputs: tuple[int, ...] = (1_000, 2_000, 5_000, 10_000, 20_000, 40_000)
    period: int = 20_000
    periods: int = 6
    speed: int = 40_000
    grown: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    repeats: int = 5


# Of stocks, a stream that is short enough for this has no share of 1 % yet: GOOG is a single walk.
QUICK = Size(
    rates={0.001: 10_000, 0.01: 4_000, 0.1: 1_500, 1.0: 600},
    stationary={0.001: 40_000, 0.1: 6_000, 0.3: 6_000, 1.0: 3_000},
    kinds=("letters",),
    inputs=(1_000, 2_000, 5_000),
    period=3_000,
    speed=10_000,
    grown=(10_000, 300_000),
    repeats=3,
)


def made(case: str, pattern: Pattern, stream: Stream) -> Engine:
    """The engine of a case: `eager`, `tree`, an order such as `cba`, or a tree of joins."""
    plan: Any = None
    if case in CHAINS:
        name, plan = "lazy_chain", cep.Order(*case)
    elif case == JOINS:
        name, plan = "zstream", cep.Tree(("a", ("b", "c")))
    else:
        name = {"eager": "eager", "tree": "lazy_tree"}[case]
    return ENGINES[name](pattern, plan, schema=stream.schema, budget=BUDGET)


class Workload:
    """A stream in memory, and the pattern of the experiments on it."""

    def __init__(self, stream: Stream, pattern: Callable[[str], Pattern]):
        self.stream = stream
        self.events: list[Event] = list(stream)
        self.pattern = pattern

    @classmethod
    def stocks(cls, count: int, f_c: float, seed: int = 1) -> Workload:
        """The paper's query on stocks with histories."""
        stream = sector_ticks(count, f_c, seed=seed)
        given = {"T": correlation_threshold(stream), "h": "10 minutes",
                 "Finance": list(FINANCE), "Hi_Tech": list(HI_TECH)}  # fmt: skip
        return cls(stream, lambda sequence: cep.parse(correlated(sequence)).given(**given))

    @classmethod
    def letters(cls, count: int, f_c: float, seed: int = 1, period: int | None = None) -> Workload:
        """The same with numbers, which are quicker to compare."""
        stream = letters(count, f_c, seed=seed, period=period)
        return cls(stream, lambda sequence: cep.parse(paired(sequence)))

    def engine(self, case: str, sequence: str = "abc") -> Engine:
        return made(case, self.pattern(sequence), self.stream)

    def run(self, case: str, sequence: str = "abc") -> Engine:
        engine = self.engine(case, sequence)
        push = engine.push
        for event in self.events:
            push(event)
        engine.flush()
        return engine

    def matches(self, case: str, sequence: str = "abc") -> dict[tuple[Any, ...], int]:
        engine = self.engine(case, sequence)
        found = [match for event in self.events for match in engine.push(event)]
        return bag([*found, *engine.flush()])

    def counted(self, case: str, every: int) -> tuple[Engine, list[int]]:
        """Runs a case, and counts its evaluations in every slice of the stream."""
        engine, counts, before = self.engine(case), [], 0
        for number, event in enumerate(self.events, 1):
            engine.push(event)
            if number % every == 0:
                counts.append(engine.counters.evaluations - before)
                before = engine.counters.evaluations
        return engine, counts

    def peaks(self, case: str, inputs: tuple[int, ...]) -> list[int]:
        """The most instances at once on the first events, for each number of them."""
        engine, peaks = self.engine(case), []
        for number, event in enumerate(self.events, 1):
            engine.push(event)
            if number in inputs:
                peaks.append(engine.counters.peak_runs)
        return peaks


def best(counts: dict[str, int]) -> str:
    """The chain with the fewest evaluations."""
    return min(CHAINS, key=lambda chain: counts[chain])


# ---- Figures 7 and 8: evaluations ----


def evaluations(report: Report, size: Size) -> None:
    columns = ["f_c", "events", "matches", *CASES, "eager : best", "best", "tree : best"]
    note = "Evaluations, in all of the stream: conditions tried on an edge (LAZY section 7)."
    found: dict[str, dict[float, dict[str, int]]] = {}
    works = {f_c: Workload.stocks(count, f_c) for f_c, count in size.rates.items()}
    for sequence in SEQUENCES:
        figure = 7 if sequence == "abc" else 8
        title = f"Figure {figure}: evaluations for the sequence {', '.join(sequence)}"
        found[sequence] = {}
        with report.table(title, columns, note) as rows:
            for f_c, work in works.items():
                counts, matches = {}, set()
                for case in CASES:
                    progress(f"{sequence}, f_c = {f_c}: {case}")
                    counters = work.run(case, sequence).counters
                    counts[case] = counters.evaluations
                    matches.add(counters.matches)
                assert len(matches) == 1, f"matches differ: {sequence}, f_c = {f_c}: {matches}"
                found[sequence][f_c] = counts
                chain = best(counts)
                rows.append(
                    [str(f_c), len(work.events), *matches, *counts.values(),
                     counts["eager"] / counts[chain], chain, counts["tree"] / counts[chain]]
                )  # fmt: skip
        # Per event, because the streams differ in length. Words keep the axis from being linear.
        shown = {
            case: (
                [f"f_c = {f_c}" for f_c in works],
                [found[sequence][f_c][case] / len(work.events) for f_c, work in works.items()],
            )
            for case in CASES
        }
        report.chart(title, shown, "frequency of c against a and b", "evaluations per event",
                     log=True)  # fmt: skip
    for f_c, least in ((0.01, 15), (0.001, 100)):
        counts = found["abc"][f_c]
        gain = counts["eager"] / counts[best(counts)]
        name = f"best chain at least {least} times fewer evaluations than eager, f_c = {f_c}"
        report.bar(name, f"{gain:.1f} times ({best(counts)})", gain >= least)


def stationary(report: Report, size: Size) -> None:
    """The tree against the best chain: streams of 10 windows or more, several of each kind.

    Chains that cannot be the best are left out: those that join a with c first, which no condition
    relates, and where c is rarer than the others, those that end with it.
    """
    columns = ["stream", "f_c", "events", *(f"{s}, tree : best" for s in SEQUENCES), "best chains"]
    note = f"The worst of {len(size.seeds)} streams with other seeds."
    kinds = {name: getattr(Workload, name) for name in size.kinds}
    worst: dict[tuple[str, float, str], float] = {}
    with report.table("Tree against the best chain", columns, note) as rows:
        for (name, make), (f_c, count) in itertools.product(kinds.items(), size.stationary.items()):
            bests = set()
            chains = ("bca", "cba") if f_c < 1 else ("abc", "bac", "bca", "cba")
            for seed in size.seeds:
                work = make(count, f_c, seed)
                for sequence in SEQUENCES:
                    progress(f"{name}, f_c = {f_c}, seed {seed}: {sequence}")
                    counts = {
                        case: work.run(case, sequence).counters.evaluations
                        for case in (*chains, "tree")
                    }
                    chain = min(chains, key=lambda chain: counts[chain])
                    bests.add(chain)
                    where = (name, f_c, sequence)
                    worst[where] = max(worst.get(where, 0), counts["tree"] / counts[chain])
            ratios = [round(worst[name, f_c, sequence], 3) for sequence in SEQUENCES]
            rows.append([name, str(f_c), count, *map(str, ratios), ", ".join(sorted(bests))])
    where = max(worst, key=lambda where: worst[where])
    said = f"at most {worst[where]:.3f} times ({where[0]}, f_c = {where[1]}, sequence {where[2]})"
    report.bar("tree at most 1.10 times the best chain, every stationary stream", said,
               worst[where] <= 1.1)  # fmt: skip


# ---- Figure 9: instances ----


def instances(report: Report, size: Size) -> None:
    work = Workload.stocks(max(size.inputs), 0.01)
    title = "Figure 9: most instances at once, sequence a, b, c, f_c = 0.01"
    peaks: dict[str, list[int]] = {}
    with report.table(title, ["events", *CASES]) as rows:
        for case in CASES:
            progress(f"instances: {case}")
            peaks[case] = work.peaks(case, size.inputs)
        rows += [[f"{n:,}", *line] for n, *line in zip(size.inputs, *peaks.values(), strict=True)]
    report.chart(title, {case: (size.inputs, listed) for case, listed in peaks.items()},
                 "events read", "instances", log=True)  # fmt: skip
    fewer = min(peaks["eager"][-1] / peaks[chain][-1] for chain in ("cab", "cba"))
    report.bar("peak instances of a c-first chain at least 10 times below eager's",
               f"{fewer:.1f} times", fewer >= 10)  # fmt: skip


# ---- Figure 10: the rarest type changes ----


def switching(report: Report, size: Size) -> None:
    period = size.period
    every = max(1, period // 10)
    work = Workload.letters(period * size.periods, 0.01, period=period)
    title = f"Figure 10: evaluations where the rarest type changes every {period:,} events"
    note = (
        "c is rare first, then a, then b, and again. Types A, B, C with numbers (`letters`); the "
        "paper's period is 100,000 events."
    )
    columns = [
        "case",
        "in all",
        "times the tree",
        *(f"{k + 1}. period" for k in range(size.periods)),
    ]
    totals, slices = {}, {}
    with report.table(title, columns, note) as rows:
        for case in CASES:
            progress(f"switching: {case}")
            engine, slices[case] = work.counted(case, every)
            totals[case] = engine.counters.evaluations
        for case in CASES:
            each = [
                sum(slices[case][k * period // every : (k + 1) * period // every])
                for k in range(size.periods)
            ]
            rows.append([case, totals[case], totals[case] / totals["tree"], *each])
    # A slice without a condition tried has no place on a logarithmic axis.
    shown = {
        case: ([every * (k + 1) for k in range(len(counts))], [max(count, 1) for count in counts])
        for case, counts in slices.items()
    }
    report.chart(title, shown, "events read", f"evaluations per {every:,} events", log=True)
    chain = best(totals)
    gain = totals[chain] / totals["tree"]
    report.bar("tree below every chain where the rarest type changes",
               f"the best chain ({chain}) tries {gain:.1f} times as many", gain > 1)  # fmt: skip


# ---- plain speed ----


def speed(report: Report, size: Size) -> None:
    """Hooks off, events in memory, the same matches."""
    cases = ("eager", "cba", "tree", JOINS)
    columns = ["stream", *(f"{case} us/event" for case in cases)]
    columns += [f"eager : {case}" for case in cases[1:]]
    note = f"{JOINS} is zstream with that tree."
    works = {
        "stocks, Corr": Workload.stocks(size.speed, 0.001),
        "letters, numbers": Workload.letters(size.speed, 0.001),
    }
    gain = 0.0
    with report.table(f"Speed at f_c = 0.001, {size.speed:,} events", columns, note) as rows:
        for name, work in works.items():
            wanted = work.matches("eager")
            for case in cases[1:]:
                assert work.matches(case) == wanted, f"{case} differs from eager on {name}"
            times = interleaved(
                {case: lambda case=case, work=work: work.run(case) for case in cases}, size.repeats
            )
            each = [median(times[case]) / size.speed * 1e6 for case in cases]
            gains = [ratio(times, "eager", case) for case in cases[1:]]
            rows.append([name, *each, *gains])
            gain = gain or gains[0]
    report.bar("lazy_chain, best order, at least 10 times faster than eager, f_c = 0.001",
               f"{gain:.1f} times (cba, stocks)", gain >= 10)  # fmt: skip


def flat(report: Report, size: Size) -> None:
    """Cost per event on longer and longer streams; the same rates, the same window."""
    cases = ("cba", "tree")
    most = max(size.grown)
    streams = {count: letters(count, 0.01, seed=1) for count in size.grown}
    spent: dict[tuple[str, int], list[float]] = {}
    columns = ["events", *(f"{case} us/event" for case in cases)]
    columns += [f"{case}, times the first" for case in cases]
    note = "Making events is not on the clock. Short streams are read several times."
    with report.table(
        "Cost per event on longer streams, letters, f_c = 0.01", columns, note
    ) as rows:
        for turn in range(size.repeats):
            for count, stream in streams.items():
                for case in cases:
                    progress(f"round {turn + 1}: {case}, {count:,} events")
                    times = max(1, min(5, most // count // 3))
                    seconds = sum(pushing(case, stream) for _ in range(times))
                    spent.setdefault((case, count), []).append(seconds / times / count)
        first = size.grown[0]
        growth = {
            (case, count): median(
                late / early
                for late, early in zip(spent[case, count], spent[case, first], strict=True)
            )
            for case, count in spent
        }
        for count in size.grown:
            rows.append(
                [f"{count:,}", *(median(spent[case, count]) * 1e6 for case in cases),
                 *(growth[case, count] for case in cases)]
            )  # fmt: skip
    shown = {
        case: (size.grown, [median(spent[case, count]) * 1e6 for count in size.grown])
        for case in cases
    }
    report.chart("Cost per event on longer streams", shown, "events", "us per event")
    grown = {case: growth[case, most] for case in cases}
    said = ", ".join(f"{case} {times:.2f} times" for case, times in grown.items())
    report.bar(f"cost per event flat (at most 1.2 times) from {first:,} to {most:,} events", said,
               max(grown.values()) <= 1.2)  # fmt: skip


def pushing(case: str, stream: Stream) -> float:
    """Seconds that an engine takes for a stream, events being there."""
    push = made(case, cep.parse(paired()), stream).push
    events, seconds = iter(stream), 0.0
    while piece := list(itertools.islice(events, PIECE)):
        started = time.process_time()
        for event in piece:
            push(event)
        seconds += time.process_time() - started
    return seconds


SECTIONS = (evaluations, stationary, instances, switching, speed, flat)


def measure(report: Report, size: Size) -> None:
    for section in SECTIONS:
        section(report, size)


if __name__ == "__main__":
    main(
        "LAZY, section 7",
        "lazy.html",
        lambda report, quick: measure(report, QUICK if quick else Size()),
    )
