"""`apam`: the adaptive hybrid of APAM, some variables eager, some lazy, for the lowest latency.

`split` has the evaluation by one split. Here is the plan optimizer of Figure 1: it keeps the
statistics, chooses a split by the latency it is expected to have, and lets another one take over
as the adaptive engine does: a match belongs to the plan in whose time its first event came.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from time import perf_counter
from typing import Any

from cepviz.engines.adaptive import Adaptive
from cepviz.engines.branches import BranchEngine
from cepviz.engines.split import SplitEngine
from cepviz.errors import CepError, PlanError
from cepviz.events import Event
from cepviz.language.parser import parse
from cepviz.language.pattern import Pattern
from cepviz.plans.apam import Costs, Latency, estimate
from cepviz.plans.plan import Plan, Split, follows
from cepviz.plans.policies import Policy
from cepviz.plans.statistics import Statistics

#: A rate that no server keeps up with: what is assumed where many events share one moment.
FASTEST = 1e12


class Apam(Adaptive):
    """Eager and lazy by variable: the split with the lowest expected latency, chosen anew."""

    name = "apam"
    options = ("policy", "every", "windows", "statistics", "costs", "arrival_rate")
    variants = (
        {"every": 1},
        {"arrival_rate": 1e-3, "every": 1},
        {"arrival_rate": 1e9, "every": 2},
        {"arrival_rate": 3e4, "policy": "invariant", "every": 3},
    )

    def __init__(
        self,
        pattern: Pattern,
        plan: Plan | None = None,
        *,
        policy: str | Policy | None = None,
        costs: Costs | None = None,
        arrival_rate: float | None = None,
        **keywords: Any,
    ):
        """With a plan it stays with that split, unless a policy is given too.

        Without `arrival_rate`, in events per second, it goes by the times of the stream (numbers
        without a unit count as seconds); without `costs` they are measured once.
        """
        if arrival_rate is not None and not arrival_rate > 0:
            raise CepError(f"arrival_rate is events per second, above 0, not {arrival_rate}")
        if plan is not None and not follows(plan, Split):
            raise PlanError(f"apam follows a split, as in Split('BC', 'AD'), not {plan!r}")
        if isinstance(plan, Split):
            plan = plan.in_query_order(pattern)
        self.costs = costs or calibrated()
        self.given_rate = arrival_rate
        self._moments: deque[tuple[int, float]] = deque(maxlen=8)
        super().__init__(
            pattern, plan, planner=Latency(self.costs, arrival_rate or 1.0),
            policy=policy or "unconditional", **keywords,
        )  # fmt: skip
        self.adapting = plan is None or policy is not None

    @property
    def arrival_rate(self) -> float:
        """Events per second: as given, or as the times of the last events have it."""
        if self.given_rate is not None:
            return self.given_rate
        if len(self._moments) < 2:
            return 1.0
        (count, start), (now, end) = self._moments[0], self._moments[-1]
        seconds = (end - start) / self.schema.duration(1, "second")
        return (now - count) / seconds if seconds > 0 else FASTEST

    def evaluator(self, plan: Plan, label: str) -> BranchEngine:
        return SplitEngine(
            self.pattern, plan, host=self, schema=self.schema, budget=self.budget, label=label
        )

    def adapt(self, event: Event) -> None:
        self._moments.append((self.counters.events, float(event.end)))
        self.planner = Latency(self.costs, self.arrival_rate)
        super().adapt(event)

    def price(self, plan: Plan, statistics: Statistics) -> float:
        """The expected latency of a plan, in seconds."""
        assert follows(plan, Split)
        found = estimate(self.pattern, plan, statistics, self.costs, self.arrival_rate)  # type: ignore[arg-type]
        return found.latency


# ---- the unit costs ----


@cache
def calibrated() -> Costs:
    """The unit costs of this machine, measured once in a few hundredths of a second."""
    return calibrate()


def calibrate(size: int = 200, rounds: int = 3) -> Costs:
    """Measures what an insertion, an evaluation and a result take, on streams made for that.

    First come events that only wait; then pairs that are tried and do not pass; then pairs that
    pass. Of several rounds the fastest counts: nothing makes a machine faster than it is.
    """
    pattern = parse("PATTERN A; B; C WHERE A.x < B.x WITHIN 1000000")

    def seconds(lazy: bool, high: int) -> float:
        engine = SplitEngine(pattern, Split("", "ABC") if lazy else Split("ABC"))
        few = size if lazy else size // 4
        events = [Event("A", time, id=time, position=time, x=1) for time in range(size)]
        events += [
            Event("B", time, id=time, position=time, x=high) for time in range(size, size + few)
        ]
        started = perf_counter()
        for event in events:
            engine.push(event)
        return perf_counter() - started

    waiting, tried, passed = (
        min(seconds(lazy, high) for _ in range(rounds))
        for lazy, high in ((True, 0), (False, 0), (False, 2))
    )
    insertion = waiting / (2 * size)
    pairs = size * (size // 4)
    evaluation = max(tried - insertion * (size + size // 4), 0.0) / pairs
    return Costs(evaluation, max(passed - tried, 0.0) / pairs, insertion)
