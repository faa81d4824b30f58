"""KC(A, B, C) of CONTEXTS: an initiator, the chain of its successors, a terminator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from cepviz.engines.context_operators import Bop, Leaf, Node, edges
from cepviz.engines.context_pieces import Cell, Composite, Instance, Parts, ends_of, is_point
from cepviz.events import Event
from cepviz.language.contexts import Closure, Operator
from cepviz.language.evaluate import value
from cepviz.language.normal_form import conjuncts

if TYPE_CHECKING:
    from cepviz.engines.contexts import Contexts


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
        return None if last is None else self.engine.node(last, numbered)

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
        if not (cell.running or cell.waiting):
            return
        alone = self.alone is None or self.alone(piece, None)
        for instance in cell.running:
            before = instance.cur.end < piece.start or (point and is_point(instance.cur))
            self.engine.counters.evaluations += 1
            if teller is not None:
                fits = teller.tried(self, instance, piece, before, alone)
            else:
                fits = before and alone and (test is None or test(piece, instance))
            if fits:
                self.extend(instance, piece, full)
        group = self.contiguous(cell, piece, alone)
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
