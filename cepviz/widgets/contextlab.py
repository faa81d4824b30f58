"""The context lab: drag the ends of intervals, see all four contexts and the cache at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import traitlets

from cepviz.errors import CepError
from cepviz.events import Event, Stream
from cepviz.explain.shown import count
from cepviz.language.contexts import CONTEXTS, ContextQuery
from cepviz.language.highlight import classified
from cepviz.language.parser import parse
from cepviz.matching import Result, as_stream, match, trace
from cepviz.views.contexts import bars, contexts, scale
from cepviz.views.film import still_part
from cepviz.views.paths import paths, slide
from cepviz.views.replay import script
from cepviz.views.scene import Scene
from cepviz.widgets.shown import Shown, pattern_page, table_page

MOST_EVENTS = 60

#: The stream of CONTEXTS Figure 2, as its text describes it.
FIGURE_2 = (
    ("a1", 1, 2), ("b1", 3, 4), ("a2", 5, 6), ("b2", 7, 8), ("a3", 9, 12), ("b3", 10, 13),
    ("a4", 11, 14), ("b4", 15, 16), ("c1", 17, 18),
)  # fmt: skip

#: What the menu offers, by name.
SOURCES = {
    "SQ(A, B)": "<A> SEQUENCE <B>",
    "KC(A, B, C)": "<A> KLNCLOSE <B>, <C>",
    "chains of two": "<A> KLNCLOSE WINDOW {COUNT 2, COUNT 2} <B>",
    "a closure on chains of two": "<<A> KLNCLOSE WINDOW {COUNT 2, COUNT 2} <B>> KLNCLOSE <B>",
}
WINDOWS = (
    "none",
    "COUNT 1, COUNT 1",
    "COUNT 2, COUNT 1",
    "COUNT 2, COUNT 2",
    "COUNT 1, TEMPORAL 4",
)


class ContextLab(Shown):
    """A stream of intervals whose ends can be dragged, and what the four contexts make of it.

    `move("a3", end=9)` does what dragging does. `source` and `window` are those of the query;
    `results` has the result in each context. The query is `query` in the context `context`, whose
    cache is drawn: before and after its first slide where a window slides.

    >>> import cepviz as cep
    >>> lab = cep.ContextLab()
    >>> [len(result) for result in lab.results.values()]
    [3, 3, 4, 4]
    >>> lab.move("a3", end=9)  # now b3 is its successor
    >>> [match.ids for match in lab.results["compact"]][2]
    {'initiator': 'a3', 'detector': 'b3'}
    """

    _esm = script("panel.js", "replay.js") + Path(__file__).with_name("contextlab.js").read_text(
        encoding="utf-8"
    )
    _state = traitlets.Dict().tag(sync=True)
    source = traitlets.Unicode(SOURCES["SQ(A, B)"])
    window = traitlets.Unicode("none")
    context = traitlets.Enum(list(CONTEXTS), default_value="compact")

    def __init__(self, stream: Any = None, source: str | None = None, **keywords: Any):
        rows: Iterable[tuple[str, Any, Any]] = FIGURE_2
        if stream is not None:
            known = as_stream(stream)
            if len(known) > MOST_EVENTS:
                raise CepError(f"ContextLab shows up to {MOST_EVENTS} events, not {len(known):,}")
            self.events = list(known)
        else:
            self.events = [Event(n[0].upper(), a, end=b, id=n) for n, a, b in rows]
        self.low = min(0, min(event.start for event in self.events))
        self.high = max(event.end for event in self.events) + 2
        self.said = ""
        self.results: dict[str, Result] = {}
        given = {} if source is None else {"source": source}
        super().__init__(**given, **keywords)
        self.observe(lambda _: self._show(), ["source", "window", "context"])
        self.on_msg(self._told)
        self._show()

    @property
    def query(self) -> ContextQuery:
        """The query in the chosen context."""
        return self._query(self.context)

    def _query(self, context: str) -> ContextQuery:
        window = "" if self.window == "none" else f"WINDOW {{{self.window}}} "
        text = f"CONTEXT {CONTEXTS[context]} SELECT <id> FROM {window}{self.source}"
        query: Any = parse(text)
        return query  # type: ignore[no-any-return]

    @property
    def stream(self) -> Stream:
        """The intervals as they are now, in order of their ends."""
        return Stream.from_records(sorted(self.events, key=lambda event: event.end))

    def move(self, id: Any, start: Any = None, end: Any = None) -> None:
        """Gives an interval another start or end; it stays at least a point, within the picture."""
        place = next((n for n, e in enumerate(self.events) if id in (e.id, e.label)), None)
        if place is None:
            raise CepError(f"there is no event {id!r}")
        old = self.events[place]
        first = old.start if start is None else min(max(start, self.low), old.end)
        last = old.end if end is None else max(min(end, self.high), first)
        self.events[place] = Event(
            old.type, first, end=last, id=old.id, attributes=_apart(old.attributes)
        )
        self._show()

    # ---- what it shows ----

    def _show(self) -> None:
        self.said = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.results = {name: match(self._query(name), self.stream) for name in CONTEXTS}
            except CepError as error:
                self.said = str(error)
        text = str(self.query) if not self.said else self.source
        self._state = {
            "pattern": [[kind, word] for kind, word in classified(text)],
            "picture": still_part([("Four contexts", self._contexts())]),
            "cache": still_part([(f"The cache, {self.context}", self._cache())]),
            "handles": [
                {"id": b.event.label, "edge": edge, "x": x, "y": b.y + 9, "at": at}
                for b in bars(self.events, self.low, self.high)
                for edge, x, at in (
                    ("start", b.start, b.event.start),
                    ("end", b.end, b.event.end),
                )
            ],
            "low": self.low,
            "high": self.high,
            "scale": scale(self.low, self.high),
            "menus": [
                {"name": "source", "value": self.source, "options": list(SOURCES.items())},
                {"name": "window", "value": self.window, "options": [(w, w) for w in WINDOWS]},
                {"name": "context", "value": self.context, "options": [(c, c) for c in CONTEXTS]},
            ],
            "said": self.said or self._verdict(),
        }

    def _contexts(self) -> Scene:
        return contexts(self.events, self.results, self.low, self.high)

    def _cache(self) -> Scene:
        if self.said:
            return Scene(300, 30, self.said)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recorded = trace(self.query, self.stream)
        if any(step.kind == "drop" and step.reason == "slide" for step in recorded):  # type: ignore[attr-defined]
            return slide(recorded, 0)
        # Of all outputs the one at which there is most to see.
        places = [place for place, _ in recorded.matches] or [len(recorded) - 1]
        return paths(recorded, max(places, key=lambda place: len(recorded.at(place).links)))

    def _verdict(self) -> str:
        said = ", ".join(f"{name} {len(found):,}" for name, found in self.results.items())
        return f"Outputs: {said}."

    def _told(self, _: Any, content: Mapping[str, Any], buffers: Any) -> None:
        """What was done in the browser."""
        if content.get("do") == "move" and content.get("edge") in ("start", "end"):
            self.move(content["id"], **{content["edge"]: content["to"]})
        elif content.get("do") == "choose" and content.get("name") in (
            "source",
            "window",
            "context",
        ):
            setattr(self, content["name"], str(content["value"]))

    # ---- without a kernel ----

    def _rows(self) -> list[list[str]]:
        return [
            [name, count(len(found), "output"),
             "; ".join(" ".join(event.label for event in match.events) for match in found)]
            for name, found in self.results.items()
        ]  # fmt: skip

    def text(self) -> str:
        lines = [str(self.query), ""]
        lines += [f"{event.label}: {event.start} to {event.end}" for event in self.events]
        lines += ["", *(f"{name}: {said}" for name, _, said in self._rows())]
        return "\n".join(lines)

    def still(self) -> str:
        pictures = "".join(
            f'<div style="overflow-x:auto">{scene.svg()}</div>'
            for scene in (self._contexts(), self._cache())
        )
        table = table_page(["context", "how many", "outputs"], self._rows(), self._verdict())
        return pattern_page(str(self.query)) + pictures + table


def _apart(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes without the columns that said when the event was."""
    return {k: v for k, v in attributes.items() if k not in ("type", "id", "time", "start", "end")}
