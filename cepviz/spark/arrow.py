"""Between Arrow tables, in which Spark hands events to Python, and streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cepviz.events import Schema, Stream


def to_stream(
    table: pa.Table,
    roles: Mapping[str, str],
    every: str | None = None,
    unit: str | None = None,
    schema: Schema | None = None,
) -> Stream:
    """A stream of the rows of a table, which are in order already.

    Whole numbers stay so where some are missing. With `schema`, the stream gets the kinds of
    columns that are known of the whole, of which the table may be a part with little in it.
    """
    frame = nullable(_in_utc(table))
    named = {role: roles.get(role) for role in ("time", "end", "id") if role in roles}
    kind = {"type": roles["type"]} if every is None else {"every": every}
    stream = Stream.from_pandas(frame, **named, **kind, unit=unit)  # type: ignore[arg-type]
    if schema is not None:
        stream.schema = replace(stream.schema, attributes=schema.attributes, zone=schema.zone)
    return stream


def nullable(table: pa.Table) -> Any:
    """A table as a pandas frame in which whole numbers stay so where some are missing."""
    return table.to_pandas(types_mapper=_dtypes().get, date_as_object=False)


def schema_of(
    frame: Any,
    roles: Mapping[str, str],
    every: str | None,
    unit: str | None,
    types: tuple[str, ...],
) -> Schema:
    """What a stream of the rows of a Spark DataFrame knows about its columns: asked of a stream
    with one empty row, so that a wrong column is refused before a worker starts."""
    fields = list(frame.limit(0).toArrow().schema)
    arrays = [pa.nulls(1, field.type) for field in fields]
    for place, field in enumerate(fields):
        if field.name in roles.values():
            value: Any = "" if pa.types.is_string(field.type) else 0
            arrays[place] = pa.array([value], field.type)
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    found = to_stream(table, roles, every, unit).schema
    lists = {f.name: "list" for f in fields if pa.types.is_list(f.type)}
    return replace(found, attributes={**found.attributes, **lists}, types=types)


def ordered(table: pa.Table, by: list[str]) -> pa.Table:
    """The rows of a table in order of some columns."""
    import pyarrow.compute as pc

    rows = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in by])
    return table.take(rows)


def integers(column: Any) -> np.ndarray[Any, Any]:
    """A column of whole numbers without missing ones as an array."""
    return column.to_numpy().astype("int64")  # type: ignore[no-any-return]


def _in_utc(table: pa.Table) -> pa.Table:
    """Timestamps on the clock of UTC, whatever the session prints them in."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz not in (None, "UTC"):
            moved = table.column(place).cast(pa.timestamp(field.type.unit, "UTC"))
            table = table.set_column(place, field.name, moved)
    return table


def _dtypes() -> dict[Any, Any]:
    """The pandas dtypes that can hold missing values as such."""
    import pandas as pd

    numbers: dict[Any, Any] = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    return {**numbers, pa.string(): pd.StringDtype(), pa.large_string(): pd.StringDtype()}
