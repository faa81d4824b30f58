"""Partial bindings: a match that contains them, or else the completion that breaks the fewest
rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from cepviz.engines.base import Match, before, events_of
from cepviz.engines.naive import Held
from cepviz.errors import BudgetError
from cepviz.events import Event
from cepviz.explain.blockers import Blocker, blockers, failing
from cepviz.explain.candidate import NEAR, Ground, in_order
from cepviz.explain.shown import events_in
from cepviz.language.evaluate import holds
from cepviz.language.pattern import ANY, Branch
from cepviz.language.structure import Variable

#: How many events the search for a completion may try.
MOST_TRIED = 1_000_000

#: Of the nearest completion: how many are kept at each variable, and of how many events.
KEPT, TRIED = 20, 60
#: How many events beyond the candidate an open list may grow by.
GROWN = 40


def applicable(ground: Ground, wanted: Held) -> list[Branch]:
    """The branches in which these bindings can stand: they have all that is bound, and lack what
    is bound to nothing."""
    there = {name for name, bound in wanted.items() if events_in(bound)}
    return [
        branch
        for branch in ground.pattern.branches
        if there <= set(branch.by_name) and set(wanted) - there <= set(branch.empty)
    ]


def completion(ground: Ground, wanted: Held) -> Match | None:
    """A match that contains the bindings; a BudgetError if there are too many ways to try."""
    found = ground.found(wanted)
    if found is not None:
        return found
    branches = applicable(ground, wanted)
    if all(set(branch.by_name) <= set(wanted) for branch in branches):
        return None
    if ground.pattern.strategy != ANY:
        return ground.found(wanted, free=True, near=NEAR)
    events = ground.events(*ground.reach(wanted, NEAR))
    for branch in branches:
        for held in Search(ground, branch, events).complete(wanted):
            # Negations are judged on a whole match.
            found = ground.found({**held, **dict.fromkeys(branch.empty, ())})
            if found is not None:
                return found
    return None


def cut_short(ground: Ground, wanted: Held) -> bool:
    """Whether a completion could lie further away than the search for it goes."""
    everything = ground.reach(wanted, len(ground.stream))
    return ground.reach(wanted, NEAR) != everything


class Search:
    """Tries events for the unbound variables of one branch, one after the other."""

    def __init__(self, ground: Ground, branch: Branch, events: list[Event]):
        self.ground = ground
        self.branch = branch
        self.by_type: dict[str, list[Event]] = {}
        for event in events:
            self.by_type.setdefault(event.type, []).append(event)
        self.tried = 0

    def complete(self, wanted: Held) -> Iterator[Held]:
        """Every completion that breaks no rule but perhaps a negation."""
        held = {v.name: wanted[v.name] for v in self.branch.variables if v.name in wanted}
        first = blockers(self.ground, self.branch, held)
        if any(blocker.kind not in ("missing", "negation") for blocker in first):
            return
        open_ = [v for v in self.branch.variables if v.name not in held]
        yield from self.extend(held, open_)

    def extend(self, held: Held, rest: list[Variable]) -> Iterator[Held]:
        if not rest:
            yield held
            return
        variable = rest[0]
        for choice in self.choices(variable, held):
            self.tried += 1
            if self.tried > MOST_TRIED:
                raise BudgetError(
                    f"more than {MOST_TRIED:,} events were tried for {variable.name}",
                    limit="runs",
                )
            bound = {**held, variable.name: choice}
            if self.ground.rules.fit(*events_of(bound)) and all(
                holds(c, bound, lambda *_: None)
                for c in self.branch.conjuncts
                if variable.name in c.variables and c.variables <= set(bound)
            ):
                yield from self.extend(bound, rest[1:])

    def choices(self, variable: Variable, held: Held) -> Iterator[Event | tuple[Event, ...]]:
        rules = self.ground.rules
        rules.events = self.by_type.get(variable.type, [])
        self.tried += len(rules.events) // 100
        anchor = next(events_of(held))
        alone = replace(variable, kleene=False)
        # All of them at once: a search further in gives the rules other events.
        single = [
            e for e in rules.choices(self.branch, alone, held, anchor) if isinstance(e, Event)
        ]
        if not variable.kleene:
            yield from single
            return
        own = self.branch.own(variable.name)
        allowed = [
            event
            for event in single
            if all(holds(c, {variable.name: (event,)}, lambda *_: None) for c in own)
        ]
        for size in range(1, len(allowed) + 1):
            for listed in itertools.combinations(allowed, size):
                if in_order(listed):
                    yield listed


def nearest(
    ground: Ground, wanted: Held, late: frozenset[Event]
) -> tuple[Branch, Held, list[Blocker]]:
    """The completion with the fewest blockers among those near the bound events."""
    best: list[tuple[int, int, Branch, Held, list[Blocker]]] = []
    for branch in applicable(ground, wanted):
        for held in _beam(ground, branch, wanted):
            held, why = _grown(ground, branch, wanted, held, late)
            positions = [event.position for event in events_of(held)]
            best.append((len(why), max(positions) - min(positions), branch, held, why))
    best.sort(key=lambda entry: entry[:2])
    _, _, branch, held, why = best[0]
    held = {**held, **dict.fromkeys(branch.empty, ())}
    names = [name for name in ground.pattern.variables if name in held]
    return branch, {name: held[name] for name in names}, why


def _beam(ground: Ground, branch: Branch, wanted: Held) -> list[Held]:
    held = {v.name: wanted[v.name] for v in branch.variables if v.name in wanted}
    open_ = [variable for variable in branch.variables if variable.name not in held]
    if not open_:
        return [held]
    rows = [ground.row(event) for event in events_of(held)]
    low, high = max(0, min(rows) - NEAR), min(len(ground.stream), max(rows) + 1 + NEAR)
    events = ground.events(low, high)
    states: list[tuple[int, int, Held]] = [(0, 0, held)]
    for variable in open_:
        fitting = [event for event in events if event.type == variable.type]
        grown = []
        for score, _, old in states:
            middle = sorted(event.position for event in events_of(old))
            span = (middle[0], middle[-1])
            close = sorted(fitting, key=lambda e: _distance(e, span))[:TRIED]
            for event in close:
                new: Held = {**old, variable.name: (event,) if variable.kleene else event}
                broken = score + _broken(ground, branch, variable.name, new)
                grown.append((broken, _distance(event, span), new))
        if grown:
            grown.sort(key=lambda entry: entry[:2])
            states = grown[:KEPT]
    return [held for _, _, held in states]


def _grown(
    ground: Ground, branch: Branch, wanted: Held, held: Held, late: frozenset[Event]
) -> tuple[Held, list[Blocker]]:
    """The bindings with as many elements in each open list as leave the fewest blockers.

    A list begins with one element; the others between its neighbours join it in order, unless they
    break more than they mend. The shortest list with the fewest blockers wins.
    """
    best, why = held, blockers(ground, branch, held, late)
    for variable in branch.variables:
        if not variable.kleene or variable.name in wanted or not why or not held.get(variable.name):
            continue
        rows = [ground.row(event) for event in events_of(best)]
        low, high = max(0, min(rows) - GROWN), min(len(ground.stream), max(rows) + 1 + GROWN)
        now, most = best, len(why)
        for event in ground.events(low, high):
            listed = events_in(now[variable.name])
            if event.type != variable.type or event in events_of(now):
                continue
            new = {**now, variable.name: tuple(sorted((*listed, event), key=_position))}
            found = blockers(ground, branch, new, late)
            if len(found) <= most:
                now, most = new, len(found)
            if len(found) < len(why):
                best, why = new, found
    return best, why


def _position(event: Event) -> int:
    return event.position


def _distance(event: Event, span: tuple[int, int]) -> int:
    return max(0, span[0] - event.position, event.position - span[1])


def _broken(ground: Ground, branch: Branch, name: str, held: Held) -> int:
    """How many rules a newly bound variable breaks."""
    (event,) = events_in(held[name])
    others = {other: bound for other, bound in held.items() if other != name}
    wrong = sum(event == other for other in events_of(others))
    wrong += not ground.rules.fit(*events_of(held))
    for other, bound in others.items():
        if (other, name) in branch.order:
            wrong += not all(before(e, event) for e in events_in(bound))
        if (name, other) in branch.order:
            wrong += not all(before(event, e) for e in events_in(bound))
    return wrong + sum(
        bool(failing(conjunct, held))
        for conjunct in branch.conjuncts
        if name in conjunct.variables and conjunct.variables <= set(held)
    )
