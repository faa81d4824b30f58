"""What one step says about an automaton: the edges it used, and who is in which state."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cepviz.steps import Drop, Graph, Matched, Merge, Move, Put, Scope, Spawn, Test, Tested
from cepviz.trace import Snapshot, Trace
from cepviz.views.marks import told_bindings
from cepviz.views.scene import shortened


@dataclass(frozen=True)
class Now:
    """What a step says about the graph: which edges it used, what it tested and where."""

    edges: frozenset[str] = frozenset()
    verdict: bool | None = None
    event: str = ""
    action: str = ""
    tests: tuple[Tested, ...] = ()
    state: str = ""
    note: str = ""  # split, drop, match or merge, shown at the state
    said: str = ""
    path: frozenset[str] = frozenset()  # the states of the current path, in a tree
    used: frozenset[str] = frozenset()  # and its edges


def now_of(trace: Trace, snapshot: Snapshot, run: str | None) -> Now:
    graph, step = trace.graph, snapshot.step
    history = _moves(trace, snapshot.index, run or str(getattr(step, "run", "")))
    path = used = frozenset[str]()
    if graph.kind == "tree":
        path = frozenset(end for move in history for end in (move.source, move.target))
        used = frozenset(move.edge for move in history)
        if isinstance(step, Test | Scope) and not path:
            path = frozenset(state.name for state in graph.states if state.kind == "start")
    here = _where(trace, snapshot.index, getattr(step, "run", ""))
    match step:
        case Test():
            edges = _edges(graph, step.edge)
            return Now(edges, step.passed, step.event, step.action, step.tests, step.state,
                        path=path, used=used)  # fmt: skip
        case Move():
            edges = _edges(graph, step.edge, step)
            return Now(edges, None, step.event, step.action, (), step.target, path=path, used=used)
        case Put() if graph.kind in ("chain", "tree"):
            edges = frozenset(_storing(graph, snapshot, step.buffer))
            return Now(edges, None, step.event, "store")
        case Spawn():
            return Now(state=step.state, note="split", said=step.because, path=path, used=used)
        case Merge():
            said = shortened(f"into {step.into}", 14)
            return Now(state=step.state, note="merge", said=said, path=path, used=used)
        case Drop():
            edges = frozenset(_forbidding(trace, step) if step.reason == "negation" else ())
            return Now(edges, None, step.culprit, "negate", (), here, "drop", step.reason,
                        path, used)  # fmt: skip
        case Matched():
            final, edge = _accepting(graph, here)
            return Now(edge, None, "", "proceed", (), final, "match", f"match #{step.number}",
                        path, used)  # fmt: skip
        case _:
            return Now(path=path, used=used)


def _moves(trace: Trace, index: int, run: str) -> list[Move]:
    """The moves of a run and its ancestors up to a step."""
    if not run or trace.graph.kind != "tree":
        return []
    steps = (trace[i] for i in trace.run_history(run, ancestors=True) if i <= index)
    return [step for step in steps if isinstance(step, Move)]


def _where(trace: Trace, index: int, run: str) -> str:
    """The state a run is or was in, by what was last said about it."""
    for place in reversed(trace.run_history(run) if run else []):
        step = trace[place]
        if place > index:
            continue
        if isinstance(step, Move):
            return step.target
        if isinstance(step, Test | Spawn):
            return step.state
    return ""


def _edges(graph: Graph, name: str, move: Move | None = None) -> frozenset[str]:
    """The edges a step used: the one it names, or, in a tree of joins, both sides of the join."""
    named = next((edge for edge in graph.edges if edge.name == name), None)
    if named is None and move is not None:
        same = (move.source, move.target, move.action)
        named = next((e for e in graph.edges if (e.source, e.target, e.action) == same), None)
    if named is None:
        return frozenset()
    if graph.kind == "zstream":
        return frozenset(edge.name for edge in graph.edges if edge.target == named.target)
    return frozenset({named.name})


def prefix_of(name: str) -> str:
    """What tells apart the states of several automata: `2:` of `2:q1`, `p3:2:` of `p3:2:q1`."""
    found = re.match(r"(p\d+:)?(\d+:)?", name)
    return found[0] if found else ""


def plan_of(name: str) -> str:
    """Of which plan a state or a run is: `p3:` of `p3:2:q1`; nothing for those of the first."""
    found = re.match(r"p\d+:", name)
    return found[0] if found else ""


def plans_in_use(trace: Trace, snapshot: Snapshot | None) -> list[str]:
    """The plan in use, and those before it that still have runs; the newest first. Of a trace
    without replans nothing: there is one plan for everything."""
    if not trace.counts().get("replan"):
        return []
    if snapshot is None or snapshot.replan is None:
        return [""]
    held = [*snapshot.runs, *(run.state for run in snapshot.runs.values())]
    busy = {plan_of(name) for name in held} - {snapshot.replan.label}
    return [snapshot.replan.label, *sorted(busy, key=lambda label: -int(label[1:-1] or 0))]


def graph_in_use(trace: Trace, plans: list[str]) -> Graph:
    """The automata of these plans alone; of the whole trace where there are none."""
    graph = trace.graph
    if not plans:
        return graph
    states = [s for plan in plans for s in graph.states if plan_of(s.name) == plan]
    edges = [e for plan in plans for e in graph.edges if plan_of(e.source) == plan]
    return Graph(tuple(states), tuple(edges), graph.kind)


def _storing(graph: Graph, snapshot: Snapshot, buffer: str) -> Iterable[str]:
    """The store edges that an event in an input buffer went along: those of states in use."""
    live = {run.state for run in snapshot.runs.values()}
    live |= {state.name for state in graph.states if state.kind == "start"}
    for edge in graph.edges:
        names = [prefix_of(edge.source) + name for name in edge.variable.split(", ")]
        if edge.action == "store" and edge.source in live and buffer in names:
            yield edge.name


def _forbidding(trace: Trace, step: Drop) -> Iterable[str]:
    """The negate edges that an event can have gone along."""
    types = {arrived.type for arrived in trace.events if arrived.event == step.culprit}
    labels = {state.name: state.label for state in trace.graph.states}
    for edge in trace.graph.edges:
        if edge.action == "negate" and labels[edge.target] in types:
            yield edge.name


def _accepting(graph: Graph, here: str) -> tuple[str, frozenset[str]]:
    """The final state of a match, and the edge to it where the run itself stays behind."""
    finals = [state.name for state in graph.states if state.kind == "final"]
    if here in finals:
        return here, frozenset()
    for edge in graph.edges:
        if edge.source == here and edge.target in finals:
            return edge.target, frozenset({edge.name})
    return next((name for name in finals if prefix_of(name) == prefix_of(here)), ""), frozenset()


def who_is_where(trace: Trace, snapshot: Snapshot | None) -> dict[str, dict[str, str]]:
    """What the badges count: state to run to what it holds. In a tree of joins, what nodes hold."""
    found: dict[str, dict[str, str]] = {}
    if snapshot is None:
        return found
    if trace.graph.kind == "zstream":
        for name, held in snapshot.buffers.items():
            found[name] = {entry: held_by(snapshot, entry) for entry in held}
        finals = {state.name for state in trace.graph.states if state.kind == "final"}
    for run in snapshot.runs.values():
        if trace.graph.kind != "zstream" or run.state in finals:
            found.setdefault(run.state, {})[run.id] = told_bindings(run.bindings)
    return found


def held_by(snapshot: Snapshot, entry: str) -> str:
    """What an entry of a tree's buffer stands for: itself, or the events of the run it names."""
    run = snapshot.runs.get(entry)
    return entry if run is None else told_bindings(run.bindings)


def searching_state(snapshot: Snapshot, step: Scope, graph: Graph) -> str:
    run = snapshot.runs.get(step.run)
    if run is not None:
        return run.state
    starts = [state.name for state in graph.states if state.kind == "start"]
    same = [name for name in starts if prefix_of(name) == prefix_of(step.buffer)]
    return same[0] if same else ""
