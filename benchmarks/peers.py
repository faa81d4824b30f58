"""The race: the columnar engine against what a user would pick instead.

Each contestant is a process of its own (`_racer.py`) with the data in memory. Its time is the
lesser of the wall's and of the processor's: whoever uses several threads gains by them, and other
work on the machine is nobody's. They run in turns, and a ratio is the median over the rounds.
One that needs more than a minute leaves the case, and so does one that is not installed:
pip install 'cepviz[bench]'. PyFlink pins old packages, so it may live elsewhere:
CEPVIZ_FLINK_PYTHON names the Python that has it.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _measure import BUILD, Report, main, progress, shown

RACER = Path(__file__).with_name("_racer.py")

CORE = ("columnar", "columnar plain", "numba by hand", "lazy_chain", "polars", "duckdb", "eager")
Case = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    events: tuple[int, ...] = (100_000, 1_000_000)
    windows: tuple[int, ...] = (200, 1000)
    rates: tuple[float, ...] = (0.1, 0.01, 0.001)
    contiguity: tuple[int, ...] = (100_000, 1_000_000)
    template: int = 100_000
    queries: tuple[str, ...] = ("p1s2", "p2s2", "p3s2", "p1s3", "p2s3", "p3s3")
    kleene: int = 3_000
    growth: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    wider: tuple[int, ...] = (100, 300, 1000, 3000)
    repeats: int = 5
    #: A contestant that needs more seconds for one run leaves the case; one that took a fifth of
    #: that in all its rounds so far sits the others out.
    limit: float = 60.0
    peers: tuple[str, ...] = ("polars", "duckdb", "flink")


QUICK = Size(
    events=(100_000,), windows=(200,), contiguity=(100_000,), template=40_000, kleene=1_500,
    growth=(10_000, 100_000, 1_000_000), repeats=3, limit=20.0,
)  # fmt: skip


class Contestant:
    """A process that runs one contestant, started when it is first needed."""

    def __init__(self, name: str):
        self.name = name
        self.limit = 60.0
        self.process: subprocess.Popen[str] | None = None

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        if self.process is None:
            python = sys.executable
            if self.name == "flink":
                python = os.environ.get("CEPVIZ_FLINK_PYTHON", python)
            self.process = subprocess.Popen(
                [python, str(RACER), self.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._lost("out of memory, or killed")
        # Making the data is not part of the race: there is time for that.
        patience = self.limit if "run" in order else 300.0
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            if not ready.select(patience):
                return self._lost(f"more than {patience:.0f} s")
        line = process.stdout.readline()
        return json.loads(line) if line else self._lost("out of memory, or killed")

    def rest(self) -> None:
        """Forgets the data, and keeps the process for the next case."""
        if self.process is not None:
            self.ask({"rest": True})

    def _lost(self, why: str) -> dict[str, Any]:
        self.close()
        return {"failed": why}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


#: The contestants whose processes were started.
RUNNING: dict[str, Contestant] = {}


@dataclass
class Outcome:
    """What one contestant did in a case: seconds of each round, or why there are none."""

    seconds: list[float] = field(default_factory=list)
    first: float = 0.0
    matches: int | None = None
    why: str = ""

    @property
    def typical(self) -> float:
        return median(self.seconds) if self.seconds else float("inf")

    def text(self) -> str:
        return self.why or f"{self.typical * 1000:,.3g} ms"


def race(case: Case, names: tuple[str, ...], size: Size) -> dict[str, Outcome]:
    """Every contestant on one case, in turns; each runs once beforehand, to warm up."""
    outcomes = {name: Outcome() for name in names}
    running = {name: RUNNING.setdefault(name, Contestant(name)) for name in names}
    for name, contestant in running.items():
        progress(f"{case}: {name} warms up")
        contestant.limit = size.limit
        ready = contestant.ask({"case": case})
        told = contestant.ask({"run": True}) if "ready" in ready else ready
        _note(outcomes[name], told, first=True)
    for turn in range(size.repeats):
        for name in [*names[turn % len(names) :], *names[: turn % len(names)]]:
            outcome = outcomes[name]
            if not outcome.why and sum(outcome.seconds) <= size.limit / 5:
                progress(f"{case}: round {turn + 1}, {name}")
                _note(outcome, running[name].ask({"run": True}))
    for contestant in running.values():
        contestant.rest()
    counts = {o.matches for o in outcomes.values() if o.matches is not None}
    if len(counts) > 1:
        told = {name: outcome.matches for name, outcome in outcomes.items()}
        raise AssertionError(f"contestants disagree on {case}: {told}")
    return outcomes


def _note(outcome: Outcome, told: dict[str, Any], first: bool = False) -> None:
    if "seconds" in told:
        outcome.matches = told["matches"]
        if first:
            outcome.first = told["seconds"]
        else:
            outcome.seconds.append(told["seconds"])
    else:
        missing = "missing" in told
        outcome.why = "not installed" if missing else told.get("failed", "failed")


def ratio(outcomes: dict[str, Outcome], slow: str, fast: str) -> float | None:
    """How many times as long one takes as another, the median over the rounds both ran; None if
    one did not finish."""
    if slow not in outcomes or outcomes[slow].why or outcomes[fast].why:
        return None
    pairs = zip(outcomes[slow].seconds, outcomes[fast].seconds, strict=False)
    found = [a / b for a, b in pairs]
    return median(found) if found else None


def times(found: float | None) -> str:
    return "" if found is None else f"{shown(found)}x"


# ---- 1: a sequence of three, two inequalities ----


def sequences(report: Report, size: Size) -> None:
    names = tuple(n for n in CORE if n in size.peers or n not in ("polars", "duckdb"))
    columns = ["events", "W", "f_c", "matches", *names, "columnar : by hand", "polars : columnar",
               "eager : columnar", "lazy_chain : plain", "compiling"]  # fmt: skip
    note = "Counting matches. A ratio 'x : y' says how many times as long x takes as y."
    by_hand, polars, eager, plain = [], [], [], []
    lines: dict[str, tuple[list[str], list[float]]] = {name: ([], []) for name in names}
    with report.table("1: SEQ(A, B, C) with two inequalities", columns, note) as rows:
        for events in size.events:
            for window in size.windows:
                for f_c in size.rates:
                    case = {"race": "sequence", "events": events, "window": window, "f_c": f_c,
                            "count": True}  # fmt: skip
                    found = race(case, names, size)
                    ratios = [
                        ratio(found, "columnar", "numba by hand"),
                        ratio(found, "polars", "columnar"),
                        ratio(found, "eager", "columnar"),
                        ratio(found, "lazy_chain", "columnar plain"),
                    ]
                    compiling = found["columnar"].first - found["columnar"].typical
                    rows.append(
                        [events, window, f_c, found["columnar"].matches,
                         *(found[name].text() for name in names), *map(times, ratios),
                         f"{compiling:.2f} s"]
                    )  # fmt: skip
                    cell = f"{events:,}, {window}, {f_c}"
                    for name in names:
                        if not found[name].why:
                            lines[name][0].append(cell)
                            lines[name][1].append(found[name].typical * 1000)
                    by_hand.append((ratios[0], cell))
                    polars.append((ratios[1], cell))
                    plain.append((ratios[3], cell))
                    if f_c == 0.001:
                        eager.append((ratios[2], cell))
    report.chart("Counting SEQ(A, B, C): milliseconds", lines, "events, W, f_c", "ms", log=True)
    _bar(report, "columnar within 3 times a loop written by hand", by_hand, lambda r: r <= 3, max)
    _bar(report, "columnar at least 5 times polars, every cell", polars, lambda r: r >= 5, min)
    _bar(report, "columnar at least 100 times eager, f_c = 0.001", eager, lambda r: r >= 100, min)
    _bar(report, "plain at least as fast as lazy_chain", plain, lambda r: r >= 1, min)


def _bar(
    report: Report, name: str, found: list[tuple[float | None, str]], good: Any, worst: Any
) -> None:
    known = [(value, cell) for value, cell in found if value is not None]
    if not known:
        report.say(f"not judged, as nothing was there to compare with: {name}")
        return
    value, cell = worst(known)
    left = len(found) - len(known)
    unfinished = f"; the other did not finish {left} of {len(found)}" if left else ""
    report.bar(name, f"{shown(value)} at {cell}{unfinished}", good(value))


# ---- 2: contiguity, against Flink SQL ----


def contiguity(report: Report, size: Size) -> None:
    names = ("columnar", "columnar plain", "sase", *(["flink"] if "flink" in size.peers else []))
    columns = ["rows", "matches", *names, "sase : columnar", "flink : columnar"]
    note = "A B+ C by symbol, partition contiguity. Flink reads the rows from a file, warm."
    ratios = []
    with report.table("2: A B+ C by symbol, contiguous", columns, note) as rows:
        for events in size.contiguity:
            case = {"race": "contiguity", "events": events, "count": False}
            found = race(case, names, size)
            against = [ratio(found, "sase", "columnar"), ratio(found, "flink", "columnar")]
            rows.append([events, found["columnar"].matches, *(found[n].text() for n in names),
                         *map(times, against)])  # fmt: skip
            ratios.append((against[1], f"{events:,}"))
    _bar(report, "columnar at least 100 times warm Flink SQL", ratios, lambda r: r >= 100, min)


# ---- 3: the template of SASE+ ----


def template(report: Report, size: Size) -> None:
    names = ("columnar", "columnar plain", "sase", "sase merging")
    columns = ["query", "", "matches", *names, "sase : columnar", "merging : columnar"]
    note = "W = 500. Counted: columnar counts only, sase keeps its shared buffer (compressed)."
    judged = []
    with report.table("3: the template of SASE+", columns, note) as rows:
        for query in size.queries:
            for count in (True, False):
                case = {"race": "template", "events": size.template, "query": query,
                        "window": 500, "count": count}  # fmt: skip
                found = race(case, names, size)
                against = [ratio(found, name, "columnar") for name in names[2:]]
                rows.append([query, "counted" if count else "listed", found["columnar"].matches,
                             *(found[n].text() for n in names), *map(times, against)])  # fmt: skip
                if count and query[:2] == "p2":
                    judged.append((against[0], query))
    _bar(report, "columnar at least 20 times sase, p2s2 and p2s3 counted", judged,
         lambda r: r >= 20, min)  # fmt: skip


# ---- 4: Kleene under skip_till_any_match ----


def kleene(report: Report, size: Size) -> None:
    names = ("columnar", "columnar plain", "lazy_chain", "sase")
    columns = ["events", "matches", *names, *(f"{name}, matches/s" for name in names)]
    note = "SEQ(A, B+, C), WITHIN 26 events: as many matches as lists of B, all of them kept."
    with report.table("4: Kleene, bound by its output", columns, note) as rows:
        case = {"race": "kleene", "events": size.kleene, "window": 26, "f_c": 0.1, "count": False}
        found = race(case, names, size)
        many = found["columnar"].matches or 0
        speeds = ["" if found[n].why else shown(many / found[n].typical) for n in names]
        rows.append([size.kleene, many, *(found[n].text() for n in names), *speeds])


# ---- 5: growth ----


def slope(places: list[float], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(places), np.log(seconds), 1)[0])


def growth(report: Report, size: Size) -> None:
    grown: dict[str, tuple[list[float], list[float]]] = {"events": ([], []), "window": ([], [])}
    note = "columnar, counting, f_c = 0.01. The matches grow with the square of the window."
    with report.table("5: growth", ["events", "W", "matches", "ms"], note) as rows:
        settings = [("events", n, 1000) for n in size.growth]
        settings += [("window", min(100_000, size.growth[-1]), w) for w in size.wider]
        for kind, events, window in settings:
            case = {"race": "sequence", "events": events, "window": window, "f_c": 0.01,
                    "count": True}  # fmt: skip
            outcome = race(case, ("columnar",), size)["columnar"]
            if outcome.why:
                rows.append([events, window, "", outcome.why])
                continue
            rows.append([events, window, outcome.matches, outcome.typical * 1000])
            grown[kind][0].append(events if kind == "events" else window)
            grown[kind][1].append(outcome.typical)
    for kind, (places, seconds) in grown.items():
        report.say(f"log-log slope in {kind}: {slope(places, seconds):.3f}")
        lines = {kind: (places, [s * 1000 for s in seconds])}
        report.chart(f"Time against {kind}", lines, kind, "ms", log=True)
    found = slope(*grown["events"])
    report.bar("slope 1.0 +- 0.1 in events", f"{found:.3f}", abs(found - 1) <= 0.1)


def measure(report: Report, size: Size) -> None:
    started = time.perf_counter()
    try:
        for part in (sequences, contiguity, template, kleene, growth):
            part(report, size)
    finally:
        while RUNNING:
            RUNNING.popitem()[1].close()
    report.say(f"\n{time.perf_counter() - started:,.0f} s in all")


def markdown(report: Report) -> str:
    """The tables and bars as they are put into docs/performance.md."""
    text = ["| bar | measured |  |", "|---|---|---|"]
    text += [f"| {n} | {m} | {'PASS' if ok else 'FAIL'} |" for n, m, ok in report.bars]
    for title, rows in report.tables.items():
        text += ["", f"### {title}", ""]
        text += ["| " + " | ".join(report.heads[title]) + " |"]
        text += ["|" + "---|" * len(report.heads[title])]
        text += ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows]
    return "\n".join([*text, ""])


def run(report: Report, quick: bool) -> None:
    try:
        measure(report, QUICK if quick else Size())
    finally:
        BUILD.mkdir(exist_ok=True)
        (BUILD / "peers.md").write_text(markdown(report), encoding="utf-8")


if __name__ == "__main__":
    main("The race against peers", "peers.html", run)
