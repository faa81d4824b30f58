"""Answers to the exercises of the notebooks, for the tests: of each a right one and a wrong one.

A teacher finds the solutions here. The checks themselves do not: they compute them.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Answers(NamedTuple):
    """What a check must accept, and what it must not."""

    right: Any
    wrong: Any


LOGIN = """
PATTERN SEQ(Fail f, ~(Reset r), Login l)
WHERE [user]
WITHIN 60 seconds
"""
RISE = """
PATTERN SEQ(Temp+ a[], Temp c)
WHERE strict_contiguity {
    a[1].value > 80 and a[i].value > a[i-1].value and c.value <= a[a.LEN].value }
WITHIN 12
"""

ANSWERS: dict[str, dict[str, Answers]] = {
    "01_language_and_strategies": {
        "counts": Answers([1, 3, 3, 4], [1, 2, 3, 4]),
        "login": Answers(LOGIN, LOGIN.replace(", ~(Reset r)", "")),
        "rise": Answers(RISE, RISE.replace("strict_contiguity", "skip_till_next_match")),
    },
    "02_nfab_and_buffer": {
        "versions": Answers(["1", "1.1", "1.1.0"], ["1", "1.0", "1.1", "1.1.0"]),
        "average": Answers(122, 120.5),
        "window": Answers(20, 15),
    },
    "03_lazy_evaluation": {
        "count": Answers((15, 9), (15, 10)),
        "scope": Answers(("b", "d"), ("start", "d")),
        "order": Answers("dcab", "acdb"),
    },
    "04_plans_and_adaptivity": {
        "greedy": Answers("bac", "bca"),
        "breaks": Answers(10, 9),
        "policy": Answers("invariant(1, 1)", "invariant(1, 0)"),
    },
    "05_apam": {
        "order": Answers("CBA", "BCA"),
        "limit": Answers(90_909, 47_619),
        "split": Answers("CDE/BA", "E/DCBA"),
    },
}
