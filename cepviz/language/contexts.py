"""The language of CONTEXTS: `CONTEXT ... SELECT ... FROM ... SEQUENCE | KLNCLOSE ... PUBLISH`.

A query composes interval events: an operator takes the events of one stream as initiators, those
of another as detectors, and its output can be the initiator of a further operator. Here is the
query as a value; `context_parser` reads it, the engine `contexts` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cepviz.errors import PatternError, one_of
from cepviz.language.expressions import (
    Attribute,
    Duration,
    Expression,
    Literal,
    Negative,
    Symbol,
    quoted,
)
from cepviz.language.highlight import highlighted
from cepviz.language.literals import as_literal
from cepviz.language.parser import check_condition
from cepviz.language.pattern import Branch, Returns, check_depth
from cepviz.language.structure import Variable

#: Our word for each context and the paper's abbreviation ("EXP" is its "expended").
CONTEXTS = {"compact": "CPC", "expanded": "EXP", "complete": "CPL", "traceable": "TCL"}
WORDS = {short.lower(): word for word, short in CONTEXTS.items()}
WORDS |= {word: word for word in CONTEXTS} | {"expended": "expanded", "extended": "expanded"}

ROLES = ("pre", "suf", "cur")
DEEPEST = 50

#: How a window slides, and how a query says it.
STRATEGIES = {
    "rolling": "ROLLING",
    "wipe-out": "WIPEOUT",
    "referencing-keep": "KEEP",
    "rigid": "RIGID",
}


@dataclass(frozen=True)
class Part(Expression):
    """`$pre.Price`, an attribute of a part of the composite: the prefix (`pre`), the suffix
    (`suf`) or the current last element (`cur`); `Start($pre).Price` is that of its first event."""

    role: str
    name: str
    edge: str = ""

    def __str__(self) -> str:
        return str(self.attribute())

    def attribute(self) -> Role:
        """The same as an attribute, for those who evaluate it."""
        part = f"{self.edge}(${self.role})" if self.edge else f"${self.role}"
        return Role(part, self.name, place=self.place)


@dataclass(frozen=True)
class Role(Attribute):
    """A `Part` in a query that has met a stream: its variable is `$pre`, `Start($pre)`, ..."""

    def __str__(self) -> str:
        return f"{self.variable}.{quoted(self.name)}"


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
    """`WINDOW {COUNT 3, TEMPORAL 6 hours}`: how far a window reaches, how far it slides, and by
    which strategy, where it names one."""

    range: Limit
    slide: Limit
    named: str | None = None

    def __str__(self) -> str:
        strategy = f", {STRATEGIES[self.named]}" if self.named else ""
        return f"WINDOW {{{self.range}, {self.slide}{strategy}}}"

    @property
    def strategy(self) -> str:
        """How it slides. Where it does not say, a temporal slide is rigid, and a count wipes out
        unless the window still holds something else when it has slid (CONTEXTS section 3)."""
        if self.named:
            return self.named
        if self.slide.kind == "TEMPORAL":
            return "rigid"
        sizes = [getattr(limit.amount, "value", 0) for limit in (self.range, self.slide)]
        counted = self.range.kind == "COUNT" and sizes[1] < sizes[0]
        return "referencing-keep" if counted else "wipe-out"


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
Operator = Sequence | Closure


def operators(source: Source) -> list[Operator]:
    """The operators of a source, each after those it takes its events from."""
    inner = [operator for part in _inner(source) for operator in operators(part)]
    return [*inner, source] if isinstance(source, Operator) else inner


def stream_of(source: Source) -> str | None:
    """The stream a source reads, restricted or not; None if it is the output of an operator."""
    while isinstance(source, Restricted):
        source = source.source
    return source.stream if isinstance(source, Input) else None


@dataclass(frozen=True)
class ContextQuery:
    """A query over interval events in one of the four contexts, as an immutable value.

    >>> from cepviz.language.context_parser import parse_context
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

    # ---- what a query has in common with a pattern ----

    branches: tuple[Branch, ...] = field(default=(), init=False, repr=False, compare=False)
    within: None = field(default=None, init=False, repr=False, compare=False)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """The parts of an output by name: initiator, detectors, terminator, each with the number of
        its operator where there are several; `between` are the later initiators of traceable."""
        many = self.window is not None
        stream = stream_of(self.source)
        if stream is not None:
            return {"event": Variable("event", stream, many)}
        listed = _declared(self.source, many, operators(self.source), self.context == "traceable")
        return {variable.name: variable for variable in listed}

    @property
    def returns(self) -> Returns | None:
        """The type that its outputs have as events; their attributes are those of SELECT."""
        return None if self.publish is None else Returns(self.publish)

    def warnings(self) -> list[str]:
        """What is legal here but probably not meant."""
        names: list[str] = []

        def note(node: Expression) -> Expression:
            names.extend([node.name] if isinstance(node, Symbol) else [])
            return node

        self.changed(note)
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

        query = self.changed(put)
        for name in values:
            if name not in used:
                raise PatternError(f"the query has no parameter {name!r}")
        return query

    @property
    def windows(self) -> list[Sliding]:
        """Every window of the query, the outermost first."""
        found = [self.window, *(operator.window for operator in operators(self.source)[::-1])]
        return [window for window in found if window is not None]

    def changed(self, change: Callable[[Expression], Expression]) -> ContextQuery:
        """The query with `change` applied to every part of its conditions and windows."""
        source: Source = _mapped(self.source, change)
        return replace(self, source=source, window=_mapped(self.window, change))


def _declared(
    source: Source, many: bool, numbered: list[Operator], traceable: bool
) -> Iterator[Variable]:
    """The variables of a source, in the order of the text; `many` where it stands in a list."""
    while isinstance(source, Restricted):
        source = source.source
    assert isinstance(source, Operator)
    names = names_of(source, numbered)
    closure = isinstance(source, Closure)

    def part(role: str, inner: Source, many: bool) -> Iterator[Variable]:
        stream = stream_of(inner)
        if stream is None:
            yield from _declared(inner, many, numbered, traceable)
        else:
            yield Variable(names[role], stream, many)

    yield from part("initiator", source.initiator, many)
    if traceable:
        yield Variable(names["between"], _leftmost(source.initiator), True)
    yield from part("detector", source.detector, many or closure)
    if isinstance(source, Closure) and (source.terminator or source.terminator_restrict):
        yield from part("terminator", source.terminator or source.detector, many)


def _leftmost(source: Source) -> str:
    while not isinstance(source, Input):
        source = source.source if isinstance(source, Restricted) else source.initiator
    return source.stream


def names_of(operator: Operator, numbered: list[Operator]) -> dict[str, str]:
    """The names of an operator's parts, by role."""
    number = next(n for n, other in enumerate(numbered, 1) if other is operator)
    mark = f"_{number}" if len(numbered) > 1 else ""
    words = {role: role for role in ("initiator", "between", "detector", "terminator")}
    if isinstance(operator, Closure):
        words["detector"] = "detectors"
    return {role: f"{word}{mark}" for role, word in words.items()}


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
    if window is not None and window.strategy == "rigid" and window.slide.kind == "COUNT":
        raise PatternError(
            "a RIGID window slides over time: write its slide as TEMPORAL",
            place=window.slide.amount.place,
        )
    if window is not None and window.named is not None and window.named not in STRATEGIES:
        raise PatternError(
            f"unknown strategy {window.named!r} (must be {one_of(map(repr, STRATEGIES))})"
        )
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
