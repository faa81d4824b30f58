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
from bisect import bisect_left, bisect_right
from collections import deque
from typing import Any

from cepviz.engines.base import labels_of
from cepviz.engines.branches import BranchEngine
from cepviz.errors import PlanError
from cepviz.events import Event
from cepviz.language.compile import Predicate, predicate
from cepviz.language.evaluate import explain
from cepviz.language.expressions import Expression, element_wise
from cepviz.language.pattern import ANY, Branch, Pattern
from cepviz.plans.plan import Split, follows
from cepviz.steps import Drop, Edge, Graph, Move, Prune, Put, State, Test

Values = tuple[Any, ...]  # events, for Kleene tuples of events, in the order of the chain
Prefix = tuple[int, Values]  # the position of the earliest event, and the events


class Place:
    """A variable in the chain: its events, what is matched before it, and the join of the two.

    `older` and `events` were joined with each other before; `incoming` and `waiting` are new on
    either side. What no later event can be joined with is not kept: an old event of a variable
    that comes after all before it in the chain, an old prefix with an event that must come after
    this variable's.
    """

    def __init__(self, chain: Chain, number: int, eager: bool):
        self.chain = chain
        self.number = number
        self.eager = eager
        branch, names = chain.branch, chain.names
        self.variable = branch.by_name[names[number]]
        name = self.variable.name
        self.label = chain.prefix + name
        below = chain.places[number - 1].node if number else ""
        self.node: str = f"({below} {self.label})" if number else self.label
        before, order = names[:number], branch.order
        # Of several variables that must come earlier, the latest of them decide; and so on.
        after = [n for n in before if (n, name) in order]
        until = [n for n in before if (name, n) in order]
        self.after = [names.index(n) for n in after if not any((n, m) in order for m in after)]
        self.until = [names.index(n) for n in until if not any((m, n) in order for m in until)]
        self.keeps_events = len(after) < number
        self.keeps_prefixes = not until
        types = {n: branch.by_name[n].type for n in before}
        loose = [n for n in before if n not in after and n not in until]
        self.alike = [names.index(n) for n in loose if types[n] == self.variable.type]
        self.waiting: list[Event] = []
        self.incoming: list[Prefix] = []
        self.older: dict[int, Values] = {}  # by number, the numbers by their earliest event
        self.families: dict[int, list[int]] = {}
        self.number_given = 0
        self.done: list[Values] = []  # joined, and of no use any more
        self.events: list[Any] = []
        self.positions: list[int] = []  # of the earliest event of each of `events`
        # Of a Kleene variable, `events` are lists of these, and `lists` what one more may extend.
        self.stored: list[Event] = []
        self.lists: list[tuple[Event, ...]] = []
        self._compile(branch, before)

    def _compile(self, branch: Branch, before: list[str]) -> None:
        name, failed = self.variable.name, self.chain.engine.failed
        kleene = [v.name for v in branch.variables if v.kleene]
        own = branch.own(name)
        self.own = predicate(own, {name: "e"}, candidate=name, failed=failed)
        known = {*before, name}
        self.conjuncts = tuple(
            c for c in branch.conjuncts
            if name in c.variables and len(c.variables) > 1 and c.variables <= known
        )  # fmt: skip
        places = {other: f"m[{index}]" for index, other in enumerate(before)} | {name: "e"}
        self.relates = predicate(self.conjuncts, places, kleene=kleene, failed=failed)
        alone = [c for c in branch.conjuncts if c.variables == {name} and c not in own]

        def compiled(tests: list[Expression], candidate: str | None, first: bool) -> Any:
            return tests and predicate(
                tests, {name: "m"}, candidate=candidate, kleene=kleene, first=first, failed=failed
            )

        first, more, whole = element_wise(alone, name)
        self.first, self.more = compiled(first, name, True), compiled(more, name, False)
        self.whole = compiled(whole, None, False)

    # ---- what comes in ----

    def take(self, event: Event) -> None:
        """An event comes for the variable: it waits until the place is run."""
        self.waiting.append(event)
        if self.variable.kleene:
            self.stored.append(event)
        if self.variable.kleene or not self.eager:
            self.keep([event], event)

    def keep(self, events: list[Event], event: Event) -> None:
        """Counts and tells events that enter the buffer of the variable."""
        engine = self.chain.engine
        engine.hold(len(events), event)
        if engine.emit is not None:
            for kept in events:
                engine.emit(Put(self.label, kept.label))

    def receive(self, found: list[Prefix], event: Event) -> None:
        """Takes what the place below has matched."""
        self.incoming += found
        below, engine = self.chain.places[self.number - 1], self.chain.engine
        if below.eager:
            engine.alive(len(found), event)
        elif below.number or below.variable.kleene:  # else they are in that buffer already
            engine.hold(len(found), event)
        else:
            return
        if engine.emit is not None:
            for _, values in found:
                engine.emit(Put(below.node, self.chain.run_name(values)))

    def arrived(self) -> list[tuple[int, Any]]:
        """What the waiting events stand for: themselves, or the lists that end with one of them."""
        waiting, self.waiting = self.waiting, []
        if not self.variable.kleene:
            return [(event.position, event) for event in waiting]
        found: list[tuple[int, Any]] = []
        engine = self.chain.engine
        for event in waiting:
            grown = []
            for known in [(), *self.lists]:
                test = self.more if known else self.first
                engine.counters.evaluations += bool(test)
                if not test or test(event, known):
                    grown.append((*known, event))
            self.lists += grown
            if len(self.lists) > engine.budget.runs:
                engine.stop("runs", event)
            full = [events for events in grown if not self.whole or self.whole(event, events)]
            found += [(events[0].position, events) for events in full]
        return found

    def within(self, values: Values, barred: float) -> list[Any]:
        """The events kept here, of those before a position, that come in the right order with the
        events of a prefix."""
        events, positions = self.events, self.positions
        if self.variable.kleene:
            placed = zip(positions, events, strict=True)
            return [b for p, b in placed if p < barred and self.in_order(values, b)]
        low, high = 0, len(positions)
        for index in self.after:
            low = max(low, bisect_right(positions, _last(values[index])))
        for index in self.until:
            high = min(high, bisect_left(positions, _first(values[index])))
        if barred < math.inf:
            high = min(high, bisect_left(positions, barred))
        if self.alike:
            taken = [e for index in self.alike for e in _listed(values[index])]
            return [event for event in events[low:high] if event not in taken]
        return events[low:high]

    def in_order(self, values: Values, bound: tuple[Event, ...]) -> bool:
        """Whether a list of events comes in the right order with the events of a prefix."""
        return (
            all(_last(values[index]) < _first(bound) for index in self.after)
            and all(_last(bound) < _first(values[index]) for index in self.until)
            and not any(event in _listed(values[index]) for index in self.alike for event in bound)
        )

    # ---- the join ----

    def run(self, event: Event) -> list[Prefix]:
        """Joins what is new on either side with all that is on the other."""
        if self.number == 0:
            return self.begin()
        new, incoming = self.arrived(), self.incoming
        self.incoming = []
        engine = self.chain.engine
        relates: Any = self.relates if engine.emit is None else self.chain.watched(self, event)
        barred = self.chain.barred(self)
        found: list[Prefix] = []
        tried = 0
        for position, bound in new if self.older else ():
            fitting = self.unbarred(barred if position >= barred else math.inf)
            if self.variable.kleene:
                # A single event that is new comes after all that is old; a list may not.
                fitting = [values for values in fitting if self.in_order(values, bound)]
            tried += len(fitting)
            for values in fitting:
                if relates(bound, values):
                    first = min(_first(part) for part in values)
                    found.append((min(first, position), (*values, bound)))
        if new and (incoming or self.keeps_events or not self.eager):
            self.positions += [position for position, _ in new]
            self.events += [bound for _, bound in new]
        for first, values in incoming:
            fitting = self.within(values, barred if first >= barred else math.inf)
            tried += len(fitting)
            for bound in fitting:
                if relates(bound, values):
                    found.append((min(first, _first(bound)), (*values, bound)))
        engine.counters.evaluations += tried
        engine.counters.runs += len(found)
        self.settle(incoming, [bound for _, bound in new], event)
        return found

    def unbarred(self, barred: float) -> list[Values]:
        """The older prefixes that begin before a position."""
        if barred == math.inf:
            return list(self.older.values())
        families = [each for first, each in self.families.items() if first < barred]
        return [self.older[number] for each in families for number in each]

    def settle(self, incoming: list[Prefix], new: list[Any], event: Event) -> None:
        """Keeps what was new, as far as something later can be joined with it."""
        if self.keeps_prefixes:
            for first, values in incoming:
                self.number_given += 1
                self.older[self.number_given] = values
                self.families.setdefault(first, []).append(self.number_given)
        else:
            self.done += [values for _, values in incoming]
        if self.eager and not self.variable.kleene:
            if self.keeps_events:
                self.keep(new, event)
            elif self.events:
                self.events, self.positions = [], []

    def begin(self) -> list[Prefix]:
        """The first place has nothing to join with: nothing is tried, and no result made."""
        barred, new = self.chain.barred(self), self.arrived()
        found: list[Prefix] = [(position, (bound,)) for position, bound in new if position < barred]
        if not (self.eager or self.variable.kleene):
            # What is handed on stays in this buffer; what is not, goes with the next merge.
            on = len(self.chain.places) > 1
            left = [(position, bound) for position, bound in new if position >= barred or not on]
            self.positions += [position for position, _ in left]
            self.events += [bound for _, bound in left]
        return found

    # ---- what goes ----

    def expire(self, gone: list[int], event: Event) -> None:
        """Lets go of all that holds one of these events."""
        older, families = self.older, self.families
        expired = [number for first in gone if first in families for number in families.pop(first)]
        out = [older.pop(number) for number in expired]
        if not (out or self.incoming or self.positions or self.waiting or self.stored):
            return
        last, why = gone[-1], f"the window has passed at {event.label}"
        if self.incoming:
            out += [values for first, values in self.incoming if first <= last]
            self.incoming = [prefix for prefix in self.incoming if prefix[0] > last]
        self.drop_prefixes(out, event, why)
        if not (self.positions or self.waiting or self.stored):
            return
        old: list[Event]
        if self.variable.kleene:
            cut = bisect_right(self.stored, last, key=_position)
            old = self.stored[:cut]
            del self.stored[:cut]
            kept = [(p, b) for p, b in zip(self.positions, self.events, strict=True) if p > last]
            self.positions, self.events = [p for p, _ in kept], [b for _, b in kept]
            self.lists = [known for known in self.lists if known[0].position > last]
        else:
            cut = bisect_right(self.positions, last)
            old = self.events[:cut]
            del self.positions[:cut], self.events[:cut]
        cut = bisect_right(self.waiting, last, key=_position)
        if cut:
            old += [] if self.variable.kleene else self.waiting[:cut]
            del self.waiting[:cut]
        self.drop_events(old, event, why)

    def forget(self, event: Event) -> None:
        """Lets go of what was joined and goes with nothing that comes later."""
        why = "it was merged, and nothing that comes later goes with it"
        done, self.done = self.done, []
        self.drop_prefixes(done, event, why)
        if not self.keeps_events and self.events:
            old, self.events, self.positions = self.events, [], []
            self.drop_events([] if self.variable.kleene else old, event, why)

    def close(self, event: Event, why: str) -> None:
        """Lets go of everything."""
        self.drop_prefixes(
            [*self.older.values(), *self.done, *(v for _, v in self.incoming)], event, why
        )
        single = [] if self.eager else self.waiting
        self.drop_events(
            self.stored if self.variable.kleene else [*self.events, *single], event, why
        )

    def drop_prefixes(self, gone: list[Values], event: Event, why: str) -> None:
        if not gone:
            return
        below, engine = self.chain.places[self.number - 1], self.chain.engine
        if below.eager:
            engine.alive(-len(gone), None)
        else:
            engine.hold(-len(gone), event)
        if engine.emit is not None:
            names = [self.chain.run_name(values) for values in gone]
            engine.emit(Prune(below.node, tuple(names), why))
            for name in names if self.number > 1 else ():
                engine.emit(Drop(name, "window", event.label, why))

    def drop_events(self, gone: list[Event], event: Event, why: str) -> None:
        if gone:
            engine = self.chain.engine
            engine.hold(-len(gone), event)
            if engine.emit is not None:
                engine.emit(Prune(self.label, tuple(old.label for old in gone), why))

    def holds_before(self, border: int) -> bool:
        """Whether it has an event of its variable from before a position."""
        if self.variable.kleene:
            return bool(self.stored) and self.stored[0].position < border
        first = [*self.positions[:1], *(event.position for event in self.waiting[:1])]
        return bool(first) and first[0] < border


def _position(event: Event) -> int:
    return event.position


def _first(bound: Any) -> int:
    return bound[0].position if isinstance(bound, tuple) else bound.position  # type: ignore[no-any-return]


def _last(bound: Any) -> int:
    return bound[-1].position if isinstance(bound, tuple) else bound.position  # type: ignore[no-any-return]


def _listed(bound: Any) -> tuple[Event, ...]:
    return bound if isinstance(bound, tuple) else (bound,)


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
