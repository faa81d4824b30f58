"""Python values as literals of the language."""

from __future__ import annotations

import datetime
import math
from typing import Any

from cepviz.errors import PatternError
from cepviz.language.expressions import Duration, Expression, Literal, Negative, Timestamp

#: Python refuses to print and to read longer whole numbers.
MOST_BITS = 14_000


def as_literal(value: Any) -> Expression:
    """The literal for a Python value: a number, string, truth value, timedelta or datetime."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, datetime.datetime):
        return Timestamp(value.isoformat(" "))
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()  # a numpy scalar
    if isinstance(value, float) and not math.isfinite(value):
        raise PatternError(f"{value} cannot be written in a pattern")
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise PatternError("this number is too large")
    if isinstance(value, bool):
        return Literal(value)
    # As the plain kind, without what an enum or another child of it adds.
    if isinstance(value, int):
        return Literal(int.__int__(value))
    if isinstance(value, float):
        return Literal(float.__float__(value))
    if isinstance(value, str):
        return Literal(str.__str__(value))
    raise PatternError(
        f"{value!r} cannot be written in a pattern: use a number, a string, True, False, "
        "a timedelta or a datetime"
    )


def _duration(value: datetime.timedelta) -> Expression:
    """The length in the largest unit that measures it in whole numbers: `90 minutes`."""
    if value < datetime.timedelta(0):
        return Negative(_duration(-value))
    for unit in ("days", "hours", "minutes", "seconds", "milliseconds"):
        amount, rest = divmod(value, datetime.timedelta(**{unit: 1}))
        if amount and not rest:
            return Duration(amount, unit)
    return Duration(value // datetime.timedelta(microseconds=1), "microseconds")
