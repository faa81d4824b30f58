"""Reads events into Spark: columns checked, times parsed, what is wrong kept aside and counted."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cepviz.errors import SetupError, StreamError, did_you_mean
from cepviz.events import Schema
from cepviz.spark.arrow import schema_of
from cepviz.spark.sessions import session

#: Columns of our own, never seen outside: what orders rows of one time, and what makes a row bad.
ARRIVAL, FILE, BLOCK, CORRUPT = "_cep_arrival", "_cep_file", "_cep_block", "_cep_corrupt"

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
FORMATS |= {".parquet": "parquet", ".pq": "parquet"}

#: More types than this are a column that holds something else.
MOST_TYPES = 1000

_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType)
_OFFSET = r"^.{10}.*([Zz]|[+-]\d\d:?(\d\d)?)$"


def col(name: str) -> Column:
    """A column by its name, whatever letters that has."""
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


@dataclass(frozen=True)
class Report:
    """What was read, and what was not fit to be: counts, with a text and a notebook form."""

    source: str
    rows: int
    kept: int
    schema: Schema
    types: Mapping[str, int] = field(default_factory=dict)
    bad: Mapping[str, int] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)
    first: int | float | None = None
    last: int | float | None = None

    def lines(self) -> list[str]:
        """One line for each thing there is to say."""
        said = [f"{self.rows:,} rows of {self.source}, {self.kept:,} events"]
        if self.first is not None and self.last is not None:
            ends = [self.schema.format_time(time) for time in (self.first, self.last)]
            length = self.schema.format_duration(self.last - self.first)
            said.append(f"time: {ends[0]} to {ends[1]} ({length})")
        for label, counts in (("types", self.types), ("missing", self.nulls), ("bad", self.bad)):
            if counts:
                most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
                more = f" and {len(most) - 8} more" if len(most) > 8 else ""
                said.append(f"{label}: " + ", ".join(f"{n} {c:,}" for n, c in most[:8]) + more)
        if self.bad:
            said.append("the bad rows are in .bad, with the reason")
        return said

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        rows = "".join(f"<div>{html.escape(line)}</div>" for line in self.lines())
        return {"text/plain": repr(self), "text/html": f"<div class='cepviz-report'>{rows}</div>"}


@dataclass(frozen=True, repr=False)
class Events:
    """Events on Spark: the rows that are fit to be events, the others, and a report on both.

    `df` is a DataFrame of the events, ordered by time within each of its partitions; `bad` one of
    the rows left out, with the `reason`. Everything in `cepviz.spark` takes such events.
    """

    frame: DataFrame  # with the columns of our own
    bad: DataFrame
    report: Report
    roles: Mapping[str, str]  # type, time, end, id: the columns that hold them
    every: str | None
    arrival: tuple[str, ...]
    intervals: bool = False

    @property
    def schema(self) -> Schema:
        return self.report.schema

    @property
    def df(self) -> DataFrame:
        ordered = self.frame.sortWithinPartitions(self.moment, *map(col, self.arrival))
        return ordered.drop(*self.arrival)

    @property
    def spark(self) -> SparkSession:
        return self.frame.sparkSession

    @property
    def end(self) -> str:
        """The column that orders events."""
        return self.roles.get("end", self.roles["time"])

    @property
    def moment(self) -> Column:
        """The time that orders events, as a number: microseconds where the stream has dates."""
        return _number(col(self.end), self.frame.schema[self.end].dataType)

    @property
    def tick(self) -> int:
        """How many units of the stream's clock a unit of `moment` is."""
        return 1 if self.schema.zone is None else 1000

    def clock(self, time: Any) -> int | float:
        """A time out of a row of Spark on the clock of `moment`."""
        moment: int | float = time
        if self.schema.zone is None:
            return moment
        if not self.schema.naive:
            # Spark hands out timestamps in the local zone of this machine, without saying so.
            time = time.astimezone(UTC).replace(tzinfo=None)
        passed: timedelta = time - datetime(1970, 1, 1)
        return passed // timedelta(microseconds=1)

    @property
    def span(self) -> tuple[int | float, int | float]:
        """The least and the greatest `moment`."""
        first, last = self.report.first, self.report.last
        if first is None or last is None:
            return 0, 0
        return (first, last) if self.tick == 1 else (first // self.tick, last // self.tick)

    def __repr__(self) -> str:
        return f"Events on Spark\n{self.report!r}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {**self.report._repr_mimebundle_(), "text/plain": repr(self)}


def read(
    source: Any,
    *,
    type: str = "type",
    time: str = "time",
    end: str | None = None,
    id: str | None = None,
    every: str | None = None,
    order: str | Sequence[str] = (),
    unit: str | None = None,
    format: str | None = None,
    spark: SparkSession | None = None,
    **options: Any,
) -> Events:
    """Reads events from files, a table or a DataFrame, and reports on them.

    `source` is a path (CSV with a header, JSON with one object a line, Parquet; a folder of such
    needs `format=`), the name of a table, or a DataFrame. `type`, `time`, `end` and `id` are
    columns; `every="Stock"` gives every row that type instead. Without `id`, an event's id is its
    position in the whole stream. Events of the same time are in the order of the file, or by the
    columns `order`, which a DataFrame out of a shuffle needs to be the same each time.

    A row without a type, a time or an id, with a time that cannot be read, an end before its
    start, an id seen before, or that does not parse is no event: it is in `.bad`, and counted.
    Further `options` go to Spark's reader.
    """
    if isinstance(source, Events):
        return source
    if every is not None and type != "type":
        raise StreamError("type= and every= exclude each other: a column, or one type for all")
    raw, arrival, name = _source(source, format, spark, options)
    order = (order,) if isinstance(order, str) else tuple(order)
    roles = {"type": None if every is not None else type, "time": time, "end": end, "id": id}
    named = {role: column for role, column in roles.items() if column is not None}
    check_columns(raw, named, order)
    frame, failed, naive = _with_times(raw, named, unit)
    frame = _with_plain_numbers(frame)
    clock = Schema(unit=unit or "s")
    if naive is not None:
        check_zone(frame.sparkSession)
        clock = Schema(unit="ns", zone="UTC", naive=naive)
    marked = frame.withColumn("_cep_reason", _reason(frame, named, failed))
    taken = _duplicates(marked, named)
    marked = marked if taken is None else _without(marked, taken, named["id"], (*order, *arrival))
    report, intervals = _report(name, marked, named, every, clock)
    kept = marked.where("_cep_reason is null").drop("_cep_reason", CORRUPT, *failed.values())
    bad = marked.where("_cep_reason is not null").drop(*arrival)
    for column, text in failed.items():  # what was written, as far as it was no time
        written = F.coalesce(col(text), col(column).cast("string"))
        bad = bad.withColumn(column, written).drop(text)
    for ours, shown in (("_cep_reason", "reason"), (CORRUPT, "row")):
        bad = bad.withColumnRenamed(ours, _free(shown, raw.columns))
    schema = schema_of(kept.drop(*arrival), named, every, unit, tuple(report.types))
    report = replace(report, schema=schema)
    return Events(kept, bad, report, named, every, (*order, *arrival), intervals)


# Where the rows come from


def _source(
    source: Any, format: str | None, spark: SparkSession | None, options: Mapping[str, Any]
) -> tuple[DataFrame, tuple[str, ...], str]:
    """The raw rows, the columns that say in which order they came, and a name for the report."""
    if isinstance(source, DataFrame):
        if source.isStreaming:
            raise StreamError("this DataFrame is a stream without an end: use match_stream")
        return source.withColumn(ARRIVAL, F.monotonically_increasing_id()), (ARRIVAL,), "a table"
    if hasattr(source, "iloc"):
        spark = spark or session()
        given = spark.createDataFrame(source)
        for name, kind in source.dtypes.items():  # dates without a zone stay so
            if kind.kind == "M" and getattr(kind, "tz", None) is None:
                given = given.withColumn(str(name), col(str(name)).cast("timestamp_ntz"))
        return given.withColumn(ARRIVAL, F.monotonically_increasing_id()), (ARRIVAL,), "a table"
    if not isinstance(source, (str, Path)):
        kind = source.__class__.__name__
        raise StreamError(f"read takes a path, the name of a table or a DataFrame, not a {kind}")
    spark = spark or session()
    path = str(source)
    kind = format or FORMATS.get(Path(path).suffix.lower(), "")
    if not kind:
        if isinstance(source, str) and not Path(path).exists() and spark.catalog.tableExists(path):
            table = spark.table(path)
            return table.withColumn(ARRIVAL, F.monotonically_increasing_id()), (ARRIVAL,), path
        known = ", ".join(FORMATS)
        raise StreamError(
            f"cannot tell what {path!r} holds: it must end in {known}, be a table, or come with "
            "format='csv', 'json' or 'parquet'"
        )
    try:
        frame = _files(spark, path, kind, dict(options))
        files = sorted(frame.inputFiles())
    except Exception as error:
        said = str(error).split("\n")[0]
        raise StreamError(f"cannot read {path!r}: {said}") from error
    frame = frame.withColumn(ARRIVAL, F.monotonically_increasing_id())
    if len(files) < 2:
        return frame, (ARRIVAL,), Path(path).name
    # Spark deals files out by their size: put them back in the order of their names.
    path_of = F.regexp_replace("_metadata.file_path", "^file:/+", "file:/")
    block = F.col("_metadata.file_block_start")
    frame = frame.withColumns({"_cep_path": path_of, BLOCK: block})
    names = [(re.sub("^file:/+", "file:/", name), number) for number, name in enumerate(files)]
    numbers = spark.createDataFrame(names, f"_cep_path string, {FILE} int")
    frame = frame.join(F.broadcast(numbers), "_cep_path", "left")
    unknown = F.raise_error(F.concat(F.lit("a file that was not there before: "), "_cep_path"))
    frame = frame.withColumn(FILE, F.coalesce(FILE, unknown.cast("int"))).drop("_cep_path")
    return frame, (FILE, BLOCK, ARRIVAL), f"{len(files)} files in {Path(path).name}"


def _files(spark: SparkSession, path: str, kind: str, options: dict[str, Any]) -> DataFrame:
    if kind == "csv":
        options = {"header": True, **options}
        found = spark.read.csv(path, inferSchema=True, **options).schema
        # Only numbers and truths are inferred, as Stream.read_csv does; times are read below.
        kept = (*_NUMBERS, T.BooleanType, T.DecimalType)
        fields = [
            T.StructField(f.name, f.dataType if isinstance(f.dataType, kept) else T.StringType())
            for f in found.fields
        ]
        schema = T.StructType([*fields, T.StructField(CORRUPT, T.StringType())])
        options |= {"columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}
        return spark.read.csv(path, schema=schema, **options)
    if kind == "json":
        return spark.read.json(path, columnNameOfCorruptRecord=CORRUPT, **options)
    return spark.read.format(kind).options(**options).load(path)


# What the columns hold


def check_columns(frame: DataFrame, roles: Mapping[str, str], order: tuple[str, ...]) -> None:
    """Refuses a frame without the columns that are named, or of kinds that cannot be."""
    columns = [name for name in frame.columns if not name.startswith("_cep_")]
    lower = [name.lower() for name in columns]
    for name in columns:
        if lower.count(name.lower()) > 1:
            raise StreamError(
                f"two columns are named {name!r} but for capitals, which Spark does not tell "
                "apart: rename one",
                column=name,
            )
    for role, name in (*roles.items(), *(("order", name) for name in order)):
        if name in columns:
            continue
        have = ", ".join(columns[:12])
        fix = f"name the column with {role}="
        if role == "type":
            fix += ", or give all rows one type with every='Stock'"
        near = did_you_mean(name, columns)
        raise StreamError(
            f"there is no {role} column {name!r}{near}: {fix}; the columns are {have}", column=name
        )
    if "type" in roles and not isinstance(frame.schema[roles["type"]].dataType, T.StringType):
        kind = frame.schema[roles["type"]].dataType.simpleString()
        raise StreamError(
            f"the type column {roles['type']!r} holds {kind}, not text: name types, "
            "or give all rows one with every='Stock'",
            column=roles["type"],
        )
    if "id" in roles and not isinstance(
        frame.schema[roles["id"]].dataType, (*_NUMBERS[:4], T.StringType)
    ):
        kind = frame.schema[roles["id"]].dataType.simpleString()
        raise StreamError(
            f"the id column {roles['id']!r} holds {kind}: use whole numbers or text",
            column=roles["id"],
        )


def _with_times(
    frame: DataFrame, roles: Mapping[str, str], unit: str | None
) -> tuple[DataFrame, dict[str, str], bool | None]:
    """The frame with its times as numbers or timestamps; where text could not be read, the text
    that failed by column; and whether dates are without a zone (None if times are numbers)."""
    clocks: dict[str, bool | None] = {}
    failed: dict[str, str] = {}
    for role in ("time", "end"):
        name = roles.get(role)
        if name is None:
            continue
        kind = frame.schema[name].dataType
        naive: bool | None = None
        if isinstance(kind, T.DecimalType):
            frame = frame.withColumn(name, col(name).cast("double"))
        elif isinstance(kind, (T.TimestampNTZType, T.DateType)):
            naive = True
            frame = frame.withColumn(name, col(name).cast("timestamp_ntz"))
        elif isinstance(kind, T.TimestampType):
            naive = False
        elif isinstance(kind, T.StringType):
            frame, failed[name], naive = _parsed(frame, name)
        elif not isinstance(kind, _NUMBERS):
            raise StreamError(
                f"the {role} column {name!r} holds {kind.simpleString()}: "
                "use numbers, timestamps, or text like 2024-01-31 10:00:00",
                column=name,
            )
        if naive is not None and unit not in (None, "ns"):
            raise StreamError(
                f"column {name!r} holds dates, which count nanoseconds: leave unit={unit!r} out",
                column=name,
            )
        clocks[name] = naive
    if len(set(clocks.values())) > 1:
        words = {None: "plain numbers", True: "dates without a zone", False: "dates with a zone"}
        said = " and ".join(f"{name!r} holds {words[naive]}" for name, naive in clocks.items())
        raise StreamError(f"column {said}: make them alike")
    return frame, failed, next(iter(clocks.values()))


def _parsed(frame: DataFrame, name: str) -> tuple[DataFrame, str, bool]:
    """A column of dates as text, read; the text is kept where it is no date."""
    text = F.trim(col(name))
    zoned = F.coalesce(F.sum(text.rlike(_OFFSET).cast("long")), F.lit(0))
    bare = F.coalesce(F.sum((~text.rlike(_OFFSET)).cast("long")), F.lit(0))
    counts = frame.select(zoned.alias("zoned"), bare.alias("bare")).first()
    assert counts is not None
    naive = counts["zoned"] <= counts["bare"]
    # A time of the other kind, with a zone among those without, is one that cannot be read; so is
    # a year alone, which Spark takes for a date, and what is finer than Spark keeps.
    other = text.rlike(_OFFSET) if naive else ~text.rlike(_OFFSET)
    odd = text.rlike(r"^\d*$") | text.rlike(r"\.\d{6}\d*[1-9]") | other
    read = text.try_cast("timestamp_ntz" if naive else "timestamp")
    kept = "_cep_text_" + name
    frame = frame.withColumn(kept, col(name)).withColumn(name, F.when(~odd, read))
    return frame.withColumn(kept, F.when(col(name).isNull(), col(kept))), kept, naive


def _with_plain_numbers(frame: DataFrame) -> DataFrame:
    """Decimals as the floats that predicates compute with."""
    decimals = [f.name for f in frame.schema.fields if isinstance(f.dataType, T.DecimalType)]
    return frame.withColumns({name: col(name).cast("double") for name in decimals})


def check_zone(spark: SparkSession) -> None:
    """Refuses a session that would hand out dates in another zone than UTC."""
    zone = spark.conf.get("spark.sql.session.timeZone") or ""
    if zone not in ("UTC", "Etc/UTC", "Z", "GMT", "+00:00"):
        raise SetupError(
            f"this Spark session counts dates in the zone {zone}, and dates are exchanged with "
            'workers in UTC: spark.conf.set("spark.sql.session.timeZone", "UTC") first'
        )


def _number(column: Column, kind: T.DataType) -> Column:
    """A time as a number: microseconds for dates (the session's zone is UTC)."""
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        return F.unix_micros(column.cast("timestamp"))
    return column.cast("double" if isinstance(kind, (T.FloatType, T.DoubleType)) else "long")


# What is wrong with a row


def _reason(frame: DataFrame, roles: Mapping[str, str], failed: Mapping[str, str]) -> Column:
    """Why a row is no event, in words; null if it is one."""
    reasons: list[tuple[Column, str]] = []
    if CORRUPT in frame.columns:
        reasons.append((col(CORRUPT).isNotNull(), "the row does not parse"))
    for role in ("type", "time", "end", "id"):
        name = roles.get(role)
        if name is None:
            continue
        if name in failed:
            reasons.append((col(failed[name]).isNotNull(), f"the {role} cannot be read"))
        reasons.append((col(name).isNull(), f"the {role} is missing"))
        if isinstance(frame.schema[name].dataType, (T.FloatType, T.DoubleType)):
            far = ~(F.abs(col(name)) < 2.0**63) | F.isnan(col(name))
            reasons.append((far, f"the {role} is no number"))
    if "end" in roles:
        backward = col(roles["end"]) < col(roles["time"])
        reasons.append((backward, "the end is before the start"))
    found = F.lit(None).cast("string")
    for condition, text in reversed(reasons):
        found = F.when(condition, F.lit(text)).otherwise(found)
    return found


def _duplicates(frame: DataFrame, roles: Mapping[str, str]) -> DataFrame | None:
    """The ids that occur more than once; None if all differ, as they should."""
    if "id" not in roles:
        return None
    good = frame.where("_cep_reason is null").select(col(roles["id"]).alias("_cep_id"))
    twice = good.groupBy("_cep_id").count().where("count > 1").select("_cep_id")
    return None if twice.isEmpty() else twice


def _without(frame: DataFrame, taken: DataFrame, id: str, order: tuple[str, ...]) -> DataFrame:
    """Marks all but the first row of each id that occurs more than once."""
    joined = frame.join(taken, col(id) == F.col("_cep_id"), "left")
    known = F.col("_cep_id").isNotNull() & F.col("_cep_reason").isNull()
    place = F.row_number().over(Window.partitionBy("_cep_id").orderBy(*map(col, order)))
    again = F.when(place > 1, F.lit("the id is already taken"))
    found = joined.where(known).withColumn("_cep_reason", again)
    return joined.where(~known).unionByName(found).drop("_cep_id")


def _report(
    name: str, marked: DataFrame, roles: Mapping[str, str], every: str | None, clock: Schema
) -> tuple[Report, bool]:
    """Counts everything in one pass."""
    own = [c for c in marked.columns if not c.startswith("_cep_")]
    attributes = [c for c in own if c not in roles.values()]
    kind = F.lit(every) if every is not None else col(roles["type"])
    counted = [F.count(F.lit(1)).alias("_cep_rows")]
    for place, column in enumerate(attributes):
        absent = col(column).isNull()
        if isinstance(marked.schema[column].dataType, (T.FloatType, T.DoubleType)):
            absent = absent | F.isnan(col(column))
        counted.append(F.sum(absent.cast("long")).alias(f"_cep_null_{place}"))
    start = _number(col(roles["time"]), marked.schema[roles["time"]].dataType)
    end = start
    if "end" in roles:
        end = _number(col(roles["end"]), marked.schema[roles["end"]].dataType)
    counted += [
        F.min(start).alias("_cep_first"),
        F.max(end).alias("_cep_last"),
        F.min(end).alias("_cep_least"),
        F.coalesce(F.max((start != end).cast("int")), F.lit(0)).alias("_cep_lasts"),
    ]
    good = F.col("_cep_reason").isNull()
    grouped = marked.groupBy(F.when(good, kind).alias("_cep_type"), "_cep_reason").agg(*counted)
    found = grouped.limit(MOST_TYPES + 100).collect()
    if len(found) > MOST_TYPES:
        raise StreamError(
            f"there are more than {MOST_TYPES} types of events: name the column of types with "
            "type=, or give all rows one type with every='Stock'"
        )
    kept = [row for row in found if row["_cep_reason"] is None]
    tick = 1 if clock.zone is None else 1000
    nulls = {
        column: sum(row[f"_cep_null_{place}"] for row in kept)
        for place, column in enumerate(attributes)
    }
    types = sorted((row["_cep_type"], row["_cep_rows"]) for row in kept)
    bad = sorted(
        (row["_cep_reason"], row["_cep_rows"]) for row in found if row["_cep_reason"] is not None
    )
    report = Report(
        name,
        sum(row["_cep_rows"] for row in found),
        sum(row["_cep_rows"] for row in kept),
        clock,
        dict(types),
        dict(bad),
        {column: count for column, count in nulls.items() if count},
        min((row["_cep_least"] * tick for row in kept), default=None),
        max((row["_cep_last"] * tick for row in kept), default=None),
    )
    return report, any(row["_cep_lasts"] for row in kept)


def _free(name: str, taken: Sequence[str]) -> str:
    lower = [other.lower() for other in taken]
    while name.lower() in lower:
        name += "_"
    return name
