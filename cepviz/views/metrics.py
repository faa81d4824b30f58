"""Metrics: what the work of an engine grew to, event by event, for one trace or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cepviz.errors import CepError, SetupError
from cepviz.steps import Arrive, Matched, Prune, Put, Test
from cepviz.trace import Trace
from cepviz.views.runs import lives
from cepviz.views.scene import remembered, shortened
from cepviz.views.style import COLOURS, HUES

#: Names and, for a picture, what the numbers count.
SERIES = {
    "evaluations": "tests so far",
    "live runs": "runs",
    "buffered events": "entries in buffers",
    "matches": "matches so far",
}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class Measures:
    """For every event of a trace, how things stood when it was done with."""

    events: tuple[str, ...]
    series: Mapping[str, tuple[int, ...]]


def measures(trace: Trace) -> Measures:
    """The four numbers of a trace after each of its events."""
    return remembered(trace, "measures", lambda: _measures(trace))


def _measures(trace: Trace) -> Measures:
    change = [0] * (len(trace) + 1)
    for life in lives(trace):
        change[life.birth] += 1
        if life.end is not None:
            change[life.end] -= 1
    buffers: dict[str, set[str]] = {}
    labels: list[str] = []
    rows: list[tuple[int, int, int, int]] = []
    tests = live = held = matches = 0
    for index, step in enumerate(trace):
        if isinstance(step, Arrive):
            if labels:
                rows.append((tests, live, held, matches))
            labels.append(step.event)
        elif isinstance(step, Test):
            tests += 1
        elif isinstance(step, Matched):
            matches += 1
        elif isinstance(step, Put):
            inside = buffers.setdefault(step.buffer, set())
            held += step.event not in inside
            inside.add(step.event)
        elif isinstance(step, Prune):
            inside = buffers.get(step.buffer, set())
            held -= len(inside.intersection(step.events))
            inside.difference_update(step.events)
        live += change[index]
    if labels:
        rows.append((tests, live, held, matches))
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return Measures(tuple(labels), dict(zip(SERIES, columns, strict=True)))


def named(traces: Any) -> dict[str, Trace]:
    """Traces by name: given so, or named by their engine and plan."""
    if isinstance(traces, Trace):
        traces = [traces]
    if isinstance(traces, Mapping):
        found = {str(name): trace for name, trace in traces.items()}
    elif isinstance(traces, Iterable):
        found = {}
        for trace in traces:
            plan = getattr(trace, "plan", None)
            name = f"{getattr(trace, 'engine', '') or 'trace'}{f' {plan}' if plan else ''}"
            again = sum(other == name or other.startswith(f"{name} #") for other in found)
            found[f"{name} #{again + 1}" if again else name] = trace
    else:
        found = {"": traces}
    for trace in found.values():
        if not isinstance(trace, Trace):
            raise CepError(f"metrics shows traces, one or several, not {type(trace).__name__}")
    return found


def metrics(traces: Trace | Iterable[Trace] | Mapping[str, Trace], *, theme: str = "auto") -> Any:
    """Plots evaluations, live runs, buffered events and matches over the events of the stream.

    Several traces, in a list or by name in a dict, share the axes and have lines of their own.
    Returns a plotly figure; `theme` is `light`, `dark`, or `auto`, which suits both.
    """
    if theme not in ("auto", "light", "dark"):
        raise CepError(f"the theme is 'auto', 'light' or 'dark', not {theme!r}")
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        raise SetupError("this figure needs plotly: pip install 'cepviz[lab]'") from None
    found = named(traces)
    figure = make_subplots(
        rows=2, cols=2, shared_xaxes=True, subplot_titles=list(SERIES),
        vertical_spacing=0.12, horizontal_spacing=0.09,
    )  # fmt: skip
    which = 1 if theme == "dark" else 0
    for number, (name, trace) in enumerate(found.items()):
        known = measures(trace)
        colour = COLOURS[HUES[number % len(HUES)]][which]
        dash = DASHES[number % len(DASHES)]
        shown = plain_text(name, 40)
        for place, (title, values) in enumerate(known.series.items()):
            figure.add_scatter(
                x=list(range(1, len(values) + 1)), y=list(values), name=shown,
                legendgroup=str(number), showlegend=place == 0 and len(found) > 1,
                mode="lines", line={"color": colour, "dash": dash, "width": 2, "shape": "hv"},
                text=[plain_text(label, 40) for label in known.events],
                hovertemplate="%{text}: %{y:,} " + title + "<extra>%{fullData.name}</extra>",
                row=place // 2 + 1, col=place % 2 + 1,
            )  # fmt: skip
    ink, line = ("#7c7f85", "rgba(128,128,128,0.3)")
    if theme != "auto":
        ink, line = COLOURS["ink"][which], COLOURS["line"][which]
    paper = "rgba(0,0,0,0)" if theme == "auto" else COLOURS["paper"][which]
    figure.update_layout(
        template="none", paper_bgcolor=paper, plot_bgcolor=paper, font={"color": ink, "size": 12},
        height=460, margin={"l": 64, "r": 20, "t": 56, "b": 48},
        legend={"orientation": "h", "y": 1.16, "x": 0},
    )  # fmt: skip
    figure.update_xaxes(gridcolor=line, zerolinecolor=line, linecolor=line)
    figure.update_xaxes(title_text="events read", row=2)
    figure.update_yaxes(gridcolor=line, zerolinecolor=line, rangemode="tozero")
    for place, unit in enumerate(SERIES.values()):
        figure.update_yaxes(title_text=unit, row=place // 2 + 1, col=place % 2 + 1)
    return figure


def plain_text(text: str, most: int) -> str:
    """Text that plotly shows as it is: it would take some tags for its own."""
    return shortened(text, most).replace("&", "&amp;").replace("<", "&lt;")


def metrics_text(traces: Trace | Iterable[Trace] | Mapping[str, Trace]) -> str:
    """The same numbers as a table: a row for each trace, the last value and the highest.

    >>> from cepviz.steps import Move
    >>> trace = Trace(engine="eager")
    >>> trace(Arrive("e1", "A", "1"))
    >>> trace(Move("1", "e1", "begin", "begin a", "a", "b"))
    >>> print(metrics_text(trace))
    trace  events  evaluations  live runs  buffered events  matches
    eager       1            0  1, peak 1        0, peak 0        0
    """
    head = ["trace", "events", *SERIES]
    table = [head]
    for name, trace in named(traces).items():
        known = measures(trace)
        row = [shortened(name, 40), f"{len(known.events):,}"]
        for title, values in known.series.items():
            last, peak = (values[-1], max(values)) if values else (0, 0)
            grows = title in ("evaluations", "matches")
            row.append(f"{last:,}" if grows else f"{last:,}, peak {peak:,}")
        table.append(row)
    wide = [max(len(row[column]) for row in table) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            f"{cell:{'<' if not column else '>'}{wide[column]}}" for column, cell in enumerate(row)
        ).rstrip()
        for row in table
    )
