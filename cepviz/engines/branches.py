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

    An engine may also work for another, its `host`, as one of several plans at a time: the host
    reads events, and what is counted, found and told is the host's. It then looks only for the
    matches that begin before its `border`, a position, if there is one.
    """

    def __init__(
        self, *arguments: Any, host: BranchEngine | None = None, label: str = "", **keywords: Any
    ):
        super().__init__(*arguments, **keywords)
        self.live = 0
        self.buffered = 0
        self.host = host
        self.label = label  # what tells its runs and states from those of other plans
        self.border: int | None = None
        if host is None:
            self.output = Output(self, self.pattern.branches, self.drop_overlapping)
        else:
            self.pattern = host.pattern
            self.counters, self.failures = host.counters, host.failures
            self.emit, self.output = host.emit, host.output
        #: Whether bindings must be judged: something is negated, held back or found twice.
        self.judging = not self.output.idle

    def expire(self, event: Event, edge: int | float) -> None:
        raise NotImplementedError

    def process(self, event: Event, mark: int | float) -> None:
        raise NotImplementedError

    def close(self, event: Event, why: str) -> None:
        """Ends an engine that works for a host: what it still holds is dropped."""
        raise NotImplementedError

    def earliest(self, event: Event) -> Event:
        """The oldest event with which a match still to come may begin or end."""
        return event

    def drop_overlapping(self, key: Key, position: int) -> None:
        """A match of a partition was reported that ends here; what began before is void."""

    def prefixes(self, count: int) -> list[str]:
        """What tells apart the runs and states of several automata."""
        numbers = [f"{number}:" for number in range(1, count + 1)] if count > 1 else [""]
        return [self.label + number for number in numbers]

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
        if self.host is not None:
            self.host.alive(runs, event)
            return
        if self.live > self.counters.peak_runs:
            self.counters.peak_runs = self.live
            if self.live > self.budget.runs and event is not None:
                self.stop("runs", event)

    def hold(self, events: int, event: Event) -> None:
        """Counts what is buffered, against the budget."""
        self.buffered += events
        if self.host is not None:
            self.host.hold(events, event)
            return
        if self.buffered > self.counters.peak_buffered:
            self.counters.peak_buffered = self.buffered
            if self.buffered > self.budget.buffered:
                self.stop("buffered", event)
