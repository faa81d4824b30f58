"""A stream: many events in order, kept as columns."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import repeat
from typing import Any

import numpy as np

from cepviz.errors import StreamError, did_you_mean
from cepviz.events.columns import (
    Array,
    Column,
    as_series,
    bad_value,
    in_order,
    no_column,
    read_column,
    read_ids,
    read_times,
    read_types,
    same_clock,
)
from cepviz.events.event import BUILT_IN, Event, Fields, short, value_text
from cepviz.events.files import json_lines, read_file
from cepviz.events.schema import Number, Schema, zone_of


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
        columns: dict[str, Column],
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
                raise no_column(role, name, df)
        given = {role: frame[name] for role, name in named.items()}
        if every is not None:
            given["type"] = as_series([every] * len(df))
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
        frame = {name: as_series([row.get(name) for row in attributes]) for name in names}
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
            role: as_series([getattr(event, name) for event in events])
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
        return cls.from_pandas(read_file(pd.read_csv, path, **options), **keywords)

    @classmethod
    def read_parquet(cls, path: Any, **keywords: Any) -> Stream:
        """A stream of the rows of a Parquet file; takes the keywords of `from_pandas`."""
        import pandas as pd

        frame = read_file(pd.read_parquet, path, dtype_backend="numpy_nullable")
        return cls.from_pandas(frame, **keywords)

    @classmethod
    def read_json(cls, path: Any, **keywords: Any) -> Stream:
        """A stream of a file with one JSON object a line; takes the keywords of `from_pandas`."""
        return cls.from_records(read_file(json_lines, path), **keywords)

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
        starts, clock = read_times(label["time"], given["time"], unit)
        ends = starts
        if "end" in given:
            ends, other = read_times(label["end"], given["end"], unit)
            same_clock(label["end"], other, clock, label["time"])
        clock = replace(origin or clock, roles=roles)
        if (backward := ends < starts).any():
            row = int(backward.argmax())
            said = [clock.format_time(times[row].item()) for times in (ends, starts)]
            what = f"the end {said[0]} is before the start {said[1]}"
            raise bad_value(row, label["end"], what, "swap or correct them")
        if ends is not starts and np.array_equal(starts, ends):
            ends = starts
        columns = {}
        times = {roles.get("time"): starts, roles.get("end"): ends}
        for name, series in frame.items():
            if name in times:
                columns[name] = Column("time" if clock.zone else "number", times[name])
            else:
                columns[name] = read_column(name, series, clock)
            if origin is not None and origin.attributes.get(name) == "time":
                columns[name] = columns[name]._replace(kind="time")
        types = read_types(label["type"], given["type"])
        assert types.values is not None
        ids = read_ids(label["id"], given["id"], clock) if "id" in given else None
        rows, late = in_order(
            ends, label["end" if "end" in given else "time"], clock, sort, lateness
        )
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
                event = Fields(position, id, type, start, end, attributes, schema)
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
        if name in self._columns or name not in BUILT_IN:
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
        if name in self._columns or name not in BUILT_IN:
            nulls = self._column(name).nulls
        return np.zeros(len(self), dtype=bool) if nulls is None else nulls

    def _column(self, name: str) -> Column:
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
            "type": Column("string", self.column("type")),
            "time": Column("time", self.starts),
            "end": Column("time", self.ends),
            "id": Column("number", self.ids),
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
                series = series.dt.tz_convert(None if schema.naive else zone_of(schema.zone))
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
            lines.append("types: " + ", ".join(f"{short(t)} {n}" for t, n in types[:8]) + more)
        if self._late is not None:
            lines.append(f"late: {len(self._late)} left out, see stream.late")
        return lines

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        names = [name for name in self._columns if name not in self.schema.roles.values()]
        times = ["time"] if self.starts is self.ends else ["start", "end"]
        # No colours of its own: the table takes the notebook's, light or dark.
        style = "style='background:inherit;color:inherit;text-align:left;padding:2px 8px'"
        heads = ["event", "type", *times, *(short(name) for name in names[:12])]
        rows = ["".join(f"<th {style}>{html.escape(text)}</th>" for text in heads)]
        for event in self[:8]:
            cells = [(event.label, short(event.label)), (event.type, short(event.type))]
            cells += [("", self.schema.format_time(getattr(event, name))) for name in times]
            cells += [(event.attributes[name], value_text(event, name)) for name in names[:12]]
            rows.append("".join(_cell(value, text, style) for value, text in cells))
        table = "".join(f"<tr style='background:inherit'>{row}</tr>" for row in rows)
        more = [f"and {len(self) - 8} more events"] if len(self) > 8 else []
        more += [f"and {len(names) - 12} more columns"] if len(names) > 12 else []
        said = "".join(f"<div>{html.escape(line)}</div>" for line in self._summary())
        rest = "".join(f"<div style='opacity:.7'>{line}</div>" for line in more)
        page = f"<div class='cepviz-stream'>{said}<table>{table}</table>{rest}</div>"
        return {"text/plain": repr(self), "text/html": page}


def _cell(value: Any, text: str, style: str) -> str:
    title = ""
    if isinstance(value, str) and len(value) > 40:
        whole = value[:2000] if value[:2000].isprintable() else repr(value[:2000])
        title = f" title='{html.escape(whole)}'"
    return f"<td dir='auto' {style}{title}>{html.escape(text)}</td>"
