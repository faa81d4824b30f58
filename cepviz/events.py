"""Events and streams: one event, what is known about its columns, and many events in order."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from cepviz.errors import StreamError, did_you_mean

__all__ = ["Event", "Schema", "Stream"]

Number: TypeAlias = int | float
Array: TypeAlias = np.ndarray[Any, Any]

_BUILT_IN = ("type", "id", "time", "start", "end")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_UNITS |= {"min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_WORDS = {"nanosecond": "ns", "microsecond": "us", "µs": "us", "millisecond": "ms", "sec": "s"}
_WORDS |= {"second": "s", "minute": "min", "hr": "h", "hour": "h", "day": "d"}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([^\W\d]+)")
_OFFSET = re.compile(r"[Zz]$|[+-]\d\d:?(?:\d\d)?$")


@dataclass(frozen=True)
class Schema:
    """What is known about a stream's columns and its clock, without looking at any event.

    `attributes` maps a column to its kind: number, string, bool, time, list or other. Every time
    in the stream is a number of `unit`. `zone` is None where time is a plain number, otherwise the
    zone dates are printed in; dates that came without a zone are `naive`: counted as if in UTC and
    printed bare. `roles` names the columns that hold type, time, end and id.
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    unit: str = "s"
    zone: str | None = None
    naive: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise StreamError(f"unknown unit {self.unit!r} (must be one of {', '.join(_UNITS)})")

    def duration(self, amount: Number | str | timedelta, unit: str | None = None) -> Number:
        """A length of time in the stream's unit.

        >>> Schema(unit="s").duration(10, "minutes")
        600
        >>> Schema(unit="ms").duration("1 min 2.5 s")
        62500
        """
        if isinstance(amount, timedelta):
            micros = Fraction(amount // timedelta(microseconds=1))
            # A pandas Timedelta keeps the nanoseconds below the microsecond apart.
            return self._scaled(micros * 1000 + getattr(amount, "nanoseconds", 0))
        if isinstance(amount, str) and unit is None:
            parts = _AMOUNT.findall(amount)
            if not parts or _AMOUNT.sub("", amount).strip():
                raise StreamError(f"{amount!r} is not a length of time: write it like '5 minutes'")
            return self._scaled(sum(Fraction(n) * _nanoseconds(word) for n, word in parts))
        if unit is None:
            return amount  # type: ignore[return-value]
        return self._scaled(Fraction(str(amount)) * _nanoseconds(unit))

    def timestamp(self, moment: Number | str | datetime) -> Number:
        """A moment, such as `"2024-01-01 10:00"`, as a number on the stream's clock."""
        if isinstance(moment, (int, float, np.number)):
            return moment
        if self.zone is None:
            raise StreamError(
                f"this stream counts time in plain numbers (unit {self.unit!r}): "
                f"give a number instead of {str(moment)!r}"
            )
        # fromisoformat drops digits below the microsecond, so the fraction is read here.
        parts = re.fullmatch(r"(.*?\d:\d\d:\d\d)(?:\.(\d{1,9}))?(\D.*)?", str(moment).strip())
        whole = f"{parts[1]}{parts[3] or ''}" if parts else str(moment)
        fraction = int((parts[2] or "0").ljust(9, "0")) if parts else 0
        try:
            when = datetime.fromisoformat(whole)
        except ValueError:
            raise StreamError(
                f"{str(moment)!r} is not a date: write it like '2024-01-31 10:00:00'"
            ) from None
        if when.tzinfo is None:
            when = when.replace(tzinfo=_zone(self.zone))
        elif self.naive:
            raise StreamError(
                f"{str(moment)!r} has a time zone and this stream's times have none: leave it out"
            )
        return self._scaled((when - _EPOCH) // timedelta(seconds=1) * 10**9 + fraction)

    def format_time(self, number: Number) -> str:
        """A time of the stream as text: a date where the stream has dates, else the number."""
        if self.zone is None:
            return _number(number)
        seconds, fraction = divmod(round(number * _UNITS[self.unit]), 10**9)
        try:
            when = (_EPOCH + timedelta(seconds=seconds)).astimezone(_zone(self.zone))
        except OverflowError:
            return _number(number)
        if self.naive and not fraction and when.time() == _EPOCH.time():
            return f"{when:%Y-%m-%d}"
        digits = f".{fraction:09d}" if fraction else ""
        while digits.endswith("000"):
            digits = digits[:-3]
        shift = "" if self.naive else when.isoformat()[19:]
        return f"{when.replace(tzinfo=None).isoformat(sep=' ')}{digits}{shift}"

    def format_duration(self, number: Number) -> str:
        """A length of time as text: `5 min 2 s` where the stream has dates, else the number."""
        if self.zone is None:
            return _number(number)
        left = round(abs(number) * _UNITS[self.unit])
        parts = []
        for unit, size in reversed(_UNITS.items()):
            count, left = divmod(left, size)
            if count:
                parts.append(f"{count} {unit}")
        return ("-" if number < 0 else "") + (" ".join(parts) or "0 s")

    def _scaled(self, nanoseconds: Fraction | int) -> Number:
        exact = Fraction(nanoseconds) / _UNITS[self.unit]
        return exact.numerator if exact.denominator == 1 else float(exact)


class _Fields:
    """The slots of an event while they are being filled."""

    __slots__ = ("attributes", "end", "id", "position", "schema", "start", "type")

    def __init__(
        self,
        position: int,
        id: Any,
        type: str,
        start: Number,
        end: Number,
        attributes: dict[str, Any],
        schema: Schema | None,
    ):
        self.position = position
        self.id = id
        self.type = type
        self.start = start
        self.end = end
        self.attributes = attributes
        self.schema = schema


class Event(_Fields):
    """One thing that happened: its type, its time and its attributes.

    `e.price` and `e["price"]` are the same attribute; a missing value is None. An interval event
    has a `start` before its `end`; `time` is the end. `attributes=` takes names that are no
    Python words, or that mean something else here.

    >>> Event("Stock", 5, id=6, symbol="GOOG", price=120)
    e6 Stock symbol=GOOG price=120 at 5
    """

    __slots__ = ()

    def __init__(
        self,
        type: str,
        time: Number,
        *,
        id: Any = None,
        end: Number | None = None,
        position: int = -1,
        schema: Schema | None = None,
        attributes: Mapping[str, Any] | None = None,
        **more: Any,
    ):
        values = {
            name: None if isinstance(value, float) and value != value else value
            for name, value in {**(attributes or {}), **more}.items()
        }
        fields = {"position": position, "id": id, "type": type, "start": time}
        fields |= {"end": time if end is None else end, "attributes": values, "schema": schema}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def time(self) -> Number:
        """When the event is over, which is when it takes its place in the stream."""
        return self.end

    @property
    def is_interval(self) -> bool:
        """Whether the event takes time: its start and its end differ."""
        return self.start != self.end

    @property
    def label(self) -> str:
        """A short name: `e6` for the event with id 6, the id itself where it is text."""
        if self.id is None:
            return self.type
        return f"e{self.id}" if isinstance(self.id, int) else str(self.id)

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute, or else the built-in type, id, time, start or end, or else the default."""
        if name in self.attributes:
            return self.attributes[name]
        return getattr(self, name) if name in _BUILT_IN else default

    def __getitem__(self, name: str) -> Any:
        if name in self.attributes:
            return self.attributes[name]
        if name in _BUILT_IN:
            return getattr(self, name)
        raise KeyError(self._missing(name))

    def __getattr__(self, name: str) -> Any:
        # Notebooks probe objects for such names; a column must not be able to answer them.
        if not name.startswith(("__", "_repr_", "_ipython_")) and name in self.attributes:
            return self.attributes[name]
        raise AttributeError(self._missing(name))

    def _missing(self, name: str) -> str:
        return f"{self.label} has no attribute {name!r}{did_you_mean(name, self.attributes)}"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"events do not change: cannot set {name!r} of {self.label}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"events do not change: cannot delete {name!r} of {self.label}")

    def _key(self) -> tuple[Any, ...]:
        return (self.position, self.id, self.type, self.start, self.end, self.attributes)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.id, self.end))

    def __reduce__(self) -> tuple[Any, ...]:
        return _event, (*self._key(), self.schema)

    def __repr__(self) -> str:
        schema = self.schema or Schema()
        shown = [name for name in self.attributes if name not in schema.roles.values()]
        words = [] if self.id is None else [_short(self.label)]
        words.append(_short(self.type))
        words += [f"{_short(name)}={_shown(self, name)}" for name in shown[:8]]
        words += [f"and {len(shown) - 8} more"] if len(shown) > 8 else []
        end = schema.format_time(self.end)
        if self.is_interval:
            return " ".join([*words, "from", schema.format_time(self.start), "to", end])
        return " ".join([*words, "at", end])


def _event(*fields: Any) -> Event:
    # Filling plain slots and then closing the object takes half the time of going round the
    # closed __setattr__ seven times; streams of millions notice.
    event = _Fields(*fields)
    event.__class__ = Event
    return event  # type: ignore[return-value]


class _Column(NamedTuple):
    """One column: typed data, where it is missing, and for text the values its codes stand for."""

    kind: str
    data: Array
    nulls: Array | None = None
    values: Array | None = None  # ends in None, so that the code -1 decodes to it

    def take(self, rows: Any) -> _Column:
        nulls = None if self.nulls is None else self.nulls[rows]
        return _Column(self.kind, self.data[rows], nulls, self.values)

    def decoded(self) -> Array:
        return self.data if self.values is None else self.values[self.data]

    def tolist(self) -> list[Any]:
        data = self.decoded()
        if self.nulls is not None and self.values is None:
            data = data.astype(object)
            data[self.nulls] = None
        listed: list[Any] = data.tolist()
        return listed


class Stream:
    """Events in order of (end time, arrival), kept as columns.

    Make one with `Stream.from_pandas`, `from_records`, `read_csv`, `read_parquet` or `read_json`.
    A stream iterates as events, `stream[5]` is one event, and `stream[100:200]` is a stream on the
    same memory. `types`, `starts`, `ends`, `ids` and `positions` are numpy arrays; a type is a
    code, and `stream.schema.types[code]` its name.

    >>> Stream.from_records([{"type": "A", "time": 1, "x": 3}, {"type": "B", "time": 2, "x": 4}])[1]
    e1 B x=4 at 2
    """

    def __init__(
        self,
        schema: Schema,
        columns: dict[str, _Column],
        types: Array,
        starts: Array,
        ends: Array,
        ids: Array,
        positions: Array,
    ):
        self.schema = schema
        self._columns = columns
        self.types = types
        self.starts = starts
        self.ends = ends
        self.ids = ids
        self.positions = positions
        self._late: Stream | None = None

    # Making streams

    @classmethod
    def from_pandas(
        cls,
        df: Any,
        *,
        type: str = "type",
        time: str = "time",
        end: str | None = None,
        id: str | None = None,
        every: str | None = None,
        sort: bool = False,
        lateness: Number | str | timedelta | None = None,
        unit: str | None = None,
    ) -> Stream:
        """A stream of the rows of a DataFrame.

        `type`, `time`, `end` and `id` are column names. `every="Stock"` gives every row that type
        instead. With `end`, rows are intervals from `time` to `end`. Rows must be in order of
        time, unless `sort=True` sorts them (ties keep their order) or `lateness="5 minutes"`
        lets them come that late; rows later than that are left out and kept in `stream.late`.
        Numbers in the time column count `unit` ("s" if not given); dates count nanoseconds.
        """
        import pandas as pd

        if not isinstance(df, pd.DataFrame) and hasattr(df, "to_pandas"):
            df = df.to_pandas()  # polars, arrow
        if not isinstance(df, pd.DataFrame):
            kind = df.__class__.__name__
            fix = "use Stream.from_records for dicts and events"
            raise StreamError(f"from_pandas takes a DataFrame, not a {kind}: {fix}")
        if every is not None and type != "type":
            raise StreamError("type= and every= exclude each other: a column, or one type for all")
        if not len(df):
            raise StreamError("the input has no rows: a stream needs at least one event")
        frame: dict[str, Any] = {}
        for place, name in enumerate(df.columns):
            if not isinstance(name, str) or name in frame:
                what = "as another column is" if name in frame else "which is not text"
                fix = "rename it in df.columns"
                raise StreamError(f"column {place} is named {name!r}, {what}: {fix}", column=name)
            frame[name] = df.iloc[:, place].reset_index(drop=True)
        roles = {"type": type if every is None else None, "time": time, "end": end, "id": id}
        named = {role: name for role, name in roles.items() if name is not None}
        for role, name in named.items():
            if name not in frame:
                raise _no_column(role, name, df)
        given = {role: frame[name] for role, name in named.items()}
        if every is not None:
            given["type"] = _series([every] * len(df))
        return cls._build(frame, given, named, sort, lateness, unit)

    @classmethod
    def from_records(cls, records: Iterable[Any], **keywords: Any) -> Stream:
        """A stream of dicts, or of events; takes the keywords of `from_pandas`.

        Events bring their own type, time and id, so only `sort`, `lateness` and `unit` are for
        them. A key that a dict lacks is a missing value.
        """
        import pandas as pd

        if isinstance(records, (str, bytes, Mapping)) or not isinstance(records, Iterable):
            kind = records.__class__.__name__
            raise StreamError(f"from_records takes a list of dicts or events, not a {kind}")
        rows = list(records)
        events = bool(rows) and isinstance(rows[0], Event)
        for row, record in enumerate(rows):
            if not isinstance(record, Event if events else Mapping):
                fix = "make it an event, as row 0 is" if events else "make it a dict"
                raise StreamError(f"row {row} is a {record.__class__.__name__}: {fix}", row=row)
        attributes = [row.attributes for row in rows] if events else rows
        names = dict.fromkeys(name for row in attributes for name in row)
        frame = {name: _series([row.get(name) for row in attributes]) for name in names}
        if not events:
            table = pd.DataFrame(dict(enumerate(frame.values())))
            table.columns = pd.Index(list(frame), dtype=object)
            return cls.from_pandas(table, **keywords)
        return cls._from_events(rows, frame, **keywords)

    @classmethod
    def _from_events(
        cls,
        events: list[Event],
        frame: dict[str, Any],
        sort: bool = False,
        lateness: Number | str | timedelta | None = None,
        unit: str | None = None,
    ) -> Stream:
        given = {
            role: _series([getattr(event, name) for event in events])
            for role, name in {"type": "type", "time": "start", "end": "end", "id": "id"}.items()
        }
        if all(event.id is None for event in events):
            del given["id"]
        origin = next((event.schema for event in events if event.schema is not None), None)
        if origin is None:
            return cls._build(frame, given, {}, sort, lateness, unit)
        clock = (origin.unit, origin.zone, origin.naive)
        for row, event in enumerate(events):
            schema = event.schema or origin
            if (schema.unit, schema.zone, schema.naive) != clock or unit not in (None, clock[0]):
                fix = "events of one stream need the same unit and zone"
                raise StreamError(f"row {row} is on another clock: {fix}", row=row)
        return cls._build(frame, given, dict(origin.roles), sort, lateness, None, origin)

    @classmethod
    def read_csv(cls, path: Any, **keywords: Any) -> Stream:
        """A stream of the rows of a CSV file with a header; takes the keywords of `from_pandas`.

        Empty cells and NA, null, NaN are missing values. For any other dialect read the file with
        pandas and use `from_pandas`.
        """
        import pandas as pd

        # Nullable dtypes keep whole numbers whole; no index keeps a ragged row from shifting.
        options = {"dtype_backend": "numpy_nullable", "low_memory": False, "index_col": False}
        return cls.from_pandas(_read(pd.read_csv, path, **options), **keywords)

    @classmethod
    def read_parquet(cls, path: Any, **keywords: Any) -> Stream:
        """A stream of the rows of a Parquet file; takes the keywords of `from_pandas`."""
        import pandas as pd

        frame = _read(pd.read_parquet, path, dtype_backend="numpy_nullable")
        return cls.from_pandas(frame, **keywords)

    @classmethod
    def read_json(cls, path: Any, **keywords: Any) -> Stream:
        """A stream of a file with one JSON object a line; takes the keywords of `from_pandas`."""
        return cls.from_records(_read(_json_lines, path), **keywords)

    @classmethod
    def _build(
        cls,
        frame: dict[str, Any],
        given: dict[str, Any],
        roles: dict[str, str],
        sort: bool,
        lateness: Number | str | timedelta | None,
        unit: str | None,
        origin: Schema | None = None,
    ) -> Stream:
        """The stream of raw columns (`frame`) and what holds type, time, end and id (`given`)."""
        if sort and lateness is not None:
            raise StreamError("sort=True puts every row in order: leave lateness= out")
        label = {role: roles.get(role, role) for role in ("type", "time", "end", "id")}
        starts, clock = _times(label["time"], given["time"], unit)
        ends = starts
        if "end" in given:
            ends, other = _times(label["end"], given["end"], unit)
            _same_clock(label["end"], other, clock, label["time"])
        clock = replace(origin or clock, roles=roles)
        if (backward := ends < starts).any():
            row = int(backward.argmax())
            said = [clock.format_time(times[row].item()) for times in (ends, starts)]
            what = f"the end {said[0]} is before the start {said[1]}"
            raise _bad(row, label["end"], what, "swap or correct them")
        if ends is not starts and np.array_equal(starts, ends):
            ends = starts
        columns = {}
        times = {roles.get("time"): starts, roles.get("end"): ends}
        for name, series in frame.items():
            if name in times:
                columns[name] = _Column("time" if clock.zone else "number", times[name])
            else:
                columns[name] = _column(name, series, clock)
            if origin is not None and origin.attributes.get(name) == "time":
                columns[name] = columns[name]._replace(kind="time")
        types = _types(label["type"], given["type"])
        assert types.values is not None
        ids = _ids(label["id"], given["id"], clock) if "id" in given else None
        rows, late = _order(ends, label["end" if "end" in given else "time"], clock, sort, lateness)
        schema = replace(
            clock,
            attributes={name: column.kind for name, column in columns.items()},
            types=tuple(types.values[:-1].tolist()),
        )
        numbers = np.arange(len(ends))
        names = numbers if ids is None else ids
        read = cls(schema, columns, types.data, starts, ends, names, numbers)
        stream = read._take(rows)
        stream.positions = numbers[: len(stream)]
        stream.ids = stream.positions if ids is None else stream.ids
        # A late event has no place in the stream: its row in the input stands for its position.
        stream._late = read._take(late) if len(late) else None
        arrays = [column.data for column in stream._columns.values()]
        for array in (*arrays, stream.types, stream.starts, stream.ends, stream.ids):
            array.flags.writeable = False  # slices share them
        return stream

    # Looking at streams

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[Event]:
        names, schema, size = tuple(self._columns), self.schema, 8192
        type_names = np.array(schema.types, dtype=object)
        for low in range(0, len(self), size):
            rows = slice(low, low + size)
            lists = [column.take(rows).tolist() for column in self._columns.values()]
            ends = self.ends[rows].tolist()
            for position, id, type, start, end, values in zip(
                self.positions[rows].tolist(),
                self.ids[rows].tolist(),
                type_names[self.types[rows]].tolist(),
                ends if self.starts is self.ends else self.starts[rows].tolist(),
                ends,
                zip(*lists, strict=True) if lists else repeat((), len(ends)),
                strict=True,
            ):
                attributes = dict(zip(names, values, strict=True))
                event = _Fields(position, id, type, start, end, attributes, schema)
                event.__class__ = Event
                yield event  # type: ignore[misc]

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            place = range(len(self))[index]
            return next(iter(self[place : place + 1]))
        if index.step not in (None, 1):
            raise StreamError(f"a slice of a stream has no gaps: leave the step {index.step} out")
        return self._take(index)

    def _take(self, rows: Any) -> Stream:
        ends = self.ends[rows]
        return Stream(
            self.schema,
            {name: column.take(rows) for name, column in self._columns.items()},
            self.types[rows],
            ends if self.starts is self.ends else self.starts[rows],
            ends,
            self.ids[rows],
            self.positions[rows],
        )

    def between(self, start: Any = None, end: Any = None) -> Stream:
        """The part of the stream from `start` up to, but not including, `end`.

        Both are times as numbers or as text (`"2024-01-02 10:00"`); None leaves that side open. An
        interval event counts where it ends.
        """
        low, high = 0, len(self)
        if start is not None:
            low = int(np.searchsorted(self.ends, self.schema.timestamp(start)))
        if end is not None:
            high = int(np.searchsorted(self.ends, self.schema.timestamp(end)))
        part: Stream = self[low : max(low, high)]
        return part

    @property
    def late(self) -> Stream:
        """The rows that came later than `lateness=` allows; their id is their row in the input."""
        return self[:0] if self._late is None else self._late

    def column(self, name: str) -> Array:
        """The values of one attribute, or of type, id, time, start or end, as a numpy array.

        Where a value is missing, text and objects hold None, floats NaN and other numbers 0: ask
        `mask` which those are.
        """
        if name in self._columns or name not in _BUILT_IN:
            return self._column(name).decoded()
        if name == "type":
            return np.array(self.schema.types, dtype=object)[self.types]
        return {"id": self.ids, "start": self.starts}.get(name, self.ends)

    def columns(self, names: Iterable[str] | None = None) -> dict[str, Array]:
        """Several columns by name, all of them if no names are given."""
        return {name: self.column(name) for name in (self._columns if names is None else names)}

    def codes(self, name: str) -> tuple[Array, list[str]]:
        """A text column as int32 codes and the values they stand for; -1 is a missing value."""
        if name == "type" and name not in self._columns:
            return self.types, list(self.schema.types)
        column = self._column(name)
        if column.values is None:
            raise StreamError(f"column {name!r} holds {column.kind} values, not text", column=name)
        return column.data, column.values[:-1].tolist()

    def mask(self, name: str) -> Array:
        """True where the attribute is missing."""
        nulls = None
        if name in self._columns or name not in _BUILT_IN:
            nulls = self._column(name).nulls
        return np.zeros(len(self), dtype=bool) if nulls is None else nulls

    def _column(self, name: str) -> _Column:
        if name not in self._columns:
            near = did_you_mean(name, self._columns)
            raise StreamError(f"the stream has no column {name!r}{near}", column=name)
        return self._columns[name]

    def counts(self) -> dict[str, int]:
        """How many events there are of each type that occurs."""
        found = np.bincount(self.types, minlength=len(self.schema.types)).tolist()
        return {name: n for name, n in zip(self.schema.types, found, strict=True) if n}

    def to_pandas(self) -> Any:
        """The stream as a DataFrame, dates as dates again."""
        import pandas as pd

        schema = self.schema
        built_in = {
            "type": _Column("string", self.column("type")),
            "time": _Column("time", self.starts),
            "end": _Column("time", self.ends),
            "id": _Column("number", self.ids),
        }
        implied = {"end": self.starts is self.ends, "id": np.array_equal(self.ids, self.positions)}
        columns = {
            role: column
            for role, column in built_in.items()
            if role not in schema.roles and not implied.get(role)
        }
        frame = {}
        for name, column in {**columns, **self._columns}.items():
            series: Any = pd.Series(column.decoded())
            if column.kind == "time" and schema.zone is not None:
                series = pd.to_datetime(series, unit="ns", utc=True)
                series = series.dt.tz_convert(None if schema.naive else _zone(schema.zone))
            elif column.nulls is not None and series.dtype.kind in "ib":
                series = series.astype("boolean" if column.kind == "bool" else "Int64")
            decoded = column.nulls is None or column.values is not None
            frame[name] = series if decoded else series.mask(column.nulls)
        return pd.DataFrame(frame)

    def __repr__(self) -> str:
        lines = [*self._summary(), *(f"  {event!r}" for event in self[:8])]
        return "\n".join([*lines, f"  and {len(self) - 8} more"] if len(self) > 8 else lines)

    def _summary(self) -> list[str]:
        lines = [f"Stream of {len(self)} event{'' if len(self) == 1 else 's'}"]
        if len(self):
            first, last = self.starts.min().item(), self.ends[-1].item()
            span = f"{self.schema.format_time(first)} to {self.schema.format_time(last)}"
            lines[0] += f", {span} ({self.schema.format_duration(last - first)})"
            types = sorted(self.counts().items(), key=lambda entry: -entry[1])
            more = f" and {len(types) - 8} more" if len(types) > 8 else ""
            lines.append("types: " + ", ".join(f"{_short(t)} {n}" for t, n in types[:8]) + more)
        if self._late is not None:
            lines.append(f"late: {len(self._late)} left out, see stream.late")
        return lines

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        names = [name for name in self._columns if name not in self.schema.roles.values()]
        times = ["time"] if self.starts is self.ends else ["start", "end"]
        # No colours of its own: the table takes the notebook's, light or dark.
        style = "style='background:inherit;color:inherit;text-align:left;padding:2px 8px'"
        heads = ["event", "type", *times, *(_short(name) for name in names[:12])]
        rows = ["".join(f"<th {style}>{html.escape(text)}</th>" for text in heads)]
        for event in self[:8]:
            cells = [(event.label, _short(event.label)), (event.type, _short(event.type))]
            cells += [("", self.schema.format_time(getattr(event, name))) for name in times]
            cells += [(event.attributes[name], _shown(event, name)) for name in names[:12]]
            rows.append("".join(_cell(value, text, style) for value, text in cells))
        table = "".join(f"<tr style='background:inherit'>{row}</tr>" for row in rows)
        more = [f"and {len(self) - 8} more events"] if len(self) > 8 else []
        more += [f"and {len(names) - 12} more columns"] if len(names) > 12 else []
        said = "".join(f"<div>{html.escape(line)}</div>" for line in self._summary())
        rest = "".join(f"<div style='opacity:.7'>{line}</div>" for line in more)
        page = f"<div class='cepviz-stream'>{said}<table>{table}</table>{rest}</div>"
        return {"text/plain": repr(self), "text/html": page}


# Reading columns


def _bad(row: Any, column: str, what: str, fix: str) -> StreamError:
    return StreamError(f"row {row}, column {column!r}: {what}: {fix}", row=int(row), column=column)


def _no_column(role: str, name: str, df: Any) -> StreamError:
    if df.index.name == name:
        fix = "it is the index, so use df.reset_index()"
    elif role == "type":
        fix = "name the column with type=, or give all rows one type with every='Stock'"
    else:
        fix = f"name the column with {role}="
    near = did_you_mean(name, df.columns)
    have = ", ".join(_short(column) for column in df.columns[:12])
    text = f"there is no {role} column {name!r}{near}: {fix}; the columns are {have}"
    return StreamError(text, column=name)


def _series(values: list[Any]) -> Any:
    import pandas as pd

    return pd.Series(values, dtype=object)


def _kind(series: Any) -> tuple[str, Any]:
    """What a pandas column holds, in one word for all the dtypes that can hold it."""
    import pandas as pd

    letter = series.dtype.kind
    if letter in "iufbMm":
        words = {"i": "integer", "u": "integer", "f": "floating", "b": "boolean", "M": "dates"}
        return words.get(letter, "timedelta"), series
    if series.dtype != object and pd.api.types.is_string_dtype(series.dtype):
        return "string", series
    series = series.astype(object)  # categories, periods, ...: judged by their values
    word = pd.api.types.infer_dtype(series[series.notna()], skipna=False)
    same = {"datetime": "dates", "datetime64": "dates", "date": "dates", "decimal": "floating"}
    same |= {"mixed-integer-float": "floating", "timedelta64": "timedelta"}
    return same.get(word, word), series


def _column(name: str, series: Any, clock: Schema) -> _Column:
    """A column of any dtype as typed data; what has no type of its own stays Python objects."""
    import pandas as pd

    word, series = _kind(series)
    nulls = series.isna().to_numpy(dtype=bool)
    missing = nulls if nulls.any() else None
    if word == "floating":
        data = np.array(series.to_numpy(dtype="float64", na_value=np.nan))
        nulls = np.isnan(data)
        return _Column("number", data, nulls if nulls.any() else None)
    if word in ("integer", "boolean"):
        data = np.array(series.to_numpy() if missing is None else series.to_numpy(dtype=object))
        data[nulls] = 0
        if word == "boolean":
            return _Column("bool", data.astype(bool), missing)
        big = data.dtype.kind in "uO" and not -(2**63) <= min(data) <= max(data) < 2**63
        return _Column("number", data.astype(object if big else "int64"), missing)
    if word == "dates":
        data, found = _dates(name, series)
        if clock.zone is not None:
            _same_clock(name, found, clock, clock.roles.get("time", "time"))
        return _Column("time", _in_unit(data, clock), missing)
    if word == "timedelta":
        lengths = pd.to_timedelta(series).dt.as_unit("ns").fillna(pd.Timedelta(0))
        return _Column("number", _in_unit(lengths.to_numpy().astype("int64"), clock), missing)
    if word == "string":
        codes, values = pd.factorize(series)
        texts = np.array([*(str(value) for value in values), None], dtype=object)
        return _Column("string", codes.astype("int32"), missing, texts)
    objects = np.empty(len(series), dtype=object)
    objects[:] = [_plain(value) for value in series]
    objects[nulls] = None
    lists = not nulls.all() and all(isinstance(value, list) for value in objects[~nulls])
    return _Column("list" if lists else "other", objects, missing)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _in_unit(nanoseconds: Array, clock: Schema) -> Array:
    size = _UNITS[clock.unit]
    exact = not (nanoseconds % size).any()
    return nanoseconds // size if exact else nanoseconds / size


def _times(name: str, series: Any, unit: str | None) -> tuple[Array, Schema]:
    """The time column as numbers, and the clock they are read on."""
    word, series = _kind(series)
    nulls = series.isna().to_numpy(dtype=bool)
    if nulls.any():
        fix = "drop such rows, or fill the time in"
        raise _bad(nulls.argmax(), name, "the time is missing", fix)
    if word in ("integer", "floating"):
        data = _column(name, series, Schema()).data
        finite = abs(data.astype("float64")) < 2.0**63
        if not finite.all():
            row = int(finite.argmin())
            raise _bad(row, name, f"{data[row]} is no time", "use finite numbers below 2**63")
        return data, Schema(unit=unit or "s")
    if word not in ("dates", "string"):
        classes = [value.__class__ for value in series]
        row = next((i for i, found in enumerate(classes) if found is not classes[0]), 0)
        what = f"{_short(series.iloc[row])} is a {classes[row].__name__}"
        if row:
            what += f" and row 0 ({_short(series.iloc[0])}) a {classes[0].__name__}"
        raise _bad(row, name, what, "make the times all numbers or all dates")
    if unit not in (None, "ns"):
        text = f"column {name!r} holds dates, which count nanoseconds: leave unit={unit!r} out"
        raise StreamError(text, column=name)
    return _dates(name, series)


def _dates(name: str, series: Any) -> tuple[Array, Schema]:
    """Dates as nanoseconds since 1970 (0 where missing), and the clock of their zone."""
    import pandas as pd

    if series.dtype.kind != "M":
        series, zone = _parsed(name, series)
    else:
        series = pd.to_datetime(series)  # which arrow's dates need
        zone = _zone_name(series.dt.tz)
        series = series if zone is None else series.dt.tz_convert(None)
    far = ((series <= pd.Timestamp.min) | (series >= pd.Timestamp.max)).to_numpy()
    if far.any():
        row = int(far.argmax())
        raise _bad(row, name, f"{series.iloc[row]} is too far away", "use the years 1678 to 2261")
    data = series.dt.as_unit("ns").fillna(pd.Timestamp(0)).to_numpy().astype("int64")
    return data, Schema(unit="ns", zone=zone or "UTC", naive=zone is None)


def _parsed(name: str, series: Any) -> tuple[Any, str | None]:
    """Dates written as text or kept as Python objects, as UTC dates and the zone they name."""
    import pandas as pd

    known = series.notna().to_numpy(dtype=bool)
    rows, values = np.flatnonzero(known), series[known].tolist()
    zones: list[str | None]
    if isinstance(values[0], str):
        for place, value in enumerate(values):
            if value.isdigit():
                fix = "use pd.to_numeric or pd.to_datetime on the column first"
                raise _bad(rows[place], name, f"{_short(value)} is a number written as text", fix)
        # Pandas 2 takes bare times that follow zoned ones as UTC without a word: look first.
        marks = [_OFFSET.search(value, 10) for value in values]
        zones = [None if mark is None else _offset_name(mark[0]) for mark in marks]
        dates = pd.to_datetime(series, errors="coerce", utc=True, format="ISO8601")
    else:
        zones = [_zone_name(getattr(value, "tzinfo", None)) for value in values]
        dates = pd.to_datetime(series, errors="coerce", utc=True)
    wrong = known & dates.isna().to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        fix = "write dates like 2024-01-31 10:00:00, or use pd.to_datetime on the column first"
        raise _bad(row, name, f"{_short(series.iloc[row])} is no date from 1678 to 2261", fix)
    named = set(zones)
    if None in named and len(named) > 1:
        at = next(i for i, zone in enumerate(zones) if (zone is None) != (zones[0] is None))
        has, had = ("a", "none") if zones[0] is None else ("no", "one")
        what = f"{_short(str(values[at]))} has {has} time zone, row {rows[0]} has {had}"
        raise _bad(rows[at], name, what, "give all of them a zone, or none")
    return dates.dt.tz_convert(None), zones[0] if len(named) == 1 else "UTC"


def _same_clock(name: str, clock: Schema, other: Schema, than: str) -> None:
    if (clock.zone is None, clock.naive) != (other.zone is None, other.naive):
        said = [
            ("dates without a zone" if found.naive else "dates with a zone")
            if found.zone
            else "plain numbers"
            for found in (clock, other)
        ]
        fix = "make them alike, as with .dt.tz_localize" if clock.zone else "make them alike"
        text = f"column {name!r} holds {said[0]} and {than!r} holds {said[1]}: {fix}"
        raise StreamError(text, column=name)


def _types(name: str, series: Any) -> _Column:
    word, series = _kind(series)
    if series.isna().any():
        fix = "fill it in, or drop such rows"
        raise _bad(series.isna().to_numpy().argmax(), name, "the event type is missing", fix)
    if word != "string":
        row = next(i for i, value in enumerate(series) if not isinstance(value, str))
        what = f"the event type {_short(series.iloc[row])} is not text"
        raise _bad(row, name, what, "name types, as with 'T' + df[...].astype(str)")
    return _column(name, series, Schema())


def _ids(name: str, series: Any, clock: Schema) -> Array:
    import pandas as pd

    column = _column(name, series, clock)
    if column.nulls is not None:
        fix = "fill it in, or leave id= out to number the events"
        raise _bad(column.nulls.argmax(), name, "the id is missing", fix)
    mixed = column.kind == "other" and all(isinstance(value, int | str) for value in column.data)
    if column.kind not in ("number", "string") and not mixed:
        raise _bad(0, name, f"{_short(series.iloc[0])} is no id", "use numbers or text")
    twice = pd.Series(column.data).duplicated().to_numpy()
    if twice.any():
        row = int(twice.argmax())
        first = int((column.data == column.data[row]).argmax())
        what = f"the id {_short(series.iloc[row])} is already that of row {first}"
        raise _bad(row, name, what, "make ids unique, or leave id= out to number the events")
    return column.decoded()


def _order(
    ends: Array, name: str, clock: Schema, sort: bool, lateness: Number | str | timedelta | None
) -> tuple[Any, Array]:
    """Which rows make the stream, in order, and which came too late."""
    allowed = 0 if lateness is None else clock.duration(lateness)
    if not allowed >= 0:
        raise StreamError(f"lateness={lateness!r} must not be negative")
    if not (ends[1:] < ends[:-1]).any():
        return slice(None), np.arange(0)
    if sort:
        return np.argsort(ends, kind="stable"), np.arange(0)
    behind = np.maximum.accumulate(ends) - ends
    if lateness is None:
        row = int((behind > 0).argmax())
        at, before = (clock.format_time(ends[i].item()) for i in (row, row - 1))
        most = clock.format_duration(behind.max().item())
        what = f"time goes back from {before} to {at}"
        fix = f"sort=True sorts, lateness={most if clock.zone is None else repr(most)} lets rows"
        raise _bad(row, name, what, f"{fix} come late by that much")
    late = behind > allowed
    kept, left = np.flatnonzero(~late), np.flatnonzero(late)
    return (
        kept[np.argsort(ends[kept], kind="stable")],
        left[np.argsort(ends[left], kind="stable")],
    )


# Reading files


def _read(reader: Any, path: Any, **options: Any) -> Any:
    """What the reader makes of the file; every way a file can be bad is a StreamError."""
    from pandas.errors import EmptyDataError

    try:
        return reader(path, **options)
    except FileNotFoundError:
        folder = Path(path).parent
        near = did_you_mean(Path(path).name, [p.name for p in folder.glob("*")])
        raise StreamError(f"there is no file {str(path)!r}{near}") from None
    except EmptyDataError:
        raise StreamError(f"{str(path)!r} has no rows") from None
    except StreamError:
        raise
    except Exception as error:  # parsers of foreign files raise whatever they like
        raise StreamError(f"cannot read {str(path)!r}: {error}") from error


def _json_lines(path: Any) -> list[Any]:
    records = []
    with open(path, encoding="utf-8-sig") as lines:
        for line, text in enumerate(lines, start=1):
            try:
                if text.strip():
                    records.append(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise StreamError(
                    f"line {line} of {str(path)!r} is not JSON ({error}): write one object a line",
                    row=len(records),
                ) from None
    return records


# Words for numbers, zones and values


def _nanoseconds(unit: str) -> int:
    word = unit.lower() if unit.lower() in _UNITS else unit.lower().removesuffix("s")
    if word == "week":
        return 7 * _UNITS["d"]
    if (short := _WORDS.get(word, word)) not in _UNITS:
        near = did_you_mean(unit, [*_UNITS, *(f"{name}s" for name in _WORDS)])
        raise StreamError(f"unknown unit of time {unit!r}{near}: use one of {', '.join(_UNITS)}")
    return _UNITS[short]


@cache
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # also where the machine has no time zone data
    if name.startswith("UTC"):
        return datetime.strptime(name, "UTC%z").tzinfo or UTC
    return ZoneInfo(name)


@cache
def _offset_name(text: str) -> str | None:
    return _zone_name(datetime.fromisoformat(f"1970-01-01T00:00{text.upper()}").tzinfo)


@cache
def _zone_name(zone: tzinfo | None) -> str | None:
    """`Europe/Berlin`, `UTC` or `UTC+01:00`; a zone of unknown name is printed in UTC."""
    if zone is None:
        return None
    shift = zone.utcoffset(None)
    if shift is not None:
        return str(timezone(shift))
    try:
        return ZoneInfo(str(zone)).key
    except (KeyError, ValueError, OSError):
        return "UTC"


def _number(number: Number) -> str:
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1e15
    return str(int(number) if whole else number)


def _short(value: Any) -> str:
    """A value in a few characters: long ones cut in the middle, odd ones quoted."""
    if isinstance(value, float):
        return _number(value)
    text = str(value) if isinstance(value, (str, date)) else repr(value)
    if len(text) > 40:
        text = f"{text[:24]}…{text[-15:]}"
    if isinstance(value, str) and (not text.isprintable() or not re.fullmatch(r"[^\s'\"=]+", text)):
        return repr(text)
    return text


def _shown(event: Event, name: str) -> str:
    value, schema = event.attributes[name], event.schema or Schema()
    if schema.attributes.get(name) == "time" and isinstance(value, (int, float)):
        return schema.format_time(value)
    return _short(value)


def _cell(value: Any, text: str, style: str) -> str:
    title = ""
    if isinstance(value, str) and len(value) > 40:
        whole = value[:2000] if value[:2000].isprintable() else repr(value[:2000])
        title = f" title='{html.escape(whole)}'"
    return f"<td dir='auto' {style}{title}>{html.escape(text)}</td>"
