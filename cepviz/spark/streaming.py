"""`match_stream`: a pattern on Structured Streaming, partition by partition, by event time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cepviz.engines.base import Budget
from cepviz.engines.registry import engine_class
from cepviz.errors import CepError, StreamError
from cepviz.events import Schema
from cepviz.language.build import Draft, as_pattern
from cepviz.language.chain import Chain
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import resolve
from cepviz.spark.arrow import nullable, schema_of
from cepviz.spark.columns import TALLY, Names, made_task, returned_schema, shaped
from cepviz.spark.cutting import Needs, key_of
from cepviz.spark.open_window import MICROS, USED, Keeping, OpenWindow
from cepviz.spark.reading import check_columns, check_zone, col

_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType)

#: The watermark of Spark's own filter for late rows: far away, so that they come to us.
_NEVER_LATE, _CLOCK = "_cep_never_late", "_cep_clock"


def match_stream(
    df: DataFrame,
    pattern: Pattern | Draft | str,
    *,
    id: str,
    type: str = "type",
    time: str = "time",
    end: str | None = None,
    every: str | None = None,
    order: str | None = None,
    unit: str | None = None,
    lateness: str = "10 seconds",
    engine: str | None = None,
    budget: Budget | Mapping[str, int] | None = None,
    on_error: str = "keep",
) -> DataFrame:
    """Finds the matches of a pattern in a stream without an end: a streaming DataFrame.

    Rows may come late by `lateness`; events are taken in the order of their time, those of one
    time by the column `order`, or by `id`. The columns are those of a batch (`Matches.df`), and
    two in front: `kind` is "match"; or "late" for a row that came too late, or "bad" for one
    without a type, a time or an id, and then `event` is its id. A match is reported when the
    watermark has passed its last event or, with a NOT at the end, its window. `lastProgress` of
    the query counts the kinds, under observedMetrics.

    The state of a partition is the events of its open window; it goes when they do. The pattern
    needs a WITHIN of time. Without `[attr]`, or under strict_contiguity, all events are one
    partition, and one worker's.
    """
    if isinstance(pattern, Chain):
        raise CepError("match_stream takes one query: write its matches, and match those")
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise StreamError("match_stream takes a streaming DataFrame: use match for one that ends")
    query = as_pattern(pattern)
    named = {"type": None if every is not None else type, "time": time, "end": end, "id": id}
    roles = {role: name for role, name in named.items() if name is not None}
    check_columns(df, roles, () if order is None else (order,))
    spark = df.sparkSession
    empty = spark.createDataFrame([], df.schema)
    for role in ("time", "end"):
        _check_time(df, role, roles.get(role))
    if not isinstance(df.schema[time].dataType, _NUMBERS):
        check_zone(spark)
    schema = schema_of(empty, roles, every, unit, ())
    resolve(query, schema)
    chosen = engine_class(engine, query, "end" in roles).name
    needs = Needs.of(query, schema)
    task = made_task(
        query, schema, roles, every, (order or id,), needs, chosen, budget=budget, on_error=on_error
    )
    names = Names.of(task.variables)
    for name in ("kind", "event"):
        if name in names.all:
            raise CepError(f"a variable is called {name!r}, as a column of the output: rename it")
    keeping = Keeping.of(query, task)
    fields = list(empty.limit(0).toArrow().schema)
    kinds = returned_schema(task, df.schema)
    shape = T.StructType(
        [
            T.StructField("kind", T.StringType()),
            T.StructField("event", df.schema[id].dataType),
            *(field for field in kinds.fields if field.name != TALLY),
        ]
    )
    arranged, keys = _arranged(df, query, needs, roles, task.end, schema, lateness)
    from pyspark.sql.streaming.state import GroupStateTimeout

    found = arranged.groupBy(*keys).applyInPandasWithState(
        _keeper(keeping, pa.schema(fields), id, shape.fieldNames()),
        shape,
        "version int, done long, events binary",
        "append",
        GroupStateTimeout.EventTimeTimeout,
    )
    shown = shaped(task, names)
    shown[names.match] = F.when(F.col("kind") == "match", shown[names.match])
    whole = found.select("kind", "event", *(column.alias(name) for name, column in shown.items()))
    counts = [
        F.count(F.when(F.col("kind") == kind, 1)).alias(kind) for kind in ("match", "late", "bad")
    ]
    return whole.observe("cepviz", *counts)


def _check_time(df: DataFrame, role: str, name: str | None) -> None:
    kinds = (*_NUMBERS, T.TimestampType, T.TimestampNTZType)
    if name is not None and not isinstance(df.schema[name].dataType, kinds):
        raise StreamError(
            f"the {role} column {name!r} holds {df.schema[name].dataType.simpleString()}: use "
            "timestamps or numbers, as with to_timestamp",
            column=name,
        )


def _arranged(
    df: DataFrame,
    query: Pattern,
    needs: Needs,
    roles: Mapping[str, str],
    end: str,
    schema: Schema,
    lateness: str,
) -> tuple[DataFrame, list[str]]:
    """The stream with its clock, its keys, and Spark's own filter for late rows out of the way."""
    sound = F.lit(True)
    for name in roles.values():
        sound = sound & col(name).isNotNull()
    frame = df.withColumn(MICROS, F.when(sound, _micros(col(end), df.schema[end].dataType, schema)))
    if needs.types is not None and "type" in roles:
        frame = frame.where(col(roles["type"]).isin(list(needs.types)) | ~sound)
    keys = {f"_cep_key_{place}": key_of(name, df) for place, name in enumerate(needs.keys)}
    frame = frame.withColumns(keys or {"_cep_key_0": F.lit(0)})
    present = F.lit(True)
    for name in keys:
        present = present & F.col(name).isNotNull()
    frame = frame.where(present | ~sound)
    # Spark drops late rows before a function sees them, by the column that carries the watermark.
    # The clock below moves the watermark on; the column that goes on to the function says that no
    # row is late, so that the function gets them all and can tell.
    frame = frame.withColumn(_CLOCK, F.timestamp_micros(F.col(MICROS))).withWatermark(
        _CLOCK, lateness
    )
    mark = {"spark.watermarkDelayMs": 0}
    far = F.lit("2262-01-01").cast("timestamp").alias(_NEVER_LATE, metadata=mark)
    # Through pandas, whole numbers with gaps would become floats; as text they stay what they are.
    columns = [_as_text(field) for field in df.schema.fields]
    names = list(keys) or ["_cep_key_0"]
    return frame.select(*columns, MICROS, *names, far), names


def _as_text(field: T.StructField) -> Column:
    column = col(field.name)
    return (
        column.cast("string").alias(field.name)
        if isinstance(field.dataType, T.LongType)
        else column
    )


def _micros(column: Column, kind: T.DataType, schema: Schema) -> Column:
    """A time in whole microseconds, rounded down."""
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        return F.unix_micros(column.cast("timestamp"))
    size = int(Schema(unit="ns").duration(1, schema.unit))
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return F.floor(column * (size / 1000)).cast("long")
    if size % 1000 == 0:
        return column.cast("long") * (size // 1000)
    return F.floor((column - F.pmod(column, F.lit(1000))) / 1000).cast("long")


def _keeper(
    keeping: Keeping, schema: pa.Schema, id: str, columns: list[str]
) -> Callable[..., Iterator[Any]]:
    """The function that Spark calls for each partition with new rows, or whose time has come."""
    events = schema.append(pa.field(MICROS, pa.int64())).append(pa.field(USED, pa.bool_()))

    def keep(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        keeping.task.register()
        # Before there is a watermark, Spark says 0.
        watermark = state.getCurrentWatermarkMs() * 1000
        window = OpenWindow(events.empty_table())
        if state.exists:
            window = OpenWindow.read(*state.get)
        fresh = []
        for frame in () if state.hasTimedOut else frames:
            table = _table(frame, events)
            good, bad, late = _sorted_out(table, watermark)
            for kind, rows in (("bad", bad), ("late", late)):
                if rows.num_rows:
                    yield _aside(kind, rows, keeping, id, columns)
            fresh.append(good)
        new = pa.concat_tables(fresh) if fresh else events.empty_table()
        after, found = window.moved(keeping, watermark, new)
        if found is not None and found.num_rows > 1:
            yield _reported(found.slice(0, found.num_rows - 1), columns)
        due = after.next(keeping)
        if due is None:
            if state.exists:
                state.remove()
            return
        state.update(after.written())
        # A timer goes off once the watermark is beyond it.
        state.setTimeoutTimestamp(max(-(-due // 1000) - 1, watermark // 1000, 1))

    return keep


def _table(frame: Any, schema: pa.Schema) -> pa.Table:
    """Rows as they come from Spark, with the types that they have there."""
    frame = frame.assign(**{USED: False})
    as_text = [
        pa.field(f.name, pa.string()) if f.type == pa.int64() and f.name != MICROS else f
        for f in schema
    ]
    table = pa.Table.from_pandas(frame[schema.names], pa.schema(as_text), preserve_index=False)
    return table.cast(schema)


def _sorted_out(table: pa.Table, watermark: int) -> tuple[pa.Table, pa.Table, pa.Table]:
    import pyarrow.compute as pc

    micros = table.column(MICROS)
    missing = pc.is_null(micros)
    passed = pc.fill_null(pc.less_equal(micros, watermark), False) if watermark > 0 else None
    late = table.filter(passed) if passed is not None else table.slice(0, 0)
    known = pc.invert(missing)
    good = table.filter(known if passed is None else pc.and_(known, pc.invert(passed)))
    return good, table.filter(missing), late


def _aside(kind: str, rows: pa.Table, keeping: Keeping, id: str, columns: list[str]) -> Any:
    """Rows that are in no match, as rows of the output."""
    task = keeping.task
    held = {"kind": pa.array([kind] * rows.num_rows), "event": rows.column(id)}
    held |= {"_first": rows.column(task.roles["time"]), "_last": rows.column(task.end)}
    return _reported(pa.table(held), columns)


def _reported(table: pa.Table, columns: list[str]) -> Any:
    """A table as the frame that Spark takes, with every column of the output."""
    frame = nullable(table)
    if "kind" not in frame:
        frame["kind"] = "match"
    return frame.reindex(columns=columns)
