"""Latency: a queue on a virtual clock, fed with what an engine really has to do for each event.

An engine is run once over a stream, and what it takes to serve each event is noted: measured, or
counted from its work and unit costs, so that it comes out the same every time. Then events arrive
at any rate one likes, wait while the server is busy, and are served in turn. Nothing waits in
reality: the clock is a number.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import thread_time
from typing import Any

import numpy as np

from cepviz.engines.apam import Apam, calibrated
from cepviz.engines.base import Budget, Engine
from cepviz.engines.registry import engine_class
from cepviz.errors import CepError
from cepviz.events import Event, Stream
from cepviz.language.build import Draft, as_pattern
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import resolve
from cepviz.matching import as_stream, warn
from cepviz.plans.apam import Costs, Estimate, Latency, candidates, estimate, spoken_time
from cepviz.plans.estimate import Estimator
from cepviz.plans.plan import Plan, Split
from cepviz.plans.statistics import Statistics

Array = np.ndarray[Any, Any]

#: The share of a stream that fills windows and buffers before latencies count, as in the paper.
WARM_UP = 0.5
#: So many events are served to one engine before it is the next one's turn.
IN_TURN = 250


def poisson(count: int, rate: float, seed: int = 0) -> Array:
    """The times, in seconds, at which `count` events arrive at random, `rate` in a second."""
    if not rate > 0:
        raise CepError(f"the arrival rate is {rate}: it must be events per second, above 0")
    return np.random.default_rng(seed).exponential(1 / rate, count).cumsum()


def waits(arrivals: Array, services: Array) -> Array:
    """How long each event waits for one server that takes them in turn.

    >>> waits(np.array([0.0, 1.0, 2.0, 9.0]), np.array([3.0, 1.0, 1.0, 1.0])).tolist()
    [0.0, 2.0, 2.0, 0.0]
    """
    # Lindley: an event waits for what the one before waited and took, less the time between.
    steps = np.concatenate([[0.0], services[:-1] - np.diff(arrivals)])
    ahead = np.cumsum(steps)
    return np.asarray(ahead - np.minimum.accumulate(ahead))


@dataclass(frozen=True, eq=False)
class Queued:
    """Events that arrived, waited and were served: the latency of those that completed a match.

    `waiting` and `service` are in seconds, one for each true final event after the warm-up; the
    other arrays are of all events.
    """

    name: str
    rate: float
    arrivals: Array
    services: Array
    waits: Array
    counted: Array  # which events are true final events after the warm-up
    begin: int  # the first event after the warm-up

    @cached_property
    def waiting(self) -> Array:
        return np.asarray(self.waits[self.counted])

    @cached_property
    def service(self) -> Array:
        return np.asarray(self.services[self.counted])

    @property
    def latency(self) -> Array:
        """From the arrival of each true final event until all its matches are found."""
        return self.waiting + self.service

    @property
    def mean(self) -> float:
        """The mean latency; not a number where no match was completed."""
        return _mean(self.latency)

    @property
    def mean_waiting(self) -> float:
        return _mean(self.waiting)

    @property
    def mean_service(self) -> float:
        return _mean(self.service)

    @property
    def utilisation(self) -> float:
        """How much work arrives for each second: from 1 on, the queue grows without end."""
        return float(self.services[self.begin :].mean() * self.rate)

    def percentile(self, share: float) -> float:
        """The latency that so many percent of the true final events do not exceed."""
        if not 0 <= share <= 100:
            raise CepError(f"a percentile lies between 0 and 100, not {share}")
        return float(np.percentile(self.latency, share)) if len(self.latency) else math.nan

    def queue(self) -> tuple[Array, Array]:
        """How many events are waiting or being served: times, and the number from each time on.

        >>> q = Queued("", 1.0, np.array([0.0, 1.0]), np.array([1.5, 1.0]), np.array([0.0, 0.5]),
        ...            np.array([True, True]), 0)
        >>> [part.tolist() for part in q.queue()]
        [[0.0, 1.0, 1.5, 2.5], [1, 2, 1, 0]]
        """
        ends = self.arrivals + self.waits + self.services
        times = np.concatenate([self.arrivals, ends])
        change = np.concatenate([np.ones(len(ends), int), -np.ones(len(ends), int)])
        order = np.lexsort((change, times))
        return times[order], np.cumsum(change[order])

    def frame(self) -> Any:
        """A DataFrame with a row for each true final event: when it came, waited, was served."""
        import pandas as pd

        return pd.DataFrame(
            {"event": np.flatnonzero(self.counted), "arrival": self.arrivals[self.counted],
             "waiting": self.waiting, "service": self.service, "latency": self.latency}
        )  # fmt: skip

    def __repr__(self) -> str:
        count = int(self.counted.sum())
        if not count:
            return f"<{self.name} at {spoken_rate(self.rate)}/s: no true final event to time>"
        told = ", ".join(f"p{p} {spoken_time(self.percentile(p))}" for p in (50, 95, 99))
        means = map(spoken_time, (self.mean, self.mean_waiting, self.mean_service))
        latency = "latency {} (waiting {}, service {})".format(*means)
        return (
            f"<{self.name} at {spoken_rate(self.rate)}/s: {latency}, {told}, "
            f"utilisation {self.utilisation:.3g}, {count:,} true final events>"
        )


def spoken_rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else math.nan


@dataclass(frozen=True, eq=False)
class Served:
    """What it takes to serve each event of a stream, and which of them completed matches."""

    name: str
    services: Array
    completes: Array
    matches: int

    def at(self, rate: float, *, seed: int = 0, warm_up: float = WARM_UP) -> Queued:
        """Lets the events arrive at random at a rate, in events per second."""
        return self.queued(poisson(len(self.services), rate, seed), rate, warm_up)

    def queued(self, arrivals: Any, rate: float | None = None, warm_up: float = WARM_UP) -> Queued:
        """Lets the events arrive at given times, in seconds."""
        times = np.asarray(arrivals, float)
        if len(times) != len(self.services):
            raise CepError(f"give {len(self.services)} arrival times, not {len(times)}")
        if (np.diff(times) < 0).any():
            raise CepError("arrival times must not go back")
        if not 0 <= warm_up < 1:
            raise CepError(f"the warm-up is a share of the stream, from 0 and below 1: {warm_up}")
        if rate is None:
            rate = (len(times) - 1) / (times[-1] - times[0]) if times[-1] > times[0] else math.inf
        begin = int(len(times) * warm_up)
        counted = self.completes.copy()
        counted[:begin] = False
        waited = waits(times, self.services)
        return Queued(self.name, rate, times, self.services, waited, counted, begin)


def serve(
    pattern: Pattern | Draft | str,
    stream: Any,
    engine: str = "apam",
    plan: Plan | None = None,
    *,
    costs: Costs | None = None,
    budget: Budget | Mapping[str, int] | None = None,
    **options: Any,
) -> Served:
    """Runs an engine over a stream and notes what each event takes.

    With `costs` that is counted from evaluations, results and the event itself, and is the same
    every time; without, it is the processor time that really went by.
    """
    query, events = as_pattern(pattern), as_stream(stream)
    intervals = bool((events.starts != events.ends).any())
    chosen = engine_class(engine, query, intervals, options)
    if plan is None:
        plan = chosen.planned(query, events.counts())
    if costs is not None and issubclass(chosen, Apam):
        options["costs"] = costs
    made = chosen(query, plan, schema=events.schema, budget=budget, **options)
    warn(query, events)
    name = f"{engine} {plan}" if plan is not None else engine
    return side_by_side({name: made}, list(events), costs)[0]


def side_by_side(
    engines: Mapping[str, Engine], events: Sequence[Event], costs: Costs | None = None
) -> list[Served]:
    """Serves events to several engines in turns, a few hundred at a time: where services are
    measured, all of them meet the same machine, whatever else it has to do."""
    services = {name: np.empty(len(events)) for name in engines}
    completes = {name: np.zeros(len(events), bool) for name in engines}
    matches = dict.fromkeys(engines, 0)
    for start in range(0, len(events), IN_TURN):
        for name, engine in engines.items():
            counters = engine.counters
            for number, event in enumerate(events[start : start + IN_TURN], start):
                tried, runs = counters.evaluations, counters.runs
                started = thread_time()
                found = engine.push(event)
                spent = thread_time() - started
                if costs is not None:
                    spent = costs.insertion + (counters.evaluations - tried) * costs.evaluation
                    spent += (counters.runs - runs) * costs.result
                services[name][number] = spent
                completes[name][number] = bool(found)
                matches[name] += len(found)
    return [Served(name, services[name], completes[name], matches[name]) for name in engines]


def simulate(
    pattern: Pattern | Draft | str,
    stream: Any,
    rate: float,
    engine: str = "apam",
    plan: Plan | None = None,
    *,
    costs: Costs | None = None,
    seed: int = 0,
    warm_up: float = WARM_UP,
    **options: Any,
) -> Queued:
    """The latency of an engine when the events of a stream arrive at a rate, per second.

    The times of the stream decide what a match is, as always; the rate decides when events come
    to the server. Without a plan, `apam` chooses one for that rate.

    >>> import cepviz as cep
    >>> from cepviz.data import chained, chained_query
    >>> events = chained(2000, [0.05, 0.05], seed=1)
    >>> lazy = cep.Split("", "CBA")
    >>> cep.simulate(chained_query(2, 100), events, 2_000, plan=lazy, costs=cep.Costs())
    <apam /CBA at 2,000/s: latency 152 µs (waiting 4.6 µs, service 148 µs), ...>
    """
    if engine == "apam" and plan is None:
        options.setdefault("arrival_rate", rate)
    served = serve(pattern, stream, engine, plan, costs=costs, **options)
    return served.at(rate, seed=seed, warm_up=warm_up)


# ---- candidates side by side ----


@dataclass(frozen=True, eq=False)
class Cell:
    """A candidate at a rate: what was expected, and what came of it."""

    rate: float
    plan: Split
    chosen: bool
    estimate: Estimate
    queued: Queued


class Comparison:
    """The candidates of the planner at several rates, estimated and simulated (Figures 4 to 6)."""

    def __init__(self, cells: Sequence[Cell], costs: Costs, statistics: Statistics):
        self.cells = list(cells)
        self.costs = costs
        self.statistics = statistics

    @property
    def rates(self) -> list[float]:
        return list(dict.fromkeys(cell.rate for cell in self.cells))

    def at(self, rate: float) -> list[Cell]:
        """The candidates at one rate, from lazy to eager."""
        found = [cell for cell in self.cells if cell.rate == rate]
        if not found:
            raise CepError(f"there is no rate {rate:g} here: there are {self.rates}")
        return found

    def chosen(self, rate: float) -> Cell:
        """The candidate that the planner takes."""
        return next(cell for cell in self.at(rate) if cell.chosen)

    def best(self, rate: float) -> Cell:
        """The candidate that turned out best."""
        return min(self.at(rate), key=lambda cell: cell.queued.mean)

    def frame(self) -> Any:
        """A DataFrame with a row for each candidate at each rate; times are seconds."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"rate": c.rate, "plan": str(c.plan), "chosen": c.chosen,
                 "estimated": c.estimate.latency, "estimated_waiting": c.estimate.waiting,
                 "estimated_service": c.estimate.service, "simulated": c.queued.mean,
                 "simulated_waiting": c.queued.mean_waiting,
                 "simulated_service": c.queued.mean_service, "p99": c.queued.percentile(99),
                 "estimated_utilisation": c.estimate.utilisation,
                 "utilisation": c.queued.utilisation}
                for c in self.cells
            ]
        )  # fmt: skip

    def __repr__(self) -> str:
        lines = []
        for rate in self.rates:
            lines.append(f"{spoken_rate(rate)} events a second")
            for cell in self.at(rate):
                mark = ">" if cell.chosen else " "
                lines.append(
                    f"{mark} {cell.plan!s:12} estimated {spoken_time(cell.estimate.latency):>11}   "
                    f"simulated {spoken_time(cell.queued.mean):>9}   "
                    f"utilisation {cell.queued.utilisation:.2f}"
                )
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        head = "".join(
            f"<th>{name}</th>"
            for name in ("events a second", "plan", "estimated", "simulated", "utilisation")
        )
        rows = ""
        for cell in self.cells:
            parts = (
                spoken_rate(cell.rate), html.escape(str(cell.plan)),
                spoken_time(cell.estimate.latency), spoken_time(cell.queued.mean),
                f"{cell.queued.utilisation:.2f}",
            )  # fmt: skip
            tag = "th" if cell.chosen else "td"
            rows += f"<tr>{''.join(f'<{tag}>{part}</{tag}>' for part in parts)}</tr>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return {
            "text/plain": repr(self),
            "text/html": f"<p>What the planner chooses stands in bold.</p>{table}",
        }


def compare_splits(
    pattern: Pattern | Draft | str,
    stream: Any,
    rates: Sequence[float] = (),
    *,
    utilisations: Sequence[float] = (),
    costs: Costs | None = None,
    measured: bool = False,
    statistics: Statistics | None = None,
    seed: int = 0,
    warm_up: float = WARM_UP,
) -> Comparison:
    """Runs all candidates of the planner over a stream, and simulates them at several rates.

    Each candidate is run once: what an event takes does not depend on when it comes. Services
    are counted by `costs` (calibrated if not given), or `measured`. `statistics` are taken from
    the whole stream if not given. `utilisations` are rates too: those at which the fastest of the
    candidates is so busy.
    """
    query, events = resolve(as_pattern(pattern), as_stream(stream).schema), as_stream(stream)
    if len(query.branches) != 1:
        raise CepError("candidates are compared for patterns without OR")
    known = costs or calibrated()
    if statistics is None:
        statistics = measured_statistics(query, events)
    plans = candidates(query.branches[0], statistics)
    engines: dict[str, Engine] = {
        f"apam {plan}": Apam(query, plan, costs=known, schema=events.schema) for plan in plans
    }
    served = side_by_side(engines, list(events), None if measured else known)
    fastest = min(done.services[int(len(events) * warm_up) :].mean() for done in served)
    cells = []
    for rate in (*rates, *(float(share / fastest) for share in utilisations)):
        wanted = Latency(known, rate)(query, statistics).plan
        for plan, done in zip(plans, served, strict=True):
            expected = estimate(query, plan, statistics, known, rate)
            queued = done.at(rate, seed=seed, warm_up=warm_up)
            cells.append(Cell(rate, plan, plan == wanted, expected, queued))
    return Comparison(cells, known, statistics)


def measured_statistics(pattern: Pattern, events: Stream, passes: int = 8) -> Statistics:
    """The rates and selectivities of a whole stream, from samples of several passes over it."""
    found = []
    for seed in range(passes):
        estimator = Estimator(pattern, events.schema, windows=1e6, seed=seed)
        for event in events:
            estimator.push(event)
        found.append(estimator.statistics())
    shares = {
        text: sum(one.selectivity(text) for one in found) / passes
        for text in found[0].selectivities
    }
    return Statistics(found[0].rates, shares)
