"""The meaning of predicates, one at a time and with values shown: the reference for every engine.

Values follow SQL: an operation on a missing value is missing (None), a comparison with it unknown
(None), and only what is true holds. `compile` and `columns` are the fast forms of the same.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cepviz.events import Event
from cepviz.language.expressions import (
    Aggregate,
    All,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Either,
    Expression,
    In,
    Length,
    Like,
    Literal,
    Negative,
    Opposite,
    Percent,
    Relation,
    Symbol,
    looks_back,
    per_element,
)
from cepviz.language.functions import find_function
from cepviz.steps import Tested, plain, short

Bindings = Mapping[str, Event | Sequence[Event]]
Failed = Callable[[Expression, Bindings, Exception], None]

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def aggregate(function: str, name: str | None, events: Sequence[Event]) -> Any:
    """An aggregate over events; missing values do not count, and over nothing it is missing."""
    if name is None:
        return len(events)
    values = [value for event in events if (value := event.get(name)) is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function == "first":
        return values[0]
    if function == "last":
        return values[-1]
    if function == "min":
        return min(values)
    if function == "max":
        return max(values)
    total = sum(values)
    return total if function == "sum" else total / len(values)


def value(node: Expression, bindings: Bindings, at: Mapping[str, int] | None = None) -> Any:
    """The value of an expression, None where it is missing or unknown.

    `bindings` maps a variable to its event, or to its events if it is Kleene; `at` says which
    element (from 0) is the current one, `a[i]`.
    """
    at = at or {}
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Percent):
        return node.amount / 100
    if isinstance(node, Symbol):
        return node.name
    if isinstance(node, Attribute):
        return _event(node, bindings, at).get(node.name)
    if isinstance(node, Length):
        return len(_events(bindings, node.variable))
    if isinstance(node, Aggregate):
        events = _events(bindings, node.variable)
        if node.prefix:
            events = events[: at[node.variable]]
        return aggregate(node.function, node.name, events)
    if isinstance(node, All | Either):
        return truth(node, bindings, at)
    if isinstance(node, Opposite):
        inside = value(node.part, bindings, at)
        return None if inside is None else not inside
    if isinstance(node, Relation):
        inside = value(node.meaning, bindings, at)
        return None if inside is None else inside != node.negated
    values = [value(child, bindings, at) for child in node.children()]
    if any(inner is None for inner in values):
        return None
    return _computed(node, values)


def _computed(node: Expression, values: list[Any]) -> Any:
    if isinstance(node, Negative):
        return -number(values[0])
    if isinstance(node, Arithmetic):
        return ARITHMETIC[node.operator](number(values[0]), number(values[1]))
    if isinstance(node, Compare):
        return bool(COMPARE[node.operator](*values))
    if isinstance(node, In):
        return (values[0] in values[1:]) != node.negated
    if isinstance(node, Between):
        return (values[1] <= values[0] <= values[2]) != node.negated
    if isinstance(node, Like):
        return (node.regex.fullmatch(values[0]) is not None) != node.negated
    if isinstance(node, Call):
        return find_function(node.function).scalar(*values)
    raise TypeError(f"{node} has no value before the pattern meets a stream")


def number(given: Any) -> Any:
    if isinstance(given, int | float):
        return given
    raise TypeError(f"{short(given)!r} is not a number")


def _events(bindings: Bindings, variable: str) -> Sequence[Event]:
    bound = bindings[variable]
    return (bound,) if isinstance(bound, Event) else bound


def _event(node: Attribute, bindings: Bindings, at: Mapping[str, int]) -> Event:
    bound = bindings[node.variable]
    if isinstance(bound, Event):
        return bound
    if node.index == "1":
        return bound[0]
    if node.index == "LEN":
        return bound[-1]
    return bound[at[node.variable] - (node.index == "i-1")]


def truth(
    node: Expression,
    bindings: Bindings,
    at: Mapping[str, int] | None = None,
    failed: Failed | None = None,
) -> bool | None:
    """True, False or None (unknown). With `failed`, a part that cannot be computed is told to it
    and is unknown; without, the error is raised."""
    if isinstance(node, All | Either):
        decisive = isinstance(node, Either)
        unknown = False
        for part in node.parts:
            inside = truth(part, bindings, at, failed)
            if inside is decisive:
                return decisive
            unknown = unknown or inside is None
        return None if unknown else not decisive
    try:
        inside = value(node, bindings, at)
    except Exception as error:
        if failed is None:
            raise
        failed(node, bindings, error)
        return None
    return None if inside is None else bool(inside)


def elements(
    conjunct: Expression, bindings: Bindings, newest: str | None = None
) -> Iterator[dict[str, int]]:
    """The elements for which a conjunct must hold: every one, or from the second on if it looks
    back; for each Kleene variable by itself. Of the variable `newest` only the last element."""
    names = sorted(per_element(conjunct))
    ranges = []
    for name in names:
        count = len(_events(bindings, name))
        least = 1 if looks_back(conjunct, name) else 0
        ranges.append(range(max(least, count - 1) if name == newest else least, count))
    for chosen in itertools.product(*ranges):
        yield dict(zip(names, chosen, strict=True))


def holds(conjunct: Expression, bindings: Bindings, failed: Failed | None = None) -> bool:
    """Whether a conjunct is true of these bindings, for every element it speaks of."""
    return all(truth(conjunct, bindings, at, failed) is True for at in elements(conjunct, bindings))


def explain(
    conjunct: Expression,
    bindings: Bindings,
    at: Mapping[str, int] | None = None,
    newest: str | None = None,
) -> Tested:
    """A conjunct with the values it sees and its truth.

    Without `at`, it is shown at the first element where it does not hold, or at the last one; of
    the variable `newest`, to which an event was just added, only the last element is looked at.
    """
    if at is None:
        choices = list(elements(conjunct, bindings, newest))
        if not choices:
            return Tested(str(conjunct), f"{conjunct} has no element to hold for", True)
        failing = (c for c in choices if truth(conjunct, bindings, c, lambda *_: None) is not True)
        at = next(failing, choices[-1])
    notes: list[str] = []
    seen: dict[str, Any] = {}
    for node in conjunct.walk():
        if isinstance(node, Attribute | Length | Aggregate):
            seen[str(node)] = _tried(node, bindings, at)
    notes += [f"{name} is missing" for name, found in seen.items() if found is None]

    def failed(node: Expression, bindings: Bindings, error: Exception) -> None:
        notes.append(f"{node}: {error}")

    verdict = truth(conjunct, bindings, at, failed)
    shown = tuple((name, plain(found)) for name, found in seen.items())
    return Tested(str(conjunct), _said(conjunct, bindings, at), verdict, shown, "; ".join(notes))


def _tried(node: Expression, bindings: Bindings, at: Mapping[str, int]) -> Any:
    """The value of an expression, None where it cannot be computed."""
    try:
        return value(node, bindings, at)
    except Exception:
        return None


def _said(node: Expression, bindings: Bindings, at: Mapping[str, int]) -> str:
    """The expression with the value of each part behind it: `b.volume 999 < 80% * ... = 816`."""

    def side(part: Expression) -> str:
        if isinstance(part, Attribute | Length | Aggregate):
            return f"{part} {short(_tried(part, bindings, at))}"
        if isinstance(part, Arithmetic | Negative | Call):
            try:
                return f"{_inside(part)} = {short(value(part, bindings, at))}"
            except Exception:
                return _inside(part)
        return str(part)

    def _inside(part: Expression) -> str:
        if isinstance(part, Arithmetic):
            return f"{_inside(part.left)} {part.operator} {_inside(part.right)}"
        if isinstance(part, Attribute | Length | Aggregate):
            return side(part)
        return str(part)

    if isinstance(node, Compare):
        return f"{side(node.left)} {node.operator} {side(node.right)}"
    if isinstance(node, All | Either):
        word = " and " if isinstance(node, All) else " or "
        return word.join(_said(part, bindings, at) for part in node.parts)
    if isinstance(node, Relation):
        # The ends of both events, in the words of the relation: `a 3..5 DURING b 2..9`.
        ends = [short(_tried(end, bindings, at)) for end in node.children()]
        names = str(node).split(" ")
        return " ".join((f"{names[0]} {ends[0]}..{ends[1]}", *names[1:], f"{ends[2]}..{ends[3]}"))
    if isinstance(node, In | Between | Like):
        return str(node).replace(str(node.operand), side(node.operand), 1)
    return side(node)
