"""What watching costs: engines with hooks off, with hooks on, and a bare loop over the events.

With hooks off an engine builds no step. That is counted here, not taken on trust: every kind of
step is made to count its own making.
"""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from _measure import Report, interleaved, main, ratio

import cepviz as cep
from cepviz.data import stock_ticks
from cepviz.engines.base import Engine
from cepviz.engines.registry import ENGINES
from cepviz.events import Event, Stream
from cepviz.steps import Step
from cepviz.trace import Trace

PATTERN = """
PATTERN SEQ(STOCK a, STOCK b, STOCK c)
WHERE skip_till_any_match {
    [symbol] and a.price % 100 = 0 and b.volume < 150 and b.price > a.price
    and c.volume > 850 and c.price > b.price }
WITHIN 120 events
"""


def subclasses(kind: type) -> Iterator[type]:
    for inner in kind.__subclasses__():
        yield inner
        yield from subclasses(inner)


@contextmanager
def counted_steps() -> Iterator[list[int]]:
    """Counts the steps built inside the block, whoever builds them."""
    made = [0]
    originals = {kind: kind.__init__ for kind in {Step, *subclasses(Step)}}  # type: ignore[misc]

    def counting(original: Any) -> Any:
        def init(self: Any, *arguments: Any, **keywords: Any) -> None:
            made[0] += 1
            original(self, *arguments, **keywords)

        return init

    try:
        for kind, original in originals.items():
            kind.__init__ = counting(original)  # type: ignore[misc]
        yield made
    finally:
        for kind, original in originals.items():
            kind.__init__ = original  # type: ignore[misc]


def bare(events: list[Event]) -> None:
    """Reads what the pattern reads, and does nothing with it."""
    for event in events:
        event["symbol"]
        event["price"]
        event["volume"]


def run(name: str, stream: Stream, events: list[Event], *, watched: bool = False) -> Engine:
    """One engine over the events, with a trace that records every step or with nobody watching."""
    hooks = [Trace(engine=name, schema=stream.schema)] if watched else []
    engine = ENGINES[name](cep.parse(PATTERN), hooks=hooks, schema=stream.schema)
    for event in events:
        engine.push(event)
    engine.flush()
    return engine


def measure(report: Report, count: int, repeats: int) -> None:
    stream = stock_ticks(count, lowest=0)
    events = list(stream)
    columns = ["engine", "steps off", "steps on", "matches", "off : bare", "on : off", "tests %"]
    note = (
        "off : bare is the engine with hooks off against a loop that reads symbol, price and "
        "volume. tests % is the share\nof the time with hooks off that `emit is not None` takes "
        "if asked once for each step that hooks on would build."
    )
    # One `is not None` on an attribute, as the engines ask it.
    asked = min(timeit.repeat("e.emit is not None", globals={"e": Engine(cep.parse(PATTERN))},
                              number=100_000, repeat=5)) / 100_000  # fmt: skip
    silent = True
    with report.table(f"Hooks, {count:,} events", columns, note) as rows:
        for name in ("eager", "sase"):
            with counted_steps() as off:
                quiet = run(name, stream, events)
            with counted_steps() as on:
                loud = run(name, stream, events, watched=True)
            assert quiet.counters == loud.counters, "watching must not change what is found"
            cases = {
                "off": lambda name=name: run(name, stream, events),
                "on": lambda name=name: run(name, stream, events, watched=True),
                "bare": lambda: bare(events),
            }
            times = interleaved(cases, repeats)
            share = 100 * on[0] * asked / sorted(times["off"])[repeats // 2]
            rows.append(
                [name, off[0], on[0], quiet.counters.matches, ratio(times, "off", "bare"),
                 ratio(times, "on", "off"), share]
            )  # fmt: skip
            silent = silent and off[0] == 0 < on[0]
    report.bar("hooks off builds no step", " and ".join(f"{r[0]} {r[1]}" for r in rows), silent)
    engines = [row[0] for row in rows]
    times_bare = {
        "hooks off": (engines, [row[4] for row in rows]),
        "hooks on": (engines, [row[4] * row[5] for row in rows]),
    }
    report.chart("Time against a bare loop", times_bare, "engine", "times a bare loop", kind="bars",
                 log=True)  # fmt: skip


if __name__ == "__main__":
    main(
        "Hooks: what watching costs",
        "hooks.html",
        lambda report, quick: measure(report, 3_000 if quick else 10_000, 3 if quick else 5),
    )
