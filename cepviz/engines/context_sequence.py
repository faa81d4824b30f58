"""SQ(A, B) of CONTEXTS: an initiator and its successor."""

from __future__ import annotations

from cepviz.engines.context_operators import Bop
from cepviz.engines.context_pieces import Cell, Composite, Number
from cepviz.events import Event


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
        alone = self.alone is None or self.alone(piece, None)
        group = self.contiguous(cell, piece, alone)
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
