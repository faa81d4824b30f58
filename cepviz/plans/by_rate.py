"""The rarest event type first: INVARIANTS Example 1, LAZY's order by selectivity."""

from __future__ import annotations

from cepviz.language.pattern import Pattern
from cepviz.plans.conditions import Planned, Side
from cepviz.plans.greedy import smallest_first
from cepviz.plans.plan import Order
from cepviz.plans.statistics import Statistics


def by_rate(pattern: Pattern, statistics: Statistics) -> Planned:
    """Sorts the variables by the rate of their type.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN SEQ(A a, B b, C c) WITHIN 10 minutes")
    >>> print(by_rate(p, Statistics({"A": 100, "B": 15, "C": 10})))
    c, b, a
      c first: rate(C) < rate(A), rate(C) < rate(B)
      b second: rate(B) < rate(A)
      a third: nothing was compared
    """
    types = {v.name: v.type for v in pattern.variables.values() if not v.negated}

    def side(name: str, chosen: tuple[str, ...]) -> Side:
        type = types[name]
        return Side(f"rate({type})", lambda statistics, memo: statistics.rate(type))

    order, blocks = smallest_first(tuple(types), side, statistics)
    return Planned(Order(*order), blocks)
