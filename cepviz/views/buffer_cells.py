"""Cells of buffers: an event in a box, in which buffer, in which order."""

from __future__ import annotations

import re

from cepviz.trace import Snapshot, Trace
from cepviz.views.marks import tip
from cepviz.views.scene import Scene, remembered, shortened

#: The newest events shown of a stack or row, the rows of a picture, the pointers of a cell.
NEWEST, MOST_ROWS, POINTERS = 12, 16, 3
WIDE, HIGH = 46, 26  # a cell


def arrival_places(trace: Trace) -> dict[str, int]:
    """The place of every event in the order of arrival."""
    return remembered(
        trace, "arrival places", lambda: {step.event: n for n, step in enumerate(trace.events)}
    )


def buffer_names(trace: Trace, snapshot: Snapshot) -> list[str]:
    """The buffers in a fixed order: as the states are, or as the pattern names its variables."""
    graph = trace.graph
    if graph.kind in ("chain", "tree"):
        found = {}
        for edge in graph.edges:
            if edge.action == "take":
                prefix = re.match(r"\d+:", edge.source)
                found[(prefix[0] if prefix else "") + edge.variable] = edge.variable
        names = sorted(found, key=lambda name: _mention(trace.pattern, found[name]))
    else:
        names = [s.name for s in graph.states if s.kind not in ("final", "negated")]
    return [*names, *(name for name in snapshot.buffers if name not in names)]


def _mention(pattern: str, variable: str) -> int:
    found = re.search(rf"(?<!\w){re.escape(variable)}(?!\w)", pattern)
    return found.start() if found else len(pattern)


def draw_cell(
    scene: Scene, key: str, x: float, y: float, text: str, title: str, marks: str = "",
    width: float = WIDE, most: int = 6,
) -> None:  # fmt: skip
    """A cell with its left upper corner at a place."""
    scene.add(key, "rect", f"cell{marks}", title=title, x=round(x, 1), y=round(y, 1), width=width,
              height=HIGH, rx=4)  # fmt: skip
    dim = " dim" if "dim" in marks else ""
    bold = " bold" if "lit" in marks or "selected" in marks else ""
    scene.add(f"{key}:text", "text", f"text middle{dim}{bold}", text=shortened(text, most),
              title=title, x=round(x + width / 2, 1), y=round(y + 17, 1))  # fmt: skip


def told_event(trace: Trace, label: str) -> str:
    """An event as its tooltip says it."""

    def told() -> str:
        try:
            return tip(trace.event(label).say())
        except KeyError:
            return tip(label)

    return remembered(trace, ("told", label), told)
