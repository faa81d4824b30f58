"""Invariants: the two sides of every condition a plan rests on, and how far apart they are."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

from cepviz.steps import Check, Replan, estimate, plain
from cepviz.trace import Trace
from cepviz.views.marks import LONGEST_TITLE
from cepviz.views.scene import Scene, remembered, shortened

LEFT, BAR, ROW, TOP = 232, 400, 84, 46
WIDTH = LEFT + BAR + 262


@dataclass
class Epoch:
    """The time of one plan: its invariants in the order of their first check."""

    start: int
    replan: Replan | None = None
    before: Check | None = None  # the check that broke and so brought this plan
    names: list[str] = field(default_factory=list)
    largest: float = 0.0


def _epochs(trace: Trace) -> list[Epoch]:
    epochs = [Epoch(-1)]
    broken: Check | None = None
    for index, step in enumerate(trace):
        if isinstance(step, Replan):
            epochs.append(Epoch(index, step, broken))
            broken = None
        elif isinstance(step, Check):
            epoch = epochs[-1]
            broken = broken if step.holds else step
            if step.invariant not in epoch.names:
                epoch.names.append(step.invariant)
            epoch.largest = max(epoch.largest, *map(_finite, (step.left_value, _limit(step))))
    return epochs


def _finite(value: float | None) -> float:
    return abs(value) if value is not None and math.isfinite(value) else 0.0


def _limit(check: Check) -> float | None:
    """What the left side must stay below: the right one, and its distance more."""
    right = plain(check.right_value)
    return None if right is None else right * (1 + (plain(check.distance) or 0.0))


def _gap(check: Check) -> float | None:
    """By how much the left side is below its limit; below zero when it broke."""
    left, limit = plain(check.left_value), _limit(check)
    return None if left is None or limit is None else limit - left


def _slack(check: Check) -> str:
    gap = _gap(check)
    if gap is None:
        return "a side is unknown"
    right = _finite(check.right_value)
    share = f", {abs(gap) / right:.0%} of the right side" if right else ""
    if check.holds:
        return f"gap {estimate(float(gap))}{share}"
    return f"crossed by {estimate(float(-gap))}{share}" if gap < 0 else f"no gap left{share}"


def _distance(check: Check) -> str:
    limit = _limit(check)
    if not check.distance or limit is None:
        return ""
    return f"distance {estimate(check.distance * 100)}%: breaks at {estimate(limit)}"


def _at(trace: Trace, index: int | None) -> tuple[Epoch, dict[str, Check], str]:
    if len(trace) == 0:
        return Epoch(-1), {}, "Nothing happened."
    snapshot = trace.at(-1 if index is None else index)
    epochs = remembered(trace, "epochs", lambda: _epochs(trace))
    epoch = epochs[bisect_right(epochs, snapshot.index, key=lambda e: e.start) - 1]
    return epoch, dict(snapshot.invariants), snapshot.say()


def invariants(trace: Trace, index: int | None = None) -> Scene:
    """Draws each invariant of the plan in use: both sides as bars, the gap, and whether it holds.

    The plan stays as it is while every left side is below its right side. The bars of one plan
    have one scale, so that two sides can be seen to come closer from check to check.
    """
    epoch, checks, say = _at(trace, index)
    rows = max(len(epoch.names), 1)
    scene = Scene(WIDTH, TOP + rows * ROW + 34, say)
    head = "Plan in use" if epoch.replan is None else f"New plan {epoch.replan.after}"
    if epoch.replan is None and trace.plan:
        head = f"Plan {trace.plan}"
    scene.label("plan", 12, 20, head, "label", most=70)
    because = ""
    if epoch.replan is not None:
        because = f"instead of {epoch.replan.before}, because {epoch.replan.because}"
        if epoch.before is not None:
            because += f" ({_sides(epoch.before)})"
    scene.label("because", 12, 38, because, "small", most=130)
    if not epoch.names:
        scene.label("none", 12, TOP + 24, "No invariant of this plan was checked.", "small")
    for row, name in enumerate(epoch.names):
        _row(scene, name, checks.get(name), TOP + row * ROW, epoch.largest or 1.0)
    _legend(scene, TOP + rows * ROW + 20)
    return scene


def _sides(check: Check) -> str:
    left, right = (estimate(plain(v)) for v in (check.left_value, check.right_value))
    return f"{check.left} {left} < {check.right} {right}"


def _row(scene: Scene, name: str, check: Check | None, y: float, largest: float) -> None:
    key = f"invariant:{name}"
    y += 8
    scene.add(f"{key}:line", "line", "grid", x1=12, y1=y, x2=WIDTH - 12, y2=y)
    scene.label(f"{key}:name", 12, y + 21, f"{name}", "label", most=26)
    if check is None:
        scene.label(f"{key}:word", 12, y + 39, "not checked yet", "small")
        return
    title = shortened(check.say(), LONGEST_TITLE)
    word, classes = ("holds, watched", "small") if check.holds else ("✕ broken", "text no")
    scene.label(f"{key}:word", 12, y + 39, word, classes)
    scene.label(f"{key}:slack", 12, y + 55, _slack(check), "small", most=40)
    scene.label(f"{key}:distance", 12, y + 70, _distance(check), "small", most=40)

    def x(value: float | None) -> float:
        return round(LEFT + BAR * _finite(value) / largest, 1)

    ends, limit = (x(check.left_value), x(check.right_value)), x(_limit(check))
    sides = [
        ("left", check.left, check.left_value, "watched" if check.holds else "broken"),
        ("right", check.right, check.right_value, "other-side"),
    ]
    for row, (side, text, value, filled) in enumerate(sides):
        top, end = y + 14 + row * 25, ends[row]
        scene.add(
            f"{key}:{side}", "rect", filled, x=LEFT, y=top, width=max(end - LEFT, 1), height=15,
            title=title,
        )  # fmt: skip
        said = f"{text} {estimate(plain(value))}"
        scene.label(f"{key}:{side}:text", max(*ends, limit) + 12, top + 12, said, "text", most=36)
    if check.distance:  # the right side, lengthened by what the left one may have more
        path = f"M{ends[1]},{y + 46}H{limit}m0,-6v12"
        scene.add(f"{key}:limit", "path", "edge", d=path, title=_distance(check))
    low, high = min(ends[0], limit), max(ends[0], limit)
    middle = y + 34
    # The gap lies between the two ends; where it is crossed, it is crossed out.
    path = f"M{low},{y + 10}V{y + 58}M{high},{y + 10}V{y + 58}M{low},{middle}H{high}"
    if check.holds:
        scene.add(f"{key}:gap", "path", "now", d=path, title=_slack(check))
    else:
        at = (low + high) / 2
        path += f"M{at - 6:g},{middle - 6}l12,12m0,-12l-12,12"
        scene.add(f"{key}:gap", "path", "drop", d=path, title=_slack(check))


def _legend(scene: Scene, y: float) -> None:
    items = [("watched", "left side"), ("other-side", "right side, must stay larger")]
    items.append(("broken", "left side of a broken one"))
    x = 12.0
    for classes, words in items:
        scene.add(f"legend:{classes}", "rect", classes, x=x, y=y - 9, width=18, height=10)
        scene.label(f"legend:{classes}:text", x + 25, y, words, "small")
        x += 46 + len(words) * 6.5


def invariants_text(trace: Trace, index: int | None = None) -> str:
    """The invariants in letters: a line for each, with both sides, the gap and the verdict.

    >>> trace = Trace()
    >>> trace(Check("1", "rate(A)", "rate(B)", 3.0, 4.0, True))
    >>> print(invariants_text(trace))
    holds   1  rate(A) 3 < rate(B) 4  gap 1, 25% of the right side
    """
    epoch, checks, _ = _at(trace, index)
    lines = []
    if epoch.replan is not None:
        lines.append(epoch.replan.say())
    rows = []
    for name in epoch.names:
        check = checks.get(name)
        if check is None:
            rows.append(("unknown", name, "not checked yet", ""))
        else:
            rows.append(("holds" if check.holds else "BROKEN", name, _sides(check), _slack(check)))
    wide = [max((len(shortened(row[c], 60)) for row in rows), default=0) for c in range(3)]
    wide[0] = 6
    for row in rows:
        cells = (shortened(cell, 60) for cell in row)
        lines.append("  ".join(map(str.ljust, cells, [*wide, 0])).rstrip())
    return "\n".join(lines) or "No invariant was checked."
