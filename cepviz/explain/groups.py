"""`why_so_many`: which events multiply the matches, and what would make them fewer."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from cepviz.engines.base import Match
from cepviz.errors import CepError
from cepviz.explain.running import quietly
from cepviz.explain.shown import Explanation, Table, count, cut, frame
from cepviz.language.pattern import ANY, NEXT, Pattern, Window
from cepviz.matching import Result

#: Beyond these, the first matches stand for all, and remedies are tried on the first events.
MOST_MATCHES, MOST_EVENTS = 100_000, 5_000

Ids = tuple[Any, ...]


@dataclass(frozen=True)
class Spread:
    """One variable: how many bindings it has, and how many of them go with one choice of the
    rest."""

    variable: str
    bindings: int
    events: int
    each: float


@dataclass(frozen=True)
class Group:
    """Matches that differ in one variable only: what they share, and how many there are."""

    shared: str
    matches: int
    choices: str


@dataclass(frozen=True)
class Remedy:
    """A change of the pattern and how many matches it leaves, found by running it."""

    text: str
    pattern: Pattern
    matches: int


@dataclass
class WhySoMany(Explanation):
    """What multiplies the matches of a result.

    `spread` is by variable, `multiplier` the variable with most choices for the same rest,
    `groups` the matches that share everything else, `events` how often each event occurs, and
    `remedies` what would leave fewer, each counted by running it.
    """

    result: Result
    spread: list[Spread]
    multiplier: str
    groups: list[Group]
    prefixes: list[Group]
    events: list[tuple[str, int]]
    remedies: list[Remedy]
    looked_at: int
    tried_on: int
    before: int

    def lines(self) -> list[str]:
        total = len(self.result)
        if not total:
            return ["There are no matches: why_not(pattern, stream) says where they get lost."]
        distinct = len(self.events)
        said = [f"{count(total, 'match', 'matches')} of {count(distinct, 'event')}."]
        if self.looked_at < total:
            said[0] += f" Counted in the first {self.looked_at:,}."
        best = next((s for s in self.spread if s.variable == self.multiplier), None)
        if best is None or best.each <= 1:
            said.append("No variable multiplies them: each choice of the others has one match.")
        else:
            said.append(
                f"{best.variable} multiplies them: {best.each:.3g} choices of it on average for "
                "the same other events."
            )
        if self.events:
            label, often = self.events[0]
            share = 100 * often / self.looked_at
            said.append(f"{label} is in most of them: {often:,} ({share:.0f}%).")
        return said

    def tables(self) -> list[Table]:
        if not len(self.result):
            return []
        found: list[Table] = []
        rows = [
            (s.variable, f"{s.bindings:,}", f"{s.events:,}", f"{s.each:.3g}") for s in self.spread
        ]
        heads = ("variable", "bindings", "events", "for the same rest")
        found.append(("By variable", heads, rows))
        for title, groups in (
            (f"Same but for {self.multiplier}", self.groups),
            ("Same beginning", self.prefixes),
        ):
            shown = [(g.shared, f"{g.matches:,}", g.choices) for g in groups[:5]]
            shown += [(f"and {len(groups) - 5:,} more", "", "")] if len(groups) > 5 else []
            found.append((title, ("shared", "matches", "differ in"), shown))
        if self.remedies:
            part = ""
            if self.tried_on < len(self.result.stream):
                part = f" (on the first {self.tried_on:,} events, which have {self.before:,})"
            changes = [(remedy.text, f"{remedy.matches:,}") for remedy in self.remedies]
            found.append((f"What would leave fewer{part}", ("change", "matches"), changes))
        return found

    def to_frame(self, by: str = "groups") -> Any:
        """A DataFrame by "groups", "prefixes", "variables", "events" or "remedies"."""
        if by in ("groups", "prefixes"):
            groups = self.groups if by == "groups" else self.prefixes
            return frame([vars(g) for g in groups], ["shared", "matches", "choices"])
        if by == "variables":
            names = ["variable", "bindings", "events", "each"]
            return frame([vars(s) for s in self.spread], names)
        if by == "events":
            rows = [{"event": label, "matches": often} for label, often in self.events]
            return frame(rows, ["event", "matches"])
        if by == "remedies":
            rows = [{"change": r.text, "matches": r.matches} for r in self.remedies]
            return frame(rows, ["change", "matches"])
        known = ["groups", "prefixes", "variables", "events", "remedies"]
        raise CepError(f"unknown table {by!r} (must be one of {known})")

    def __repr__(self) -> str:
        return self.text()


def why_so_many(result: Result) -> WhySoMany:
    """Says which events multiply the matches of a result, and what would make them fewer.

    >>> import cepviz as cep
    >>> rows = [{"type": t, "time": n} for n, t in enumerate("AAAB")]
    >>> many = why_so_many(cep.match("PATTERN SEQ(A+ a[], B b) WITHIN 9", rows))
    >>> many.multiplier, many.groups[0].shared, many.groups[0].matches
    ('a', 'b = e3', 7)
    """
    if not isinstance(result, Result):
        raise CepError(
            f"why_so_many takes a result of match, not a {type(result).__name__}; "
            "a BudgetError has one in its .result"
        )
    matches = list(itertools.islice(result, MOST_MATCHES))
    names = [v.name for v in result.pattern.variables.values() if not v.negated]
    keys = [_key(found, names) for found in matches]
    occurring: Counter[str] = Counter()
    for found in matches:
        occurring.update(event.label for event in found.events)
    spread = list(_spread(names, keys))
    best = max(spread, key=lambda s: s.each, default=None)
    multiplier = best.variable if best else ""
    place = names.index(multiplier) if best else 0
    remedies, tried, before = _remedies(result) if matches else ([], 0, 0)
    return WhySoMany(
        result,
        spread,
        multiplier,
        _groups(names, keys, [place]),
        _groups(names, keys, list(range(1, len(names)))),
        occurring.most_common(),
        remedies,
        len(matches),
        tried,
        before,
    )


def _key(found: Match, names: list[str]) -> tuple[tuple[str, ...] | None, ...]:
    labels = {
        name: tuple(e.label for e in (bound if isinstance(bound, tuple) else (bound,)))
        for name, bound in found.bindings.items()
    }
    return tuple(labels.get(name) for name in names)


def _spread(names: list[str], keys: list[Ids]) -> Iterator[Spread]:
    for place, name in enumerate(names):
        mine = [key for key in keys if key[place]]
        if mine:
            bindings = {key[place] for key in mine}
            events = {label for bound in bindings for label in bound}
            rest = {key[:place] + key[place + 1 :] for key in mine}
            yield Spread(name, len(bindings), len(events), len(set(mine)) / len(rest))


def _groups(names: list[str], keys: list[Ids], free: list[int]) -> list[Group]:
    """Matches by what they share, the places in `free` left out; the largest group first."""
    found: dict[Ids, list[Ids]] = {}
    for key in keys:
        fixed = tuple(None if place in free else part for place, part in enumerate(key))
        found.setdefault(fixed, []).append(tuple(key[place] for place in free))
    return [
        Group(
            ", ".join(
                f"{name} = {' '.join(part) or 'nothing'}"
                for name, part in zip(names, fixed, strict=True)
                if part is not None
            )
            or "nothing",
            len(choices),
            _choices([names[place] for place in free], choices),
        )
        for fixed, choices in sorted(found.items(), key=lambda entry: -len(entry[1]))
    ]


def _choices(names: list[str], choices: list[Ids]) -> str:
    """`a: e1 e2 e3`: the events that the variables differ in."""
    said = []
    for place, name in enumerate(names):
        labels = dict.fromkeys(label for choice in choices for label in choice[place] or ())
        if labels:
            said.append(f"{name}: {cut(labels)}")
    return "; ".join(said)


def _remedies(result: Result) -> tuple[list[Remedy], int, int]:
    """Changes that leave fewer matches, each run on the stream or on its first events."""
    pattern, stream = result.pattern, result.stream[:MOST_EVENTS]
    limit = {"matches": MOST_MATCHES, "runs": 100_000}
    base, stopped = quietly(pattern, stream, budget=limit)
    changes: list[tuple[str, dict[str, Any]]] = []
    if pattern.strategy == ANY:
        changes.append((NEXT, {"strategy": NEXT}))
    window = pattern.within
    if window is not None and isinstance(window.amount, int | float) and window.amount > 1:
        whole = isinstance(window.amount, int)
        half = window.amount // 2 if whole else window.amount / 2
        changes.append((f"WITHIN {(w := Window(half, window.unit))}", {"within": w}))
    for name, kind in result.stream.schema.attributes.items():
        special = name in (*pattern.same, *result.stream.schema.roles.values())
        if kind in ("string", "bool") and not special and len(changes) < 6:
            changes.append((f"and [{name}]", {"same": (*pattern.same, name)}))
    if pattern.output == "all":
        changes.append(("OUTPUT non_overlap", {"output": "non_overlap"}))
    found = []
    for text, change in changes:
        try:
            changed = replace(pattern, **change)
            left, more = quietly(changed, stream, budget=limit)
        except CepError:  # an AND has no next event
            continue
        if not more and (stopped or len(left) < len(base)):
            found.append(Remedy(text, changed, len(left)))
    return sorted(found, key=lambda remedy: -remedy.matches), len(stream), len(base)
