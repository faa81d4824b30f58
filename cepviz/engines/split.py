"""The hybrid evaluation of APAM: some variables matched as their events come, the others later.

The variables stand in one chain: the eager ones in the order of the query, then the lazy ones in
the order of the plan. Each place of the chain joins what is matched before it with the events of
its own variable. The four modules of APAM's Figure 1 are four methods of `Chain`:

- `partition` sends an event to the places whose variable it fits;
- `evaluate`, the eager evaluator, runs the eager places at once. What comes out of the last of
  them is the eager evaluation result buffer;
- an event of a lazy variable only waits: the deferred event buffers of the lazy evaluator;
- `merge` runs the lazy places when a final event comes, after the window was applied to all that
  they hold (section 5). Results of every join are kept, so that a pair meets once and not at every
  final event again.

All eager, this is the eager NFA; all lazy, it is ZStream's left-deep tree in batches.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from cepviz.engines.base import labels_of
from cepviz.engines.branches import BranchEngine
from cepviz.engines.place import Place, Prefix, Values
from cepviz.errors import PlanError
from cepviz.events import Event
from cepviz.language.compile import Predicate
from cepviz.language.evaluate import explain
from cepviz.language.pattern import ANY, Branch, Pattern
from cepviz.plans.plan import Split, follows
from cepviz.steps import Drop, Edge, Graph, Move, State, Test


class Chain:
    """The places of one branch, and the four modules that work on them."""

    def __init__(self, engine: SplitEngine, branch: Branch, prefix: str):
        self.engine = engine
        self.branch = branch
        self.prefix = prefix
        eager, lazy = engine.plan.of(branch, engine.pattern)
        self.names = [*eager, *lazy]
        self.cut = len(eager)
        self.places: list[Place] = []
        for number in range(len(self.names)):
            self.places.append(Place(self, number, number < self.cut))
        self.eager, self.lazy = self.places[: self.cut], self.places[self.cut :]
        self.by_type: dict[str, list[Place]] = {}
        for place in self.places:
            self.by_type.setdefault(place.variable.type, []).append(place)
        earlier = {first for first, _ in branch.order}
        self.finals = {name for name in self.names if name not in earlier}
        self.gone: list[int] = []  # positions out of the window since the last merge
        self.cleaned: int | float | None = None
        if self.cut:  # the empty instance of the eager NFA
            engine.alive(1, None)

    def partition(self, event: Event) -> None:
        """Sends an event where it belongs, and sees to what follows."""
        eager = final = False
        for place in self.by_type.get(event.type, ()):
            self.engine.counters.filters += 1
            if place.own(event, ()):
                place.take(event)
                eager = eager or place.eager
                final = final or place.variable.name in self.finals
        if eager:
            self.evaluate(event)
        if final and self.cut < len(self.places):
            self.merge(event)

    def evaluate(self, event: Event) -> None:
        """The eager evaluator: matches an event with what came before it."""
        for place in self.eager:
            if place.waiting or place.incoming:
                self.hand_on(place, place.run(event), event)

    def merge(self, event: Event) -> None:
        """The merger: joins what was deferred with the results of the eager evaluator."""
        self.clean(event)
        for place in self.lazy:
            self.hand_on(place, place.run(event), event)

    def hand_on(self, place: Place, found: list[Prefix], event: Event) -> None:
        if place.number + 1 < len(self.places):
            if found:
                self.places[place.number + 1].receive(found, event)
            return
        for _, values in found:
            held = dict(zip(self.names, values, strict=True))
            self.engine.output.candidate(self.branch, held, event, self.run_name(values))

    # ---- the window ----

    def expire(self, gone: list[int], event: Event, mark: int | float) -> None:
        """Eager places follow the window; the others when they merge, or once in a window."""
        for place in self.eager:
            place.expire(gone, event)
        self.gone += gone
        if self.cleaned is None:
            self.cleaned = mark
        elif self.engine.window is not None and mark - self.cleaned >= self.engine.window:
            self.clean(event)
            self.cleaned = mark

    def clean(self, event: Event) -> None:
        for place in self.lazy:
            place.forget(event)
            if self.gone:
                place.expire(self.gone, event)
        self.gone = []

    def barred(self, place: Place) -> float:
        """The position from which on nothing may begin that this place matches: the border, unless
        a later place may still add an event from before it."""
        border = self.engine.border
        if border is None:
            return math.inf
        if any(other.holds_before(border) for other in self.places[place.number + 1 :]):
            return math.inf
        return border

    # ---- for those who watch ----

    def run_name(self, values: Values) -> str:
        """What a partial match is called: its events, in the order of the chain."""
        if self.engine.emit is None:
            return ""
        labels = [
            f"[{' '.join(e.label for e in bound)}]" if isinstance(bound, tuple) else bound.label
            for bound in values
        ]
        return (self.prefix if len(values) > 1 else "") + "+".join(labels)

    def watched(self, place: Place, event: Event) -> Predicate:
        """The condition of a place as one that tells what it is tried on and what comes of it."""

        def relates(bound: Any, values: Values) -> bool:
            passed = place.relates(bound, values)
            self.tell(place, (*values, bound), event, passed)
            return passed

        return relates

    def tell(self, place: Place, values: Values, event: Event, passed: bool) -> None:
        emit = self.engine.emit
        assert emit is not None
        held, name = dict(zip(self.names, values, strict=False)), self.run_name(values)
        below = self.places[place.number - 1].node
        tests = tuple(explain(conjunct, held) for conjunct in place.conjuncts)
        emit(Test(name, event.label, below, f"join {below}", "take", tests, passed))
        if not passed:
            emit(Drop(name, "predicate", event.label))
            return
        ends = [(below, place.node)]
        if place.number + 1 == len(self.places):
            ends.append((place.node, f"{self.prefix}F"))
        for source, target in ends:
            emit(Move(name, event.label, "take", f"join {source}", source, target, labels_of(held)))


class SplitEngine(BranchEngine):
    """Evaluates a pattern by one split of its variables; `apam` chooses among them."""

    name = "split"

    @classmethod
    def refuses(cls, pattern: Pattern) -> str | None:
        if pattern.strategy != ANY:
            return f"it knows skip_till_any_match only, not {pattern.strategy}"
        return None

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        if not follows(self.plan, Split):
            raise PlanError(f"apam follows a split, as in Split('BC', 'AD'), not {self.plan!r}")
        branches = self.pattern.branches
        self.chains = [
            Chain(self, branch, prefix)
            for branch, prefix in zip(branches, self.prefixes(len(branches)), strict=True)
        ]
        self.types = {kind for chain in self.chains for kind in chain.by_type}
        self.recent: deque[tuple[int | float, int]] = deque()  # marks and positions in the window

    @property
    def graph(self) -> Graph:
        """A tree of joins like that of zstream; each leaf says whether it is deferred."""
        states, edges = [], []
        for chain in self.chains:
            final = f"{chain.prefix}F"
            for place in chain.places:
                own = " and ".join(map(str, chain.branch.own(place.variable.name)))
                when = "eager" if place.eager else "deferred"
                states.append(State(place.label, "start", f"{when}: {own}" if own else when))
                if place.number:
                    tests = tuple(map(str, place.conjuncts))
                    states.append(State(place.node, "middle", ""))
                    below = chain.places[place.number - 1].node
                    for source in (below, place.label):
                        edges.append(Edge(f"join {source}", source, place.node, "take", "", tests))
            root = chain.places[-1].node
            edges.append(Edge(f"join {root}", root, final, "take"))
            states.append(State(final, "final"))
        return Graph(tuple(states), tuple(edges), "zstream")

    def expire(self, event: Event, edge: int | float) -> None:
        gone = []
        recent = self.recent
        while recent and recent[0][0] <= edge:
            gone.append(recent.popleft()[1])
        if gone:
            for chain in self.chains:
                chain.expire(gone, event, edge)

    def process(self, event: Event, mark: int | float) -> None:
        if event.type in self.types:
            self.recent.append((mark, event.position))
            for chain in self.chains:
                chain.partition(event)

    def close(self, event: Event, why: str) -> None:
        for chain in self.chains:
            for place in chain.places:
                place.close(event, why)
        self.alive(-self.live, None)
