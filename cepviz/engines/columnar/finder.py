"""`Finder`: a kernel's lists of Kleene, its negations, its scopes and what it writes down."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cepviz.engines.columnar.kernel import GIVEN, Kernel, Moment
from cepviz.engines.columnar.table import Array, NotTyped
from cepviz.engines.columnar.values import Typed
from cepviz.language.expressions import Aggregate
from cepviz.language.pattern import Negation


class Finder(Kernel):
    """A kernel that is complete but for its loops, which a subclass writes."""

    def effort(self) -> float:
        """About how many candidates the loops will try."""
        raise NotImplementedError

    @property
    def outer(self) -> int:
        """How many candidates the outermost loop has."""
        raise NotImplementedError

    def loops(self) -> None:
        raise NotImplementedError

    def place(self, name: str, index: str) -> str:
        """Source of the place of an event."""
        raise NotImplementedError

    def written(self) -> str:
        """The source of the whole function."""
        self.scan()
        self.emit("n = t = ev = 0")
        self.loops()
        self.depth = 1
        self.emit("return hi, n, t, n, t, ev")
        names = ", ".join([*self.arguments, *self.scratch])
        return "\n".join([f"def kernel({GIVEN}, {names}):", *self.lines, ""])

    # ---- lists ----

    def scan(self) -> None:
        """Finds the running aggregates that conditions ask for."""
        tests = [*self.task.conjuncts, *(c for n in self.task.negations for c in n.conjuncts)]
        for node in (node for test in tests for node in test.walk()):
            if isinstance(node, Aggregate) and node.name is not None:
                function = "sum" if node.function == "avg" else node.function
                key = (node.variable, function, node.name)
                if node.variable not in self.number or key in self._running:
                    continue
                try:
                    column = self.column(node.variable, node.name)
                except NotTyped:
                    continue
                known = None
                if column.nulls is not None:
                    known = self.space_for(node.variable, f"{node.name} known", "int64")
                array = self.space_for(
                    node.variable, f"{node.name} {function}", str(column.values.dtype)
                )
                self._running[key] = (array, known, column)

    def space_for(self, name: str, what: str, dtype: str) -> str:
        """An array beside a stack."""
        key = ("scratch", name, what)
        if key not in self._names:
            self._names[key] = f"g{len(self.scratch)}"
            self.scratch[self._names[key]] = (len(self.places(name)) + 1, dtype)
        return self._names[key]

    def stack(self, name: str) -> str:
        stack = f"K{self.number[name]}"
        self.scratch.setdefault(stack, (len(self.places(name)) + 1, "int64"))
        return stack

    def push(self, name: str, index: str) -> None:
        """An element joins a list, and its running aggregates with it."""
        depth = f"d{self.number[name]}"
        self.emit(f"{self.stack(name)}[{depth}] = {index}")
        counted: set[str] = set()
        for (variable, function, attribute), (array, known, _) in self._running.items():
            if variable == name and function != "count":
                source = self.values(name, str(attribute), index)
                self._accumulate(function, array, known, source, depth)
        for (variable, _, attribute), (_, known, _) in self._running.items():
            if variable == name and known is not None and known not in counted:
                counted.add(known)
                source = self.values(name, str(attribute), index)
                self.emit(f"{known}[{depth}] = 0 if {depth} == 0 else {known}[{depth} - 1]")
                self.emit(f"if {source.guards[0]}:")
                self.emit(f"    {known}[{depth}] += 1")
        self.emit(f"{depth} += 1")

    def _accumulate(
        self, function: str, array: str, known: str | None, source: Typed, depth: str
    ) -> None:
        before = f"{array}[{depth} - 1]"
        empty = f"{depth} == 0" + ("" if known is None else f" or {known}[{depth} - 1] == 0")
        joined = {
            "sum": f"{before} + {source.source}",
            "min": f"min({before}, {source.source})",
            "max": f"max({before}, {source.source})",
            "first": before,
            "last": source.source,
        }[function]
        self.emit(f"if {empty}:")
        self.emit(f"    {array}[{depth}] = {source.source}")
        if known is not None:
            self.emit(f"elif not ({source.guards[0]}):")
            self.emit(f"    {array}[{depth}] = {before}")
        self.emit("else:")
        self.emit(f"    {array}[{depth}] = {joined}")

    def last(self, name: str) -> str:
        """Source of the index of a variable's last event."""
        number = self.number[name]
        return f"K{number}[d{number} - 1]" if name in self.kleene else self.here[name]

    def first(self, name: str) -> str:
        return f"K{self.number[name]}[0]" if name in self.kleene else self.here[name]

    # ---- negation ----

    def negations(self, bound: Collection[str], complete: bool) -> None:
        """Opens `if`s for the negations that can be judged now: those with an event on both sides
        when all they speak of is bound, the others when the match is complete."""
        for negation in self.task.negations:
            name = negation.variable.name
            about = frozenset().union(*(c.variables for c in negation.conjuncts)) - {name}
            early = negation.after and negation.before
            if name in self.judged or not (early or complete):
                continue
            if negation.after | negation.before | about <= set(bound):
                self.judged.add(name)
                self._absent(negation, () if early else tuple(bound))

    def _absent(self, negation: Negation, all_bound: tuple[str, ...]) -> None:
        name = negation.variable.name
        self.places(name)
        low = [(after, "after") for after in sorted(negation.after)]
        high = [(before, "at") for before in sorted(negation.before)]
        if all_bound and self.table.bounded:
            low += [(other, "back") for other in self.ends(all_bound)]
            high += [(other, "ahead") for other in self.begins(all_bound)]
        s, e = f"s{self.number[name]}", f"e{self.number[name]}"
        self.limits(name, low, high, s, e)
        related = [c for c in negation.conjuncts if c.variables != {name}]
        if not related:
            self.open(f"if {e} <= {s}:")
            return
        flag, index = self.flag(), f"i{self.number[name]}"
        self.emit(f"{flag} = True")
        depth = self.depth
        self.open(f"for {index} in range({s}, {e}):")
        self.tests(related, Moment(name, self.negated_index(name, index)))
        self.emit(f"{flag} = False")
        self.emit("break")
        self.depth = depth
        self.open(f"if {flag}:")

    def negated_index(self, name: str, index: str) -> str:
        """The column index of a candidate of a negation, by its number."""
        return index

    def begins(self, names: Collection[str]) -> list[str]:
        """Those of some variables that no other of them precedes."""
        return [v for v in names if not any((u, v) in self.branch.order for u in names)]

    def ends(self, names: Collection[str]) -> list[str]:
        """Those of some variables that no other of them follows."""
        return [u for u in names if not any((u, v) in self.branch.order for v in names)]

    def limits(
        self, name: str, low: list[tuple[str, str]], high: list[tuple[str, str]], s: str, e: str
    ) -> None:
        """Emits the range of a variable's candidates that lie between places given by others."""
        for target, sides, sign, rest in ((s, low, ">", "0"), (e, high, "<", "")):
            written = [self.rank_of(name, other, side) for other, side in sides]
            if not written:
                size = self.argument(("size", name), lambda: len(self.candidates(name)))
                written = [rest or size]
            self.emit(f"{target} = {written[0]}")
            for source in written[1:]:
                self.open(f"if {source} {sign} {target}:")
                self.emit(f"{target} = {source}")
                self.depth -= 1

    def candidates(self, name: str) -> Array:
        """The places of a variable's candidates, ascending."""
        raise NotImplementedError

    def rank_of(self, name: str, other: str, side: str) -> str:
        """Source of how many candidates of a variable lie before a place of another: `after` it,
        `at` it, or at the edges of its window, `back` and `ahead`."""
        index = self.first(other) if side in ("at", "ahead") else self.last(other)
        key = ("rank", name, self.space(other), side)
        return f"{self.argument(key, lambda: self._ranked(name, other, side))}[{index}]"

    def _ranked(self, name: str, other: str, side: str) -> Array:
        places = self.places(other)
        if side == "after":
            places = places + 1
        elif side in ("back", "ahead"):
            places = self.arguments[self.edge(other, side)]
        return ranked(self.candidates(name), places, self.table.size)

    # ---- output ----

    def output(self, outer: str) -> None:
        """Emits what happens to a match: it is counted, or written down."""
        names = [variable.name for variable in self.branch.variables]
        self.restricted(names)
        if self.task.counting:
            self.emit("n += 1")
            if self.kleene:
                self.emit("if n >= most:")
                self.emit(f"    return {outer}, n, t, n, t, ev")
            return
        lists = [f"d{self.number[name]}" for name in names if name in self.kleene]
        full = f"n == most or t + {' + '.join(lists)} > room" if lists else "n == most"
        self.emit(f"if {full}:")
        self.emit(f"    return {outer}, n0, t0, n, t, ev0")
        self.emit(f"w = n * {len(names)}")
        for place, name in enumerate(names):
            number = self.number[name]
            if name not in self.kleene:
                self.emit(f"out[w + {place}] = {self.rows(name)}[{self.here[name]}]")
                continue
            self.emit(f"out[w + {place}] = d{number}")
            self.emit(f"for z in range(d{number}):")
            self.emit(f"    tail[t + z] = {self.rows(name)}[K{number}[z]]")
            self.emit(f"t += d{number}")
        self.emit("n += 1")

    def restricted(self, names: list[str]) -> None:
        """Opens an `if` for the matches of this batch."""
        only = self.task.only
        if only is None:
            return
        low = self.argument("only low", lambda: only.low)
        if only.side == "last":
            tests = [f"{self.rows(n)}[{self.last(n)}] >= {low}" for n in self.ends(names)]
            self.open(f"if {' or '.join(tests)}:")
            return
        high = self.argument("only high", lambda: only.high)
        rows = [f"{self.rows(n)}[{self.first(n)}]" for n in self.begins(names)]
        inside = " and ".join(f"{row} >= {low}" for row in rows)
        self.open(f"if {inside} and ({' or '.join(f'{row} < {high}' for row in rows)}):")


def ranked(candidates: Array, places: Array, size: int) -> Array:
    """How many of some ascending places lie before each of others."""
    if len(places) * 16 < size or len(candidates) * 64 < size:
        return np.searchsorted(candidates, places)
    table = np.zeros(size + 2, dtype="int8")
    table[candidates + 1] = 1
    before = np.cumsum(table, dtype="int64")
    whole = len(places) == size + 2 and places[0] == 0
    return before if whole else before[places]
