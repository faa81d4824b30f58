"""Batches of a stream: the columns of the open window and of a new batch as one stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cepviz.errors import StreamError
from cepviz.events import Event, Schema, Stream
from cepviz.events.columns import Column


def as_batch(given: Any, schema: Schema) -> Stream:
    """A batch as a stream: a stream, a DataFrame, or columns by name, on the clock of `schema`."""
    if isinstance(given, Stream):
        return given
    if isinstance(given, Mapping):
        import pandas as pd

        given = pd.DataFrame(dict(given))
    roles: dict[str, Any] = dict(schema.roles) or {"type": "type", "time": "time"}
    every: dict[str, Any] = {}
    if "type" not in roles and len(schema.types) == 1:
        every = {"every": schema.types[0]}
    unit = schema.unit if schema.zone is None else None
    return Stream.from_pandas(given, **roles, **every, unit=unit)


def of_event(event: Event) -> Stream:
    """A stream of one event, at its own position."""
    stream = Stream.from_records([event])
    stream.positions = np.array([event.position])
    return stream


def numbered(stream: Stream, position: int) -> Stream:
    """The stream with positions from a number on; ids that are positions go with them."""
    shifted: Stream = stream[:]
    by_position = np.array_equal(stream.ids, stream.positions)
    shifted.positions = np.arange(position, position + len(stream))
    if by_position:
        shifted.ids = shifted.positions
    return shifted


def joined(first: Stream, second: Stream) -> Stream:
    """Two streams as one, the second after the first."""
    one, other = first.schema, second.schema
    if (one.unit, one.zone, one.naive) != (other.unit, other.zone, other.naive):
        raise StreamError("the batch is on another clock: batches need the same unit and zone")
    names = dict.fromkeys((*first._columns, *second._columns))
    columns = {
        name: _both(_of(first, name), _of(second, name), len(first), len(second)) for name in names
    }
    types = tuple(dict.fromkeys((*one.types, *other.types)))
    codes = [
        np.array([types.index(name) for name in stream.schema.types], dtype="int32")[stream.types]
        for stream in (first, second)
    ]
    schema = replace(one, attributes={n: c.kind for n, c in columns.items()}, types=types)
    ends = np.concatenate([first.ends, second.ends])
    point = first.starts is first.ends and second.starts is second.ends
    return Stream(
        schema,
        columns,
        np.concatenate(codes),
        ends if point else np.concatenate([first.starts, second.starts]),
        ends,
        _ids(first.ids, second.ids),
        np.concatenate([first.positions, second.positions]),
    )


def _of(stream: Stream, name: str) -> Column | None:
    return stream._columns.get(name)


def _ids(one: Any, other: Any) -> Any:
    if one.dtype.kind == other.dtype.kind:
        return np.concatenate([one, other])
    return np.concatenate([one.astype(object), other.astype(object)])


def _both(one: Column | None, other: Column | None, size: int, more: int) -> Column:
    """One column after the other; what only one of them has is missing in the other."""
    if one is None or _empty(one):
        assert other is not None or one is not None
        if other is None:
            assert one is not None
            return _both(one, _missing(one, more), size, more)
        one = _missing(other, size)
    if other is None or _empty(other):
        other = _missing(one, more)
    nulls = np.concatenate([_nulls(one), _nulls(other)])
    missing = nulls if nulls.any() else None
    kind = one.kind if one.kind == other.kind else "other"
    if one.values is not None and other.values is not None:
        known = {text: code for code, text in enumerate(one.values[:-1].tolist())}
        codes = [known.setdefault(text, len(known)) for text in other.values[:-1].tolist()]
        moved = np.array([*codes, -1], dtype="int32")[other.data]
        texts = np.array([*known, None], dtype=object)
        return Column(kind, np.concatenate([one.data, moved]), missing, texts)
    if kind != "other" and one.data.dtype == other.data.dtype:
        return Column(kind, np.concatenate([one.data, other.data]), missing)
    data = np.array([*one.tolist(), *other.tolist(), None], dtype=object)[:-1]
    if kind == "number":
        data[nulls] = 0
    return Column(kind, data, missing)


def _nulls(column: Column) -> Any:
    return np.zeros(len(column.data), dtype=bool) if column.nulls is None else column.nulls


def _empty(column: Column) -> bool:
    """Whether it holds no value at all, so that its kind says nothing."""
    return column.nulls is not None and bool(column.nulls.all())


def _missing(like: Column, size: int) -> Column:
    """A column of missing values of another's kind."""
    if like.values is not None:
        data = np.full(size, -1, dtype="int32")
        return Column(like.kind, data, np.ones(size, dtype=bool), like.values)
    data = np.zeros(size, dtype=like.data.dtype)
    if data.dtype == object:
        data[:] = None if like.kind != "number" else 0
    return Column(like.kind, data, np.ones(size, dtype=bool))
