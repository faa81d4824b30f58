"""The runs of an NFA^b and what moves them: the basic and the merging algorithm of SASE+."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cepviz.engines.base import before, labels_of
from cepviz.engines.buffer import Cell, SharedBuffer, Version, shown
from cepviz.engines.nfab import Nfa, NfaState, Values
from cepviz.engines.output import Held, Key
from cepviz.events import Event
from cepviz.language.evaluate import explain
from cepviz.language.pattern import ANY, NEXT, Branch
from cepviz.steps import Drop, Link, Merge, Move, Prune, Put, Spawn, Test, plain

if TYPE_CHECKING:
    from cepviz.engines.sase import Sase

#: Runs that were merged into another: the cell where they met, and their own history.
Joined = tuple[tuple[Cell, Version, Cell, Event, Any], ...]


class Run:
    """The computation state of a run (5.2.1): version, state, pointer, start time, values."""

    __slots__ = ("automaton", "born", "cell", "joined", "own", "splits", "start", "state",
                 "values", "version")  # fmt: skip

    def __init__(
        self, automaton: Automaton, version: Version, state: NfaState, start: Event, values: Values
    ):
        self.automaton = automaton
        self.version = version
        self.state = state
        self.cell: Cell | None = None
        self.start = self.own = start
        self.values = values
        self.splits = 0
        self.joined: Joined = ()
        self.born = version

    @property
    def name(self) -> str:
        """What it is called in a trace: the version it was born with."""
        return self.automaton.prefix + shown(self.born)

    def child(self, version: Version) -> Run:
        """A copy that goes its own way from here."""
        copy = Run(self.automaton, version, self.state, self.start, self.values)
        copy.cell, copy.own, copy.joined = self.cell, self.own, self.joined
        return copy

    def bindings(self, candidate: str | None = None, event: Event | None = None) -> Held:
        """What the run holds, read out of the buffer, with a candidate event added."""
        held: dict[str, Any] = {}
        if self.cell is not None:
            paths = self.automaton.paths(self.cell, self.version, self.own, self.joined, None)
            held = self.automaton.held(next(paths))
        if candidate is not None and event is not None:
            kleene = self.automaton.nfa.branch.by_name[candidate].kleene
            held[candidate] = (*held.get(candidate, ()), event) if kleene else event
        return held


class Automaton:
    """The NFA^b of one sequence with its runs and its buffer."""

    def __init__(self, engine: Sase, branch: Branch, origin: Branch, prefix: str):
        self.engine = engine
        self.prefix = prefix  # tells apart the runs and states of several automata
        self.branch = branch
        self.origin = origin
        self.nfa = Nfa(branch, engine.pattern, engine.hashed, engine.failed)
        self.buffer = SharedBuffer(len(self.nfa.states))
        self.runs: dict[Key, list[Run]] = {}
        self.starts: deque[tuple[Event, Key]] = deque()
        self.begun = 0
        self.blank = Run(self, (0,), self.nfa.states[0], None, self.nfa.empty)  # type: ignore[arg-type]
        self.first_type = self.nfa.states[0].type
        self.any = engine.pattern.strategy == ANY
        self.next = engine.pattern.strategy == NEXT

    # ---- one event ----

    def read(self, event: Event, key: Key) -> None:
        """Moves every run of a partition, and begins a new one if the event can."""
        live = self.runs.get(key)
        if live is not None:
            kept: list[Run] = []
            self.engine.live -= len(live)
            for run in live:
                self.advance(run, event, kept)
            if self.engine.algorithm == "merging" and len(kept) > 1:
                kept = self.merge(kept, event)
            if kept:
                self.runs[key] = kept
                self.engine.alive(len(kept), event)
            else:
                del self.runs[key]
        if self.first_type == event.type:
            started = self.start(event, key)
            if started is not None:
                self.runs.setdefault(key, []).append(started)
                self.engine.alive(1, event)

    def start(self, event: Event, key: Key) -> Run | None:
        """A new run, if the event can begin one; None if not or if it is complete already."""
        first = self.nfa.states[0]
        engine = self.engine
        engine.counters.evaluations += 1
        able = first.begin is None or first.begin(event, self.blank)
        if not able:
            return None
        self.begun += 1
        run = Run(self, (self.begun,), first, event, self.nfa.empty)
        engine.counters.runs += 1
        if engine.emit is not None:
            self.tell_test(run, first, "begin", event, True)
        going_on = self.begin(run, first, event, (self.begun,))
        if going_on and engine.window is not None:
            self.starts.append((event, key))
        return run if going_on else None

    def advance(self, run: Run, event: Event, kept: list[Run]) -> None:
        """Tries the edges of a run's state and makes the moves whose formulas hold."""
        state = run.state
        engine = self.engine
        ordered = not engine.intervals or before(run.cell.event, event)  # type: ignore[union-attr]
        take = go = False
        target = state.follows if state.loop else state
        type = event.type
        if state.loop and state.type == type and ordered:
            engine.counters.evaluations += 1
            take = state.take is None or state.take(event, run)
            if engine.emit is not None:
                self.tell_test(run, state, "take", event, take)
        if target is not None and target.type == type and ordered:
            engine.counters.evaluations += 1
            go = (state.proceed is None or state.proceed(event, run)) and (
                target.begin is None or target.begin(event, run)
            )
            if engine.emit is not None:
                self.tell_test(run, target, "begin", event, go, state if state.loop else None)
        ignore = self.any or (self.next and not (take if state.loop else go))
        if not (take or go):
            if ignore:
                kept.append(run)
                if engine.emit is not None and (
                    type == state.type or (target and target.type == type)
                ):
                    self.tell_move(run, event, "ignore", state, state)
            else:
                self.drop(run, "contiguity", event)
            return
        engine.counters.runs += take + go + ignore - 1
        if self.any:
            for wanted, to, moved in ((go, target, self.begin), (take, state, self.take)):
                if wanted and to is not None:
                    run.splits += 1
                    child = run.child((*run.version, run.splits))
                    if engine.emit is not None:
                        self.tell_spawn(run, child, event, take, go, ignore)
                    if moved(child, to, event, child.version):
                        kept.append(child)
            kept.append(run)
            return
        if go and not (take or ignore):
            if self.begin(run, target, event, (*run.version, 0)):  # type: ignore[arg-type]
                kept.append(run)
            return
        if go:
            child = run.child((*run.version, run.splits))
            run.splits += 1
            if engine.emit is not None:
                self.tell_spawn(run, child, event, take, go, ignore)
            if self.begin(child, target, event, child.version):  # type: ignore[arg-type]
                kept.append(child)
        if take:
            if run.splits:  # what is selected after a split is not the child's
                run.version = (*run.version[:-1], run.version[-1] + 1)
                run.splits = 0
            self.take(run, state, event, run.version)
        kept.append(run)

    def finish(self) -> None:
        """The stream has ended; what has not matched by now does not."""

    def earliest(self) -> Event | None:
        """The first event of a run whose matches come late: none here, they come at once."""
        return None

    # ---- moves ----

    def begin(self, run: Run, state: NfaState, event: Event, version: Version) -> bool:
        """Selects the event as the first of a component; says whether the run goes on."""
        source = run.state
        run.version = version
        self.select(run, state, event)
        if state.next is None:
            if self.engine.emit is not None:
                self.tell_move(run, event, "begin", source, None)
            self.accept(run, event)
            return False
        run.state = state.next
        if state.next.loop and not self.any:
            run.version = (*run.version, 0)
        if self.engine.emit is not None:
            self.tell_move(run, event, "begin", source, state.next)
        if state.next.loop and state.next.follows is None:
            self.complete(run, event)
        return True

    def take(self, run: Run, state: NfaState, event: Event, version: Version) -> bool:
        """Selects the event as a further element of a Kleene component."""
        run.version = version
        self.select(run, state, event)
        if self.engine.emit is not None:
            self.tell_move(run, event, "take", state, state)
        if state.follows is None:
            self.complete(run, event)
        return True

    def select(self, run: Run, state: NfaState, event: Event) -> None:
        engine = self.engine
        mark = event.position if engine.by_count else event.end
        cell, made = self.buffer.put(state.index, event, mark)
        cell.link(run.version, run.cell)
        if made:
            engine.hold(1, event)
        if engine.emit is not None:
            if made:
                engine.emit(Put(self.prefix + state.name, event.label))
            previous = run.cell
            engine.emit(
                Link(
                    self.prefix + state.name,
                    event.label,
                    "" if previous is None else self.stack_name(previous),
                    "" if previous is None else previous.event.label,
                    shown(run.version),
                )
            )
        run.cell = cell
        run.values = state.update(event, run.values)

    def complete(self, run: Run, event: Event) -> None:
        """A Kleene component at the end: the epsilon edge to F does not wait."""
        state = run.state
        if state.proceed is None or state.proceed(event, run):
            self.accept(run, event)

    def accept(self, run: Run, event: Event) -> None:
        assert run.cell is not None
        engine = self.engine
        if engine.compressed is not None:
            engine.compressed.add(self, run.cell, run.version, run.own, run.joined, event)
            return
        for path in self.paths(run.cell, run.version, run.own, run.joined, event):
            if engine.judging:
                engine.output.candidate(self.origin, self.held(path), event, run.name)
            else:
                engine.found(self.held(path), event, run.name)

    def drop(self, run: Run, reason: str, event: Event, detail: str = "") -> None:
        if self.engine.emit is not None:
            self.engine.emit(Drop(run.name, reason, event.label, detail))

    # ---- reading matches out of the buffer ----

    def paths(
        self, cell: Cell, version: Version, own: Event, joined: Joined, event: Event | None
    ) -> Iterator[list[Cell]]:
        """The cells of every match of a run and of those merged into it, last event first."""
        fits = self.engine.fits
        if event is None or fits(own, event):
            try:
                yield self.buffer.path(cell, version)
            except LookupError:
                if event is not None:
                    raise
        for met, inner_version, inner_cell, inner_own, inner_joined in joined:
            since = None
            for rest in self.paths(inner_cell, inner_version, inner_own, inner_joined, event):
                if since is None:
                    since = self.buffer.path(cell, version, until=met)
                yield since + rest

    def count(self, own: Event, joined: Joined, event: Event) -> int:
        """How many matches `paths` would give."""
        fits = self.engine.fits
        return fits(own, event) + sum(
            self.count(inner_own, inner_joined, event)
            for _, _, _, inner_own, inner_joined in joined
        )

    def held(self, path: list[Cell]) -> dict[str, Any]:
        """Cells, last first, as bindings."""
        held: dict[str, Any] = {}
        stack, bound = -1, []
        for cell in path:
            if cell.stack != stack:
                stack = cell.stack
                variable = self.nfa.states[stack].variable
                # The stacks of p[1] and p[i] hold one list between them.
                bound = held.setdefault(variable.name, [])
            bound.append(cell.event)
        kleene = self.nfa.kleene
        return {
            name: tuple(reversed(events)) if name in kleene else events[0]
            for name, events in held.items()
        }

    # ---- merging (5.2.2) ----

    def merge(self, runs: list[Run], event: Event) -> list[Run]:
        """Joins runs whose state and relevant values agree."""
        kept: dict[Any, Run] = {}
        for run in runs:
            values = run.values
            key: Any = (run.state.index, *(values[column] for column in run.state.mask))
            if self.engine.intervals:
                key = (*key, run.cell.event.end)  # type: ignore[union-attr]
            try:
                into = kept.setdefault(key, run)
            except TypeError:  # a value that cannot be hashed is equal to none
                kept[id(run)] = run
                continue
            if into is not run:
                self.join(run, into, event)
        return list(kept.values())

    def join(self, run: Run, into: Run, event: Event) -> None:
        assert run.cell is not None and into.cell is not None
        fits = self.engine.fits
        known = tuple(j for j in into.joined if self.count(j[3], j[4], event))
        into.joined = (*known, (into.cell, run.version, run.cell, run.own, run.joined))
        if not fits(into.start, event) or run.start.position > into.start.position:
            into.start = run.start
        self.engine.counters.merged += 1
        if self.engine.emit is not None:
            self.engine.emit(Merge(run.name, into.name, self.prefix + run.state.name))

    # ---- the window ----

    def expire(self, event: Event, edge: int | float) -> None:
        """Drops runs whose first event left the window, and prunes the buffer (5.3)."""
        engine = self.engine
        if engine.intervals:  # the first to end need not be the first to have started
            late = [key for first, key in self.starts if not engine.fits(first, event)]
            self.starts = deque(pair for pair in self.starts if engine.fits(pair[0], event))
            for key in dict.fromkeys(late):
                self.expire_key(key, event)
        else:
            while self.starts and not engine.fits(self.starts[0][0], event):
                self.expire_key(self.starts.popleft()[1], event)
        before_it = self.buffer.size
        pruned = self.buffer.prune(edge, engine.compressed is None)
        engine.hold(self.buffer.size - before_it, event)
        if engine.emit is not None:
            for stack, gone in pruned:
                labels = tuple(cell.event.label for cell in gone)
                name = self.prefix + self.nfa.states[stack].name
                engine.emit(Prune(name, labels, f"the window has passed at {event.label}"))

    def expire_key(self, key: Key, event: Event) -> None:
        live = self.runs.get(key)
        if live is None:
            return
        fits = self.engine.fits
        kept = []
        for run in live:
            if fits(run.start, event):
                kept.append(run)
            elif self.engine.emit is not None:
                window = self.engine.pattern.within
                detail = f"its first event {run.start.label} left the window of {window}"
                self.drop(run, "window", event, detail)
        self.engine.live -= len(live) - len(kept)
        if kept:
            self.runs[key] = kept
        else:
            del self.runs[key]

    def drop_overlapping(self, key: Key, event: Event, position: int) -> None:
        """Non-overlap: no run that began before the end of a match can matter any more."""
        for known in [key] if self.engine.hashed else list(self.runs):
            live = self.runs.get(known, [])
            kept = [run for run in live if run.start.position > position]
            self.engine.live -= len(live) - len(kept)
            for run in live:
                if run.start.position <= position:
                    self.drop(run, "non-overlap", event, "a match of its partition was reported")
            self.runs[known] = kept
            if not kept:
                self.runs.pop(known)

    # ---- for those who watch ----

    def stack_name(self, cell: Cell) -> str:
        return self.prefix + self.nfa.states[cell.stack].name

    def tell_test(
        self,
        run: Run,
        state: NfaState,
        action: str,
        event: Event,
        passed: bool,
        proceeding: NfaState | None = None,
    ) -> None:
        assert self.engine.emit is not None
        name = state.variable.name
        held = run.bindings(name, event)
        tests = [explain(c, held, newest=name) for c in self.branch.placed(name, action)]
        edge = f"{self.prefix}{action} {state.name}"
        if proceeding is not None:
            inner = proceeding.variable.name
            before_it = run.bindings()
            tests = [*(explain(c, before_it) for c in self.branch.placed(inner, "proceed")), *tests]
            edge, action = f"{self.prefix}proceed {proceeding.name}", "proceed"
        where = self.prefix + run.state.name
        self.engine.emit(Test(run.name, event.label, where, edge, action, tuple(tests), passed))

    def tell_spawn(
        self, run: Run, child: Run, event: Event, take: bool, go: bool, ignore: bool
    ) -> None:
        assert self.engine.emit is not None
        ways = {"take": take, "ignore": ignore and not (take and go)}
        ways |= {"proceed" if run.state.loop else "begin": go}
        named = [way for way in ("take", "begin", "ignore", "proceed") if ways.get(way)]
        self.engine.emit(
            Spawn(
                run.name,
                child.name,
                event.label,
                self.prefix + run.state.name,
                "-".join(named[:2]),
            )
        )

    def tell_move(
        self, run: Run, event: Event, action: str, source: NfaState, target: NfaState | None
    ) -> None:
        assert self.engine.emit is not None
        there = "F" if target is None else target.name
        held = labels_of(run.bindings())
        named = zip(map(str, self.nfa.columns), run.values, strict=True)
        values = tuple((n, plain(v)) for n, v in named if not n.startswith("each"))

        def tell(action: str, source: str, target: str) -> None:
            edge = f"{self.prefix}{action} {source}"
            source, target = self.prefix + source, self.prefix + target
            self.engine.emit(  # type: ignore[misc]
                Move(run.name, event.label, action, edge, source, target, held, values)
            )

        if action == "begin" and source.loop:  # it proceeds and begins at once
            assert source.follows is not None
            tell("proceed", source.name, source.follows.name)
            source = source.follows
        tell(action, source.name, there)
