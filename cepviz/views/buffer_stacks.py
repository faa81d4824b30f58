"""The shared versioned buffer of SASE+ (Figure 4): stacks, pointers, and who may follow which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cepviz.errors import TraceError
from cepviz.steps import Link, Matched, Merge, Move, Put
from cepviz.trace import Snapshot, Trace
from cepviz.versions import compatible, read
from cepviz.views.buffer_cells import (
    HIGH,
    MOST_ROWS,
    NEWEST,
    POINTERS,
    WIDE,
    arrival_places,
    buffer_names,
    draw_cell,
    told_event,
)
from cepviz.views.layout import Point
from cepviz.views.marks import head, tip, width_of
from cepviz.views.scene import Scene, shortened


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


@dataclass(frozen=True)
class _Path:
    """The way of one run through the buffer: its pointers, and its version at each cell."""

    version: str = ""
    links: frozenset[Link] = frozenset()
    versions: Mapping[tuple[str, str], str] | None = None


def _path(trace: Trace, snapshot: Snapshot, run: str, only: frozenset[str] | None = None) -> _Path:
    """Reads a run's events out of the buffer, from the last back to the first.

    A merged run goes on in another, and a run that others merged into carries them (5.2.2): all
    their pointers belong to it. With `only`, those of one match are kept.
    """
    reading = _Reading(trace, snapshot.links)
    reading.whole(run, snapshot.index)
    last = _last_link(trace, snapshot.index, run)
    if last is None:
        return _Path()
    links, versions = reading.links, reading.versions
    if only is not None:
        links = {link for link in links if {link.event, link.to_event} <= {*only, ""}}
        versions = {cell: version for cell, version in versions.items() if cell[1] in only}
    return _Path(last.version, frozenset(links), versions)


class _Reading:
    """What a run holds, while it is read: pointers, and the version at each cell."""

    def __init__(self, trace: Trace, links: Iterable[Link]):
        self.trace = trace
        self.by_cell: dict[tuple[str, str], list[Link]] = {}
        for link in links:
            self.by_cell.setdefault((link.buffer, link.event), []).append(link)
        self.links: set[Link] = set()
        self.versions: dict[tuple[str, str], str] = {}

    def whole(self, run: str, index: int) -> None:
        """All that a run held at a step: its own events, and those of runs merged into it."""
        self.walk(_last_link(self.trace, index, run))
        for place in self.trace.run_history(run, ancestors=True):
            step = self.trace[place]
            if place <= index and isinstance(step, Merge):
                if step.run == run:
                    self.since(step.into, place, index)
                else:
                    self.whole(step.run, place - 1)

    def since(self, run: str, start: int, index: int) -> None:
        """What the run that another merged into took after that."""
        met = _last_link(self.trace, start, run)
        self.walk(
            _last_link(self.trace, index, run),
            None if met is None else (met.buffer, met.event),
        )
        for place in self.trace.run_history(run):
            step = self.trace[place]
            if start < place <= index and isinstance(step, Merge) and step.run == run:
                self.since(step.into, place, index)

    def walk(self, last: Link | None, until: tuple[str, str] | None = None) -> None:
        """Follows compatible pointers from the last one of a run, up to a cell."""
        if last is None:
            return
        version, cell = last.version, (last.buffer, last.event)
        seen: set[tuple[str, str]] = set()
        while cell[1] and cell != until and cell not in seen:
            seen.add(cell)
            self.versions.setdefault(cell, version)
            own = [
                link
                for link in self.by_cell.get(cell, ())
                if compatible(read(version), read(link.version))
            ]
            if not own:
                return
            self.links.add(own[0])
            version, cell = own[0].version, (own[0].to_buffer, own[0].to_event)


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


def stacks_of(trace: Trace, snapshot: Snapshot, run: str | None) -> Scene:
    """One stack for each state, the newest event below; an event has one height in all stacks."""
    names = buffer_names(trace, snapshot)
    step = snapshot.step
    matched = step if isinstance(step, Matched) and run is None else None
    followed = run if matched is None else matched.run
    only = frozenset(e for _, events in matched.bindings for e in events) if matched else None
    path = _path(trace, snapshot, followed, only) if followed else _Path()
    arrivals = arrival_places(trace)
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
        scene.add(f"stack:{number}", "line", "grid", x1=x - 24, y1=38, x2=x + WIDE + 68, y2=38)
        scene.label(f"stack:{number}:name", x + WIDE / 2, 18, tip(name), "label middle", 14)
        more = len(held[name]) - len(shown[name])
        if more:
            scene.add(f"stack:{number}:more", "text", "small middle", text=f"+{more} older",
                      x=x + WIDE / 2, y=33)  # fmt: skip
        for event in shown[name]:
            at[name, event] = Point(x, top + pitch * rows.index(event))
    drawn = [link for link in snapshot.links if (link.buffer, link.event) in at]
    _draw_pointers(scene, names, at, drawn, path, bool(followed), matched is not None, step)
    for (name, event), place in at.items():
        on = path.versions is not None and (name, event) in path.versions
        marks = " dim" if followed and not on else ""
        marks += " found path" if matched and on else " selected" if on else ""
        put = isinstance(step, Put) and (step.buffer, step.event) == (name, event)
        marks += " fresh lit" if put else ""
        title = told_event(trace, event)
        draw_cell(scene, f"cell:{names.index(name)}:{event}", place.x, place.y, event, title, marks)
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
                      y=cell.y + HIGH + 10)  # fmt: skip
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
        start = Point(cell.x, round(cell.y + HIGH / 2 + shift, 1))
        scene.add(key, "path", f"pointer{marks}", title=title,
                  d=f"M{start.x:g},{start.y:g} l-9,0 m0,-4 l0,8")  # fmt: skip
        labels.add(f"{key}:version", "text", f"{text} end", text=version, title=title,
                  x=start.x - 12, y=start.y + 4)  # fmt: skip
        return
    if target is None:  # what it leads to is not in the picture any more
        start = Point(cell.x, round(cell.y + HIGH / 2 + shift, 1))
        scene.add(key, "path", f"pointer{marks}", title=title, stroke_dasharray="2 3",
                  d=f"M{start.x:g},{start.y:g} l-22,-10")  # fmt: skip
        labels.add(f"{key}:version", "text", f"{text} end", text=version, title=title,
                  x=start.x - 24, y=start.y - 8)  # fmt: skip
        return
    rows = round((cell.y - target.y) / 44)
    if target.x == cell.x and rows == 1:  # the event above in the same stack
        x = cell.x + WIDE / 2 - 8
        end = Point(x, target.y + HIGH)
        scene.add(key, "path", f"pointer{marks}", title=title,
                  d=f"M{x:g},{cell.y:g} L{x:g},{end.y + 7:g}")  # fmt: skip
        head(scene, f"{key}:head", shape, end, Point(x, cell.y), 9)
        place = (x + 6, round(cell.y - 5, 1))
        anchor = ""
    elif target.x == cell.x:  # further up: around the cells between, on the right
        start = Point(cell.x + WIDE, cell.y + HIGH / 2 + 3)
        end = Point(target.x + WIDE, target.y + HIGH / 2 + 4)
        out = start.x + min(40, 16 + 6 * rows)
        scene.add(key, "path", f"pointer{marks}", title=title,
                  d=f"M{start.x:g},{start.y:g} C{out:g},{start.y - 6:g} {out:g},{end.y + 6:g} "
                  f"{end.x + 7:g},{end.y + 3:g}")  # fmt: skip
        head(scene, f"{key}:head", shape, end, Point(end.x + 12, end.y + 6), 9)
        place = (start.x + 5, round(start.y + 12, 1))
        anchor = ""
    else:  # to a stack further left
        start = Point(cell.x, round(cell.y + HIGH / 2 + shift, 1))
        end = Point(target.x + WIDE, target.y + HIGH / 2 - 4)
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
