"""Stocks over trading days, and the queries on them, as in CONTEXTS (sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cepviz.errors import CepError
from cepviz.events import Stream

#: A trading day has six hours, a tick for each stock every five minutes, the last at its end.
DAY, EVERY = 360, 5
TICKS = DAY // EVERY

#: The stock query of section 3: on three days it opens with more than 1000, rises for 30 minutes
#: and stays above its opening price to the end. What its print lost is filled in: the same name in
#: every part, a rise that any lower price ends.
STOCK_QUERY = """
CONTEXT CPC
SELECT <Name, Price, Volume>
FROM WINDOW {COUNT 3, TEMPORAL 6hrs}
<<Stock>
 KLNCLOSE WINDOW {TEMPORAL 30min, COUNT 1}
 {RESTRICT {$pre.Volume > 1000},
  RESTRICT {$suf.Name = $cur.Name AND $suf.Price > $cur.Price},
  RESTRICT {$suf.Name = $cur.Name AND $suf.Price < $cur.Price}}
 <Stock>>
KLNCLOSE WINDOW {TEMPORAL 6hrs - End($pre).end % 6hrs, COUNT 1}
{RESTRICT {$suf.Name = Start($pre).Name AND $suf.Price > Start($pre).Price},
 RESTRICT {$suf.Name = Start($pre).Name AND $suf.Price <= Start($pre).Price}}
<Stock>
PUBLISH <Rising>
"""

#: What a day of a stock can be: as the query wants it, or wanting in one thing.
KINDS = ("rises", "short", "thin", "falls", "noise")


def trading_days(planted: Mapping[str, Sequence[str]], *, noise: int = 3, seed: int = 0) -> Stream:
    """Ticks of type Stock with Name, Price and Volume, in days of six hours back to back.

    `planted` says for each stock what each of its days is: "rises" as the stock query wants it,
    "short" (it rises for 20 minutes only), "thin" (it opens with a volume of 1000 or less),
    "falls" (it falls below its opening price in the end), or "noise". Further `noise` stocks have
    nothing but noise. Time counts minutes; a day's ticks are at its minutes 5 to 360.

    >>> trading_days({"ACME": ["rises", "noise"]}, noise=0)[0].Name
    'ACME'
    """
    import pandas as pd

    if not planted or not all(planted.values()):
        raise CepError("planted needs a stock with at least one day, as in {'ACME': ['rises']}")
    days = max(len(kinds) for kinds in planted.values())
    names = {**planted, **{f"NOISE{n}": () for n in range(1, noise + 1)}}
    random = np.random.default_rng(seed)
    rows = []
    for name, kinds in names.items():
        price = 100.0
        for day in range(days):
            kind = kinds[day] if day < len(kinds) else "noise"
            if kind not in KINDS:
                raise CepError(f"a day is {', '.join(KINDS)}, not {kind!r}")
            prices, volumes = _day(kind, price, random)
            price = prices[-1]
            for tick in range(TICKS):
                time = day * DAY + (tick + 1) * EVERY
                row = {"time": time, "Name": name, "Price": round(prices[tick], 2)}
                rows.append({**row, "Volume": volumes[tick]})
    frame = pd.DataFrame(rows).sort_values("time", kind="stable")
    return Stream.from_pandas(frame, every="Stock", unit="min")


def _day(kind: str, price: float, random: np.random.Generator) -> tuple[list[float], list[int]]:
    """The prices and volumes of one stock on one day."""
    volumes = random.integers(100, 900, TICKS).tolist()
    volumes[0] = 800 if kind == "thin" else int(random.integers(1200, 3000))
    rise = {"short": 20 // EVERY, "noise": 0}.get(kind, 30 // EVERY + int(random.integers(0, 6)))
    start = price + float(random.uniform(-2, 2))
    prices = [start]
    for _ in range(rise):
        prices.append(prices[-1] + float(random.uniform(0.2, 0.6)))
    prices.append(prices[-1] - 0.1)  # a lower price ends every rise
    while len(prices) < TICKS:
        step = float(random.normal(0, 0.3))
        lowest = start + 0.2 if kind not in ("noise", "short") else start - 5
        prices.append(max(lowest, prices[-1] + step))
    if kind == "falls":
        prices[-1] = start - 1
    return prices, volumes


def stock_prices(n: int, stocks: int = 20, *, sharp: float = 0.006, seed: int = 0) -> Stream:
    """A ticker of `n` events of type Stock with StockID, Price and Change, one each time unit.

    The paper took prices of 20 stocks from a finance site; these are random walks. The stocks take
    turns, so that a stock ticks once in `stocks` units. A share `sharp` of the ticks is a sharp
    change of the price, by about 5 per cent; all others stay within 1 per cent.

    >>> stock_prices(3)[2]
    e2 Stock StockID=2 Price=100.19 Change=0.19 at 2
    """
    import pandas as pd

    if n < 1 or stocks < 1:
        raise CepError(f"n and stocks must be 1 or more, not n={n}, stocks={stocks}")
    random = np.random.default_rng(seed)
    change = np.clip(random.normal(0, 0.3, n), -1, 1)
    change = np.where(random.random(n) < sharp, random.choice([-5.0, 5.0], n), change).round(2)
    price = np.empty(n)
    for stock in range(min(stocks, n)):
        steps = change[stock::stocks]
        level = np.log1p(steps / 100).cumsum()
        price[stock::stocks] = 100 * np.exp(level)
    table = {"time": np.arange(n), "StockID": np.arange(n) % stocks}
    frame = pd.DataFrame({**table, "Price": price.round(2), "Change": change})
    return Stream.from_pandas(frame, every="Stock")
