"""What stands between a candidate and a match: every rule it breaks, each in a sentence."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cepviz.engines.base import before, events_of
from cepviz.engines.naive import Held
from cepviz.events import Event, Schema
from cepviz.explain.candidate import Ground
from cepviz.explain.shown import cut, events_in, role
from cepviz.language.evaluate import elements, explain, truth, value
from cepviz.language.expressions import Aggregate, Attribute, Compare, Expression, Length
from cepviz.language.pattern import ANY, NEXT, PARTITION, Branch, Negation
from cepviz.steps import short

#: The kinds, in the order they are told: what an event is, where it lies, what it says, and what
#: lies around it.
KINDS = (
    "lateness", "missing", "branch", "type", "used twice", "order", "window", "partition",
    "predicate", "contiguity", "strategy", "negation", "overlap", "budget",
)  # fmt: skip


@dataclass(frozen=True)
class Blocker:
    """One reason why a candidate is no match: its kind, a sentence, and the events it is about."""

    kind: str
    text: str
    events: tuple[str, ...] = ()
    #: What a fix would change: the condition, the negation or the `[attr]`.
    conjunct: Expression | None = None
    negation: Negation | None = None
    attribute: str = ""
    #: By how much a comparison fails, where that is a number.
    short_by: Any = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def blockers(
    ground: Ground, branch: Branch, held: Held, late: frozenset[Event] = frozenset()
) -> list[Blocker]:
    """Every rule of the semantics that these bindings break, in the order of `KINDS`.

    Variables of the branch that have no event are missing; the rules that need them are left out.
    """
    ordered = {v.name: held[v.name] for v in branch.variables if held.get(v.name)}
    here = {
        name: bound for name, bound in ordered.items() if not late & frozenset(events_in(bound))
    }
    found = [_late(event, ground.schema) for event in sorted(late, key=lambda e: e.position)]
    found += [_missing(ground, variable) for variable in branch.variables
              if variable.name not in ordered]  # fmt: skip
    found += _types(branch, ordered)
    twice = _used_twice(here)
    order = _order(ground, branch, here)
    found += twice + order
    found += _window(ground, here)
    found += _conditions(ground, branch, ordered)
    whole = len(here) == len(branch.variables)
    if whole and not twice and not order:
        if ground.pattern.strategy != ANY:
            found += _between(ground, branch, here)
        found += _negations(ground, branch, here)
    return sorted(found, key=lambda blocker: KINDS.index(blocker.kind))


# ---- what an event is ----


def _late(event: Event, schema: Schema) -> Blocker:
    when = schema.format_time(event.end)
    text = (
        f"{event.label} at {when} came later than the stream's lateness allows: it is in "
        "stream.late, not in the stream."
    )
    return Blocker("lateness", text, (event.label,))


def _missing(ground: Ground, variable: Any) -> Blocker:
    total = ground.stream.counts().get(variable.type, 0)
    where = "near these events" if total else "in the stream"
    return Blocker("missing", f"there is no event of type {variable.type} for {variable} {where}.")


def _types(branch: Branch, held: Held) -> list[Blocker]:
    return [
        Blocker(
            "type",
            f"{event.label} is of type {event.type}; {role(held, event)} needs {wanted}.",
            (event.label,),
        )
        for name, bound in held.items()
        for event in events_in(bound)
        if event.type != (wanted := branch.by_name[name].type)
    ]


def _used_twice(held: Held) -> list[Blocker]:
    places: dict[Event, list[str]] = {}
    for name, bound in held.items():
        for event in events_in(bound):
            places.setdefault(event, []).append(name)
    return [
        Blocker(
            "used twice",
            f"{event.label} stands for {' and '.join(names)}; an event fills one place of a match.",
            (event.label,),
        )
        for event, names in places.items()
        if len(names) > 1
    ]


# ---- where it lies ----


def _order(ground: Ground, branch: Branch, held: Held) -> list[Blocker]:
    pairs = []
    names = [variable.name for variable in branch.variables]
    for u, v in sorted(branch.order, key=lambda pair: tuple(map(names.index, pair))):
        # Neighbours are enough to say: what lies between them says the rest.
        between = any((u, w) in branch.order and (w, v) in branch.order for w in held)
        if u in held and v in held and not between:
            pairs += [(one, two) for one in events_in(held[u]) for two in events_in(held[v])]
    for bound in held.values():
        listed = events_in(bound)
        pairs += list(itertools.pairwise(listed))
    found = []
    for one, two in pairs:
        if one != two and not before(one, two):
            first, second = (f"{role(held, event)} = {event.label}" for event in (one, two))
            found.append(
                Blocker(
                    "order",
                    f"{first} must come before {second}; {_apart(ground.schema, one, two)}.",
                    (one.label, two.label),
                )
            )
    return found


def _apart(schema: Schema, one: Event, two: Event) -> str:
    if one.is_interval or two.is_interval:
        end, start = schema.format_time(one.end), schema.format_time(two.start)
        return f"{one.label} ends at {end} and {two.label} starts at {start}, which is not later"
    times = [schema.format_time(event.end) for event in (one, two)]
    if one.end == two.end:
        return f"both are at {times[0]}, and {one.label} arrived after {two.label}"
    return f"{one.label} is at {times[0]}, {two.label} at {times[1]}"


def _window(ground: Ground, held: Held) -> list[Blocker]:
    events = sorted(events_of(held), key=lambda event: event.position)
    if not events or ground.rules.fit(*events):
        return []
    within = ground.pattern.within
    if ground.rules.by_count:
        first, last = events[0], events[-1]
        size = last.position - first.position + 1
        text = (
            f"{role(held, first)} = {first.label} to {role(held, last)} = {last.label} is {size} "
            f"events of the stream; WITHIN {within} holds {ground.rules.window}."
        )
        return [Blocker("window", text, (first.label, last.label), short_by=size)]
    first, last = min(events, key=lambda e: e.start), max(events, key=lambda e: e.end)
    start, end = ground.schema.format_time(first.start), ground.schema.format_time(last.end)
    length = last.end - first.start
    text = (
        f"{role(held, first)}@{start} to {role(held, last)}@{end} is "
        f"{_length(ground, length)}; WITHIN {within} needs less."
    )
    return [Blocker("window", text, (first.label, last.label), short_by=length)]


def _length(ground: Ground, length: Any) -> str:
    within = ground.pattern.within
    shown = ground.schema.format_duration(length)
    plain = ground.schema.zone is None and within is not None and within.unit
    return f"{shown} {ground.schema.unit}" if plain else shown


# ---- what it says ----


def _conditions(ground: Ground, branch: Branch, held: Held) -> list[Blocker]:
    found = []
    told: set[str] = set()
    for conjunct in branch.conjuncts:
        if not conjunct.variables <= set(held):
            continue
        wrong = failing(conjunct, held)
        if not wrong:
            continue
        if conjunct in branch.equivalences:
            assert isinstance(conjunct, Compare) and isinstance(conjunct.left, Attribute)
            if conjunct.left.name not in told:
                told.add(conjunct.left.name)
                found.append(_partition(conjunct, held, wrong[0]))
        else:
            found.append(_predicate(ground, conjunct, held, wrong))
    return found


def failing(conjunct: Expression, held: Held) -> list[dict[str, int]]:
    """The elements for which a condition does not hold; an empty dict where it has none."""
    return [
        at
        for at in elements(conjunct, held)
        if truth(conjunct, held, at, lambda *_: None) is not True
    ]


def _partition(conjunct: Compare, held: Held, at: Mapping[str, int]) -> Blocker:
    sides = []
    for node in (conjunct.right, conjunct.left):
        assert isinstance(node, Attribute)
        bound = held[node.variable]
        event = bound if isinstance(bound, Event) else bound[at.get(node.variable, 0)]
        seen = event.get(node.name)
        has = f"has no {node.name}" if seen is None else f"has {short(seen)}"
        sides.append((f"{role(held, event)} = {event.label} {has}", event.label))
    name = conjunct.left.name  # type: ignore[attr-defined]
    text = ", ".join(dict.fromkeys(side for side, _ in sides))
    labels = tuple(dict.fromkeys(label for _, label in sides))
    return Blocker("partition", f"[{name}]: {text}.", labels, conjunct, attribute=name)


def _predicate(
    ground: Ground, conjunct: Expression, held: Held, wrong: list[dict[str, int]]
) -> Blocker:
    said, _ = _said(ground.schema, conjunct, held, wrong[0])
    amounts = [_said(ground.schema, conjunct, held, at)[1] for at in wrong]
    known = [amount for amount in amounts if amount is not None]
    most = max(known, key=abs) if len(known) == len(amounts) else None
    about = [held[name] for name in conjunct.variables]
    events = sorted({e for b in about for e in events_in(b)}, key=lambda e: e.position)
    places = [f"{name}[{index + 1}] = {events_in(held[name])[index].label}"
              for name, index in wrong[0].items()]  # fmt: skip
    where = f" (at {', '.join(places)})" if places else ""
    more = len(wrong) - 1
    others = f" and {more} more element{'s' if more > 1 else ''}" if more else ""
    where = where[:-1] + others + ")" if where else ""
    return Blocker(
        "predicate",
        f"{conjunct}: {said}{where}.",
        tuple(event.label for event in events),
        conjunct,
        short_by=most,
    )


def _said(
    schema: Schema, conjunct: Expression, held: Held, at: Mapping[str, int]
) -> tuple[str, Any]:
    """`98 > 101 is false, short by 3` and the 3, which is None where it is no number."""
    try:
        tested = explain(conjunct, held, at)
    except Exception as error:  # an aggregate over values that have no order, say
        return f"it cannot be computed ({error})", None
    missing = [name for name, seen in tested.values if seen is None]
    if tested.truth is None and missing:
        verb = "is" if len(missing) == 1 else "are"
        return f"{' and '.join(dict.fromkeys(missing))} {verb} missing, so it is unknown", None
    if tested.truth is None:
        return f"it cannot be computed ({tested.note or 'unknown'})", None
    if not isinstance(conjunct, Compare):
        return f"{tested.said} is false", None
    left, right = value(conjunct.left, held, at), value(conjunct.right, held, at)
    shown = [_value(schema, node, seen)
             for node, seen in ((conjunct.left, left), (conjunct.right, right))]  # fmt: skip
    text = f"{shown[0]} {conjunct.operator} {shown[1]} is false"
    if not (_number(left) and _number(right)):
        return text, None
    gap = right - left
    timed = any(_is_time(schema, node) for node in (conjunct.left, conjunct.right))
    size = schema.format_duration(abs(gap)) if timed else short(abs(gap))
    if conjunct.operator == "=":
        return f"{text}, off by {size}", gap
    if conjunct.operator == "!=":
        return text, None
    if gap == 0:
        return f"{text}, they are equal", gap
    return f"{text}, {'short' if gap > 0 else 'over'} by {size}", gap


def _number(seen: Any) -> bool:
    return isinstance(seen, int | float) and not isinstance(seen, bool)


def _is_time(schema: Schema, node: Expression) -> bool:
    if schema.zone is None or not isinstance(node, Attribute | Aggregate) or node.name is None:
        return False
    built_in = node.name in ("time", "start", "end") and node.name not in schema.attributes
    return built_in or schema.attributes.get(node.name) == "time"


def _value(schema: Schema, node: Expression, seen: Any) -> str:
    if _is_time(schema, node) and _number(seen):
        return schema.format_time(seen)
    if isinstance(node, Attribute | Aggregate | Length) and isinstance(seen, str):
        return repr(short(seen))
    return short(seen) if not isinstance(seen, str) else str(node)


# ---- what lies around it ----


def _between(ground: Ground, branch: Branch, held: Held) -> list[Blocker]:
    """Along the candidate, each gap with an event that the strategy does not let a run skip."""
    rules, strategy = ground.rules, ground.pattern.strategy
    chosen = sorted(events_of(held), key=lambda event: event.position)
    roles = {event.position: name for name, b in held.items() for event in events_in(b)}
    so_far: Held = {}
    gaps: dict[int, list[tuple[Event, Held | None]]] = {}
    place = 0
    for event in ground.events(ground.row(chosen[0]), ground.row(chosen[-1]) + 1):
        if event.position in roles:
            name = roles[event.position]
            old = so_far.get(name, ())
            whole = isinstance(held[name], tuple) and isinstance(old, tuple)
            so_far = {**so_far, name: (*old, event) if whole else event}
            place += 1
            continue
        moved = rules.move(branch, so_far, event)
        if so_far not in moved:
            taken = next((new for new in moved if event in events_of(new)), None)
            gaps.setdefault(place, []).append((event, taken))
    found = []
    for place, skipped in gaps.items():
        event, taken = skipped[0]
        one, two = chosen[place - 1], chosen[place]
        sides = " and ".join(f"{role(held, e)} = {e.label}" for e in (one, two))
        more = cut((e.label for e, _ in skipped[1:]), 3)
        labels = tuple(e.label for e, _ in skipped)
        if not rules.fit(*events_of(held), event):
            kind = "window"
            text = f"{event.label} lasts too long to be read between {sides}"
        elif strategy == NEXT:
            kind = "strategy"
            assert taken is not None
            text = f"next-match had to take {event.label} for {role(taken, event)}"
            text += f" (then {more})" if more else ""
        else:
            kind = "contiguity"
            same = " of the same partition" if strategy == PARTITION else ""
            text = f"{event.label} ({event.type}){same} stands between {sides}"
            text += f", and so does {more}" if more else ""
            text += f"; {strategy} allows none"
        found.append(Blocker(kind, f"{text}.", labels))
    return found


def _negations(ground: Ground, branch: Branch, held: Held) -> list[Blocker]:
    found: list[Blocker] = []
    if not branch.negations:
        return found
    events = ground.forbidden(held)
    for negation in branch.negations:
        broken = [event for event in events if ground.rules.breaks(negation, held, event)]
        if not broken:
            continue
        event, variable = broken[0], negation.variable
        after, ahead = _ends(held, negation.after, -1), _ends(held, negation.before, 0)
        if after and ahead:
            where = f"between {' and '.join(after)} and {' and '.join(ahead)}"
        else:
            where = (
                f"{'after' if after else 'before'} {' and '.join(after or ahead)}, in its window"
            )
        more = f" and so does {cut((e.label for e in broken[1:]), 3)};" if broken[1:] else ""
        tests = [explain(c, {**held, variable.name: event}).said for c in negation.conjuncts]
        because = f" ({', '.join(tests)})" if tests else ""
        text = (
            f"{event.label}{because} lies {where};{more} ~({variable.type} {variable.name}) "
            "forbids it."
        )
        labels = tuple(e.label for e in broken)
        found.append(Blocker("negation", text, labels, negation=negation))
    return found


def _ends(held: Held, names: frozenset[str], which: int) -> list[str]:
    events = [events_in(held[name])[which] for name in sorted(names)]
    return [f"{role(held, event)} = {event.label}" for event in events]
