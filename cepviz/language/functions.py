"""Functions that predicates may call, registered from Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cepviz.errors import CepError, did_you_mean


@dataclass(frozen=True)
class Function:
    """A named function on values; `columns`, if given, does the same on whole numpy arrays."""

    name: str
    scalar: Callable[..., Any]
    columns: Callable[..., Any] | None = None


FUNCTIONS: dict[str, Function] = {}


def function(
    scalar: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    columns: Callable[..., Any] | None = None,
) -> Any:
    """Registers a Python function for use in patterns, by its own name or the one given.

    It is never called with a missing value: the predicate is then unknown.

    >>> import cepviz as cep
    >>> @cep.function
    ... def spread(low, high):
    ...     return high - low
    >>> str(cep.parse("PATTERN SEQ(A a) WHERE spread(a.low, a.high) > 2"))
    'PATTERN SEQ(A a)\\nWHERE spread(a.low, a.high) > 2'
    """
    if scalar is None:
        return lambda given: function(given, name=name, columns=columns)
    called = name or scalar.__name__
    if not called.isidentifier():
        raise CepError(f"a function needs a plain name, not {called!r}: pass name='...'")
    FUNCTIONS[called] = Function(called, scalar, columns)
    return scalar


def find_function(name: str) -> Function:
    """The function registered under a name."""
    if name not in FUNCTIONS:
        raise CepError(
            f"unknown function {name!r}{did_you_mean(name, FUNCTIONS)}; "
            "register it with cepviz.function"
        )
    return FUNCTIONS[name]


def correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Pearson's correlation of two equally long histories; None where one of them is constant.

    >>> correlation([1, 2, 3], [2, 4, 6])
    1.0
    """
    if len(left) != len(right) or len(left) < 2:
        raise ValueError(f"Corr needs two histories of one length, not {len(left)}, {len(right)}")
    middle_left, middle_right = sum(left) / len(left), sum(right) / len(right)
    square_left = square_right = product = 0.0
    for x, y in zip(left, right, strict=True):
        x -= middle_left
        y -= middle_right
        square_left += x * x
        square_right += y * y
        product += x * y
    spread = square_left * square_right
    return product / math.sqrt(spread) if spread > 0 else None


function(correlation, name="Corr")
