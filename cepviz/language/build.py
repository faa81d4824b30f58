"""Patterns written in Python: types, variables, operators on their attributes, and clauses.

>>> A, B, C, D = types("A B C D")
>>> a, b = A.a, B.b
>>> p = Seq(a, Kleene(b), ~C.c, D.d).where(a.x < b[i].x, same("symbol")).within("10 minutes")
>>> print(p)
PATTERN SEQ(A a, B+ b[], ~(C c), D d)
WHERE [symbol] and a.x < b[i].x
WITHIN 10 minutes

Such a text and such a Python expression are the same pattern: `p == parse(str(p))`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from cepviz.errors import CepError, PatternError, UnsupportedError
from cepviz.language.contexts import ContextQuery
from cepviz.language.expressions import (
    Aggregate,
    All,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Duration,
    Either,
    Expression,
    In,
    Length,
    Like,
    Negative,
    Opposite,
    Percent,
)
from cepviz.language.functions import FUNCTIONS
from cepviz.language.literals import as_literal
from cepviz.language.parser import (
    Range,
    Same,
    parse,
    parse_window,
    returned,
    split_condition,
)
from cepviz.language.pattern import ANY, Pattern, Window
from cepviz.language.structure import And as AndNode
from cepviz.language.structure import Atom, Not, Structure, atoms
from cepviz.language.structure import Kleene as KleeneNode
from cepviz.language.structure import Or as OrNode
from cepviz.language.structure import Seq as SeqNode

__all__ = [
    "And", "Draft", "Kleene", "Or", "Seq", "as_pattern", "avg", "call", "count", "first", "i",
    "last", "max", "min", "percent", "same", "sum", "types",
]  # fmt: skip

#: The variables a term speaks of, each with the type it was written with: (type, variable).
About = frozenset[tuple[str, str]]


# ---- types and variables ----


def types(names: str | Iterable[str]) -> Any:
    """Event types to write patterns with, one for each name; a single name gives the type itself.

    >>> Stock = types("Stock")
    >>> A, B = types("A B")
    >>> print(Seq(Stock.s, A.a, B.b))
    PATTERN SEQ(Stock s, A a, B b)
    """
    if isinstance(names, str):
        listed = names.replace(",", " ").split()
        if len(listed) == 1:
            return Type(listed[0])
    else:
        listed = list(names)
    if not listed:
        raise PatternError("types needs names, as in types('A B C')")
    return tuple(Type(name) for name in listed)


class Type:
    """An event type: `A.a` is a variable of it, and `A["a"]` is the same for any name."""

    __slots__ = ("_name",)
    __iter__ = None

    def __init__(self, name: str):
        self._name = _word(name, "a type")

    def __getattr__(self, name: str) -> Variable:
        # Notebooks and libraries probe objects for such names.
        if name.startswith("_"):
            raise AttributeError(f"write {self._name}[{name!r}] for a variable of that name")
        return Variable(self._name, name)

    def __getitem__(self, name: str) -> Variable:
        return Variable(self._name, _word(name, "a variable"))

    def __repr__(self) -> str:
        return self._name


class Variable:
    """`a = A.a`: an event of type A, called a, or several if it stands in `Kleene`.

    `a.price` is an attribute, and so is `a["price"]`, which takes any name. Of a Kleene variable,
    `b[1]`, `b[i]`, `b[i-1]` and `b[-1]` (the last) are elements, `b[:i]` those before the current
    one, `b[:]` all, `b.LEN` their number. `~c` is its absence, `+b` is short for `Kleene(b)`.
    """

    __slots__ = ("_name", "_type")
    __iter__ = None

    def __init__(self, type: str, name: str):
        self._type = type
        self._name = name

    @property
    def LEN(self) -> Term:
        """How many events the Kleene variable holds."""
        return Term(Length(self._name), self._about())

    def __getattr__(self, name: str) -> Term:
        if name.startswith("_"):
            raise AttributeError(f"write {self._name}[{name!r}] for an attribute of that name")
        return self._attribute(name)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self._attribute(index)
        if isinstance(index, slice):
            return Elements(self, self._prefix(index))
        if isinstance(index, Term) and index.node == Length(self._name):
            return Element(self, "LEN")
        if isinstance(index, Index):
            return Element(self, index._text)
        if isinstance(index, int) and index in (1, -1):
            return Element(self, "1" if index == 1 else "LEN")
        raise PatternError(
            f"{self._name}[{index}] is not an element: write {self._name}[1], {self._name}[i], "
            f"{self._name}[i-1] or {self._name}[-1], which is the last"
        )

    def _prefix(self, index: slice) -> bool:
        start, stop = index.start, index.stop
        if index.step is None and start in (None, 1):
            if stop is None:
                return False
            if isinstance(stop, Index) and stop._text == "i":
                return True
        raise PatternError(
            f"write {self._name}[:i] for the elements before the current one, "
            f"and {self._name}[:] for all of them"
        )

    def __invert__(self) -> Not:
        return Not(self._atom())

    def __pos__(self) -> Draft:
        return Kleene(self)

    def __bool__(self) -> bool:
        raise _no_truth(self._name)

    def __repr__(self) -> str:
        return str(self._atom())

    def _atom(self) -> Atom:
        return Atom(self._type, self._name)

    def _about(self) -> About:
        return frozenset({(self._type, self._name)})

    def _attribute(self, name: str, index: str = "") -> Term:
        return Term(Attribute(self._name, _word(name, "an attribute"), index), self._about())


class Element:
    """One element of a Kleene variable, such as `b[i]`: `b[i].x` is its attribute x."""

    __slots__ = ("_index", "_variable")
    __iter__ = None

    def __init__(self, variable: Variable, index: str):
        self._variable = variable
        self._index = index

    def __getattr__(self, name: str) -> Term:
        if name.startswith("_"):
            raise AttributeError(f"write [{name!r}] for an attribute of that name")
        return self._variable._attribute(name, self._index)

    def __getitem__(self, name: str) -> Term:
        return self._variable._attribute(name, self._index)

    def __repr__(self) -> str:
        return f"{self._variable._name}[{self._index}]"


class Elements:
    """Elements of a Kleene variable for an aggregate: `avg(b[:i].x)`, `count(b[:])`."""

    __slots__ = ("_prefix", "_variable")
    __iter__ = None

    def __init__(self, variable: Variable, prefix: bool):
        self._variable = variable
        self._prefix = prefix

    def __getattr__(self, name: str) -> Term:
        if name.startswith("_"):
            raise AttributeError(f"write [{name!r}] for an attribute of that name")
        return self._range(name)

    def __getitem__(self, name: str) -> Term:
        return self._range(_word(name, "an attribute"))

    def __repr__(self) -> str:
        return f"{self._variable._name}[{':i' if self._prefix else ':'}]"

    def _range(self, name: str | None) -> Term:
        elements = Range(self._variable._name, self._prefix, name)
        return Term(elements, self._variable._about())


class Index:
    """The current element's number `i`; `i - 1` is the one before it."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "i"):
        self._text = text

    def __sub__(self, other: object) -> Index:
        if self._text == "i" and other == 1:
            return Index("i-1")
        raise PatternError(f"{self._text} - {other}: a predicate looks back one element, i - 1")

    def __repr__(self) -> str:
        return self._text


#: The number of the current element of a Kleene variable: `b[i].x`, `b[i-1].x`, `b[:i]`.
i = Index()


# ---- values and conditions ----


class Term:
    """A value or condition over attributes; operators on it build larger ones.

    Arithmetic and comparisons are as in Python, `&`, `|` and `~` are and, or and not. Each
    comparison beside `&` or `|` needs parentheses.

    >>> A, B = types("A B")
    >>> Seq(A.a, B.b).where((A.a.x > 2 * B.b.x) | ~A.a.name.like("X%"))
    <Pattern PATTERN SEQ(A a, B b) WHERE (a.x > 2 * b.x or a.name NOT LIKE 'X%')>
    """

    __slots__ = ("about", "node")
    __array_ufunc__ = None  # numpy then leaves `number < term` to us
    __hash__ = object.__hash__

    def __init__(self, node: Expression, about: About = frozenset()):
        self.node = node
        self.about = about

    def __repr__(self) -> str:
        return str(self.node)

    def __bool__(self) -> bool:
        raise _no_truth(self)

    def __add__(self, other: Any) -> Term:
        return _pair(Arithmetic, "+", self, other)

    def __radd__(self, other: Any) -> Term:
        return _pair(Arithmetic, "+", other, self)

    def __sub__(self, other: Any) -> Term:
        return _pair(Arithmetic, "-", self, other)

    def __rsub__(self, other: Any) -> Term:
        return _pair(Arithmetic, "-", other, self)

    def __mul__(self, other: Any) -> Term:
        return _pair(Arithmetic, "*", self, other)

    def __rmul__(self, other: Any) -> Term:
        return _pair(Arithmetic, "*", other, self)

    def __truediv__(self, other: Any) -> Term:
        return _pair(Arithmetic, "/", self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return _pair(Arithmetic, "/", other, self)

    def __mod__(self, other: Any) -> Term:
        return _pair(Arithmetic, "%", self, other)

    def __rmod__(self, other: Any) -> Term:
        return _pair(Arithmetic, "%", other, self)

    def __neg__(self) -> Term:
        return Term(Negative(self.node), self.about)

    def __eq__(self, other: Any) -> Term:  # type: ignore[override]
        return _pair(Compare, "=", self, other)

    def __ne__(self, other: Any) -> Term:  # type: ignore[override]
        return _pair(Compare, "!=", self, other)

    def __lt__(self, other: Any) -> Term:
        return _pair(Compare, "<", self, other)

    def __le__(self, other: Any) -> Term:
        return _pair(Compare, "<=", self, other)

    def __gt__(self, other: Any) -> Term:
        return _pair(Compare, ">", self, other)

    def __ge__(self, other: Any) -> Term:
        return _pair(Compare, ">=", self, other)

    def __and__(self, other: Any) -> Term:
        return _joined(All, self, other)

    def __rand__(self, other: Any) -> Term:
        return _joined(All, other, self)

    def __or__(self, other: Any) -> Term:
        return _joined(Either, self, other)

    def __ror__(self, other: Any) -> Term:
        return _joined(Either, other, self)

    def __invert__(self) -> Term:
        return Term(Opposite(self.node), self.about)

    def is_in(self, values: Iterable[Any]) -> Term:
        """Whether the value is one of these."""
        if isinstance(values, str | Term):
            raise PatternError(f"is_in takes a list of values: write is_in([{values!r}])")
        listed = list(values)
        if isinstance(values, set | frozenset):
            listed.sort(key=lambda value: (type(value).__name__, value))
        options = [_term(value) for value in listed]
        node = In(self.node, tuple(option.node for option in options))
        return Term(node, self.about.union(*(option.about for option in options)))

    def between(self, low: Any, high: Any) -> Term:
        """Whether the value lies from low to high, both included."""
        low, high = _term(low), _term(high)
        return Term(Between(self.node, low.node, high.node), self.about | low.about | high.about)

    def like(self, pattern: str) -> Term:
        """Whether the text is like the pattern: `%` is any text, `_` one character."""
        if not isinstance(pattern, str):
            raise PatternError(f"like takes text such as 'A%', not {pattern!r}")
        return Term(Like(self.node, pattern), self.about)


def _term(value: Any) -> Term:
    if isinstance(value, Term):
        return value
    if isinstance(value, Variable | Element):
        raise PatternError(f"{value!r} is an event: name one of its attributes, as in .price")
    if isinstance(value, Elements):
        raise PatternError(f"{value!r} needs an aggregate, as in avg({value!r}.price)")
    return Term(as_literal(value))


def _pair(kind: Callable[..., Expression], sign: str, left: Any, right: Any) -> Term:
    left, right = _term(left), _term(right)
    return Term(kind(sign, left.node, right.node), left.about | right.about)


def _joined(kind: type[All] | type[Either], left: Any, right: Any) -> Term:
    for side in (left, right):
        if not isinstance(side, Term):
            sign = "&" if kind is All else "|"
            raise PatternError(
                f"{side!r} is a value, not a condition: {sign} binds more tightly than "
                f"comparisons, so write (a.x > 1) {sign} (b.y > 2) with parentheses"
            )
    return Term(kind((left.node, right.node)), left.about | right.about)


def _condition(given: Any) -> Term:
    if isinstance(given, Term):
        return given
    if isinstance(given, bool):  # what Python makes of `a == b` on whole events
        raise PatternError(
            f"{given} says nothing about events: compare attributes, as in a.x == b.x, "
            "not the events themselves"
        )
    raise PatternError(f"{given!r} is not a condition: write one like a.x < b.x, or same('x')")


def _no_truth(what: object) -> PatternError:
    return PatternError(
        f"{what} is neither true nor false before events are read: join conditions with & and | "
        "instead of and, or; write ~ instead of not, a.x.between(1, 5) instead of 1 < a.x < 5, "
        "a.x.is_in([1, 2]) instead of in"
    )


def _word(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name or "\n" in name:
        raise PatternError(f"the name of {what} is text, not {name!r}")
    return name


def same(*names: str) -> Term:
    """The equivalence test `[symbol]`: all events of a match agree in these attributes."""
    if not names:
        raise PatternError("same needs the name of an attribute, as in same('symbol')")
    return Term(Same(tuple(_word(name, "an attribute") for name in names)))


def percent(amount: int | float) -> Term:
    """`percent(80)` is `80%`, that is 0.8."""
    node = as_literal(amount)
    if not isinstance(amount, int | float) or isinstance(amount, bool) or amount < 0:
        raise PatternError(f"percent takes a number such as 80, not {node}")
    return Term(Percent(amount))


def call(function: str | Callable[..., Any], *arguments: Any) -> Term:
    """A call of a registered function, by its name or itself: `call("Corr", a.h, b.h) > 0.8`."""
    if isinstance(function, str):
        name = function
    else:
        known = [entry.name for entry in FUNCTIONS.values() if entry.scalar is function]
        if not known:
            called = getattr(function, "__name__", function)
            raise PatternError(f"{called} is not registered: register it with cepviz.function")
        name = known[0]
    given = [_term(argument) for argument in arguments]
    node = Call(name, tuple(term.node for term in given))
    return Term(node, frozenset().union(*(term.about for term in given)))


def _aggregate(function: str, over: Any) -> Term:
    if isinstance(over, Elements):
        over = over._range(None)
    node = over.node if isinstance(over, Term) else None
    if isinstance(node, Attribute) and not node.index:
        return Term(Aggregate(function, node.variable, node.name, False), over.about)
    if isinstance(node, Range) and (node.name is not None or function == "count"):
        return Term(Aggregate(function, node.variable, node.name, node.prefix), over.about)
    example = "b[:]" if function == "count" else "b[:].x"
    raise PatternError(
        f"{function} runs over the elements of a Kleene variable: write {function}({example}) "
        f"or {function}({example.replace(':', ':i')})"
    )


def count(over: Any) -> Term:
    """How many elements there are: `count(b[:])`, or have the attribute: `count(b[:i].x)`."""
    return _aggregate("count", over)


def sum(over: Any) -> Term:
    """The sum over elements of a Kleene variable: `sum(b[:].x)`, `sum(b[:i].x)`."""
    return _aggregate("sum", over)


def min(over: Any) -> Term:
    """The least value among elements of a Kleene variable: `min(b[:].x)`, `min(b[:i].x)`."""
    return _aggregate("min", over)


def max(over: Any) -> Term:
    """The greatest value among elements of a Kleene variable: `max(b[:].x)`, `max(b[:i].x)`."""
    return _aggregate("max", over)


def avg(over: Any) -> Term:
    """The mean over elements of a Kleene variable: `avg(b[:].x)`, `avg(b[:i].x)`."""
    return _aggregate("avg", over)


def first(over: Any) -> Term:
    """The first value that is not missing: `first(b[:].x)`."""
    return _aggregate("first", over)


def last(over: Any) -> Term:
    """The last value that is not missing: `last(b[:].x)`, `last(b[:i].x)`."""
    return _aggregate("last", over)


# ---- the pattern ----


@dataclass(frozen=True, eq=False, repr=False)
class Draft:
    """A pattern while it is written: each clause gives a new draft, `pattern` is the pattern.

    A draft equals, prints and shows itself as its pattern. What it says is checked when it is
    first used, because `~C.c` at the end, for example, is legal only once there is a window.
    """

    structure: Structure
    conditions: tuple[Term, ...] = ()
    window: Window | None = None
    chosen: str = ANY
    returned: tuple[str, tuple[tuple[str, Term], ...]] | None = None
    kept: str = "all"

    def where(self, *conditions: Any) -> Draft:
        """With these conditions, all of which must hold; further calls add more."""
        return replace(self, conditions=(*self.conditions, *map(_condition, conditions)))

    def within(self, length: str | int | float | datetime.timedelta | Window | None) -> Draft:
        """With a window: `"10 minutes"`, `"2000 events"`, a number in the stream's own unit, a
        timedelta, or None for an unbounded one."""
        return replace(self, window=_window(length))

    def strategy(self, name: str) -> Draft:
        """With a selection strategy: strict_contiguity, partition_contiguity,
        skip_till_next_match or skip_till_any_match."""
        return replace(self, chosen=name.lower().replace("-", "_"))

    def returns(
        self, type: str, attributes: Mapping[str, Any] | None = None, /, **more: Any
    ) -> Draft:
        """With an output event of this type: `.returns("Alert", symbol=b.symbol)`."""
        given = {**(attributes or {}), **more}
        values = tuple((_word(name, "an attribute"), _term(v)) for name, v in given.items())
        return replace(self, returned=(_word(type, "a type"), values))

    def output(self, kind: str) -> Draft:
        """With all results (`"all"`), or one at a time in each partition (`"non_overlap"`)."""
        return replace(self, kept=kind.lower().replace("-", "_"))

    def given(self, **values: Any) -> Pattern:
        """The pattern with bare names replaced by values, as `Pattern.given` does."""
        return self.pattern.given(**values)

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern this draft is."""
        returns = None
        terms = self.conditions
        if self.returned is not None:
            type, values = self.returned
            returns = returned(type, tuple((name, term.node) for name, term in values))
            terms += tuple(term for _, term in values)
        _check_types(self.structure, frozenset().union(*(term.about for term in terms)))
        condition = All(tuple(term.node for term in self.conditions))
        tests, same = split_condition(condition if self.conditions else None)
        return Pattern(self.structure, tests, same, self.chosen, self.window, returns, self.kept)

    @property
    def bare(self) -> bool:
        """Whether it has no clauses, so that it can be part of another."""
        return self._clauses() == ((), None, ANY, None, "all")

    def _clauses(self) -> tuple[Any, ...]:
        return self.conditions, self.window, self.chosen, self.returned, self.kept

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Draft):
            return self.pattern == other.pattern
        return self.pattern == other if isinstance(other, Pattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __str__(self) -> str:
        return str(self.pattern)

    def __repr__(self) -> str:
        return repr(self.pattern)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.pattern._repr_mimebundle_(include, exclude)

    def __invert__(self) -> Draft:
        raise PatternError(
            f"NOT takes one event, so ~({self.structure}) is refused: one is enough to break it"
        )


def Seq(*parts: Any) -> Draft:
    """The parts one after the other: `Seq(A.a, Kleene(B.b), ~C.c, D.d)`."""
    return Draft(SeqNode(_parts("Seq", parts)))


def And(*parts: Any) -> Draft:
    """All the parts, in any order."""
    return Draft(AndNode(_parts("And", parts)))


def Or(*parts: Any) -> Draft:
    """One of the parts."""
    return Draft(OrNode(_parts("Or", parts)))


def Kleene(variable: Any, optional: bool = False) -> Draft:
    """One or more events, `B+ b[]`; with `optional`, zero or more, `B* b[]`."""
    atom = _part(variable)
    if not isinstance(atom, Atom):
        raise PatternError(f"Kleene takes one variable, as in Kleene(B.b), not {atom}")
    return Draft(KleeneNode(atom, optional))


def as_query(given: Any) -> Pattern | ContextQuery:
    """What a text, a draft, a pattern or a CONTEXT query stands for."""
    if isinstance(given, str):
        given = parse(given)
    return given if isinstance(given, ContextQuery) else as_pattern(given)


def as_pattern(given: Any) -> Pattern:
    """The pattern that a text, a draft or a pattern stands for."""
    if isinstance(given, str):
        given = parse(given)
    if isinstance(given, Draft):
        return given.pattern
    if isinstance(given, Pattern):
        return given
    if isinstance(given, ContextQuery):
        raise UnsupportedError("a pattern is wanted here, and this is a CONTEXT query")
    raise CepError(f"a pattern is text or a Pattern, not {type(given).__name__}")


def _parts(operator: str, parts: tuple[Any, ...]) -> tuple[Structure, ...]:
    if not parts:
        raise PatternError(f"{operator} needs parts, as in {operator}(A.a, B.b)")
    return tuple(_part(part) for part in parts)


def _part(part: Any) -> Structure:
    if isinstance(part, Variable):
        return part._atom()
    if isinstance(part, Type):  # a type may double as its variable, as in APAM
        return Atom(part._name, part._name)
    if isinstance(part, Draft):
        if not part.bare:
            raise PatternError(
                "where, within and the other clauses belong to the whole pattern: "
                "put them behind the outermost Seq, And or Or"
            )
        return part.structure
    if isinstance(part, Not):
        return part
    raise PatternError(
        f"{part!r} is no part of a pattern: use variables such as A.a, ~A.a, Kleene(A.a), "
        "Seq, And and Or"
    )


def _window(length: Any) -> Window:
    if isinstance(length, Window):
        return length
    if length is None:
        return Window(None)
    if isinstance(length, datetime.timedelta):
        duration = as_literal(length)
        assert isinstance(duration, Duration)
        return parse_window(str(duration))
    if isinstance(length, bool) or not isinstance(length, str | int | float):
        raise PatternError(
            f"a window is '10 minutes', '2000 events', a number or a timedelta, not {length!r}"
        )
    return parse_window(length if isinstance(length, str) else str(as_literal(length)))


def _check_types(structure: Structure, about: About) -> None:
    """Refuses `B.a` in a condition where the pattern declares `A.a`."""
    declared: dict[str, list[str]] = {}
    for atom, _ in atoms(structure):
        declared.setdefault(atom.variable, []).append(atom.type)
    for type, name in sorted(about):
        if name in declared and type not in declared[name]:
            raise PatternError(
                f"{type}.{name} is not in the pattern, which has {declared[name][0]}.{name}"
            )
