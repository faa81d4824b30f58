"""One event: its type, its time and its attributes, and how it prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from cepviz.errors import did_you_mean
from cepviz.events.schema import Number, Schema, number_text

BUILT_IN = ("type", "id", "time", "start", "end")


class Fields:
    """The slots of an event while they are being filled."""

    __slots__ = ("attributes", "end", "id", "position", "schema", "start", "type")

    def __init__(
        self,
        position: int,
        id: Any,
        type: str,
        start: Number,
        end: Number,
        attributes: dict[str, Any],
        schema: Schema | None,
    ):
        self.position = position
        self.id = id
        self.type = type
        self.start = start
        self.end = end
        self.attributes = attributes
        self.schema = schema


class Event(Fields):
    """One thing that happened: its type, its time and its attributes.

    `e.price` and `e["price"]` are the same attribute; a missing value is None. An interval event
    has a `start` before its `end`; `time` is the end. `attributes=` takes names that are no
    Python words, or that mean something else here.

    >>> Event("Stock", 5, id=6, symbol="GOOG", price=120)
    e6 Stock symbol=GOOG price=120 at 5
    """

    __slots__ = ()

    def __init__(
        self,
        type: str,
        time: Number,
        *,
        id: Any = None,
        end: Number | None = None,
        position: int = -1,
        schema: Schema | None = None,
        attributes: Mapping[str, Any] | None = None,
        **more: Any,
    ):
        values = {
            name: None if isinstance(value, float) and value != value else value
            for name, value in {**(attributes or {}), **more}.items()
        }
        fields = {"position": position, "id": id, "type": type, "start": time}
        fields |= {"end": time if end is None else end, "attributes": values, "schema": schema}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def time(self) -> Number:
        """When the event is over, which is when it takes its place in the stream."""
        return self.end

    @property
    def is_interval(self) -> bool:
        """Whether the event takes time: its start and its end differ."""
        return self.start != self.end

    @property
    def label(self) -> str:
        """A short name: `e6` for the event with id 6, the id itself where it is text."""
        if self.id is None:
            return self.type
        return f"e{self.id}" if isinstance(self.id, int) else str(self.id)

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute, or else the built-in type, id, time, start or end, or else the default."""
        if name in self.attributes:
            return self.attributes[name]
        return getattr(self, name) if name in BUILT_IN else default

    def __getitem__(self, name: str) -> Any:
        if name in self.attributes:
            return self.attributes[name]
        if name in BUILT_IN:
            return getattr(self, name)
        raise KeyError(self._missing(name))

    def __getattr__(self, name: str) -> Any:
        # Notebooks probe objects for such names; a column must not be able to answer them.
        if not name.startswith(("__", "_repr_", "_ipython_")) and name in self.attributes:
            return self.attributes[name]
        raise AttributeError(self._missing(name))

    def _missing(self, name: str) -> str:
        return f"{self.label} has no attribute {name!r}{did_you_mean(name, self.attributes)}"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"events do not change: cannot set {name!r} of {self.label}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"events do not change: cannot delete {name!r} of {self.label}")

    def _key(self) -> tuple[Any, ...]:
        return (self.position, self.id, self.type, self.start, self.end, self.attributes)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Event) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.id, self.end))

    def __reduce__(self) -> tuple[Any, ...]:
        return _event, (*self._key(), self.schema)

    def __repr__(self) -> str:
        schema = self.schema or Schema()
        shown = [name for name in self.attributes if name not in schema.roles.values()]
        words = [] if self.id is None else [short(self.label)]
        words.append(short(self.type))
        words += [f"{short(name)}={value_text(self, name)}" for name in shown[:8]]
        words += [f"and {len(shown) - 8} more"] if len(shown) > 8 else []
        end = schema.format_time(self.end)
        if self.is_interval:
            return " ".join([*words, "from", schema.format_time(self.start), "to", end])
        return " ".join([*words, "at", end])


def _event(*fields: Any) -> Event:
    # Filling plain slots and then closing the object takes half the time of going round the
    # closed __setattr__ seven times; streams of millions notice.
    event = Fields(*fields)
    event.__class__ = Event
    return event  # type: ignore[return-value]


def short(value: Any) -> str:
    """A value in a few characters: long ones cut in the middle, odd ones quoted."""
    if isinstance(value, float):
        return number_text(value)
    text = str(value) if isinstance(value, (str, date)) else repr(value)
    if len(text) > 40:
        text = f"{text[:24]}…{text[-15:]}"
    if isinstance(value, str) and (not text.isprintable() or not re.fullmatch(r"[^\s'\"=]+", text)):
        return repr(text)
    return text


def value_text(event: Event, name: str) -> str:
    value, schema = event.attributes[name], event.schema or Schema()
    if schema.attributes.get(name) == "time" and isinstance(value, (int, float)):
        return schema.format_time(value)
    return short(value)
