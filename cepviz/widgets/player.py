"""The player: a trace step by step, forward and back, in the notebook."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import traitlets

from cepviz.matching import trace as traced
from cepviz.trace import Trace
from cepviz.views.clauses import Clauses
from cepviz.views.film import Film, View, head, packed
from cepviz.views.replay import script
from cepviz.widgets.shown import Shown, pattern_page

#: The player of the replay page, and what puts it into a notebook.
SCRIPT = script("panel.js", "replay.js") + Path(__file__).with_name("player.js").read_text(
    encoding="utf-8"
)
PLAYER = SCRIPT + "export default { render: ({ model, el }) => mount(model, el) };\n"


class Films(Shown):
    """A player of one film or of several side by side, with one cursor.

    `step` is where it stands: set it to move all pictures, observe it to follow them. The words of
    every step are sent at once, the pictures when they are asked for.
    """

    _esm = PLAYER
    _head = traitlets.Bytes().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    run = traitlets.Unicode("").tag(sync=True)
    event = traitlets.Unicode("").tag(sync=True)
    quiz = traitlets.Bool(False).tag(sync=True)
    score = traitlets.List([0, 0]).tag(sync=True)

    def __init__(self, films: Sequence[Film], words: dict[str, Any], **keywords: Any):
        self.films = list(films)
        self._number = 1
        super().__init__(_head=packed({**words, "number": 1}), **keywords)
        self.on_msg(self._asked)

    def _play(self, films: Sequence[Film], words: dict[str, Any], step: int) -> None:
        """Puts other films into the player."""
        self.films = list(films)
        self._number += 1
        with self.hold_sync():
            self.run, self.event, self.step = "", "", step
            self._head = packed({**words, "number": self._number})

    def _asked(self, _: Any, content: Any, buffers: Any) -> None:
        wanted = content.get("ask") if isinstance(content, dict) else None
        if not isinstance(wanted, dict) or wanted.get("number") != self._number:
            return
        count = len(self.films[0].at)
        start, stop = max(0, int(wanted["start"])), min(int(wanted["stop"]), count)
        run = str(wanted["run"])
        parts = [film.part(start, stop, run) for film in self.films]
        data = {"run": run, "start": start, "stop": max(stop, 1), "whole": False, "films": parts}
        self.send({"part": self._number}, [packed(data)])

    @property
    def count(self) -> int:
        """At how many places it can stand."""
        return len(self.films[0].at)

    def _still_place(self) -> int:
        """Where the still picture stands: here, or at the first match if it was not moved yet."""
        if self.step or not self.count:
            return min(self.step, max(0, self.count - 1))
        film = self.films[0]
        first = film.trace.next(-1, "match")
        places = [
            place for place, index in enumerate(film.at) if first is not None and index >= first
        ]
        return places[0] if places else self.count - 1


class Player(Films):
    """Plays a trace: all views in step, with keys, a slider, jumps and a quiz.

    `views` are names (automaton, buffer, timeline, runs, plan, invariants) or functions from a
    trace and a step to a picture. `step`, `run` and `event` can be read, set and observed.

    >>> import cepviz as cep
    >>> rows = [{"type": "A", "time": 1}, {"type": "B", "time": 2}]
    >>> player = cep.play("PATTERN SEQ(A a, B b) WITHIN 9", rows, engine="sase")
    >>> player.step = player.trace.next(0, "match")
    >>> print(player.text().splitlines()[0])
    Step 12 of 12: Match #1: a = e0, b = e1, 1 of 9.
    """

    def __init__(
        self,
        trace: Trace,
        views: Sequence[str | View | tuple[str, View]] | None = None,
        *,
        step: int = 0,
        quiz: bool = False,
    ):
        film = Film(trace, views)
        self._views = views
        super().__init__([film], head(film), step=step, quiz=quiz)

    @property
    def trace(self) -> Trace:
        """The trace it plays."""
        return self.films[0].trace

    def show(self, trace: Trace, step: int = 0) -> None:
        """Plays another trace, from a step on."""
        film = Film(trace, self._views)
        self._play([film], head(film), step)

    def text(self) -> str:
        if not len(self.trace):
            return "Nothing happened."
        step = min(self.step, len(self.trace) - 1)
        lines = [f"Step {step + 1} of {len(self.trace)}: {self.trace[step].say()}", ""]
        lines += [self.trace.pattern]
        for _, view in self.films[0].views:
            text = getattr(sys.modules[view.__module__], f"{view.__name__}_text", None)
            if text is not None:
                lines += ["", str(text(self.trace, step))]
        return "\n".join(lines)

    def still(self) -> str:
        if not len(self.trace):
            return "<p>Nothing happened.</p>"
        place = self._still_place()
        lit = Clauses(self.trace).of(self.trace[place])
        pictures = "".join(
            f'<div style="overflow-x:auto">{scene.svg()}</div>'
            for scene in self.films[0].scenes(place, self.run)
        )
        said = f"Step {place + 1} of {len(self.trace)}: {self.trace[place].say()}"
        return (
            f"{pattern_page(self.trace.pattern, lit)}{pictures}"
            f'<p class="say">{html.escape(said)}</p>'
        )


def play(
    pattern: Any,
    stream: Any,
    engine: str | None = None,
    plan: Any = None,
    *,
    views: Sequence[str | View | tuple[str, View]] | None = None,
    quiz: bool = False,
    **options: Any,
) -> Player:
    """Runs a pattern on a stream and plays every step of it: `cep.play(pattern, df)`.

    The options are those of `cep.trace`.
    """
    return Player(traced(pattern, stream, engine, plan, **options), views, quiz=quiz)
