"""Latency: candidates' estimated and simulated latency as stacked bars, and the queue over time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cepviz.errors import CepError, SetupError
from cepviz.latency import Cell, Comparison, Queued, spoken_rate
from cepviz.plans.apam import spoken_time
from cepviz.views.metrics import plain_text
from cepviz.views.style import COLOURS

#: More points of a line than this are thinned out: a screen has no more.
MOST_POINTS = 2000
PARTS = {"waiting": ("orange", "/"), "service": ("blue", "")}


def latencies(found: Comparison, *, theme: str = "auto") -> Any:
    """Plots APAM's Figures 4 to 6: a column for each rate, the candidates from lazy to eager, below
    what was estimated and above what came of it in the simulation.

    A bar is the time a final event waits and the time it is served. The plan that was chosen is
    underlined; without end is what the model says where the server cannot keep up. Returns a plotly
    figure; `theme` is `light`, `dark`, or `auto`, which suits both.
    """
    subplots = _plotly(theme)
    rates = found.rates
    titles = [f"{spoken_rate(rate)} events/s" for rate in rates]
    figure = subplots(
        rows=2, cols=len(rates), subplot_titles=titles, vertical_spacing=0.16,
        horizontal_spacing=0.32 / max(len(rates), 4),
    )  # fmt: skip
    which = 1 if theme == "dark" else 0
    for column, rate in enumerate(rates, 1):
        cells = found.at(rate)
        names = [_name(cell) for cell in cells]
        for row, kind in ((1, "simulated"), (2, "estimated")):
            values = {part: [_part(cell, kind, part) for cell in cells] for part in PARTS}
            finite = [sum(pair) for pair in zip(*values.values(), strict=True)]
            top = max((value for value in finite if math.isfinite(value)), default=1.0)
            size, unit = _unit(top)
            for part, (hue, shape) in PARTS.items():
                shown = [v / size if math.isfinite(v) else 0.0 for v in values[part]]
                figure.add_bar(
                    x=names, y=shown, name=part, legendgroup=part,
                    showlegend=column == 1 and row == 1,
                    marker={"color": COLOURS[hue][which], "pattern": {"shape": shape}},
                    text=[spoken_time(v) for v in values[part]], textposition="none",
                    hovertemplate="%{x} " + kind + " " + part + ": %{text}<extra></extra>",
                    row=row, col=column,
                )  # fmt: skip
            for name, value in zip(names, finite, strict=True):
                if not math.isfinite(value):
                    figure.add_annotation(
                        x=name, y=0, text="∞", showarrow=False, yanchor="bottom",
                        font={"size": 16}, row=row, col=column,
                    )  # fmt: skip
            title = f"{kind}, {unit}" if column == 1 else unit
            figure.update_yaxes(title_text=title, row=row, col=column, rangemode="tozero")
    figure.update_layout(barmode="stack", bargap=0.35, legend={"orientation": "h", "y": 1.14})
    return _styled(figure, theme, 520)


def queue(found: Queued, *, theme: str = "auto") -> Any:
    """Plots the length of the queue over time, and the latency of each true final event."""
    subplots = _plotly(theme)
    which = 1 if theme == "dark" else 0
    titles = ["events waiting or being served", "latency of true final events"]
    figure = subplots(rows=2, cols=1, shared_xaxes=True, subplot_titles=titles,
                      vertical_spacing=0.14)  # fmt: skip
    times, lengths = _thinned(*found.queue())
    figure.add_scatter(
        x=times, y=lengths, mode="lines", showlegend=False, name="queue",
        line={"color": COLOURS["vermilion"][which], "shape": "hv", "width": 1.2},
        hovertemplate="%{y:,} events at %{x:.4g} s<extra></extra>", row=1, col=1,
    )  # fmt: skip
    arrived = found.arrivals[found.counted]
    size, unit = _unit(float(found.latency.max()) if len(found.latency) else 1.0)
    for name, hue, mark, values in (
        ("latency", "blue", "circle", found.latency), ("waiting", "orange", "x", found.waiting),
    ):  # fmt: skip
        figure.add_scatter(
            x=arrived, y=values / size, mode="markers", name=name,
            marker={"color": COLOURS[hue][which], "symbol": mark, "size": 5},
            text=[spoken_time(value) for value in values],
            hovertemplate=name + " %{text} at %{x:.4g} s<extra></extra>", row=2, col=1,
        )  # fmt: skip
    begin = float(found.arrivals[found.begin]) if found.begin else None
    if begin is not None:
        figure.add_vline(x=begin, line={"dash": "dot", "color": COLOURS["faint"][which]})
        figure.add_annotation(
            x=begin, y=1, yref="y domain", text="warm-up ends", showarrow=False, xanchor="left",
            font={"size": 11},
        )  # fmt: skip
    figure.update_yaxes(title_text="events", row=1, col=1, rangemode="tozero")
    figure.update_yaxes(title_text=unit, row=2, col=1, rangemode="tozero")
    figure.update_xaxes(title_text="seconds", row=2, col=1)
    said = f"{plain_text(found.name, 40)} at {spoken_rate(found.rate)} events/s, "
    said += f"utilisation {found.utilisation:.2f}"
    figure.update_layout(title={"text": said, "font": {"size": 14}},
                         legend={"orientation": "h", "y": -0.16})  # fmt: skip
    return _styled(figure, theme, 480)


def _plotly(theme: str) -> Any:
    if theme not in ("auto", "light", "dark"):
        raise CepError(f"the theme is 'auto', 'light' or 'dark', not {theme!r}")
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise SetupError("this figure needs plotly: pip install 'cepviz[lab]'") from None
    return make_subplots


def _styled(figure: Any, theme: str, height: int) -> Any:
    which = 1 if theme == "dark" else 0
    ink, line, paper = "#7c7f85", "rgba(128,128,128,0.3)", "rgba(0,0,0,0)"
    if theme != "auto":
        ink, line, paper = (COLOURS[name][which] for name in ("ink", "line", "paper"))
    figure.update_layout(
        template="none", paper_bgcolor=paper, plot_bgcolor=paper, font={"color": ink, "size": 12},
        height=height, margin={"l": 64, "r": 20, "t": 84, "b": 64},
    )  # fmt: skip
    figure.update_xaxes(gridcolor=line, zerolinecolor=line, linecolor=line)
    figure.update_yaxes(gridcolor=line, zerolinecolor=line)
    return figure


def _name(cell: Cell) -> str:
    name = plain_text(str(cell.plan), 20)
    return f"<b><u>{name}</u></b>" if cell.chosen else name


def _part(cell: Cell, kind: str, part: str) -> float:
    if kind == "estimated":
        return float(getattr(cell.estimate, part))
    return cell.queued.mean_waiting if part == "waiting" else cell.queued.mean_service


def _unit(seconds: float) -> tuple[float, str]:
    """The unit that suits a time: its seconds, and its name."""
    for size, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return size, name
    return 1e-6, "µs"


def _thinned(times: Any, lengths: Any) -> tuple[Any, Any]:
    """Of long lines the highest point of each stretch."""
    if len(times) <= MOST_POINTS:
        return times, lengths
    stretch = -(-len(times) // MOST_POINTS)
    starts = np.arange(0, len(times), stretch)
    highest = [start + int(np.argmax(lengths[start : start + stretch])) for start in starts]
    return times[highest], lengths[highest]
