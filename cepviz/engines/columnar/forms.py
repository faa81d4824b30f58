"""The two speeds of a kernel: its source as plain Python, or compiled by numba. One source."""

from __future__ import annotations

import importlib.util
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from cepviz.errors import SetupError

#: What a kernel returns: the outer candidate it stopped at, matches and elements up to there,
#: matches and elements in all, and how many candidates were tried.
Told = tuple[int, int, int, int, int, int]
Function = Callable[..., Told]


@cache
def numba_is_there() -> bool:
    return importlib.util.find_spec("numba") is not None


@lru_cache(maxsize=256)
def plain(source: str) -> Function:
    """The kernel as Python runs it."""
    namespace: dict[str, Any] = {"lower": bisect_left}
    exec(compile(source, "<kernel>", "exec"), namespace)
    function: Function = namespace["kernel"]
    return function


@lru_cache(maxsize=256)
def compiled(source: str) -> Function:
    """The kernel as numba compiles it, when it is first called; kept for the same source."""
    if not numba_is_there():
        raise SetupError("compiled=True needs numba: pip install 'cepviz[fast]', or leave it out")
    import numba

    namespace: dict[str, Any] = {"lower": _lower()}
    exec(compile(source, "<kernel>", "exec"), namespace)
    function: Function = numba.njit(error_model="numpy")(namespace["kernel"])
    return function


@cache
def _lower() -> Any:
    import numba

    def lower(places: Any, place: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high) // 2
            if places[middle] < place:
                low = middle + 1
            else:
                high = middle
        return low

    return numba.njit(lower)


def for_plain(value: Any) -> Any:
    """An argument as plain Python is quickest with it: lists, not arrays."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def for_compiled(value: Any) -> Any:
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value
