"""Split: the eager and the lazy half of an evaluation, the buffers of both, and the merge."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cepviz.errors import CepError
from cepviz.steps import Matched, Move, Prune, Put, State, Test
from cepviz.trace import Snapshot, Trace
from cepviz.views.marks import LONGEST_TITLE
from cepviz.views.scene import Scene, shortened, stacked

#: Entries of a buffer that are shown; of more, the newest.
ROWS = 4
WIDE, HIGH, ACROSS, UP = 168, 106, 192, 134
LEFT, TOP = 16, 50


@dataclass
class Box:
    """A buffer of the picture: events of a variable, or what a join has made."""

    name: str  # of its state
    title: str
    column: int
    row: int
    kind: str  # eager, deferred, results, merged
    formula: str = ""
    parts: tuple[Box, ...] = ()
    held: tuple[str, ...] = ()


@dataclass
class Tree:
    """The boxes of one branch under one plan, and how many columns are eager."""

    prefix: str
    plan: str
    cut: int
    boxes: list[Box] = field(default_factory=list)


WORDS = {
    "eager": "eager",
    "deferred": "deferred events",
    "results": "eager results",
    "eager join": "partial results",
    "merged": "merged",
}


def split(trace: Trace, index: int | None = None) -> Scene:
    """Draws what `apam` holds after a step: eager variables on the left, deferred ones on the
    right, and over them the joins in the order of the plan, as in Figure 2(c) of the paper.

    Boxes fill as events come; a join that is being tried says what it compared. With OR there is a
    picture for each branch; after a change of plan, that of the new one.
    """
    trees, snapshot = _trees(trace, index)
    say = snapshot.say() if snapshot is not None else "Nothing has arrived yet."
    drawn = [_drawn(tree, snapshot, say) for tree in trees]
    scene = drawn[0] if len(drawn) == 1 else stacked(drawn)
    scene.say = say
    return scene


def split_text(trace: Trace, index: int | None = None) -> str:
    """The same for a terminal: a line for each buffer, the root of the joins first."""
    trees, snapshot = _trees(trace, index)
    lines = []
    for tree in trees:
        lines.append(f"split {tree.plan}")
        for box in reversed(tree.boxes):
            shown = [_entry(name, tree.prefix).replace(" ", "+") for name in box.held[-ROWS:]]
            more = f"+{len(box.held) - ROWS} " if len(box.held) > ROWS else ""
            said = f"{WORDS[box.kind]:16}{more}{' '.join(shown) or '-'}"
            lines.append(f"  {shortened(box.title, 16):16} {shortened(said, 90)}")
    if snapshot is not None:
        lines.append(shortened(snapshot.say(), 400))
    return "\n".join(lines)


# ---- what is held ----


def _trees(trace: Trace, index: int | None) -> tuple[list[Tree], Snapshot | None]:
    if not isinstance(trace, Trace):
        raise CepError(f"split shows a trace of the engine apam, not {type(trace).__name__}")
    leaves = [state for state in trace.graph.states if state.kind == "start"]
    if not leaves or not all(re.match("eager|deferred", state.label) for state in leaves):
        raise CepError(f"split shows a trace of the engine apam, and this is one of {trace.engine}")
    snapshot = None
    if len(trace):
        snapshot = trace.at(-1 if index is None else index)
    label = ""
    if snapshot is not None and snapshot.replan is not None:
        label = snapshot.replan.label
    chains: list[list[State]] = [[]]
    for state in trace.graph.states:
        chains[-1].append(state)
        if state.kind == "final":
            chains.append([])
    found = []
    for chain in chains[:-1]:
        prefix = chain[-1].name.removesuffix("F")
        if (prefix.startswith(label) if label else not re.match(r"p\d+:", prefix)) and len(chain):
            found.append(_tree(trace, chain[:-1], prefix, snapshot))
    return found, snapshot


def _tree(trace: Trace, states: list[State], prefix: str, snapshot: Snapshot | None) -> Tree:
    formulas = {edge.target: edge.formula for edge in trace.graph.edges}
    held = snapshot.buffers if snapshot is not None else {}
    leaves = [state for state in states if state.kind == "start"]
    cut = sum(state.label.startswith("eager") for state in leaves)
    names = [leaf.name.removeprefix(prefix) for leaf in leaves]
    apart = "" if all(len(name) == 1 for name in names) else " "
    tree = Tree(prefix, f"{apart.join(names[:cut])}/{apart.join(names[cut:])}", cut)
    joins = [state for state in states if state.kind == "middle"]
    below: Box | None = None
    for column, leaf in enumerate(leaves):
        kind = "eager" if column < cut else "deferred"
        own = leaf.label.partition(": ")[2]
        if cut == 1 and column == 0:
            kind = "results"
        box = Box(leaf.name, names[column], column, 0, kind, own, (), held.get(leaf.name, ()))
        tree.boxes.append(box)
        if below is not None:
            join = joins[column - 1]
            kind = "results" if column == cut - 1 else "eager join" if column < cut else "merged"
            title = apart.join(names[: column + 1])
            formula = " and ".join(formulas.get(join.name, ()))
            box = Box(join.name, title, column, column, kind, formula, (below, box),
                      held.get(join.name, ()))  # fmt: skip
            tree.boxes.append(box)
        below = box
    if snapshot is not None and below is not None:
        below.held = (*below.held, *_complete(trace, snapshot))
    return tree


def _complete(trace: Trace, snapshot: Snapshot) -> list[str]:
    """The matches that the event being read has completed so far."""
    found = []
    for number in snapshot.matches:
        step = trace.steps[number]
        if isinstance(step, Matched) and step.event == snapshot.event:
            found.append(step.run)
    return found


def _entry(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).replace("+", " ")


# ---- drawing ----


def _drawn(tree: Tree, snapshot: Snapshot | None, say: str) -> Scene:
    columns = sum(not box.parts for box in tree.boxes)
    levels = max(columns, 1)
    scene = Scene(2 * LEFT + columns * ACROSS - (ACROSS - WIDE),
                  TOP + (levels - 1) * UP + HIGH + 20, say)  # fmt: skip
    for name, first, last, said in (
        ("eager", 0, tree.cut, "eager: matched as events come"),
        ("lazy", tree.cut, columns, "lazy: merged at a final event"),
    ):
        if first == last:
            continue
        x = LEFT + first * ACROSS - 8
        width = (last - first) * ACROSS - (ACROSS - WIDE) + 16
        scene.add(f"half:{name}", "rect", "band", x=x, y=8, width=width,
                  height=scene.height - 16, rx=10)  # fmt: skip
        scene.label(f"half:{name}:said", x + 12, 28, said, "label", most=int(width / 8))
    step = snapshot.step if snapshot is not None else None
    for box in tree.boxes:
        for part in box.parts:
            x1, y1 = _x(part) + WIDE / 2, _y(part, levels)
            x2, y2 = _x(box) + WIDE / 2, _y(box, levels) + HIGH
            if part.column < box.column and not part.row:
                x2 = _x(box) + 26
                path = f"M{x1:g},{y1:g}v-4q0,-10 10,-10H{x2 - 10:g}q10,0 10,-10V{y2 + 2:g}"
            elif part.column < box.column:
                x1, y1 = _x(part) + WIDE, _y(part, levels) + HIGH / 2
                x2, y2 = _x(box) + 26, _y(box, levels) + HIGH
                path = f"M{x1:g},{y1:g}C{x2:g},{y1:g} {x2:g},{y1:g} {x2:g},{y2 + 2:g}"
            else:
                path = f"M{x1:g},{y1:g}V{y2 + 2:g}"
            active = isinstance(step, Test | Move) and step.run and _about(step, box)
            classes = ("take" if box.kind != "merged" else "store") + (" lit" if active else "")
            scene.add(f"flow:{part.name}:{box.name}", "path", classes, d=path)
    for box in tree.boxes:
        _box(scene, tree, box, levels, step)
    return scene


def _x(box: Box) -> float:
    return LEFT + box.column * ACROSS


def _y(box: Box, levels: int) -> float:
    return TOP + (levels - 1 - box.row) * UP


def _about(step: Test | Move, box: Box) -> bool:
    """Whether a step tries or makes what stands in a box."""
    return bool(box.parts) and step.edge == f"join {box.parts[0].name}"


def _box(scene: Scene, tree: Tree, box: Box, levels: int, step: object) -> None:
    key, x, y = f"box:{box.name}", _x(box), _y(box, levels)
    told = f"{box.title}: {WORDS[box.kind]}, {len(box.held)} held. {box.formula}"
    border = {"eager": "state", "eager join": "state", "results": "state fresh",
              "deferred": "hollow-square", "merged": "hollow-square"}[box.kind]  # fmt: skip
    trying = isinstance(step, Test | Move) and _about(step, box)
    if trying or (isinstance(step, Put) and step.buffer == box.name):
        border += " lit"
    scene.add(key, "rect", border, x=x, y=y, width=WIDE, height=HIGH, rx=8,
              title=shortened(told, LONGEST_TITLE))  # fmt: skip
    scene.label(f"{key}:name", x + 10, y + 19, box.title, "label", most=10)
    scene.label(f"{key}:kind", x + WIDE - 10, y + 19, WORDS[box.kind], "small end", most=16)
    lines: list[tuple[str, str]] = []
    if isinstance(step, Test) and trying:
        verdict = "yes" if step.passed else "no"
        said = ", ".join(test.said for test in step.tests) or "nothing to check"
        lines.append((f"{_entry(step.run, tree.prefix)}?", "small"))
        lines.append((said, verdict))
    elif box.formula:
        lines.append((box.formula, "small"))
    if isinstance(step, Prune) and step.buffer == box.name:
        gone = " ".join(_entry(name, tree.prefix) for name in step.events[:4])
        lines.append((f"out: {gone}{' …' if len(step.events) > 4 else ''}", "said-drop"))
    room = ROWS - len(lines) + (1 if not lines else 0)
    newest = box.held[-room:]
    for name in newest:
        fresh = isinstance(step, Put) and (step.buffer, step.event) == (box.name, name)
        done = isinstance(step, Matched) and name == step.run
        classes = "said-match" if done else "said-begin" if fresh else "text"
        lines.append((_entry(name, tree.prefix), classes))
    for number, (line, classes) in enumerate(lines):
        sized = {"yes": "small yes", "no": "small no"}.get(classes, classes)
        scene.label(f"{key}:{number}", x + 10, y + 37 + number * 15, line, sized, most=23)
    if len(box.held) > len(newest):
        more = f"+{len(box.held) - len(newest)}"
        scene.label(f"{key}:more", x + WIDE - 10, y + HIGH - 8, more, "small end")
