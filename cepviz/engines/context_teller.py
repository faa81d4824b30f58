"""What the engine `contexts` tells those who watch: its automaton, its steps, its cache of paths.

The cache is that of CONTEXTS Figures 3 and 4, in the words every trace has: an entry is an event in
the buffer of a state, an edge is a link with its label, an output is an entry of the buffer Output
under the code of its path. An entry goes when no path refers to it any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cepviz.engines.context_closure import Chain
from cepviz.engines.context_operators import Bop, Filtered, Leaf, Node
from cepviz.engines.context_pieces import Composite, Instance, ends_of
from cepviz.events import Event
from cepviz.language.evaluate import explain
from cepviz.steps import (
    Drop,
    Edge,
    Graph,
    Link,
    Merge,
    Move,
    Prune,
    Put,
    Spawn,
    State,
    Test,
    Tested,
)

if TYPE_CHECKING:
    from cepviz.engines.base import Hook
    from cepviz.engines.contexts import Contexts

Place = tuple[str, str]

OUTPUT = "Output"

RULES = {
    "compact": "compact keeps the initiator that ends last",
    "expanded": "expanded keeps the initiator that ends first",
    "complete": "complete keeps every initiator",
    "traceable": "traceable keeps every initiator, with the later ones",
}


# ---- the automaton ----


def graph_of(engine: Contexts) -> Graph:
    """The automaton of a query, its states numbered as in Figure 3: 1 is the start, each operator
    has a state in which initiators wait and, if it is a closure, one in which chains grow."""
    states = [State("1", "start", "start")]
    number = 1
    for operator in engine.operators:
        number += 1
        operator.waits = str(number)
        mark = f" {operator.number}" if len(engine.operators) > 1 else ""
        states.append(State(operator.waits, label=f"initiated{mark}"))
        if isinstance(operator, Chain):
            number += 1
            operator.grows = str(number)
            states.append(State(operator.grows, label=f"detected{mark}"))
    edges: list[Edge] = []
    if engine.operators:
        _connect(engine.root, OUTPUT, edges)
    elif isinstance(engine.root, Leaf):
        formula = tuple(map(str, engine.root.tests))
        edges.append(Edge("pass", "1", OUTPUT, "begin", "event", formula))
    for operator in engine.operators:
        if operator.next not in (OUTPUT, *(state.name for state in states)):
            states.append(State(operator.next, label=f"output {operator.number}"))
    last = State(OUTPUT, "middle" if engine.pattern.window else "final", "output")
    return Graph((*states, last), tuple(edges), "contexts")


def _connect(source: Node, target: str, edges: list[Edge]) -> None:
    """The edges of a source, whose pieces go to a state."""
    while isinstance(source, Filtered):
        source = source.inner
    if isinstance(source, Leaf):
        return
    operator = source
    operator.next = target
    number = operator.number
    _connect(operator.initiator, operator.waits, edges)
    for inner in (operator.detector, operator.terminator):
        if inner is not None and inner.operators:
            _connect(inner, f"output {inner.operators[-1].number}", edges)
    names = operator.names
    begins = tuple(map(str, operator.begins))
    if isinstance(operator.initiator, Leaf):
        alone = tuple(map(str, operator.initiator.tests))
        edges.append(
            Edge(f"initiate {number}", "1", operator.waits, "begin", names["initiator"],
                 (*alone, *begins))
        )  # fmt: skip
    detects = tuple(map(str, operator.detects))
    after = "$suf starts after $cur ends" if isinstance(operator, Chain) else ""
    detects = (after or "$suf starts after $pre ends", *detects)
    if not isinstance(operator, Chain):
        edges.append(
            Edge(f"detect {number}", operator.waits, target, "take", names["detector"], detects)
        )
        return
    grows = operator.grows
    edges.append(
        Edge(f"detect {number}", operator.waits, grows, "take", names["detector"], detects)
    )
    edges.append(Edge(f"more {number}", grows, grows, "take", names["detector"], detects))
    window = operator.window
    if operator.closes and window is None:
        ends = ("$suf starts after $cur ends", *map(str, operator.ends))
        edges.append(Edge(f"terminate {number}", grows, target, "take", names["terminator"], ends))
    else:
        formula = (f"{window.range} is reached",) if window is not None else ()
        edges.append(Edge(f"forward {number}", grows, target, "proceed", "", formula))


# ---- the steps ----


class Teller:
    """Builds the steps of an engine that is watched, and keeps the cache they draw."""

    def __init__(self, engine: Contexts, emit: Hook):
        self.engine = engine
        self.emit = emit
        self.runs = 0
        self.children: Counter[str] = Counter()
        self.references: Counter[Place] = Counter()
        self.leaving: Counter[Place] = Counter()
        self.links: dict[tuple[Place, Place], str] = {}
        self.starts: dict[str, Place] = {}

    @property
    def event(self) -> str:
        latest = self.engine.latest
        return "" if latest is None else latest.label

    # ---- initiators ----

    def tried_begin(self, operator: Bop, piece: Event, holds: bool) -> bool:
        """The condition on an initiator."""
        if not operator.begins:
            return holds
        run = piece.run if isinstance(piece, Composite) else ""
        held = {"$pre": piece, **ends_of("$pre", piece)}
        tests = tuple(explain(test, held) for test in operator.begins)
        if isinstance(piece, Composite):
            if not holds:
                self.lost((piece,), "predicate", tests[-1].said)
            return holds
        edge = f"initiate {operator.number}"
        self.emit(Test(run, self.event, "1", edge, "begin", tests, holds))
        return holds

    def begun(self, operator: Bop, instance: Instance) -> None:
        pre = instance.pre
        if isinstance(pre, Composite):
            instance.run, instance.places = pre.run, list(pre.places)
            return
        self.runs += 1
        instance.run = str(self.runs)
        place = (operator.waits, pre.label)
        instance.places = [place]
        self.hold(place)
        before = self.starts.get(operator.waits)
        self.starts[operator.waits] = place
        if before is not None and self.references[before] > 0 and before != place:
            self.link(place, before, "0")
        self.emit(
            Move(instance.run, self.event, "begin", f"initiate {operator.number}", "1",
                 operator.waits, self.bindings(operator, instance))
        )  # fmt: skip

    # ---- detectors ----

    def tried(
        self, operator: Bop, instance: Instance, piece: Event, before: bool, alone: bool
    ) -> bool:
        """A detector on an instance: whether it starts after it, and each condition."""
        cur = instance.cur
        tests = [self._after(cur, piece, before)]
        holds = before
        if before:
            held = _held(instance, piece)
            tests += [explain(test, held) for test in operator.detects]
            holds = alone and (operator.detect is None or operator.detect(piece, instance))
        grows = bool(instance.chain)
        state = operator.grows if grows else operator.waits
        edge = f"{'more' if grows else 'detect'} {operator.number}"
        self.emit(Test(instance.run, self.event, state, edge, "take", tuple(tests), holds))
        return holds

    def tried_end(self, operator: Chain, instance: Instance, piece: Event, holds: bool) -> None:
        """A terminator on a chain."""
        held = _held(instance, piece)
        tests = [self._after(instance.cur, piece, True)]
        tests += [explain(test, held) for test in operator.ends]
        edge = f"terminate {operator.number}"
        if operator.window is not None:
            edge = f"forward {operator.number}"  # it ends what was not forwarded
        self.emit(Test(instance.run, self.event, operator.grows, edge, "take", tuple(tests), holds))

    def _after(self, first: Event, second: Event, holds: bool) -> Tested:
        clock = self.engine.schema
        start, end = clock.format_time(second.start), clock.format_time(first.end)
        word = "after" if holds else "not after"
        said = f"{second.label} starts at {start}, {word} {first.label} ends at {end}"
        return Tested("the successor starts after the end", said, holds)

    def chose(
        self, operator: Bop, group: list[Instance], kept: list[Instance], piece: Event
    ) -> None:
        """Which of the contiguous initiators the context keeps, and which it rejects."""
        rule = RULES[operator.context]
        said = ", ".join(instance.pre.label for instance in group)
        best = f", {kept[0].pre.label}" if len(kept) < len(group) else ""
        told = f"{piece.label} is the successor of {said}: {rule}{best}"
        for instance in group:
            edge = f"detect {operator.number}"
            mine = instance in kept
            test = Tested(rule, told, mine)
            self.emit(Test(instance.run, self.event, operator.waits, edge, "take", (test,), mine))
            if not mine:
                self.emit(Drop(instance.run, "context", self.event, told))
                self.release(instance.places, f"rejected by {operator.context}")

    def extended(self, operator: Chain, instance: Instance, piece: Event) -> None:
        """A chain has a detector more."""
        first = len(instance.chain) == 1
        self._append(instance, operator.grows, piece)
        edge = f"{'detect' if first else 'more'} {operator.number}"
        source = operator.waits if first else operator.grows
        self.emit(
            Move(instance.run, self.event, "take", edge, source, operator.grows,
                 self.bindings(operator, instance))
        )  # fmt: skip

    def _append(self, instance: Instance, state: str, piece: Event) -> None:
        before = instance.places[-1]
        places: Sequence[Place] = ((state, piece.label),)
        if isinstance(piece, Composite):
            places = piece.places
        self.hold(*places)
        self.link(places[0], before)
        instance.places += places
        self._merged(piece, instance.run)

    def _merged(self, piece: Event, run: str) -> None:
        """An output of an inner operator becomes part of a run, which holds its places now."""
        if isinstance(piece, Composite) and piece.run:
            self.emit(Merge(piece.run, run, _last_state(piece)))
            object.__setattr__(piece, "run", "")
            self.release(piece.places, "it is part of another path")

    # ---- outputs ----

    def gave(
        self,
        operator: Bop,
        instance: Instance,
        given: Composite,
        piece: Event,
        *,
        goes_on: bool,
        ended: bool = False,
    ) -> None:
        """An instance gives an output, and lives on or not."""
        run = instance.run
        chain = isinstance(operator, Chain)
        source = operator.grows if chain else operator.waits
        if goes_on:
            self.children[run] += 1
            run = f"{instance.run}.{self.children[run]}"
            because = "take-proceed" if chain else "take-ignore"
            self.emit(Spawn(instance.run, run, self.event, source, because))
        places = list(instance.places)
        self.hold(*places)
        if not chain or ended:
            tail: Sequence[Place] = (
                (operator.names["terminator" if ended else "detector"], piece.label),
            )
            if isinstance(piece, Composite):
                tail = piece.places
            self.hold(*tail)
            self.link(tail[0], places[-1])
            places += tail
            self._merged(piece, run)
        action, edge = "take", f"{'terminate' if chain else 'detect'} {operator.number}"
        if chain and not ended:
            action, edge = "proceed", f"forward {operator.number}"
        if operator.next == OUTPUT:
            name = f"{given.first.label} {'-'.join(map(str, given.code))}"
            self.hold((OUTPUT, name))
            self.link((OUTPUT, name), places[-1], str(given.code[-1]))
            places.append((OUTPUT, name))
        object.__setattr__(given, "run", run)
        object.__setattr__(given, "places", tuple(places))
        self.emit(Move(run, self.event, action, edge, source, operator.next, _grouped(given.parts)))
        if not goes_on:
            self.release(instance.places, "its output was given")

    def passed(self, piece: Composite) -> None:
        """An event of a query without operators is an output by itself."""
        self.runs += 1
        place = (OUTPUT, f"{piece.first.label} 1")
        self.hold(place)
        object.__setattr__(piece, "run", str(self.runs))
        object.__setattr__(piece, "places", (place,))
        self.emit(Move(piece.run, self.event, "begin", "pass", "1", OUTPUT, _grouped(piece.parts)))

    def given_out(self, piece: Composite) -> None:
        """An output that no window holds has left."""
        self.release(piece.places, "given out")

    def slid(self, piece: Composite, strategy: str, event: Event) -> None:
        """An output leaves the window behind FROM."""
        name = piece.places[-1][1]
        detail = f"the window slides ({strategy}) and the path {name} leaves it"
        self.emit(Drop(piece.run, "slide", self.event, detail))
        self.release(piece.places, f"{strategy}: {name} left the window")

    # ---- what goes ----

    def left(self, operator: Bop, instance: Instance, why: str, at: Event) -> None:
        """An instance ends without an output, or without a further one."""
        told = at.label
        reason, detail = {
            "window": ("window", f"{instance.pre.label} left {operator.window}"),
            "ended": ("terminator", f"{told} ends it before it has a detector"),
            "unfilled": ("window", f"{told} ends it before it fills {operator.window}"),
            "wipe-out": ("slide", f"wipe-out: {told} used an event of it"),
            "rigid": ("slide", f"rigid: all of it is older than the slide after {told}"),
            "rolling": ("slide", f"rolling: the window starts anew after {told}"),
        }[why]
        self.emit(Drop(instance.run, reason, self.event, detail))
        self.release(instance.places, detail)

    def lost(self, pieces: Iterable[Event], reason: str, detail: str) -> None:
        """Outputs of an inner operator that found no use."""
        for piece in pieces:
            if isinstance(piece, Composite) and piece.run:
                self.emit(Drop(piece.run, reason, self.event, detail))
                object.__setattr__(piece, "run", "")
                self.release(piece.places, detail)

    # ---- the cache ----

    def hold(self, *places: Place) -> None:
        for place in places:
            self.references[place] += 1
            if self.references[place] == 1:
                self.emit(Put(*place))

    def link(self, later: Place, earlier: Place, label: str = "") -> None:
        """An edge from an event to the next, with the number it has among those that leave it."""
        if (later, earlier) in self.links:
            return
        if not label:
            self.leaving[earlier] += 1
            label = str(self.leaving[earlier])
        self.links[later, earlier] = label
        self.emit(Link(*later, *earlier, label))

    def release(self, places: Iterable[Place], because: str) -> None:
        gone: dict[str, list[str]] = {}
        for state, label in places:
            self.references[state, label] -= 1
            if self.references[state, label] == 0:
                del self.references[state, label]
                self.leaving.pop((state, label), None)
                gone.setdefault(state, []).append(label)
        for state, labels in gone.items():
            self.emit(Prune(state, tuple(labels), because))
        ended = {(state, label) for state, labels in gone.items() for label in labels}
        if ended:
            self.links = {
                ends: label for ends, label in self.links.items() if ended.isdisjoint(ends)
            }

    def bindings(
        self, operator: Bop, instance: Instance
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        parts = list(instance.parts)
        for other in instance.between:
            parts += [(operator.names["between"], event) for _, event in other.parts]
        for piece in instance.chain:
            parts += operator.tail(piece, "detector")
        return _grouped(parts)


def _grouped(parts: Iterable[tuple[str, Event]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, list[str]] = {}
    for name, event in parts:
        found.setdefault(name, []).append(event.label)
    return tuple((name, tuple(labels)) for name, labels in found.items())


def _last_state(piece: Composite) -> str:
    return piece.places[-1][0]


def _held(instance: Instance, piece: Event) -> dict[str, Event]:
    held = {"$pre": instance.pre, "$suf": piece, "$cur": instance.cur}
    for role, part in tuple(held.items()):
        held |= ends_of(role, part)
    return held
