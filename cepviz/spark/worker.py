"""What runs in Spark's workers: a piece of the stream in, the matches that it owns out.

Nothing here imports pyspark: a piece comes as an Arrow table, and matches leave as one.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cepviz.engines.base import Budget, Failure, Match, events_of
from cepviz.engines.columnar.matches import Matches as Columns
from cepviz.errors import BudgetError, CepWarning
from cepviz.events import Event, Schema, Stream
from cepviz.language.functions import FUNCTIONS, Function
from cepviz.language.pattern import Pattern
from cepviz.matching import Result, match
from cepviz.spark.arrow import integers, ordered, to_stream

#: Engines that find the partition of an event themselves; others get each partition alone.
FIND_PARTITIONS = ("columnar", "sase")

MOST_FAILURES = 20


@dataclass(frozen=True)
class Task:
    """All that a worker needs to match a piece; it goes to every one of them."""

    pattern: Pattern
    roles: Mapping[str, str]
    every: str | None
    unit: str | None
    schema: Schema
    arrival: tuple[str, ...]
    end: str
    keys: tuple[str, ...]
    engine: str
    plan: Any
    budget: Budget
    on_error: str
    position: str
    owned: str
    piece: str
    counts_positions: bool
    variables: tuple[tuple[str, bool], ...]  # name, Kleene
    columns: tuple[str, ...]  # of the output: match columns in order
    functions: tuple[Function, ...] = ()

    def __call__(self, table: pa.Table) -> pa.Table:
        """Matches one piece: a row for each match, and one with the report."""
        self.register()
        return Piece(self, table).matched()

    def register(self) -> None:
        """Makes the functions that the pattern calls known in this process."""
        for function in self.functions:
            FUNCTIONS[function.name] = function


@dataclass
class Tally:
    """What happened in a piece, for the report on the whole."""

    piece: int = 0
    events: int = 0
    owned: int = 0
    seconds: float = 0.0
    total: float = 0.0
    counters: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    stopped: str | None = None
    limit: str = ""

    def add(self, counters: Mapping[str, int], failures: Sequence[Failure], seconds: float) -> None:
        for name, value in counters.items():
            most = max if name.startswith("peak_") else sum
            self.counters[name] = most((self.counters.get(name, 0), value))
        room = MOST_FAILURES - len(self.failures)
        self.failures += [asdict(failure) for failure in failures[:room]]
        self.seconds += seconds

    def merge(self, other: Tally) -> None:
        """Adds up what several pieces report."""
        self.events += other.events
        self.owned += other.owned
        self.total += other.total
        self.add(other.counters, [Failure(**failure) for failure in other.failures], other.seconds)
        self.stopped, self.limit = self.stopped or other.stopped, self.limit or other.limit

    def written(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Tally:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Held:
    """Matches as rows of a piece: for each variable its row or rows, and those of the events that
    start first and end last."""

    bindings: Mapping[str, Any]  # Arrow arrays of rows, or of lists of them
    first: np.ndarray[Any, Any]
    last: np.ndarray[Any, Any]


class Piece:
    """One piece while it is matched: its rows in order, and the rows of each match."""

    #: Whether matches that an engine holds as columns need not be looked at one by one.
    in_columns = True

    def __init__(self, task: Task, table: pa.Table):
        self.task = task
        self.started = time.perf_counter()
        by = [task.position] if task.position in table.column_names else [task.end, *task.arrival]
        self.table = ordered(table, by)
        ours = {task.position, task.owned, task.piece, *task.arrival} - set(task.schema.attributes)
        frame = self.table.drop_columns([n for n in self.table.column_names if n in ours])
        self.stream = to_stream(frame, task.roles, task.every, task.unit, task.schema)
        if task.position in table.column_names:
            numbers = integers(self.table.column(task.position))
            if "id" not in task.roles:
                self.stream.ids = numbers
            if task.counts_positions:
                self.stream.positions = numbers
        self.owned = self.table.column(task.owned).to_numpy()
        self.tally = Tally(
            piece=self.table.column(task.piece)[0].as_py(),
            events=len(self.stream),
            owned=int(self.owned.sum()),
        )

    def matched(self) -> pa.Table:
        results = [self.run(part) for part in self.parts()]
        columns = [r._matches for r in results if isinstance(r._matches, Columns)]
        if self.in_columns and len(columns) == len(results):
            held = [self.taken(part) for found in columns for part in found.found]
        else:
            held = [self.listed(self.wanted(one for result in results for one in result))]
        self.tally.total = time.perf_counter() - self.started
        return self.written(held)

    def parts(self) -> Iterator[Stream]:
        """The piece, or each partition of it where the engine would not tell them apart."""
        if not self.task.keys or self.task.engine in FIND_PARTITIONS:
            yield self.stream
            return
        import pandas as pd

        keys = pd.DataFrame({key: self.stream.column(key) for key in self.task.keys}, copy=False)
        for rows in keys.groupby(list(self.task.keys), sort=False).indices.values():
            yield self.stream._take(np.sort(rows))

    def run(self, stream: Stream) -> Result:
        """The matches in a stream; when a limit is reached, those until then, and a note."""
        task = self.task
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CepWarning)  # said once, by the driver
            try:
                result = match(
                    task.pattern,
                    stream,
                    task.engine,
                    task.plan,
                    task.budget,
                    on_error=task.on_error,
                    progress=False,
                )
            except BudgetError as error:
                result = error.result
                self.tally.stopped, self.tally.limit = str(error), error.limit
        self.tally.add(result.counters, result.failures, result.seconds)
        return result

    def wanted(self, found: Iterator[Match]) -> Iterator[Match]:
        """The matches whose first event is ours."""
        return (match for match in found if self.owned[min(self.places(match))])

    def places(self, found: Match) -> list[int]:
        """The rows of a match's events."""
        return [self.place(event) for event in events_of(found.bindings)]

    def listed(self, found: Iterator[Match]) -> Held:
        """The rows of matches, one after the other."""
        rows: dict[str, list[Any]] = {name: [] for name, _ in self.task.variables}
        firsts: list[int] = []
        lasts: list[int] = []
        for one in found:
            # Of intervals, the one that starts first need not be the first to end.
            firsts.append(self.place(min(events_of(one.bindings), key=lambda e: e.start)))
            lasts.append(max(self.places(one)))
            for name, bound in rows.items():
                held = one.bindings.get(name)
                if held is None or isinstance(held, Event):
                    bound.append(None if held is None else self.place(held))
                else:
                    bound.append([self.place(event) for event in held])
        kinds = {True: pa.list_(pa.int64()), False: pa.int64()}
        bindings = {n: pa.array(rows[n], kinds[kleene]) for n, kleene in self.task.variables}
        return Held(bindings, np.array(firsts, dtype="int64"), np.array(lasts, dtype="int64"))

    def taken(self, found: Any) -> Held:
        """The rows of matches that the columnar engine holds as columns, without making objects."""
        first, last = found.edges()
        mine = self.owned[first]
        if not mine.all():
            found, first, last = found.take(np.flatnonzero(mine)), first[mine], last[mine]
        names = [variable.name for variable in found.branch.variables]
        lists = [names[place] for place in found.kleene]
        bindings = {}
        for name, kleene in self.task.variables:
            if name in lists:
                lengths = found.fixed[:, names.index(name)].astype("int64")
                bindings[name] = _runs(found.tail, found.begins[:, lists.index(name)], lengths)
            elif name in names:
                bindings[name] = pa.array(found.fixed[:, names.index(name)].astype("int64"))
            elif kleene and name in found.branch.empty:
                bindings[name] = pa.array([[]] * len(first), pa.list_(pa.int64()))
            else:
                kind = pa.list_(pa.int64()) if kleene else pa.int64()
                bindings[name] = pa.nulls(len(first), kind)
        return Held(bindings, first, last)

    def place(self, event: Event) -> int:
        """The row of an event in this piece."""
        if not self.task.counts_positions:
            return event.position
        return int(np.searchsorted(self.stream.positions, event.position))

    def written(self, held: Sequence[Held]) -> pa.Table:
        """The matches as a table, and the report as its last row."""
        task, table = self.task, self.table
        ids = table.column(task.roles.get("id", task.position))
        times, starts = table.column(task.end), table.column(task.roles["time"])
        if not held:
            held = [self.listed(iter(()))]
        first = pa.array(np.concatenate([part.first for part in held]).astype("int64"))
        last = pa.array(np.concatenate([part.last for part in held]).astype("int64"))
        arrays: list[Any] = [table.column(key).take(first) for key in task.pattern.same]
        for name, kleene in task.variables:
            index = pa.concat_arrays([part.bindings[name] for part in held])
            if kleene:
                arrays += [_lists(index, column) for column in (ids, times)]
            else:
                arrays += [column.take(index) for column in (ids, times)]
        arrays += [starts.take(first), times.take(last)]
        arrays = [_one(array) for array in arrays]
        arrays = [pa.concat_arrays([array, pa.nulls(1, array.type)]) for array in arrays]
        report = pa.concat_arrays(
            [pa.nulls(len(first), pa.string()), pa.array([self.tally.written()])]
        )
        return pa.Table.from_arrays([*arrays, report], names=list(task.columns))


def _one(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _runs(tail: Any, begins: Any, lengths: Any) -> Any:
    """Lists that lie in one array, each from where it begins, as an array of lists."""
    ends = np.cumsum(lengths)
    index = np.repeat(begins - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
    offsets = np.concatenate([[0], ends]).astype("int32")
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(tail[index].astype("int64")))


def _lists(index: Any, column: Any) -> Any:
    """Lists of rows as lists of what a column holds there."""
    values = _one(column.take(index.flatten()))
    offsets = np.concatenate([[0], np.cumsum(index.value_lengths().fill_null(0).to_numpy())])
    made = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    if not index.null_count:
        return made
    import pyarrow.compute as pc

    return pc.if_else(index.is_valid(), made, pa.nulls(len(index), made.type))
