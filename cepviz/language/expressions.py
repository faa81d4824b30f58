"""The parts a predicate is made of: immutable values that print as the text they came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from cepviz.language.allen import RELATIONS

Place = tuple[int, int, int]  # line, column (both from 1) and width in the text a node came from

KEYWORDS = frozenset(
    (
        "pattern", "where", "within", "return", "output", "seq", "and", "or", "not", "in",
        "between", "like", "true", "false", "timestamp",
    )
)  # fmt: skip
AGGREGATES = ("count", "sum", "min", "max", "avg", "first", "last")

#: Every way to write a unit of time, and the word that is printed back.
UNITS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), "nanoseconds"),
    **dict.fromkeys(("us", "microsecond", "microseconds"), "microseconds"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "milliseconds"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "seconds"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "minutes"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "hours"),
    **dict.fromkeys(("d", "day", "days"), "days"),
    **dict.fromkeys(("week", "weeks"), "weeks"),
}


def quoted(name: str) -> str:
    """A name as it is written in a pattern: plain where it can be, otherwise in back quotes."""
    plain = re.fullmatch(r"[A-Za-z_]\w*", name) and name.lower() not in KEYWORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def number_text(value: int | float) -> str:
    """A number as it is written in a pattern."""
    return repr(value)


def amount_text(amount: int | float, unit: str) -> str:
    """`1 hour`, `10 minutes`."""
    return f"{number_text(amount)} {unit[:-1] if amount == 1 else unit}"


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type[Expression]) -> tuple[str, ...]:
    """The names of a class's fields, looked up once."""
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(item.name for item in fields(kind))
    return found


@dataclass(frozen=True)
class Expression:
    """Anything with a value: an attribute, a sum, a comparison."""

    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    #: How tightly the printed form binds; a looser child is printed in parentheses.
    binding = 9

    def children(self) -> Iterator[Expression]:
        for name in _fields(type(self)):
            value = getattr(self, name)
            if isinstance(value, Expression):
                yield value
            elif isinstance(value, tuple):
                yield from (part for part in value if isinstance(part, Expression))

    def walk(self) -> Iterator[Expression]:
        """This expression and everything in it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children())

    def map(self, change: Callable[[Expression], Expression]) -> Expression:
        """The expression with `change` applied to every part, innermost first."""
        changed: dict[str, Any] = {}
        for name in _fields(type(self)):
            value = getattr(self, name)
            if isinstance(value, Expression):
                new: Any = value.map(change)
            elif isinstance(value, tuple):
                new = tuple(p.map(change) if isinstance(p, Expression) else p for p in value)
                if all(now is before for now, before in zip(new, value, strict=True)):
                    new = value
            else:
                continue
            if new is not value:
                changed[name] = new
        return change(replace(self, **changed) if changed else self)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The pattern variables this expression speaks of."""
        return frozenset(
            node.variable
            for node in self.walk()
            if isinstance(node, Attribute | Length | Aggregate)
        )

    def _inner(self, child: Expression, least: int) -> str:
        return f"({child})" if child.binding < least else str(child)


@dataclass(frozen=True)
class Literal(Expression):
    """A number, a string or a truth value. `text` keeps how it was written, e.g. `5 minutes`."""

    value: int | float | str | bool
    text: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return number_text(self.value)

    def __eq__(self, other: object) -> bool:
        # 1, 1.0 and true are different texts, so they are different patterns.
        return (
            isinstance(other, Literal)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True)
class Percent(Expression):
    """`80%`, that is 0.8."""

    amount: int | float

    def __str__(self) -> str:
        return f"{number_text(self.amount)}%"


@dataclass(frozen=True)
class Duration(Expression):
    """`5 minutes`; becomes a number in the stream's unit when the pattern meets a stream."""

    amount: int | float
    unit: str

    def __str__(self) -> str:
        return amount_text(self.amount, self.unit)


@dataclass(frozen=True)
class Timestamp(Expression):
    """`TIMESTAMP '2024-01-02 10:00'`; becomes a number when the pattern meets a stream."""

    text: str

    def __str__(self) -> str:
        return f"TIMESTAMP {Literal(self.text)}"


@dataclass(frozen=True)
class Symbol(Expression):
    """A bare name: a parameter that was given no value yet, or a string written without quotes."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Attribute(Expression):
    """`a.price`, or on a Kleene variable `a[1].price`, `a[i].price`, `a[i-1].price`,
    `a[a.LEN].price`; `index` is "", "1", "i", "i-1" or "LEN"."""

    variable: str
    name: str
    index: str = ""

    def __str__(self) -> str:
        variable = quoted(self.variable)
        shown = f"{variable}.LEN" if self.index == "LEN" else self.index
        if not shown and self.name in ("LEN", "len"):
            return f"{variable}.`{self.name}`"  # an attribute, not the number of elements
        return f"{variable}{f'[{shown}]' if shown else ''}.{quoted(self.name)}"


@dataclass(frozen=True)
class Length(Expression):
    """`a.LEN`: how many events the Kleene variable holds; `word` is LEN as it was written."""

    variable: str
    word: str = field(default="LEN", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{quoted(self.variable)}.LEN"


@dataclass(frozen=True)
class Aggregate(Expression):
    """`avg(a[..i-1].price)` over the elements so far (`prefix`), or `avg(a[].price)` over all."""

    function: str
    variable: str
    name: str | None
    prefix: bool

    def __str__(self) -> str:
        attribute = "" if self.name is None else f".{quoted(self.name)}"
        reach = "..i-1" if self.prefix else ""
        return f"{self.function}({quoted(self.variable)}[{reach}]{attribute})"


@dataclass(frozen=True)
class Negative(Expression):
    """`-x`."""

    operand: Expression
    binding = 7

    def __str__(self) -> str:
        inner = self._inner(self.operand, 8)
        return f"-({inner})" if inner.startswith("-") else f"-{inner}"


@dataclass(frozen=True)
class Arithmetic(Expression):
    """`x + y`, `x - y`, `x * y`, `x / y` or `x % y`."""

    operator: str
    left: Expression
    right: Expression

    @property
    def binding(self) -> int:  # type: ignore[override]
        return 5 if self.operator in "+-" else 6

    def __str__(self) -> str:
        right = self._inner(self.right, self.binding + 1)
        if right.startswith("-"):  # `x - -1` would read as a comment
            right = f"({right})"
        return f"{self._inner(self.left, self.binding)} {self.operator} {right}"


@dataclass(frozen=True)
class Compare(Expression):
    """`x < y`; the operator is one of = != < <= > >=."""

    operator: str
    left: Expression
    right: Expression
    binding = 4

    def __str__(self) -> str:
        return f"{self._inner(self.left, 5)} {self.operator} {self._inner(self.right, 5)}"


@dataclass(frozen=True)
class In(Expression):
    """`x IN (1, 2)`, or `x IN Finance` with a set that is given by name."""

    operand: Expression
    options: tuple[Expression, ...] | Symbol
    negated: bool = False
    binding = 4

    def __str__(self) -> str:
        if isinstance(self.options, Symbol):
            shown = str(self.options)
        else:
            shown = f"({', '.join(map(str, self.options))})"
        return f"{self._inner(self.operand, 5)} {'NOT ' * self.negated}IN {shown}"


@dataclass(frozen=True)
class Between(Expression):
    """`x BETWEEN low AND high`, both ends included."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    binding = 4

    def __str__(self) -> str:
        ends = f"{self._inner(self.low, 5)} AND {self._inner(self.high, 5)}"
        return f"{self._inner(self.operand, 5)} {'NOT ' * self.negated}BETWEEN {ends}"


@dataclass(frozen=True)
class Like(Expression):
    """`x LIKE 'AB%'`: `%` stands for any text, `_` for one character."""

    operand: Expression
    pattern: str
    negated: bool = False
    binding = 4

    def __str__(self) -> str:
        shown = Literal(self.pattern)
        return f"{self._inner(self.operand, 5)} {'NOT ' * self.negated}LIKE {shown}"

    @property
    def regex(self) -> re.Pattern[str]:
        pieces = (
            ".*" if part == "%" else "." if part == "_" else re.escape(part)
            for part in re.split(r"([%_])", self.pattern)
        )
        return re.compile("".join(pieces), re.DOTALL)


@dataclass(frozen=True)
class Relation(Expression):
    """`a DURING b`: one of Allen's relations between two events, by their starts and ends."""

    name: str
    first_start: Attribute
    first_end: Attribute
    second_start: Attribute
    second_end: Attribute
    negated: bool = False
    binding = 4

    @classmethod
    def of(
        cls, name: str, first: Attribute, second: Attribute, negated: bool = False, **place: Any
    ) -> Relation:
        """The relation of the events that two attributes, whichever, belong to."""
        a, b = (replace(first, name=end) for end in ("start", "end"))
        c, d = (replace(second, name=end) for end in ("start", "end"))
        return cls(name, a, b, c, d, negated, **place)

    @property
    def meaning(self) -> All | Compare:
        """The relation as comparisons; where it is negated, of what must not be."""
        ends: dict[str, Expression] = dict(zip("aAbB", self.children(), strict=True))
        tests = [Compare(sign, ends[a], ends[b]) for a, sign, b in RELATIONS[self.name]]
        return All(tuple(tests)) if len(tests) > 1 else tests[0]

    def __str__(self) -> str:
        first, second = (
            str(end).removesuffix(".start") for end in (self.first_start, self.second_start)
        )
        return f"{first} {'NOT ' * self.negated}{self.name} {second}"


@dataclass(frozen=True)
class Call(Expression):
    """A registered Python function on values."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class All(Expression):
    """`x and y and ...`."""

    parts: tuple[Expression, ...]
    binding = 2

    def __str__(self) -> str:
        return " and ".join(self._inner(part, 3) for part in self.parts)


@dataclass(frozen=True)
class Either(Expression):
    """`x or y or ...`."""

    parts: tuple[Expression, ...]
    binding = 1

    def __str__(self) -> str:
        return " or ".join(self._inner(part, 2) for part in self.parts)


@dataclass(frozen=True)
class Opposite(Expression):
    """`not x`."""

    part: Expression
    binding = 3

    def __str__(self) -> str:
        return f"not {self._inner(self.part, 3)}"


#: Expressions that are true, false or unknown rather than values.
TRUTHS = (Compare, In, Between, Like, Relation, All, Either, Opposite)

OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def looks_back(expression: Expression, variable: str) -> bool:
    """Whether it needs an element before the current one: it then holds from the second on."""
    return any(
        (isinstance(node, Attribute) and node.variable == variable and node.index == "i-1")
        or (isinstance(node, Aggregate) and node.variable == variable and node.prefix)
        for node in expression.walk()
    )


def needs_all(expression: Expression, variable: str) -> bool:
    """Whether it can only be judged when the Kleene variable has all its elements."""
    return any(
        (isinstance(node, Attribute) and node.variable == variable and node.index == "LEN")
        or (isinstance(node, Length) and node.variable == variable)
        or (isinstance(node, Aggregate) and node.variable == variable and not node.prefix)
        for node in expression.walk()
    )


def element_wise(
    conjuncts: Iterable[Expression], name: str
) -> tuple[list[Expression], list[Expression], list[Expression]]:
    """The conjuncts to try on the first element of a Kleene variable, on each further one, and on
    the whole list."""
    whole = [c for c in conjuncts if needs_all(c, name)]
    step = [c for c in conjuncts if not needs_all(c, name)]
    first = [c for c in step if not looks_back(c, name)]
    return first, [c for c in step if name in per_element(c)], whole


def per_element(expression: Expression) -> frozenset[str]:
    """The Kleene variables of which it speaks element by element (`a[i]`, `a[..i-1]`)."""
    return frozenset(
        node.variable
        for node in expression.walk()
        if (isinstance(node, Attribute) and node.index in ("i", "i-1"))
        or (isinstance(node, Aggregate) and node.prefix)
    )
