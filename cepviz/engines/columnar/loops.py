"""`Loops`: skip_till_any_match as nested loops in the order of the plan.

Each variable has a loop over its candidates, the events of its type that pass its own conditions.
The loop's range is its scope (LAZY section 5): what lies after those bound before it, before those
bound after it, and in one window with all of them. How many candidates lie before each place is
counted beforehand, so a scope costs two look-ups. Each condition stands in the first loop that has
its variables. An equality with a variable bound before makes the loop run over the equal ones only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cepviz.engines.columnar.finder import Finder
from cepviz.engines.columnar.kernel import Moment, Task
from cepviz.engines.columnar.measure import effort, window_width
from cepviz.engines.columnar.table import Array, Column, NotTyped
from cepviz.language.columns import EXACT
from cepviz.language.expressions import Attribute, Compare, Expression, element_wise


class Loops(Finder):
    """Nested loops over candidates, one for each variable, in a given order."""

    def __init__(self, task: Task, order: tuple[str, ...], chosen: dict[str, Array]):
        super().__init__(task)
        self.order = order
        self.chosen_places = dict(chosen)
        #: By variable: the other side of its equality, its group by the other's index, and where
        #: each group begins.
        self.grouped: dict[str, tuple[Attribute, str, str]] = {}
        shared = task.branch.shared()
        self.left = [conjunct for conjunct in task.conjuncts if conjunct in shared]
        self._only_candidates()
        for level, name in enumerate(order):
            self._group(level, name)

    def _only_candidates(self) -> None:
        """Where one event decides which batch reports a match, its candidates are those."""
        only = self.task.only
        self.restrict = False
        if only is None:
            return
        names = list(self.branch.by_name)
        edge = self.ends(names) if only.side == "last" else self.begins(names)
        self.restrict = len(edge) > 1 or edge[0] in self.kleene
        if not self.restrict:
            places = self.chosen_places[edge[0]]
            rows = self.table.row(places)
            inside = rows >= only.low
            if only.side == "first":
                inside &= rows < only.high
            self.chosen_places[edge[0]] = places[inside]

    def restricted(self, names: list[str]) -> None:
        if self.restrict:
            super().restricted(names)

    # ---- what the base asks ----

    @property
    def outer(self) -> int:
        return len(self.places(self.order[0]))

    def effort(self) -> float:
        counts = [len(self.places(name)) for name in self.order]
        return effort(counts, window_width(self.table), self.table.size)

    def places(self, name: str) -> Array:
        return self.chosen_places[name]

    def candidates(self, name: str) -> Array:
        return self.chosen_places[name]

    def place(self, name: str, index: str) -> str:
        return f"{self.argument(('places', name), lambda: self.places(name))}[{index}]"

    # ---- the loops ----

    def loops(self) -> None:
        for level, name in enumerate(self.order):
            bound = self.order[: level + 1]
            mine = [c for c in self.left if c.variables <= set(bound)]
            self.left = [c for c in self.left if c not in mine]
            if name in self.kleene:
                self._list(level, name, mine)
            else:
                self._single(level, name, mine)
            self.negations(bound, level + 1 == len(self.order))
        self.output("i")

    def _range(self, level: int, name: str) -> None:
        """Emits the scope of a variable: the range of its candidates to try."""
        number, bound, order = self.number[name], self.order[:level], self.branch.order
        if level == 0:
            self.open("for i in range(lo, hi):")
            self.emit("n0 = n")
            self.emit("t0 = t")
            self.emit("ev0 = ev")
            return
        before = [u for u in bound if (u, name) in order]
        after = [w for w in bound if (name, w) in order]
        low = [(u, "after") for u in self.ends(before)]
        high = [(w, "at") for w in self.begins(after)]
        if self.table.bounded:
            # What comes after another in the pattern is in its window from the other side.
            low += [(u, "back") for u in self.ends(bound) if u not in before]
            high += [(w, "ahead") for w in self.begins(bound) if w not in after]
        if name in self.grouped:
            self._range_of_equals(name, low, high)
        else:
            self.limits(name, low, high, f"s{number}", f"e{number}")
        self.emit(f"if e{number} > s{number}:")
        self.emit(f"    ev += e{number} - s{number}")

    def _single(self, level: int, name: str, conjuncts: list[Expression]) -> None:
        number = self.number[name]
        self._range(level, name)
        distinct = self._distinct(level, name, f"i{number}")
        last = level + 1 == len(self.order)
        pending = [n for n in self.task.negations if n.variable.name not in self.judged]
        asked = conjuncts or distinct or pending or self.restrict
        if level and last and self.task.counting and not asked:
            # Nothing is asked of the last one, so its candidates are counted at once.
            self.open(f"if e{number} > s{number}:")
            self.emit(f"n += e{number} - s{number} - 1")
            return
        if level:
            self.open(f"for i{number} in range(s{number}, e{number}):")
        else:
            self.emit("ev += 1")
            self.emit(f"i{number} = i")
        self.here[name] = f"i{number}"
        self._apart(name, distinct)
        self.tests(conjuncts, Moment(name, f"i{number}"))

    def _list(self, level: int, name: str, conjuncts: list[Expression]) -> None:
        """Every non-empty list of candidates: each one may join the list or be left out."""
        number, stack = self.number[name], self.stack(name)
        first, further, whole = element_wise(conjuncts, name)
        self._range(level, name)
        s, e, limit = f"s{number}", f"e{number}", f"l{number}"
        if level == 0:  # the outer loop goes over the first element
            size = self.argument(("size", name), lambda: len(self.places(name)))
            self.emit("ev += 1")
            self.emit(f"{s} = i")
            self.emit(f"{e} = i + 1")
        else:
            size = e
        self.emit(f"d{number} = 0")
        self.emit(f"{limit} = {e}")
        self.open("while True:")
        self.open(f"if {s} >= {limit}:")
        self.emit(f"if d{number} == 0:")
        self.emit("    break")
        self.emit(f"d{number} -= 1")
        self.emit(f"{s} = {stack}[d{number}] + 1")
        self.emit(f"if d{number} == 0:")
        self.emit(f"    {limit} = {e}")
        self.emit("continue")
        self.depth -= 1
        j, flag, depth = f"j{number}", self.flag(), self.depth
        self.emit(f"{j} = {s}")
        self.emit(f"{s} += 1")
        self.emit(f"{flag} = False")
        self._apart(name, self._distinct(level, name, j))
        base = self.depth
        self.open(f"if d{number} == 0:")
        self.tests(first, Moment(name, j, first=True))
        self.emit(f"{flag} = True")
        self.depth = base
        self.open("else:")
        self.emit("ev += 1")
        self.tests(further, Moment(name, j))
        self.emit(f"{flag} = True")
        self.depth = depth
        self.emit(f"if not {flag}:")
        self.emit("    continue")
        self.push(name, j)
        self.emit("if ev - ev0 > lists:")
        self.emit("    return i, n0, t0, n, t, -ev")
        self.open(f"if d{number} == 1:")
        self.emit(f"{limit} = {size}")
        if self.table.bounded:
            self.emit(f"w = {self._window_end(name, j, size)}")
            self.emit(f"if w < {limit}:")
            self.emit(f"    {limit} = w")
        self.depth -= 1
        self.tests(whole, Moment())

    def _window_end(self, name: str, index: str, size: str) -> str:
        if name not in self.grouped:
            # As `rank_of`, for an element that is on top of its own stack.
            return self.rank_of(name, name, "ahead")
        places = self.argument(("places", name), lambda: self.places(name))
        return f"lower({places}, {self.edge(name, 'ahead')}[{index}], {index}, {size})"

    # ---- one event fills one place ----

    def _distinct(self, level: int, name: str, index: str) -> list[str]:
        """Those bound before that may be the same event: of the same type, in no order."""
        mine = self.branch.by_name[name]
        order = self.branch.order
        self.here[name] = index
        return [
            other
            for other in self.order[:level]
            if self.branch.by_name[other].type == mine.type
            and (other, name) not in order
            and (name, other) not in order
        ]

    def _apart(self, name: str, others: list[str]) -> None:
        if not others:
            return
        mine = self.place(name, self.here[name])
        tests = []
        for other in others:
            if other not in self.kleene:
                tests.append(f"{mine} != {self.place(other, self.here[other])}")
                continue
            flag, number = self.flag(), self.number[other]
            self.emit(f"{flag} = True")
            self.emit(f"for z in range(d{number}):")
            self.emit(f"    if {self.place(other, f'K{number}[z]')} == {mine}:")
            self.emit(f"        {flag} = False")
            tests.append(flag)
        self.open(f"if {' and '.join(tests)}:")

    # ---- equality ----

    def _group(self, level: int, name: str) -> None:
        """Looks for an equality with a variable bound before, and sorts candidates by it."""
        for conjunct in self.left:
            sides = _sides(conjunct, name, self.order[:level], self.kleene)
            if sides is None:
                continue
            mine, other = sides
            try:
                codes, others = _joint(
                    self.column(name, mine.name), self.column(other.variable, other.name)
                )
            except NotTyped:
                continue
            places = self.chosen_places[name]
            known = np.flatnonzero(codes >= 0)
            # Places ascend, so a stable sort by code leaves each group in order.
            sorted_ = known[np.argsort(codes[known], kind="stable")]
            self.chosen_places[name] = places[sorted_]
            count = int(max(codes.max(initial=-1), others.max(initial=-1))) + 1
            starts = np.searchsorted(codes[sorted_], np.arange(count + 1))
            key = self.argument(("group", name), lambda: others)  # noqa: B023
            begin = self.argument(("starts", name), lambda: starts)  # noqa: B023
            self.grouped[name] = (other, key, begin)
            self.left.remove(conjunct)
            return

    def _range_of_equals(
        self, name: str, low: list[tuple[str, str]], high: list[tuple[str, str]]
    ) -> None:
        number = self.number[name]
        s, e, g = f"s{number}", f"e{number}", f"g_{number}"
        other, key, begin = self.grouped[name]
        self.emit(f"{g} = {key}[{self.first(other.variable)}]")
        self.emit(f"{s} = {e} = 0")
        self.open(f"if {g} >= 0:")
        self.emit(f"{s} = {begin}[{g}]")
        self.emit(f"{e} = {begin}[{g} + 1]")
        places = self.argument(("places", name), lambda: self.places(name))
        for source in [self._edge(u, side) for u, side in low]:
            self.emit(f"{s} = lower({places}, {source}, {s}, {e})")
        for source in [self._edge(w, side) for w, side in high]:
            self.emit(f"{e} = lower({places}, {source}, {s}, {e})")
        self.depth -= 1

    def _edge(self, name: str, side: str) -> str:
        """Source of the place that bounds a scope."""
        if side in ("back", "ahead"):
            index = self.first(name) if side == "ahead" else self.last(name)
            return f"{self.edge(name, side)}[{index}]"
        if side == "after":
            return f"{self.place(name, self.last(name))} + 1"
        return self.place(name, self.first(name))


def _sides(
    conjunct: Expression, name: str, bound: tuple[str, ...], kleene: frozenset[str]
) -> tuple[Attribute, Attribute] | None:
    """The two sides of an equality of a variable with one bound before; its own side first."""
    if not (isinstance(conjunct, Compare) and conjunct.operator == "="):
        return None
    pair = (conjunct.left, conjunct.right)
    for mine, other in (pair, pair[::-1]):
        if (
            isinstance(mine, Attribute)
            and isinstance(other, Attribute)
            and mine.variable == name
            and mine.index in ("", "i")
            and other.variable in bound
            and other.index == ("1" if other.variable in kleene else "")
        ):
            return mine, other
    return None


def _joint(one: Column, other: Column) -> tuple[Array, Array]:
    """Two columns as codes that are equal where the values are; -1 where missing."""
    if one.kind != other.kind:
        raise NotTyped("text beside a number")
    kinds = {one.values.dtype.kind, other.values.dtype.kind}
    if len(kinds) > 1 and any(max(-c.bounds[0], c.bounds[1]) > EXACT for c in (one, other)):
        raise NotTyped("a whole number that is not exact as a float")
    values: Any = np.unique(np.concatenate([one.values, other.values]), return_inverse=True)[1]
    codes = [values[: len(one.values)], values[len(one.values) :]]
    for place, column in enumerate((one, other)):
        if column.nulls is not None:
            codes[place] = np.where(column.nulls, -1, codes[place])
    return codes[0], codes[1]
