"""`lazy_chain`: the lazy chain NFA of LAZY section 5, in an order of evaluation given as a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cepviz.engines.lazy import Instance, Lazy, Machine, loops, take_edges
from cepviz.errors import PlanError
from cepviz.language.pattern import Pattern
from cepviz.plans.by_rate import by_rate
from cepviz.plans.plan import Order, Plan, follows
from cepviz.plans.statistics import Statistics
from cepviz.steps import Graph, State


class LazyChain(Lazy):
    """The lazy chain NFA of LAZY: waits for the rarest event first, in the order of its plan."""

    name = "lazy_chain"

    @classmethod
    def planned(cls, pattern: Pattern, counts: Mapping[str, int]) -> Plan:
        return by_rate(pattern, Statistics(counts)).plan

    def prepare(self) -> None:
        plan: Any = self.plan
        if plan is None:  # the order of the text: as eager as it gets
            plan = Order(*(v.name for v in self.pattern.variables.values() if not v.negated))
        elif not follows(plan, Order):
            raise PlanError(f"lazy_chain follows an order, as in Order('b', 'a'), not {plan!r}")
        self.plan = plan
        self.chains = {
            id(machine): [machine.names.index(n) for n in plan.of(machine.branch, self.pattern)]
            for machine in self.machines
        }

    def pick(self, machine: Machine, instance: Instance) -> tuple[int, int, int] | None:
        index = self.chains[id(machine)][len(instance.order)]
        return (index, *machine.scope(instance, index))

    def awaits(self, machine: Machine, instance: Instance) -> list[int]:
        return [self.chains[id(machine)][len(instance.order)]]

    def state_name(self, machine: Machine, order: tuple[int, ...]) -> str:
        name = f"q{len(order) + 1}" if len(order) < len(machine.names) else "F"
        return machine.prefix + name

    @property
    def graph(self) -> Graph:
        states, edges = [], []
        for machine in self.machines:
            chain = tuple(self.chains[id(machine)])
            for place, index in enumerate(chain):
                order = chain[:place]
                kind = "start" if place == 0 else "middle"
                states.append(State(machine.state(order), kind, machine.names[index]))
                edges.append(take_edges(machine, order, index))
                edges += loops(machine, order, list(chain[place + 1 :]))
            states.append(State(machine.state(chain), "final"))
        return Graph(tuple(states), tuple(edges), "chain")
