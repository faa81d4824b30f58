"""A chart of lines: numbers that were measured, as a picture like all others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cepviz.errors import CepError
from cepviz.events import Schema
from cepviz.views.axis import nice_times
from cepviz.views.marks import circle, diamond, width_of
from cepviz.views.scene import Number, Scene, shortened

LEFT, TOP, BOTTOM, ROW = 74, 34, 48, 16


def lines(
    series: Mapping[str, Mapping[Number, Number]] | Any,
    x: str = "",
    y: str = "",
    *,
    title: str = "",
    log: str = "",
    width: Number = 780,
    height: Number = 380,
) -> Scene:
    """Draws lines by name, each a mapping from x to y, with its name at its end.

    `series` may also be a DataFrame with a line for each column. `log` is `"x"`, `"y"` or `"xy"`.
    Lines differ by colour, dash and mark. A point that is missing, or that has no logarithm, is
    left out.

    >>> print(lines({"eager": {1: 10, 2: 40}, "lazy": {1: 3, 2: 4}}, "window", "evaluations"))
    evaluations by window: eager 10 to 40, lazy 3 to 4.
    """
    if log not in ("", "x", "y", "xy"):
        raise CepError(f"log is '', 'x', 'y' or 'xy', not {log!r}")
    given = series.to_dict() if hasattr(series, "to_dict") else series
    points = {
        str(name): [
            (at, value)
            for at, value in sorted(line.items())
            if _drawn(at, "x" in log) and _drawn(value, "y" in log)
        ]
        for name, line in given.items()
    }
    points = {name: listed for name, listed in points.items() if listed}
    if not points:
        raise CepError("a chart needs a line with at least one point")
    scene = Scene(width, height, title or _said(points, x, y))
    right = width - 24 - max(width_of(shortened(name), 13) for name in points)
    every = [point for listed in points.values() for point in listed]
    across = _Axis([at for at, _ in every], LEFT, right, "x" in log)
    up = _Axis([value for _, value in every], height - BOTTOM, TOP, "y" in log, zero=True)
    _grid(scene, across, up, x, y, title, right, height)
    ends: list[tuple[float, int, str]] = []
    for number, (name, listed) in enumerate(points.items()):
        placed = [(across(at), up(value)) for at, value in listed]
        path = "M" + "L".join(f"{px:g},{py:g}" for px, py in placed)
        scene.add(f"line:{name}", "path", f"line-{number % 12}", title=name, d=path)
        for (px, py), (at, value) in zip(placed, listed, strict=True):
            said = f"{name}: {_told(value)} at {x or 'x'} {_told(at)}"
            scene.add(f"mark:{name}:{at}", "path", f"mark-{number % 6}", title=said,
                      d=_mark(number, px, py))  # fmt: skip
        ends.append((placed[-1][1], number, name))
    below = -math.inf
    for py, number, name in sorted(ends):
        below = max(py + 4, below + ROW)
        scene.label(f"name:{name}", right + 12, round(below, 1), name, f"name-{number % 6}")
    return scene


def _drawn(value: Any, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def _said(points: Mapping[str, list[tuple[Number, Number]]], x: str, y: str) -> str:
    told = ", ".join(
        f"{name} {_told(listed[0][1])} to {_told(listed[-1][1])}" for name, listed in points.items()
    )
    return f"{y or 'values'}{f' by {x}' if x else ''}: {told}."


class _Axis:
    """From a value to a place, and the values that are marked."""

    def __init__(
        self, values: list[Number], low: Number, high: Number, log: bool, zero: bool = False
    ):
        self.low, self.high, self.log = low, high, log
        least, most = min(values), max(values)
        if log:
            self.ticks: list[Number] = _decades(least, most)
        else:
            least = min(0, least) if zero else least
            few = sorted(set(values))
            self.ticks = nice_times(float(least), float(most), Schema(), 6)
            if not zero and len(few) <= 8:
                self.ticks = few
            if zero and self.ticks[-1] < most:
                self.ticks.append(2 * self.ticks[-1] - self.ticks[-2] if self.ticks[1:] else most)
        if zero or log:
            least, most = min(least, self.ticks[0]), max(most, self.ticks[-1])
        self.first, self.last = self._place(least), self._place(most)

    def _place(self, value: Number) -> float:
        return math.log10(value) if self.log else float(value)

    def __call__(self, value: Number) -> float:
        room = self.last - self.first
        share = (self._place(value) - self.first) / room if room else 0.5
        return round(self.low + share * (self.high - self.low), 1)


def _decades(least: Number, most: Number) -> list[Number]:
    """Powers of ten around two numbers; where that is one step, also 2 and 5.

    >>> _decades(0.001, 1), _decades(30, 80)
    ([0.001, 0.01, 0.1, 1], [20, 50, 100])
    """
    low, high = math.floor(math.log10(least) + 1e-9), math.ceil(math.log10(most) - 1e-9)
    digits = (1,) if high - low > 1 else (1, 2, 5)
    found = [n * 10**k if k >= 0 else n / 10**-k for k in range(low, high + 1) for n in digits]
    first = max((n for n in found if n <= least * 1.000001), default=found[0])
    last = min((n for n in found if n >= most * 0.999999), default=found[-1])
    return [n for n in found if first <= n <= last]


def _told(value: Number) -> str:
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.3g}"


def _grid(
    scene: Scene,
    across: _Axis,
    up: _Axis,
    x: str,
    y: str,
    title: str,
    right: Number,
    height: Number,
) -> None:
    bottom = height - BOTTOM
    for value in up.ticks:
        at = up(value)
        scene.add(f"y:{value}", "path", "grid", d=f"M{LEFT},{at:g}H{right:g}")
        scene.label(f"y:{value}:text", LEFT - 8, at + 4, _told(value), "small end")
    for value in across.ticks:
        at = across(value)
        scene.add(f"x:{value}", "path", "grid", d=f"M{at:g},{bottom}v5")
        scene.label(f"x:{value}:text", at, bottom + 19, _told(value), "small middle")
    scene.label("x", (LEFT + right) / 2, height - 10, x, "text middle", most=80)
    scene.label("y", 12, 18, " · ".join(filter(None, [title, y])), "label", most=100)


def _mark(number: int, x: float, y: float) -> str:
    match number % 4:
        case 0:
            return circle(x, y, 4)
        case 1:
            return f"M{x - 3.5:g},{y - 3.5:g}h7v7h-7Z"
        case 2:
            return diamond(x, y, 5)
    return f"M{x - 4.5:g},{y + 3.5:g}L{x:g},{y - 4.5:g}L{x + 4.5:g},{y + 3.5:g}Z"
