"""`Table`: a stream as the kernels see it: places in a line, windows, candidates, typed columns.

A place is where an event stands in the order of the kernel. That is its row in the stream, unless
the pattern has `[attr]`: then events are sorted by partition, so that a partition is one stretch
of the line, and no kernel ever compares keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cepviz.events import Stream
from cepviz.language.expressions import Expression, Literal, Symbol

Array: TypeAlias = np.ndarray[Any, Any]

NUMBER, TEXT = "number", "text"


class NotTyped(Exception):
    """An expression that has no typed form: it is computed on Python objects instead."""


class Column(NamedTuple):
    """An attribute at each place: int64, float64, or the rank of its text; and where missing."""

    values: Array
    nulls: Array | None
    kind: str

    def take(self, places: Array) -> Column:
        nulls = None if self.nulls is None else self.nulls[places]
        if nulls is not None and not nulls.any():
            nulls = None
        return Column(self.values[places], nulls, self.kind)

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value, if they are whole numbers."""
        if self.values.dtype.kind != "i" or not len(self.values):
            return 0, 0
        return int(self.values.min()), int(self.values.max())


class Table:
    """The events of a stream at their places, for one pattern."""

    def __init__(
        self,
        stream: Stream,
        window: int | float | None,
        by_count: bool,
        same: tuple[str, ...] = (),
        expressions: Iterable[Expression] = (),
    ):
        self.stream = stream
        self.window = window
        self.marks = stream.positions if by_count else stream.ends
        self.by_count = by_count
        self.rows: Array | None = None
        self.parts: Array | None = None
        if same:
            self._sort(_codes(stream, same))
        self.size = len(stream) if self.rows is None else len(self.rows)
        self._columns: dict[str, Column] = {}
        self._types: dict[str, Array] = {}
        self._ranks = _ranks(stream, tuple(expressions))

    def _sort(self, codes: Array) -> None:
        """Puts each partition in a stretch of its own; events of no partition have no place."""
        small = codes.astype("int16") if codes.max(initial=0) < 2**15 else codes
        order = np.argsort(small, kind="stable")
        self.rows = order[np.searchsorted(small[order], 0) :]
        self.parts = codes[self.rows]
        #: Where each partition begins, and the last one ends.
        self._stretch = np.concatenate([[0], np.cumsum(np.bincount(self.parts))])

    @cached_property
    def _line(self) -> Array:
        """Partition and row as one number, ascending along the line."""
        assert self.parts is not None and self.rows is not None
        return np.asarray(self.parts * (len(self.stream) + 1) + self.rows)

    @property
    def bounded(self) -> bool:
        """Whether a place has a first and a last one that it can share a match with."""
        return self.window is not None or self.parts is not None

    def row(self, places: Array) -> Array:
        """The rows of places."""
        return places if self.rows is None else self.rows[places]

    # ---- windows ----

    def back(self, places: Array) -> Array:
        """The first place of its partition that fits into one window with each of these."""
        rows = self.row(places)
        first = np.zeros(len(rows), dtype="int64") if self.window is None else self._back(rows)
        return self._placed(places, first)

    def ahead(self, places: Array) -> Array:
        """The place after the last that fits into one window with each of these."""
        rows = self.row(places)
        count = len(self.stream)
        last = np.full(len(rows), count) if self.window is None else self._ahead(rows)
        return self._placed(places, last)

    def _placed(self, places: Array, rows: Array) -> Array:
        if self.parts is None:
            return rows
        if self.window is None:  # a partition from end to end
            return np.asarray(self._stretch[self.parts[places] + (rows > 0)])
        base = self.parts[places] * (len(self.stream) + 1)
        return np.asarray(np.searchsorted(self._line, base + rows))

    def _span(self) -> tuple[Array, Any]:
        """Times from 0 on, and the window, in which a sum does not overflow."""
        marks, window = self.marks, self.window
        assert window is not None
        if marks.dtype.kind == "f":
            return marks, window
        if int(marks[-1]) - int(marks[0]) >= 2**62:
            marks = marks.astype(object)
        marks = marks - marks[0]
        return marks, min(math.ceil(window), int(marks[-1]) + 1)

    def _back(self, rows: Array) -> Array:
        if self.by_count and self._even:
            return np.asarray(np.maximum(rows - (math.ceil(self.window or 0) - 1), 0))
        marks, window = self._span()
        mine = marks[rows]
        found: Array = np.searchsorted(marks, mine - window, side="right")
        if marks.dtype.kind == "f":  # by the very difference that other engines compare
            while (far := mine - marks[found] >= window).any():
                found[far] += 1
            while (near := (found > 0) & (mine - marks[found - 1] < window)).any():
                found[near] -= 1
        return found

    def _ahead(self, rows: Array) -> Array:
        count = len(self.marks)
        if self.by_count and self._even:
            return np.asarray(np.minimum(rows + math.ceil(self.window or 0), count))
        marks, window = self._span()
        mine = marks[rows]
        found: Array = np.searchsorted(marks, mine + window, side="left")
        if marks.dtype.kind == "f":
            last = count - 1
            while (far := marks[found - 1] - mine >= window).any():
                found[far] -= 1
            while (
                near := (found <= last) & (marks[np.minimum(found, last)] - mine < window)
            ).any():
                found[near] += 1
        return found

    @property
    def _even(self) -> bool:
        """Whether positions go up by one, so that counting events is subtraction."""
        marks = self.marks
        return bool(len(marks)) and int(marks[-1]) - int(marks[0]) == len(marks) - 1

    # ---- events of a type, and what they hold ----

    def of_type(self, name: str) -> Array:
        """The places of the events of a type."""
        if name not in self._types:
            types = self.stream.schema.types
            if name not in types:
                return np.arange(0)
            codes = self.stream.types if self.rows is None else self.stream.types[self.rows]
            self._types[name] = np.flatnonzero(codes == types.index(name))
        return self._types[name]

    def column(self, name: str) -> Column:
        """An attribute at every place; refused where it has no typed form."""
        if name not in self._columns:
            column = self._typed(name)
            self._columns[name] = column if self.rows is None else column.take(self.rows)
        return self._columns[name]

    def _typed(self, name: str) -> Column:
        stream = self.stream
        if name not in stream.schema.attributes and name not in ("type", "id", *_TIMES):
            count = len(stream)
            return Column(np.zeros(count, dtype="int64"), np.ones(count, dtype=bool), NUMBER)
        nulls = stream.mask(name)
        missing = nulls if nulls.any() else None
        if _is_text(stream, name):
            codes, texts = stream.codes(name)
            ranks = np.array([*(self._ranks[text] for text in texts), -1], dtype="int64")
            return Column(ranks[codes], missing, TEXT)
        values = stream.column(name)
        if values.dtype.kind in "ib":
            return Column(values.astype("int64", copy=False), missing, NUMBER)
        if values.dtype.kind == "f":
            return Column(values.astype("float64", copy=False), missing, NUMBER)
        raise NotTyped(f"{name} holds Python objects")

    def rank(self, text: str) -> int:
        """The number that stands for a text of the pattern or the data: ordered as they are."""
        return self._ranks[text]


_TIMES = ("time", "start", "end")


def _is_text(stream: Stream, name: str) -> bool:
    kind = stream.schema.attributes.get(name)
    return kind == "string" or (kind is None and name == "type")


def _ranks(stream: Stream, expressions: tuple[Expression, ...]) -> dict[str, int]:
    """Every text that the expressions can meet, with its place in their order."""
    texts: set[str] = set()
    for node in (node for expression in expressions for node in expression.walk()):
        if isinstance(node, Literal) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, Symbol):
            texts.add(node.name)
        else:
            name = getattr(node, "name", None)
            if isinstance(name, str) and _is_text(stream, name):
                texts.update(stream.codes(name)[1])
    return {text: rank for rank, text in enumerate(sorted(texts))}


def _codes(stream: Stream, names: tuple[str, ...]) -> Array:
    """The partition of each row as a number from 0, -1 for none."""
    if len(names) == 1:
        return key_codes(stream, names[0])
    joined = np.zeros(len(stream), dtype="int64")
    for name in names:
        codes = key_codes(stream, name)
        joined = np.where(
            (joined < 0) | (codes < 0), -1, joined * (codes.max(initial=0) + 1) + codes
        )
        known = joined >= 0
        joined[known] = np.unique(joined[known], return_inverse=True)[1]
    return joined


def key_codes(stream: Stream, name: str) -> Array:
    """The values of an attribute as numbers from 0, equal where they are equal; -1 if missing."""
    if name not in stream.schema.attributes and name not in ("type", "id", *_TIMES):
        return np.full(len(stream), -1)
    nulls = stream.mask(name)
    if _is_text(stream, name):
        return stream.codes(name)[0].astype("int64")
    values = stream.column(name)
    codes = np.full(len(stream), -1)
    known = ~nulls
    if values.dtype.kind in "ifb":
        codes[known] = dense(values[known])
        return codes
    found: dict[Any, int] = {}
    odd: list[tuple[Any, int]] = []  # lists and the like, which cannot be hashed
    for row in np.flatnonzero(known).tolist():
        value = values[row]
        try:
            codes[row] = found.setdefault(value, len(found) + len(odd))
        except TypeError:
            code = next((number for other, number in odd if other == value), None)
            if code is None:
                code = len(found) + len(odd)
                odd.append((value, code))
            codes[row] = code
    return codes


def dense(values: Array) -> Array:
    """Values as numbers from 0 in their order; whole numbers that lie close are only shifted."""
    if not len(values):
        return np.zeros(0, dtype="int64")
    if values.dtype.kind in "ib":
        shifted = values.astype("int64") - int(values.min())
        if 0 <= int(shifted.max()) <= 4 * len(values) and int(shifted.min()) >= 0:
            return shifted
    return np.unique(values, return_inverse=True)[1]
