"""The thirteen relations between two intervals (Allen), each as comparisons of their ends.

Of any two intervals exactly one relation holds, also where one of them is a point: a point at the
start of an interval STARTS it, one at its end FINISHES it.
"""

from __future__ import annotations

from typing import Protocol

#: Comparisons between two ends: a and A are start and end of the first, b and B of the second.
_HALF = {
    "BEFORE": ("A < b",),
    "MEETS": ("A = b", "a < b", "A < B"),
    "OVERLAPS": ("a < b", "b < A", "A < B"),
    "STARTS": ("a = b", "A < B"),
    "DURING": ("b < a", "A < B"),
    "FINISHES": ("b < a", "A = B"),
    "EQUALS": ("a = b", "A = B"),
}
INVERSE = {
    "BEFORE": "AFTER",
    "MEETS": "MET_BY",
    "OVERLAPS": "OVERLAPPED_BY",
    "STARTS": "STARTED_BY",
    "DURING": "CONTAINS",
    "FINISHES": "FINISHED_BY",
}
INVERSE |= {later: earlier for earlier, later in INVERSE.items()} | {"EQUALS": "EQUALS"}

_SWAPPED = str.maketrans("aAbB", "bBaA")

#: By name, the comparisons that must hold: left end, operator, right end.
RELATIONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    name: tuple(tuple(test.split()) for test in tests)  # type: ignore[misc]
    for name, tests in (
        *_HALF.items(),
        *(
            (INVERSE[name], [test.translate(_SWAPPED) for test in tests])
            for name, tests in _HALF.items()
            if name != "EQUALS"
        ),
    )
}


class Interval(Protocol):
    """Anything with a start and an end."""

    @property
    def start(self) -> int | float: ...
    @property
    def end(self) -> int | float: ...


def relation(first: Interval, second: Interval) -> str:
    """The relation in which one interval stands to another.

    >>> from cepviz import Event
    >>> relation(Event("A", 1, end=4), Event("B", 3, end=9))
    'OVERLAPS'
    >>> relation(Event("A", 3), Event("B", 3, end=9))
    'STARTS'
    """
    ends = {"a": first.start, "A": first.end, "b": second.start, "B": second.end}
    return next(
        name
        for name, tests in RELATIONS.items()
        if all(
            ends[left] < ends[right] if sign == "<" else ends[left] == ends[right]
            for left, sign, right in tests
        )
    )
