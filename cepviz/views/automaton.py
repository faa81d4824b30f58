"""The automaton of a trace: states, edges and formulas, and where the live runs are at a step.

Everything that stays (the layout) is made once for a graph; a step changes classes and badges only.
A graph too large to read is summed up: the states that live now, in columns by depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepviz.errors import CepError
from cepviz.steps import Edge, Graph, Matched, Scope, State, Tested
from cepviz.trace import Snapshot, Trace
from cepviz.views.automaton_large import summed_up
from cepviz.views.automaton_layout import (
    Box,
    Drawing,
    Line,
    cut_formula,
    drawing_of,
    label_height,
    word_of,
)
from cepviz.views.automaton_legend import ACTIONS, about_state, legend_of, told_runs
from cepviz.views.automaton_now import (
    Now,
    graph_in_use,
    now_of,
    plan_of,
    plans_in_use,
    prefix_of,
    searching_state,
    who_is_where,
)
from cepviz.views.layout import Point
from cepviz.views.marks import badge, checked_run, diamond_mark, fork, head, tick, tip, width_of
from cepviz.views.pattern import pattern
from cepviz.views.scene import Scene, shortened
from cepviz.views.timeline_page import pattern_of

#: More states than this are summed up instead of drawn.
MOST_STATES = 24


def _formula(graph: Graph, edge: Edge, passes: int | None) -> tuple[str, ...] | None:
    """An edge's formula, finally or after a pass; None where the pass does not have the edge."""
    if passes is None or edge.action == "negate":
        return edge.formula
    return graph.passes[passes - 1].formulas.get(edge.name)


def automaton(
    trace: Trace, index: int | None = None, *, run: str | None = None, passes: int | None = None
) -> Scene:
    """Draws an engine's automaton after a step: where the runs are and what just happened.

    `index` is the step, the last by default. `run` follows one run: its state is outlined and
    other badges are dim. `passes` shows the formulas after that pass of compilation (SASE+
    Figure 2), counted from 1. `scene.say` is the step's sentence.
    """
    graph = trace.graph
    checked_run(trace, run)
    if passes is not None and not 1 <= passes <= len(graph.passes):
        known = ", ".join(p.name for p in graph.passes)
        has = f"its passes are {known}" if known else "this graph keeps none, only sase's does"
        raise CepError(f"there is no pass {passes} of compilation: {has}")
    snapshot = trace.at(-1 if index is None else index) if len(trace) or index else None
    now = Now() if snapshot is None else now_of(trace, snapshot, run)
    say = "Nothing has arrived yet." if snapshot is None else snapshot.say()
    if not graph.states:
        return _nothing(trace, snapshot, say)
    plans = plans_in_use(trace, snapshot)
    graph = graph_in_use(trace, plans)
    occupants = who_is_where(trace, snapshot)
    if len(graph.states) > MOST_STATES:
        return summed_up(graph, occupants, now, run, say)
    drawing = drawing_of(graph)
    legend = legend_of(graph, drawing.width)
    scene = Scene(max(drawing.width, legend.width), drawing.height + legend.height, say)
    listed = [*enumerate(zip(graph.edges, drawing.lines, strict=True))]
    for number, (edge, line) in listed:
        _draw_edge(scene, graph, number, edge, line, now, passes)
    if graph.kind != "zstream":  # a join says in its box what it checks
        for number, (edge, line) in listed:
            _draw_label(scene, graph, number, edge, line, now, passes)
    for number, (state, box) in enumerate(zip(graph.states, drawing.boxes, strict=True)):
        here = occupants.get(state.name, {})
        _draw_state(scene, graph, number, state, box, here, now, run)
    if snapshot is not None and graph.kind == "tree":
        _draw_counters(scene, graph, drawing, snapshot, now)
    if len(plans) > 1:
        _draw_plans(scene, graph, drawing, plans)
    if passes is not None:
        said = f"after pass {graph.passes[passes - 1].name}"
        scene.label("pass", 8, 16, tip(said), "label", 60)
    scene.place("legend:", legend, 0, drawing.height)
    return scene


def _nothing(trace: Trace, snapshot: Snapshot | None, say: str) -> Scene:
    """The picture of an engine without an automaton: the pattern it tries events on."""
    query = pattern_of(trace)
    name = shortened(trace.engine or "this engine")
    if query is None:
        scene = Scene(460, 60, say)
        scene.label("none", 16, 26, f"{name} has no automaton to draw:", "label", 60)
        scene.label("none:2", 16, 46, "it tries the combinations of events one by one.", "text", 60)
        return scene
    step = None if snapshot is None else snapshot.step
    drawn = pattern(query, bound=dict(step.bindings) if isinstance(step, Matched) else {})
    scene = Scene(max(drawn.width, 460), drawn.height + 24, say)
    told = f"{name} has no automaton: it tries events for the variables one by one."
    scene.label("none", 12, 18, told, "small", 90)
    scene.place("", drawn, 0, 24)
    return scene


def _draw_plans(scene: Scene, graph: Graph, drawing: Drawing, plans: list[str]) -> None:
    """Says which of several plans is the one in use."""
    for place, label in enumerate(plans):
        pairs = zip(graph.states, drawing.boxes, strict=True)
        boxes = [box for state, box in pairs if plan_of(state.name) == label]
        x = max(8, min(box.x - box.width / 2 for box in boxes) - 24)
        # Trees stand side by side and have room above them, chains below their first state.
        y = 20 if graph.kind == "zstream" else max(box.y for box in boxes) + 52
        said = "old plan: it ends what it began" if place else "plan in use"
        scene.label(f"plan:{place}", x, y, said, "small", 60)


def _draw_edge(
    scene: Scene, graph: Graph, number: int, edge: Edge, line: Line, now: Now, passes: int | None
) -> None:
    key, action = f"edge:{number}", _action(edge)
    formula = _formula(graph, edge, passes)
    lit = " lit" if edge.name in now.edges else " path" if edge.name in now.used else ""
    faint = " dim" if formula is None else ""
    scene.add(key, "path", f"{action}{lit}{faint}", title=_told(edge, formula), d=line.d)
    head(scene, f"{key}:head", f"{action}-head{faint}", line.tip, line.tail)


def _draw_label(
    scene: Scene, graph: Graph, number: int, edge: Edge, line: Line, now: Now, passes: int | None
) -> None:
    """An edge's word, its formula and, where the step used it, what came of it."""
    key, action, word = f"edge:{number}", _action(edge), word_of(graph, edge)
    formula = _formula(graph, edge, passes)
    title, faint = _told(edge, formula), " dim" if formula is None else ""
    lines = cut_formula(formula or ())
    top = line.y + (line.above - label_height(lines) if line.above else 0)
    said = "said-keep" if action == "store" else f"said-{action}"
    scene.add(f"{key}:word", "text", f"middle {said} halo{faint}", text=word, title=title,
              x=line.x, y=top)  # fmt: skip
    lit = edge.name in now.edges
    tests = {test.text: test for test in now.tests} if lit else {}
    for place, text in enumerate(lines):
        test = tests.get(formula[place]) if formula else None
        y = top + 14 * (place + 1)
        _draw_conjunct(scene, f"{key}:{place}", line.x, y, text, title, test)
    if lit:
        x = line.x + width_of(word, 12) * 1.05 / 2 + 9
        _draw_verdict(scene, key, x, top, now, action)


def _action(edge: Edge) -> str:
    """The kind of line an edge is drawn as."""
    return edge.action if edge.action in ACTIONS else "take"


def _told(edge: Edge, formula: tuple[str, ...] | None) -> str:
    """An edge in words, for its tooltip."""
    told = "\n".join(formula or ()) or "no condition"
    return tip(f"{edge.name}: {edge.source} to {edge.target}\n{told}")


def _draw_conjunct(
    scene: Scene, key: str, x: float, y: float, text: str, title: str, test: Tested | None
) -> None:
    if test is None:
        scene.add(key, "text", "small middle halo", text=text, title=title, x=x, y=y)
        return
    colour = {True: " yes", False: " no", None: ""}[test.truth]
    scene.add(key, "text", f"small middle halo{colour}", text=text, title=tip(test.say()), x=x, y=y)
    tick(scene, f"{key}:mark", x - width_of(text, 11) * 1.06 / 2 - 9, y - 4, test.truth)


def _draw_verdict(scene: Scene, key: str, x: float, y: float, now: Now, action: str) -> None:
    """What the step did on an edge: `e6 ✓ yes` of a test, a dot and `e6` of a move."""
    event = shortened(now.event, 8)
    wide = width_of(event, 11)
    if now.verdict is not None:
        scene.add(f"{key}:event", "text", "small", text=event, x=x - 3, y=y)
        tick(scene, f"{key}:mark", x + wide + 7, y - 4, now.verdict)
        answer = "yes" if now.verdict else "no"
        scene.add(f"{key}:answer", "text", f"small {answer}", text=answer, x=x + wide + 15, y=y)
        return
    if not event:
        return
    if action == "store":
        scene.add(f"{key}:mark", "rect", "square", x=x - 2, y=y - 8, width=8, height=8)
    elif action == "negate":
        tick(scene, f"{key}:mark", x + 2, y - 4, False)
    else:
        dot = "hollow" if action == "ignore" else "dot"
        scene.add(f"{key}:mark", "circle", dot, cx=x + 2, cy=y - 4, r=4)
    scene.add(f"{key}:event", "text", "text bold", text=event, x=x + 10, y=y)


def _draw_state(
    scene: Scene,
    graph: Graph,
    number: int,
    state: State,
    box: Box,
    here: Mapping[str, str],
    now: Now,
    run: str | None,
) -> None:
    key = f"state:{number}"
    accepted = now.note == "match" and now.state == state.name
    past = graph.kind == "tree" and not here and state.kind in ("middle", "past")
    base = "accepted" if accepted else "negated" if state.kind == "negated" else "state"
    if past and not accepted and state.name not in now.path:
        base = "past"
    marks = " path" if state.name in now.path else ""
    marks += " selected" if run is not None and run in here else ""
    marks += " lit" if now.state == state.name and now.note in ("split", "drop", "merge") else ""
    title = tip(about_state(graph, state))
    _outline(scene, key, box, 0, base + marks, title)
    if state.kind == "final":
        _outline(scene, f"{key}:ring", box, 4, "final", None)
    if state.kind == "start":
        up = graph.kind == "zstream"
        at = Point(box.x, box.y + box.height / 2) if up else Point(box.x - box.width / 2, box.y)
        tail = Point(at.x, at.y + 26) if up else Point(at.x - 28, at.y)
        d = f"M{tail.x:g},{tail.y:g} L{at.x:g},{at.y + 8:g}" if up else ""
        d = d or f"M{tail.x:g},{tail.y:g} L{at.x - 8:g},{at.y:g}"
        scene.add(f"{key}:start", "path", "start-arrow", d=d)
        head(scene, f"{key}:start:head", "ink-head", at, tail)
    if accepted:
        diamond_mark(scene, f"{key}:diamond", box.x, box.y, 13, "on-green")
    else:
        _draw_name(scene, graph, key, box, title, now, state.name)
    if state.choices:
        places = box.width / 2 * (0.72 if box.circle else 1) + 9
        choices = f"may split: {', '.join(state.choices)}"
        fork(scene, f"{key}:choices", box.x - places, box.y - box.height * 0.36 - 4, tip(choices))
    if now.state == state.name and now.note:
        _draw_note(scene, key, box, now)
    if here:
        shift = box.width / 2 * (0.72 if box.circle else 1) + (2 if box.circle else -4)
        told = told_runs(graph, state, here)
        dim = run is not None and run not in here
        badge(scene, f"{key}:badge", box.x + shift, box.y - box.height * 0.42, len(here), told, dim)


def _draw_name(
    scene: Scene, graph: Graph, key: str, box: Box, title: str, now: Now, name: str
) -> None:
    """The lines in a state: its name, then what it waits for (or, at a join, what it checks)."""
    joins = graph.kind == "zstream" and not box.circle
    rows = len(box.lines) + (joins and any(edge.target == name for edge in graph.edges))
    top = box.y + 5 - 7.5 * (rows - 1)
    scene.add(f"{key}:name", "text", "label middle", text=box.lines[0], title=title,
              x=box.x, y=top)  # fmt: skip
    targets = {edge.target for edge in graph.edges if edge.name in now.edges}
    tests = {t.text: t for t in now.tests} if graph.kind == "zstream" and name in targets else {}
    full = next((e.formula for e in graph.edges if e.target == name), ()) if tests else ()
    for place, text in enumerate(box.lines[1:]):
        test = tests.get(full[place]) if place < len(full) else None
        y = top + 15 * (place + 1)
        _draw_conjunct(scene, f"{key}:line:{place}", box.x, y, text, title, test)
    if joins and name in targets:
        _draw_verdict(scene, key, box.x - 26, top + 15 * (rows - 1), now, now.action)


def _outline(
    scene: Scene, key: str, box: Box, inset: float, classes: str, title: str | None
) -> None:
    if box.circle:
        scene.add(key, "circle", classes, title=title, cx=box.x, cy=box.y,
                  r=box.width / 2 - inset)  # fmt: skip
    else:
        scene.add(key, "rect", classes, title=title, x=box.x - box.width / 2 + inset,
                  y=box.y - box.height / 2 + inset, width=box.width - 2 * inset,
                  height=box.height - 2 * inset, rx=16 - inset)  # fmt: skip


def _draw_note(scene: Scene, key: str, box: Box, now: Now) -> None:
    """What just happened to a run here, under the edge that leaves the state on the right."""
    x = box.x + box.width / 2 * (0.72 if box.circle else 1) + 12
    y = box.y + box.height * 0.42 + 4
    said = {"drop": "no", "match": "yes"}.get(now.note, "bold")
    words = {"split": f"split ({now.said})", "merge": f"merges {now.said}"}.get(now.note, now.said)
    scene.add(f"{key}:note", "text", f"text {said} halo", text=shortened(words, 24), x=x + 10, y=y)
    if now.note == "drop":
        tick(scene, f"{key}:note:mark", x, y - 4, False)
    elif now.note == "match":
        diamond_mark(scene, f"{key}:note:mark", x, y - 4, 6)
    else:
        fork(scene, f"{key}:note:mark", x, y - 4)


def _draw_counters(
    scene: Scene, graph: Graph, drawing: Drawing, snapshot: Snapshot, now: Now
) -> None:
    """At the end of a tree's current path: how many events wait for each variable it lacks."""
    step = snapshot.step
    here = now.state or (searching_state(snapshot, step, graph) if isinstance(step, Scope) else "")
    for number, (state, box) in enumerate(zip(graph.states, drawing.boxes, strict=True)):
        if state.name != here or not state.label or now.note:
            continue
        names = [(name, prefix_of(here) + name) for name in state.label.split(", ")]
        told = [f"{name} {len(snapshot.buffers.get(held, ()))}" for name, held in names]
        x = box.x - box.width / 2 * (0.72 if box.circle else 1) - 4
        scene.add(f"state:{number}:counters", "text", "small end bold halo",
                  text=shortened(" · ".join(told)),
                  title=tip("events in the input buffers: " + ", ".join(told)),
                  x=x, y=box.y + box.height * 0.42 + 10)  # fmt: skip


# ---- as text ----


def automaton_text(trace: Trace, index: int | None = None) -> str:
    """The automaton for a terminal: states with their runs and edges, the edge just used marked.

    A `*` stands before the edge that the step used, with the verdict of a test behind it.
    """
    graph = trace.graph
    snapshot = trace.at(-1 if index is None else index) if len(trace) or index else None
    now = Now() if snapshot is None else now_of(trace, snapshot, None)
    occupants = who_is_where(trace, snapshot)
    states: Sequence[State] = graph.states
    lines = []
    if len(states) > MOST_STATES:
        states = [s for s in states if occupants.get(s.name) or s.name == now.state]
        lines.append(f"{len(states)} of {len(graph.states)} states are in use:")
    names = [shortened(state.name, 20) for state in states]
    labels = [shortened(state.label, 16) for state in states]
    across = max(map(len, names), default=0)
    along = max(map(len, labels), default=0)
    for state, name, label in zip(states, names, labels, strict=True):
        here = occupants.get(state.name, {})
        count = f"{len(here)} run{'' if len(here) == 1 else 's'}" if here else "-"
        sign = {"start": ">", "final": "F", "negated": "~"}.get(state.kind, " ")
        going = "  ".join(
            _told_edge(graph, edge, now) for edge in graph.edges if edge.source == state.name
        )
        note = (
            f"  <- {now.note}: {shortened(now.said, 40)}"
            if now.note and now.state == state.name
            else ""
        )
        row = f"{sign} {name:{across}}  {label:{along}}  {count:7}  {going}{note}"
        lines.append(row.rstrip())
    if not graph.states:
        lines.append("This engine has no automaton.")
    said = "Nothing has arrived yet." if snapshot is None else snapshot.say()
    return "\n".join([*lines, shortened(said, 400)])


def _told_edge(graph: Graph, edge: Edge, now: Now) -> str:
    where = "(loop)" if edge.source == edge.target else f"-> {shortened(edge.target, 20)}"
    told = f"{word_of(graph, edge)} {where}"
    if edge.name not in now.edges:
        return told
    verdict = {True: "? yes", False: "? no", None: ""}[now.verdict]
    return f"*{told} {shortened(now.event, 12)}{verdict}*"
