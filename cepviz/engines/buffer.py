"""The shared versioned match buffer (SASE+ section 5.1): events of all runs, stored once.

There is one stack for each state. A cell of a stack holds an event and, for each run that selected
it, a pointer to the event selected before, labelled with the run's version: a Dewey number. A match
is read by following, from the last event, the pointers with compatible versions.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from cepviz.events import Event
from cepviz.versions import Version, compatible, shown

__all__ = ["Cell", "SharedBuffer", "Version", "compatible", "shown"]


class Cell:
    """An event in a stack, with its predecessor pointers.

    They are filed under the first digit of their version: a run never follows another start's.
    """

    __slots__ = ("_links", "event", "mark", "stack")

    def __init__(self, event: Event, stack: int, mark: int | float):
        self.event = event
        self.stack = stack
        self.mark = mark
        self._links: dict[int, list[tuple[Version, Cell | None]]] = {}

    @property
    def links(self) -> list[tuple[Version, Cell | None]]:
        """All pointers: version and target."""
        return [link for listed in self._links.values() for link in listed]

    def link(self, version: Version, target: Cell | None) -> None:
        """Adds a pointer."""
        listed = self._links.get(version[0])
        if listed is None:
            self._links[version[0]] = [(version, target)]
        else:
            listed.append((version, target))

    def release(self) -> None:
        """Forgets the pointers."""
        self._links.clear()

    def previous(self, version: Version) -> tuple[Version, Cell | None]:
        """The pointer to follow for a version: the compatible one."""
        for label, target in self._links.get(version[0], ()):
            if compatible(version, label):
                return label, target
        raise LookupError(f"no pointer of {self.event.label} fits version {shown(version)}")


class SharedBuffer:
    """One stack of cells for each state."""

    def __init__(self, stacks: int):
        self._cells: list[list[Cell]] = [[] for _ in range(stacks)]
        #: How many cells at the bottom of each stack are gone: they are removed in large pieces.
        self._gone = [0] * stacks
        self.size = 0

    @property
    def stacks(self) -> list[list[Cell]]:
        """The cells of each stack, oldest first."""
        return [cells[gone:] for cells, gone in zip(self._cells, self._gone, strict=True)]

    def put(self, stack: int, event: Event, mark: int | float) -> tuple[Cell, bool]:
        """The cell of the newest event on a stack, and whether it is new. `mark` is its place in
        the window: its time, or its position if the window counts events."""
        cells = self._cells[stack]
        if cells and cells[-1].event is event:
            return cells[-1], False
        cell = Cell(event, stack, mark)
        cells.append(cell)
        self.size += 1
        return cell, True

    @staticmethod
    def path(cell: Cell | None, version: Version, until: Cell | None = None) -> list[Cell]:
        """The cells of one match from the last to the first, or to just before `until`."""
        cells = []
        start = version[0]
        while cell is not None and cell is not until:
            cells.append(cell)
            listed = cell._links.get(start)
            if listed is not None and len(listed) == 1:
                version, cell = listed[0]
            else:
                version, cell = cell.previous(version)
        return cells

    def prune(self, edge: int | float, release: bool) -> list[tuple[int, list[Cell]]]:
        """Takes events marked up to `edge` off every stack; binary search finds how many.

        With `release` their pointers are cleared: no live run reaches that far, and a chain of
        dead cells would otherwise keep the whole past in memory.
        """
        pruned = []
        for stack, cells in enumerate(self._cells):
            gone = self._gone[stack]
            if len(cells) == gone or cells[gone].mark > edge:
                continue
            cut = bisect_right(cells, edge, gone, key=attrgetter("mark"))
            out = cells[gone:cut]
            self.size -= len(out)
            if release:
                for cell in out:
                    cell.release()
            if cut * 2 > len(cells):
                del cells[:cut]
                cut = 0
            self._gone[stack] = cut
            pruned.append((stack, out))
        return pruned
