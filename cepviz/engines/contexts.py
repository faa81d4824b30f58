"""`contexts`: CONTEXT queries over interval events, in the four contexts of CONTEXTS.

A query is a tree of operators (`context_operators`). The window behind FROM stands over the outputs
of the whole tree: it collects them until it is full, gives them out as one match, and slides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from cepviz.engines.base import Engine, Match, labels_of
from cepviz.engines.context_closure import Chain
from cepviz.engines.context_operators import Bop, Filtered, Leaf, Node, compiled
from cepviz.engines.context_pieces import Composite
from cepviz.engines.context_sequence import Pair
from cepviz.engines.context_teller import Teller, graph_of
from cepviz.events import Event, Schema
from cepviz.language.contexts import (
    Closure,
    ContextQuery,
    Operator,
    Restricted,
    Selected,
    Source,
    operators,
    stream_of,
)
from cepviz.language.evaluate import value
from cepviz.language.expressions import Expression
from cepviz.language.pattern import Pattern, Returns
from cepviz.steps import Graph, Matched


class Output(Match):
    """A match of a CONTEXT query: an interval, with the events it is made of by role."""

    __slots__ = ("_select",)

    def __init__(
        self,
        bindings: Mapping[str, Event | tuple[Event, ...]],
        completed: Event,
        returns: Returns | None,
        schema: Schema,
        select: tuple[Selected, ...],
    ):
        super().__init__(bindings, completed, returns, schema)
        self._select = select

    def composite(self) -> Event:
        """The match as one event: the type that PUBLISH names, the attributes of SELECT.

        An attribute is that of the last of its events that has it.
        """
        type = "Match" if self._returns is None else self._returns.type
        attributes = {}
        for chosen in self._select:
            having = (event.get(chosen.name) for event in reversed(self.events))
            found = next((value for value in having if value is not None), None)
            attributes[chosen.alias or chosen.name] = found
        return Event(type, self.first, end=self.last, attributes=attributes)


class Contexts(Engine):
    """CONTEXT queries: sequence and Kleene closure over intervals, with sliding windows."""

    name = "contexts"
    takes_intervals: ClassVar[bool] = True
    pattern: ContextQuery  # type: ignore[assignment]

    @classmethod
    def refuses(cls, pattern: Pattern | ContextQuery) -> str | None:
        if isinstance(pattern, ContextQuery):
            return None
        return "it runs queries that begin with CONTEXT, and this is a PATTERN"

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        query = self.pattern
        self.live = self.buffered = 0
        self.teller: Teller | None = None
        self.root = self.node(query.source, operators(query.source))
        self.graph_ = graph_of(self)
        if self.emit is not None:
            self.teller = Teller(self, self.emit)
        self.single = [v.name for v in query.variables.values() if not v.kleene]
        self.listed = [v.name for v in query.variables.values() if v.kleene]
        window = query.window
        self.strategy = window.strategy if window is not None else ""
        if window is not None:
            self.reach, self.step = (
                value(limit.amount, {}) for limit in (window.range, window.slide)
            )
        self.held: dict[Any, list[Composite]] = {}
        self.since: dict[Any, int | float] = {}

    def node(self, source: Source, numbered: list[Operator]) -> Node:
        """A source as what gives its events, or its outputs, event by event."""
        if stream_of(source) is not None:
            return Leaf(self, source)
        if isinstance(source, Restricted):
            return Filtered(self, source, self.node(source.source, numbered))
        if isinstance(source, Closure):
            return Chain(self, source, numbered)
        assert isinstance(source, Operator)
        return Pair(self, source, numbered)

    def predicate(
        self, tests: Sequence[Expression], places: dict[str, str]
    ) -> Callable[[Event, Any], bool] | None:
        return compiled(tests, places, self.failed)

    @property
    def operators(self) -> tuple[Bop, ...]:
        return self.root.operators

    @property
    def graph(self) -> Graph:
        return self.graph_

    def hold(self, events: int, runs: int = 1) -> None:
        """Counts what is kept; a budget may end it here."""
        self.buffered += events
        if runs:
            self.live += runs
            if runs > 0:
                self.counters.runs += 1
                if self.live > self.counters.peak_runs:
                    self.counters.peak_runs = self.live
                    if self.live >= self.budget.runs and self.latest is not None:
                        self.stop("runs", self.latest)
        if self.buffered > self.counters.peak_buffered:
            self.counters.peak_buffered = self.buffered
            if self.buffered >= self.budget.buffered and self.latest is not None:
                self.stop("buffered", self.latest)

    def read(self, event: Event) -> None:
        if self.since and self._erased(event):
            return
        for piece in self.root.feed(event):
            if not isinstance(piece, Composite):  # the query has no operator
                piece = Composite((("event", piece),), piece, (1,))
                if self.teller is not None:
                    self.teller.passed(piece)
            if self.pattern.window is not None:
                self.collect(piece, event)
            else:
                self.give((piece,), event)
                if self.teller is not None:
                    self.teller.given_out(piece)

    # ---- the window behind FROM ----

    def _key(self, event: Event) -> Any:
        top = self.operators[-1] if self.operators else None
        return None if top is None or top.key is None else top.key(event)

    def _erased(self, event: Event) -> bool:
        since = self.since.get(self._key(event))
        return since is not None and event.end < since

    def collect(self, piece: Composite, event: Event) -> None:
        """Puts an output into the window; when it is full, gives it out and slides."""
        window = self.pattern.window
        assert window is not None
        key = self._key(event)
        held = self.held.setdefault(key, [])
        held.append(piece)
        self.hold(len(piece.parts), 0)
        if window.range.kind == "COUNT" and window.slide.kind == "TEMPORAL":
            # Three outputs, a slide of a day: the window covers three days.
            covered = self.reach * self.step
            late = [other for other in held if event.end - other.end >= covered]
            if late:
                self._leave(key, late, event)
                held = self.held[key]
        if window.range.kind == "COUNT":
            full = len(held) >= self.reach
            if len(held) > self.reach:
                self._leave(key, held[: -self.reach], event)
                held = self.held[key]
        else:
            full = event.end - held[0].start >= self.reach
        if not full:
            return
        self.give(held, event)
        self.slide(key, held, event)

    def slide(self, key: Any, held: list[Composite], event: Event) -> None:
        """Slides the window over the outputs after it was given out."""
        window = self.pattern.window
        assert window is not None
        front = held[0].start
        if self.strategy == "rolling":
            left = list(held)
        elif window.slide.kind == "COUNT":
            left = held[: self.step]
        elif self.strategy == "rigid":
            front = max(front, self.since.get(key, front)) + self.step
            self.since[key] = front
            left = [piece for piece in held if piece.end < front]
        else:
            left = [piece for piece in held if piece.start < front + self.step]
        gone = frozenset(position for piece in left for position in piece.positions)
        if self.strategy == "wipe-out":  # what an output used is gone, with every path through it
            left += [p for p in held if p not in left and p.positions & gone]
        because = held[-1]
        self._leave(key, left, event)
        for operator in self.operators:
            if self.strategy == "wipe-out":
                operator.wipe(gone, key, because)
            elif self.strategy == "rigid":
                for cell in operator.cells.values() if key is None else operator.of(key):
                    operator.forget(cell, front, because)

    def _leave(self, key: Any, left: list[Composite], event: Event) -> None:
        """Takes outputs out of the window."""
        self.held[key] = [piece for piece in self.held[key] if piece not in left]
        for piece in left:
            self.hold(-len(piece.parts), 0)
            if self.teller is not None:
                self.teller.slid(piece, self.strategy, event)

    # ---- output ----

    def give(self, pieces: Sequence[Composite], completed: Event) -> None:
        """Reports outputs as one match."""
        bound: dict[str, list[Event]] = {name: [] for name in self.pattern.variables}
        for piece in pieces:
            for name, event in piece.parts:
                if len(pieces) == 1 or event not in bound[name]:
                    bound[name].append(event)
        bindings: dict[str, Event | tuple[Event, ...]] = {
            name: tuple(events) if name in self.listed else events[0]
            for name, events in bound.items()
            if events or name in self.listed
        }
        query = self.pattern
        match = Output(bindings, completed, query.returns, self.schema, query.select)
        self.out.append(match)
        self.counters.matches += 1
        if self.emit is not None:
            length = self.schema.format_duration(match.last - match.first)
            number = self.counters.matches
            self.emit(Matched(number, pieces[-1].run, completed.label, labels_of(bindings), length))
        if self.counters.matches >= self.budget.matches:
            self.stop("matches", completed)
