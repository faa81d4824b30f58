"""`sample`: a stream with the rates a person asked for, drawn from events on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cepviz.errors import CepError, did_you_mean
from cepviz.events import Stream
from cepviz.spark.arrow import to_stream
from cepviz.spark.reading import Events, col, read


def sample(
    events: Any,
    rates: Mapping[str, float],
    *,
    per: Any = None,
    seed: int = 0,
    limit: int = 100_000,
    **reading: Any,
) -> Stream:
    """A stream in which each type of event comes at the rate asked for.

    `rates={"A": 5, "B": 0.2}` asks for five A and a fifth of a B per second, or per unit of time
    where the stream counts plain numbers; `per="1 hour"` says another length. Types that are not
    named are left out. Of a type that is too frequent, each event is kept with the same chance; of
    one that is too rare, each comes several times, the copies moved in time by up to the mean gap
    between two of its type. The same seed gives the same stream. At most `limit` events come back,
    the first in time: the rates are as asked, the stream is shorter.
    """
    stream = read(events, **reading)
    schema = stream.schema
    known = dict(stream.report.types)
    for name, rate in rates.items():
        if name not in known:
            raise CepError(f"there are no events of type {name!r}{did_you_mean(name, known)}")
        if not rate >= 0:
            raise CepError(f"the rate of {name} must not be negative, and it is {rate}")
    low, high = stream.span
    if not rates or not high > low:
        raise CepError("a sample needs rates, and events at two times at least")
    unit = schema.duration("1 s") if schema.zone is not None else 1
    each = (unit if per is None else schema.duration(per)) / stream.tick
    factors = {name: rate * (high - low) / each / known[name] for name, rate in rates.items()}
    kind = F.lit(stream.every) if stream.every is not None else col(stream.roles["type"])
    factor, gap = F.lit(None).cast("double"), F.lit(0.0)
    for name, value in factors.items():
        factor = F.when(kind == name, F.lit(float(value))).otherwise(factor)
        gap = F.when(kind == name, F.lit((high - low) / known[name])).otherwise(gap)
    frame = stream.frame.where(factor > 0).withColumns({"_cep_factor": factor, "_cep_gap": gap})
    whole = F.floor("_cep_factor")
    copies = whole + (_chance(stream, seed, F.lit(-1)) < F.col("_cep_factor") - whole).cast("long")
    frame = frame.withColumn("_cep_copies", copies.cast("int")).where("_cep_copies > 0")
    frame = frame.withColumn("_cep_copy", F.explode(F.sequence(F.lit(1), F.col("_cep_copies"))))
    moved = F.when(
        F.col("_cep_copy") > 1, _chance(stream, seed, F.col("_cep_copy")) * F.col("_cep_gap")
    ).otherwise(F.lit(0.0))
    for role in ("time", "end"):
        if role in stream.roles:
            name = stream.roles[role]
            frame = frame.withColumn(name, _later(name, stream, moved))
    order = [stream.moment, *map(col, stream.arrival), F.col("_cep_copy")]
    table = frame.orderBy(*order).limit(limit).toArrow()
    ours = [name for name in table.column_names if name.startswith("_cep_")]
    if not table.num_rows:
        raise CepError("no event was drawn: ask for higher rates, or another seed")
    roles = {role: name for role, name in stream.roles.items() if role != "id"}  # copies share it
    return to_stream(table.drop_columns(ours), roles, stream.every, _unit(stream), schema)


def _unit(stream: Events) -> str | None:
    return None if stream.schema.zone is not None else stream.schema.unit


def _chance(stream: Events, seed: int, salt: Column) -> Column:
    """A number from 0 up to 1 for each event, the same whenever and wherever it is computed."""
    name = [stream.roles["id"]] if "id" in stream.roles else list(stream.arrival)
    hashed = F.xxhash64(F.lit(seed), salt.cast("int"), *map(col, name))
    return F.pmod(hashed, F.lit(2**53)) / F.lit(float(2**53))


def _later(name: str, stream: Events, by: Column) -> Column:
    """A time moved by a number of ticks."""
    kind = stream.frame.schema[name].dataType
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        micros = F.unix_micros(col(name).cast("timestamp")) + F.floor(by)
        return F.timestamp_micros(micros).cast(kind)
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return col(name) + by
    return (col(name) + F.floor(by)).cast(kind)
