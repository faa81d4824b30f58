"""The language of CONTEXTS: `CONTEXT ... SELECT ... FROM ... SEQUENCE | KLNCLOSE ... PUBLISH`.

A query composes interval events: an operator takes the events of one stream as initiators, those
of another as detectors, and its output can be the initiator of a further operator. It is read and
printed here, and not run yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import lark

from cepviz.errors import PatternError, did_you_mean
from cepviz.language.expressions import (
    Duration,
    Expression,
    Literal,
    Negative,
    Symbol,
    quoted,
)
from cepviz.language.highlight import highlighted
from cepviz.language.literals import as_literal
from cepviz.language.parser import Builder, check_condition, place_of, read, unquoted
from cepviz.language.pattern import check_depth

#: Our word for each context and the paper's abbreviation ("EXP" is its "expended").
CONTEXTS = {"compact": "CPC", "expanded": "EXP", "complete": "CPL", "traceable": "TCL"}
WORDS = {short.lower(): word for word, short in CONTEXTS.items()}
WORDS |= {word: word for word in CONTEXTS} | {"expended": "expanded", "extended": "expanded"}

ROLES = ("pre", "suf", "cur")
DEEPEST = 50


@dataclass(frozen=True)
class Part(Expression):
    """`$pre.Price`, an attribute of a part of the composite: the prefix (`pre`), the suffix
    (`suf`) or the current last element (`cur`); `Start($pre).Price` is that of its first event."""

    role: str
    name: str
    edge: str = ""

    def __str__(self) -> str:
        part = f"{self.edge}(${self.role})" if self.edge else f"${self.role}"
        return f"{part}.{quoted(self.name)}"


@dataclass(frozen=True)
class Selected:
    """An attribute of the output: `Price`, or `Price AS p`."""

    name: str
    alias: str | None = None

    def __str__(self) -> str:
        shown = quoted(self.name)
        return shown if self.alias is None else f"{shown} AS {quoted(self.alias)}"


@dataclass(frozen=True)
class Limit:
    """`TEMPORAL 6 hours` or `COUNT 3`."""

    kind: str
    amount: Expression

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"


@dataclass(frozen=True)
class Sliding:
    """`WINDOW {COUNT 3, TEMPORAL 6 hours}`: how far a window reaches and how far it slides."""

    range: Limit
    slide: Limit

    def __str__(self) -> str:
        return f"WINDOW {{{self.range}, {self.slide}}}"


@dataclass(frozen=True)
class Input:
    """`<Stock>`: the events of a stream, one of the data or one that another query publishes."""

    stream: str


@dataclass(frozen=True)
class Restricted:
    """`RESTRICT {...} <Stock>`: only those events of a source, each called `$cur`."""

    source: Source
    restrict: Expression


@dataclass(frozen=True)
class Sequence:
    """An initiator and its successor, the detector, with a condition on each."""

    initiator: Source
    detector: Source
    window: Sliding | None = None
    initiator_restrict: Expression | None = None
    detector_restrict: Expression | None = None


@dataclass(frozen=True)
class Closure:
    """An initiator, the chain of detectors after it, and the terminator that ends the chain.

    `terminator` is None where detectors and terminators come from one stream.
    """

    initiator: Source
    detector: Source
    terminator: Source | None = None
    window: Sliding | None = None
    initiator_restrict: Expression | None = None
    detector_restrict: Expression | None = None
    terminator_restrict: Expression | None = None


Source = Input | Restricted | Sequence | Closure


@dataclass(frozen=True)
class ContextQuery:
    """A query over interval events in one of the four contexts, as an immutable value.

    >>> q = parse_context("CONTEXT cpc SELECT <Price> FROM <A> SEQUENCE <B> PUBLISH <Out>")
    >>> print(q)
    CONTEXT CPC
    SELECT <Price>
    FROM <A>
    SEQUENCE <B>
    PUBLISH <Out>
    >>> parse_context(str(q)) == q
    True
    """

    context: str
    select: tuple[Selected, ...]
    source: Source
    window: Sliding | None = None
    publish: str | None = None
    text: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.context not in CONTEXTS:
            raise PatternError(f"unknown context {self.context!r} (must be one of {[*CONTEXTS]})")
        names = [chosen.alias or chosen.name for chosen in self.select]
        for name in names:
            if names.count(name) > 1:
                raise PatternError(f"SELECT gives {name!r} twice: rename one with AS")
        _check_nesting(self.source)
        _check(self.source)
        _check_window(self.window, ())

    def __str__(self) -> str:
        chosen = ", ".join(map(str, self.select))
        lines = [f"CONTEXT {CONTEXTS[self.context]}", f"SELECT <{chosen}>"]
        source = _lines(self.source)
        if self.window is None:
            source[0] = f"FROM {source[0]}"
        else:
            lines.append(f"FROM {self.window}")
        lines += source
        if self.publish is not None:
            lines.append(f"PUBLISH <{quoted(self.publish)}>")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ContextQuery {' '.join(str(self).split())}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": highlighted(str(self))}

    def warnings(self) -> list[str]:
        """What is legal here but probably not meant."""
        names: list[str] = []

        def note(node: Expression) -> Expression:
            names.extend([node.name] if isinstance(node, Symbol) else [])
            return node

        self._changed(note)
        return [
            f"{name} is read as the string '{name}': put it in quotes, or give it a value "
            f"with .given({name}=...)"
            for name in dict.fromkeys(names)
        ]

    def given(self, **values: Any) -> ContextQuery:
        """The query with bare names replaced by values."""
        used: set[str] = set()

        def put(node: Expression) -> Expression:
            if not isinstance(node, Symbol) or node.name not in values:
                return node
            used.add(node.name)
            return as_literal(values[node.name])

        query = self._changed(put)
        for name in values:
            if name not in used:
                raise PatternError(f"the query has no parameter {name!r}")
        return query

    def _changed(self, change: Callable[[Expression], Expression]) -> ContextQuery:
        source: Source = _mapped(self.source, change)
        return replace(self, source=source, window=_mapped(self.window, change))


def _mapped(node: Any, change: Callable[[Expression], Expression]) -> Any:
    """A source or window with every expression in it changed."""
    if isinstance(node, Expression):
        return node.map(change)
    if not isinstance(node, Source | Sliding | Limit):
        return node
    return replace(node, **{name: _mapped(value, change) for name, value in vars(node).items()})


# ---- printing ----


def _lines(source: Source) -> list[str]:
    """A source as it stands behind FROM, one clause a line."""
    if isinstance(source, Input):
        return [f"<{quoted(source.stream)}>"]
    if isinstance(source, Restricted):
        inner = _bracketed(source.source)
        return [f"RESTRICT {{{source.restrict}}} {inner[0]}", *inner[1:]]
    lines, detector = _bracketed(source.initiator), _bracketed(source.detector)
    word = "SEQUENCE" if isinstance(source, Sequence) else "KLNCLOSE"
    if isinstance(source, Closure) and source.terminator is not None:
        detector[-1] += ","
        detector += _bracketed(source.terminator)
    restricts = _restricts(source)
    if source.window is None and not restricts:
        return [*lines, f"{word} {detector[0]}", *detector[1:]]
    operator = word if source.window is None else f"{word} {source.window}"
    return [*lines, operator, *restricts, *detector]


def _bracketed(source: Source) -> list[str]:
    lines = _lines(source)
    if isinstance(source, Input):
        return lines
    lines = [f"<{lines[0]}", *(f" {line}" for line in lines[1:])]
    lines[-1] += ">"
    return lines


def _conditions(source: Sequence | Closure) -> list[Expression | None]:
    """The conditions on initiator, detector and (of a closure) terminator."""
    conditions = [source.initiator_restrict, source.detector_restrict]
    return [*conditions, source.terminator_restrict] if isinstance(source, Closure) else conditions


def _restricts(source: Sequence | Closure) -> list[str]:
    """The conditions by place: the initiator's is left out first, the terminator's second."""
    conditions = _conditions(source)
    if conditions[0] is None:
        conditions = conditions[1:]
        while conditions and conditions[-1] is None:
            conditions.pop()
    shown = [f"RESTRICT {{{c or Literal(True)}}}" for c in conditions]
    if len(shown) < 2:
        return shown
    lines = [f"{'{' if n == 0 else ' '}{line}," for n, line in enumerate(shown)]
    lines[-1] = f"{lines[-1][:-1]}}}"
    return lines


# ---- checking ----


def _inner(source: Source) -> Iterator[Source]:
    if isinstance(source, Restricted):
        yield source.source
    elif isinstance(source, Sequence | Closure):
        yield from (source.initiator, source.detector)
        if isinstance(source, Closure) and source.terminator is not None:
            yield source.terminator


def _check_nesting(source: Source) -> None:
    level = [source]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return
    raise PatternError(f"operators are nested more than {DEEPEST} deep")


def _check(source: Source) -> None:
    if isinstance(source, Restricted):
        _check_condition(source.restrict, ("cur",), "a condition on a stream's own events")
    if isinstance(source, Sequence | Closure):
        initiator, *others = _conditions(source)
        _check_condition(initiator, ("pre",), "a condition on the initiator")
        roles = ROLES if isinstance(source, Closure) else ("pre", "suf")
        for condition in others:
            _check_condition(condition, roles, "a condition of SEQUENCE")
        _check_window(source.window, roles)
    for inner in _inner(source):
        _check(inner)


def _check_condition(condition: Expression | None, roles: tuple[str, ...], what: str) -> None:
    if condition is None:
        return
    check_depth((condition,))
    check_condition(condition)
    _check_roles(condition, roles, what)


def _check_roles(expression: Expression, roles: tuple[str, ...], what: str) -> None:
    for node in expression.walk():
        if isinstance(node, Part) and node.role not in roles:
            known = " or ".join(f"${role}" for role in roles) or "no part, only numbers"
            raise PatternError(f"{what} speaks of {known}, not ${node.role}", place=node.place)


def _check_window(window: Sliding | None, roles: tuple[str, ...]) -> None:
    for limit in () if window is None else (window.range, window.slide):
        check_depth((limit.amount,))
        _check_roles(limit.amount, roles, "a window" if roles else "the window of FROM")
        _check_limit(limit)


def _check_limit(limit: Limit) -> None:
    amount = limit.amount
    if isinstance(amount, Negative):
        raise PatternError(f"{limit.kind} must be more than 0", place=amount.operand.place)
    if isinstance(amount, Literal):
        whole = isinstance(amount.value, int) and not isinstance(amount.value, bool)
        if not whole and (limit.kind == "COUNT" or not isinstance(amount.value, float)):
            kind = "a whole number" if limit.kind == "COUNT" else "a length of time"
            raise PatternError(f"{limit.kind} needs {kind}, not {amount}", place=amount.place)
    elif limit.kind == "COUNT" and isinstance(amount, Duration):
        raise PatternError(f"COUNT needs a whole number, not {amount}", place=amount.place)
    size = getattr(amount, "value", getattr(amount, "amount", 1))
    if not isinstance(size, str) and size <= 0:
        raise PatternError(f"{limit.kind} must be more than 0", place=amount.place)


# ---- reading ----


@lark.v_args(inline=True)
class _Builder(Builder):
    """Builds queries; conditions are built as in patterns."""

    def part(self, token: lark.Token, name: lark.Token) -> Expression:
        place = (*place_of(token)[:2], len(token) + 1 + len(name))
        return Part(_role(token), unquoted(name), place=place)

    def edge(self, edge: lark.Token, token: lark.Token, name: lark.Token) -> Expression:
        return Part(_role(token), unquoted(name), edge.capitalize(), place=place_of(edge))

    def restrict(self, keyword: lark.Token, condition: Expression) -> Expression:
        return condition

    def one_restrict(self, condition: Expression) -> tuple[Expression, ...]:
        return (condition,)

    def restricts(self, *conditions: Expression) -> tuple[Expression, ...]:
        return conditions

    def limit(self, kind: lark.Token | None, amount: Expression) -> tuple[Any, Expression]:
        return kind, amount

    def window(self, keyword: lark.Token, reach: Any, slide: Any) -> Any:  # type: ignore[override]
        kind, amount = reach
        if kind is None:
            raise PatternError(
                f"WINDOW {{{amount}, ...}} needs a kind: write TEMPORAL {amount} or COUNT {amount}",
                place=amount.place or place_of(keyword),
            )
        again, step = slide
        kind = kind.upper()
        return Sliding(Limit(kind, amount), Limit(kind if again is None else again.upper(), step))

    def window_angled(
        self, keyword: lark.Token, kind: lark.Token, _: Any, reach: Any, slide: Any, __: Any
    ) -> Sliding:
        return Sliding(Limit(kind.upper(), reach), Limit(kind.upper(), slide))

    def input(self, _: lark.Token, name: lark.Token, __: lark.Token) -> Source:
        return Input(unquoted(name))

    def nested(self, _: lark.Token, source: Source, __: lark.Token) -> Source:
        return source

    def restricted(self, restrict: Expression | None, source: Source) -> Source:
        return source if restrict is None else Restricted(source, restrict)

    def sequence(
        self, initiator: Any, word: lark.Token, window: Any, restricts: Any, detector: Any
    ) -> Source:
        conditions = _by_place(restricts or (), word, ("detector",), ("initiator", "detector"))
        return Sequence(initiator, detector, window, **conditions)

    def closure(
        self,
        initiator: Any,
        word: lark.Token,
        window: Any,
        restricts: Any,
        detector: Any,
        terminator: Any,
    ) -> Source:
        conditions = _by_place(
            restricts or (),
            word,
            ("detector",),
            ("detector", "terminator"),
            ("initiator", "detector", "terminator"),
        )
        return Closure(initiator, detector, terminator, window, **conditions)

    def selected(self, name: lark.Token, _: Any, alias: lark.Token | None) -> Selected:
        return Selected(unquoted(name), None if alias is None else unquoted(alias))

    def query(self, *parts: Any) -> ContextQuery:
        named = parts[1]
        select = tuple(part for part in parts if isinstance(part, Selected))
        window, source, publish = parts[-6], parts[-5], parts[-2]
        word = unquoted(named).lower()
        if word not in WORDS:
            raise PatternError(
                f"unknown context {named!s}{did_you_mean(word, WORDS)}",
                place=place_of(named),
                expected=CONTEXTS.values(),
            )
        published = None if publish is None else unquoted(publish)
        return ContextQuery(WORDS[word], select, source, window, published)


def _role(token: lark.Token) -> str:
    role = token[1:].lower()
    if role not in ROLES:
        raise PatternError(
            f"unknown part {token!s}{did_you_mean(token, [f'${role}' for role in ROLES])}",
            place=place_of(token),
            expected=[f"${role}" for role in ROLES],
        )
    return role


def _by_place(
    restricts: tuple[Expression, ...], word: lark.Token, *roles: tuple[str, ...]
) -> dict[str, Expression]:
    """The conditions by the part they are on: with fewer, the initiator's is the first to go."""
    if not restricts:
        return {}
    if len(restricts) > len(roles):
        raise PatternError(
            f"{word.upper()} takes at most {len(roles)} RESTRICT, "
            f"of {', '.join(roles[-1])}, not {len(restricts)}",
            place=place_of(word),
        )
    named = zip(roles[len(restricts) - 1], restricts, strict=True)
    return {f"{role}_restrict": c for role, c in named if c != Literal(True)}


@cache
def _lark() -> lark.Lark:
    path = Path(__file__).with_name("contexts.lark")
    return lark.Lark(
        path.read_text(encoding="utf-8"),
        start="query",
        parser="lalr",
        transformer=_Builder(),
        maybe_placeholders=True,
        source_path=str(path),
        import_paths=[str(path.parent)],
    )


def parse_context(text: str, **values: Any) -> ContextQuery:
    """Reads a query in the form of CONTEXTS; `values` are given to its bare names."""
    query: ContextQuery = read(text, _lark())
    object.__setattr__(query, "text", text)
    return query.given(**values) if values else query
