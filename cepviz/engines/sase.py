"""`sase`: the NFA^b engine of SASE+, with the shared versioned buffer and three algorithms.

*basic* moves every run at every event (5.2.1). *merging* also joins runs that would do the same
from here on (5.2.2). *backtrack* follows one run at a time and reads events again (5.2.3).

Versions. The paper numbers a run by its splits at each state and tells ancestors by the last digit.
That is enough while a state splits a run in one way only. Under skip_till_any_match a run at a[i]
splits into one that takes and one that ignores, both stay, and both split again: a tree inside one
state, which growing last digits cannot tell apart. There, each selection gets a digit of its own,
so that the ancestors of a run are exactly the prefixes of its version. And where a run that ignores
its closer splits again before it selects anything, its children are told apart by their own last
digit (1.0.0, 1.0.1): growing the parent's would make it a stranger to its own pointers. The rule of
compatibility itself stays as printed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from cepviz.engines.automaton import Automaton, Joined
from cepviz.engines.backtrack import Backtracking
from cepviz.engines.base import Match
from cepviz.engines.branches import BranchEngine
from cepviz.engines.buffer import Cell, Version
from cepviz.engines.output import Key
from cepviz.errors import CepError
from cepviz.events import Event
from cepviz.language.pattern import STRICT, Branch, Pattern
from cepviz.steps import Graph, Pass

ALGORITHMS = ("basic", "merging", "backtrack")

#: AND becomes one automaton for each order of its parts; beyond this many it is refused.
MOST_ORDERS = 24


class Sase(BranchEngine):
    """The NFA^b automaton of SASE+ with its shared versioned buffer, for all four strategies."""

    name = "sase"
    takes_intervals = True
    variants = tuple({"algorithm": algorithm} for algorithm in ALGORITHMS)
    options = ("algorithm", "compressed")

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        for branch in pattern.branches:
            try:
                sequences(branch)
            except CepError as error:
                return str(error)
        return None

    @classmethod
    def orders_intervals(cls, pattern: Pattern) -> bool:
        # AND is tried in every order of its parts, but parts that overlap in time have none.
        return all(branch.is_sequence for branch in pattern.branches)

    def __init__(
        self,
        *arguments: Any,
        algorithm: str = "basic",
        compressed: bool = False,
        **keywords: Any,
    ):
        super().__init__(*arguments, **keywords)
        if algorithm not in ALGORITHMS:
            raise CepError(f"unknown algorithm {algorithm!r} (must be one of {list(ALGORITHMS)})")
        if compressed and (self.judging or algorithm == "backtrack"):
            raise CepError(
                "compressed output is the buffer itself: it has no place for NOT, OR, T*, "
                "OUTPUT non_overlap or backtracking; leave compressed out"
            )
        self.algorithm = algorithm
        self.hashed = bool(self.pattern.same) and self.pattern.strategy != STRICT
        self.intervals = False
        self.output.in_order = algorithm != "backtrack"
        self.compressed = Compressed(self) if compressed else None
        made = Backtracking if algorithm == "backtrack" else Automaton
        pairs = [(s, branch) for branch in self.pattern.branches for s in sequences(branch)]
        self.automata = [
            made(self, sequence, branch, prefix)
            for (sequence, branch), prefix in zip(pairs, self.prefixes(len(pairs)), strict=True)
        ]

    @property
    def graph(self) -> Graph:
        graphs = [automaton.nfa.graph for automaton in self.automata]
        return graphs[0] if len(graphs) == 1 else joined(graphs)

    def read(self, event: Event) -> None:
        if event.start != event.end:
            self.intervals = True
        super().read(event)

    def expire(self, event: Event, edge: int | float) -> None:
        for automaton in self.automata:
            if automaton.starts or automaton.buffer.size:
                automaton.expire(event, edge)

    def process(self, event: Event, mark: int | float) -> None:
        key: Key = ()
        if self.hashed:
            key = self.output.partition(event)
            if key is None:  # the event is in no partition, so no run can take it
                return
        for automaton in self.automata:
            automaton.read(event, key)

    def earliest(self, event: Event) -> Event:
        known = [automaton.earliest() for automaton in self.automata]
        return min((e for e in known if e is not None), key=lambda e: e.position, default=event)

    def finish(self) -> None:
        for automaton in self.automata:
            automaton.finish()
        super().finish()

    def collected(self, matches: list[Match]) -> Sequence[Match]:
        return matches if self.compressed is None else self.compressed

    def drop_overlapping(self, key: Key, position: int) -> None:
        assert self.latest is not None
        for automaton in self.automata:
            automaton.drop_overlapping(key, self.latest, position)


def joined(graphs: Sequence[Graph]) -> Graph:
    """Several automata as one picture: names are numbered by automaton."""
    states, edges = [], []
    passes = [
        Pass(
            same_pass[0].name,
            {
                f"{number}:{edge}": formula
                for number, each in enumerate(same_pass, 1)
                for edge, formula in each.formulas.items()
            },
        )
        for same_pass in zip(*(graph.passes for graph in graphs), strict=True)
    ]
    for number, graph in enumerate(graphs, 1):
        states += [replace(state, name=f"{number}:{state.name}") for state in graph.states]
        edges += [
            replace(
                e,
                name=f"{number}:{e.name}",
                source=f"{number}:{e.source}",
                target=f"{number}:{e.target}",
            )
            for e in graph.edges
        ]
    return Graph(tuple(states), tuple(edges), graphs[0].kind, tuple(passes))


def sequences(branch: Branch) -> list[Branch]:
    """A branch as sequences: itself, or one for each order that its AND leaves open."""
    if branch.is_sequence:
        return [branch]
    names = [variable.name for variable in branch.variables]
    free = {
        name
        for name, other in itertools.permutations(names, 2)
        if (name, other) not in branch.order and (other, name) not in branch.order
    }
    if any(branch.by_name[name].kleene for name in free):
        raise CepError("a Kleene variable inside AND has no place in a chain of states")
    orders: list[tuple[str, ...]] = [()]
    for _ in names:
        orders = [
            (*order, name)
            for order in orders
            for name in names
            if name not in order
            and all(first in order for first, second in branch.order if second == name)
        ]
        if len(orders) > MOST_ORDERS:
            raise CepError(f"its AND can be in more than {MOST_ORDERS} orders")
    return [
        replace(
            branch,
            variables=tuple(branch.by_name[name] for name in order),
            order=frozenset(itertools.combinations(order, 2)),
        )
        for order in orders
    ]


class Compressed(Sequence[Match]):
    """Matches as the shared buffer holds them: counted at once, read out when asked for."""

    def __init__(self, engine: Sase):
        self.engine = engine
        self.accepted: list[tuple[Automaton, Cell, Version, Event, Joined, Event]] = []
        self.total = 0

    def add(
        self,
        automaton: Automaton,
        cell: Cell,
        version: Version,
        own: Event,
        joined: Joined,
        event: Event,
    ) -> None:
        self.accepted.append((automaton, cell, version, own, joined, event))
        count = automaton.count(own, joined, event)
        self.total += count
        self.engine.counters.matches += count

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[Match]:
        pattern, schema = self.engine.pattern, self.engine.schema
        for automaton, cell, version, own, joined, event in self.accepted:
            for path in automaton.paths(cell, version, own, joined, event):
                held = automaton.held(path)
                ordered = {name: held[name] for name in pattern.variables if name in held}
                yield Match(ordered, event, pattern.returns, schema)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(itertools.islice(self, *index.indices(len(self))))
        wanted = range(len(self))[index]
        return next(itertools.islice(self, wanted, None))
