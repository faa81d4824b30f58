"""Stocks of two sectors with price histories, and the query on them, as in LAZY (section 7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cepviz.errors import CepError
from cepviz.events import Stream

Array = np.ndarray[Any, Any]

#: Ten stocks in each sector: with an update a minute and a history of ten minutes, a window has
#: 100 events of each.
FINANCE = ("AXP", "BAC", "BLK", "C", "GS", "JPM", "MS", "PNC", "USB", "WFC")
HI_TECH = ("AAPL", "ADBE", "AMD", "CSCO", "IBM", "INTC", "MSFT", "NVDA", "ORCL", "QCOM")
GOOG = "GOOG"

#: Seconds from one event of the two frequent kinds to the next: twenty a minute.
SPACING = 3
#: The shares of the two frequent kinds go up and down by this much, once in so many events.
SWING, SLOW = 0.05, 2000
#: Numbers of `letters` are below this, so that one pair in as many passes.
NUMBERS = 100


def sector_ticks(
    n: int, f_c: float = 0.01, h: int = 10, seed: int = 0, *, period: int | None = None
) -> Stream:
    """`n` events of type Stock with ticker, sector, price and the `history` of its last `h` prices.

    Ten stocks of the sector Finance and ten of Hi-Tech are equally frequent, up to slight changes;
    GOOG is `f_c` times as frequent as either sector. Each price is a walk of its own, one step a
    minute. Time counts seconds and goes on with the frequent events only, so that `h` minutes hold
    about `10 * h` events of each sector whatever `f_c` is (the paper changes `f_c` by leaving out
    GOOG events, or by repeating them).

    With `period`, the rare kind changes each time as many events have passed: first GOOG, then the
    whole of Finance, then of Hi-Tech, and again.

    >>> sector_ticks(1000, seed=7, h=3)[0]
    e0 Stock ticker=GS sector=Finance price=99.41 history=[100.27, 99.73, 99.41] at 3
    """
    import pandas as pd

    if h < 2:
        raise CepError(f"a history has 2 prices or more, not h={h}")
    random, kinds, time = _kinds(n, f_c, seed, period)
    tickers = np.array([*FINANCE, *HI_TECH, GOOG])
    first = np.array([0, len(FINANCE), len(FINANCE) + len(HI_TECH)])
    count = np.array([len(FINANCE), len(HI_TECH), 1])
    which = first[kinds] + (random.random(n) * count[kinds]).astype(np.int64)
    minute = time // 60
    steps = random.normal(0, 0.5, (len(tickers), int(minute[-1]) + h))
    prices = np.round(100 + np.cumsum(steps, axis=1), 2)
    # Events of one stock in one minute share their history: one list for all of them.
    shared: dict[tuple[int, int], list[float]] = {}
    histories = []
    for ticker, now in zip(which.tolist(), minute.tolist(), strict=True):
        history = shared.get((ticker, now))
        if history is None:
            history = shared[ticker, now] = prices[ticker, now : now + h].tolist()
        histories.append(history)
    table = {
        "time": time,
        "ticker": tickers[which],
        "sector": np.array(["Finance", "Hi-Tech", "Hi-Tech"])[kinds],
        "price": prices[which, minute + h - 1],
        "history": pd.Series(histories, dtype=object),
    }
    return Stream.from_pandas(pd.DataFrame(table), every="Stock")


def letters(n: int, f_c: float = 0.01, seed: int = 0, *, period: int | None = None) -> Stream:
    """`sector_ticks` without the stocks: events of types A, B and C with a number `x` below 100.

    A and B are equally frequent up to slight changes, C is `f_c` times as frequent as either; with
    `period` the rare one changes: C, then A, then B. One pair in a hundred satisfies
    `(a.x + b.x) % 100 = 0`, a condition that is quicker to try than a correlation.

    >>> letters(1000, seed=7)[0]
    e0 A x=18 at 3
    """
    import pandas as pd

    random, kinds, time = _kinds(n, f_c, seed, period)
    table = {"time": time, "type": np.array(["A", "B", "C"])[kinds],
             "x": random.integers(0, NUMBERS, n)}  # fmt: skip
    return Stream.from_pandas(pd.DataFrame(table))


def _kinds(
    n: int, f_c: float, seed: int, period: int | None
) -> tuple[np.random.Generator, Array, Array]:
    """Which of the three kinds (0, 1, 2) each event is, and when it comes."""
    if n < 1:
        raise CepError(f"n must be 1 or more, not {n}")
    if not 0 < f_c <= 1:
        raise CepError(f"f_c is above 0 and at most 1, as c is the rare one, not {f_c}")
    if period is not None and period < 1:
        raise CepError(f"period is a number of events from 1, not {period}")
    random = np.random.default_rng(seed)
    place = np.arange(n)
    rare = np.full(n, 2) if period is None else (place // period + 2) % 3
    share = 0.5 + SWING * np.sin(2 * np.pi * place / SLOW)
    # Exactly as many rare ones as asked for: a few more or less would show where c is very rare.
    is_rare = random.permutation(n) < max(1, round(n * f_c / (2 + f_c)))
    is_second = random.random(n) >= share
    # The two kinds that are not rare, in order: 0 and 1, 1 and 2, or 0 and 2.
    one, other = np.where(rare == 0, 1, 0), np.where(rare == 2, 1, 2)
    kinds = np.where(is_rare, rare, np.where(is_second, other, one))
    return random, kinds, SPACING * np.cumsum(~is_rare)


def correlated(sequence: str = "abc") -> str:
    """The query of the experiments, as text: three stocks in a `sequence`, two pairs correlated.

    T, h, Finance and Hi-Tech are left open: `cep.parse(correlated()).given(T=0.9, h="10 minutes",
    Finance=FINANCE, Hi_Tech=HI_TECH)`.

    >>> print(correlated("acb"))
    PATTERN SEQ(Stock a, Stock c, Stock b)
    WHERE (a.ticker IN Finance) AND (b.ticker IN Hi-Tech)
    AND (c.ticker = GOOG) AND (Corr(a.history, b.history) > T)
    AND (Corr(b.history, c.history) > T)
    WITHIN h
    """
    return "\n".join(
        [
            _sequence(sequence, {"a": "Stock", "b": "Stock", "c": "Stock"}),
            "WHERE (a.ticker IN Finance) AND (b.ticker IN Hi-Tech)",
            "AND (c.ticker = GOOG) AND (Corr(a.history, b.history) > T)",
            "AND (Corr(b.history, c.history) > T)",
            "WITHIN h",
        ]
    )


def paired(sequence: str = "abc", minutes: int = 10) -> str:
    """The same query on `letters`: a with b and b with c, each pair passed by one in a hundred.

    >>> print(paired("cba"))
    PATTERN SEQ(C c, B b, A a)
    WHERE (a.x + b.x) % 100 = 0 AND (b.x + c.x) % 100 = 0
    WITHIN 10 minutes
    """
    return "\n".join(
        [
            _sequence(sequence, {"a": "A", "b": "B", "c": "C"}),
            f"WHERE (a.x + b.x) % {NUMBERS} = 0 AND (b.x + c.x) % {NUMBERS} = 0",
            f"WITHIN {minutes} minutes",
        ]
    )


def _sequence(sequence: str, types: dict[str, str]) -> str:
    if sorted(sequence) != sorted(types):
        raise CepError(f"a sequence has each of a, b and c once, as in 'cba', not {sequence!r}")
    return f"PATTERN SEQ({', '.join(f'{types[name]} {name}' for name in sequence)})"


def correlation_threshold(stream: Stream, share: float = 0.01, h: int = 10) -> float:
    """The T that about a `share` of the pairs of `sector_ticks` within `h` minutes passes.

    Walks that know nothing of each other correlate highly by chance, so T is high. The pairs are of
    events of the two sectors with less than the window between them.
    """
    sector, time = stream.column("sector"), stream.ends
    mine = stream.column("ticker") != GOOG
    finance, tech = (np.flatnonzero(mine & (sector == name)) for name in ("Finance", "Hi-Tech"))
    random = np.random.default_rng(0)
    chosen = random.choice(finance, min(len(finance), 2000), replace=False)
    low = np.searchsorted(time[tech], time[chosen] - 60 * h, side="right")
    high = np.searchsorted(time[tech], time[chosen] + 60 * h, side="left")
    pairs = [(a, tech[k]) for a, i, j in zip(chosen, low, high, strict=True) for k in range(i, j)]
    if not pairs:
        raise CepError("the stream has no two events of the two sectors in one window")
    one, other = (_standard(stream, np.array(side)) for side in zip(*pairs, strict=True))
    return round(float(np.quantile((one * other).sum(axis=1), 1 - share)), 4)


def _standard(stream: Stream, rows: Array) -> Array:
    """Histories with mean 0 and length 1: the product of two is their correlation."""
    unique, back = np.unique(rows, return_inverse=True)
    column = stream.column("history")
    table = np.array([column[row] for row in unique])
    table = table - table.mean(axis=1, keepdims=True)
    return np.asarray((table / np.linalg.norm(table, axis=1, keepdims=True))[back])
