"""What a picture costs: one step of each view on SASE+ Query 3, and on a longer trace.

The bar: a step of the automaton is drawn in under 50 ms once its graph is laid out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import cepviz as cep
from cepviz import demo
from cepviz.data.stocks import stock_ticks
from cepviz.trace import Trace
from cepviz.views.automaton import automaton
from cepviz.views.buffer import buffer
from cepviz.views.replay import replay
from cepviz.views.runs import runs
from cepviz.views.timeline import timeline

BUSY = """PATTERN SEQ(STOCK+ a[], STOCK b)
WHERE skip_till_next_match { [symbol] and a[1].price % 20 = 0
    and a[i].price > a[i-1].price and b.volume < 150 }
WITHIN 40 events"""

VIEWS: dict[str, Callable[..., object]] = {
    "automaton": automaton, "buffer": buffer, "timeline": timeline, "runs": runs,
}  # fmt: skip


def milliseconds(view: Callable[..., object], trace: Trace, most: int = 400) -> tuple[float, float]:
    """The first call, which lays out, and the median of a step after it."""
    started = time.perf_counter()
    view(trace, 0)
    first = time.perf_counter() - started
    times = []
    for index in range(0, len(trace), max(1, len(trace) // most)):
        started = time.perf_counter()
        view(trace, index).svg()  # type: ignore[attr-defined]
        times.append(time.perf_counter() - started)
    return first * 1000, median(times) * 1000


def main() -> None:
    small = demo.story()[-1].trace
    assert small is not None
    large = cep.trace(BUSY, stock_ticks(500, seed=3), engine="sase")
    for title, trace in (("Query 3", small), ("500 events", large)):
        print(f"{title}: {len(trace):,} steps")
        for name, view in VIEWS.items():
            first, step = milliseconds(view, trace)
            verdict = ""
            if name == "automaton":
                verdict = f"  {'PASS' if step < 50 else 'FAIL'}: under 50 ms"
            print(f"  {name:10} first {first:7.1f} ms, then {step:6.2f} ms a step{verdict}")
        started = time.perf_counter()
        page = replay(trace)
        took = time.perf_counter() - started
        print(f"  replay     {took:.1f} s to make, {len(page) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
