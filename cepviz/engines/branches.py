"""`BranchEngine`: what engines share that find bindings branch by branch and let `Output` judge."""

from __future__ import annotations

from typing import Any

from cepviz.engines.base import Engine
from cepviz.engines.output import Key, Output
from cepviz.events import Event


class BranchEngine(Engine):
    """Counts runs and buffered events against the budget, and calls its parts in order.

    A subclass implements `expire` (events up to `edge` have left the window) and `process`, and
    hands complete bindings to `output`.
    """

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.live = 0
        self.buffered = 0
        self.output = Output(self, self.pattern.branches, self.drop_overlapping)
        #: Whether bindings must be judged: something is negated, held back or found twice.
        self.judging = not self.output.idle

    def expire(self, event: Event, edge: int | float) -> None:
        raise NotImplementedError

    def process(self, event: Event, mark: int | float) -> None:
        raise NotImplementedError

    def earliest(self, event: Event) -> Event:
        """The oldest event with which a match still to come may begin or end."""
        return event

    def drop_overlapping(self, key: Key, position: int) -> None:
        """A match of a partition was reported that ends here; what began before is void."""

    def prefixes(self, count: int) -> list[str]:
        """What tells apart the runs and states of several automata."""
        return [f"{number}:" for number in range(1, count + 1)] if count > 1 else [""]

    def read(self, event: Event) -> None:
        if self.judging:
            self.output.note(event)
        mark = event.position if self.by_count else event.end
        if self.window is not None:
            self.expire(event, mark - self.window)
            if self.output.all:
                oldest = self.earliest(event)
                self.output.prune(lambda old: not self.fits(old, oldest))
        self.process(event, mark)
        if not self.output.overlap:
            self.output.settle_order(None if self.output.in_order else self.earliest(event))

    def finish(self) -> None:
        self.output.settle(None)

    def alive(self, runs: int, event: Event | None) -> None:
        """Counts live runs, against the budget."""
        self.live += runs
        if self.live > self.counters.peak_runs:
            self.counters.peak_runs = self.live
            if self.live > self.budget.runs and event is not None:
                self.stop("runs", event)

    def hold(self, events: int, event: Event) -> None:
        """Counts what is buffered, against the budget."""
        self.buffered += events
        if self.buffered > self.counters.peak_buffered:
            self.counters.peak_buffered = self.buffered
            if self.buffered > self.budget.buffered:
                self.stop("buffered", event)
