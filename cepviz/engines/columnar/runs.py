"""`Runs`: the contiguity strategies and skip_till_next_match, a run at a time from its first event.

The outer loop goes over the events that can begin a run. What the run may do then is nested: after
the events of one component come the loops over what follows it. A run splits only where an event
both joins a list and begins the next component (take-proceed): the inner loops are the copy that
proceeds, and when they end, the list goes on. Under skip_till_next_match the loops jump from one
event that could matter to the next; under contiguity the first that does not fit ends the run.

Every column is indexed by place. With `[attr]`, places are sorted by partition, and so partition
contiguity is contiguity of places.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from cepviz.engines.columnar.finder import Finder, ranked
from cepviz.engines.columnar.kernel import Moment, Task
from cepviz.engines.columnar.table import Array, Column
from cepviz.language.expressions import Attribute, Expression
from cepviz.language.pattern import NEXT


class Runs(Finder):
    """Runs of a sequence, each from its first event to its end."""

    def __init__(self, task: Task, strategy: str, chosen: dict[str, Array]):
        super().__init__(task)
        self.jumps = strategy == NEXT
        self.chosen_places = dict(chosen)
        self.order = tuple(variable.name for variable in self.branch.variables)
        self._merges: dict[int, Array] = {}
        # The first event of a run is judged beforehand, all at once.
        first = self.order[0]
        starts = self.chosen_places[first]
        for conjunct in self.placed(first, "begin"):
            if len(starts):
                starts = starts[self.decided(_as_current(conjunct), first, starts)]
        self.starts = starts

    @property
    def outer(self) -> int:
        return len(self.starts)

    def effort(self) -> float:
        # A run looks at a few events at least, and each argument is as long as the stream.
        return 4.0 * len(self.starts) + 2.0 * self.table.size

    @cached_property
    def _line(self) -> Array:
        return np.arange(self.table.size)

    def places(self, name: str) -> Array:
        return self._line

    def column(self, name: str, attribute: str) -> Column:
        return self.table.column(attribute)  # at every place, which is what the index counts

    def candidates(self, name: str) -> Array:
        return self.chosen_places[name]

    def place(self, name: str, index: str) -> str:
        return index

    def space(self, name: str) -> Any:
        return "line"

    def negated_index(self, name: str, index: str) -> str:
        return f"{self.argument(('candidates', name), lambda: self.candidates(name))}[{index}]"

    def placed(self, name: str, action: str) -> list[Expression]:
        """The conditions on an edge that are left after events were judged by themselves."""
        mine = self.task.conjuncts
        own = self.branch.own(name)
        return [c for c in self.branch.placed(name, action) if c in mine and c not in own]

    # ---- the runs ----

    def loops(self) -> None:
        starts = self.argument("starts", lambda: self.starts)
        self.open("for i in range(lo, hi):")
        self.emit("n0 = n")
        self.emit("t0 = t")
        self.emit("ev0 = ev")
        self.emit("ev += 1")
        self.emit(f"c0 = {starts}[i]")
        if self.table.bounded:
            ahead = self.argument("ends", lambda: self.table.ahead(self.starts))
            self.emit(f"end = {ahead}[i]")
        else:
            self.emit(f"end = {self.argument('size', lambda: self.table.size)}")
        self.begun(0)

    def begun(self, level: int) -> None:
        """Emits what follows when a component has its first event, at place `c`."""
        name, depth = self.order[level], self.depth
        number = self.number[name]
        last = level + 1 == len(self.order)
        self.here[name] = f"c{number}"
        if name in self.kleene:
            self.stack(name)
            self.emit(f"d{number} = 0")
            self.push(name, f"c{number}")
            if last:
                self.complete(name)
        elif last:
            self.complete(name)
            self.depth = depth
            return
        self.depth = depth
        place = f"x{number}"
        if self.jumps:
            relevant, rank = self._relevant(level)
            size = self.argument(("relevant size", name), lambda: len(self._merged(level)))
            self.open(f"for y{number} in range({rank}[c{number} + 1], {size}):")
            self.emit(f"{place} = {relevant}[y{number}]")
            self.emit(f"if {place} >= end:")
            self.emit("    break")
        else:
            self.open(f"for {place} in range(c{number} + 1, end):")
        self.emit("ev += 1")
        if not last:
            self.proceed(level, place)
        if name in self.kleene:
            self.take(level, place)
        self.depth = depth

    def proceed(self, level: int, place: str) -> None:
        """An event that can begin the next component ends a single one, and copies a list."""
        name, following = self.order[level], self.order[level + 1]
        number, depth = self.number[following], self.depth
        flag = self.flag()
        single = name not in self.kleene
        if single:
            self.emit(f"{flag} = False")
        self.open(f"if {self._fits(following)}[{place}]:")
        self.emit(f"c{number} = {place}")
        if not single:
            self.tests(self.placed(name, "proceed"), Moment())
        moment = Moment(following, f"c{number}", first=True)
        self.tests(self.placed(following, "begin"), moment)
        if single:
            self.emit(f"{flag} = True")
        self.begun(level + 1)
        self.depth = depth
        if single:
            # It is taken where it can be; what cannot be taken ends a run that must not skip.
            if self.jumps:
                self.open(f"if {flag}:")
            self.emit("break")
            self.depth = depth

    def take(self, level: int, place: str) -> None:
        name, depth = self.order[level], self.depth
        flag = self.flag()
        self.emit(f"{flag} = False")
        self.open(f"if {self._fits(name)}[{place}]:")
        self.tests(self.placed(name, "take"), Moment(name, place))
        self.emit(f"{flag} = True")
        self.push(name, place)
        if level + 1 == len(self.order):
            self.complete(name)
        self.depth = depth
        if not self.jumps:
            self.emit(f"if not {flag}:")
            self.emit("    break")

    def complete(self, name: str) -> None:
        depth = self.depth
        if name in self.kleene:
            self.tests(self.placed(name, "proceed"), Moment())
        self.judged.clear()
        self.negations(self.order, True)
        self.output("i")
        self.depth = depth

    # ---- tables by place ----

    def _fits(self, name: str) -> str:
        """Whether the event at a place is a candidate of a variable."""

        def make() -> Array:
            fits = np.zeros(self.table.size, dtype=bool)
            fits[self.candidates(name)] = True
            return fits

        return self.argument(("fits", name), make)

    def _merged(self, level: int) -> Array:
        """The places that matter after a component: what may join its list or come next."""
        if level not in self._merges:
            names = [self.order[level]] if self.order[level] in self.kleene else []
            names += self.order[level + 1 : level + 2]
            fits = np.zeros(self.table.size, dtype=bool)
            for name in names:
                fits[self.candidates(name)] = True
            self._merges[level] = np.flatnonzero(fits)
        return self._merges[level]

    def _relevant(self, level: int) -> tuple[str, str]:
        def ranks() -> Array:
            return ranked(self._merged(level), np.arange(self.table.size + 2), self.table.size)

        name = self.order[level]
        return (
            self.argument(("relevant", name), lambda: self._merged(level)),
            self.argument(("relevant ranks", name), ranks),
        )


def _as_current(conjunct: Expression) -> Expression:
    """A condition on the first element, said of the current one."""

    def change(node: Expression) -> Expression:
        if isinstance(node, Attribute) and node.index == "1":
            return Attribute(node.variable, node.name, "i", place=node.place)
        return node

    return conjunct.map(change)
