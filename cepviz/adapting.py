"""`adapt`: runs a pattern with plans that adapt, and tells how they did."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from cepviz.engines.adaptive import Adaptive, Decision
from cepviz.engines.base import Budget, bag
from cepviz.engines.registry import refusal
from cepviz.errors import CepError, UnsupportedError
from cepviz.events import Stream
from cepviz.language.build import Draft, as_pattern
from cepviz.language.pattern import Pattern
from cepviz.matching import Result, as_stream, run, warn
from cepviz.plans.conditions import Planner
from cepviz.plans.plan import Plan
from cepviz.plans.policies import Policy
from cepviz.plans.statistics import Statistics
from cepviz.steps import estimate

POLICIES = ("static", "unconditional", "threshold(0.5, relative)", "invariant(1, 0.1)")


class Adaptation(Result):
    """The matches of a run with plans that adapt, and the history of its plans."""

    def __init__(self, result: Result, engine: Adaptive, keywords: Mapping[str, Any]):
        self.__dict__.update(vars(result))
        self.policy = engine.policy
        #: Every time a plan was made: why, and what became of it.
        self.history: list[Decision] = engine.decisions
        self.final: Plan = engine.current
        self.checks = engine.checks
        self.outcomes: dict[str, int] = engine.outcomes
        #: Seconds spent on decisions, and on making plans.
        self.deciding, self.planning = engine.deciding, engine.planning
        self._keywords = keywords

    @property
    def replans(self) -> int:
        """How often another plan took over, the first one not counted."""
        return self.outcomes["replanned"]

    @property
    def false_positives(self) -> int:
        """How often the policy asked for a plan and got the one in use."""
        return self.outcomes["same"]

    @property
    def overhead(self) -> float:
        """The share of the time that went into decisions and planning."""
        return (self.deciding + self.planning) / self.seconds if self.seconds else 0.0

    @property
    def plans(self) -> list[tuple[str, Plan]]:
        """The plans in use over time, each with the event after which it took over."""
        first = self.history[0].before if self.history else self.final
        return [("start", first), *((d.event, d.after) for d in self.changes)]

    @property
    def changes(self) -> list[Decision]:
        """The decisions that changed the plan."""
        return [decision for decision in self.history if decision.before != decision.after]

    def frame(self) -> Any:
        """A DataFrame with a row for each time a plan was made."""
        import pandas as pd

        rows = [
            [d.event, self._moment(d.time), d.because, str(d.before), str(d.after), d.outcome,
             d.cost_before, d.cost_after]
            for d in self.history
        ]  # fmt: skip
        names = ["event", "time", "because", "before", "after", "outcome"]
        return pd.DataFrame(rows, columns=[*names, "cost_before", "cost_after"])

    def row(self) -> dict[str, Any]:
        """What this policy came to, in one row."""
        counters = self.counters
        return {
            "policy": str(self.policy),
            "matches": len(self),
            "events_per_second": round(counters["events"] / self.seconds) if self.seconds else 0,
            "evaluations": counters["evaluations"],
            "peak_runs": counters["peak_runs"],
            "checks": self.checks,
            "replans": self.replans,
            "false_positives": self.false_positives,
            "overhead": round(self.overhead, 4),
        }

    def compare(self, *policies: str | Policy) -> Any:
        """A DataFrame: this run beside the same with other policies (all four kinds by default).

        Their matches are checked to be the same.
        """
        import pandas as pd

        rows = [self.row()]
        for policy in policies or POLICIES:
            other = adapt(self.pattern, self.stream, policy=policy, **self._keywords)
            if bag(other) != bag(self):
                raise CepError(
                    f"{other.policy} found other matches than {self.policy}: this is a fault in "
                    "cepviz, please report it with the pattern and the stream"
                )
            rows.append(other.row())
        frame = pd.DataFrame(rows).drop_duplicates("policy")
        return frame.set_index("policy")

    def _summary(self) -> str:
        return (
            f"{super()._summary()}; {self.policy}: {self.replans} replan"
            f"{'' if self.replans == 1 else 's'}, {self.false_positives} for nothing, "
            f"{self.overhead:.1%} of the time spent on them"
        )

    def story(self) -> str:
        """The plans in words, a line for each change."""
        (_, first), *_ = self.plans
        lines = [f"start: plan {first}"]
        for change in self.changes:
            lines.append(
                f"{change.event}: plan {change.after}, because {change.because} "
                f"(expected cost {estimate(change.cost_before)} to {estimate(change.cost_after)})"
            )
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(include, exclude)
        lines = self.story().split("\n")
        told = "".join(f"<li>{html.escape(line)}</li>" for line in lines[:20])
        more = f"<p>and {len(lines) - 20:,} more</p>" if len(lines) > 20 else ""
        return bundle | {"text/html": f"{bundle['text/html']}<ul>{told}</ul>{more}"}


def adapt(
    pattern: Pattern | Draft | str,
    stream: Any,
    planner: str | Planner = "greedy",
    policy: str | Policy = "invariant",
    *,
    every: int = 64,
    windows: float = 8,
    statistics: Statistics | None = None,
    plan: Plan | None = None,
    budget: Budget | Mapping[str, int] | None = None,
    progress: bool | None = None,
) -> Adaptation:
    """Finds the matches of a pattern with plans that adapt to the stream.

    `planner` is one of greedy, zstream, by_rate, exhaustive, exhaustive_tree; `policy` one of
    "static", "unconditional", "threshold(6)", "threshold(0.5, relative)", "invariant(k, d)", or
    a policy of your own. Every `every` events the policy looks at the estimates of the last
    `windows` windows. `statistics` and `plan` are what is known at the start.

    >>> import cepviz as cep
    >>> early = [{"type": "AAAB"[t % 4], "time": t} for t in range(200)]
    >>> late = [{"type": "ABBB"[t % 4], "time": t} for t in range(200, 600)]
    >>> s = cep.Stream.from_records(early + late)
    >>> r = cep.adapt("PATTERN SEQ(A a, B b) WITHIN 4", s, every=8)
    >>> print(r.story())
    start: plan a, b
    e7: plan b, a, because the first window has passed (expected cost 5.388 to 3.102)
    e215: plan a, b, because rate(B) 1.938 < rate(A) 1.938 no longer holds (expected cost ...)
    >>> len(r), r.replans, r.false_positives
    (451, 1, 0)
    """
    query, events = as_pattern(pattern), as_stream(stream)
    _check(query, events)
    keywords = {"planner": planner, "every": every, "windows": windows, "statistics": statistics,
                "plan": plan, "budget": budget, "progress": progress}  # fmt: skip
    engine = Adaptive(
        query, plan, planner=planner, policy=policy, every=every, windows=windows,
        statistics=statistics, schema=events.schema, budget=budget,
    )  # fmt: skip
    warn(query, events)
    return Adaptation(run(engine, events, progress), engine, keywords)


def _check(query: Pattern, events: Stream) -> None:
    intervals = bool((events.starts != events.ends).any())
    reason = refusal(Adaptive, query, intervals)
    if reason is not None:
        raise UnsupportedError(f"plans cannot adapt here: {reason}.")
