"""The experiments of SASE+ section 6, and the bars of the engine `sase`.

The paper's streams hold 200 windows of each symbol; these hold fewer (Python is slower than the
patience of a reader), which leaves more chance in the counts. Prices go round 0..999 (`lowest=0`,
see `stock_ticks`); W is the paper's partition window, in events of one symbol. Events are in memory
before the clock starts. "Construction off" is `compressed=True`: matches are found and counted, not
read out of the buffer.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from _measure import Report, interleaved, main, progress, ratio

import cepviz as cep
from cepviz.data import stock_ticks, template
from cepviz.engines.sase import Sase
from cepviz.events import Event, Stream

#: Far above what is needed here: the stream decides how long a run takes.
BUDGET = {"runs": 10**9, "buffered": 10**9, "matches": 10**9}
SYMBOLS = 2

QUERIES = ("p1s2", "p1s3", "p2s2", "p2s3", "p3s2", "p3s3")
EXPENSIVE = ("p1s3", "p2s3", "p3s3")

#: What the paper's text and tables print.
TABLE_2 = {  # match length, runs per time step, matching cost %
    "p1s2": (250, 2, 61),
    "p1s3": (250, 2, 61),
    "p2s2": (4.5, 0.01, 100),
    "p2s3": (140, 2, 67),
    "p3s2": (250, 2, 67),
    "p3s3": (250, 2, 66),
}
BACKTRACK = {name: "200-300" for name in QUERIES} | {"p2s2": "1.3"}
NON_OVERLAP = {"p3s2": "similar", "p3s3": "similar", "p3*s2": "", "p3*s3": "about 10"}
MERGING = {"p1s3": "1.5", "p2s3": "1.4", "p3s3": "1.5"}
TABLE_3 = {
    500: (47.9, 47.8, 47.8),
    1000: (50.9, 48.3, 45.8),
    1500: (66.6, 55.7, 44.9),
    2000: (75.3, 60.4, 50.6),
}


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    events: int = 40_000
    window: int = 500
    windows: tuple[int, ...] = (500, 750, 1000, 1250, 1500, 1750, 2000)
    long: int = 40_000
    repeats: int = 5
    keys: tuple[int, int] = (20, 20_000)
    keyed: int = 300_000
    memory: int = 1_000_000


QUICK = Size(events=20_000, windows=(500, 1000, 1500, 2000), long=16_000, repeats=3, keyed=200_000)


@dataclass
class Outcome:
    """What a run found: how many matches, the sum of their lengths, and the engine's counters."""

    matches: int
    complexity: int
    counters: dict[str, int]

    def runs_per_step(self) -> float:
        """Live runs of all symbols: each tries two edges (take, proceed) at an event of its own."""
        events = self.counters["events"]
        return SYMBOLS * (self.counters["evaluations"] - events) / 2 / events


class Workload:
    """A stream in memory, and the paper's queries on it."""

    def __init__(self, count: int, seed: int = 1, symbols: int = SYMBOLS):
        self.stream: Stream = stock_ticks(count, symbols=symbols, seed=seed, lowest=0)
        self.events: list[Event] = list(self.stream)

    @property
    def starts(self) -> int:
        """How many events can begin a run: the same for every query of the template."""
        return int((self.stream.column("price") % 500 == 0).sum())

    def run(self, query: str, window: int, *, non_overlap: bool = False, **options: Any) -> Outcome:
        iterator, strategy = query[:-2], query[-2:]
        text = template(strategy, iterator, window, symbols=SYMBOLS, non_overlap=non_overlap)
        return execute(text, self.stream, self.events, **options)

    def case(self, query: str, window: int, into: Any = None, **options: Any) -> Callable[[], None]:
        """`run` to be called later; what it found goes `into` a dict, by query."""

        def later() -> None:
            found = self.run(query, window, **options)
            if into is not None:
                into[query] = found

        return later


def execute(text: str, stream: Stream, events: Any, **options: Any) -> Outcome:
    engine = Sase(cep.parse(text), schema=stream.schema, budget=BUDGET, **options)
    single = sum(not variable.kleene for variable in engine.pattern.variables.values())
    matches = complexity = 0
    for event in events:
        found = engine.push(event)
        if found:
            matches += len(found)
            for match in found:
                complexity += len(match["a"]) + single  # type: ignore[arg-type]
    for match in engine.flush():
        matches += 1
        complexity += len(match["a"]) + single  # type: ignore[arg-type]
    if engine.compressed is not None:
        matches = len(engine.compressed)
    return Outcome(matches, complexity, engine.counters.as_dict())


# ---- Expt 1 and 5: Table 2, Figures 8(a) and 8(f) ----


def profile(report: Report, size: Size) -> None:
    work = Workload(size.events)
    columns = ["query", "match length", "paper", "runs/step", "paper", "matching %", "paper"]
    columns += ["construction %", "paper"]
    note = (
        "runs/step: live runs of both symbols. Matching is the time with construction off, "
        "construction the rest."
    )
    measured: dict[str, tuple[float, float, float]] = {}
    counts: dict[str, Outcome] = {}
    with report.table(f"Table 2: profile, W={size.window}, basic", columns, note) as rows:
        for query in QUERIES:
            counts[query] = found = work.run(query, size.window)
            cases = {
                "basic": work.case(query, size.window),
                "off": work.case(query, size.window, compressed=True),
                "merging": work.case(query, size.window, algorithm="merging"),
            }
            times = interleaved(cases, size.repeats)
            share = min(100.0, 100 * ratio(times, "off", "basic"))
            basic, merging = (size.events / median(times[n]) for n in ("basic", "merging"))
            measured[query] = (basic, merging, ratio(times, "basic", "merging"))
            length, runs, matching = TABLE_2[query]
            rows.append(
                [query, found.complexity / max(found.matches, 1), length, found.runs_per_step(),
                 runs, share, matching, 100 - share, 100 - matching]
            )  # fmt: skip
    columns = ["query", "basic events/s", "relative to p1s3"]
    with report.table(f"Figure 8(a): throughput, W={size.window}, basic", columns) as rows:
        for query, (basic, _, _) in measured.items():
            rows.append([query, basic, basic / measured["p1s3"][0]])
    columns = ["query", "basic events/s", "merging events/s", "gain", "paper"]
    with report.table(f"Figure 8(f): merging, W={size.window}, all results", columns) as rows:
        for query, (basic, merging, gain) in measured.items():
            rows.append([query, basic, merging, gain, MERGING.get(query, "")])
    names = list(measured)
    shown = {
        "basic": (names, [m[0] for m in measured.values()]),
        "merging": (names, [m[1] for m in measured.values()]),
    }
    title = f"Figures 8(a), 8(f): throughput, W={size.window}"
    report.chart(title, shown, "query", "events per second", kind="bars", log=True)


# ---- Expt 2: Figures 8(b) and 8(c) ----


def growth(report: Report, size: Size) -> None:
    work = Workload(size.long)
    queries = ("p1s3", "p2s2", "p2s3", "p3s2", "p3s3")
    costs: dict[str, list[float]] = {query: [] for query in queries}
    outputs: dict[str, list[int]] = {query: [] for query in queries}
    columns = ["W", *queries]
    note = "The paper: W matters little to p2s2; p1s3 and p3s3 get slower with the square of W."
    title = f"Figure 8(b): cost per event, times that at W={size.windows[0]}, basic"
    with report.table(title, columns, note) as rows:
        for window in size.windows:
            found: dict[str, Outcome] = {}
            cases = {query: work.case(query, window, into=found) for query in queries}
            times = interleaved(cases, max(1, size.repeats // 2))
            for query in queries:
                outputs[query].append(found[query].complexity)
                costs[query].append(median(times[query]))
            rows.append([window, *(costs[query][-1] / costs[query][0] for query in queries)])
    columns = ["query", "output complexity from", "to", "R^2", "ns per output event"]
    note = "Output complexity: the lengths of all matches, summed. p2s2 has hardly any."
    fits = {}
    with report.table("Figure 8(c): time against output complexity", columns, note) as rows:
        for query in queries:
            slope, fit = straight(outputs[query], costs[query])
            fits[query] = fit
            rows.append(
                [query, outputs[query][0], outputs[query][-1],
                 fit if query != "p2s2" else "", slope * 1e9 if query != "p2s2" else ""]
            )  # fmt: skip
    windows = list(size.windows)
    throughput = {q: (windows, [size.long / c for c in costs[q]]) for q in queries}
    report.chart("Figure 8(b): throughput", throughput, "W", "events per second", log=True)
    lines = {q: (outputs[q], costs[q]) for q in queries}
    report.chart("Figure 8(c): a straight line", lines, "output complexity", "seconds")
    least = min((fits[q], q) for q in queries if q != "p2s2")
    said = f"R^2 at least {least[0]:.4f} ({least[1]})"
    report.bar("time linear in output complexity, R^2 > 0.98", said, least[0] > 0.98)


def straight(xs: list[int], ys: list[float]) -> tuple[float, float]:
    """The slope of the least-squares line, and how much of the spread it explains (R^2)."""
    x, y = np.array(xs, dtype=float), np.array(ys)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0, float("nan")
    slope, base = np.polyfit(x, y, 1)
    rest = y - (slope * x + base)
    return float(slope), float(1 - (rest @ rest) / ((y - y.mean()) @ (y - y.mean())))


# ---- Expt 3 and 4: Figures 8(d) and 8(e) ----


def backtracking(report: Report, size: Size) -> None:
    work = Workload(size.events)
    columns = ["query", "backtrack : basic", "paper", "reprocessed/event", "paper", "matches"]
    note = "The paper: 0.6 events reprocessed for each event with s3, few with p2s2."
    slowest = (float("inf"), "")
    shown: dict[str, tuple[list[str], list[float]]] = {"all results": ([], [])}
    title = f"Figure 8(d): basic against backtrack, W={size.window}, all results"
    with report.table(title, columns, note) as rows:
        for query in QUERIES:
            basic, again = (
                work.run(query, size.window, algorithm=name) for name in ("basic", "backtrack")
            )
            assert basic.matches == again.matches, query
            gain = against(work, query, size)
            often = again.counters["reprocessed"] / size.events
            rows.append(
                [query, gain, BACKTRACK[query], often, "0.6" if query[-1] == "3" else "",
                 basic.matches]
            )  # fmt: skip
            shown["all results"][0].append(query)
            shown["all results"][1].append(gain)
            slowest = min(slowest, (gain, query))
    said = f"backtrack takes at least {slowest[0]:.2f} times as long ({slowest[1]})"
    report.bar("basic never slower than backtrack, all results", said, slowest[0] >= 1)
    columns = ["query", "backtrack : basic", "paper", "reprocessed/event", "matches"]
    shown["non-overlap"] = ([], [])
    title = f"Figure 8(e): basic against backtrack, W={size.window}, non-overlap"
    with report.table(title, columns) as rows:
        for query, paper in NON_OVERLAP.items():
            basic, again = (
                work.run(query, size.window, algorithm=name, non_overlap=True)
                for name in ("basic", "backtrack")
            )
            assert basic.matches == again.matches, query
            gain = against(work, query, size, non_overlap=True)
            rows.append(
                [query, gain, paper, again.counters["reprocessed"] / size.events, basic.matches]
            )
            shown["non-overlap"][0].append(query)
            shown["non-overlap"][1].append(gain)
    report.chart("Figures 8(d), 8(e): time of backtrack against basic", shown, "query",
                 "times basic", kind="bars")  # fmt: skip


def against(work: Workload, query: str, size: Size, **options: Any) -> float:
    cases = {
        name: work.case(query, size.window, algorithm=name, **options)
        for name in ("basic", "backtrack")
    }
    return ratio(interleaved(cases, size.repeats + 2), "backtrack", "basic")


# ---- Expt 6: Figure 8(g), Table 3 ----


def merging(report: Report, size: Size) -> None:
    work = Workload(size.long)
    gains: dict[str, list[float]] = {query: [] for query in EXPENSIVE}
    shares: dict[int, list[tuple[float, float]]] = {}
    windows = [w for w in size.windows if w in TABLE_3] or list(size.windows)
    note = "The paper: 1.4 to 2.1."
    title = "Figure 8(g): basic against merging, construction off"
    with report.table(title, ["W", *EXPENSIVE], note) as rows:
        for window in windows:
            shares[window] = []
            for query in EXPENSIVE:
                kinds = {
                    name: {"algorithm": name, "compressed": True} for name in ("basic", "merging")
                }
                found = {name: work.run(query, window, **kind) for name, kind in kinds.items()}
                assert found["basic"].matches == found["merging"].matches, query
                merged = found["merging"].counters["merged"] / max(work.starts, 1)
                saved = 1 - found["merging"].runs_per_step() / found["basic"].runs_per_step()
                shares[window].append((100 * merged, 100 * saved))
                cases = {name: work.case(query, window, **kind) for name, kind in kinds.items()}
                gains[query].append(ratio(interleaved(cases, size.repeats), "basic", "merging"))
            rows.append([window, *(gains[query][-1] for query in EXPENSIVE)])
    columns = ["W"]
    for query in EXPENSIVE:
        columns += [f"{query} merged %", "saved %", "paper"]
    note = (
        "merged: of the runs that began, those that became one with another. saved: how many "
        "fewer runs are moved\nthan by basic, which is what the paper's numbers look like."
    )
    with report.table("Table 3: runs merged", columns, note) as rows:
        for window, found_shares in shares.items():
            row: list[Any] = [window]
            for place, pair in enumerate(found_shares):
                row += [*pair, TABLE_3[window][place] if window in TABLE_3 else ""]
            rows.append(row)
    lines = {query: (windows, gains[query]) for query in EXPENSIVE}
    report.chart("Figure 8(g): gain by merging", lines, "W", "times basic throughput")
    last = gains["p1s3"][-1]
    said = f"{last:.2f} times (paper 1.4 to 2.1)"
    report.bar(f"merging at least 1.4 times basic, p1s3, W={windows[-1]}", said, last >= 1.4)


# ---- the bars that are not the paper's ----


def bare(events: list[Event]) -> None:
    for event in events:
        event["symbol"]
        event["price"]
        event["volume"]


def against_bare(report: Report, size: Size) -> None:
    work = Workload(max(size.events, 1))
    stream = work.stream
    text = template("s2", "p2", size.window)

    def dictionary() -> None:
        for event in work.events:
            values = event.attributes
            values["symbol"]
            values["price"]
            values["volume"]

    def decoding() -> None:
        for event in stream:
            event["symbol"]
            event["price"]
            event["volume"]

    cases = {
        "p2s2": work.case("p2s2", size.window),
        "bare": lambda: bare(work.events),
        "dictionary": dictionary,
        "p2s2 from the stream": lambda: execute(text, stream, stream),
        "bare from the stream": decoding,
    }
    times = interleaved(cases, size.repeats + 2)
    with report.table("p2s2 against a bare loop", ["loop", "p2s2 : loop"]) as rows:
        least = ratio(times, "p2s2", "bare")
        rows.append(["event['price'] ..., events in memory (the bar)", least])
        inner = ratio(times, "p2s2", "dictionary")
        rows.append(["event.attributes['price'] ..., events in memory", inner])
        made = ratio(times, "p2s2 from the stream", "bare from the stream")
        rows.append(["event['price'] ..., both make events from columns", made])
    report.bar("p2s2 within 15 times a bare loop", f"{least:.1f} times", least <= 15)


def many_keys(report: Report, size: Size) -> None:
    """The same life for every key: a run begins at a tenth of its events and spans ten of them."""
    columns = ["keys", "live runs at most", "matches", "us per event", "times the first"]
    cases, found = {}, {}
    for keys in size.keys:
        text = template("s3", "p1", 10, symbols=keys).replace("% 500", "% 10")
        work = Workload(size.keyed, symbols=keys)
        cases[str(keys)] = lambda text=text, work=work: execute(text, work.stream, work.events)
        found[keys] = cases[str(keys)]()
    few, many = map(str, size.keys)
    with report.table("Keys: p1s3, W=10 events of a key, price % 10", columns) as rows:
        times = interleaved(cases, size.repeats)
        for keys, outcome in found.items():
            each = median(times[str(keys)]) / size.keyed * 1e6
            rows.append([keys, outcome.counters["peak_runs"], outcome.matches, each,
                         ratio(times, str(keys), few)])  # fmt: skip
    cost = ratio(times, many, few)
    name = f"{size.keys[1]:,} keys at most 2 times the cost per event of {size.keys[0]}"
    report.bar(name, f"{cost:.2f} times", cost <= 2)


def memory(report: Report, size: Size) -> None:
    """First of all, while the process is small: freed memory would hide what leaks later."""
    points = 20
    stream = stock_ticks(size.memory, seed=1, lowest=0)
    columns = ["algorithm", "events", "blocks early", "blocks late", "MB early", "MB late"]
    note = (
        "Blocks: objects that Python holds. MB: resident memory, in which the stream itself is. "
        "Early: at 10 to 20 %\nof the stream; late: at its end."
    )
    shown, flat = {}, []
    with report.table(f"Memory over {size.memory:,} events, p1s3, W=50", columns, note) as rows:
        for algorithm in ("basic", "merging", "backtrack"):
            text = template("s3", "p1", 50)
            engine = Sase(cep.parse(text), schema=stream.schema, budget=BUDGET, algorithm=algorithm)
            blocks, resident, places = [], [], []
            every = max(1, size.memory // points)
            for event in stream:
                engine.push(event)
                if (event.position + 1) % every == 0:
                    progress(f"memory: {algorithm} at {event.position + 1:,}")
                    gc.collect()
                    places.append(event.position + 1)
                    blocks.append(sys.getallocatedblocks())
                    resident.append(megabytes())
            early, late = slice(1, 4), slice(-3, None)
            before, after = median(blocks[early]), median(blocks[late])
            mb = median(resident[early]), median(resident[late])
            rows.append([algorithm, size.memory, int(before), int(after), *mb])
            flat.append(after <= 1.05 * before and mb[1] <= 1.05 * mb[0])
            shown[algorithm] = (places, resident)
    report.chart("Memory", shown, "events read", "MB resident")
    growth_of = ", ".join(f"{r[0]} {r[5] - r[4]:+.1f} MB, {r[3] - r[2]:+,} blocks" for r in rows)
    report.bar(f"memory flat over {size.memory:,} events", growth_of, all(flat))


def megabytes() -> float:
    """Resident memory now; where /proc is missing (macOS), the most there was."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096 / 2**20
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


SECTIONS = (memory, profile, growth, backtracking, merging, against_bare, many_keys)


def measure(report: Report, size: Size) -> None:
    for section in SECTIONS:
        section(report, size)


if __name__ == "__main__":
    main(
        "SASE+, section 6",
        "sase.html",
        lambda report, quick: measure(report, QUICK if quick else Size()),
    )
