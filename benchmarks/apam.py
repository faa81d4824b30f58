"""The experiments of APAM, section 6: the chosen split against all candidates, by latency.

    python benchmarks/apam.py            # about five minutes
    python benchmarks/apam.py --quick    # about one minute, with shorter streams

The query is the paper's Figure 3(b), the three experiments are those of its Table 2: five types,
uniformly mixed, a window of 2,000 events, 100,000 events of which half are a warm-up. Events arrive
at random on a virtual clock. The paper's rates, 100 to 4,500 a second, are scaled to what this
machine can do: each rate here is the one at which the fastest candidate has a certain utilisation,
from 0.05 to 2. Latencies are those of true final events, over five runs of arrivals.

Each candidate is served twice: once with services counted from evaluations and results by the
calibrated unit costs, which repeats exactly for the same costs and is what the bars are on; once
with the processor time that every single event really took, which is what the second table shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from _measure import Report, main, progress

import cepviz as cep
from cepviz.data import TABLE_2, chained, chained_query
from cepviz.engines.apam import Apam, calibrate
from cepviz.latency import Served, side_by_side
from cepviz.plans.apam import Latency, candidates, spoken_time
from cepviz.plans.plan import Split

#: What the paper reports: gains over all eager and over all lazy, and its worst second choice.
PAPER = {"eager": 361.48, "lazy": 27.94, "off": 1.30}


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    events: int = 100_000
    window: int = 2_000
    #: Of the fastest candidate; the paper's four rates are 0.04, 0.67, 1.33 and 2.
    utilisations: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.2, 2.0)
    seeds: int = 5
    scale: float = 1.0  # of the selectivities


QUICK = Size(events=20_000, seeds=3)


@dataclass(frozen=True)
class Cell:
    """One rate of one experiment: the latency of each candidate, and which one was chosen."""

    utilisation: float
    rate: float
    latencies: Mapping[Split, float]
    chosen: Split

    @property
    def best(self) -> Split:
        return min(self.latencies, key=lambda plan: self.latencies[plan])

    @property
    def lazy(self) -> float:
        return next(iter(self.latencies.values()))

    @property
    def eager(self) -> float:
        return list(self.latencies.values())[-1]

    def over(self, other: float) -> float:
        """How many times the chosen plan's latency another one is."""
        return other / self.latencies[self.chosen]

    @property
    def off(self) -> float:
        """How many times the best latency the chosen one is."""
        return self.latencies[self.chosen] / self.latencies[self.best]

    @property
    def against(self) -> float:
        """How many times the better of all eager and all lazy it is."""
        return self.latencies[self.chosen] / min(self.eager, self.lazy)


class Experiment:
    """A stream of Table 2, and its candidates served in both ways."""

    def __init__(self, number: int, size: Size, costs: cep.Costs):
        self.size, self.costs = size, costs
        shares = [share * size.scale for share in TABLE_2[number]]
        events = chained(size.events, shares, seed=number)
        self.pattern = cep.parse(chained_query(len(shares), size.window))
        # Rates and selectivities are what the stream was made with, as in the paper.
        each = size.window / (len(shares) + 1)
        texts = map(str, self.pattern.where)
        self.statistics = cep.Statistics(
            dict.fromkeys(events.schema.types, each), dict(zip(texts, shares, strict=True))
        )
        self.plans = candidates(self.pattern.branches[0], self.statistics)
        listed = list(events)
        schema = events.schema

        def served(kind: str, given: cep.Costs | None) -> dict[Split, Served]:
            progress(f"experiment {number}, services {kind}")
            engines = {
                str(p): Apam(self.pattern, p, costs=costs, schema=schema) for p in self.plans
            }
            done = side_by_side(engines, listed, given)
            return dict(zip(self.plans, done, strict=True))

        self.counted, self.measured = served("counted", costs), served("measured", None)

    def cells(self, served: Mapping[Split, Served]) -> list[Cell]:
        """The latencies at every rate; rates are those of the fastest candidate."""
        half = self.size.events // 2
        fastest = min(done.services[half:].mean() for done in served.values())
        found = []
        for utilisation in self.size.utilisations:
            rate = float(utilisation / fastest)
            latencies = {
                plan: sum(done.at(rate, seed=seed).mean for seed in range(self.size.seeds))
                / self.size.seeds
                for plan, done in served.items()
            }
            chosen = Latency(self.costs, rate)(self.pattern, self.statistics).plan
            assert isinstance(chosen, Split)
            found.append(Cell(utilisation, rate, latencies, chosen))
        return found


def measure(report: Report, size: Size) -> None:
    costs = calibrate(400, 5)
    report.say(f"unit costs: {costs}")
    every: dict[str, list[Cell]] = {"counted": [], "measured": []}
    for number in TABLE_2:
        experiment = Experiment(number, size, costs)
        found = {
            kind: experiment.cells(getattr(experiment, kind)) for kind in ("counted", "measured")
        }
        for kind, cells in found.items():
            every[kind] += cells
            columns = ["utilisation", "events/s", "chosen", "latency", "best", "times best",
                       "gain over eager", "gain over lazy"]  # fmt: skip
            with report.table(f"Experiment {number}, services {kind}", columns) as rows:
                for cell in cells:
                    rows.append(
                        [f"{cell.utilisation:g}", f"{cell.rate:,.0f}", str(cell.chosen),
                         spoken_time(cell.latencies[cell.chosen]), str(cell.best), cell.off,
                         cell.over(cell.eager), cell.over(cell.lazy)]
                    )  # fmt: skip
        names = [str(plan) for plan in experiment.plans]
        for cell in found["counted"][:: max(1, len(size.utilisations) // 3)]:
            values = [cell.latencies[plan] * 1e3 for plan in experiment.plans]
            report.chart(
                f"Experiment {number} at utilisation {cell.utilisation:g}: {cell.chosen} chosen",
                {"latency": (names, values)}, "candidate", "ms", kind="bars",
            )  # fmt: skip
    for kind, cells in every.items():
        eager, lazy = (max(c.over(getattr(c, w)) for c in cells) for w in ("eager", "lazy"))
        report.say(
            f"\nlargest gains, services {kind}: {eager:.1f} times over all eager (the paper: "
            f"{PAPER['eager']}), {lazy:.1f} times over all lazy (the paper: {PAPER['lazy']})"
        )
    cells = every["counted"]
    worst = max(cells, key=lambda cell: cell.off)
    report.bar(
        "chosen within 1.3 times the best candidate in every cell",
        f"{worst.off:.2f} at worst ({worst.chosen} for {worst.best} at utilisation "
        f"{worst.utilisation:g})", worst.off <= 1.3,
    )  # fmt: skip
    worst = max(cells, key=lambda cell: cell.against)
    above = sum(cell.against > 1.05 for cell in cells)
    report.bar(
        "never above 1.05 times the better of all eager and all lazy",
        f"{worst.against:.2f} at worst ({worst.chosen} at utilisation {worst.utilisation:g}; "
        f"{above} of {len(cells)} cells above)", worst.against <= 1.05,
    )  # fmt: skip
    off = [cell.off for cell in every["measured"]]
    report.say(
        f"services measured: {sum(o <= 1.3 for o in off)} of {len(off)} cells within 1.3 times the "
        f"best, {max(off):.2f} at worst"
    )


def run(report: Report, quick: bool) -> None:
    measure(report, QUICK if quick else Size())


if __name__ == "__main__":
    main("APAM section 6: latency of the chosen split", "apam.html", run)
