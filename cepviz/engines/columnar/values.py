"""Expressions as source over typed columns, where that means the same as `evaluate`.

An expression has a typed form if no row of the data could make it fail or leave 64 bits: the
bounds of whole numbers are followed through sums and products, and a divisor must not be zero.
Everything else raises `NotTyped`. Names and literals never enter the source: they are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cepviz.engines.columnar.table import NUMBER, TEXT, NotTyped
from cepviz.language.columns import EXACT, LARGEST
from cepviz.language.expressions import (
    Aggregate,
    All,
    Arithmetic,
    Attribute,
    Between,
    Compare,
    Either,
    Expression,
    In,
    Length,
    Literal,
    Negative,
    Percent,
    Symbol,
)


@dataclass(frozen=True)
class Typed:
    """Source of a value, what it is, the bounds of a whole number, and when it is not missing."""

    source: str
    kind: str = NUMBER
    whole: bool = False
    low: int = 0
    high: int = 0
    guards: tuple[str, ...] = ()
    #: Whether it may be zero, or how to find out.
    zero: bool | Callable[[], bool] = True

    @property
    def size(self) -> int:
        return max(-self.low, self.high)


class Source(Protocol):
    """What a kernel says of the references in an expression at one point of its loops."""

    def reference(self, node: Attribute | Length | Aggregate) -> Typed: ...

    def constant(self, value: Any) -> str: ...

    def rank(self, text: str) -> int: ...

    def alone(self, node: Expression) -> str:
        """Source of the truth of a part that an event alone decides."""
        ...


def truth(node: Expression, at: Source) -> str:
    """Source that is true exactly where the node is."""
    if isinstance(node, All | Either):
        word = " and " if isinstance(node, All) else " or "
        return f"({word.join(truth(part, at) for part in node.parts)})"
    if isinstance(node, Compare | In | Between):
        try:
            guards, written = _judged(node, at)
        except NotTyped:
            return at.alone(node)
        return f"({' and '.join([*dict.fromkeys(guards), written])})"
    return at.alone(node)


def _judged(node: Compare | In | Between, at: Source) -> tuple[list[str], str]:
    parts = [value(part, at) for part in node.children()]
    guards = [guard for part in parts for guard in part.guards]
    for other in parts[1:]:
        _comparable(parts[0], other)
    sources = [part.source for part in parts]
    if isinstance(node, Compare):
        sign = "==" if node.operator == "=" else node.operator
        return guards, f"{sources[0]} {sign} {sources[1]}"
    if isinstance(node, Between):
        low, high = sources[1:]
        return guards, f"{'not ' * node.negated}({low} <= {sources[0]} <= {high})"
    among = " or ".join(f"{sources[0]} == {option}" for option in sources[1:]) or "False"
    return guards, f"{'not ' * node.negated}({among})"


def _comparable(one: Typed, other: Typed) -> None:
    if one.kind != other.kind:
        raise NotTyped("text beside a number")
    if one.kind == NUMBER and one.whole != other.whole and max(one.size, other.size) > EXACT:
        raise NotTyped("a whole number that is not exact as a float")


def value(node: Expression, at: Source) -> Typed:
    """Source of a value."""
    if isinstance(node, Literal):
        return _literal(node.value, at)
    if isinstance(node, Percent):
        return _literal(node.amount / 100, at)
    if isinstance(node, Symbol):
        return _literal(node.name, at)
    if isinstance(node, Attribute | Length | Aggregate):
        return at.reference(node)
    if isinstance(node, Negative):
        inner = _number(value(node.operand, at))
        if inner.size > LARGEST:
            raise NotTyped("a whole number that may leave 64 bits")
        return Typed(f"(-{inner.source})", NUMBER, inner.whole, -inner.high, -inner.low,
                     inner.guards, inner.zero)  # fmt: skip
    if isinstance(node, Arithmetic):
        left, right = _number(value(node.left, at)), _number(value(node.right, at))
        return _arithmetic(node.operator, left, right)
    raise NotTyped(f"{node} is not a sum of columns")


def _literal(given: Any, at: Source) -> Typed:
    if isinstance(given, str):
        return Typed(at.constant(at.rank(given)), TEXT)
    if isinstance(given, int):
        number = int(given)
        if not -LARGEST <= number <= LARGEST:
            raise NotTyped("a number beyond 64 bits")
        return Typed(at.constant(number), NUMBER, True, number, number, zero=number == 0)
    return Typed(at.constant(float(given)), NUMBER, zero=given == 0)


def _number(given: Typed) -> Typed:
    if given.kind != NUMBER:
        raise NotTyped("text in arithmetic")
    return given


Bounds = Callable[[Typed, Typed], tuple[int, int]]

_BOUNDS: dict[str, Bounds] = {
    "+": lambda a, b: (a.low + b.low, a.high + b.high),
    "-": lambda a, b: (a.low - b.high, a.high - b.low),
    "*": lambda a, b: _ends([x * y for x in (a.low, a.high) for y in (b.low, b.high)]),
    "%": lambda a, b: (min(b.low, 0), max(b.high, 0)),
}


def _ends(values: list[int]) -> tuple[int, int]:
    return min(values), max(values)


def _arithmetic(sign: str, left: Typed, right: Typed) -> Typed:
    guards = (*left.guards, *right.guards)
    source = f"({left.source} {sign} {right.source})"
    divides = sign in "/%"
    if divides and (right.zero() if callable(right.zero) else right.zero):
        raise NotTyped("a divisor that may be zero")
    whole = left.whole and right.whole
    if whole and sign == "/":
        if max(left.size, right.size) > EXACT:
            raise NotTyped("a whole number that is not exact as a float")
        whole = False
    if not whole:
        return Typed(source, NUMBER, guards=guards)
    low, high = _BOUNDS[sign](left, right)
    if max(-low, high) > LARGEST:
        raise NotTyped("a whole number that may leave 64 bits")
    return Typed(source, NUMBER, True, low, high, guards, not (low > 0 or high < 0))
