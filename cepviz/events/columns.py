"""Columns of a DataFrame, or of dicts, as typed arrays; each bad value by its row and column."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cepviz.errors import StreamError, did_you_mean
from cepviz.events.event import short
from cepviz.events.schema import UNITS, Number, Schema, offset_name, zone_name

Array: TypeAlias = np.ndarray[Any, Any]


_OFFSET = re.compile(r"[Zz]$|[+-]\d\d:?(?:\d\d)?$")


class Column(NamedTuple):
    """One column: typed data, where it is missing, and for text the values its codes stand for."""

    kind: str
    data: Array
    nulls: Array | None = None
    values: Array | None = None  # ends in None, so that the code -1 decodes to it

    def take(self, rows: Any) -> Column:
        nulls = None if self.nulls is None else self.nulls[rows]
        return Column(self.kind, self.data[rows], nulls, self.values)

    def decoded(self) -> Array:
        return self.data if self.values is None else self.values[self.data]

    def tolist(self) -> list[Any]:
        data = self.decoded()
        if self.nulls is not None and self.values is None:
            data = data.astype(object)
            data[self.nulls] = None
        listed: list[Any] = data.tolist()
        return listed


def bad_value(row: Any, column: str, what: str, fix: str) -> StreamError:
    return StreamError(f"row {row}, column {column!r}: {what}: {fix}", row=int(row), column=column)


def no_column(role: str, name: str, df: Any) -> StreamError:
    if df.index.name == name:
        fix = "it is the index, so use df.reset_index()"
    elif role == "type":
        fix = "name the column with type=, or give all rows one type with every='Stock'"
    else:
        fix = f"name the column with {role}="
    near = did_you_mean(name, df.columns)
    have = ", ".join(short(column) for column in df.columns[:12])
    text = f"there is no {role} column {name!r}{near}: {fix}; the columns are {have}"
    return StreamError(text, column=name)


def as_series(values: list[Any]) -> Any:
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


def read_column(name: str, series: Any, clock: Schema) -> Column:
    """A column of any dtype as typed data; what has no type of its own stays Python objects."""
    import pandas as pd

    word, series = _kind(series)
    nulls = series.isna().to_numpy(dtype=bool)
    missing = nulls if nulls.any() else None
    if word == "floating":
        data = np.array(series.to_numpy(dtype="float64", na_value=np.nan))
        nulls = np.isnan(data)
        return Column("number", data, nulls if nulls.any() else None)
    if word in ("integer", "boolean"):
        data = np.array(series.to_numpy() if missing is None else series.to_numpy(dtype=object))
        data[nulls] = 0
        if word == "boolean":
            return Column("bool", data.astype(bool), missing)
        big = data.dtype.kind in "uO" and not -(2**63) <= min(data) <= max(data) < 2**63
        return Column("number", data.astype(object if big else "int64"), missing)
    if word == "dates":
        data, found = _dates(name, series)
        if clock.zone is not None:
            same_clock(name, found, clock, clock.roles.get("time", "time"))
        return Column("time", _in_unit(data, clock), missing)
    if word == "timedelta":
        lengths = pd.to_timedelta(series).dt.as_unit("ns").fillna(pd.Timedelta(0))
        return Column("number", _in_unit(lengths.to_numpy().astype("int64"), clock), missing)
    if word == "string":
        codes, values = pd.factorize(series)
        texts = np.array([*(str(value) for value in values), None], dtype=object)
        return Column("string", codes.astype("int32"), missing, texts)
    objects = np.empty(len(series), dtype=object)
    objects[:] = [_plain(value) for value in series]
    objects[nulls] = None
    lists = not nulls.all() and all(isinstance(value, list) for value in objects[~nulls])
    return Column("list" if lists else "other", objects, missing)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _in_unit(nanoseconds: Array, clock: Schema) -> Array:
    size = UNITS[clock.unit]
    exact = not (nanoseconds % size).any()
    return nanoseconds // size if exact else nanoseconds / size


def read_times(name: str, series: Any, unit: str | None) -> tuple[Array, Schema]:
    """The time column as numbers, and the clock they are read on."""
    word, series = _kind(series)
    nulls = series.isna().to_numpy(dtype=bool)
    if nulls.any():
        fix = "drop such rows, or fill the time in"
        raise bad_value(nulls.argmax(), name, "the time is missing", fix)
    if word in ("integer", "floating"):
        data = read_column(name, series, Schema()).data
        finite = abs(data.astype("float64")) < 2.0**63
        if not finite.all():
            row = int(finite.argmin())
            raise bad_value(row, name, f"{data[row]} is no time", "use finite numbers below 2**63")
        return data, Schema(unit=unit or "s")
    if word not in ("dates", "string"):
        classes = [value.__class__ for value in series]
        row = next((i for i, found in enumerate(classes) if found is not classes[0]), 0)
        what = f"{short(series.iloc[row])} is a {classes[row].__name__}"
        if row:
            what += f" and row 0 ({short(series.iloc[0])}) a {classes[0].__name__}"
        raise bad_value(row, name, what, "make the times all numbers or all dates")
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
        zone = zone_name(series.dt.tz)
        series = series if zone is None else series.dt.tz_convert(None)
    far = ((series <= pd.Timestamp.min) | (series >= pd.Timestamp.max)).to_numpy()
    if far.any():
        row = int(far.argmax())
        raise bad_value(
            row, name, f"{series.iloc[row]} is too far away", "use the years 1678 to 2261"
        )
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
                raise bad_value(
                    rows[place], name, f"{short(value)} is a number written as text", fix
                )
        # Pandas 2 takes bare times that follow zoned ones as UTC without a word: look first.
        marks = [_OFFSET.search(value, 10) for value in values]
        zones = [None if mark is None else offset_name(mark[0]) for mark in marks]
        dates = pd.to_datetime(series, errors="coerce", utc=True, format="ISO8601")
    else:
        zones = [zone_name(getattr(value, "tzinfo", None)) for value in values]
        dates = pd.to_datetime(series, errors="coerce", utc=True)
    wrong = known & dates.isna().to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        fix = "write dates like 2024-01-31 10:00:00, or use pd.to_datetime on the column first"
        raise bad_value(row, name, f"{short(series.iloc[row])} is no date from 1678 to 2261", fix)
    named = set(zones)
    if None in named and len(named) > 1:
        at = next(i for i, zone in enumerate(zones) if (zone is None) != (zones[0] is None))
        has, had = ("a", "none") if zones[0] is None else ("no", "one")
        what = f"{short(str(values[at]))} has {has} time zone, row {rows[0]} has {had}"
        raise bad_value(rows[at], name, what, "give all of them a zone, or none")
    return dates.dt.tz_convert(None), zones[0] if len(named) == 1 else "UTC"


def same_clock(name: str, clock: Schema, other: Schema, than: str) -> None:
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


def read_types(name: str, series: Any) -> Column:
    word, series = _kind(series)
    if series.isna().any():
        fix = "fill it in, or drop such rows"
        raise bad_value(series.isna().to_numpy().argmax(), name, "the event type is missing", fix)
    if word != "string":
        row = next(i for i, value in enumerate(series) if not isinstance(value, str))
        what = f"the event type {short(series.iloc[row])} is not text"
        raise bad_value(row, name, what, "name types, as with 'T' + df[...].astype(str)")
    return read_column(name, series, Schema())


def read_ids(name: str, series: Any, clock: Schema) -> Array:
    import pandas as pd

    column = read_column(name, series, clock)
    if column.nulls is not None:
        fix = "fill it in, or leave id= out to number the events"
        raise bad_value(column.nulls.argmax(), name, "the id is missing", fix)
    mixed = column.kind == "other" and all(isinstance(value, int | str) for value in column.data)
    if column.kind not in ("number", "string") and not mixed:
        raise bad_value(0, name, f"{short(series.iloc[0])} is no id", "use numbers or text")
    twice = pd.Series(column.data).duplicated().to_numpy()
    if twice.any():
        row = int(twice.argmax())
        first = int((column.data == column.data[row]).argmax())
        what = f"the id {short(series.iloc[row])} is already that of row {first}"
        raise bad_value(row, name, what, "make ids unique, or leave id= out to number the events")
    return column.decoded()


def in_order(
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
        raise bad_value(row, name, what, f"{fix} come late by that much")
    late = behind > allowed
    kept, left = np.flatnonzero(~late), np.flatnonzero(late)
    return (
        kept[np.argsort(ends[kept], kind="stable")],
        left[np.argsort(ends[left], kind="stable")],
    )
