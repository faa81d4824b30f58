"""What the lines of an automaton mean, and its states and badges in words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from cepviz.steps import Graph, State
from cepviz.views.layout import Point
from cepviz.views.marks import LISTED, badge, fork, head, width_of
from cepviz.views.scene import Scene, shortened

ACTIONS = ("begin", "take", "ignore", "proceed", "store", "negate")


def about_state(graph: Graph, state: State) -> str:
    """A state in words, for its tooltip."""
    kinds = {"start": "where runs begin", "final": "where matches end",
             "negated": "an event here forbids the match"}  # fmt: skip
    parts = [state.name, kinds.get(state.kind, "")]
    verb = "is" if state.kind == "negated" else "waits for"
    verb = "checks" if graph.kind == "zstream" else verb
    parts += [f"{verb} {state.label}" if state.label else ""]
    parts += [f"may split: {', '.join(state.choices)}" if state.choices else ""]
    return ", ".join(filter(None, parts))


def told_runs(graph: Graph, state: State, here: Mapping[str, str]) -> str:
    """The tooltip of a badge: the first runs with what they hold, then how many more."""
    thing = "partial match" if graph.kind == "zstream" else "live run"
    many = f"{thing}{'' if len(here) == 1 else 'es' if thing.endswith('h') else 's'}"
    lines = [f"{len(here)} {many} at {state.name}"]
    for name, held in [*here.items()][:LISTED]:
        lines.append(f"{name}: {shortened(held, 60)}" if held and held != name else name)
    rest = len(here) - LISTED
    return "\n".join([*lines, *([f"and {rest} more"] if rest > 0 else [])])


def legend_of(graph: Graph, width: float) -> Scene:
    """One row (or more) that says what the kinds of lines in use mean."""
    used = {edge.action for edge in graph.edges}
    words = {"negate": "forbids", "take": "join" if graph.kind == "zstream" else "take"}
    items: list[tuple[str, str]] = [(action, words.get(action, action)) for action in ACTIONS
                                    if action in used]  # fmt: skip
    if any(state.choices for state in graph.states):
        items.append(("fork", "may split"))
    items.append(("badge", "partial matches" if graph.kind == "zstream" else "live runs"))
    return _drawn_legend(tuple(items), width)


@lru_cache(maxsize=64)
def _drawn_legend(items: tuple[tuple[str, str], ...], width: float) -> Scene:
    scene = Scene(0, 0)
    x, y, right = 12.0, 18.0, 0.0
    for kind, word in items:
        long = 48 + width_of(word, 11) + 16
        if x + long > max(width, 360) and x > 12:
            x, y = 12.0, y + 20
        _draw_sample(scene, kind, x, y)
        scene.add(f"{kind}:word", "text", "small", text=word, x=x + 44, y=y + 4)
        x += long
        right = max(right, x)
    scene.width, scene.height = right, y + 14
    return scene


def _draw_sample(scene: Scene, kind: str, x: float, y: float) -> None:
    if kind == "fork":
        fork(scene, "fork", x + 28, y)
    elif kind == "badge":
        badge(scene, "badge", x + 26, y, 2, "how many runs are in a state", False)
    else:
        scene.add(kind, "path", kind, d=f"M{x:g},{y:g} L{x + 28:g},{y:g}")
        head(scene, f"{kind}:head", f"{kind}-head", Point(x + 38, y), Point(x, y))
