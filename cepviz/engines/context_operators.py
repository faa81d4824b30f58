"""The operators of CONTEXTS: sequence and Kleene closure over interval events, event by event.

A stream is in order of (end, arrival), so the successor of an event is the first event to arrive
that starts after it ends (Definition 3). What waits for a successor is an `Instance`: an initiator
and, in a closure, the chain of detectors it has so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cepviz.engines.base import partition_key
from cepviz.engines.context_pieces import (
    Cell,
    Composite,
    Instance,
    Number,
    Parts,
    ends_of,
    is_point,
    positions_of,
)
from cepviz.errors import PatternError
from cepviz.events import Event
from cepviz.language.compile import predicate
from cepviz.language.contexts import (
    Closure,
    Input,
    Limit,
    Operator,
    Restricted,
    Role,
    Sliding,
    Source,
    names_of,
    stream_of,
)
from cepviz.language.evaluate import value
from cepviz.language.expressions import Compare, Expression
from cepviz.language.normal_form import conjuncts

if TYPE_CHECKING:
    from cepviz.engines.contexts import Contexts

# ---- where pieces come from ----


class Leaf:
    """The events of a stream, restricted or not."""

    operators: tuple[Bop, ...] = ()

    def __init__(self, engine: Contexts, source: Source):
        self.stream = stream_of(source)
        tests: list[Expression] = []
        while isinstance(source, Restricted):
            tests += conjuncts(source.restrict)
            source = source.source
        self.tests = tests
        self.test = engine.predicate(tests, {"$cur": "e", **edges("$cur", "e", False)})

    def feed(self, event: Event) -> Sequence[Event]:
        if event.type != self.stream or (self.test is not None and not self.test(event, None)):
            return ()
        return (event,)


class Filtered:
    """The outputs of an operator that satisfy a condition."""

    def __init__(self, engine: Contexts, source: Restricted, inner: Node):
        self.inner = inner
        self.operators: tuple[Bop, ...] = inner.operators
        places = {"$cur": "e", **edges("$cur", "e", True)}
        self.test = engine.predicate(conjuncts(source.restrict), places)
        self.engine = engine

    def feed(self, event: Event) -> Sequence[Event]:
        assert self.test is not None
        pieces = self.inner.feed(event)
        found = [piece for piece in pieces if self.test(piece, None)]
        if self.engine.teller is not None:
            lost = [piece for piece in pieces if piece not in found]
            self.engine.teller.lost(lost, "predicate", "RESTRICT does not hold")
        return found


def edges(role: str, place: str, composite: bool) -> dict[str, str]:
    """Where Start() and End() of a part are found."""
    ends = {"Start": ".first", "End": ".last"}
    return {f"{edge}({role})": place + (way if composite else "") for edge, way in ends.items()}


def node(engine: Contexts, source: Source, numbered: list[Operator]) -> Node:
    """A source as what gives its pieces, event by event."""
    if isinstance(source, Input) or stream_of(source) is not None:
        return Leaf(engine, source)
    if isinstance(source, Restricted):
        return Filtered(engine, source, node(engine, source.source, numbered))
    if isinstance(source, Closure):
        return Chain(engine, source, numbered)
    return Pair(engine, source, numbered)


# ---- operators ----


class Bop:
    """A binary operator: initiators wait for detectors; the context chooses among them."""

    #: The states of the automaton in which its initiators wait, its chains grow, its outputs are.
    waits: str
    grows: str
    next: str

    def __init__(self, engine: Contexts, source: Operator, numbered: list[Operator]):
        self.engine = engine
        self.source = source
        self.names = names_of(source, numbered)
        self.number = numbered.index(source) + 1
        self.initiator = node(engine, source.initiator, numbered)
        self.detector = node(engine, source.detector, numbered)
        self.terminator = self._terminators(numbered)
        inner = (self.initiator, self.detector, self.terminator)
        self.operators: tuple[Bop, ...] = (
            *(operator for part in inner if part is not None for operator in part.operators),
            self,
        )
        self.window: Sliding | None = source.window
        self.strategy = source.window.strategy if source.window else ""
        self.composite = not isinstance(self.initiator, Leaf)
        self.begins = (
            tuple(conjuncts(source.initiator_restrict)) if source.initiator_restrict else ()
        )
        self.detects = (
            tuple(conjuncts(source.detector_restrict)) if source.detector_restrict else ()
        )
        self.begin = engine.predicate(
            self.begins, {"$pre": "e", **edges("$pre", "e", self.composite)}
        )
        self.detect = engine.predicate(self.detects, self.places())
        self.attribute = self._partition()
        self.key: Callable[[Event], Any] | None = None
        if self.attribute is not None:
            self.key = partition_key([self.attribute], engine.schema)
        self.cells: dict[Any, Cell] = {}
        self.context = engine.pattern.context
        if self.window is not None:
            self.reach = self._constant(self.window.range, isinstance(source, Closure))
            self.step = self._constant(self.window.slide)

    def _terminators(self, numbered: list[Operator]) -> Node | None:
        return None

    def places(self) -> dict[str, str]:
        """Where conditions find the parts: in `e`, the suffix, and `m`, the instance."""
        last = {"$cur": "m.cur", "Start($cur)": "m.cur_first", "End($cur)": "m.cur_last"}
        return {
            "$pre": "m.pre",
            "$suf": "e",
            **edges("$pre", "m.pre", self.composite),
            **edges("$suf", "e", not isinstance(self.detector, Leaf)),
            **last,
        }

    def _partition(self) -> str | None:
        """The attribute by which every part of an output is the same, if there is one."""
        inner = [p for p in (self.initiator, self.detector, self.terminator) if p is not None]
        for name in self._equal(self.detects):
            below = [part.operators[-1].attribute for part in inner if part.operators]
            if all(other == name for other in below) and self._ends_equal(name):
                return name
        return None

    def _ends_equal(self, name: str) -> bool:
        return True

    def _equal(self, tests: Iterable[Expression]) -> list[str]:
        """The attributes that a condition wants equal in the suffix and in what comes before it."""
        found = []
        for test in tests:
            if not isinstance(test, Compare) or test.operator != "=":
                continue
            sides = [side for side in (test.left, test.right) if isinstance(side, Role)]
            roles = {side.variable for side in sides}
            same = len(sides) == 2 and sides[0].name == sides[1].name
            if same and "$suf" in roles and len(roles) == 2:
                found.append(sides[0].name)
        return found

    def _constant(self, limit: Limit, may_vary: bool = False) -> Number | None:
        """The amount of a limit; None where it depends on the parts, if it may."""
        for inner in limit.amount.walk():
            if isinstance(inner, Role) and not may_vary:
                raise PatternError(
                    f"{limit} speaks of {inner}: only the range of a KLNCLOSE window may",
                    place=inner.place,
                )
            if isinstance(inner, Role):
                return None
        return value(limit.amount, {})  # type: ignore[no-any-return]

    # ---- one event ----

    def feed(self, event: Event) -> Sequence[Composite]:
        detectors = self.detector.feed(event)
        initiators = self.initiator.feed(event)
        ends = detectors if self.terminator is None else self.terminator.feed(event)
        if not (detectors or initiators or ends):
            return ()
        key = None
        if self.key is not None:
            key = self.key(event)
            if key is None:  # equal to nothing, so it finds no partner
                return ()
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = Cell(key)
        cell.count += 1
        self.advance(cell, event)
        teller = self.engine.teller
        if cell.since is not None and event.end < cell.since:
            if teller is not None:
                teller.lost((*initiators, *detectors, *ends), "slide", "older than a rigid slide")
            return ()
        out: list[Composite] = []
        if ends and (cell.running or cell.waiting):
            self.end(cell, ends, out)
        for piece in detectors:
            self.take(cell, piece, out)
        gone: frozenset[int] = frozenset()
        if out and self.window is not None:
            gone = self.slide(cell, out)
        for piece in initiators:
            fits = self.begin is None or self.begin(piece, None)
            if teller is not None:
                fits = teller.tried_begin(self, piece, fits)
            if not fits:
                continue
            if gone and gone & positions_of(piece):
                if teller is not None:
                    teller.lost((piece,), "slide", "wipe-out: an output used an event of it")
            elif self.inside(cell, piece):
                self.wait(cell, piece)
            elif teller is not None:
                teller.lost((piece,), "window", f"it is outside of {self.window}")
        if teller is not None:
            teller.lost((*detectors, *ends), "successor", "it is nobody's successor")
        return out

    def advance(self, cell: Cell, event: Event) -> None:
        """Moves the front of a window over initiators."""

    def inside(self, cell: Cell, piece: Event) -> bool:
        """Whether an initiator is in the window when it arrives."""
        return True

    def end(self, cell: Cell, ends: Sequence[Event], out: list[Composite]) -> None:
        """Lets terminators end chains."""

    def take(self, cell: Cell, piece: Event, out: list[Composite]) -> None:
        """Lets a detector find its initiators."""
        raise NotImplementedError

    def wait(self, cell: Cell, piece: Event) -> Instance:
        """An initiator begins to wait for its successor."""
        parts = piece.parts if isinstance(piece, Composite) else ((self.names["initiator"], piece),)
        instance = Instance(piece, parts, cell.count)
        cell.waiting.append(instance)
        engine = self.engine
        engine.hold(1)
        if engine.teller is not None:
            engine.teller.begun(self, instance)
        return instance

    def contiguous(self, cell: Cell, piece: Event) -> list[Instance]:
        """The initiators whose successor this detector is (section 2, Definition 3)."""
        test, point = self.detect, is_point(piece)
        start = piece.start
        teller = self.engine.teller
        self.engine.counters.evaluations += len(cell.waiting)
        if teller is not None:
            return [i for i in cell.waiting if teller.tried(self, i, piece, i.before(piece, point))]
        if test is None:
            group = [i for i in cell.waiting if i.end < start or (i.point and point)]
        elif point:
            group = [i for i in cell.waiting if (i.end < start or i.point) and test(piece, i)]
        else:
            group = [i for i in cell.waiting if i.end < start and test(piece, i)]
        return group

    def chosen(self, group: list[Instance], piece: Event) -> list[Instance]:
        """Those of the contiguous initiators that the context keeps (Definitions 4 to 7)."""
        if self.context == "compact":
            kept = group[-1:]
        elif self.context == "expanded":
            kept = group[:1]
        else:
            kept = group
        if self.engine.teller is not None:
            self.engine.teller.chose(self, group, kept, piece)
        return kept

    def given(self, instance: Instance, tail: Parts, completed: Event) -> Composite:
        """The output of an instance that is complete."""
        parts = instance.parts
        if instance.between:
            name = self.names["between"]
            later = [e for other in instance.between for _, e in other.parts]
            parts = (*parts, *((name, event) for event in later))
        instance.outputs += 1
        return Composite((*parts, *tail), completed, (*instance.code, *self.labels(instance)))

    def labels(self, instance: Instance) -> tuple[int, ...]:
        """The labels an output adds to the code of its initiator."""
        return (instance.outputs,)

    def tail(self, piece: Event, role: str) -> Parts:
        return piece.parts if isinstance(piece, Composite) else ((self.names[role], piece),)

    # ---- sliding ----

    def slide(self, cell: Cell, out: list[Composite]) -> frozenset[int]:
        """Slides the operator's window after outputs; returns the events that are gone."""
        if self.strategy == "wipe-out":
            gone = frozenset(position for given in out for position in given.positions)
            for operator in self.operators:
                if operator is not self or self.composite or cell.running:
                    operator.wipe(gone, cell.key if self.key else None, out[-1])
            return gone
        if self.strategy == "rigid":
            assert self.step is not None
            latest = max(given.start for given in out)
            since = latest if cell.since is None else max(cell.since, latest)
            cell.since = since + self.step
            self.forget(cell, cell.since, out[-1])
        return frozenset()

    def wipe(self, gone: frozenset[int], key: Any, because: Event) -> None:
        """Drops what was used, and every path through it; with a key, in its partition."""
        for cell in self.cells.values() if key is None else self.of(key):
            self.drop(cell, lambda i: i.uses(gone), "wipe-out", because)

    def of(self, key: Any) -> tuple[Cell, ...]:
        """The cell of a partition, if it has one."""
        return (self.cells[key],) if key in self.cells else ()

    def forget(self, cell: Cell, since: Number, because: Event) -> None:
        """Drops the paths of which nothing is left since a time (a rigid slide)."""
        self.drop(cell, lambda i: i.cur.end < since, "rigid", because)

    def drop(self, cell: Cell, leaves: Callable[[Instance], bool], why: str, at: Event) -> None:
        """Takes the instances out that leave."""
        for name in ("waiting", "running"):
            held: list[Instance] = getattr(cell, name)
            left = [i for i in held if leaves(i)]
            if not left:
                continue
            leaving = set(left)
            setattr(cell, name, [i for i in held if i not in leaving])
            for instance in left:
                self.engine.hold(-instance.size, -1)
                if self.engine.teller is not None:
                    self.engine.teller.left(self, instance, why, at)

    def ended(self, instances: Iterable[Instance]) -> None:
        """Takes note of instances that need no place any more."""
        for instance in instances:
            self.engine.hold(-instance.size, -1)


class Pair(Bop):
    """SQ(A, B): an initiator and its successor. Its window says how long an initiator waits."""

    def advance(self, cell: Cell, event: Event) -> None:
        window = self.window
        if window is None:
            return
        assert self.reach is not None
        # The front is a multiple of the slide, the first that leaves the present event inside.
        # COUNT holds as many numbers after it as the range; TEMPORAL holds times from it on, and an
        # output lasts less than the range (SEMANTICS section 2).
        counted, step = window.range.kind == "COUNT", self._stride()
        if counted:
            front: Number = max(0, -(-(cell.count - self.reach) // step) * step)
        else:
            front = ((event.end - self.reach) // step + 1) * step
        if front == cell.front:
            return
        cell.front = front
        if not cell.waiting:
            return
        if not counted:
            self.drop(cell, lambda i: i.pre.start < front, "window", event)
        elif cell.waiting[0].number <= front:  # they wait in order of their numbers
            self.drop(cell, lambda i: i.number <= front, "window", event)

    def inside(self, cell: Cell, piece: Event) -> bool:
        if cell.front is None or self.window is None:
            return True
        if self.window.range.kind == "COUNT":
            return cell.count > cell.front
        return piece.start >= cell.front

    def _stride(self) -> Number:
        """How far the front moves at a time: as little as it can, where range and slide differ in
        kind."""
        assert self.window is not None and self.reach is not None and self.step is not None
        if self.strategy == "rolling":
            return self.reach
        return self.step if self.window.range.kind == self.window.slide.kind else 1

    def take(self, cell: Cell, piece: Event, out: list[Composite]) -> None:
        if not cell.waiting:
            return
        group = self.contiguous(cell, piece)
        if not group:
            return
        tail = self.tail(piece, "detector")
        kept = self.chosen(group, piece)
        traceable = self.context == "traceable"
        keeps = self.strategy == "referencing-keep"
        for place, instance in enumerate(kept):
            if traceable:
                instance.between = tuple(group[place + 1 :])
            given = self.given(instance, tail, piece)
            out.append(given)
            if self.engine.teller is not None:
                self.engine.teller.gave(self, instance, given, piece, goes_on=keeps)
        if not keeps:
            if len(group) == len(cell.waiting):
                cell.waiting = []
            else:
                found = set(group)
                cell.waiting = [i for i in cell.waiting if i not in found]
            self.ended(group)


class Chain(Bop):
    """KC(A, B, C): an initiator, the chain of its successors, and the terminator that ends it.

    Without a window, a chain is given out at its terminator, or at every detector where there is
    no terminator. With a window, it is given out when it fills it; a terminator drops it before.
    """

    def __init__(self, engine: Contexts, source: Closure, numbered: list[Operator]):
        restrict = source.terminator_restrict
        self.ends = tuple(conjuncts(restrict)) if restrict is not None else ()
        #: Whether there are terminators at all.
        self.closes = source.terminator is not None or restrict is not None
        self.own = source
        super().__init__(engine, source, numbered)
        places = self.places()
        if self.terminator is not None:
            places |= edges("$suf", "e", not isinstance(self.terminator, Leaf))
        self.terminates = engine.predicate(self.ends, places)

    def _terminators(self, numbered: list[Operator]) -> Node | None:
        last = self.own.terminator
        return None if last is None else node(self.engine, last, numbered)

    def _ends_equal(self, name: str) -> bool:
        return not self.closes or name in self._equal(self.ends)

    def labels(self, instance: Instance) -> tuple[int, ...]:
        return (1, instance.outputs)

    def wait(self, cell: Cell, piece: Event) -> Instance:
        instance = super().wait(cell, piece)
        if self.window is not None:
            instance.kind = self.window.range.kind
            reach = self.reach
            if reach is None:
                held = {"$pre": piece, "$cur": piece, **ends_of("$pre", piece)}
                reach = value(self.window.range.amount, held)
            instance.full = math.inf if reach is None else reach  # a missing range is never filled
        return instance

    def end(self, cell: Cell, ends: Sequence[Event], out: list[Composite]) -> None:
        if not self.closes:
            return
        for piece in ends:
            point = is_point(piece)
            done = [i for i in cell.running if self.closed(i, piece, point, out)]
            if done:
                over = set(done)
                cell.running = [i for i in cell.running if i not in over]
                self.ended(done)
            if self.terminator is None:
                self.drop(cell, lambda i: self.refused(i, piece, point), "ended", piece)  # noqa: B023

    def refused(self, instance: Instance, piece: Event, point: bool) -> bool:
        """Whether an initiator ends before it has a detector: where one stream gives detectors and
        terminators, each event is judged beside the last element, be it the initiator."""
        if instance.chain or not instance.before(piece, point):
            return False
        self.engine.counters.evaluations += 1
        return self.terminates is None or self.terminates(piece, instance)

    def closed(self, instance: Instance, piece: Event, point: bool, out: list[Composite]) -> bool:
        """Whether a terminator ends a chain: it is the successor of its detectors."""
        chain = [d for d in instance.chain if d.end < piece.start or (point and is_point(d))]
        if not chain:
            return False
        newest, instance.cur = instance.cur, chain[-1]
        self.engine.counters.evaluations += 1
        holds = self.terminates is None or self.terminates(piece, instance)
        if self.engine.teller is not None:
            self.engine.teller.tried_end(self, instance, piece, holds)
        instance.cur = newest
        if not holds:
            return False
        if self.window is not None:
            if self.engine.teller is not None:
                self.engine.teller.left(self, instance, "unfilled", piece)
            return True
        tail = (*self.chained(chain), *self.tail(piece, "terminator"))
        given = self.given(instance, tail, piece)
        out.append(given)
        if self.engine.teller is not None:
            self.engine.teller.gave(self, instance, given, piece, goes_on=False, ended=True)
        return True

    def chained(self, chain: Iterable[Event]) -> Parts:
        return tuple(part for piece in chain for part in self.tail(piece, "detector"))

    def take(self, cell: Cell, piece: Event, out: list[Composite]) -> None:
        test, point = self.detect, is_point(piece)
        teller = self.engine.teller
        full: list[Instance] = []
        for instance in cell.running:
            before = instance.cur.end < piece.start or (point and is_point(instance.cur))
            self.engine.counters.evaluations += 1
            if teller is not None:
                fits = teller.tried(self, instance, piece, before)
            else:
                fits = before and (test is None or test(piece, instance))
            if fits:
                self.extend(instance, piece, full)
        group = self.contiguous(cell, piece)
        if group:
            kept = self.chosen(group, piece)
            found, stays = set(group), set(kept)
            cell.waiting = [i for i in cell.waiting if i not in found]
            self.ended(i for i in group if i not in stays)
            for place, instance in enumerate(kept):
                if self.context == "traceable":
                    instance.between = tuple(group[place + 1 :])
                self.extend(instance, piece, full)
                cell.running.append(instance)
        for instance in full:
            given = self.given(instance, self.chained(instance.chain), piece)
            out.append(given)
            goes_on = self.window is None or self.strategy in ("referencing-keep", "rigid")
            if teller is not None:
                teller.gave(self, instance, given, piece, goes_on=goes_on)
            if goes_on:
                self.again(instance, piece)
            else:
                cell.running.remove(instance)
                self.ended((instance,))
        if full and self.strategy == "rolling":
            self.drop(cell, lambda i: True, "rolling", piece)

    def extend(self, instance: Instance, piece: Event, full: list[Instance]) -> None:
        """Adds a detector to a chain."""
        instance.chain.append(piece)
        instance.cur = piece
        self.engine.hold(1, 0)
        if self.engine.teller is not None:
            self.engine.teller.extended(self, instance, piece)
        if self.closes and self.window is None:
            return
        size = len(instance.chain) if instance.kind == "COUNT" else piece.end - instance.pre.end
        if size >= instance.full:
            full.append(instance)

    def again(self, instance: Instance, piece: Event) -> None:
        """When an instance that goes on after an output gives out next."""
        if self.window is None or self.strategy == "rigid":
            instance.kind, instance.full = "COUNT", 1
            return
        assert self.step is not None
        instance.kind = self.window.slide.kind
        size = len(instance.chain) if instance.kind == "COUNT" else piece.end - instance.pre.end
        instance.full = size + self.step


Node = Leaf | Filtered | Pair | Chain


def compiled(
    tests: Sequence[Expression], places: dict[str, str], failed: Any
) -> Callable[[Event, Any], bool] | None:
    """Conditions as one function; None where there are none."""
    used = {name for test in tests for name in test.variables}
    kept = {name: place for name, place in places.items() if name in used}
    return predicate(tests, kept, failed=failed) if tests else None
