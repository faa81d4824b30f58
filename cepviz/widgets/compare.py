"""The same stream under several strategies, engines or plans, side by side with one cursor."""

from __future__ import annotations

import html
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cepviz.engines.registry import ENGINES, refusal
from cepviz.errors import CepError, PatternError
from cepviz.explain.shown import count
from cepviz.language.build import as_pattern
from cepviz.language.pattern import ANY, NEXT, PARTITION, STRICT
from cepviz.matching import as_stream
from cepviz.matching import trace as traced
from cepviz.steps import Matched
from cepviz.trace import Bindings, Trace
from cepviz.views.film import Film, View, pattern_data
from cepviz.views.runs import runs
from cepviz.views.timeline import timeline
from cepviz.widgets.player import Films
from cepviz.widgets.shown import pattern_page, table_page

#: Columns are narrow: these are the views that tell most in one.
VIEWS: list[tuple[str, View]] = [
    ("Timeline", partial(timeline, width=560)),
    ("Runs", partial(runs, width=500, most=12)),
]

#: How many matches the table lists.
MOST_ROWS = 200


class Compare(Films):
    """Plays several traces of one stream side by side, event by event, and compares their matches.

    `differences` lists the matches that not all of them have.

    >>> import cepviz as cep
    >>> rows = [{"type": t, "time": n} for n, t in enumerate("ABB")]
    >>> both = cep.compare("PATTERN SEQ(A a, B b) WITHIN 9", rows,
    ...                    strategies=["skip_till_next_match", "skip_till_any_match"])
    >>> both.differences
    {'a = e0, b = e2': ['skip_till_any_match']}
    """

    def __init__(self, traces: Mapping[str, Trace], views: Sequence[Any] | None = None):
        if len(traces) < 2:
            raise CepError("Compare takes two traces or more, by name: {'next': t1, 'any': t2}")
        arrivals = {name: [step.event for step in trace.events] for name, trace in traces.items()}
        first, *rest = arrivals
        for name in rest:
            if arrivals[name] != arrivals[first]:
                raise CepError(f"{name!r} is not a trace of the same events as {first!r}")
        self.names = list(traces)
        films = [
            Film(trace, VIEWS if views is None else views, _last_steps(trace), name)
            for name, trace in traces.items()
        ]
        super().__init__(films, _words(films))

    @property
    def traces(self) -> dict[str, Trace]:
        """The traces, by name."""
        return {film.title: film.trace for film in self.films}

    @property
    def differences(self) -> dict[str, list[str]]:
        """The matches that not all have, each with the names of those that have it."""
        table = _table(self.films)
        return {
            _told(bindings): [name for name, place in zip(self.names, found, strict=True)
                              if place is not None]
            for bindings, found in table
            if None in found
        }  # fmt: skip

    def text(self) -> str:
        lines = [_title(self.films)]
        width = max(map(len, self.names))
        for film in self.films:
            counted = _after(film, min(self.step, self.count - 1)) if self.count else ""
            lines.append(f"{film.title:{width}}  {counted}")
        lines += [f"only {', '.join(names)}: {said}" for said, names in self.differences.items()]
        return "\n".join(lines)

    def still(self) -> str:
        if not self.count:
            return "<p>Nothing happened.</p>"
        place = self.count - 1 if not self.step else min(self.step, self.count - 1)
        columns = "".join(
            f'<div class="film"><h4>{html.escape(film.title)}</h4>'
            f"{pattern_page(film.trace.pattern)}<p>{html.escape(_after(film, place))}</p>"
            + "".join(
                f'<div style="overflow-x:auto">{scene.svg()}</div>' for scene in film.scenes(place)
            )
            + "</div>"
            for film in self.films
        )
        rows = [
            [_told(bindings), *("◆" if at is not None else "–" for at in found)]
            for bindings, found in _table(self.films)[:MOST_ROWS]
        ]
        table = table_page(["match", *self.names], rows, _title(self.films))
        return f'<div class="films many">{columns}</div>{table}'


def compare(
    pattern: Any,
    stream: Any,
    *,
    strategies: Sequence[str] | None = None,
    engines: Sequence[str] | None = None,
    plans: Sequence[Any] | None = None,
    engine: str | None = None,
    views: Sequence[Any] | None = None,
    **options: Any,
) -> Compare:
    """Runs a pattern under several strategies, engines or plans, and compares them.

    Give one of the three; without any, every strategy that the pattern can have. The options are
    those of `cep.trace`.
    """
    query, events = as_pattern(pattern), as_stream(stream)
    if sum(given is not None for given in (strategies, engines, plans)) > 1:
        raise CepError("compare strategies, engines or plans: one at a time")
    if engines is not None:
        return Compare({name: traced(query, events, name, **options) for name in engines}, views)
    if plans is not None:
        if engine is None:
            raise CepError(f"plans need an engine that takes them: engine={_planning(query)}")
        return Compare(
            {str(plan): traced(query, events, engine, plan, **options) for plan in plans}, views
        )
    if engine is None and refusal(ENGINES["sase"], query) is None:
        engine = "sase"  # it takes all four, so that only the strategy differs
    made = {}
    for strategy in strategies or (STRICT, PARTITION, NEXT, ANY):
        try:
            made[strategy] = traced(replace(query, strategy=strategy), events, engine, **options)
        except PatternError:
            if strategies is not None:
                raise
    return Compare(made, views)


def _planning(pattern: Any) -> str:
    taking = [name for name, engine in ENGINES.items() if engine.planned(pattern, {}) is not None]
    able = [repr(name) for name in taking if refusal(ENGINES[name], pattern) is None]
    return " or ".join(able) or "one that plans"


def _last_steps(trace: Trace) -> list[int]:
    """For each event, the last step it brought; for the last one, the end of the trace."""
    starts = [index for index, step in enumerate(trace) if step.kind == "arrive"]
    return [start - 1 for start in starts[1:]] + ([len(trace) - 1] if starts else [])


# ---- the matches of each ----


def _table(films: Sequence[Film]) -> list[tuple[Bindings, list[int | None]]]:
    """Every match, with the place at which each film has it; None where it does not."""
    found: list[dict[tuple[Bindings, int], int]] = []
    for film in films:
        seen: Counter[Bindings] = Counter()
        places: dict[tuple[Bindings, int], int] = {}
        for index, step in film.trace.matches:
            bindings = tuple(sorted(step.bindings))
            places[bindings, seen[bindings]] = bisect_right(film.at, index - 1)
            seen[bindings] += 1
        found.append(places)
    keys = {key: None for places in found for key in places}
    rows = [(key[0], [places.get(key) for places in found]) for key in keys]
    return sorted(rows, key=lambda row: min(at for at in row[1] if at is not None))


def _told(bindings: Bindings) -> str:
    return ", ".join(f"{name} = {' '.join(events)}" for name, events in bindings)


def _title(films: Sequence[Film]) -> str:
    rows = _table(films)
    shared = sum(None not in found for _, found in rows)
    if shared == len(rows):
        return f"{len(rows)} matches, the same for all"
    return f"{len(rows)} matches, {shared} of them in all, {len(rows) - shared} not"


def _after(film: Film, place: int) -> str:
    """How a film stands after an event, in words."""
    snapshot = film.trace.at(film.at[place])
    held = sum(map(len, snapshot.buffers.values()))
    start = film.at[place - 1] if place else -1
    steps = film.at[place] - start
    tests = sum(step.kind == "test" for step in film.trace[start + 1 : film.at[place] + 1])
    parts = [
        f"{count(snapshot.counts.get('match', 0), 'match', 'matches')} so far",
        count(len(snapshot.runs), "live run"),
        *([f"{held} buffered"] if held else []),
        f"{count(steps, 'step')} for this event, {tests} of them tests",
    ]
    return ", ".join(parts) + "."


def _words(films: Sequence[Film]) -> dict[str, Any]:
    """What the player is told at once; a place is an event."""
    first = films[0].trace
    number = len(films[0].at)
    rows = _table(films)
    kinds: list[list[str]] = []
    for place in range(number):
        seen = {
            step.kind
            for film in films
            for step in film.trace[(film.at[place - 1] + 1 if place else 0) : film.at[place] + 1]
        }
        kinds.append(["arrive", *sorted(seen - {"arrive"})])
    matches = {
        (bisect_right(film.at, index - 1), step.event, step.bindings)
        for film in films
        for index, step in film.trace.matches
        if isinstance(step, Matched)
    }
    more = f" (the first {MOST_ROWS} shown)" if len(rows) > MOST_ROWS else ""
    return {
        "title": f"{len(films)} side by side, {number} events",
        "note": " ".join(film.trace.note for film in films).strip(),
        "unit": "event",
        "films": [
            {
                "title": film.title,
                "pattern": pattern_data(film.trace),
                "say": [_after(film, place) for place in range(number)],
            }
            for film in films
        ],
        "lits": [[]],
        "lit": [0] * max(1, number),
        "say": [step.say() for step in first.events] or ["Nothing happened."],
        "kinds": kinds or [["arrive"]],
        "runs": [""] * max(1, number),
        "events": {step.event: [place, step.say()] for place, step in enumerate(first.events)},
        "matches": [
            [place, event, [label for _, labels in bindings for label in labels]]
            for place, event, bindings in sorted(matches)
        ],
        "questions": {},
        "tables": [
            {
                "title": f"{_title(films)}{more}",
                "heads": ["match", *(film.title for film in films)],
                "rows": [
                    {
                        "cells": [
                            _told(bindings), *("◆" if at is not None else "–" for at in found)
                        ],
                        "at": [min(at for at in found if at is not None), *found],
                        "differs": None in found,
                    }
                    for bindings, found in rows[:MOST_ROWS]
                ],
            }
        ],
    }  # fmt: skip
