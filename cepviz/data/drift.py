"""Events at random, at the rates and with the shares asked for: for the adaptivity lab."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cepviz.errors import CepError
from cepviz.events import Stream


def drifting(
    rates: Mapping[str, float],
    shares: Mapping[str, Mapping[str, tuple[float, float]]] | None = None,
    *,
    window: float = 600,
    windows: float = 8,
    seed: int = 0,
) -> Stream:
    """Events of each type that come independently, `rates[type]` of them in a window on average.

    All have the attributes named in `shares`, each a number between 0 and 1. For the type that
    `shares={"B": {"x": (2, 0.1)}}` names, x is 2 with a chance of 0.1 and -2 otherwise, so that
    `a.x < b.x` is true for a tenth of the pairs.

    >>> stream = drifting({"A": 20, "B": 5}, {"B": {"x": (2, 0.1)}}, windows=100)
    >>> stream.counts()
    {'A': 2018, 'B': 524}
    >>> round(sum(event.x > 0 for event in stream if event.type == "B") / 524, 2)
    0.11
    """
    import pandas as pd

    shares = shares or {}
    random = np.random.default_rng(seed)
    names = sorted({name for by_name in shares.values() for name in by_name})
    parts = []
    for type, rate in rates.items():
        if not rate >= 0:
            raise CepError(f"the rate of {type} is a number from 0, not {rate}")
        count = int(random.poisson(rate * windows))
        columns = {"type": [type] * count, "time": random.uniform(0, window * windows, count)}
        for name in names:
            if name in shares.get(type, {}):
                level, share = shares[type][name]
                columns[name] = np.where(random.random(count) < share, level, -level)
            else:
                columns[name] = random.random(count)
        parts.append(pd.DataFrame(columns))
    frame = pd.concat(parts, ignore_index=True).sort_values("time", kind="stable")
    if not len(frame):
        raise CepError("no event came: ask for higher rates, or more windows")
    return Stream.from_pandas(frame.reset_index(drop=True))
