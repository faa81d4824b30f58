"""What is known about a stream's columns, and its clock: lengths of time, moments, zones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from functools import cache
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from cepviz.errors import StreamError, did_you_mean

Number: TypeAlias = int | float


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
UNITS |= {"min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_WORDS = {"nanosecond": "ns", "microsecond": "us", "µs": "us", "millisecond": "ms", "sec": "s"}
_WORDS |= {"second": "s", "minute": "min", "hr": "h", "hour": "h", "day": "d"}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([^\W\d]+)")


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
        if self.unit not in UNITS:
            raise StreamError(f"unknown unit {self.unit!r} (must be one of {', '.join(UNITS)})")

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
            return self._scaled(sum(Fraction(n) * nanoseconds_in(word) for n, word in parts))
        if unit is None:
            return amount  # type: ignore[return-value]
        return self._scaled(Fraction(str(amount)) * nanoseconds_in(unit))

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
            when = when.replace(tzinfo=zone_of(self.zone))
        elif self.naive:
            raise StreamError(
                f"{str(moment)!r} has a time zone and this stream's times have none: leave it out"
            )
        return self._scaled((when - _EPOCH) // timedelta(seconds=1) * 10**9 + fraction)

    def format_time(self, number: Number) -> str:
        """A time of the stream as text: a date where the stream has dates, else the number."""
        if self.zone is None:
            return number_text(number)
        seconds, fraction = divmod(round(number * UNITS[self.unit]), 10**9)
        try:
            when = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone_of(self.zone))
        except OverflowError:
            return number_text(number)
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
            return number_text(number)
        left = round(abs(number) * UNITS[self.unit])
        parts = []
        for unit, size in reversed(UNITS.items()):
            count, left = divmod(left, size)
            if count:
                parts.append(f"{count} {unit}")
        return ("-" if number < 0 else "") + (" ".join(parts) or "0 s")

    def _scaled(self, nanoseconds: Fraction | int) -> Number:
        exact = Fraction(nanoseconds) / UNITS[self.unit]
        return exact.numerator if exact.denominator == 1 else float(exact)


def nanoseconds_in(unit: str) -> int:
    word = unit.lower() if unit.lower() in UNITS else unit.lower().removesuffix("s")
    if word == "week":
        return 7 * UNITS["d"]
    if (short := _WORDS.get(word, word)) not in UNITS:
        near = did_you_mean(unit, [*UNITS, *(f"{name}s" for name in _WORDS)])
        raise StreamError(f"unknown unit of time {unit!r}{near}: use one of {', '.join(UNITS)}")
    return UNITS[short]


@cache
def zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # also where the machine has no time zone data
    if name.startswith("UTC"):
        return datetime.strptime(name, "UTC%z").tzinfo or UTC
    return ZoneInfo(name)


@cache
def offset_name(text: str) -> str | None:
    return zone_name(datetime.fromisoformat(f"1970-01-01T00:00{text.upper()}").tzinfo)


@cache
def zone_name(zone: tzinfo | None) -> str | None:
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


def number_text(number: Number) -> str:
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1e15
    return str(int(number) if whole else number)
