"""Counting over a sliding window in little memory: exponential histograms after Datar et al."""

from __future__ import annotations

import math
from collections import deque


class ExponentialHistogram:
    """Counts what happened in the last `span` of time with a relative error of at most `error`.

    Happenings are kept in buckets of 1, 2, 4, ... of them, each with the time of its newest. When
    there are too many buckets of a size, the two oldest become one of twice the size. Only the
    oldest bucket may reach out of the window, and half of it is counted; it is never more than
    2 * error of what is newer. Memory is logarithmic in the count.

    >>> h = ExponentialHistogram(span=100, error=0.1)
    >>> for t in range(1000):
    ...     h.add(t)
    >>> abs(h.count(999) - 100) <= 10, h.buckets < 40
    (True, True)
    """

    def __init__(self, span: float, error: float = 0.05):
        self.span = span
        self._most = math.ceil(1 / (2 * error)) + 1  # buckets of one size
        self._sizes: list[deque[float]] = []  # by power of two, each with the newest first
        self._total = 0

    def add(self, now: float) -> None:
        """Something happened now."""
        if not self._sizes:
            self._sizes.append(deque())
        self._sizes[0].appendleft(now)
        self._total += 1
        level = 0
        while len(self._sizes[level]) > self._most:
            here = self._sizes[level]
            here.pop()
            newest = here.pop()  # of the two oldest, the later
            level += 1
            if level == len(self._sizes):
                self._sizes.append(deque())
            self._sizes[level].appendleft(newest)

    def count(self, now: float) -> float:
        """About how often it happened after now - span."""
        edge = now - self.span
        while self._sizes:
            last = self._sizes[-1]
            while last and last[-1] <= edge:
                last.pop()
                self._total -= 1 << (len(self._sizes) - 1)
            if last:
                break
            self._sizes.pop()
        if not self._sizes:
            return 0.0
        oldest = 1 << (len(self._sizes) - 1)
        return self._total - (oldest - 1) / 2

    @property
    def buckets(self) -> int:
        """How many buckets there are: what it keeps in memory."""
        return sum(map(len, self._sizes))


class WindowedCount:
    """The same exactly, by keeping the time of everything in the window: for comparison."""

    def __init__(self, span: float, error: float = 0.0):
        self.span = span
        self._times: deque[float] = deque()

    def add(self, now: float) -> None:
        """Something happened now."""
        self._times.append(now)
        self._forget(now)

    def count(self, now: float) -> float:
        """How often it happened after now - span."""
        self._forget(now)
        return float(len(self._times))

    def _forget(self, now: float) -> None:
        while self._times and self._times[0] <= now - self.span:
            self._times.popleft()

    @property
    def buckets(self) -> int:
        return len(self._times)
