"""From a million events to the one run: brings back the events around a match, and replays them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cepviz.errors import CepError
from cepviz.events import Stream
from cepviz.explain import why_not as explained
from cepviz.language.build import as_pattern
from cepviz.language.pattern import STRICT, Pattern
from cepviz.language.resolve import window_size
from cepviz.matching import trace
from cepviz.spark.arrow import integers, ordered, to_stream
from cepviz.spark.cutting import POSITION, positioned
from cepviz.spark.matching import Found
from cepviz.spark.reading import Events, col, read
from cepviz.trace import Trace

#: More events than this are no one's window: fetching them is refused.
LIMIT = 50_000


def replay(match: Found, engine: str = "sase", *, limit: int = LIMIT, **options: Any) -> Trace:
    """The trace of a match that was found on Spark.

    Only the events of its partition that lie in one window with the match are fetched (for
    `OUTPUT non_overlap`, the partition up to there), and the pattern runs on them again, by an
    engine that shows its steps. `limit` is the most events to fetch.
    """
    events, pattern = match.matches.events, match.matches.pattern
    window = window_size(pattern, events.schema)
    key = _key(pattern, match.key)
    if pattern.within is not None and pattern.within.in_events:
        frame = _by_position(match, events, int(window or 0))
    else:
        first, last = (events.clock(time) for time in (match.first, match.last))
        # On the clock of `moment`; what is finer is rounded outwards.
        length = None if window is None else window / events.tick
        above, below = (first, last) if length is None else (last - length, first + length)
        exact = length is None
        low = events.moment >= above if exact else events.moment > math.floor(above)
        high = events.moment <= below if exact else events.moment < math.ceil(below)
        if pattern.output != "all":
            low = F.lit(True)
        frame = _between(events, low, high, F.lit(False) if pattern.output != "all" else ~low)
    stream = _brought(events, frame, key, limit)
    return trace(pattern, stream, engine, **options)


def fetch(
    events: Any,
    *,
    key: Mapping[str, Any] | None = None,
    between: tuple[Any, Any] = (None, None),
    limit: int = LIMIT,
    **reading: Any,
) -> Stream:
    """A part of the events on Spark as a stream here: of a partition, in a range of time.

    `key={"user": "ann"}` asks for events with these values, `between=(start, end)` for those from
    start up to, but not including, end. More than `limit` events are refused.
    """
    stream = read(events, **reading)
    start, end = between
    low, high = F.lit(True), F.lit(True)
    if start is not None:
        low = events_at(stream, start) <= stream.moment
    if end is not None:
        high = stream.moment < events_at(stream, end)
    earlier = F.lit(False) if start is None else ~low
    return _brought(stream, _between(stream, low, high, earlier), dict(key or {}), limit)


def events_at(events: Events, time: Any) -> Column:
    """A moment of the stream's clock on that of `moment`."""
    return F.lit(events.schema.timestamp(time) / events.tick)


def why_not(
    pattern: Any,
    events: Any,
    /,
    *,
    key: Any = None,
    between: tuple[Any, Any] = (None, None),
    limit: int = LIMIT,
    **bindings: Any,
) -> Any:
    """Says why some events on Spark are not a match, as `cepviz.why_not` does.

    `key` is the partition to look at: the value of `[attr]`, or a dict of several; `between` the
    range of time. Events are given by their ids.
    """
    query = as_pattern(pattern)
    stream = read(events)
    wanted = _key(query, key) if key is not None else {}
    found = fetch(stream, key=wanted, between=between, limit=limit)
    return explained(query, found, **bindings)


def _key(pattern: Pattern, key: Any) -> dict[str, Any]:
    """A partition as the values of its attributes."""
    if isinstance(key, Mapping):
        return dict(key)
    if pattern.strategy == STRICT or key is None:
        return {}
    if hasattr(key, "asDict"):
        return dict(key.asDict())
    if len(pattern.same) != 1:
        attributes = ", ".join(pattern.same) or "none"
        raise CepError(f"key={key!r} must be a dict of attributes: the pattern's are {attributes}")
    return {pattern.same[0]: key}


def _between(events: Events, low: Column, high: Column, earlier: Column) -> DataFrame:
    """The events of a range, with their place in the whole stream where that is their id."""
    frame = events.frame.where(low & high)
    if "id" in events.roles:
        return frame
    before = events.frame.where(earlier).count()
    order = Window.partitionBy(F.lit(0)).orderBy(events.moment, *map(col, events.arrival))
    return frame.withColumn(POSITION, F.row_number().over(order).cast("long") - 1 + F.lit(before))


def _by_position(match: Found, events: Events, size: int) -> DataFrame:
    """The events that lie in one window of so many events with a match."""
    frame = positioned(events)
    ids = [
        i for bound in match.ids.values() for i in (bound if isinstance(bound, list) else [bound])
    ]
    name = events.roles.get("id", POSITION)
    ends = frame.where(col(name).isin(ids)).agg(F.min(POSITION), F.max(POSITION)).first()
    assert ends is not None
    return frame.where((col(POSITION) > ends[1] - size) & (col(POSITION) < ends[0] + size))


def _brought(events: Events, frame: DataFrame, key: Mapping[str, Any], limit: int) -> Stream:
    """A few rows of Spark as a stream."""
    for name, value in key.items():
        if name not in events.schema.attributes:
            raise CepError(f"there is no column {name!r} to look for {value!r} in")
        frame = frame.where(col(name) == F.lit(value))
    table: pa.Table = frame.limit(limit + 1).toArrow()
    if table.num_rows > limit:
        raise CepError(
            f"this part of the stream holds more than {limit:,} events: narrow it, "
            "or allow more with limit="
        )
    if not table.num_rows:
        raise CepError("this part of the stream holds no events")
    placed = POSITION in table.column_names
    table = ordered(table, [POSITION] if placed else [events.end, *events.arrival])
    numbers = integers(table.column(POSITION)) if placed else None
    ours = {POSITION, *events.arrival} - set(events.schema.attributes)
    rest = table.drop_columns([name for name in table.column_names if name in ours])
    unit = None if events.schema.zone is not None else events.schema.unit
    stream = to_stream(rest, events.roles, events.every, unit, events.schema)
    if numbers is not None:
        stream.positions = numbers
        if "id" not in events.roles:
            stream.ids = numbers
    return stream
