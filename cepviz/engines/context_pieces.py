"""What flows through the operators of CONTEXTS, and what they keep: composite events, instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cepviz.events import Event

Parts = tuple[tuple[str, Event], ...]
Number = int | float


class Composite(Event):
    """What an operator gives out: an interval event, and the events it is made of.

    Conditions see the attributes of its last event. `code` is its path as CONTEXTS labels it,
    `places` are the entries of the drawn cache that it refers to, where somebody watches.
    """

    __slots__ = ("code", "first", "last", "parts", "places", "run")
    code: tuple[int, ...]
    first: Event
    last: Event
    parts: Parts
    places: tuple[tuple[str, str], ...]
    run: str

    def __init__(self, parts: Parts, completed: Event, code: tuple[int, ...]):
        put = object.__setattr__
        first, last = parts[0][1], parts[-1][1]
        start = first.start if len(parts) == 2 else min([event.start for _, event in parts])
        put(self, "start", start)
        put(self, "end", completed.end)
        put(self, "position", completed.position)
        put(self, "attributes", _own(last, start) if last.start != last.end else last.attributes)
        put(self, "type", "")
        put(self, "id", None)
        put(self, "schema", last.schema)
        put(self, "parts", parts)
        put(self, "first", first)
        put(self, "last", last)
        put(self, "code", code)
        put(self, "places", ())
        put(self, "run", "")

    @property
    def label(self) -> str:
        return f"({' '.join(event.label for _, event in self.parts)})"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    @property
    def positions(self) -> frozenset[int]:
        return frozenset(event.position for _, event in self.parts)


def _own(last: Event, start: Number) -> dict[str, Any]:
    """The attributes of an interval as those of a composite that ends with it: its own start."""
    roles = last.schema.roles if last.schema is not None else {}
    column = roles.get("time") if "end" in roles else "start"
    if column not in last.attributes:
        return last.attributes
    return {**last.attributes, column: start}


class Instance:
    """An initiator that waits, or runs with its chain; `cur` is the last element."""

    __slots__ = (
        "between", "chain", "code", "cur", "end", "full", "kind", "number", "outputs", "parts",
        "places", "point", "pre", "run",
    )  # fmt: skip

    def __init__(self, pre: Event, parts: Parts, number: int):
        self.pre = self.cur = pre
        self.parts = parts
        self.number = number
        self.point = pre.start == pre.end and not isinstance(pre, Composite)
        self.end = pre.end
        self.chain: list[Event] = []
        self.between: tuple[Instance, ...] = ()
        self.outputs = 0
        self.code: tuple[int, ...] = pre.code if isinstance(pre, Composite) else ()
        #: When it next gives out: at so many detectors (COUNT), or so long after its initiator.
        self.kind = "COUNT"
        self.full: Number = 1
        self.places: list[tuple[str, str]] = []
        self.run = ""

    def before(self, event: Event, point: bool) -> bool:
        """Whether what it holds ends before an event starts."""
        return self.end < event.start or (self.point and point)

    def uses(self, positions: Iterable[int]) -> bool:
        return any(event.position in positions for event in self.events())

    def events(self) -> Iterator[Event]:
        for _, event in self.parts:
            yield event
        for piece in self.chain:
            if isinstance(piece, Composite):
                yield from (event for _, event in piece.parts)
            else:
                yield piece

    @property
    def size(self) -> int:
        return 1 + len(self.chain)

    @property
    def cur_first(self) -> Event:
        return self.cur.first if isinstance(self.cur, Composite) else self.cur

    @property
    def cur_last(self) -> Event:
        return self.cur.last if isinstance(self.cur, Composite) else self.cur


class Cell:
    """The instances of one partition: those that wait for a first detector, those with a chain."""

    __slots__ = ("count", "front", "key", "running", "since", "waiting")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.waiting: list[Instance] = []
        self.running: list[Instance] = []
        self.count = 0
        #: Where the window begins: a number of events, or a time.
        self.front: Number | None = None
        #: What ended before is gone (a rigid slide).
        self.since: Number | None = None


def is_point(piece: Event) -> bool:
    return piece.start == piece.end and not isinstance(piece, Composite)


def positions_of(piece: Event) -> frozenset[int]:
    return piece.positions if isinstance(piece, Composite) else frozenset((piece.position,))


def ends_of(role: str, piece: Event) -> dict[str, Event]:
    first = piece.first if isinstance(piece, Composite) else piece
    last = piece.last if isinstance(piece, Composite) else piece
    return {f"Start({role})": first, f"End({role})": last}
