"""What the benchmarks share: timing side by side, tables on the terminal, one page with charts."""

from __future__ import annotations

import argparse
import gc
import html
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

BUILD = Path(__file__).parent.parent / "build"

#: Okabe and Ito's colours, told apart by people who see few of them, and a mark for each.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
           "#888888")  # fmt: skip
MARKS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star",
         "hexagon")  # fmt: skip

Times = Mapping[str, list[float]]


def interleaved(cases: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of processor time of each case in each round; a round runs every case once.

    All cases so meet the same machine, and what one round suffers does not fall on one case.
    The order turns from round to round. Python's garbage collector is on, but does not look at
    what was there before, such as the events: only at what a case makes.
    """
    times: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    gc.collect()
    gc.freeze()
    try:
        for turn in range(repeats):
            for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
                progress(f"round {turn + 1} of {repeats}: {name}")
                gc.collect()
                started = time.process_time()
                cases[name]()
                times[name].append(time.process_time() - started)
    finally:
        gc.unfreeze()
    return times


def ratio(times: Times, slow: str, fast: str) -> float:
    """How many times as long one case takes as another: the median over the rounds."""
    return median(a / b for a, b in zip(times[slow], times[fast], strict=True))


def progress(text: str) -> None:
    """Shows on a terminal what is going on, in one line that is written over."""
    if sys.stderr.isatty():
        print(f"\r\033[K  {text[:90]}", end="", file=sys.stderr, flush=True)


class Report:
    """Tables, charts and bars in the order they come: printed at once, and put on one page."""

    def __init__(self, title: str):
        self.title = title
        self.bars: list[tuple[str, str, bool]] = []
        self.parts: list[str] = []
        self.tables: dict[str, list[list[Any]]] = {}
        self.heads: dict[str, Sequence[str]] = {}
        python = f"Python {platform.python_version()}, {platform.machine()}"
        self.say(
            f"{title}\n{python}; processor time, cases in turns, medians of ratios per round\n"
        )

    def say(self, text: str) -> None:
        progress("")
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        print(text, flush=True)

    @contextmanager
    def table(
        self, title: str, columns: Sequence[str], note: str = ""
    ) -> Iterator[list[list[Any]]]:
        """A table to fill with rows; what there is of it is printed even when it is interrupted."""
        if not sys.stderr.isatty():
            print(f"measuring: {title} ...", file=sys.stderr, flush=True)
        rows = self.tables.setdefault(title, [])
        self.heads[title] = columns
        try:
            yield rows
        finally:
            cells = [[shown(cell) for cell in row] for row in rows]
            widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
            lines = [
                "  ".join(cell.rjust(width) if place else cell.ljust(width)
                          for place, (cell, width) in enumerate(zip(line, widths, strict=True)))
                for line in (columns, ["-" * width for width in widths], *cells)
            ]  # fmt: skip
            self.say("\n".join(["", title, *lines, *([note] if note else [])]))
            head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
            body = "".join(
                "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>"
                for line in cells
            )
            self.parts.append(
                f"<h2>{html.escape(title)}</h2><table><tr>{head}</tr>{body}</table>"
                f"<p>{html.escape(note)}</p>"
            )

    def bar(self, name: str, measured: str, passed: bool) -> None:
        """A bar with what was measured."""
        self.bars.append((name, measured, bool(passed)))

    def chart(
        self,
        title: str,
        lines: Mapping[str, tuple[Sequence[Any], Sequence[float]]],
        x: str,
        y: str,
        *,
        kind: str = "lines",
        log: bool = False,
    ) -> None:
        """A chart with one line, or one set of bars, for each entry: its x and y values."""
        if not any(len(places) for places, _ in lines.values()):
            return
        import plotly.graph_objects as go

        figure = go.Figure()
        for number, (name, (places, values)) in enumerate(lines.items()):
            colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
            places, values = list(places), list(values)
            if kind == "bars":
                pattern = {"shape": ("", "/", ".", "x")[number % 4]}
                figure.add_bar(
                    name=name, x=places, y=values, marker={"color": colour, "pattern": pattern}
                )
            else:
                marker = {"color": colour, "symbol": mark, "size": 9}
                figure.add_scatter(
                    name=name, x=places, y=values, mode="lines+markers", marker=marker
                )
        figure.update_layout(
            title=title, xaxis_title=x, yaxis_title=y, template="plotly_white", height=420,
            yaxis={"type": "log"} if log else {"rangemode": "tozero"},
            margin={"l": 70, "r": 20, "t": 60, "b": 60},
        )  # fmt: skip
        first = not any("Plotly.newPlot" in part for part in self.parts)
        self.parts.append(figure.to_html(include_plotlyjs=first, full_html=False))

    def close(self, path: Path | None = None) -> None:
        """Prints the bars, and writes the page."""
        lines = [
            f"{'PASS' if passed else 'FAIL'}  {name}: {measured}"
            for name, measured, passed in self.bars
        ]
        if lines:
            self.say("\n".join(["", "Bars", *lines]))
        if path is None:
            return
        listed = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        page = (
            f"<!doctype html><html lang='en'><meta charset='utf-8'>"
            f"<title>{html.escape(self.title)}</title><style>{STYLE}</style>"
            f"<h1>{html.escape(self.title)}</h1><ul>{listed}</ul>{''.join(self.parts)}</html>"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
        self.say(f"\nwrote {path}")


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       background: #fff; color: #222 }
table { border-collapse: collapse } th, td { padding: .2rem .8rem; text-align: right }
th { border-bottom: 1px solid #999 } td:first-child, th:first-child { text-align: left }
"""


def shown(value: Any) -> str:
    """A cell: numbers with three digits that matter, thousands apart."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def main(title: str, page: str, run: Callable[[Report, bool], None]) -> None:
    """The command line of a benchmark: `--quick`, `--out PAGE`; Ctrl-C keeps what is measured."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--quick", action="store_true", help="smaller streams, fewer rounds")
    parser.add_argument("--out", type=Path, default=BUILD / page, help="where the page goes")
    arguments = parser.parse_args()
    report = Report(title)
    try:
        run(report, arguments.quick)
    except KeyboardInterrupt:
        report.say("\nstopped: this is what was measured until then")
        report.close(arguments.out)
        sys.exit(130)
    report.close(arguments.out)
    sys.exit(0 if all(passed for _, _, passed in report.bars) else 1)
