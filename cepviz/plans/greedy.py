"""The greedy planner for orders: INVARIANTS Algorithm 2."""

from __future__ import annotations

from collections.abc import Callable

from cepviz.language.pattern import Branch, Pattern
from cepviz.plans.conditions import Block, Planned, Side, compared
from cepviz.plans.cost import Memo, Model, model_of
from cepviz.plans.plan import Branched, Order
from cepviz.plans.statistics import Statistics

PLACES = ("first", "second", "third")


def greedy(pattern: Pattern, statistics: Statistics) -> Planned:
    """Takes next, each time, the variable that adds the fewest partial matches.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN SEQ(A a, B b, C c) WHERE a.x < c.x WITHIN 10 minutes")
    >>> print(greedy(p, Statistics({"A": 100, "B": 15, "C": 10}, {"a.x < c.x": 0.1})))
    c, a, b
      c first: rate(C) < rate(A), rate(C) < rate(B)
      a second: rate(A)·sel(a.x < c.x) < rate(B)
      b third: nothing was compared
    """
    made = [_ordered(branch, statistics) for branch in pattern.branches]
    orders = tuple(order for order, _ in made)
    blocks = tuple(block for _, listed in made for block in listed)
    return Planned(orders[0] if len(orders) == 1 else Branched(orders), blocks)


def _ordered(branch: Branch, statistics: Statistics) -> tuple[Order, tuple[Block, ...]]:
    model = model_of(branch)

    def side(name: str, chosen: tuple[str, ...]) -> Side:
        found: Side | None = model.sides.get((name, chosen))
        if found is None:
            found = model.sides[name, chosen] = _side(model, name, chosen)
        return found

    order, blocks = smallest_first(model.names, side, statistics)
    return Order(*order), blocks


def _side(model: Model, name: str, chosen: tuple[str, ...]) -> Side:
    """What taking a variable after those chosen adds."""
    if model.kleene:  # Its lists grow with what is joined, so that no factor can be left out.
        group = model.group(frozenset([*chosen, name]))
        return Side(f"card({', '.join([*chosen, name])})", group.product)
    type = model.types[name]
    texts = [*model.own[name], *model.conditions(name, chosen)]

    def value(statistics: Statistics, memo: Memo) -> float:
        found = statistics.rate(type)
        for text in texts:
            found *= statistics.selectivities.get(text, 1.0)
        return found

    return Side("·".join([f"rate({type})", *(f"sel({text})" for text in texts)]), value)


def smallest_first(
    names: tuple[str, ...],
    side: Callable[[str, tuple[str, ...]], Side],
    statistics: Statistics,
) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """Puts next, each time, the name whose side is smallest given those chosen; of equal ones the
    first in the text. Gives the order and, for each place, the comparisons that decided it."""
    memo: Memo = {}
    chosen: tuple[str, ...] = ()
    blocks = []
    while len(chosen) < len(names):
        sides = {name: side(name, chosen) for name in names if name not in chosen}
        best = min(sides, key=lambda name: sides[name].value(statistics, memo))
        place = PLACES[len(chosen)] if len(chosen) < 3 else f"{len(chosen) + 1}th"
        conditions = tuple(
            compared(sides[best], other, statistics, memo, names.index(best) < names.index(name))
            for name, other in sides.items()
            if name != best
        )
        blocks.append(Block(f"{best} {place}", conditions))
        chosen = (*chosen, best)
    return chosen, tuple(blocks)
