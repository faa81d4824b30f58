"""The two speeds of a kernel: its source as plain Python, or compiled by numba. One source."""

from __future__ import annotations

import importlib.util
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from cepviz.errors import SetupError

#: What a kernel returns: the outer candidate it stopped at, matches and elements up to there,
#: matches and elements in all, and how many candidates were tried (negative if a
#: single outer candidate has more lists than `lists` allows).
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


def given(arguments: Iterable[Any], scratch: Iterable[tuple[int, str]], fast: bool) -> list[Any]:
    """A kernel's own arguments in the form it is quickest with: arrays if compiled, else lists."""
    if fast:
        arrays = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        return [*arrays, *(np.zeros(size, dtype=kind) for size, kind in scratch)]
    lists = [a.tolist() if isinstance(a, np.ndarray) else a for a in arguments]
    return [*lists, *([0] * size for size, _ in scratch)]


def buffers(words: int, room: int, fast: bool) -> tuple[Any, Any]:
    """Where a kernel writes matches, and the elements of their lists."""
    if fast:
        return np.empty(words, dtype="int32"), np.empty(room, dtype="int32")
    return [0] * words, [0] * room


class Pace:
    """How many outer candidates one call gets: about a quarter of a second's worth, so that Ctrl-C
    comes through, which compiled code does not hear."""

    def __init__(self, outer: int):
        self.outer = outer
        self.step = max(outer // 64, 256)
        self.started = time.perf_counter()

    def next(self, low: int) -> int:
        """Where the next call ends, by how long the last one took."""
        now = time.perf_counter()
        if low:
            took = max(now - self.started, 1e-4)
            self.step = max(int(self.step * min(max(0.25 / took, 0.25), 8)), 1)
        self.started = now
        return min(low + self.step, self.outer)
