"""`Statistics`: what a planner knows about a stream, as a value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cepviz.errors import CepError


@dataclass(frozen=True)
class Statistics:
    """Arrival rates by event type, and selectivities by condition.

    A rate is the number of events of a type that one window of the pattern holds on average. A
    selectivity is the share of candidates for which a condition, named by its text, is true: of
    the events of its variable, or of the pairs that are in order and in one window. Conditions
    that were never measured count as always true, and without any rate all types are alike.

    >>> s = Statistics({"A": 100, "B": 15}, {"a.x < b.x": 0.1})
    >>> s.rate("B"), s.rate("C"), s.selectivity("a.x < b.x"), s.selectivity("a.y = 1")
    (15, 0.0, 0.1, 1.0)
    >>> dict(s.with_values({"rate(B)": 20}).values())["rate(B)"]
    20
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.values():
            if not math.isfinite(value) or value < 0:
                raise CepError(f"{name} is {value}: it must be a number from 0")
        for text, value in self.selectivities.items():
            if value > 1:
                raise CepError(f"sel({text}) is {value}: a selectivity lies between 0 and 1")

    def rate(self, type: str) -> float:
        """How many events of a type a window holds."""
        return self.rates.get(type, 0.0 if self.rates else 1.0)

    def selectivity(self, condition: object) -> float:
        """The share of candidates that a condition lets pass."""
        return self.selectivities.get(str(condition), 1.0)

    def values(self) -> Iterator[tuple[str, float]]:
        """Every statistic with its name, `rate(A)` or `sel(a.x < b.x)`."""
        for type, value in self.rates.items():
            yield f"rate({type})", value
        for text, value in self.selectivities.items():
            yield f"sel({text})", value

    def with_values(self, values: Mapping[str, float]) -> Statistics:
        """The same with some values set by hand, named as in `values()`."""
        rates, selectivities = dict(self.rates), dict(self.selectivities)
        for name, value in values.items():
            kind, _, rest = name.partition("(")
            if kind == "rate" and rest.endswith(")"):
                rates[rest[:-1]] = value
            elif kind == "sel" and rest.endswith(")"):
                selectivities[rest[:-1]] = value
            else:
                raise CepError(f"no statistic is called {name!r}: write rate(A), or sel(a.x < b.x)")
        return replace(self, rates=rates, selectivities=selectivities)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in self.values()) or "nothing known"
