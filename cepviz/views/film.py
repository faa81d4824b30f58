"""A trace as a player needs it: every step's words at once, its pictures part by part.

A film is a trace with the views that show it and the steps at which it can stand still: all of
them, or the last one of each event where several films go side by side. All drawing is done here;
a player only puts and removes shapes.
"""

from __future__ import annotations

import gzip
import inspect
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cepviz.errors import CepError, did_you_mean, one_of
from cepviz.language.highlight import classified
from cepviz.steps import Arrive
from cepviz.trace import Trace
from cepviz.views.clauses import Clauses
from cepviz.views.quiz import question
from cepviz.views.scene import Scene

View = Callable[..., Scene]

#: With fewer steps than this no progress bar is thought of.
LONG = 500


def known_views() -> dict[str, tuple[str, View]]:
    """The views a player can show, by name: each with its title and its function."""
    from cepviz.views.automaton import automaton
    from cepviz.views.buffer import buffer
    from cepviz.views.invariants import invariants
    from cepviz.views.paths import paths
    from cepviz.views.plan import plan
    from cepviz.views.runs import runs
    from cepviz.views.timeline import timeline

    return {
        "automaton": ("Automaton", automaton),
        "buffer": ("Buffer", buffer),
        "paths": ("Paths", paths),
        "timeline": ("Timeline", timeline),
        "runs": ("Runs", runs),
        "plan": ("Plan", plan),
        "invariants": ("Invariants", invariants),
    }


def chosen_views(
    views: Sequence[str | View | tuple[str, View]] | None, trace: Trace
) -> list[tuple[str, View]]:
    """Views with their titles, from names, functions or pairs of a title and a function."""
    known = known_views()
    if views is None:
        cache = "paths" if trace.graph.kind == "contexts" else "buffer"
        wanted = ["automaton", cache] if trace.graph.states else []
        adaptive = trace.counts().keys() & {"check", "replan"}
        return [
            known[name] for name in [*wanted, *(["invariants"] if adaptive else []), "timeline"]
        ]
    chosen = []
    for view in views:
        if isinstance(view, str):
            if view not in known:
                near = did_you_mean(view, known)
                raise CepError(f"unknown view {view!r}{near}: use {one_of(known)}, or a function")
            chosen.append(known[view])
        elif callable(view):
            chosen.append((getattr(view, "__name__", "view").replace("_", " ").capitalize(), view))
        else:
            chosen.append(view)
    return chosen


class Film:
    """A trace, its views, and the steps `at` which it can stand."""

    def __init__(
        self,
        trace: Trace,
        views: Sequence[str | View | tuple[str, View]] | None = None,
        at: Sequence[int] | None = None,
        title: str = "",
    ):
        self.trace = trace
        self.views = chosen_views(views, trace)
        self.at = range(len(trace)) if at is None else at
        self.title = title
        self._events = {step.event for step in trace if isinstance(step, Arrive)}
        self._runs = {run for step in trace for run in _runs_of(step)}
        self._follows = [_takes_run(view) for _, view in self.views]

    def scenes(self, place: int, run: str = "") -> list[Scene]:
        """The pictures at one place; with `run`, that run is followed in those that can."""
        return [
            view(self.trace, self.at[place], **({"run": run} if run and follows else {}))
            for (_, view), follows in zip(self.views, self._follows, strict=True)
        ]

    def part(
        self, start: int, stop: int, run: str = "", progress: bool | None = False
    ) -> dict[str, Any]:
        """The pictures at the places from start to stop: for each shape, where it changes."""
        run = run if run in self._runs else ""
        shapes: dict[str, int] = {}
        panels = [_Panel(title) for title, _ in self.views]
        for place in _watched(range(start, stop), progress):
            for panel, scene in zip(panels, self.scenes(place, run), strict=True):
                panel.draw(place, scene, shapes)
        return {
            "panels": [panel.to_plain(self.about) for panel in panels],
            "shapes": [json.loads(shape) for shape in shapes],
        }

    def about(self, key: str) -> list[str]:
        """What a shape stands for, by its key: an event, a run, a match, a step; or nothing.

        >>> film = Film(Trace(), [], range(9))
        >>> film._events = {"e6"}
        >>> film.about("event:e6:text"), film.about("mark:7"), film.about("axis")
        (['event', 'e6'], ['step', '7'], [])
        """
        kind, *words = key.split(":")
        if kind == "mark" and words:
            return ["step", str(bisect_left(self.at, int(words[0])))]
        if kind in ("event", "cell", "matches", "row", "run"):
            for start in range(len(words)):
                for stop in (len(words), len(words) - 1):
                    if ":".join(words[start:stop]) in self._events:
                        name = "match" if kind == "matches" else "event"
                        return [name, ":".join(words[start:stop])]
        if kind == "run" and words and words[0] in self._runs:
            return ["run", words[0]]
        return []


def _watched(places: range, progress: bool | None) -> Iterable[int]:
    """Places with a progress bar: on request, or after two seconds on a terminal."""
    if progress is False or (progress is None and len(places) < LONG):
        return places
    from tqdm.auto import tqdm

    off = None if progress is None else False
    return tqdm(places, unit=" steps", delay=2, leave=False, disable=off)


def _runs_of(step: Any) -> set[str]:
    return {getattr(step, role, "") for role in ("run", "child")} - {""}


def _takes_run(view: View) -> bool:
    return "run" in inspect.signature(view).parameters


class _Panel:
    """The shapes of one view as they come and go."""

    def __init__(self, title: str):
        self.title = title
        self.width = self.height = 0.0
        self.history: dict[str, list[int]] = {}
        self.order: list[str] = []
        self.before: Scene | None = None

    def draw(self, place: int, scene: Scene, shapes: dict[str, int]) -> None:
        self.width, self.height = max(self.width, scene.width), max(self.height, scene.height)
        known = self.before.shapes if self.before is not None else {}
        changed = [
            (key, shape)
            for key, shape in scene.shapes.items()
            if (old := known.get(key)) is not shape and old != shape
        ]
        if any(key not in self.history for key, _ in changed):
            self._merge(list(scene.shapes))
        for key, shape in changed:
            packed = json.dumps(shape.to_plain(), separators=(",", ":"))
            self.history[key] += [place, shapes.setdefault(packed, len(shapes))]
        for key in known:
            if key not in scene.shapes:
                self.history[key] += [place, -1]
        self.before = scene

    def _merge(self, keys: list[str]) -> None:
        """Puts keys that are new into the drawing order, each behind the one drawn before it."""
        previous: str | None = None
        for key in keys:
            if key not in self.history:
                self.history[key] = []
                at = 0 if previous is None else self.order.index(previous) + 1
                self.order.insert(at, key)
            previous = key

    def to_plain(self, about: Callable[[str], list[str]]) -> dict[str, Any]:
        return {
            "title": self.title,
            "width": round(self.width),
            "height": round(self.height),
            "keys": self.order,
            "about": [about(key) for key in self.order],
            "history": [self.history[key] for key in self.order],
        }


def still_part(scenes: Sequence[tuple[str, Scene]]) -> dict[str, Any]:
    """Pictures with their titles as a part of one place, for a panel that shows nothing else."""
    shapes: dict[str, int] = {}
    panels = []
    for title, scene in scenes:
        panel = _Panel(title)
        panel.draw(0, scene, shapes)
        panels.append(panel.to_plain(lambda key: []))
    return {"panels": panels, "shapes": [json.loads(shape) for shape in shapes]}


# ---- what a player is told at once ----


def pattern_data(trace: Trace) -> list[list[str]]:
    """The text of the pattern in words, each with its kind."""
    return [[kind, word] for kind, word in classified(trace.pattern)]


def head(film: Film) -> dict[str, Any]:
    """The words of a film of every step: what is said, lit, asked, and where things are."""
    trace, count = film.trace, len(film.at)
    clauses = Clauses(trace)
    lits: dict[str, int] = {}
    lit = [lits.setdefault(json.dumps(clauses.of(trace[index])), len(lits)) for index in film.at]
    asked = {}
    for place, index in enumerate(film.at):
        made = question(trace, index)
        if made is not None:
            asked[place] = [made.text, list(made.answers), made.right]
    cut = f", the first {count:,} shown" if count < len(trace) else ""
    return {
        "title": f"{trace.engine}: {len(trace):,} steps{cut}, {len(trace.matches):,} matches",
        "note": trace.note,
        "unit": "step",
        "films": [{"title": film.title, "pattern": pattern_data(trace), "note": ""}],
        "lits": [json.loads(spans) for spans in lits] or [[]],
        "lit": lit or [0],
        "say": [trace[index].say() for index in film.at] or ["Nothing happened."],
        "kinds": [[trace[index].kind] for index in film.at] or [["arrive"]],
        "runs": [getattr(trace[index], "run", "") for index in film.at] or [""],
        "events": {
            step.event: [place, step.say()]
            for place, index in enumerate(film.at)
            if isinstance(step := trace[index], Arrive)
        },
        "matches": [
            [place, step.event, [label for _, labels in step.bindings for label in labels]]
            for place, step in trace.matches
            if place < count
        ],
        "questions": asked,
        "tables": [],
    }


def packed(data: Mapping[str, Any]) -> bytes:
    """JSON, compressed, as a player in a page or a notebook unpacks it."""
    return gzip.compress(json.dumps(data).encode(), 6, mtime=0)
