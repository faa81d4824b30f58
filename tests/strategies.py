"""Hypothesis strategies for patterns and streams, made to be hard on engines.

    @given(patterns(strategies=[ANY], kleene=False), streams())
    def test_engine_agrees_with_naive(pattern, stream): ...

The alphabet is small (types A B C, `x` in 0..3 or missing, `k` in 0..1), so that events meet: ties
in time, types that do not occur, events exactly at the edge of a window, the same type in several
positions, Kleene beside negation, missing values, `[k]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from cepviz.errors import PatternError
from cepviz.events import Event, Stream
from cepviz.language.expressions import (
    AGGREGATES,
    UNITS,
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
    Literal,
    Negative,
    Opposite,
    Percent,
    Symbol,
    Timestamp,
)
from cepviz.language.functions import function
from cepviz.language.pattern import ANY, PARTITION, STRATEGIES, Pattern, Returns, Window
from cepviz.language.structure import And, Atom, Kleene, Not, Or, Seq, Structure, Variable, atoms

TYPES = "ABC"
NAMES = "abcdefgh"
COMPARISONS = ("<", "<=", ">", ">=", "=", "!=")
WINDOWS = ("time", "events", "none")


# ---- streams ----


@st.composite
def events(
    draw: st.DrawFn, max_size: int = 9, types: str = TYPES, min_size: int = 1
) -> list[Event]:
    """Events in order of time, with many ties; often one of the types does not occur."""
    mostly = types[:2] * 2 + types  # as in patterns, so that they meet
    occurring = draw(st.sampled_from([mostly, mostly, mostly, types[:2], types[-2:], types[:1]]))
    sizes = [
        size for size in (1, 2, 3, 4, 5, 6, 7, 8, 9, 6, 7, 8, 9) if min_size <= size <= max_size
    ]
    size = draw(st.sampled_from(sizes))
    row = st.tuples(
        st.sampled_from(occurring),
        st.sampled_from((0, 0, 1, 1, 1, 2, 5)),
        st.sampled_from((0, 1, 2, 3, 1, 2, 2, None)),
        st.sampled_from((0, 0, 0, 0, 1, 1, None)),
    )
    rows = draw(st.lists(row, min_size=size, max_size=size))
    time = 0
    made = []
    for position, (type, later, x, k) in enumerate(rows):
        time += later
        made.append(Event(type, time, id=position, position=position, x=x, k=k))
    return made


def streams(max_size: int = 9, types: str = TYPES) -> st.SearchStrategy[Stream]:
    """Small streams: `events` as a `Stream`."""
    return events(max_size, types).map(Stream.from_records)


# ---- patterns ----


@dataclass(frozen=True)
class _Allowed:
    strategies: tuple[str, ...]
    kleene: bool
    negation: bool
    and_: bool
    or_: bool
    optional: bool
    max_variables: int
    windows: tuple[str, ...]
    conditions: bool
    same: bool
    outputs: tuple[str, ...]
    wide: bool


def patterns(
    *,
    strategies: Sequence[str] = STRATEGIES,
    kleene: bool = True,
    negation: bool = True,
    and_: bool = True,
    or_: bool = True,
    optional: bool = True,
    max_variables: int = 4,
    windows: Sequence[str] = WINDOWS,
    conditions: bool = True,
    same: bool = True,
    outputs: Sequence[str] = ("all",),
    wide: bool = False,
) -> st.SearchStrategy[Pattern]:
    """Legal patterns over the types and attributes of `streams`.

    `strategies` are the selection strategies to choose from, `windows` are "time", "events" and
    "none". `kleene`, `negation`, `and_`, `or_`, `optional` (`T*`), `conditions` and `same` (`[k]`)
    say what may occur. `wide` patterns use the whole language (names in back quotes, strings,
    times, functions, RETURN): they are for reading and printing, not for `streams`.
    """
    allowed = _Allowed(
        tuple(strategies),
        kleene,
        negation,
        and_,
        or_,
        optional,
        max_variables,
        tuple(windows),
        conditions,
        same,
        tuple(outputs),
        wide,
    )
    return _patterns(allowed)


@st.composite
def _patterns(draw: st.DrawFn, allowed: _Allowed) -> Pattern:
    strategy = draw(st.sampled_from(allowed.strategies))
    within = draw(_windows(allowed))
    structure = draw(_structures(allowed, strategy, within is not None))
    same: tuple[str, ...] = ()
    if strategy == PARTITION or (allowed.same and draw(st.integers(0, 3)) == 0):
        same = ("k",)
    declared = {variable.name: variable for _, variable in atoms(structure)}
    where: list[Expression] = []
    if allowed.conditions:
        many = draw(st.sampled_from((0, 0, 1, 1, 1, 2, 3) if allowed.wide else (0, 0, 0, 1, 1, 2)))
        test = conditions(list(declared.values()), allowed.wide)
        where = [draw(test) for _ in range(many)]
    returns = draw(_returns(list(declared.values()))) if allowed.wide else None
    output = draw(st.sampled_from(allowed.outputs))
    try:
        return Pattern(structure, tuple(where), same, strategy, within, returns, output)
    except PatternError:
        reject()


@st.composite
def _windows(draw: st.DrawFn, allowed: _Allowed) -> Window | None:
    kind = draw(st.sampled_from(allowed.windows))
    amount: Any = draw(st.sampled_from((1, 2, 3, 4, 5, 6, 8, 4, 6, 9)))
    if allowed.wide:
        amounts = st.one_of(st.just(amount), st.floats(0.001, 1e9), st.just(Symbol("W")))
        amount = draw(amounts if kind == "time" else st.just(amount))
    if kind == "none":
        return None
    if kind == "events":
        return Window(amount, "events")
    units = ("", *UNITS.values()) if allowed.wide else ("", "seconds")
    return Window(amount, draw(st.sampled_from(units)))


@st.composite
def _structures(draw: st.DrawFn, allowed: _Allowed, strategy: str, bounded: bool) -> Structure:
    """A sequence of parts around at least one plain event; NOT only where it is legal."""
    left = draw(st.integers(1, allowed.max_variables))
    names = iter(NAMES)
    words = _names(allowed.wide)

    def atom() -> Atom:
        name = next(names)
        if not allowed.wide:
            return Atom(draw(st.sampled_from("AAABBC")), name)
        type = draw(words)
        return Atom(type, draw(st.sampled_from((name, name, type, draw(words)))))

    def positive() -> Structure:
        kinds = ["atom", "atom"] + ["kleene"] * 2 * allowed.kleene
        kind = draw(st.sampled_from(kinds))
        if kind == "atom":
            return atom()
        return Kleene(atom(), allowed.optional and draw(st.integers(0, 3)) == 0)

    parts: list[Structure] = []
    while left > 0:
        first, last = not parts, left == 1
        kinds = ["positive"] * 4
        # The place before the only event, or after it, is the beginning or end of the pattern.
        inside = not first and not last
        if allowed.negation and (inside or bounded):
            kinds += ["not"] * 3
        if left > 1 and allowed.and_ and strategy == ANY:
            kinds += ["and"]
        if left > 1 and allowed.or_:
            kinds += ["or"]
        kind = draw(st.sampled_from(kinds))
        if kind == "positive":
            parts.append(positive())
            left -= 1
        elif kind == "not":
            parts.append(Not(atom()))
            left -= 1
        else:
            inner: list[Structure] = [positive(), positive()]
            if left > 2 and draw(st.booleans()):
                inner[1] = Seq((inner[1], positive()))
                left -= 1
            parts.append(And(tuple(inner)) if kind == "and" else Or(tuple(inner)))
            left -= 2
    if not any(isinstance(part, Atom) for part in parts) and len(parts) < 5:
        spot = draw(st.integers(0, len(parts)))
        parts.insert(spot, atom())
    return parts[0] if len(parts) == 1 and allowed.wide else Seq(tuple(parts))


# ---- conditions ----


def conditions(variables: list[Variable], wide: bool = False) -> st.SearchStrategy[Expression]:
    """Conditions that are legal on these variables: at most one of them absent in each."""
    return _conditions(tuple(variables), wide)


@st.composite
def _conditions(draw: st.DrawFn, variables: tuple[Variable, ...], wide: bool) -> Expression:
    # Drawing by hand is several times faster than composing strategies for every pattern anew.
    absent = [variable for variable in variables if variable.negated]
    known = [variable for variable in variables if not variable.negated]
    if absent and (not known or draw(st.booleans())):
        known.append(draw(st.sampled_from(absent)))
    kinds = ("simple",) * 5 + ("either", "either", "not", "not either", "not all")
    kind = draw(st.sampled_from(kinds))

    def simple() -> Expression:
        return _simple(draw, known, wide)

    def several() -> tuple[Expression, ...]:
        return tuple(simple() for _ in range(draw(st.integers(2, 3))))

    if kind == "simple":
        return simple()
    if kind == "not":
        return Opposite(simple())
    if kind == "not all":
        return Opposite(All(several()))
    return Either(several()) if kind == "either" else Opposite(Either(several()))


def _simple(draw: st.DrawFn, known: list[Variable], wide: bool) -> Expression:
    kinds = ("compare",) * 6 + ("in", "between", "order") + ("odd",) * 4 * wide
    kind = draw(st.sampled_from(kinds))

    def operand() -> Expression:
        return _reference(draw, known, wide)

    def value() -> Expression:
        return _value(draw, known, wide)

    if kind == "compare":
        return Compare(draw(st.sampled_from(COMPARISONS)), operand(), value())
    if kind == "order":
        return Compare(draw(st.sampled_from(COMPARISONS)), value(), operand())
    if kind == "in":
        return In(operand(), tuple(value() for _ in range(draw(st.integers(0, 3)))))
    if kind == "between":
        return Between(operand(), value(), value(), draw(st.booleans()))
    odd = draw(st.sampled_from(("like", "set", "call", "attribute", "literal")))
    if odd == "like":
        return Like(value(), draw(st.text("a%_'\n", max_size=4)), draw(st.booleans()))
    if odd == "set":
        names = st.sampled_from(("Finance", "Hi-Tech"))
        return In(value(), Symbol(draw(names)), draw(st.booleans()))
    if odd == "call":
        return Call("steep", tuple(value() for _ in range(draw(st.integers(0, 2)))))
    if odd == "attribute":
        variable = draw(st.sampled_from(known))
        return Attribute(variable.name, draw(_names(True)), "i" if variable.kleene else "")
    return Literal(draw(st.booleans()))


def _reference(draw: st.DrawFn, known: list[Variable], wide: bool) -> Expression:
    """What an expression can say of these variables: attributes, elements, aggregates."""
    variable = draw(st.sampled_from(known))
    name = draw(_names(wide))
    if not variable.kleene:
        return Attribute(variable.name, name)
    kind = draw(st.sampled_from(("i",) * 3 + ("i-1", "i-1", "1", "LEN", "avg", "count", "length")))
    if kind == "length":
        return Length(variable.name)
    if kind == "count":
        return Aggregate("count", variable.name, None, draw(st.booleans()))
    if kind == "avg":
        function = draw(st.sampled_from(AGGREGATES))
        return Aggregate(function, variable.name, name, draw(st.booleans()))
    return Attribute(variable.name, name, kind)


def _value(draw: st.DrawFn, known: list[Variable], wide: bool, depth: int = 0) -> Expression:
    """Numbers, attributes, and sums and products of them; everything else if `wide`."""
    kinds = ("number",) * 3 + ("reference",) * 4 + ("literal",) * 3 * wide
    if depth < 1 + wide:
        kinds += ("arithmetic",) * 2 + ("negative",) + ("call",) * wide
    kind = draw(st.sampled_from(kinds))
    if kind == "number":
        return Literal(draw(st.integers(0, 3)))
    if kind == "reference":
        return _reference(draw, known, wide)
    if kind == "literal":
        return draw(LITERALS)
    if kind == "arithmetic":
        left, right = (_value(draw, known, wide, depth + 1) for _ in range(2))
        return Arithmetic(draw(st.sampled_from("+-*/%")), left, right)
    if kind == "negative":
        return _negative(_value(draw, known, wide, depth + 1))
    size = draw(st.integers(0, 2))
    return Call("steep", tuple(_value(draw, known, wide, depth + 1) for _ in range(size)))


def _negative(node: Expression) -> Expression:
    """`-x` as the parser has it: minus a number is a number."""
    if isinstance(node, Literal) and type(node.value) in (int, float):
        return Literal(-node.value)  # type: ignore[operator]
    return Negative(node)


@function
def steep(*values: Any) -> Any:
    """A function for tests: the sum of its arguments, None for none of them."""
    return sum(values) if values else None


@function(columns=lambda x, y: x * 2 - y)
def slope(x: Any, y: Any) -> Any:
    """A function for tests with a form for columns."""
    return x * 2 - y


def literals() -> st.SearchStrategy[Expression]:
    """Everything that can be written down."""
    numbers = st.one_of(
        st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False)
    )
    sizes = st.one_of(st.integers(0, 10**6), st.floats(0, 1e300))
    return st.one_of(
        numbers.map(Literal),
        st.text(max_size=5).map(Literal),
        st.sampled_from(("'", '"', "--", "/*", "*/", "`", "\\", "\n", "%")).map(Literal),
        st.booleans().map(Literal),
        sizes.map(Percent),
        st.builds(Duration, sizes, st.sampled_from(sorted(set(UNITS.values())))),
        st.sampled_from(("2024-01-02 10:00", "it's")).map(Timestamp),
        st.sampled_from(("T", "MSFT", "threshold", "i", "s", "min", "events")).map(Symbol),
    )


LITERALS = literals()
PLAIN = st.sampled_from(("x", "x", "x", "k"))
ODD = st.one_of(
    st.sampled_from(("x", "price", "tag_id")),
    st.sampled_from(
        (
            *("where", "AND", "Seq", "within", "timestamp", "true", "IN", "not", "unbounded"),
            *("skip_till_next_match", "non_overlap", "all", "event", "count", "hour", "s", "i"),
            *("LEN", "len", "end", "1x", "é", "x-y", "a.b", "a b", "a\nb", " ", "[]", "'", "--"),
            *("`x", "``", "``x"),
        )
    ),
    st.text(min_size=1, max_size=3),
)


def _names(wide: bool) -> st.SearchStrategy[str]:
    return ODD if wide else PLAIN


@st.composite
def _returns(draw: st.DrawFn, variables: list[Variable]) -> Returns | None:
    present = [variable for variable in variables if not variable.negated]
    if not present or draw(st.booleans()):
        return None
    names = draw(st.lists(ODD, max_size=3, unique=True))
    attributes = tuple((name, _value(draw, present, wide=True)) for name in names)
    return Returns(draw(ODD), attributes)
