"""A stream to change by hand: drop, move, edit or add an event, and see what becomes of the
matches, and why."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import traitlets

from cepviz.engines.base import Match
from cepviz.errors import CepError, did_you_mean
from cepviz.events import Event, Stream
from cepviz.explain import why, why_not
from cepviz.explain.running import quietly, watched
from cepviz.explain.shown import Explanation, count, told
from cepviz.language.build import as_pattern
from cepviz.language.highlight import classified
from cepviz.matching import Result, as_stream
from cepviz.trace import Trace
from cepviz.views.film import Film, head
from cepviz.widgets.explaining import FORM, answer_data
from cepviz.widgets.player import Films
from cepviz.widgets.shown import pattern_page, table_page

#: A table of more events is nothing to edit by hand.
MOST_EVENTS = 200

#: Of so many changed matches it is told why.
MOST_CHANGES = 12


@dataclass
class Gone(Explanation):
    """Why a match is gone whose events are not all there any more."""

    labels: list[str]

    def lines(self) -> list[str]:
        verb = "is" if len(self.labels) == 1 else "are"
        return [f"{', '.join(self.labels)} {verb} no longer in the stream."]


@dataclass(frozen=True)
class Change:
    """A match that came (`+`) or went (`-`) by the edits, and why."""

    sign: str
    match: Match
    why: Explanation

    def __str__(self) -> str:
        return f"{self.sign} {told(self.match.bindings)}: {' '.join(self.why.lines()[:2])}"


class StreamEditor(Films):
    """Changes a stream by hand and shows which matches come and go, with the reason of each.

    In Python: `edit(id, column, value)`, `drop(id)`, `move(id, by)`, `add(type, time, ...)`,
    `undo()`, `reset()`. `stream` and `result` are those of now, `changes` what differs from the
    beginning.

    >>> import cepviz as cep
    >>> rows = [{"type": "A", "time": 1, "x": 5}, {"type": "B", "time": 2, "x": 7}]
    >>> editor = cep.StreamEditor("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9", rows)
    >>> editor.edit(1, "x", 4)
    >>> print(*editor.changes)
    - a = e0, b = e1: Not a match: 1 reason. 1  predicate  b.x > a.x: 4 > 5 is false, short by 1.
    """

    _esm = FORM + Path(__file__).with_name("editor.js").read_text(encoding="utf-8")
    _state = traitlets.Dict().tag(sync=True)

    def __init__(self, pattern: Any, stream: Any):
        self.pattern, self.first = as_pattern(pattern), as_stream(stream)
        if len(self.first) > MOST_EVENTS:
            raise CepError(
                f"{len(self.first):,} events are too many to edit by hand: give it a part of the "
                f"stream, such as stream[:{MOST_EVENTS}]"
            )
        self.before, _ = quietly(self.pattern, self.first)
        self._past: list[Stream] = []
        self._said = ""
        empty = Film(Trace())
        super().__init__([empty], head(empty))
        self.on_msg(self._told)
        self._set(self.first)

    # ---- what one can do ----

    def edit(self, id: Any, column: str, value: Any) -> None:
        """Gives an event another type, time or attribute; a time may be a date in words."""
        event = self._event(id)
        if column == "time":
            moved = self.first.schema.timestamp(value)
            self._swap(event, start=moved - (event.end - event.start), end=moved)
        elif column == "type":
            self._swap(event, type=str(value))
        elif column in self._columns():
            self._swap(event, attributes={**event.attributes, column: value})
        else:
            known = ["type", "time", *self._columns()]
            raise CepError(f"there is no column {column!r}{did_you_mean(column, known)}")

    def drop(self, id: Any) -> None:
        """Takes an event out."""
        event = self._event(id)
        self._keep([other for other in self.stream if other.id != event.id])

    def move(self, id: Any, by: int) -> None:
        """Lets an event change places, and times, with the one before (-1) or after (1)."""
        events = list(self.stream)
        place = events.index(self._event(id))
        other = place + by
        if 0 <= other < len(events):
            a, b = events[place], events[other]
            events[place] = self._like(b, start=a.start, end=a.end)
            events[other] = self._like(a, start=b.start, end=b.end)
            self._keep(events)

    def add(self, type: str, time: Any, id: Any = None, **attributes: Any) -> None:
        """Puts a new event in; without an id it gets the next number, or `new1`."""
        at = self.first.schema.timestamp(time)
        event = Event(type, at, id=self._free() if id is None else id, attributes=attributes)
        self._keep([*self.stream, self._like(event)])

    def undo(self) -> None:
        """Takes the last change back."""
        if self._past:
            self._set(self._past.pop())

    def reset(self) -> None:
        """Back to the stream it began with."""
        self._past.clear()
        self._set(self.first)

    @property
    def changes(self) -> list[Change]:
        """The matches that came and went since the beginning, the first dozen with a reason."""
        before = {match.key: match for match in self.before}
        now = {match.key: match for match in self.result}
        there = {event.id for event in self.stream}
        made = [
            Change("-", match, self._why_gone(match, there))
            for key, match in before.items()
            if key not in now
        ][:MOST_CHANGES]
        new = [match for key, match in now.items() if key not in before]
        return made + [Change("+", match, why(match)) for match in new[:MOST_CHANGES]]

    def _why_gone(self, match: Match, there: set[Any]) -> Explanation:
        gone = [event.label for event in match.events if event.id not in there]
        if gone:
            return Gone(gone)
        bound = {name: ids for name, ids in match.ids.items() if ids != []}
        return why_not(self.pattern, self.stream, **bound)

    # ---- how it is done ----

    def _event(self, id: Any) -> Event:
        for event in self.stream:
            if id in (event.id, event.label):
                return event
        known = [event.label for event in self.stream]
        raise CepError(f"there is no event {id!r}{did_you_mean(str(id), known)}")

    def _columns(self) -> list[str]:
        schema = self.first.schema
        return [name for name in schema.attributes if name not in schema.roles.values()]

    def _free(self) -> Any:
        taken = {event.id for event in self.stream} | {event.id for event in self.first}
        if all(isinstance(id, int) for id in taken):
            return max(taken, default=-1) + 1
        number = 1
        while f"new{number}" in taken:
            number += 1
        return f"new{number}"

    def _like(self, event: Event, **fields: Any) -> Event:
        """The event with some fields changed, and the columns that hold them, too."""
        now = {name: getattr(event, name) for name in ("id", "type", "start", "end")} | fields
        attributes = dict(fields.get("attributes", event.attributes))
        roles = self.first.schema.roles
        held = {
            "type": "type",
            "id": "id",
            "end": "end",
            "time": "start" if "end" in roles else "end",
        }
        attributes |= {column: now[held[role]] for role, column in roles.items()}
        return Event(
            now["type"], now["start"], end=now["end"], id=now["id"], schema=self.first.schema,
            attributes=attributes,
        )  # fmt: skip

    def _swap(self, event: Event, **fields: Any) -> None:
        changed = self._like(event, **fields)
        self._keep([changed if other.id == event.id else other for other in self.stream])

    def _keep(self, events: list[Event]) -> None:
        stream = Stream.from_records(events, sort=True) if events else self.first[:0]
        quietly(self.pattern, stream)  # a value the pattern cannot take is refused before
        self._past.append(self.stream)
        self._set(stream)

    def _set(self, stream: Stream) -> None:
        self.stream = stream
        self.result: Result
        self.result, _ = quietly(self.pattern, stream)
        trace = watched(self.pattern, stream)
        film = Film(trace)
        self._play([film], head(film), max(0, len(trace) - 1))
        self._show()

    # ---- the form ----

    def _cells(self, event: Event) -> list[dict[str, Any]]:
        schema = self.first.schema
        cells: list[dict[str, Any]] = [
            {"column": "type", "value": event.type, "fixed": False},
            {"column": "time", "value": schema.format_time(event.end), "fixed": False},
        ]
        for name in self._columns():
            kind, value = schema.attributes[name], event.attributes.get(name)
            shown = "" if value is None else str(value)
            if kind == "time" and isinstance(value, int | float):
                shown = schema.format_time(value)
            cells.append(
                {"column": name, "value": shown, "fixed": kind not in ("number", "string", "bool")}
            )
        return cells

    def _verdict(self) -> str:
        now, before = len(self.result), len(self.before)
        said = f"{count(now, 'match', 'matches')} now, {before:,} at the beginning."
        return said if self._past else f"{count(now, 'match', 'matches')}. Change something."

    def _show(self) -> None:
        original = {event.id: self._cells(event) for event in self.first}
        self._state = {
            "pattern": [[kind, word] for kind, word in classified(str(self.pattern))],
            "summary": count(len(self.stream), "event"),
            "heads": ["event", "type", "time", *self._columns()],
            "rows": [
                {"label": event.label, "cells": (cells := self._cells(event)),
                 "changed": original.get(event.id) != cells}
                for event in self.stream
            ],
            "changes": [
                {"sign": change.sign, "text": told(change.match.bindings),
                 "why": answer_data(change.why)}
                for change in self.changes
            ],
            "verdict": self._verdict(),
            "said": self._said,
        }  # fmt: skip

    def _told(self, _: Any, content: Any, buffers: Any) -> None:
        act = content.get("do") if isinstance(content, dict) else None
        try:
            match act:
                case "edit":
                    value = self._read(content["column"], content["value"])
                    self.edit(content["label"], content["column"], value)
                case "drop":
                    self.drop(content["label"])
                case "move":
                    self.move(content["label"], int(content["by"]))
                case "copy":
                    event = self._event(content["label"])
                    self._keep([*self.stream, self._like(event, id=self._free())])
                case "undo":
                    self.undo()
                case "reset":
                    self.reset()
        except (CepError, ValueError, TypeError) as error:
            self._said = f"Not changed: {error}"
            self._show()
            self._said = ""

    def _read(self, column: str, text: str) -> Any:
        """What somebody typed into a cell, as a value of its column."""
        text = str(text)
        schema = self.first.schema
        kind = schema.attributes.get(column, "string")
        if column == "time":
            return text if schema.zone is not None else _number(column, text)
        if column != "type" and not text.strip():
            return None
        if kind == "number":
            return _number(column, text)
        if kind == "bool":
            if text.strip().lower() not in ("true", "false"):
                raise CepError(f"{column} is true or false, not {text!r}")
            return text.strip().lower() == "true"
        return text

    # ---- without a kernel ----

    def _table(self) -> tuple[list[str], list[list[str]]]:
        heads = ["event", "type", "time", *self._columns()]
        rows = [
            [event.label, *(str(cell["value"]) for cell in self._cells(event))]
            for event in self.stream
        ]
        return heads, rows

    def text(self) -> str:
        heads, rows = self._table()
        told_rows = ["  ".join(cells) for cells in [heads, *rows]]
        return "\n".join(
            [str(self.pattern), "", *told_rows, "", self._verdict(), *map(str, self.changes)]
        )

    def still(self) -> str:
        heads, rows = self._table()
        changes = [[change.sign, told(change.match.bindings), " ".join(change.why.lines())]
                   for change in self.changes]  # fmt: skip
        changed = table_page(["", "match", "why"], changes, self._verdict())
        return pattern_page(str(self.pattern)) + table_page(heads, rows) + changed


def _number(column: str, text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        raise CepError(f"{column} is a number, not {text!r}") from None
    return int(number) if number.is_integer() and "." not in text else number
