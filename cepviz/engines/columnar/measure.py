"""Statistics of the data itself, for the planner: candidates by variable, and shares of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cepviz.engines.columnar.table import Array, Table
from cepviz.language.columns import StreamColumns, mask
from cepviz.language.expressions import Aggregate, Attribute, Compare, Expression, Length
from cepviz.language.pattern import Branch
from cepviz.plans.statistics import Statistics

#: How many pairs a condition is tried on.
PAIRS = 500
#: Conditions are only tried where the loops would try this many candidates: below, a guess will do.
WORTH_MEASURING = 1_000_000


def window_width(table: Table) -> float:
    """How many places one window holds, on average."""
    size = table.size
    if not table.bounded or not size:
        return float(size)
    some = np.linspace(0, size - 1, min(size, 200)).astype("int64")
    return max(float(np.mean(table.ahead(some) - table.back(some))) / 2, 1.0)


def effort(counts: Sequence[int], width: float, size: int) -> float:
    """About how many candidates nested loops try: as if events lay evenly, and half of each window
    were in scope."""
    tried = reached = 1.0 * counts[0]
    for count in counts[1:]:
        reached *= count * width / max(size, 1) / 2
        tried += reached
    return tried


def measured(
    branch: Branch,
    table: Table,
    chosen: Mapping[str, Array],
    conjuncts: Sequence[Expression],
    width: float,
) -> Statistics:
    """Rates by type, the share of each type that a variable's own conditions leave, and the share
    of pairs that pass each condition between two variables."""
    size = max(table.size, 1)
    rates = {v.type: len(table.of_type(v.type)) * width / size for v in branch.variables}
    shares = {}
    for variable in branch.variables:
        for conjunct in branch.own(variable.name)[:1]:  # it stands for all of them
            of_type = len(table.of_type(variable.type))
            shares[str(conjunct)] = len(chosen[variable.name]) / max(of_type, 1)
    worth = effort(sorted(map(len, chosen.values())), width, table.size) > WORTH_MEASURING
    shared = branch.shared()
    for conjunct in conjuncts:
        if conjunct in shared and len(conjunct.variables) == 2:
            share = _share(conjunct, branch, table, chosen) if worth else None
            shares[str(conjunct)] = _guess(conjunct) if share is None else share
    return Statistics(rates, shares)


def _guess(conjunct: Expression) -> float:
    return 0.1 if isinstance(conjunct, Compare) and conjunct.operator == "=" else 0.5


def _share(
    conjunct: Expression, branch: Branch, table: Table, chosen: Mapping[str, Array]
) -> float | None:
    """The share of pairs in one window that a condition lets pass, from a sample."""
    for node in conjunct.walk():
        elsewhere = isinstance(node, Attribute) and node.index not in ("", "i")
        if elsewhere or isinstance(node, Length | Aggregate):
            return None
    one, other = sorted(conjunct.variables)
    if (other, one) in branch.order:
        one, other = other, one
    random = np.random.default_rng(0)
    left = random.choice(chosen[one], min(PAIRS, len(chosen[one])), replace=False)
    low = left + 1 if (one, other) in branch.order else table.back(left)
    begin = np.searchsorted(chosen[other], low)
    end = np.searchsorted(chosen[other], table.ahead(left))
    some = np.flatnonzero(end > begin)
    if not len(some):
        return None
    picked = begin[some] + (random.random(len(some)) * (end - begin)[some]).astype("int64")
    columns = {
        one: StreamColumns(table.stream, table.row(left[some])),
        other: StreamColumns(table.stream, table.row(chosen[other][picked])),
    }
    passed = int(mask(conjunct, columns).sum())
    return (passed + 0.5) / (len(some) + 1)
