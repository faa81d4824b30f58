"""`lazy_tree`: the lazy tree NFA of LAZY section 6, which picks the order anew at every step.

At each attempt an instance looks at the counters of its input buffers. It goes on only if every
variable it lacks has an event in scope that it has not handed out (the paper's non-empty
condition), and then takes the most selective one: the one with the fewest events that can be
matched. That is the counter times the share of events that passed this edge's condition so far.
Without that share, two equally frequent variables would be told apart by chance even where only one
of them is tied by a predicate to what is held.

A state changes its mind only for a clearly better variable. Where counters differ by chance alone,
it would otherwise hand out now one variable's events and now another's, and pay for both.
"""

from __future__ import annotations

import itertools

from cepviz.engines.lazy import Instance, Lazy, Machine, loops, take_edges
from cepviz.errors import CepError
from cepviz.steps import Edge, Graph, State

#: How much more selective another variable must be for a state to change its mind.
CLEARLY = 0.5


class LazyTree(Lazy):
    """The lazy tree NFA of LAZY: picks the most selective event at every step."""

    name = "lazy_tree"

    def prepare(self) -> None:
        #: How many live instances each state has: a state exists while it has one (6.1).
        self.states: dict[tuple[int, tuple[int, ...]], int] = {}
        #: The states that were ever reached, for those who watch.
        self.reached: dict[tuple[int, tuple[int, ...]], None] = {}
        #: The variable each state picked last.
        self.favourites: dict[tuple[int, tuple[int, ...]], int] = {}
        self.path: tuple[int, tuple[int, ...]] | None = None

    def pick(self, machine: Machine, instance: Instance) -> tuple[int, int, int] | None:
        key = (self.machines.index(machine), instance.order)
        favourite = self.favourites.get(key)
        best: tuple[float, int] | None = None
        picked = None
        for index, bound in enumerate(instance.values):
            if bound is not None:
                continue
            low, high = machine.scope(instance, index)
            if machine.fresh(instance, index, low, high) >= high:
                return None  # not every variable has an event yet
            tests = machine.edge(instance.order, index)
            bias = CLEARLY if index == favourite else 1.0
            weight = ((high - low) * tests.rate * bias, index)
            if best is None or weight < best:
                best, picked = weight, (index, low, high)
        assert picked is not None
        self.favourites[key] = picked[0]
        return picked

    def awaits(self, machine: Machine, instance: Instance) -> list[int]:
        key = (self.machines.index(machine), instance.order)
        self.states[key] = self.states.get(key, 0) + 1
        self.path = key
        if self.emit is not None:
            self.reached[key] = None
        return [
            index
            for index, bound in enumerate(instance.values)
            if bound is None and not machine.closed(instance, index)
        ]

    def left(self, machine: Machine, instance: Instance) -> None:
        key = (self.machines.index(machine), instance.order)
        self.states[key] -= 1
        if not self.states[key]:
            del self.states[key]

    def state_name(self, machine: Machine, order: tuple[int, ...]) -> str:
        if len(order) == len(machine.names):
            return f"{machine.prefix}F"
        return machine.prefix + (
            "q0" if not order else f"q({', '.join(machine.names[i] for i in order)})"
        )

    @property
    def graph(self) -> Graph:
        """The materialised part of the tree; where somebody watches, all that was ever reached."""
        keys = {*self.states, *self.reached}
        for number, order in [*self.reached]:
            machine = self.machines[number]
            if len(order) + 1 < len(machine.names):
                keys |= {
                    (number, (*order, index))
                    for held, index in machine.tests
                    if held == frozenset(order)
                }
        return self._graph(keys)

    def whole_graph(self) -> Graph:
        """The whole tree, for up to four variables (Figure 6)."""
        keys = set()
        for number, machine in enumerate(self.machines):
            count = len(machine.names)
            if count > 4:
                raise CepError(f"the whole tree of {count} variables is too large to show")
            for length in range(count):
                keys |= {(number, order) for order in itertools.permutations(range(count), length)}
        return self._graph(keys)

    def _graph(self, keys: set[tuple[int, tuple[int, ...]]]) -> Graph:
        states: dict[str, State] = {}
        edges: list[Edge] = []
        for number, order in sorted(keys, key=lambda key: (key[0], len(key[1]), key[1])):
            machine = self.machines[number]
            free = [index for index in range(len(machine.names)) if index not in order]
            name = machine.state(order)
            label = ", ".join(machine.names[index] for index in free)
            live = (number, order) in self.states
            kind = "start" if not order else "middle" if live else "past"
            states[name] = State(name, kind, label)
            last = len(order) + 1 == len(machine.names)
            shown = [i for i in free if last or (number, (*order, i)) in keys]
            edges += [take_edges(machine, order, index) for index in shown]
            edges += loops(machine, order, free)
        for machine in self.machines:
            states[f"{machine.prefix}F"] = State(f"{machine.prefix}F", "final")
        return Graph(tuple(states.values()), tuple(edges), "tree")
