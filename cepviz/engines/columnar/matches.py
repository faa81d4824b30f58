"""Matches as columns of rows, made into `Match` objects only when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from cepviz.engines.base import Match
from cepviz.engines.columnar.table import Array
from cepviz.errors import CepError
from cepviz.events import Event, Schema, Stream
from cepviz.language.pattern import Branch, Pattern

#: So many matches are made into objects at a time when all are gone through.
BLOCK = 4096


class Found:
    """Matches of one branch: a row number for each variable, for a list its length, and the rows
    of all lists one after the other."""

    def __init__(self, branch: Branch, fixed: Array, tail: Array):
        self.branch = branch
        self.fixed = fixed
        self.tail = tail
        self.kleene = [place for place, v in enumerate(branch.variables) if v.kleene]
        #: Where the list of each Kleene variable begins in the tail.
        self.begins = np.zeros((len(fixed), len(self.kleene)), dtype="int64")
        if self.kleene and len(fixed):
            lengths = fixed[:, self.kleene].astype("int64")
            self.begins = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)

    def __len__(self) -> int:
        return len(self.fixed)

    def take(self, numbers: Array) -> Found:
        """Some of the matches."""
        if not self.kleene:
            return Found(self.branch, self.fixed[numbers], self.tail)
        pieces = [self.tail[:0]]
        for number in numbers.tolist():
            for place, begin in zip(self.kleene, self.begins[number].tolist(), strict=True):
                pieces.append(self.tail[begin : begin + int(self.fixed[number, place])])
        return Found(self.branch, self.fixed[numbers], np.concatenate(pieces))

    def edges(self) -> tuple[Array, Array]:
        """The rows of the first and of the last event of each match."""
        first, last = self.fixed.copy(), self.fixed.copy()
        for column, place in enumerate(self.kleene):
            begin = self.begins[:, column]
            first[:, place] = self.tail[begin]
            last[:, place] = self.tail[begin + self.fixed[:, place] - 1]
        return first.min(axis=1), last.max(axis=1)

    def rows(self, number: int) -> dict[str, int | list[int]]:
        """The rows of one match by variable."""
        bound: dict[str, int | list[int]] = {}
        column = 0
        fixed = self.fixed[number].tolist()
        for place, variable in enumerate(self.branch.variables):
            if not variable.kleene:
                bound[variable.name] = fixed[place]
                continue
            begin = int(self.begins[number, column])
            bound[variable.name] = self.tail[begin : begin + fixed[place]].tolist()
            column += 1
        return {**bound, **{name: [] for name in self.branch.empty}}

    @property
    def bytes(self) -> int:
        return int(self.fixed.nbytes + self.tail.nbytes)


class Matches(Sequence[Match]):
    """The matches on a stream, in the order they were completed."""

    def __init__(self, found: list[Found], stream: Stream, pattern: Pattern, schema: Schema):
        self.found = [part for part in found if len(part)]
        self.stream = stream
        self.pattern = pattern
        self.schema = schema
        self.names = list(pattern.variables)
        self._order: Array | None = None

    def __len__(self) -> int:
        return sum(map(len, self.found))

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self._made(self.order()[index]))
        return next(self._made(self.order()[[index]]))

    def __iter__(self) -> Iterator[Match]:
        order = self.order()
        for low in range(0, len(order), BLOCK):
            yield from self._made(order[low : low + BLOCK])

    def order(self) -> Array:
        """The matches by the row that completed them, then by the one that began them."""
        if self._order is None:
            edges = [part.edges() for part in self.found]
            if not edges:
                return np.zeros(0, dtype="int64")
            first, last = (np.concatenate(side) for side in zip(*edges, strict=True))
            self._order = np.lexsort((first, last))
        return self._order

    def columns(self) -> dict[str, Array] | None:
        """The rows of each variable, without an object for any match; None where there are lists or
        several branches, of which a table has no plain columns."""
        if len(self.pattern.branches) > 1 or any(part.kleene for part in self.found):
            return None
        (branch,) = self.pattern.branches
        width = len(branch.variables)
        fixed = np.concatenate([np.zeros((0, width), "int32"), *(p.fixed for p in self.found)])
        fixed = fixed[self.order()]
        return {v.name: fixed[:, place] for place, v in enumerate(branch.variables)}

    def _made(self, numbers: Array) -> Iterator[Match]:
        starts = np.cumsum([0, *map(len, self.found)])
        chosen = []
        for number in numbers.tolist():
            part = int(np.searchsorted(starts, number, side="right")) - 1
            chosen.append(self.found[part].rows(number - int(starts[part])))
        events = self._events(chosen)
        for bound in chosen:
            bindings = {
                name: events[rows] if isinstance(rows, int) else tuple([events[r] for r in rows])
                for name in self.names
                if (rows := bound.get(name)) is not None
            }
            flat = [row for rows in bound.values() for row in _listed(rows)]
            yield Match(bindings, events[max(flat)], self.pattern.returns, self.schema)

    def _events(self, chosen: list[dict[str, int | list[int]]]) -> dict[int, Event]:
        rows = sorted({row for bound in chosen for rows in bound.values() for row in _listed(rows)})
        return dict(zip(rows, self.stream._take(np.array(rows, dtype="int64")), strict=True))


def _listed(rows: int | list[int]) -> list[int]:
    return [rows] if isinstance(rows, int) else rows


class Counted(Sequence[Match]):
    """How many matches there are, and nothing more: what `count_only=True` gives."""

    def __init__(self, count: int):
        self.found = count

    def __len__(self) -> int:
        return self.found

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return []
        raise CepError("the matches were only counted: leave count_only=True out to have them")

    def __iter__(self) -> Iterator[Match]:
        self[0]
        return iter(())
