"""`columnar`: the engine for data rather than lessons. It sees whole columns and shows no steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cepviz.engines.base import MOST_FAILURES, Engine, Match
from cepviz.engines.columnar.batches import as_batch, joined, numbered, of_event
from cepviz.engines.columnar.finder import Finder
from cepviz.engines.columnar.forms import Pace, buffers, compiled, given, numba_is_there, plain
from cepviz.engines.columnar.kernel import Kernel, Only, Task
from cepviz.engines.columnar.loops import Loops
from cepviz.engines.columnar.matches import Counted, Found, Matches
from cepviz.engines.columnar.measure import measured, window_width
from cepviz.engines.columnar.runs import Runs
from cepviz.engines.columnar.table import Array, Table
from cepviz.errors import BudgetError, CepError, PlanError, StreamError, UnsupportedError
from cepviz.events import Event, Stream
from cepviz.language import evaluate
from cepviz.language.columns import FailedRows
from cepviz.language.expressions import Expression
from cepviz.language.pattern import ANY, STRICT, Branch, Pattern
from cepviz.plans.greedy import greedy
from cepviz.plans.plan import Order, follows

#: How much the rows of all matches may take, in bytes, where nothing else is asked for.
MEMORY = 256 * 2**20
#: Python nests no more than 20 loops.
MOST_VARIABLES = 12
#: Kernels are compiled when plain Python would try about so many candidates: a second or so.
WORTH_COMPILING = 3_000_000


class Columnar(Engine):
    """Whole columns at once, by loops generated from the plan; for data, without steps."""

    name = "columnar"
    whole = True
    options = ("memory", "count_only", "compiled")

    def __init__(
        self,
        *arguments: Any,
        memory: int = MEMORY,
        count_only: bool = False,
        compiled: bool | None = None,
        **keywords: Any,
    ):
        super().__init__(*arguments, **keywords)
        if self.plan is not None and not follows(self.plan, Order):
            raise PlanError(
                f"columnar follows an order, as in Order('b', 'a'), not {self.plan!r}: "
                "name another engine, as in engine='zstream'"
            )
        if not isinstance(memory, int) or memory < 1:
            raise CepError(f"memory is a number of bytes from 1, not {memory!r}")
        self.memory = memory
        self.count_only = count_only
        self.compiled = compiled
        limited = keywords.get("budget")
        #: Counting keeps no match, so only a limit that was asked for ends it.
        self.most = self.budget.matches
        if count_only and (limited is None or "matches" not in _named(limited)):
            self.most = 2**62
        self.parts: list[Found] = []
        self.counted = 0
        self.stream: Stream | None = None
        self._events: list[Event] | None = None
        self._forms: set[str] = set()
        self._fresh = 0
        self._ends: dict[Any, int] = {}
        # Between batches: the open window, and the position of the first event in it that may
        # begin a match which still waits for its window to pass.
        self.open: Stream | None = None
        self.next_position = 0
        self.latest_end: int | float | None = None
        self.settled = 0
        self.told: dict[Any, int] = {}

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        most = max(len(branch.variables) for branch in pattern.branches)
        if most > MOST_VARIABLES:
            return f"it takes at most {MOST_VARIABLES} variables, not {most}"
        return None

    @property
    def form(self) -> str:
        """Which form ran: `compiled`, `plain`, or `objects` where a condition needs those."""
        for name in ("objects", "plain", "compiled"):
            if name in self._forms:
                return name
        return "plain"

    # ---- a whole stream ----

    def run(self, stream: Stream) -> None:
        """Finds the matches of a whole stream; `collected` gives them."""
        self.counters.events += len(stream)
        self.search(stream, [(branch, None) for branch in self.pattern.branches])

    def collected(self, matches: list[Match]) -> Sequence[Match]:
        if self.stream is None:
            return matches
        if self.count_only:
            return Counted(self.counted)
        return Matches(self.parts, self.stream, self.pattern, self.schema)

    def search(
        self, stream: Stream, wanted: Sequence[tuple[Branch, Only | None]], before: int = 0
    ) -> None:
        """Puts the matches of branches on a stream into `parts`, after those found `before`."""
        self.before = before
        self.stream, self._events = stream, None
        if not len(stream) or (self.window is not None and self.window <= 0):
            return
        same = () if self.pattern.strategy == STRICT else self.pattern.same
        tests = [c for b, _ in wanted for c in b.conjuncts]
        tests += [c for b, _ in wanted for n in b.negations for c in n.conjuncts]
        table = Table(stream, self.window, self.by_count, same, tests)
        apart = self.pattern.output != "all"
        groups: dict[Any, list[tuple[Branch, Only | None]]] = {}
        for branch, only in wanted:
            key = frozenset(branch.by_name), frozenset(branch.empty)
            groups.setdefault(key, []).append((branch, only))
        for group in groups.values():
            counting = self.count_only and len(group) == 1 and not apart
            found = [self.found_by(branch, table, counting, only) for branch, only in group]
            if counting:
                continue
            self.parts += _once([part for part in found if part is not None])
        if apart:
            self.parts = self.without_overlap(self.parts, stream)
        self.settle()

    def settle(self) -> None:
        """Counts what was found, against the budget."""
        if self.parts:
            self.counted = sum(map(len, self.parts))
        self.counters.matches = self.before + self.counted
        if self.counters.matches >= self.most:
            row = 0
            if self.parts:
                row = max(int(part.edges()[1].max()) for part in self.parts if len(part))
            assert self.stream is not None
            self.stop("matches", self.stream[row])

    # ---- batches ----

    def push_batch(self, columns: Any) -> Sequence[Match]:
        """Reads the next events of a stream, as a `Stream`, a DataFrame or columns by name, and
        gives the matches they completed. What is in the open window is kept for the next batch.

        >>> import cepviz as cep
        >>> from cepviz.engines.columnar import Columnar
        >>> engine = Columnar(cep.parse("PATTERN SEQ(A a, B b) WITHIN 10"))
        >>> len(engine.push_batch({"type": ["A", "B"], "time": [1, 2]}))
        1
        >>> engine.push_batch({"type": ["C", "B"], "time": [3, 4]})[0].ids
        {'a': 0, 'b': 3}
        """
        batch = as_batch(columns, self.schema if self.open is None else self.open.schema)
        if not len(batch):
            return []
        if self.next_position:
            if int(batch.positions[0]) < self.next_position:
                batch = numbered(batch, self.next_position)
            if self.latest_end is not None and batch.ends[0] < self.latest_end:
                raise StreamError(
                    f"a batch begins at {self.schema.format_time(batch.ends[0].item())}, before "
                    f"the last event at {self.schema.format_time(self.latest_end)}: give batches "
                    "in order of time"
                )
        if not self.orders_intervals(self.pattern) and (batch.starts != batch.ends).any():
            raise StreamError("a batch has events that last, and columnar orders them by position")
        self.counters.events += len(batch)
        self.next_position = int(batch.positions[-1]) + 1
        self.latest_end = batch.ends[-1].item()
        return self._advance(batch, end=False)

    def read(self, event: Event) -> None:
        self.counters.events -= 1  # which push_batch counts
        self.out = list(self.push_batch(of_event(event)))

    def finish(self) -> None:
        self.out = list(self._advance(None, end=True))

    def _advance(self, batch: Stream | None, end: bool) -> Sequence[Match]:
        """Finds what a batch completes, or what the end confirms, and keeps the open window."""
        held = 0 if self.open is None else len(self.open)
        if batch is None:
            stream = self.open
        else:
            stream = batch if self.open is None else joined(self.open, batch)
        if stream is None:
            return []
        # What began before this row is out of the window: nothing to come can break it.
        over = len(stream) if end else self._still_open(stream, len(stream) - 1)
        begun = int(np.searchsorted(stream.positions, self.settled))
        wanted = []
        trailing = False
        for branch in self.pattern.branches:
            ahead = any(negation.trailing for negation in branch.negations)
            trailing = trailing or ahead
            if ahead:
                wanted.append((branch, Only("first", begun, over)))
            elif not end:
                wanted.append((branch, Only("last", held, len(stream))))
        if trailing and self.pattern.output != "all":
            raise UnsupportedError(
                "columnar gives a NOT at the end without overlap on whole streams only: use match, "
                "or engine='naive' event by event"
            )
        before = self.counters.matches
        self.parts, self.counted, self._fresh = [], 0, held
        self.search(stream, wanted, before)
        found = Matches(self.parts, stream, self.pattern, self.schema)
        keep = self._still_open(stream, over) if trailing and over < len(stream) else over
        if over < len(stream):
            self.settled = int(stream.positions[over])
        self.open = None if end else stream[keep:]
        if self.open is not None:
            self.counters.peak_buffered = max(self.counters.peak_buffered, len(self.open))
            if len(self.open) > self.budget.buffered:
                self.stop("buffered", stream[len(stream) - 1])
        return self._told_once(found) if self._mixed else found

    def _still_open(self, stream: Stream, row: int) -> int:
        """The first row that shares a window with this one."""
        if self.window is None:
            return 0
        return int(Table(stream, self.window, self.by_count).back(np.array([row]))[0])

    @cached_property
    def _mixed(self) -> bool:
        """Whether two branches may find one match in different batches: one has to wait for its
        window to pass, the other has not."""
        waits: dict[Any, set[bool]] = {}
        for branch in self.pattern.branches:
            trailing = any(negation.trailing for negation in branch.negations)
            waits.setdefault(frozenset(branch.by_name), set()).add(trailing)
        return any(len(kinds) > 1 for kinds in waits.values())

    def _told_once(self, found: Matches) -> Sequence[Match]:
        """The matches that no other branch gave in a batch before."""
        oldest = 0 if self.open is None or not len(self.open) else int(self.open.positions[0])
        self.told = {key: first for key, first in self.told.items() if first >= oldest}
        fresh = [match for match in found if match.key not in self.told]
        self.told |= {match.key: match.events[0].position for match in fresh}
        self.counters.matches -= len(found) - len(fresh)
        return fresh

    # ---- one branch ----

    def found_by(
        self, branch: Branch, table: Table, counting: bool, only: Only | None
    ) -> Found | None:
        kernel = self.kernel(branch, table, counting, only)
        if kernel is None:
            return None
        return self.drained(kernel, kernel.written()) if kernel.outer else None

    def kernel(
        self, branch: Branch, table: Table, counting: bool, only: Only | None
    ) -> Finder | None:
        """The kernel for a branch; None where a variable has no candidate."""
        taken = branch.equivalences if table.parts is not None else ()
        task = Task(
            branch,
            tuple(c for c in branch.conjuncts if c not in taken),
            tuple(
                dataclasses.replace(
                    negation, conjuncts=tuple(c for c in negation.conjuncts if c not in taken)
                )
                for negation in branch.negations
            ),
            table,
            counting,
            only,
            self.events,
            self.failed,
            self.failed_rows,
        )
        chosen: dict[str, Array] = {}
        base = Kernel(task)
        for variable in branch.variables:
            own = [c for c in branch.own(variable.name) if c not in taken]
            chosen[variable.name] = base.chosen(variable.name, variable.type, own)
            self.counters.filters += len(table.of_type(variable.type))
            if not len(chosen[variable.name]):
                return None
        for negation in task.negations:
            name = negation.variable.name
            own = [c for c in negation.conjuncts if c.variables == {name}]
            chosen[name] = base.chosen(name, negation.variable.type, own)
        if self.pattern.strategy != ANY:
            return Runs(task, self.pattern.strategy, chosen)
        return Loops(task, self.order(task, chosen), chosen)

    def order(self, task: Task, chosen: Mapping[str, Array]) -> tuple[str, ...]:
        """The order of the loops: the plan's, or the greedy planner's on statistics of the data."""
        branch = task.branch
        if self.plan is not None:
            return tuple(self.plan.of(branch, self.pattern))
        if len(branch.variables) < 2:
            return tuple(branch.by_name)
        mine = {name: chosen[name] for name in branch.by_name}
        width = window_width(task.table)
        statistics = measured(branch, task.table, mine, task.conjuncts, width)
        return tuple(greedy(self.pattern, statistics).plan.of(branch, self.pattern))

    def compiles(self, kernel: Finder) -> bool:
        """Whether a kernel is compiled: where numba can, and the data is large enough to pay."""
        if kernel.objects or self.compiled is not None:
            return bool(self.compiled) and not kernel.objects
        return numba_is_there() and kernel.effort() > WORTH_COMPILING

    def drained(self, kernel: Finder, source: str) -> Found | None:
        """Runs a kernel to its end, some outer candidates at a time, and so that what it finds
        fits its buffers."""
        fast = self.compiles(kernel)
        self._forms.add("objects" if kernel.objects else "compiled" if fast else "plain")
        function = compiled(source) if fast else plain(source)
        arguments = given(kernel.arguments.values(), kernel.scratch.values(), fast)
        width, counting = len(kernel.branch.variables), kernel.task.counting
        most, room = self._chunk(width, bool(kernel.kleene), fast)
        pieces: list[Array] = []
        tails: list[Array] = []
        before = self.before + (sum(map(len, self.parts)) if self.parts else self.counted)
        kept = low = 0
        pace = Pace(kernel.outer)
        held = sum(part.bytes for part in self.parts)
        while low < kernel.outer:
            left = self.most - before - kept
            space = left if counting else min(most, left)
            out, tail = buffers(0 if counting else space * width, room, fast)
            high = pace.next(low)
            limits = (space, room, self.budget.runs)
            told = function(low, high, out, tail, *limits, *arguments)
            low, count, elements, all_count, all_elements, tried = told
            stuck = tried < 0  # one outer candidate has more lists than the budget has runs
            self.counters.evaluations += abs(tried)
            over = low < high and all_count == left
            # One outer candidate alone may have more matches than fit: then in larger buffers.
            burst = low < high and count == 0 and 16 * max(most * width, room) > self.memory
            if over or burst or stuck:
                count, elements = all_count, all_elements
            kept += count
            if not counting:
                pieces.append(np.array(out[: count * width], dtype="int32").reshape(-1, width))
                tails.append(np.array(tail[:elements], dtype="int32"))
                held += pieces[-1].nbytes + tails[-1].nbytes
            if over or burst or stuck or held > self.memory:
                break
            if low < high and count == 0:
                most, room = most * 4, room * 4
        if counting:
            self.counted += kept
            found = None
        else:
            found = Found(kernel.branch, np.concatenate(pieces), np.concatenate(tails))
        if low < kernel.outer and not over:
            self.parts += [] if found is None else [found]
            self.stop_within(kernel, stuck)
        return found

    def stop_within(self, kernel: Finder, stuck: bool) -> None:
        """Ends a run whose lists or matches are too many to go on."""
        if self.parts:
            self.counted = sum(map(len, self.parts))
        self.counters.matches = self.before + self.counted
        if stuck:
            assert self.stream is not None
            self.stop("runs", self.stream[len(self.stream) - 1])
        raise BudgetError(
            f"stopped after {self.counted:,} matches: their rows take more than memory="
            f"{self.memory} bytes. count_only=True counts them without keeping any, a shorter "
            f"WITHIN or a predicate between the variables would find fewer; "
            f"memory={self.memory * 4} allows more.",
            limit="memory",
        )

    def _chunk(self, width: int, lists: bool, fast: bool) -> tuple[int, int]:
        """How many matches, and how many elements of lists, one call may write."""
        bytes_ = min(self.memory // 4, 2**24 if fast else 2**19)
        return max(bytes_ // (4 * width), 1), max(bytes_ // 4, 1) if lists else 0

    # ---- what fails ----

    def events(self) -> list[Event]:
        """The events of the stream as objects, for conditions that need those."""
        if self._events is None:
            assert self.stream is not None
            self._events = list(self.stream)
        return self._events

    def failed_rows(self, conjunct: Expression, name: str, rows: Array) -> FailedRows:
        """Takes note of rows in which a condition on one event cannot be computed."""

        def note(node: Expression, failing: Array, error: Exception) -> None:
            assert self.stream is not None
            fresh = rows[failing]
            fresh = fresh[fresh >= self._fresh]
            room = MOST_FAILURES - len(self.failures)
            kleene = self.pattern.variables[name].kleene
            for row in fresh[: max(room, 1)].tolist():
                event = self.stream[row]
                bound = (event,) if kleene else event
                evaluate.truth(node, {name: bound}, {name: 0}, self.failed)
            self.counters.failed_predicates += max(len(fresh) - max(room, 1), 0)

        return note

    # ---- one match at a time ----

    def without_overlap(self, parts: list[Found], stream: Stream) -> list[Found]:
        """Those that start after the one before of their partition has ended, by completion."""
        same = () if self.pattern.strategy == STRICT else self.pattern.same
        candidates = []
        for place, part in enumerate(parts):
            for number in range(len(part)):
                bound = part.rows(number)
                rows = sorted(
                    r for rs in bound.values() for r in ([rs] if isinstance(rs, int) else rs)
                )
                candidates.append((rows[-1], rows, place, number))
        candidates.sort()
        kept: list[list[int]] = [[] for _ in parts]
        for last, rows, place, number in candidates:
            key = self._key(same, rows[0], stream)
            first_position, last_position = (int(stream.positions[r]) for r in (rows[0], last))
            if first_position > self._ends.get(key, -1):
                self._ends[key] = last_position
                kept[place].append(number)
        return [part.take(np.array(n, dtype="int64")) for part, n in zip(parts, kept, strict=True)]

    def _key(self, same: tuple[str, ...], row: int, stream: Stream) -> Any:
        if not same:
            return ()
        event = stream[row]
        values = tuple(event.get(name) for name in same)
        try:
            hash(values)
        except TypeError:
            return repr(values)
        return values


def _named(budget: Any) -> Mapping[str, Any]:
    return budget if isinstance(budget, Mapping) else dataclasses.asdict(budget)


def _once(parts: list[Found]) -> list[Found]:
    """The matches of branches with the same variables: bindings that two find are one match."""
    if len(parts) < 2:
        return parts
    seen: set[Any] = set()
    kept = []
    for part in parts:
        fresh = []
        for number in range(len(part)):
            key = tuple(sorted((n, _hashable(rows)) for n, rows in part.rows(number).items()))
            if key not in seen:
                seen.add(key)
                fresh.append(number)
        kept.append(part.take(np.array(fresh, dtype="int64")))
    return kept


def _hashable(rows: int | list[int]) -> tuple[int, ...]:
    return (rows,) if isinstance(rows, int) else tuple(rows)
