"""The buffers of a trace: the shared versioned buffer of SASE+, input buffers, buffers of a tree.

In all of them time goes one way: down the stacks of SASE+ (Figure 4), so that every pointer leads
up or to the left; to the right along the rows of the lazy engines, so that a scope is a bracket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepviz.steps import Move, Put, Scope, Test
from cepviz.trace import Snapshot, Trace
from cepviz.views.automaton_now import held_by
from cepviz.views.buffer_cells import (
    MOST_ROWS,
    NEWEST,
    WIDE,
    arrival_places,
    buffer_names,
    draw_cell,
    told_event,
)
from cepviz.views.buffer_stacks import pointer_say, stacks_of
from cepviz.views.marks import checked_run, tip, told_bindings, width_of
from cepviz.views.scene import Scene, shortened

__all__ = ["NEWEST", "buffer", "buffer_text", "pointer_say"]


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
        return stacks_of(trace, snapshot, run)
    if trace.graph.kind in ("chain", "tree"):
        return _input(trace, snapshot, run)
    return _packed(trace, snapshot, run)


def _message(say: str, lines: Sequence[str]) -> Scene:
    scene = Scene(420, 24 + 20 * len(lines), say)
    for number, line in enumerate(lines):
        scene.label(f"none:{number}", 16, 26 + 20 * number, line, "text", 60)
    return scene


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
    names = buffer_names(trace, snapshot)
    arrivals = arrival_places(trace)
    scope = _scope(trace, snapshot)
    held = {name: snapshot.buffers.get(name, ()) for name in names}
    holder = snapshot.runs.get(run or (scope.run if scope else ""))
    bound = {event for _, events in holder.bindings for event in events} if holder else set()
    newest = {event for events in held.values() for event in events[-NEWEST:]}
    # What the run has chosen is shown, however old it is.
    chosen = sorted(bound & {e for events in held.values() for e in events},
                    key=lambda event: arrivals.get(event, -1))[-MOST_ROWS // 2 :]  # fmt: skip
    rest = sorted(newest - {*chosen}, key=lambda event: arrivals.get(event, -1))
    columns = sorted([*chosen, *rest[len(chosen) - MOST_ROWS :]],
                     key=lambda event: arrivals.get(event, -1))  # fmt: skip
    wide = max(width_of(shortened(name, 12), 13) for name in names) if names else 20
    left, top, pitch, across = wide + 66, 40, 62, WIDE + 14
    scene = Scene(max(360.0, left + across * max(4, len(columns)) + 60), top + pitch * len(names),
                  snapshot.say())  # fmt: skip
    step = snapshot.step
    now = step.event if isinstance(step, Test | Put | Move) else ""
    for number, name in enumerate(names):
        y = top + pitch * number
        scene.label(f"row:{number}:name", 12, y + 18, tip(name), "label", 12)
        x2 = scene.width - 24
        scene.add(f"row:{number}", "line", "grid", x1=left - 8, y1=y + 13, x2=x2, y2=y + 13)
        shown = [event for event in held[name] if event in columns]
        more = len(held[name]) - len(shown)
        if more:
            scene.add(f"row:{number}:more", "text", "small end", text=f"+{more}", x=left - 14,
                      y=y + 17, title=f"{more} older events")  # fmt: skip
        for event in shown:
            marks = " in-scope" if scope and scope.buffer == name and event in scope.events else ""
            marks += " selected" if event in bound else ""
            marks += " in-scope lit" if event == now and _concerned(step, name, scope) else ""
            x = left + across * columns.index(event)
            draw_cell(scene, f"cell:{number}:{event}", x, y, event, told_event(trace, event), marks)
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
        return left + across * before + (WIDE / 2 if event in columns else -7)

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
        for number, name in enumerate(reversed(buffer_names(trace, snapshot))):
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
                (f"{name}:{event}", f"{name} {event}", told_event(trace, event))
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
        return entry, told_event(trace, entry)
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
        key: [max(WIDE, width_of(shortened(text, 12), 12) + 14) for _, text, _ in cells]
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
            draw_cell(scene, f"{key}:{entry}", x, y, text, told, marks, width, 12)
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
    names = [] if trace.graph.kind in ("eager", "") else buffer_names(trace, snapshot)
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
