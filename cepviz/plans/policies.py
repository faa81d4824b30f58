"""When to plan anew: the decision policies of INVARIANTS sections 2.3 and 3.

A policy is told each plan that was made (`begin`) and is asked from time to time whether the
statistics have moved enough to make another (`decide`). A new policy is one class and one line
in `POLICIES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from cepviz.errors import CepError, PlanError, did_you_mean
from cepviz.plans.conditions import Condition, Planned
from cepviz.plans.cost import Memo
from cepviz.plans.statistics import Statistics
from cepviz.steps import Check, estimate

Emit = Callable[[Check], None]

#: A new plan that is expected to be cheaper by less than this share was not worth its while.
LITTLE = 0.1


@dataclass
class Policy:
    """Says when to plan anew."""

    name: ClassVar[str] = ""

    def begin(self, planned: Planned, statistics: Statistics) -> None:
        """A plan was made from these statistics, whether or not it differs from the one before."""

    def decide(self, statistics: Statistics, emit: Emit | None = None) -> str | None:
        """Why a new plan should be made, or None to go on; checks are told to `emit`."""
        raise NotImplementedError

    def learned(self, gain: float) -> None:
        """How much cheaper the plan is that the last decision led to, as a share of the old."""


@dataclass
class Static(Policy):
    """Never: the first plan stays."""

    name: ClassVar[str] = "static"

    def __str__(self) -> str:
        return self.name

    def decide(self, statistics: Statistics, emit: Emit | None = None) -> str | None:
        return None


@dataclass
class Unconditional(Policy):
    """Always: every time it is asked."""

    name: ClassVar[str] = "unconditional"

    def __str__(self) -> str:
        return self.name

    def decide(self, statistics: Statistics, emit: Emit | None = None) -> str | None:
        return "the policy is unconditional"


@dataclass
class Threshold(Policy):
    """When any statistic is further than `t` from its value when the plan was made (ZStream); with
    `relative`, further than that share of it."""

    t: float
    relative: bool = False
    _initial: dict[str, float] = field(default_factory=dict, init=False, repr=False)
    name: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        if not self.t >= 0:
            raise CepError(f"a threshold is a number from 0, not {self.t}")

    def __str__(self) -> str:
        return f"threshold({self.t:g}{', relative' if self.relative else ''})"

    def begin(self, planned: Planned, statistics: Statistics) -> None:
        self._initial = dict(statistics.values())

    def decide(self, statistics: Statistics, emit: Emit | None = None) -> str | None:
        for name, value in statistics.values():
            then = self._initial.get(name, 0.0)
            moved = abs(value - then)
            if self.relative:
                moved = moved / then if then else float(moved > 0)
            holds = moved <= self.t
            said = f"{name} went from {estimate(then)} to {estimate(value)}"
            if emit is not None:
                change = f"|{name} - {estimate(then)}|"
                emit(Check(f"change of {name}", change, "t", moved, self.t, holds))
            if not holds:
                return f"{said}, by more than {self.t:g}"
        return None


@dataclass
class Watched:
    """A deciding condition that is verified: an invariant of the plan, with its distance."""

    name: str
    condition: Condition
    distance: float
    whole: bool = False

    @property
    def key(self) -> frozenset[str]:
        """The two that are compared, whichever of them won."""
        return frozenset([self.condition.left.text, self.condition.right.text])

    def values(self, statistics: Statistics, memo: Memo) -> tuple[float, float]:
        """Both sides under these statistics."""
        condition = self.condition
        right = condition.whole if self.whole and condition.whole else condition.right
        return condition.left.value(statistics, memo), right.value(statistics, memo)

    def holds(self, left: float, right: float) -> bool:
        return self.condition.holds(left, right, self.distance)


@dataclass
class Invariant(Policy):
    """When a condition that decided the plan no longer holds.

    `k` is how many conditions of each block are watched, the tightest first; None for all of
    them. `d` is the distance by which the left side may exceed the right one before that counts:
    a number, "average" for the average relative difference between the sides when the first plan
    was made, or "adaptive" for one distance to each invariant that grows when breaking it brought
    little.
    """

    k: int | None = 1
    d: float | str = 0.0
    _distances: dict[frozenset[str], float] = field(default_factory=dict, init=False, repr=False)
    _average: float | None = field(default=None, init=False, repr=False)
    _broken: Watched | None = field(default=None, init=False, repr=False)
    watched: list[Watched] = field(default_factory=list, init=False, repr=False)
    name: ClassVar[str] = "invariant"

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise CepError(f"k is how many conditions are watched: from 1, or None, not {self.k}")
        if isinstance(self.d, str) and self.d not in ("average", "adaptive"):
            raise CepError(f"d is a number, 'average' or 'adaptive', not {self.d!r}")
        if not isinstance(self.d, str) and not self.d >= 0:
            raise CepError(f"d is a relative distance from 0, not {self.d}")

    def __str__(self) -> str:
        d = self.d if isinstance(self.d, str) else f"{self.d:g}"
        return f"invariant({'all' if self.k is None else self.k}, {d})"

    def begin(self, planned: Planned, statistics: Statistics) -> None:
        if planned.blocks is None:
            raise PlanError(
                "this planner does not say what decided its plan, so there is nothing to watch: "
                "use greedy, zstream or by_rate, or another policy"
            )
        if self._average is None:
            gaps = [c.difference for block in planned.blocks for c in block.conditions]
            self._average = sum(gaps) / len(gaps) if gaps else 0.0
        self.watched = list(self._chosen(planned))

    def _chosen(self, planned: Planned) -> Iterator[Watched]:
        number = 0
        for block in planned.blocks or ():
            tightest = sorted(block.conditions, key=lambda condition: condition.slack)
            for condition in tightest[: self.k]:
                number += 1
                watched = Watched(str(number), condition, 0.0, self.k is None)
                watched.distance = self._distance(watched.key)
                yield watched

    def _distance(self, key: frozenset[str]) -> float:
        if self.d == "average":
            return self._average or 0.0
        if self.d == "adaptive":
            return self._distances.get(key, 0.0)
        return float(self.d)

    def decide(self, statistics: Statistics, emit: Emit | None = None) -> str | None:
        memo: Memo = {}
        for watched in self.watched:
            left, right = watched.values(statistics, memo)
            holds = watched.holds(left, right)
            if emit is not None:
                condition = watched.condition
                emit(Check(watched.name, condition.left.text, condition.right.text,
                           left, right, holds, watched.distance))  # fmt: skip
            if not holds:
                self._broken = watched
                sides = watched.condition
                return (
                    f"{sides.left.text} {estimate(left)} < {sides.right.text} {estimate(right)} "
                    "no longer holds"
                )
        return None

    def learned(self, gain: float) -> None:
        broken = self._broken
        if self.d != "adaptive" or broken is None:
            return
        if gain < LITTLE:
            self._distances[broken.key] = max(2 * broken.distance, LITTLE / 2)
        else:
            self._distances[broken.key] = broken.distance / 2
        for watched in self.watched:
            watched.distance = self._distance(watched.key)


POLICIES: dict[str, type[Policy]] = {
    kind.name: kind for kind in (Static, Unconditional, Threshold, Invariant)
}


def policy_called(given: str | Policy) -> Policy:
    """A policy for one run: a fresh one of that name, or with the settings of the one given.

    >>> policy_called("invariant(2, 0.1)"), str(policy_called("threshold(6)"))
    (Invariant(k=2, d=0.1), 'threshold(6)')
    """
    if isinstance(given, Policy):
        return replace(given)
    found = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", given)
    name = found[1] if found else given
    if name not in POLICIES:
        raise CepError(
            f"unknown policy {given!r}{did_you_mean(name, POLICIES)} (must be one of "
            f"{list(POLICIES)}, as in 'invariant(1, 0.1)' or 'threshold(6)')"
        )
    texts = [text.strip() for text in (found[2] or "").split(",")] if found else []
    values = [_read(text) for text in texts if text]
    try:
        return POLICIES[name](*values)
    except TypeError:
        raise CepError(
            f"{given!r} is not complete: write 'static', 'unconditional', 'threshold(6)', "
            "'threshold(0.5, relative)' or 'invariant(1, 0.1)'"
        ) from None


def _read(text: str) -> int | float | str | bool | None:
    if text in ("all", "relative"):
        return None if text == "all" else True
    if re.fullmatch(r"\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text.strip("'\"")
