"""What each policy costs over time: a line each, with a mark where its plan was replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cepviz.steps import estimate
from cepviz.views.scene import Scene, shortened

Points = Sequence[tuple[float, float]]

LEFT, TOP, HEIGHT, LEGEND = 62, 26, 150, 256

#: A line is told by its dashes and its mark as well as by its colour.
LINES = ("take", "store", "proceed", "negate", "ignore", "window")
DASHES = ("", "1 5", "8 4", "8 3 2 3", "5 4", "12 3")


def costs(
    lines: Mapping[str, Points],
    replans: Mapping[str, Sequence[float]] | None = None,
    *,
    y: str = "condition evaluations per event",
    width: int = 960,
) -> Scene:
    """Draws a line for each name over the events read, and ▲ where a plan took over.

    >>> print(costs({"static": [(0, 5.0), (100, 9.0)], "invariant": [(0, 5.0), (100, 4.0)]}))
    condition evaluations per event, now: static 9, invariant 4.
    """
    replans = replans or {}
    now = ", ".join(f"{name} {estimate(points[-1][1])}" for name, points in lines.items() if points)
    scene = Scene(width, TOP + HEIGHT + 40, f"{y}, now: {now}." if now else "Nothing was read yet.")
    most_x = max((x for points in lines.values() for x, _ in points), default=0) or 1
    most_y = max((value for points in lines.values() for _, value in points), default=0) or 1
    reach = width - LEFT - LEGEND

    def at(x: float, value: float) -> tuple[float, float]:
        return LEFT + reach * x / most_x, TOP + HEIGHT * (1 - value / most_y)

    scene.label("y", 8, 14, y, "small", most=60)
    for number in range(3):
        value = most_y * number / 2
        _, height = at(0, value)
        scene.add(f"grid:{number}", "line", "grid", x1=LEFT, y1=height, x2=LEFT + reach, y2=height)
        scene.add(f"grid:{number}:text", "text", "small end", text=estimate(value),
                  x=LEFT - 6, y=height + 4)  # fmt: skip
    scene.add("x", "text", "small end", text=f"{most_x:,.0f} events", x=LEFT + reach,
              y=TOP + HEIGHT + 18)  # fmt: skip
    for number, (name, points) in enumerate(lines.items()):
        style = LINES[number % len(LINES)]
        dash = DASHES[number % len(DASHES)]
        placed = [at(x, value) for x, value in points]
        path = " ".join(f"{'L' if n else 'M'}{x:.1f} {h:.1f}" for n, (x, h) in enumerate(placed))
        if path:
            scene.add(f"line:{number}", "path", style, d=path, fill="none",
                      stroke_dasharray=dash)  # fmt: skip
        for place, x in enumerate(replans.get(name, ())):
            value = next((v for px, v in points if px >= x), points[-1][1] if points else 0)
            left, height = at(x, value)
            scene.add(f"replan:{number}:{place}", "path", "match",
                      d=f"M{left:.1f} {height - 7:.1f}l5 9h-10z",
                      title=f"{name} replans after {x:,.0f} events")  # fmt: skip
        row = TOP + 10 + 22 * number
        start = LEFT + reach + 16
        scene.add(f"legend:{number}", "path", style, d=f"M{start} {row - 4}h30",
                  stroke_dasharray=dash)  # fmt: skip
        said = f"{name} {estimate(points[-1][1])}" if points else name
        scene.add(f"legend:{number}:text", "text", "text", text=shortened(said, 27),
                  title=said, x=start + 36, y=row)  # fmt: skip
    row = TOP + 10 + 22 * len(lines)
    start = LEFT + reach + 16
    scene.add("legend:replan", "path", "match", d=f"M{start + 15} {row - 9}l5 9h-10z")
    scene.add("legend:replan:text", "text", "small", text="plan replaced", x=start + 36, y=row)
    return scene
