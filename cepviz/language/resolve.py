"""A pattern meets a stream: names and kinds are checked, times become numbers in its unit."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from cepviz.errors import PatternError, StreamError, did_you_mean, one_of
from cepviz.events import Schema
from cepviz.language.contexts import ContextQuery, Part
from cepviz.language.expressions import (
    TRUTHS,
    Aggregate,
    Arithmetic,
    Attribute,
    Between,
    Compare,
    Duration,
    Expression,
    In,
    Length,
    Like,
    Literal,
    Negative,
    Percent,
    Relation,
    Symbol,
    Timestamp,
)
from cepviz.language.pattern import Pattern

BUILT_IN = {"type": "string", "time": "time", "start": "time", "end": "time", "id": None}
NUMBERS = ("number", "bool", "time")


Query = TypeVar("Query", Pattern, ContextQuery)


def resolve(pattern: Query, schema: Schema) -> Query:
    """The pattern as it is run on a stream of this schema; every refusal happens here, before
    an event is read."""
    try:
        return _resolve(pattern, schema)
    except PatternError as error:
        text = pattern.text if isinstance(pattern, ContextQuery) else pattern.source
        raise error.within(text or "") from None


def _resolve(pattern: Query, schema: Schema) -> Query:
    def change(node: Expression) -> Expression:
        node = node.attribute() if isinstance(node, Part) else node
        node = _with_times(node, schema)
        _check(node, schema)
        return node

    if isinstance(pattern, ContextQuery):
        _check_windows(pattern, schema)
        return pattern.changed(change)
    for name in pattern.same:
        _known(Attribute(next(iter(pattern.variables)), name), schema)
    where = tuple(condition.map(change) for condition in pattern.where)
    returns = pattern.returns and replace(
        pattern.returns,
        attributes=tuple((name, node.map(change)) for name, node in pattern.returns.attributes),
    )
    window_size(pattern, schema)
    same = all(new is old for new, old in zip(where, pattern.where, strict=True))
    if same and returns == pattern.returns:
        return pattern  # as it is for most: what it knows of its branches is kept
    return replace(pattern, where=where, returns=returns)


def _check_windows(query: ContextQuery, schema: Schema) -> None:
    """Refuses a window without a value, or without a unit where times are dates."""
    for window in query.windows:
        for limit in (window.range, window.slide):
            amount = limit.amount
            if isinstance(amount, Symbol):
                raise PatternError(
                    f"{limit} has no value yet: give it one with .given({amount}=...)",
                    place=amount.place,
                )
            bare = isinstance(amount, Literal) and amount.text is None
            if limit.kind == "TEMPORAL" and bare and schema.zone is not None:
                raise PatternError(
                    f"{limit} needs a unit, because the times of this stream are dates: "
                    f"write {limit} seconds",
                    place=amount.place,
                )


def window_size(pattern: Pattern, schema: Schema) -> int | float | None:
    """How long the window is: in events, or in the stream's unit; None where there is none."""
    window = pattern.within
    if window is None or window.amount is None:
        return None
    if isinstance(window.amount, Symbol):
        raise PatternError(
            f"WITHIN {window} has no value yet: give it one with .given({window.amount}=...)",
            place=window.amount.place,
        )
    if window.in_events:
        return window.amount
    if window.unit:
        return schema.duration(window.amount, window.unit)
    if schema.zone is not None:
        raise PatternError(
            f"WITHIN {window} needs a unit, because the times of this stream are dates: "
            f"write WITHIN {window} seconds, or WITHIN {window} events"
        )
    return window.amount


def _with_times(node: Expression, schema: Schema) -> Expression:
    if isinstance(node, Duration):
        return Literal(schema.duration(node.amount, node.unit), str(node), place=node.place)
    if isinstance(node, Timestamp):
        try:
            return Literal(schema.timestamp(node.text), str(node), place=node.place)
        except StreamError as error:
            raise PatternError(str(error), place=node.place) from None
    if isinstance(node, Symbol):
        return node
    if isinstance(node, Compare | Between | In):
        # A string beside a time is a moment written without TIMESTAMP.
        parts = list(node.children())
        if any(_kind(part, schema) == "time" for part in parts):
            return node.map(lambda part: _moment(part, schema))
    return node


def _moment(node: Expression, schema: Schema) -> Expression:
    if isinstance(node, Literal) and isinstance(node.value, str):
        return _with_times(Timestamp(node.value, place=node.place), schema)
    return node


def _known(node: Attribute | Aggregate, schema: Schema) -> str | None:
    name = node.name
    if name is None or not schema.attributes:
        return None
    if name in schema.attributes:
        kind = schema.attributes[name]
        return None if kind == "other" else kind
    if name in BUILT_IN:
        return BUILT_IN[name]
    raise PatternError(
        f"no event has an attribute {name!r}{did_you_mean(name, schema.attributes)}; "
        f"there is {one_of(schema.attributes)}",
        place=node.place,
    )


def _kind(node: Expression, schema: Schema) -> str | None:
    """number, string, bool, time or list; None where nothing is known."""
    if isinstance(node, Literal):
        if isinstance(node.value, bool):
            return "bool"
        return "string" if isinstance(node.value, str) else "number"
    if isinstance(node, Attribute):
        return _known(node, schema)
    if isinstance(node, Aggregate):
        return "number" if node.function in ("count", "sum", "avg") else _known(node, schema)
    if isinstance(node, Timestamp):
        return "time"
    if isinstance(node, Length | Arithmetic | Negative | Percent | Duration):
        return "number"
    return "bool" if isinstance(node, TRUTHS) else None


def _check(node: Expression, schema: Schema) -> None:
    kinds = [_kind(child, schema) for child in node.children()]
    if isinstance(node, Attribute | Aggregate):
        kind = _known(node, schema)
        numeric = isinstance(node, Aggregate) and node.function in ("sum", "avg")
        if numeric and kind not in (*NUMBERS, None):
            raise PatternError(f"{node}: {node.name} is a {kind}", place=node.place)
    elif isinstance(node, Arithmetic | Negative):
        for child, kind in zip(node.children(), kinds, strict=True):
            if kind not in (*NUMBERS, None):
                raise PatternError(
                    f"{node}: {child} is a {kind}, not a number", place=node.place or child.place
                )
    elif isinstance(node, Compare | Between | In):
        if isinstance(node, Compare) and node.operator not in "!=":
            _refuse_symbols(node)
        if isinstance(node, In) and isinstance(node.options, Symbol):
            name = node.options.name
            raise PatternError(
                f"the set {name} has no values yet: give them with "
                f".given({name.replace('-', '_')}=[...])",
                place=node.options.place,
            )
        first, *others = ["number" if kind in NUMBERS else kind for kind in kinds]
        for child, kind in zip(list(node.children())[1:], others, strict=True):
            if first and kind and first != kind:
                raise PatternError(
                    f"{node} compares a {kinds[0]} with a {kind}: "
                    f"{next(node.children())} is a {kinds[0]}, {child} is a {kind}",
                    place=node.place,
                )
    elif isinstance(node, Relation):
        for name, role in (("start", "time"), ("end", "end")):
            if name in schema.attributes and schema.roles.get(role) != name:
                raise PatternError(
                    f"{node}: the stream has a column {name!r} that is not the {name} of its "
                    "events: rename it",
                    place=node.place,
                )
    elif isinstance(node, Like) and kinds[0] not in ("string", None):
        raise PatternError(f"{node}: {node.operand} is a {kinds[0]}, not text", place=node.place)


def _refuse_symbols(node: Compare) -> None:
    for child in node.children():
        if isinstance(child, Symbol):
            raise PatternError(
                f"{child.name} has no value yet: give it one with .given({child.name}=...), "
                f"or write '{child.name}' if it is a string",
                place=child.place,
            )
