"""The backtrack algorithm of SASE+ section 5.2.3: one run of a partition at a time.

The singleton run goes on until it fails or matches. Runs that split off it are postponed on a stack
and later resume by reading the partition's events again. When the stack is empty, the next event
that can begin a run does. The matches are those of the basic algorithm, but they come later, and
events are read several times: `counters["reprocessed"]` says how often.
"""

from __future__ import annotations

from typing import Any

from cepviz.engines.automaton import Automaton, Run
from cepviz.engines.buffer import Cell, SharedBuffer
from cepviz.engines.output import Key
from cepviz.events import Event


class PrivateBuffer(SharedBuffer):
    """Cells of one run at a time: nothing to share, so nothing is kept in stacks."""

    def put(self, stack: int, event: Event, mark: int | float) -> tuple[Cell, bool]:
        return Cell(event, stack, mark), True


class Lane:
    """The events of a partition that may be read again, and the runs waiting to read them."""

    __slots__ = ("events", "furthest", "index", "limit", "postponed", "run", "start")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.start = 0  # the next event that may begin a run
        self.run: Run | None = None  # the singleton run, and the event it reads next
        self.index = 0
        self.postponed: list[tuple[Run, int]] = []
        self.furthest = 0
        self.limit: int | None = None  # non-overlap: where the shortest match so far ends

    def __len__(self) -> int:
        return len(self.postponed) + (self.run is not None)


class Backtracking(Automaton):
    """The automaton of one sequence, explored depth first."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.lanes: dict[Key, Lane] = {}
        self.buffer = PrivateBuffer(0)
        self.lane: Lane | None = None

    def read(self, event: Event, key: Key) -> None:
        lane = self.lanes.setdefault(key, Lane())
        lane.events.append(event)
        if self.engine.window is not None:
            self.starts.append((event, key))
        self.drive(lane, key, event)

    def expire(self, event: Event, edge: int | float) -> None:
        """Ends the runs of partitions that have no event of their own to end them."""
        fits = self.engine.fits
        intervals = self.engine.intervals
        late = [pair for pair in self.starts if not fits(pair[0], event)] if intervals else []
        if intervals:
            self.starts = type(self.starts)(pair for pair in self.starts if fits(pair[0], event))
        while not intervals and self.starts and not fits(self.starts[0][0], event):
            late.append(self.starts.popleft())
        for key in dict.fromkeys(key for _, key in late):
            if key in self.lanes:
                self.drive(self.lanes[key], key, event)

    def finish(self) -> None:
        for key, lane in list(self.lanes.items()):
            self.drive(lane, key, None)

    def drive(self, lane: Lane, key: Key, now: Event | None) -> None:
        """Follows runs depth first until one waits for an event to come; `now` None is the end."""
        engine = self.engine
        fits = engine.fits
        self.lane = lane
        engine.live -= len(lane)
        while lane.run is not None or self.resume(lane, key):
            run = lane.run
            if run is None:
                continue  # the start was a whole match
            if lane.index >= len(lane.events):
                if now is not None and fits(run.start, now):
                    break
                self.give_up(lane, "window" if now else "end", now or lane.events[-1])
                continue
            event = lane.events[lane.index]
            if lane.index < lane.furthest:
                engine.counters.reprocessed += 1
            lane.index += 1
            lane.furthest = max(lane.furthest, lane.index)
            if lane.limit is not None and event.position > lane.limit:
                self.give_up(lane, "non-overlap", event)
            elif not fits(run.start, event):
                self.give_up(lane, "window", event)
            else:
                kept: list[Run] = []
                self.advance(run, event, kept)
                lane.run = kept[0] if kept else None
                lane.postponed += [(other, lane.index) for other in reversed(kept[1:])]
        engine.alive(len(lane), now)
        if not lane and lane.start >= len(lane.events):
            del self.lanes[key]

    def resume(self, lane: Lane, key: Key) -> bool:
        """Takes up the run postponed last, or begins with the next event; says if there is one."""
        if lane.postponed:
            lane.run, lane.index = lane.postponed.pop()
            return True
        del lane.events[: lane.start]  # no run begins before here any more
        lane.furthest = max(0, lane.furthest - lane.start)
        lane.start = 0
        if not lane.events:
            return False
        event = lane.events[0]
        lane.start = lane.index = 1
        if lane.limit is not None and event.position > lane.limit:
            lane.limit = None
        if lane.furthest:
            self.engine.counters.reprocessed += 1
        lane.furthest = max(lane.furthest, 1)
        lane.run = self.start(event, key) if event.type == self.first_type else None
        if lane.run is not None and self.engine.window is not None:
            self.starts.pop()  # `read` has noted every event already
        return True

    def give_up(self, lane: Lane, reason: str, event: Event) -> None:
        assert lane.run is not None
        self.drop(lane.run, reason, event)
        lane.run = None

    def accept(self, run: Run, event: Event) -> None:
        output = self.engine.output
        known = len(output.decided)
        super().accept(run, event)
        lane = self.lane
        if lane is not None and not output.overlap and len(output.decided) > known:
            lane.limit = min(event.position, event.position if lane.limit is None else lane.limit)

    def drop_overlapping(self, key: Key, event: Event, position: int) -> None:
        """Nothing to do: a lane follows one start at a time, and overlap is judged at the end."""

    def earliest(self) -> Event | None:
        """The first event of the oldest run in progress: no match to come begins before it."""
        starts = [lane.events[0] for lane in self.lanes.values() if len(lane)]
        return min(starts, key=lambda event: event.position, default=None)
