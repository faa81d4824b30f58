"""The cache of a CONTEXT query: paths of events with coded edges, as in CONTEXTS Figures 3 and 4.

A column is a state of the automaton, a row an event in the order of arrival; a path leads to the
right and down, from an initiator to the output. Each edge has its label; that of an output is the
last of its path's code. Start events are linked by edges labelled 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from cepviz.errors import TraceError
from cepviz.steps import Drop, Link, Matched
from cepviz.trace import Snapshot, Trace
from cepviz.views.buffer_cells import HIGH, WIDE, arrival_places, draw_cell, told_event
from cepviz.views.layout import Point
from cepviz.views.marks import checked_run, head, tip, width_of
from cepviz.views.scene import Scene, shortened

OUTPUT = "Output"

#: The newest entries of the cache that are drawn.
MOST_ROWS = 16

_COLUMN, _PITCH, _TOP, _LEFT = 132, 46, 58, 24

Entry = tuple[str, str]


def paths(trace: Trace, index: int | None = None, *, run: str | None = None) -> Scene:
    """Draws the cache after a step; with `run`, the path of that run stays bright."""
    checked_run(trace, run)
    if trace.graph.kind != "contexts":
        engine = trace.engine or "this engine"
        raise TraceError(f"paths are those of a CONTEXT query, and {engine} has none: use buffer")
    snapshot = trace.at(-1 if index is None else index)
    return _drawn(trace, snapshot, snapshot.say(), run=run)


def slide(trace: Trace, index: int | None = None) -> Scene:
    """Draws the cache before and after a window slides, one beside the other.

    The slide is the first one at or after the step, or the last one of the trace. Before it, what
    is about to go is dashed.
    """
    place = _slide_at(trace, index)
    if place is None:
        raise TraceError("no window slides in this trace")
    begin = trace.previous(place, "match")
    arrived = trace.previous(place, "arrive") or 0
    first = place - 1 if begin is None or begin < arrived else begin
    after = trace.next(place, "arrive")
    before, now = trace.at(first), trace.at(-1 if after is None else after - 1)
    gone = _entries(before) - _entries(now)
    said = trace[place].say()
    left = _drawn(trace, before, "Before the slide", gone=gone)
    right = _drawn(trace, now, "After the slide", like=before)
    scene = Scene(left.width + right.width + 24, max(left.height, right.height) + 26, said)
    for x, half, title in ((0.0, left, "before"), (left.width + 24, right, "after")):
        scene.add(f"{title}:title", "text", "label", text=title, x=x + _LEFT, y=18)
        scene.place(f"{title}:", half, x, 26)
    return scene


def _slide_at(trace: Trace, index: int | None) -> int | None:
    found = [
        place
        for place, step in enumerate(trace)
        if isinstance(step, Drop) and step.reason == "slide"
    ]
    if not found:
        return None
    return next((place for place in found if index is not None and place >= index), found[-1])


def _entries(snapshot: Snapshot) -> set[Entry]:
    return {(state, event) for state, events in snapshot.buffers.items() for event in events}


def _columns(trace: Trace) -> list[str]:
    """The buffers from left to right: as the states are, a detector behind its initiators."""
    names = []
    for state in trace.graph.states:
        if state.kind == "start" or state.name == OUTPUT:
            continue
        names.append(state.name)
        for edge in trace.graph.edges:
            if edge.source == state.name and edge.action == "take" and edge.target != state.name:
                names.append(edge.variable)
    used = {step.buffer for step in trace if step.kind == "put"}  # type: ignore[attr-defined]
    return [*(name for name in dict.fromkeys(names) if name in used), OUTPUT]


def _drawn(
    trace: Trace,
    snapshot: Snapshot,
    say: str,
    *,
    run: str | None = None,
    gone: set[Entry] | None = None,
    like: Snapshot | None = None,
) -> Scene:
    """The cache as it is; `like` gives its entries the places they have in another snapshot."""
    columns = _columns(trace)
    arrivals = arrival_places(trace)
    shown = _entries(snapshot) | (set() if like is None else _entries(like))
    rows = sorted({e for state, e in shown if state != OUTPUT}, key=lambda e: arrivals.get(e, -1))
    hidden, rows = max(0, len(rows) - MOST_ROWS), rows[-MOST_ROWS:]
    places = _places(snapshot if like is None else like, columns, rows)
    if like is not None:
        places |= _places(snapshot, columns, rows)
    lowest = max((at.y for at in places.values()), default=0.0) + HIGH
    height = max(_TOP + _PITCH * max(2, len(rows)), lowest) + 8
    scene = Scene(_LEFT + _COLUMN * len(columns) + 20, height, say)
    _heads(scene, trace, columns, snapshot)
    if hidden:
        scene.add("hidden", "text", "small", text=f"+{hidden} older events", x=_LEFT, y=_TOP - 6)
    bright = _path_of(trace, snapshot, run) if run else None
    links = [
        link
        for link in snapshot.links
        if (link.buffer, link.event) in places and (link.to_buffer, link.to_event) in places
    ]
    found = isinstance(snapshot.step, Matched)
    for link in links:
        _edge(scene, columns, places, link, gone or set(), bright, snapshot)
    for entry in sorted(_entries(snapshot) & places.keys(), key=lambda e: (columns.index(e[0]), e)):
        state, event = entry
        at = places[entry]
        marks = " tried" if gone and entry in gone else ""
        if bright is not None:
            marks += " selected" if entry in bright else " dim"
        if found and state == OUTPUT:
            marks += " found path"
        title = told_event(trace, event) if state != OUTPUT else tip(f"path {event}")
        wide = max(WIDE, width_of(event, 12) + 12) if state == OUTPUT else WIDE
        key = f"entry:{columns.index(state)}:{event}"
        draw_cell(scene, key, at.x, at.y, event, title, marks, width=wide, most=18)
    if not _entries(snapshot):
        scene.add("empty", "text", "small", text="the cache is empty", x=_LEFT + 8, y=_TOP + 20)
    return scene


def _places(snapshot: Snapshot, columns: Sequence[str], rows: Sequence[str]) -> dict[Entry, Point]:
    """Where each entry stands: outputs beside the event they end with, one below the other."""
    ends = {link.event: link.to_event for link in snapshot.links if link.buffer == OUTPUT}
    taken: dict[str, int] = {}
    found: dict[Entry, Point] = {}
    for state, events in snapshot.buffers.items():
        for event in events:
            last = ends.get(event, event) if state == OUTPUT else event
            if last not in rows or state not in columns:
                continue
            lower = 0
            if state == OUTPUT:
                lower = taken.get(last, 0)
                taken[last] = lower + 1
            x = _LEFT + _COLUMN * columns.index(state)
            found[state, event] = Point(x, _TOP + _PITCH * rows.index(last) + 30 * lower)
    return found


def _heads(scene: Scene, trace: Trace, columns: Sequence[str], snapshot: Snapshot) -> None:
    labels = {state.name: state.label for state in trace.graph.states}
    for number, name in enumerate(columns):
        x = _LEFT + _COLUMN * number
        scene.add(f"head:{number}", "line", "grid", x1=x - 4, y1=38, x2=x + _COLUMN - 26, y2=38)
        title = f"state {name}" if name in labels and name != OUTPUT else name
        scene.label(f"head:{number}:name", x, 16, title, "label", 16)
        if name != OUTPUT and name in labels:
            scene.label(f"head:{number}:label", x, 32, labels[name], "small", 18)


def _path_of(trace: Trace, snapshot: Snapshot, run: str) -> set[Entry]:
    """The entries of a run's path, as far as they are in the cache."""
    live = snapshot.runs.get(run)
    held = {e for _, events in live.bindings for e in events} if live is not None else set()
    return {entry for entry in _entries(snapshot) if entry[1] in held}


def _edge(
    scene: Scene,
    columns: Sequence[str],
    places: dict[Entry, Point],
    link: Link,
    gone: set[Entry],
    bright: set[Entry] | None,
    snapshot: Snapshot,
) -> None:
    """An edge from an event to the one that follows it on a path, with its label."""
    earlier, later = (link.to_buffer, link.to_event), (link.buffer, link.event)
    a, b = places[earlier], places[later]
    key = f"edge:{columns.index(earlier[0])}:{earlier[1]}:{columns.index(later[0])}:{later[1]}"
    start = link.version == "0"
    classes = "tried" if start or earlier in gone or later in gone else "pointer"
    if link == snapshot.step:
        classes += " lit"
    if bright is not None and not (earlier in bright and later in bright):
        classes += " dim"
    title = tip(f"from {link.to_event} to {link.event}, label {link.version}")
    if earlier[0] == later[0]:  # within a state: round its left side for starts, else its right
        side = a.x - 2 if start else a.x + WIDE + 2
        bend = -14 if start else 16
        p, q = Point(side, a.y + HIGH - 6), Point(side, b.y + 8)
        out, into = f"{p.x + bend:g},{p.y + 4:g}", f"{q.x + bend:g},{q.y - 4:g}"
        d = f"M{p.x:g},{p.y:g} C{out} {into} {q.x:g},{q.y:g}"
        middle, tail = Point(side + bend * 1.15, (p.y + q.y) / 2 + 4), Point(q.x + bend, q.y - 4)
    else:
        p, q = Point(a.x + WIDE + 1, a.y + HIGH / 2), Point(b.x - 2, b.y + HIGH / 2)
        d = f"M{p.x:g},{p.y:g} L{q.x:g},{q.y:g}"
        middle, tail = Point(p.x + (q.x - p.x) * 0.5, p.y + (q.y - p.y) * 0.5 - 5), p
    scene.add(key, "path", classes, title=title, d=d)
    head(scene, f"{key}:head", "ignore-head" if "tried" in classes else "pointer-head", q, tail, 8)
    scene.add(f"{key}:label", "text", "small halo middle bold", title=title, x=round(middle.x, 1),
              y=round(middle.y, 1), text=shortened(link.version, 6))  # fmt: skip


def paths_text(trace: Trace, index: int | None = None) -> str:
    """The cache in words: each edge as `a1 -1-> b1`, a line for each state."""
    snapshot = trace.at(-1 if index is None else index)
    lines = [snapshot.say()]
    for state in _columns(trace):
        entries = snapshot.buffers.get(state, ())
        if not entries:
            continue
        edges = [
            f"{link.to_event} -{link.version}-> {link.event}"
            for link in snapshot.links
            if link.buffer == state
        ]
        lines.append(f"{state}: {' '.join(entries)}{'; ' if edges else ''}{', '.join(edges)}")
    return "\n".join(lines)
