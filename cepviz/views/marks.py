"""Marks and words that several views share: arrow heads, ticks, badges, tooltips."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from cepviz.errors import CepError, did_you_mean
from cepviz.trace import Trace
from cepviz.views.layout import Point
from cepviz.views.scene import Number, Scene, shortened

#: Runs that the tooltip of a badge lists, and the characters any tooltip has.
LISTED, LONGEST_TIP = 20, 1500
#: The characters of a tooltip that is one sentence.
LONGEST_TITLE = 600


def width_of(text: str, size: Number) -> float:
    """About how many pixels a text takes: fonts differ, wide characters count double.

    >>> width_of("ab", 10) < width_of("漢字", 10)
    True
    """
    ems = 0.0
    for c in text:
        if unicodedata.east_asian_width(c) in "WF":
            ems += 1.1
        elif c in "iljtfrI.,:;[](){}!|' ":
            ems += 0.38
        else:
            ems += 0.8 if c in "mwMW%@…" or c.isupper() else 0.61
    return round(ems * size, 1)


def tip(text: str) -> str:
    """A tooltip: its lines kept, each harmless, the whole cut in the middle where it is long."""
    clean = "\n".join(shortened(line, LONGEST_TIP) for line in text.splitlines())
    if len(clean) <= LONGEST_TIP:
        return clean
    return f"{clean[: LONGEST_TIP * 2 // 3]}…{clean[-LONGEST_TIP // 3 :]}"


def head(scene: Scene, key: str, classes: str, at: Point, tail: Point, size: float = 11) -> None:
    """Draws an arrow head that points to `at`, coming from `tail`."""
    dx, dy = at.x - tail.x, at.y - tail.y
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    bx, by, half = at.x - ux * size, at.y - uy * size, size * 0.4
    corners = [at, Point(bx - uy * half, by + ux * half), Point(bx + uy * half, by - ux * half)]
    points = " ".join(f"{p.x:.1f},{p.y:.1f}" for p in corners)
    scene.add(key, "polygon", classes, points=points)


def tick(scene: Scene, key: str, x: Number, y: Number, truth: bool | None) -> None:
    """Draws a tick, a cross, or for unknown a dash."""
    paths = {
        True: f"M{x - 4:g},{y:g} L{x - 1:g},{y + 3.5:g} L{x + 4.5:g},{y - 4:g}",
        False: f"M{x - 3.5:g},{y - 3.5:g} l7,7 m0,-7 l-7,7",
        None: f"M{x - 4:g},{y:g} l8,0",
    }
    scene.add(key, "path", {True: "tick", False: "cross", None: "edge"}[truth], d=paths[truth])


def fork(scene: Scene, key: str, x: Number, y: Number, title: str | None = None) -> None:
    """Draws the mark of a split: one line that becomes two."""
    d = f"M{x - 5:g},{y:g} l4,0 m6,-4 l-3,0 l-3,4 l3,4 l3,0"
    scene.add(key, "path", "fork", title=title, d=d)


def compact(number: int) -> str:
    """A count in a few characters.

    >>> compact(9999), compact(12345), compact(2_500_000)
    ('9,999', '12.3k', '2.5M')
    """
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= max(size, 10**4):
            return f"{number / size:.3g}{letter}"
    return f"{number:,}"


def badge(scene: Scene, key: str, x: Number, y: Number, count: int, title: str, dim: bool) -> None:
    """Draws a counted badge with its centre at a place."""
    text = compact(count)
    width = max(20.0, width_of(text, 11) + 12)
    faint = " dim" if dim else ""
    scene.add(
        key, "rect", f"badge{faint}", title=tip(title), x=x - width / 2, y=y - 10, width=width,
        height=20, rx=10,
    )  # fmt: skip
    scene.add(f"{key}:text", "text", f"badge-text{faint}", text=text, x=x, y=y + 4)


def told_bindings(bindings: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    """`a = e1 e2, b = e6`."""
    return ", ".join(f"{name} = {' '.join(events)}" for name, events in bindings)


def checked_run(trace: Trace, run: str | None) -> None:
    """Refuses a run that is nowhere in the trace."""
    if run is not None and not trace.run_history(run):
        known = {getattr(step, role, "") for step in trace for role in ("run", "child")} - {""}
        raise CepError(f"there is no run {run!r} in this trace{did_you_mean(run, known)}")


def diamond_mark(
    scene: Scene, key: str, x: float, y: float, size: float, classes: str = "match"
) -> None:
    points = f"{x:g},{y - size:g} {x + size:g},{y:g} {x:g},{y + size:g} {x - size:g},{y:g}"
    scene.add(key, "polygon", classes, points=points)


def circle(x: float, y: float, r: float) -> str:
    """A circle as a path."""
    return f"M{x - r:g},{y:g}a{r:g},{r:g} 0 1 0 {2 * r:g},0a{r:g},{r:g} 0 1 0 {-2 * r:g},0Z"


def diamond(x: float, y: float, r: float) -> str:
    """A diamond as a path."""
    return f"M{x - r:g},{y:g}L{x:g},{y - r:g}L{x + r:g},{y:g}L{x:g},{y + r:g}Z"
