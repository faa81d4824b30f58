"""An automaton too large to read, summed up: columns by depth, and what lives in them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

from cepviz.steps import Edge, Graph, State
from cepviz.views.automaton_layout import Box
from cepviz.views.automaton_legend import about_state, legend_of, told_runs
from cepviz.views.automaton_now import Now
from cepviz.views.layout import Point
from cepviz.views.marks import badge, fork, head, tick, tip
from cepviz.views.scene import Scene, shortened


@lru_cache(maxsize=16)
def _depths(states: tuple[State, ...], edges: tuple[Edge, ...]) -> Mapping[str, int]:
    """How many edges a state is away from where runs begin."""
    follow: dict[str, list[str]] = {}
    for edge in edges:
        follow.setdefault(edge.source, []).append(edge.target)
    depth = {state.name: 0 for state in states if state.kind == "start"}
    front = list(depth)
    while front:
        found = []
        for name in front:
            for target in follow.get(name, ()):
                if target not in depth:
                    depth[target] = depth[name] + 1
                    found.append(target)
        front = found
    return {state.name: depth.get(state.name, 0) for state in states}


#: Live states shown in a column of a graph that is summed up.
ROWS = 4


def summed_up(
    graph: Graph, occupants: Mapping[str, Mapping[str, str]], now: Now, run: str | None, say: str
) -> Scene:
    """A large graph in columns by depth: how many states there are, and which live now."""
    depths = _depths(graph.states, graph.edges)
    columns: dict[int, list[State]] = {}
    for state in graph.states:
        columns.setdefault(depths[state.name], []).append(state)
    wide, gap, top, row = 148, 64, 40, 34
    legend = legend_of(graph, len(columns) * (wide + gap))
    width = len(columns) * (wide + gap) + 48
    scene = Scene(max(width, legend.width), top + (ROWS + 2) * row + legend.height + 8, say)
    title = f"{len(graph.states)} states: those with live runs, by depth"
    scene.label("title", 16, 18, title, "label", 60)
    crossed = {(depths[e.source], depths[e.target]) for e in graph.edges if e.name in now.edges}
    for left, right in pairwise(sorted(columns)):
        x = 16 + left * (wide + gap) + wide
        lit = " lit" if (left, right) in crossed else ""
        y = top + row / 2
        scene.add(f"step:{left}", "path", f"take{lit}", d=f"M{x + 4},{y:g} L{x + gap - 12},{y:g}")
        head(scene, f"step:{left}:head", "take-head", Point(x + gap - 4, y), Point(x, y))
        if lit:
            word = shortened(now.event, 8)
            scene.add(f"step:{left}:word", "text", "text middle", text=word, x=x + gap / 2 - 4,
                      y=y - 8)  # fmt: skip
            if now.verdict is not None:
                tick(scene, f"step:{left}:mark", x + gap / 2 - 12, y + 14, now.verdict)
                answer = "yes" if now.verdict else "no"
                scene.add(f"step:{left}:answer", "text", f"small {answer}", text=answer,
                          x=x + gap / 2 - 4, y=y + 18)  # fmt: skip
    for depth, states in columns.items():
        x = 16 + depth * (wide + gap)
        runs = sum(len(occupants.get(state.name, {})) for state in states)
        scene.add(f"column:{depth}", "rect", "state", x=x, y=top, width=wide, height=row, rx=8)
        many = f"{len(states)} state{'' if len(states) == 1 else 's'}"
        scene.add(f"column:{depth}:name", "text", "label middle", text=many, x=x + wide / 2 - 12,
                  y=top + 21, title=f"depth {depth}: {many}, {runs} live runs")  # fmt: skip
        if runs:
            badge(
                scene,
                f"column:{depth}:badge",
                x + wide - 20,
                top + row / 2,
                runs,
                f"{runs} live runs",
                False,
            )
        shown = [s for s in states if s.name == now.state or s.name in now.path]
        others = [s for s in states if occupants.get(s.name) and s not in shown]
        shown += sorted(others, key=lambda s: -len(occupants[s.name]))
        for slot, state in enumerate(shown[:ROWS]):
            y = top + (slot + 1) * row + 6
            box = Box(x + wide / 2, y + 12, wide - 12, 24, False, (shortened(state.name, 17),))
            here = occupants.get(state.name, {})
            _draw_slot(scene, f"slot:{depth}:{slot}", graph, state, box, here, now, run)
        if len(shown) > ROWS:
            y = top + (ROWS + 1) * row + 20
            scene.add(f"column:{depth}:more", "text", "small middle", x=x + wide / 2, y=y,
                      text=f"and {len(shown) - ROWS} more")  # fmt: skip
    scene.place("legend:", legend, 0, scene.height - legend.height)
    return scene


def _draw_slot(
    scene: Scene,
    key: str,
    graph: Graph,
    state: State,
    box: Box,
    here: Mapping[str, str],
    now: Now,
    run: str | None,
) -> None:
    accepted = now.note == "match" and now.state == state.name
    classes = "accepted" if accepted else "cell"
    classes += " path" if state.name in now.path else ""
    classes += " selected" if run in here or now.state == state.name else ""
    scene.add(key, "rect", classes, title=tip(about_state(graph, state)), x=box.x - box.width / 2,
              y=box.y - 12, width=box.width, height=24, rx=6)  # fmt: skip
    text = "text middle on-green" if accepted else "text middle"
    scene.add(f"{key}:name", "text", text, text=box.lines[0], x=box.x, y=box.y + 4)
    if here:
        told = told_runs(graph, state, here)
        dim = run is not None and run not in here
        badge(scene, f"{key}:badge", box.x + box.width / 2, box.y - 8, len(here), told, dim)
    if now.note and now.state == state.name:
        x, y = box.x + box.width / 2 + 12, box.y + 8
        tick(scene, f"{key}:mark", x, y - 4, now.note == "match") if now.note in (
            "match", "drop") else fork(scene, f"{key}:mark", x, y - 4)  # fmt: skip
        said = now.said if now.note != "split" else "split"
        colour = {"drop": "no", "match": "yes"}.get(now.note, "bold")
        scene.add(f"{key}:note", "text", f"small {colour}", text=shortened(said, 12), x=x + 8, y=y)
