"""Stock tickers and the queries on them, as in the experiments of SASE+ (section 6)."""

from __future__ import annotations

import numpy as np

from cepviz.errors import CepError, one_of
from cepviz.events import Stream

#: Prices go round in a circle of this many.
PRICES = 1000

STRATEGIES = {"s2": "partition_contiguity", "s3": "skip_till_next_match"}
ITERATORS = {
    "p1": "",
    "p2": "a[i].price > a[i-1].price",
    "p3": "a[i].price > min(a[..i-1].price)",
    "p3max": "a[i].price > max(a[..i-1].price)",
    "p3min": "a[i].price > min(a[..i-1].price)",
    "p3avg": "a[i].price > avg(a[..i-1].price)",
    "p3*": "a[i].price > min(a[..i-1].price)",
}


def stock_ticks(
    n: int, symbols: int = 2, p: float = 0.7, seed: int = 0, *, lowest: int = 1
) -> Stream:
    """A ticker of `n` events of type STOCK with symbol, price and volume, one each time unit.

    The symbol is uniform in 1..`symbols`, the volume in 1..1000. The price of a symbol begins
    anywhere and moves by 1: up with probability `p`, down with (1-p)/2, else it stays.

    The paper gives the range [1-1000] and not what happens at its ends. Here the price goes round:
    after 1000 comes 1, and before 1 comes 1000. A run that begins at 1000 then never sees a higher
    price, yet the paper's match lengths (Table 2) are those of runs that all do. With `lowest=0`
    the same circle is 0..999: the two prices divisible by 500 are 0 and 500, both with higher ones
    to come, and the lengths are the paper's. The benchmarks use that.

    >>> stock_ticks(1000, seed=7)[0]
    e0 STOCK symbol=2 price=233 volume=532 at 0
    """
    import pandas as pd

    if n < 1 or symbols < 1:
        raise CepError(f"n and symbols must be 1 or more, not n={n}, symbols={symbols}")
    if not 0 <= p <= 1:
        raise CepError(f"p is the probability of a rise, from 0 to 1, not {p}")
    random = np.random.default_rng(seed)
    symbol = random.integers(1, symbols + 1, n)
    chance = random.random(n)
    step = (chance < p).astype(np.int64) - (chance >= (1 + p) / 2)
    volume = random.integers(1, 1001, n)
    begin = random.integers(0, PRICES, symbols)
    # Each symbol walks by itself: sum the steps of its own events, taken one symbol after another.
    order = np.argsort(symbol, kind="stable")
    count = np.bincount(symbol, minlength=symbols + 1)[1:]
    walked = np.cumsum(step[order])
    before = np.concatenate(([0], walked))[np.cumsum(count) - count]
    price = np.empty(n, dtype=np.int64)
    price[order] = (walked - np.repeat(before - begin, count)) % PRICES + lowest
    table = {"time": np.arange(n), "symbol": symbol, "price": price, "volume": volume}
    return Stream.from_pandas(pd.DataFrame(table), every="STOCK")


def template(
    strategy: str = "s3",
    iterator: str = "p1",
    window: int = 500,
    *,
    symbols: int = 2,
    non_overlap: bool = False,
) -> str:
    """The query of the experiments, as text: a Kleene closure over one symbol, then a low volume.

    `strategy` is s2 (partition contiguity) or s3 (skip till next match). `iterator` is p1 (true),
    p2 (rises), p3 (above the minimum so far; p3max, p3min, p3avg name the aggregate), or p3*, which
    adds a third component. `window` is the paper's partition window W, in events of one symbol: as
    symbols are uniform, that is `symbols * window` events of the stream.

    >>> print(template("s3", "p2", 500))
    PATTERN SEQ(STOCK+ a[], STOCK b)
    WHERE skip_till_next_match {
        [symbol]
        and a[1].price % 500 = 0
        and a[i].price > a[i-1].price
        and b.volume < 150 }
    WITHIN 1000 events
    """
    for name, known in ((strategy, STRATEGIES), (iterator, ITERATORS)):
        if name not in known:
            raise CepError(f"unknown workload parameter {name!r} (must be {one_of(known)})")
    third = iterator.endswith("*")
    tests = ["[symbol]", "a[1].price % 500 = 0", ITERATORS[iterator], "b.volume < 150"]
    if third:
        tests += ["c.price > a[1].price", "c.price < a[a.LEN].price"]
    where = "\n    and ".join(filter(None, tests))
    return "\n".join(
        [
            f"PATTERN SEQ(STOCK+ a[], STOCK b{', STOCK c' if third else ''})",
            f"WHERE {STRATEGIES[strategy]} {{\n    {where} }}",
            f"WITHIN {symbols * window} events",
            *(["OUTPUT non_overlap"] if non_overlap else []),
        ]
    )
