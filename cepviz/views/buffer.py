"""The buffers of a trace: the shared versioned buffer of SASE+, input buffers, buffers of a tree.

In all of them time goes one way: down the stacks of SASE+ (Figure 4), so that every pointer leads
up or to the left; to the right along the rows of the lazy engines, so that a scope is a bracket.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cepviz.errors import TraceError
from cepviz.steps import Link, Matched, Move, Put, Scope, Test
from cepviz.trace import Snapshot, Trace
from cepviz.versions import compatible, read
from cepviz.views.automaton import (
    checked_run,
    head,
    held_by,
    tip,
    told_bindings,
    width_of,
)
from cepviz.views.layout import Point
from cepviz.views.scene import Scene, remembered, shortened

#: The newest events shown of a stack or row, the rows of a picture, the pointers of a cell.
NEWEST, MOST_ROWS, POINTERS = 12, 16, 3

_WIDE, _HIGH = 46, 26  # a cell


def buffer(trace: Trace, index: int | None = None, *, run: str | None = None) -> Scene:
    """Draws what an engine has buffered after a step: events as cells, with pointers or a scope.

    With `run`, in the shared buffer of sase, only the pointers that this run follows stay bright;
    each pointer's tooltip says why it is or is not compatible with the run's version.
    """
    checked_run(trace, run)
    if not len(trace) and not index:
        return _message("Nothing has arrived yet.", ["the buffers are empty"])
    snapshot = trace.at(-1 if index is None else index)
    if trace.graph.kind == "nfab":
        return _stacks(trace, snapshot, run)
    if trace.graph.kind in ("chain", "tree"):
        return _input(trace, snapshot, run)
    return _packed(trace, snapshot, run)


def pointer_say(version: str, link: Link) -> str:
    """Says whether a run of some version may follow a pointer, and by which rule of SASE+ 5.1.

    >>> pointer_say("2.0.0", Link("a[i]", "e4", "a[1]", "e3", "2.0"))
    'Version 2.0.0 may follow pointer 2.0 from e4 to e3: 2.0 is a prefix of 2.0.0.'
    >>> pointer_say("1.1", Link("a[i]", "e5", "a[i]", "e4", "1.0"))
    'Version 1.1 may follow pointer 1.0 from e5 to e4: only the last digit differs, and it has
    grown from 0 to 1.'
    >>> pointer_say("2.0.0", Link("a[i]", "e4", "a[i]", "e3", "1.0"))
    'Version 2.0.0 may not follow pointer 1.0 from e4 to e3: digit 1 is 2 in the version and 1 in
    the pointer.'
    """
    try:
        later, earlier = read(version), read(link.version)
    except ValueError:
        raise TraceError(
            f"a version is numbers with dots, as 2.0.0, not {shortened(version)!r} "
            f"or {shortened(link.version)!r}"
        ) from None
    where = f"from {link.event} to {link.to_event}" if link.to_event else f"of {link.event}"
    able = "may" if compatible(later, earlier) else "may not"
    told = f"Version {version} {able} follow pointer {link.version} {where}"
    length = len(earlier)
    if later == earlier:
        return f"{told}: the versions are equal."
    if later[:length] == earlier:
        return f"{told}: {link.version} is a prefix of {version}."
    if able == "may":
        return (
            f"{told}: only the last digit differs, and it has grown "
            f"from {earlier[-1]} to {later[-1]}."
        )
    if earlier[: len(later)] == later:
        return f"{told}: the pointer is longer, so it belongs to a run that split off later."
    place = next(n for n, pair in enumerate(zip(later, earlier, strict=False)) if len({*pair}) > 1)
    if place == length - 1 and len(later) == length:
        return (
            f"{told}: its last digit {earlier[-1]} is larger than {later[-1]}, "
            "so the pointer was added after the run had split off."
        )
    return (
        f"{told}: digit {place + 1} is {later[place]} in the version "
        f"and {earlier[place]} in the pointer."
    )


# ---- what all buffers share ----


def _message(say: str, lines: Sequence[str]) -> Scene:
    scene = Scene(420, 24 + 20 * len(lines), say)
    for number, line in enumerate(lines):
        scene.label(f"none:{number}", 16, 26 + 20 * number, line, "text", 60)
    return scene


def _arrivals(trace: Trace) -> dict[str, int]:
    """The place of every event in the order of arrival."""
    return remembered(
        trace, "arrival places", lambda: {step.event: n for n, step in enumerate(trace.events)}
    )


def _names(trace: Trace, snapshot: Snapshot) -> list[str]:
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


def _cell(
    scene: Scene, key: str, x: float, y: float, text: str, title: str, marks: str = "",
    width: float = _WIDE, most: int = 6,
) -> None:  # fmt: skip
    """A cell with its left upper corner at a place."""
    scene.add(key, "rect", f"cell{marks}", title=title, x=round(x, 1), y=round(y, 1), width=width,
              height=_HIGH, rx=4)  # fmt: skip
    dim = " dim" if "dim" in marks else ""
    bold = " bold" if "lit" in marks or "selected" in marks else ""
    scene.add(f"{key}:text", "text", f"text middle{dim}{bold}", text=shortened(text, most),
              title=title, x=round(x + width / 2, 1), y=round(y + 17, 1))  # fmt: skip


def _told_event(trace: Trace, label: str) -> str:
    try:
        return tip(trace.event(label).say())
    except KeyError:
        return tip(label)


# ---- the shared versioned buffer ----


@dataclass(frozen=True)
class _Path:
    """The way of one run through the buffer: its pointers, and its version at each cell."""

    version: str = ""
    links: frozenset[Link] = frozenset()
    versions: Mapping[tuple[str, str], str] | None = None


def _path(trace: Trace, snapshot: Snapshot, run: str) -> _Path:
    """Reads a run's events out of the buffer, from the last back to the first."""
    last = _last_link(trace, snapshot.index, run)
    if last is None:
        return _Path()
    by_cell: dict[tuple[str, str], list[Link]] = {}
    for link in snapshot.links:
        by_cell.setdefault((link.buffer, link.event), []).append(link)
    links, versions = [], {}
    version, place = last.version, (last.buffer, last.event)
    while place[1] and place not in versions:
        versions[place] = version
        fitting = [
            known
            for known in by_cell.get(place, ())
            if compatible(read(version), read(known.version))
        ]
        if not fitting:
            break
        links.append(fitting[0])
        version, place = fitting[0].version, (fitting[0].to_buffer, fitting[0].to_event)
    return _Path(last.version, frozenset(links), versions)


def _last_link(trace: Trace, index: int, run: str) -> Link | None:
    """The pointer that a run wrote last: an engine says it just before the move it belongs to."""
    for place in reversed(trace.run_history(run, ancestors=True)):
        step = trace[place]
        if place > index or not isinstance(step, Move) or step.action == "ignore":
            continue
        first = trace.previous(place, "arrive") or 0
        before = trace.previous(place, "link")
        found = trace[before] if before is not None and before >= first else None
        if isinstance(found, Link):
            return found
    return None


def _stacks(trace: Trace, snapshot: Snapshot, run: str | None) -> Scene:
    """One stack for each state, the newest event below; an event has one height in all stacks."""
    names = _names(trace, snapshot)
    step = snapshot.step
    matched = isinstance(step, Matched) and run is None
    followed = step.run if isinstance(step, Matched) and run is None else run
    path = _path(trace, snapshot, followed) if followed else _Path()
    arrivals = _arrivals(trace)
    held = {name: snapshot.buffers.get(name, ()) for name in names}
    newest = {event for events in held.values() for event in events[-NEWEST:]}
    rows = sorted(newest, key=lambda event: arrivals.get(event, -1))[-MOST_ROWS:]
    shown = {
        name: [event for event in events[-NEWEST:] if event in set(rows)]
        for name, events in held.items()
    }
    column, pitch, top = 166, 44, 52
    left = 28
    scene = Scene(left + column * len(names) + 20, top + pitch * max(3, len(rows)) + 12,
                  snapshot.say())  # fmt: skip
    at: dict[tuple[str, str], Point] = {}
    for number, name in enumerate(names):
        x = left + column * number + 24
        scene.add(f"stack:{number}", "line", "grid", x1=x - 24, y1=38, x2=x + _WIDE + 68, y2=38)
        scene.label(f"stack:{number}:name", x + _WIDE / 2, 18, tip(name), "label middle", 14)
        more = len(held[name]) - len(shown[name])
        if more:
            scene.add(f"stack:{number}:more", "text", "small middle", text=f"+{more} older",
                      x=x + _WIDE / 2, y=33)  # fmt: skip
        for event in shown[name]:
            at[name, event] = Point(x, top + pitch * rows.index(event))
    drawn = [link for link in snapshot.links if (link.buffer, link.event) in at]
    _draw_pointers(scene, names, at, drawn, path, bool(followed), matched, step)
    for (name, event), place in at.items():
        on = path.versions is not None and (name, event) in path.versions
        marks = " dim" if followed and not on else ""
        marks += " found path" if matched and on else " selected" if on else ""
        put = isinstance(step, Put) and (step.buffer, step.event) == (name, event)
        marks += " fresh lit" if put else ""
        title = _told_event(trace, event)
        _cell(scene, f"cell:{names.index(name)}:{event}", place.x, place.y, event, title, marks)
    if not at:
        scene.add("empty", "text", "small", text="empty", x=left + 24, y=top + 18)
    if followed and path.version:
        said = f"run {followed}: version {path.version}"
        scene.add("version", "text", "small bold", text=shortened(said, 48), x=left,
                  y=scene.height - 8)  # fmt: skip
    return scene


def _draw_pointers(
    scene: Scene,
    names: Sequence[str],
    at: Mapping[tuple[str, str], Point],
    links: Iterable[Link],
    path: _Path,
    following: bool,
    matched: bool,
    step: object,
) -> None:
    arrows: dict[tuple[str, str], dict[tuple[str, str], list[Link]]] = {}
    for link in links:  # pointers from one cell to another are one arrow
        ends = arrows.setdefault((link.buffer, link.event), {})
        ends.setdefault((link.to_buffer, link.to_event), []).append(link)
    labels = Scene(0, 0)  # drawn last, over all arrows
    for (name, event), ends in arrows.items():
        cell, number = at[name, event], names.index(name)
        version = (path.versions or {}).get((name, event), path.version)
        # What the run follows and what is new is always drawn.
        listed = sorted(ends.values(), key=lambda group: path.links.isdisjoint(group))
        listed.sort(key=lambda group: step not in group)
        drawn = sorted(listed[:POINTERS], key=lambda group: _height(at, group[0]))
        leaving = [group[0] for group in drawn if group[0].to_buffer != name]
        far = 0
        for place, group in enumerate(drawn):
            group.sort(key=lambda link: (link not in path.links, link != step))
            first, on = group[0], group[0] in path.links
            marks = " dim" if following and not on else ""
            marks += " found path" if matched and on else " path" if on else ""
            marks += " lit" if first == step else ""
            said = [pointer_say(version, link) if version else link.say() for link in group[:20]]
            label = shortened(first.version, 8) + (f" +{len(group) - 1}" if group[1:] else "")
            target = at.get((first.to_buffer, first.to_event))
            if first in leaving:  # those to other stacks leave one below the other
                shift = 14 * (leaving.index(first) - (len(leaving) - 1) / 2)
            else:
                around = target is not None and cell.y - target.y > 50
                label = "" if around and far else label  # there is room for one
                shift, far = 0.0, far + around
            key = f"pointer:{number}:{event}:{place}"
            told = tip("\n".join(said))
            _draw_pointer(scene, labels, key, cell, target, first, label, shift, marks, told)
        if len(listed) > POINTERS:
            rest = [link for group in listed[POINTERS:] for link in group]
            scene.add(f"pointer:{number}:{event}:more", "text", "small end", text=f"+{len(rest)}",
                      title=tip("\n".join(link.say() for link in rest[:20])), x=cell.x - 3,
                      y=cell.y + _HIGH + 10)  # fmt: skip
    scene.place("", labels, 0, 0)


def _height(at: Mapping[tuple[str, str], Point], link: Link) -> float:
    """How far down a pointer's target is; one that is not in the picture is above it."""
    target = at.get((link.to_buffer, link.to_event))
    return -1.0 if target is None else target.y


def _draw_pointer(
    scene: Scene,
    labels: Scene,
    key: str,
    cell: Point,
    target: Point | None,
    link: Link,
    version: str,
    shift: float,
    marks: str,
    title: str,
) -> None:
    """One pointer, as an arrow from a cell to the one chosen before, with its version."""
    text = f"small halo{' dim' if 'dim' in marks else ''}{' bold' if 'path' in marks else ''}"
    shape = "pointer-head" + (" dim" if "dim" in marks else "")
    if "found" in marks:
        shape = "match"
    if link.to_event == "":  # the first event of a run points to nothing: a stub with its version
        start = Point(cell.x, round(cell.y + _HIGH / 2 + shift, 1))
        scene.add(key, "path", f"pointer{marks}", title=title,
                  d=f"M{start.x:g},{start.y:g} l-9,0 m0,-4 l0,8")  # fmt: skip
        labels.add(f"{key}:version", "text", f"{text} end", text=version, title=title,
                  x=start.x - 12, y=start.y + 4)  # fmt: skip
        return
    if target is None:  # what it leads to is not in the picture any more
        start = Point(cell.x, round(cell.y + _HIGH / 2 + shift, 1))
        scene.add(key, "path", f"pointer{marks}", title=title, stroke_dasharray="2 3",
                  d=f"M{start.x:g},{start.y:g} l-22,-10")  # fmt: skip
        labels.add(f"{key}:version", "text", f"{text} end", text=version, title=title,
                  x=start.x - 24, y=start.y - 8)  # fmt: skip
        return
    rows = round((cell.y - target.y) / 44)
    if target.x == cell.x and rows == 1:  # the event above in the same stack
        x = cell.x + _WIDE / 2 - 8
        end = Point(x, target.y + _HIGH)
        scene.add(key, "path", f"pointer{marks}", title=title,
                  d=f"M{x:g},{cell.y:g} L{x:g},{end.y + 7:g}")  # fmt: skip
        head(scene, f"{key}:head", shape, end, Point(x, cell.y), 9)
        place = (x + 6, round(cell.y - 5, 1))
        anchor = ""
    elif target.x == cell.x:  # further up: around the cells between, on the right
        start = Point(cell.x + _WIDE, cell.y + _HIGH / 2 + 3)
        end = Point(target.x + _WIDE, target.y + _HIGH / 2 + 4)
        out = start.x + min(40, 16 + 6 * rows)
        scene.add(key, "path", f"pointer{marks}", title=title,
                  d=f"M{start.x:g},{start.y:g} C{out:g},{start.y - 6:g} {out:g},{end.y + 6:g} "
                  f"{end.x + 7:g},{end.y + 3:g}")  # fmt: skip
        head(scene, f"{key}:head", shape, end, Point(end.x + 12, end.y + 6), 9)
        place = (start.x + 5, round(start.y + 12, 1))
        anchor = ""
    else:  # to a stack further left
        start = Point(cell.x, round(cell.y + _HIGH / 2 + shift, 1))
        end = Point(target.x + _WIDE, target.y + _HIGH / 2 - 4)
        flat = start.x - width_of(version, 11) - 6  # its label sits on the flat part
        bend = (flat - end.x) / 2
        scene.add(key, "path", f"pointer{marks}", title=title,
                  d=f"M{start.x:g},{start.y:g} L{flat:g},{start.y:g} C{flat - bend:g},{start.y:g} "
                  f"{end.x + bend:g},{end.y:g} {end.x + 8:g},{end.y:g}")  # fmt: skip
        head(scene, f"{key}:head", shape, end, Point(end.x + 12, end.y), 9)
        place = (start.x - 4, round(start.y - 4, 1))
        anchor = " end"
    if version:
        labels.add(f"{key}:version", "text", f"{text}{anchor}", text=version, title=title,
                   x=place[0], y=place[1])  # fmt: skip


# ---- input buffers ----


def _scope(trace: Trace, snapshot: Snapshot) -> Scope | None:
    """The search that the present event brought last."""
    place = trace.previous(snapshot.index + 1, "scope")
    arrived = trace.previous(snapshot.index + 1, "arrive")
    if place is None or (arrived is not None and place < arrived):
        return None
    step = trace[place]
    return step if isinstance(step, Scope) else None


def _input(trace: Trace, snapshot: Snapshot, run: str | None) -> Scene:
    """One row for each variable, an event in one column in all rows, the scope as a bracket."""
    names = _names(trace, snapshot)
    arrivals = _arrivals(trace)
    scope = _scope(trace, snapshot)
    held = {name: snapshot.buffers.get(name, ()) for name in names}
    newest = {event for events in held.values() for event in events[-NEWEST:]}
    columns = sorted(newest, key=lambda event: arrivals.get(event, -1))[-MOST_ROWS:]
    wide = max(width_of(shortened(name, 12), 13) for name in names) if names else 20
    left, top, pitch, across = wide + 66, 40, 62, _WIDE + 14
    scene = Scene(max(360.0, left + across * max(4, len(columns)) + 60), top + pitch * len(names),
                  snapshot.say())  # fmt: skip
    holder = snapshot.runs.get(run or (scope.run if scope else ""))
    bound = {event for _, events in holder.bindings for event in events} if holder else set()
    step = snapshot.step
    now = step.event if isinstance(step, Test | Put | Move) else ""
    for number, name in enumerate(names):
        y = top + pitch * number
        scene.label(f"row:{number}:name", 12, y + 18, tip(name), "label", 12)
        x2 = scene.width - 24
        scene.add(f"row:{number}", "line", "grid", x1=left - 8, y1=y + 13, x2=x2, y2=y + 13)
        shown = [event for event in held[name][-NEWEST:] if event in columns]
        more = len(held[name]) - len(shown)
        if more:
            scene.add(f"row:{number}:more", "text", "small end", text=f"+{more}", x=left - 14,
                      y=y + 17, title=f"{more} older events")  # fmt: skip
        for event in shown:
            marks = " in-scope" if scope and scope.buffer == name and event in scope.events else ""
            marks += " selected" if event in bound else ""
            marks += " in-scope lit" if event == now and _concerned(step, name, scope) else ""
            x = left + across * columns.index(event)
            _cell(scene, f"cell:{number}:{event}", x, y, event, _told_event(trace, event), marks)
        if scope is not None and scope.buffer == name:
            _draw_scope(scene, scope, columns, arrivals, left, across, y)
    return scene


def _concerned(step: object, name: str, scope: Scope | None) -> bool:
    """Whether a step speaks of the event in this row."""
    if isinstance(step, Put):
        return step.buffer == name
    return scope is not None and scope.buffer == name


def _draw_scope(
    scene: Scene,
    scope: Scope,
    columns: Sequence[str],
    arrivals: Mapping[str, int],
    left: float,
    across: float,
    y: float,
) -> None:
    """A bracket over the part of an input buffer that a run searches; an open end has no hook."""

    def between(event: str) -> float:
        place = arrivals.get(event, -1)
        before = sum(arrivals.get(known, -1) < place for known in columns)
        return left + across * before + (_WIDE / 2 if event in columns else -7)

    x1 = left - 8 if scope.start == "start" else between(scope.start)
    x2 = scene.width - 30 if scope.end == "finish" else between(scope.end)
    hook = y - 9
    d = f"M{x1:g},{hook + 6:g} L{x1:g},{hook:g} L{x2:g},{hook:g}"
    d += " m-6,-4 l6,4 l-6,4" if scope.end == "finish" else f" L{x2:g},{hook + 6:g}"
    title = tip(scope.say())
    scene.add("scope", "path", "scope", title=title, d=d)
    said = f"scope of run {shortened(scope.run, 8)}: {shortened(scope.start, 8)} "
    said += f"to {shortened(scope.end, 8)}"
    x = max(left - 8, min(x1, scene.width - width_of(said, 11) - 12))
    scene.add("scope:said", "text", "said-store halo", text=said, title=title, x=round(x, 1),
              y=hook - 6)  # fmt: skip


# ---- buffers of a tree, and of runs that hold their own events ----


def _packed(trace: Trace, snapshot: Snapshot, run: str | None) -> Scene:
    """Rows of cells one after another: what the nodes of a tree hold, or what each run holds."""
    rows: list[tuple[str, str, list[tuple[str, str, str]], int]] = []
    if trace.graph.kind == "zstream" or snapshot.buffers:
        for number, name in enumerate(reversed(_names(trace, snapshot))):
            held = snapshot.buffers.get(name, ())
            cells = [(entry, *_said_entry(trace, snapshot, entry)) for entry in held[-NEWEST:]]
            rows.append((f"row:{number}", name, cells, len(held) - len(cells)))
        title = "what each node holds, the leaves below"
    else:
        live = [*snapshot.runs.values()]
        if not live:
            none = "no live run holds events" if trace.graph.states else "no buffers: every event"
            more = [] if trace.graph.states else ["of the stream is looked at again"]
            return _message(snapshot.say(), [none, *more])
        title = "the match buffer of each run"
        title += f", the newest {NEWEST} of {len(live)}" if len(live) > NEWEST else ""
        for held_run in live[-NEWEST:]:
            cells = [
                (f"{name}:{event}", f"{name} {event}", _told_event(trace, event))
                for name, events in held_run.bindings
                for event in events
            ]
            name = f"run {held_run.id} at {held_run.state}"
            kept = cells[-NEWEST:]
            rows.append((f"run:{held_run.id}", name, kept, len(cells) - len(kept)))
    return _draw_rows(snapshot, title, rows, run)


def _said_entry(trace: Trace, snapshot: Snapshot, entry: str) -> tuple[str, str]:
    """An entry of a tree's buffer in short and in full."""
    run = snapshot.runs.get(entry)
    if run is None:
        return entry, _told_event(trace, entry)
    events = " ".join(event for _, events in run.bindings for event in events)
    return events, tip(f"run {entry}: {held_by(snapshot, entry)}")


def _draw_rows(
    snapshot: Snapshot,
    title: str,
    rows: Sequence[tuple[str, str, list[tuple[str, str, str]], int]],
    run: str | None,
) -> Scene:
    step = snapshot.step
    left = max(width_of(shortened(name, 22), 13) for _, name, _, _ in rows) * 1.06 + 56
    widths = {
        key: [max(_WIDE, width_of(shortened(text, 12), 12) + 14) for _, text, _ in cells]
        for key, _, cells, _ in rows
    }
    across = max((sum(found) + 8 * len(found) for found in widths.values()), default=0)
    scene = Scene(max(360.0, left + across + 24), 40 + 38 * len(rows), snapshot.say())
    scene.label("title", 12, 18, title, "small", 60)
    for number, (key, name, cells, more) in enumerate(rows):
        y, x = 32 + 38 * number, left
        chosen = run is not None and key == f"run:{run}"
        dim = " dim" if run is not None and key.startswith("run:") and not chosen else ""
        scene.label(f"{key}:name", 12, y + 18, tip(name), f"label{dim}", 22)
        if more:
            scene.add(f"{key}:more", "text", "small end", text=f"+{more}", x=left - 8, y=y + 17,
                      title=f"{more} older")  # fmt: skip
        for (entry, text, told), width in zip(cells, widths[key], strict=True):
            just = isinstance(step, Put) and (step.buffer, step.event) == (name, entry)
            marks = " fresh lit" if just else " selected" if chosen or entry == run else dim
            _cell(scene, f"{key}:{entry}", x, y, text, told, marks, width, 12)
            x += width + 8
        if not cells:
            scene.add(f"{key}:empty", "text", "small", text="empty", x=left, y=y + 17)
    return scene


# ---- as text ----


def buffer_text(trace: Trace, index: int | None = None) -> str:
    """The buffers for a terminal: a line for each, its newest events, then the latest pointers."""
    if not len(trace) and not index:
        return "Nothing has arrived yet."
    snapshot = trace.at(-1 if index is None else index)
    lines = []
    names = [] if trace.graph.kind in ("eager", "") else _names(trace, snapshot)
    across = max((len(shortened(name, 20)) for name in names), default=0)
    scope = _scope(trace, snapshot)
    for name in names:
        held = snapshot.buffers.get(name, ())
        more = f"+{len(held) - NEWEST} " if len(held) > NEWEST else ""
        told = " ".join(
            shortened(_said_entry(trace, snapshot, entry)[0], 16).replace(" ", "+")
            for entry in held[-NEWEST:]
        )
        searched = ""
        if scope is not None and scope.buffer == name:
            searched = f"   scope of run {scope.run}: {scope.start} to {scope.end}"
        row = f"{shortened(name, 20):{across}}  {more}{told or '-'}{shortened(searched, 60)}"
        lines.append(row.rstrip())
    for link in snapshot.links[-NEWEST:]:
        end = f"{link.to_event} in {link.to_buffer}" if link.to_event else "nothing"
        row = f"  {link.event} in {link.buffer} -> {end}, version {link.version}"
        lines.append(shortened(row, 100))
    if not names:
        runs = [*snapshot.runs.values()][-NEWEST:]
        lines += [shortened(f"run {r.id}: {told_bindings(r.bindings)}", 100) for r in runs]
    return "\n".join([*(lines or ["nothing is buffered"]), shortened(snapshot.say(), 400)])
