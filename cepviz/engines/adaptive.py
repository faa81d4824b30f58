"""`adaptive`: the detection-adaptation loop of INVARIANTS, around a lazy chain or a ZStream tree.

While events are processed by the plan in use, an estimator watches them. From time to time the
policy looks at the estimates; when it says so, the planner makes a plan, and if that one differs,
it takes over. (Algorithm 1 asks whether it is better too; the paper takes the planner to be right,
and so do we: the invariants of a plan that was turned down would say nothing about the one in
use.) Nothing is handed over: every plan in use has its own automaton or
tree, a *generation*. A match belongs to the generation in whose time its first event came. A
generation reads every event from its beginning on; once a younger one has begun, it only goes on
with what began before (its border), and it ends when the last event before the border has left the
window. So every match is found by one generation, however often plans change within a window
(INVARIANTS section 2.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

from cepviz.engines.branches import BranchEngine
from cepviz.engines.lazy_chain import LazyChain
from cepviz.engines.zstream import ZStream
from cepviz.errors import CepError
from cepviz.events import Event
from cepviz.language.pattern import ANY, Pattern
from cepviz.plans.conditions import Planned, Planner
from cepviz.plans.cost import cost
from cepviz.plans.estimate import Estimator
from cepviz.plans.plan import Order, Plan, follows
from cepviz.plans.policies import Policy, Static, policy_called
from cepviz.plans.registry import planner_called
from cepviz.plans.statistics import Statistics
from cepviz.steps import Graph, Replan, Stats

#: Decisions that are kept one by one; of more, only those that changed the plan, and the counts.
MOST_DECISIONS = 10_000


@dataclass(frozen=True)
class Decision:
    """A time at which a plan was made: why, from which statistics, and what became of it.

    `outcome` is "first", "replanned", or "same": a false positive, the planner returned the plan
    in use.
    """

    event: str
    position: int
    time: float
    because: str
    before: Plan
    after: Plan
    outcome: str
    cost_before: float
    cost_after: float
    statistics: Statistics

    @property
    def gain(self) -> float:
        """How much less the new plan is expected to cost, as a share of the old."""
        if not 0 < self.cost_before < math.inf:
            return 0.0
        return 1 - self.cost_after / self.cost_before


class Generation:
    """A plan at work, and the last event that came before the next one took over."""

    def __init__(self, plan: Plan, evaluator: BranchEngine):
        self.plan = plan
        self.evaluator = evaluator
        self.last: Event | None = None


class Adaptive(BranchEngine):
    """Plans that adapt: a lazy chain or a ZStream tree, planned anew when statistics move."""

    name = "adaptive"
    options: ClassVar[tuple[str, ...]] = ("planner", "policy", "every", "statistics", "windows")
    variants = (
        {"every": 1},
        {"policy": "unconditional", "every": 1},
        {"planner": "zstream", "policy": "unconditional", "every": 2},
        {"planner": "by_rate", "policy": "threshold(0)", "every": 3},
    )

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        if pattern.strategy != ANY:
            return f"it knows skip_till_any_match only, not {pattern.strategy}"
        if pattern.within is None or pattern.within.amount is None:
            return "an old plan ends with its window, and the pattern has no WITHIN"
        return None

    def __init__(
        self,
        pattern: Pattern,
        plan: Plan | None = None,
        *,
        planner: str | Planner = "greedy",
        policy: str | Policy = "invariant",
        every: int = 64,
        windows: float = 8,
        statistics: Statistics | None = None,
        **keywords: Any,
    ):
        super().__init__(pattern, plan, **keywords)
        if every < 1:
            raise CepError(f"every is the number of events between two checks, from 1, not {every}")
        self.planner = planner_called(planner)
        self.policy = policy_called(policy)
        self.every = every
        self.adapting = True
        self.estimator = Estimator(self.pattern, self.schema, windows=windows)
        self.decisions: list[Decision] = []
        self.outcomes = {"first": 0, "replanned": 0, "same": 0}
        self.checks = 0
        self.deciding = self.planning = 0.0  # seconds
        self.generations: list[Generation] = []
        self.answer: Planned | None = None  # the planner's last word
        self._number = 0
        self._graphs: list[Graph] = []
        first = self.planner(self.pattern, statistics or Statistics())
        self._start(first.plan if plan is None else plan)
        if statistics is not None:
            self.answer = first
            self.policy.begin(first, statistics)

    @classmethod
    def planned(cls, pattern: Pattern, counts: Mapping[str, int]) -> Plan | None:
        return None  # It sees for itself.

    @property
    def current(self) -> Plan:
        """The plan in use."""
        return self.generations[-1].plan

    @property
    def graph(self) -> Graph:
        states = tuple(state for graph in self._graphs for state in graph.states)
        edges = tuple(edge for graph in self._graphs for edge in graph.edges)
        return Graph(states, edges, self._graphs[-1].kind)

    # ---- generations ----

    def migrate(self, plan: Plan) -> None:
        """Lets another plan take over from the next event on."""
        old = self.generations[-1]
        if self.latest is None:  # Nothing was read yet, so that nothing is left to the old one.
            old.evaluator.alive(-old.evaluator.live, None)
            self.generations.pop()
        else:
            old.last = self.latest
            old.evaluator.border = self.latest.position + 1
        self._start(plan)

    def evaluator(self, plan: Plan, label: str) -> BranchEngine:
        """What works by a plan."""
        kind = LazyChain if follows(plan, Order) else ZStream
        return kind(
            self.pattern, plan, host=self, schema=self.schema, budget=self.budget, label=label
        )

    def price(self, plan: Plan, statistics: Statistics) -> float:
        """What a plan is expected to cost."""
        return cost(plan, self.pattern, statistics)

    def _start(self, plan: Plan) -> None:
        self._number += 1
        evaluator = self.evaluator(plan, "" if self._number == 1 else f"p{self._number}:")
        self.plan = plan
        self.generations.append(Generation(plan, evaluator))
        self._graphs.append(evaluator.graph)

    def expire(self, event: Event, edge: int | float) -> None:
        while (last := self.generations[0].last) is not None and not self.fits(last, event):
            why = f"all that its plan began has left the window; {self.current} goes on alone"
            self.generations.pop(0).evaluator.close(event, why)
        for generation in self.generations:
            generation.evaluator.expire(event, edge)

    def process(self, event: Event, mark: int | float) -> None:
        for generation in self.generations:
            generation.evaluator.process(event, mark)
        if self.adapting and (self.answer is None or not isinstance(self.policy, Static)):
            self.estimator.push(event)
            if self.counters.events % self.every == 0 and self.estimator.ready:
                self.adapt(event)

    # ---- decisions ----

    def adapt(self, event: Event) -> None:
        """Asks the policy whether to plan anew, and does what follows."""
        statistics = self.estimator.statistics()
        if self.emit is not None:
            self.emit(Stats(dict(statistics.values())))
        because: str | None = "the first window has passed"
        if self.answer is not None:
            self.checks += 1
            started = perf_counter()
            because = self.policy.decide(statistics, self.emit)
            self.deciding += perf_counter() - started
        if because is not None:
            self.plan_anew(event, statistics, because)

    def plan_anew(self, event: Event, statistics: Statistics, because: str) -> None:
        """Makes a plan, and lets it take over if it is another one."""
        started = perf_counter()
        first = self.answer is None
        self.answer = self.planner(self.pattern, statistics)
        before, after = self.current, self.answer.plan
        cost_before, cost_after = (self.price(plan, statistics) for plan in (before, after))
        self.policy.begin(self.answer, statistics)
        self.planning += perf_counter() - started
        outcome = "first" if first else "same" if after == before else "replanned"
        self.outcomes[outcome] += 1
        decision = Decision(
            event.label, event.position, event.end, because, before, after, outcome,
            cost_before, cost_after, statistics,
        )  # fmt: skip
        if len(self.decisions) < MOST_DECISIONS or outcome == "replanned":
            self.decisions.append(decision)
        if not first:
            self.policy.learned(decision.gain)
        if after != before:
            self.migrate(after)
        if self.emit is not None:
            label = self.generations[-1].evaluator.label
            self.emit(Replan(str(before), str(self.current), because, label))
