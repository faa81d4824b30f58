"""Intervals and what each context makes of them: bars above, the outputs of every context below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cepviz.engines.base import Match
from cepviz.events import Event
from cepviz.views.marks import tip
from cepviz.views.scene import Number, Scene

_LEFT, _RIGHT, _ROW, _TOP, _STRIP = 96, 20, 26, 30, 18


@dataclass(frozen=True)
class Bar:
    """Where an interval is drawn."""

    event: Event
    start: float
    end: float
    y: float


def scale(low: Number, high: Number, width: int = 760) -> dict[str, float]:
    """Where the picture's time begins, and how many pixels a unit of it has."""
    return {"left": _LEFT, "per": (width - _LEFT - _RIGHT) / max(high - low, 1)}


def bars(events: Iterable[Event], low: Number, high: Number, width: int = 760) -> list[Bar]:
    """The places of intervals: a lane for each type, overlapping ones below each other."""
    per = scale(low, high, width)["per"]
    lanes: dict[str, list[Event]] = {}
    for event in events:
        lanes.setdefault(event.type, []).append(event)
    placed = []
    y = float(_TOP)
    for name in sorted(lanes):
        rows: list[Number] = []
        for event in sorted(lanes[name], key=lambda e: (e.start, e.end)):
            free = next((n for n, last in enumerate(rows) if last < event.start), len(rows))
            rows[free : free + 1] = [event.end]
            x1, x2 = (_LEFT + (time - low) * per for time in (event.start, event.end))
            placed.append(Bar(event, round(x1, 1), round(x2, 1), y + _ROW * free))
        y += _ROW * len(rows) + 8
    return placed


def contexts(
    events: Sequence[Event],
    outputs: Mapping[str, Sequence[Match]],
    low: Number,
    high: Number,
    width: int = 760,
) -> Scene:
    """Draws intervals, and below them the outputs of each context as lines over their events."""
    placed = bars(events, low, high, width)
    bottom = max((bar.y for bar in placed), default=_TOP) + _ROW + 8
    height = bottom + 30 + sum(28 + _STRIP * max(1, len(found)) for found in outputs.values())
    said = ", ".join(f"{name} {len(found)}" for name, found in outputs.items())
    scene = Scene(width, height, f"Outputs: {said}.")
    per = scale(low, high, width)["per"]
    for time in range(int(low), int(high) + 1, max(1, int(high - low) // 10)):
        x = round(_LEFT + (time - low) * per, 1)
        scene.add(f"grid:{time}", "line", "grid dim", x1=x, y1=_TOP - 6, x2=x, y2=height - 6)
        scene.add(f"time:{time}", "text", "small middle", text=str(time), x=x, y=16)
    seen: set[str] = set()
    for bar in placed:
        event = bar.event
        if event.type not in seen:
            seen.add(event.type)
            scene.label(f"type:{event.type}", 12, bar.y + 14, event.type, "label", 9)
        wide = max(bar.end - bar.start, 5)
        scene.add(f"bar:{event.label}", "rect", "dot", title=tip(repr(event)), x=bar.start,
                  y=bar.y + 5, width=round(wide, 1), height=8, rx=3)  # fmt: skip
        scene.label(f"bar:{event.label}:name", bar.end + 7, bar.y + 13, event.label, "text halo", 8)
    at = {bar.event.label: bar for bar in placed}
    y = bottom + 14
    for name, found in outputs.items():
        scene.add(f"context:{name}", "text", "label", text=name, x=12, y=y)
        scene.add(f"context:{name}:line", "line", "grid", x1=12, y1=y + 5, x2=width - 12, y2=y + 5)
        y += 20
        if not found:
            scene.add(f"context:{name}:none", "text", "small", text="nothing", x=_LEFT, y=y)
        for number, match in enumerate(found):
            _output(scene, f"output:{name}:{number}", match, at, y - 4)
            y += _STRIP
        y += 8 if found else _STRIP + 8
    return scene


def _output(scene: Scene, key: str, match: Match, at: Mapping[str, Bar], y: float) -> None:
    """An output: a line over its time, thick where its events are."""
    shown = [at[event.label] for event in match.events if event.label in at]
    first, last = min(bar.start for bar in shown), max(bar.end for bar in shown)
    said = " ".join(event.label for event in match.events)
    scene.add(key, "line", "run", title=tip(repr(match)), x1=first, y1=y, x2=last, y2=y)
    for bar in shown:
        scene.add(f"{key}:{bar.event.label}", "rect", "match", title=tip(bar.event.label),
                  x=bar.start, y=y - 3, width=round(max(bar.end - bar.start, 5), 1), height=6,
                  rx=2)  # fmt: skip
    scene.label(f"{key}:said", 12, y + 4, said, "small", 13)
