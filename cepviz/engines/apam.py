"""`apam`: the adaptive hybrid of APAM, some variables eager, some lazy, for the lowest latency.

`split` has the evaluation by one split. Here is the plan optimizer of Figure 1: it keeps the
statistics, chooses a split by the latency it is expected to have, and lets another one take over
as the adaptive engine does: a match belongs to the plan in whose time its first event came.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from time import thread_time
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
#: How many events the arrival rate is taken from.
RECENT = 128


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
        self._times: deque[float] = deque(maxlen=RECENT)
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
        if len(self._times) < 2:
            return 1.0
        seconds = (self._times[-1] - self._times[0]) / self.schema.duration(1, "second")
        return (len(self._times) - 1) / seconds if seconds > 0 else FASTEST

    def evaluator(self, plan: Plan, label: str) -> BranchEngine:
        return SplitEngine(
            self.pattern, plan, host=self, schema=self.schema, budget=self.budget, label=label
        )

    def process(self, event: Event, mark: int | float) -> None:
        self._times.append(event.end)
        super().process(event, mark)

    def adapt(self, event: Event) -> None:
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

    First come events that only wait, and leave the window again; then pairs that are tried and
    do not pass; then pairs that pass. Of several rounds the fastest counts: nothing makes a machine
    faster than it is.
    """
    text = "PATTERN A; B; C WHERE A.x < B.x WITHIN {} events"
    few = size // 4

    def seconds(plan: Split, window: int, types: str, high: int) -> float:
        engine = SplitEngine(parse(text.format(window)), plan)
        events = [
            Event(type, time, id=time, position=time, x=1 if type == "A" else high)
            for time, type in enumerate(types)
        ]
        started = thread_time()
        for event in events:
            engine.push(event)
        return thread_time() - started

    def fastest(*case: Any) -> float:
        return min(seconds(*case) for _ in range(rounds))

    insertion = fastest(Split("", "ABC"), size, "AB" * 2 * size, 0) / (4 * size)
    mixed = "A" * size + "B" * few
    tried, passed = (fastest(Split("ABC"), 2 * size, mixed, high) for high in (0, 2))
    pairs = size * few
    evaluation = max(tried - insertion * len(mixed), 0.0) / pairs
    return Costs(evaluation, max(passed - tried, 0.0) / pairs, insertion)
