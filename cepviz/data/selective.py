"""Types that follow each other with chosen selectivities, and the query on them, as in APAM."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cepviz.errors import CepError
from cepviz.events import Stream

#: APAM Table 2: by number of the experiment, the selectivities of the four conditions.
TABLE_2 = {
    1: (0.008, 0.006, 0.004, 0.002),
    2: (0.002, 0.004, 0.006, 0.008),
    3: (0.006, 0.002, 0.004, 0.008),
}
LETTERS = "ABCDEFGHIJ"
#: The values of an attribute lie in a range of this size.
DOMAIN = 1_000_000


def chained(n: int, selectivities: Sequence[float] = TABLE_2[1], seed: int = 0) -> Stream:
    """`n` events of types A, B, C ..., each type as frequent as any other, in no order.

    There is one type more than selectivities. The first selectivity is the share of pairs with
    `A.attr1 < B.attr1`, the second that of `B.attr2 < C.attr2`, and so on: the ranges of the two
    overlap just so far. One event comes in each unit of time.

    >>> chained(100, [0.1, 0.5])[0]
    e0 C attr1=None attr2=479987 at 0
    """
    import pandas as pd

    if not 1 <= len(selectivities) < len(LETTERS):
        raise CepError(f"give 1 to {len(LETTERS) - 1} selectivities, not {len(selectivities)}")
    for share in selectivities:
        if not 0 < share <= 0.5:
            raise CepError(f"a selectivity lies above 0 and up to 0.5 here, not {share}")
    random = np.random.default_rng(seed)
    kinds = random.integers(0, len(selectivities) + 1, n)
    columns: dict[str, object] = {"type": np.array(list(LETTERS))[kinds], "time": np.arange(n)}
    for number, share in enumerate(selectivities):
        values = np.full(n, np.nan)
        # Of two values in ranges that overlap by a part x, the lower range's is higher in x²/2.
        up = round((1 - math.sqrt(2 * share)) * DOMAIN)
        for kind, least in ((number, up), (number + 1, 0)):
            mine = kinds == kind
            values[mine] = least + random.integers(0, DOMAIN, int(mine.sum()))
        columns[f"attr{number + 1}"] = pd.array(values).astype("Int64")
    return Stream.from_pandas(pd.DataFrame(columns))


def chained_query(conditions: int = 4, events: int = 2000) -> str:
    """The query of APAM's Figure 3(b), for so many conditions and a window of so many events.

    >>> print(chained_query(2, 100))
    PATTERN A; B; C
    WHERE A.attr1 < B.attr1 AND B.attr2 < C.attr2
    WITHIN 100 events
    """
    tests = [f"{LETTERS[k]}.attr{k + 1} < {LETTERS[k + 1]}.attr{k + 1}" for k in range(conditions)]
    names = "; ".join(LETTERS[: conditions + 1])
    return f"PATTERN {names}\nWHERE {' AND '.join(tests)}\nWITHIN {events} events"
