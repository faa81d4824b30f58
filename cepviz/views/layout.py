"""Layout: where Graphviz puts the nodes, edges and labels of a graph written in DOT.

The work is done in process by the package pygraphviz where it is installed, otherwise by the
program `dot`. Both give the same kind of answer, in the same units.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, NamedTuple

from cepviz.errors import SetupError, one_of


class Point(NamedTuple):
    """A place in the picture: x to the right, y downwards."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class NodeBox:
    """A node: its centre and its size."""

    name: str
    centre: Point
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class EdgePath:
    """An edge: a start point, then three points for every cubic curve that follows.

    `tip` and `tail_tip` are where an arrow head at the end and at the start points to; the curve
    itself stops where the head begins. `id` is the edge's `id` attribute, which tells parallel
    edges apart.
    """

    tail: str
    head: str
    id: str
    points: tuple[Point, ...]
    tip: Point | None
    tail_tip: Point | None
    label: Point | None

    @property
    def d(self) -> str:
        """The curve as the `d` of an SVG path.

        >>> EdgePath("a", "b", "", (Point(0, 9),) * 4, None, None, None).d
        'M0,9 C0,9 0,9 0,9'
        """
        start, *rest = (f"{point.x},{point.y}" for point in self.points)
        return f"M{start} C{' '.join(rest)}"


@dataclass(frozen=True, slots=True)
class ClusterBox:
    """A cluster (a subgraph with a frame): left upper corner, size, centre of the label."""

    name: str
    corner: Point
    width: float
    height: float
    label: Point | None


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole graph laid out, in pixels from the left upper corner.

    A Graphviz point is one pixel here, so a label of fontsize 12 is drawn with 12 px. Nodes come in
    the order the source first names them, edges in the order of their tails, parallel ones as
    written.
    """

    width: float
    height: float
    nodes: tuple[NodeBox, ...]
    edges: tuple[EdgePath, ...]
    clusters: tuple[ClusterBox, ...]

    def node(self, name: str) -> NodeBox:
        """The node of this name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


def layout(dot: str, program: str = "dot") -> Layout:
    """Lays out a graph given as DOT source; `program` is one of Graphviz's ways to do it.

    >>> placed = layout("digraph { rankdir=LR; a -> b }")
    >>> [node.name for node in placed.nodes]
    ['a', 'b']
    >>> placed.node("a").centre.x < placed.node("b").centre.x
    True
    """
    return _read(json.loads(_render(dot, program, "json0")))


def svg(dot: str, program: str = "dot") -> str:
    """Draws a graph given as DOT source, as one `<svg>` element to be put into a page or a file."""
    text = _render(dot, program, "svg")
    # The XML declaration and doctype before it are not allowed inside HTML.
    return text[text.index("<svg") :]


# The two ways to run Graphviz. Each takes DOT, a program and a format, and returns the output and
# what was printed beside it.

PROGRAMS = ("dot", "neato", "fdp", "sfdp", "circo", "twopi", "osage", "patchwork")


def _render(dot: str, program: str, form: str) -> str:
    if program not in PROGRAMS:
        raise ValueError(f"unknown layout program: {program!r} (must be {one_of(PROGRAMS)})")
    output, printed = _engine()(dot, program, form)
    # After a bad HTML-like label Graphviz goes on with an empty one: only its message tells.
    errors = [line for line in printed.splitlines() if re.search(r"\bError:", line)]
    if errors or not output:
        raise ValueError(f"Graphviz cannot draw this DOT source: {' '.join(errors) or printed}")
    return output.decode()


def _engine() -> Callable[[str, str, str], tuple[bytes, str]]:
    try:
        import pygraphviz  # noqa: F401
    except ImportError:
        if shutil.which("dot"):
            return _by_program
        raise SetupError(
            "no Graphviz to lay out graphs with. Two ways to get it: install the Python package "
            "pygraphviz 2 or newer, which carries it (pip install 'cepviz[lab]'), or install "
            "Graphviz itself so that the program `dot` is on PATH (Debian: apt install graphviz)"
        ) from None
    return _in_process


@cache
def _warm_up() -> None:
    """Draws something once: Graphviz's defaults, and so its sizes, settle with the first graph."""
    import pygraphviz

    with _fd2_kept_apart():
        pygraphviz.AGraph(string="digraph { a }").draw(format="json0", prog="dot")


def _in_process(dot: str, program: str, form: str) -> tuple[bytes, str]:
    import pygraphviz

    _warm_up()
    with _fd2_kept_apart() as beside:
        try:
            output = pygraphviz.AGraph(string=dot).draw(format=form, prog=program)
        except ValueError:  # Bad DOT; why is on fd 2.
            output = b""
        beside.seek(0)
        return output, beside.read().decode(errors="replace")


def _by_program(dot: str, program: str, form: str) -> tuple[bytes, str]:
    done = subprocess.run(
        ["dot", f"-K{program}", f"-T{form}"], input=dot.encode(), capture_output=True
    )
    output = done.stdout if done.returncode == 0 else b""
    return output, done.stderr.decode(errors="replace")


_fd2 = threading.Lock()


@contextlib.contextmanager
def _fd2_kept_apart() -> Iterator[IO[bytes]]:
    """Sends file descriptor 2 to a file for a moment.

    Graphviz and fontconfig are C libraries: they print there, past `sys.stderr`, and would fill a
    notebook with warnings about fonts. The descriptor is the whole process's, hence the lock.
    """
    with _fd2, tempfile.TemporaryFile() as beside:
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stderr.flush()
        before = os.dup(2)
        try:
            os.dup2(beside.fileno(), 2)
            yield beside
        finally:
            os.dup2(before, 2)
            os.close(before)


# Reading Graphviz's json0: everything is in points with y upwards, sizes of nodes in inches.


def _read(graph: dict[str, Any]) -> Layout:
    left, bottom, right, top = _numbers(graph["bb"])

    def point(text: str) -> Point:
        x, y = _numbers(text)
        return Point(round(x - left, 2), round(top - y, 2))

    def maybe(text: str | None) -> Point | None:
        return point(text) if text else None

    def node(thing: dict[str, Any]) -> NodeBox:
        width, height = (round(float(thing[side]) * 72, 2) for side in ("width", "height"))
        return NodeBox(thing["name"], point(thing["pos"]), width, height)

    def cluster(thing: dict[str, Any]) -> ClusterBox:
        x1, y1, x2, y2 = _numbers(thing["bb"])
        corner = point(f"{x1},{y2}")
        return ClusterBox(
            thing["name"], corner, round(x2 - x1, 2), round(y2 - y1, 2), maybe(thing.get("lp"))
        )

    def edge(thing: dict[str, Any]) -> EdgePath:
        # "s,x,y e,x,y x,y x,y ...": tips first, where there are any. A second curve after ";"
        # comes with concentrate=true only, which no view uses.
        words = thing["pos"].split(";")[0].split()
        tips = {word[0]: word[2:] for word in words if word[1] == ","}
        return EdgePath(
            tail=names[thing["tail"]],
            head=names[thing["head"]],
            id=thing.get("id", ""),
            points=tuple(point(word) for word in words if word[1] != ","),
            tip=maybe(tips.get("e")),
            tail_tip=maybe(tips.get("s")),
            label=maybe(thing.get("lp")),
        )

    objects = graph.get("objects", [])
    # Versions of Graphviz list edges in different orders, but number them alike.
    edges = sorted(graph.get("edges", []), key=lambda thing: thing["_gvid"])
    names = {thing["_gvid"]: thing["name"] for thing in objects}
    return Layout(
        width=round(right - left, 2),
        height=round(top - bottom, 2),
        nodes=tuple(node(thing) for thing in objects if "pos" in thing),
        edges=tuple(edge(thing) for thing in edges if "pos" in thing),
        clusters=tuple(cluster(thing) for thing in objects if "bb" in thing),
    )


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split(",")]
