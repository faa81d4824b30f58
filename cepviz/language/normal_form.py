"""Conjunctive normal form: a WHERE clause as a list of conjuncts, each knowing its variables.

Comparison with a missing value is unknown, and `not unknown` is unknown, so pushing `not` into
comparisons and distributing `or` over `and` keep the meaning (three-valued logic is a
distributive lattice with De Morgan's laws).
"""

from __future__ import annotations

from dataclasses import replace

from cepviz.language.expressions import (
    OPPOSITE,
    All,
    Between,
    Compare,
    Either,
    Expression,
    In,
    Like,
    Literal,
    Opposite,
    Relation,
)

#: Distributing can blow up exponentially; beyond this many clauses a disjunction stays whole.
MOST_CLAUSES = 64


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The conjuncts of a condition in the order of its text, each once, trivial ones left out."""
    clauses = dict.fromkeys(_clauses(_push_not(expression, False)))
    return tuple(clause for clause in clauses if clause != Literal(True))


def _push_not(node: Expression, negated: bool) -> Expression:
    if isinstance(node, Opposite):
        return _push_not(node.part, not negated)
    if isinstance(node, All | Either):
        flips = isinstance(node, All) == negated
        parts = tuple(_push_not(part, negated) for part in node.parts)
        return _flat(Either if flips else All, parts)
    if not negated:
        return node
    if isinstance(node, Compare):
        return replace(node, operator=OPPOSITE[node.operator])
    if isinstance(node, In | Between | Like | Relation):
        return replace(node, negated=not node.negated)
    if isinstance(node, Literal) and isinstance(node.value, bool):
        return Literal(not node.value)
    return Opposite(node)


def _flat(kind: type[All] | type[Either], parts: tuple[Expression, ...]) -> Expression:
    flat = tuple(
        dict.fromkeys(
            inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,))
        )
    )
    return flat[0] if len(flat) == 1 else kind(flat)


def _clauses(node: Expression) -> list[Expression]:
    if isinstance(node, All):
        return [clause for part in node.parts for clause in _clauses(part)]
    if not isinstance(node, Either):
        return [node]
    product: list[tuple[Expression, ...]] = [()]
    for part in node.parts:
        options = _clauses(part)
        if len(product) * len(options) > MOST_CLAUSES:
            return [node]
        product = [(*done, option) for done in product for option in options]
    return [_flat(Either, parts) for parts in product]
