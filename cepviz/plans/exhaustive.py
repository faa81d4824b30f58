"""Every plan there is, and the cheapest of them: a judge of other planners, for few variables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from cepviz.errors import PlanError
from cepviz.language.pattern import Branch, Pattern
from cepviz.plans.conditions import Planned
from cepviz.plans.cost import Memo, Model, model_of
from cepviz.plans.plan import Branched, Order, Shape, Tree
from cepviz.plans.statistics import Statistics

#: 8! orders are 40,320; a branch with more variables is refused.
MOST = 8


def exhaustive(pattern: Pattern, statistics: Statistics) -> Planned:
    """The cheapest order.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN SEQ(A a, B b, C c) WITHIN 10 minutes")
    >>> print(exhaustive(p, Statistics({"A": 100, "B": 15, "C": 10})).plan)
    c, b, a
    """
    orders = tuple(_cheapest_order(branch, statistics) for branch in pattern.branches)
    return Planned(orders[0] if len(orders) == 1 else Branched(orders))


def exhaustive_tree(pattern: Pattern, statistics: Statistics) -> Planned:
    """The cheapest tree that keeps the order of the text."""
    trees = tuple(_cheapest_tree(branch, statistics) for branch in pattern.branches)
    return Planned(trees[0] if len(trees) == 1 else Branched(trees))


def _cheapest_order(branch: Branch, statistics: Statistics) -> Order:
    model, memo = _model(branch), Memo()
    orders = itertools.permutations(model.names)
    return Order(*min(orders, key=lambda names: model.order_cost(names, statistics, memo)))


def _cheapest_tree(branch: Branch, statistics: Statistics) -> Tree:
    model, memo = _model(branch), Memo()
    trees = shapes(model.names)
    return Tree(min(trees, key=lambda shape: model.tree_cost(shape, statistics, memo)))


def _model(branch: Branch) -> Model:
    count = len(branch.variables)
    if count > MOST:
        raise PlanError(
            f"{count} variables have too many plans to try them all (at most {MOST}): "
            "use greedy or zstream"
        )
    return model_of(branch)


def shapes(names: tuple[str, ...]) -> Iterator[Shape]:
    """Every binary tree whose leaves are these, in this order.

    >>> list(shapes(("a", "b", "c")))
    [('a', ('b', 'c')), (('a', 'b'), 'c')]
    """
    if len(names) == 1:
        yield names[0]
    for cut in range(1, len(names)):
        yield from itertools.product(shapes(names[:cut]), shapes(names[cut:]))
