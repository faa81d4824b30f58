"""The operators of CONTEXTS: sequence and Kleene closure over interval events, event by event.

A stream is in order of (end, arrival), so the successor of an event is the first event to arrive
that starts after it ends (Definition 3). What waits for a successor is an `Instance`: an initiator
and, in a closure, the chain of detectors it has so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cepviz.engines.base import partition_key
from cepviz.engines.context_pieces import (
    Cell,
    Composite,
    Instance,
    Number,
    Parts,
    is_point,
    positions_of,
)
from cepviz.errors import PatternError
from cepviz.events import Event
from cepviz.language.compile import predicate
from cepviz.language.contexts import (
    Closure,
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
        self.initiator = engine.node(source.initiator, numbered)
        self.detector = engine.node(source.detector, numbered)
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
        self.attribute = self._partition()
        self.key: Callable[[Event], Any] | None = None
        if self.attribute is not None:
            self.key = partition_key([self.attribute], engine.schema)
        # What the suffix alone decides is tried once for all that wait; what the partition decides,
        # not at all.
        tests = [test for test in self.detects if not self._sure(test)]
        alone = [test for test in tests if all("$suf" in name for name in test.variables)]
        self.alone = engine.predicate(alone, self.places())
        self.detect = engine.predicate([t for t in tests if t not in alone], self.places())
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

    def _sure(self, test: Expression) -> bool:
        """Whether a test is true of any two events of one partition."""
        kind = self.engine.schema.attributes.get(self.attribute or "")
        return self._equal((test,)) == [self.attribute] and kind in ("number", "string", "bool")

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

    def contiguous(self, cell: Cell, piece: Event, alone: bool) -> list[Instance]:
        """The initiators whose successor this detector is (section 2, Definition 3); `alone` says
        whether the detector satisfies what concerns it alone."""
        test, point = self.detect, is_point(piece)
        start = piece.start
        teller = self.engine.teller
        self.engine.counters.evaluations += len(cell.waiting)
        if teller is not None:
            return [
                i
                for i in cell.waiting
                if teller.tried(self, i, piece, i.before(piece, point), alone)
            ]
        if not alone:
            return []
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


Node = Leaf | Filtered | Bop


def compiled(
    tests: Sequence[Expression], places: dict[str, str], failed: Any
) -> Callable[[Event, Any], bool] | None:
    """Conditions as one function; None where there are none."""
    used = {name for test in tests for name in test.variables}
    kept = {name: place for name, place in places.items() if name in used}
    return predicate(tests, kept, failed=failed) if tests else None
