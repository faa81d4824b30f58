"""What streaming keeps of a partition between two batches: the events of the open window.

Events come in any order within the lateness that is allowed, so they wait until the watermark has
passed them, and are then matched in order. The engine is not kept: the open window is short, and
running the pattern over it again gives the same matches. Each match has a moment when it is due,
by its events alone: when the watermark passes its last event or, with a NOT at the end, the end of
its window. Those that are due since the last time are reported; so each is reported once, whatever
the batches, and after a restart too.

Nothing here imports pyspark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cepviz.engines.base import Match
from cepviz.errors import CepError, UnsupportedError
from cepviz.events import Schema
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import window_size
from cepviz.spark.arrow import integers, ordered
from cepviz.spark.worker import Piece, Task

#: Columns of our own: an event's time in whole microseconds, and whether a match that was reported
#: reaches up to it or beyond (for non_overlap).
MICROS, USED = "_cep_micros", "_cep_used"

#: The form in which the state is written; another is refused rather than misread.
VERSION = 1

#: Before any watermark.
NEVER = -(2**63)


@dataclass(frozen=True)
class Keeping:
    """How long events of a partition matter, and when a match is due; goes to every worker."""

    task: Task
    window: int | float  # in the stream's unit
    nanoseconds: int  # in that unit
    trailing: bool
    apart: bool  # matches must not overlap
    reach: int  # microseconds that an event is kept for after the watermark passed it

    @classmethod
    def of(cls, pattern: Pattern, task: Task) -> Keeping:
        schema = task.schema
        window = window_size(pattern, schema)
        negations = [n for branch in pattern.branches for n in branch.negations]
        trailing = any(n.trailing for n in negations)
        leading = any(not n.after for n in negations)
        if window is None:
            raise UnsupportedError(
                "a stream without an end needs a WITHIN: without one, everything would be kept"
            )
        if pattern.within is not None and pattern.within.in_events:
            raise UnsupportedError(
                "WITHIN n events counts the events of the whole stream, and a stream without an "
                "end is matched partition by partition as it comes: give WITHIN a time"
            )
        if trailing and pattern.output != "all":
            raise UnsupportedError(
                "OUTPUT non_overlap with a NOT at the end waits for matches before it: "
                "on a stream without an end, leave one of them out"
            )
        size = int(Schema(unit="ns").duration(1, schema.unit))
        reach = _micros(window, size) * (2 if trailing and leading else 1)
        all_of_them = replace(task, pattern=replace(pattern, output="all"))
        return cls(all_of_them, window, size, trailing, pattern.output != "all", reach)

    def end(self, first: int | float) -> int:
        """The last microsecond of the window that begins with a match's first event."""
        return _micros(first + self.window, self.nanoseconds) - 1


def _micros(amount: int | float, nanoseconds: int) -> int:
    """A number of the stream's unit in microseconds, rounded up."""
    if isinstance(amount, int):
        return -(-amount * nanoseconds // 1000)
    return math.ceil(amount * nanoseconds / 1000) + 1  # floats may have been rounded down


@dataclass(frozen=True)
class OpenWindow:
    """The events of a partition that still matter, and how far matches are reported."""

    events: pa.Table
    done: int = NEVER

    def written(self) -> tuple[int, int, bytes]:
        """As the values of a row of state: version, watermark, events."""
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, self.events.schema, options=options) as writer:
            writer.write_table(self.events)
        return VERSION, self.done, sink.getvalue().to_pybytes()

    @classmethod
    def read(cls, version: int, done: int, events: bytes) -> OpenWindow:
        if version != VERSION:
            raise CepError(
                f"the checkpoint holds state of version {version}, and this cepviz reads version "
                f"{VERSION}: start with a new checkpoint, or use the cepviz that wrote it"
            )
        with pa.ipc.open_stream(events) as reader:
            return cls(reader.read_all(), done)

    def moved(
        self, keeping: Keeping, watermark: int, new: pa.Table
    ) -> tuple[OpenWindow, pa.Table | None]:
        """The window after new events and up to a watermark, and the matches that became due: a
        table whose last row is the report that workers add."""
        pool = pa.concat_tables([self.events, new]) if new.num_rows else self.events
        if watermark <= self.done:
            return OpenWindow(pool, self.done), None
        micros = integers(pool.column(MICROS))
        passed = pool.filter(pa.array(micros <= watermark))
        fresh = bool((micros[micros <= watermark] > self.done).any())
        found, used = None, None
        if passed.num_rows and (fresh or keeping.trailing):
            piece = _Due(keeping, passed, self.done, watermark)
            found = piece.matched()
            passed, used = piece.events, piece.used
        kept = integers(passed.column(MICROS)) > watermark - keeping.reach
        if used is not None and used.any():
            index = passed.column_names.index(USED)
            passed = passed.set_column(index, passed.schema.field(index), pa.array(used))
        rest = pool.filter(pa.array(micros > watermark))
        after = pa.concat_tables([passed.filter(pa.array(kept)), rest]).combine_chunks()
        return OpenWindow(after, watermark), found

    def next(self, keeping: Keeping) -> int | None:
        """The watermark at which something is to do, though no event comes; None if never."""
        if not self.events.num_rows:
            return None
        micros = integers(self.events.column(MICROS))
        pending = micros[micros > self.done]
        times = [int(pending.min())] if len(pending) else []
        seen = micros[micros <= self.done]
        if len(seen):
            times.append(int(seen.max()) + keeping.reach)  # then the last of them is dropped
        if keeping.trailing and len(seen):
            ends = seen + _micros(keeping.window, keeping.nanoseconds)
            times += [int(ends[ends > self.done].min())] if (ends > self.done).any() else []
        return min(times)


class _Due(Piece):
    """The open window while it is matched: keeps the matches that became due."""

    in_columns = False

    def __init__(self, keeping: Keeping, events: pa.Table, done: int, watermark: int):
        task = keeping.task
        events = ordered(events, [task.end, *task.arrival])
        self.events = events
        self.keeping = keeping
        self.done = done
        self.watermark = watermark
        self.micros = integers(events.column(MICROS))
        self.used = np.array(events.column(USED).to_numpy(zero_copy_only=False))
        rows = events.num_rows
        table = events.drop_columns([MICROS, USED])
        table = table.append_column(task.owned, pa.array(np.ones(rows, dtype=bool)))
        super().__init__(task, table.append_column(task.piece, pa.array(np.zeros(rows, "int32"))))

    def wanted(self, found: Iterator[Match]) -> Iterator[Match]:
        due = (match for match in found if self.done < self.due(match) <= self.watermark)
        return self.apart(due) if self.keeping.apart else due

    def due(self, match: Match) -> int:
        """The watermark from which nothing can change about a match."""
        if not self.keeping.trailing:
            return int(self.micros[max(self.places(match))])
        return self.keeping.end(match.first)

    def apart(self, found: Iterator[Match]) -> Iterator[Match]:
        """Those of them that do not overlap, the first to end first, and none with one before."""
        listed = [(sorted(self.places(match)), match) for match in found]
        for places, match in sorted(listed, key=lambda pair: (pair[0][-1], pair[0])):
            if not self.used[places[0]]:
                self.used[: places[-1] + 1] = True
                yield match
