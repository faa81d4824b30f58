"""The shared versioned match buffer (SASE+ section 5.1): events of all runs, stored once.

There is one stack for each state. A cell of a stack holds an event and, for each run that selected
it, a pointer to the event selected before, labelled with the run's version: a Dewey number. A match
is read by following, from the last event, the pointers with compatible versions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from cepviz.events import Event

Version = tuple[int, ...]


def compatible(later: Version, earlier: Version) -> bool:
    """Whether a pointer of the `earlier` version belongs to the ancestry of the `later` one:
    it is a prefix of it, or differs in the last digit only, which has grown since."""
    length = len(earlier)
    if later[:length] == earlier:
        return True
    return len(later) == length and later[:-1] == earlier[:-1] and later[-1] > earlier[-1]


def shown(version: Version) -> str:
    """`2.0.0`."""
    return ".".join(map(str, version))


class Cell:
    """An event in a stack, with its predecessor pointers."""

    __slots__ = ("event", "links", "stack")

    def __init__(self, event: Event, stack: int):
        self.event = event
        self.stack = stack
        self.links: list[tuple[Version, Cell | None]] = []

    def previous(self, version: Version) -> tuple[Version, Cell | None]:
        """The pointer to follow for a version: the compatible one."""
        for label, target in self.links:
            if compatible(version, label):
                return label, target
        raise LookupError(f"no pointer of {self.event.label} fits version {shown(version)}")


class SharedBuffer:
    """One stack of cells for each state."""

    def __init__(self, stacks: int):
        self.stacks: list[list[Cell]] = [[] for _ in range(stacks)]
        self.size = 0

    def put(self, stack: int, event: Event) -> tuple[Cell, bool]:
        """The cell of the newest event in a stack, and whether it had to be made."""
        cells = self.stacks[stack]
        if cells and cells[-1].event is event:
            return cells[-1], False
        cell = Cell(event, stack)
        cells.append(cell)
        self.size += 1
        return cell, True

    @staticmethod
    def path(cell: Cell | None, version: Version, until: Cell | None = None) -> list[Cell]:
        """The cells of one match from the last to the first, or to just before `until`."""
        cells = []
        while cell is not None and cell is not until:
            cells.append(cell)
            version, cell = cell.previous(version)
        return cells

    def prune(self, expired: Callable[[Event], bool], release: bool) -> list[tuple[int, list[Cell]]]:
        """Takes events that left the window off every stack; binary search finds how many.

        With `release` their pointers are cleared: no live run reaches that far, and a chain of
        dead cells would otherwise keep the whole past in memory.
        """
        gone = []
        for number, cells in enumerate(self.stacks):
            if not cells or not expired(cells[0].event):
                continue
            cut = bisect_left(cells, True, key=lambda cell: not expired(cell.event))
            out = cells[:cut]
            del cells[:cut]
            self.size -= cut
            if release:
                for cell in out:
                    cell.links.clear()
            gone.append((number, out))
        return gone
