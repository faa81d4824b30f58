"""Where the adaptivity lab gets its events from: a generator, a stream, or Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cepviz.data.drift import drifting
from cepviz.errors import CepError
from cepviz.events import Event, Schema, Stream
from cepviz.language.expressions import Attribute, Compare
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import window_size
from cepviz.matching import as_stream

#: Draws the next events at these rates and selectivities; the number is a seed.
Draw = Callable[[Mapping[str, float], Mapping[str, float], int], Stream]


class Source:
    """How to draw events: the rates to begin with, and which selectivities can be set."""

    def __init__(self, draw: Draw, rates: Mapping[str, float], selectivities: Mapping[str, float]):
        self.draw = draw
        self.rates = dict(rates)
        self.selectivities = dict(selectivities)


def source_of(
    given: Any, pattern: Pattern, rates: Mapping[str, float] | None, windows: float
) -> Source:
    """The source for a pattern: made from nothing, a stream or DataFrame, Spark, or a function.

    A function takes rates (events of each type in a window), selectivities and a seed.
    """
    types = list(dict.fromkeys(v.type for v in pattern.variables.values()))
    if pattern.within is None or pattern.within.in_events:
        raise CepError("rates are per window of time: give the pattern a WITHIN like 10 minutes")
    if given is None:
        return _generated(pattern, types, rates, windows)
    if callable(given) and not hasattr(given, "columns"):
        if rates is None:
            raise CepError(
                f"say which rates the source begins with: rates={dict.fromkeys(types, 10)}"
            )
        return Source(given, rates, {})
    if hasattr(given, "sparkSession"):
        return _on_spark(given, pattern, types, rates)
    return _thinned(as_stream(given), pattern, types, rates)


# ---- a generator that suits the pattern ----


def _generated(
    pattern: Pattern, types: list[str], rates: Mapping[str, float] | None, windows: float
) -> Source:
    levels = settable(pattern)
    window = float(window_size(pattern, Schema()) or 0)

    def draw(now: Mapping[str, float], selectivities: Mapping[str, float], seed: int) -> Stream:
        shares: dict[str, dict[str, tuple[float, float]]] = {}
        for text, (type, name, level) in levels.items():
            shares.setdefault(type, {})[name] = (level, selectivities[text])
        return drifting(now, shares, window=window, windows=windows, seed=seed)

    start = dict(rates or {type: 24 / 2**place for place, type in enumerate(types)})
    return Source(draw, start, dict.fromkeys(levels, 0.3))


def settable(pattern: Pattern) -> dict[str, tuple[str, str, float]]:
    """The conditions whose selectivity a generator can set: comparisons of two attributes.

    For each, by its text, the type and the attribute on the greater side, and a level above all
    that it is compared with. An attribute can be on the greater side of one condition only.
    """
    found: dict[str, tuple[str, str, float]] = {}
    sides: list[tuple[str, tuple[str, str], tuple[str, str]]] = []
    for branch in pattern.branches:
        for conjunct in branch.shared():
            if not isinstance(conjunct, Compare) or conjunct.operator not in ("<", "<=", ">", ">="):
                continue
            left, right = conjunct.left, conjunct.right
            if not isinstance(left, Attribute) or not isinstance(right, Attribute):
                continue
            low, high = (left, right) if conjunct.operator in ("<", "<=") else (right, left)
            lower, greater = (
                (branch.by_name[side.variable].type, side.name) for side in (low, high)
            )
            if lower != greater and all(greater != other for _, _, other in sides):
                sides.append((str(conjunct), lower, greater))
    for text, lower, greater in sides:
        found[text] = (*greater, _level(lower, sides, 0))
    return found


def _level(
    lower: tuple[str, str], sides: list[tuple[str, tuple[str, str], tuple[str, str]]], depth: int
) -> float:
    """One more than the level of what stands on the lesser side."""
    if depth > len(sides):
        raise CepError("the conditions of the pattern go round in a circle: none could all hold")
    below = [other for _, other, greater in sides if greater == lower]
    return 2.0 if not below else 1.0 + _level(below[0], sides, depth + 1)


# ---- data ----


def _thinned(
    stream: Stream, pattern: Pattern, types: list[str], rates: Mapping[str, float] | None
) -> Source:
    """Of a stream, as many events of each type as the rates ask for, at most all."""
    window = float(window_size(pattern, stream.schema) or 0)
    span = float(stream[-1].end - stream[0].start) if len(stream) > 1 else 0.0
    if not span > 0:
        raise CepError("the stream has no length: rates need events at two times at least")
    counts = stream.counts()
    full = {type: counts.get(type, 0) * window / span for type in types}
    kinds = np.array([event.type for event in stream])

    def draw(now: Mapping[str, float], _: Mapping[str, float], seed: int) -> Stream:
        chance = {type: min(1.0, now[type] / full[type]) if full[type] else 0 for type in types}
        kept = np.random.default_rng(seed).random(len(kinds))
        wanted = kept < np.array([chance.get(kind, 0.0) for kind in kinds])
        return Stream.from_records([stream[int(row)] for row in np.flatnonzero(wanted)])

    return Source(draw, rates or full, {})


def _on_spark(
    frame: Any, pattern: Pattern, types: list[str], rates: Mapping[str, float] | None
) -> Source:
    """Spark draws a sample with the rates asked for; the driver gets that sample only."""
    from cepviz.spark.sampling import sample

    if rates is None:
        raise CepError(f"say which rates to begin with: rates={dict.fromkeys(types, 10)}")

    def draw(now: Mapping[str, float], _: Mapping[str, float], seed: int) -> Stream:
        wanted = {type: now[type] for type in types}
        return sample(frame, wanted, per=str(pattern.within), seed=seed, limit=MOST_DRAWN)

    return Source(draw, rates, {})


#: How many events of a sample come to the driver.
MOST_DRAWN = 2_000


def placed(event: Event, number: int, by: float, schema: Schema) -> Event:
    """The event later by some time, with another id, and with the columns that hold them."""
    start, end = event.start + by, event.end + by
    roles = schema.roles
    moved = {"time": start if "end" in roles else end, "end": end, "id": number, "type": event.type}
    held = {column: moved[role] for role, column in roles.items()}
    attributes = {**event.attributes, **held}
    return Event(event.type, start, end=end, id=number, schema=schema, attributes=attributes)
