"""One contestant of the race in a process of its own; orders are lines of JSON on stdin.

`{"case": {...}}` makes the data, `{"run": true}` runs the question once. The answer is a line with
seconds and the number of matches. It needs nothing of cepviz unless the
contestant is one of its engines, so that a peer can live in another environment.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: What a contestant may take; beyond it, it is out of memory.
MOST_BYTES = 8 * 2**30
#: Far above what is needed: the stream decides how long a run takes.
BUDGET = {"runs": 10**12, "buffered": 10**12, "matches": 10**12}

Case = dict[str, Any]
Run = Callable[[], int]


# ---- the data ----


def letters(events: int, f_c: float, **_: Any) -> dict[str, Any]:
    """Types A and B in equal parts, a share f_c of C, a time and a random number each."""
    random = np.random.default_rng(1)
    share = (1 - f_c) / 2
    kinds = random.choice(3, events, p=[share, share, f_c])
    return {"kinds": kinds, "time": np.arange(events), "x": random.random(events)}


def ticks(events: int, **_: Any) -> pd.DataFrame:
    """Events of three kinds, of 50 symbols, with a price."""
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "type": np.array(list("ABC"))[random.choice(3, events, p=[0.2, 0.5, 0.3])],
            "time": np.arange(events),
            "symbol": random.integers(0, 50, events),
            "price": random.integers(0, 1000, events),
        }
    )


def frame(data: dict[str, Any]) -> pd.DataFrame:
    kinds = pd.Series(pd.Categorical.from_codes(data["kinds"], list("ABC")))
    return pd.DataFrame({"type": kinds, "time": data["time"], "x": data["x"]})


# ---- cepviz ----

SEQUENCE = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and b.x < c.x WITHIN {window} events"
CONTIGUITY = """PATTERN SEQ(A a, B+ b[], C c)
WHERE partition_contiguity {{ [symbol] and c.price > a.price }} WITHIN unbounded"""
KLEENE = "PATTERN SEQ(A a, B+ b[], C c) WITHIN {window} events"


def engine(name: str, **options: Any) -> Callable[[Case], Run]:
    """An engine of cepviz on a stream that is in memory as it takes it: columns, or events."""

    def prepare(case: Case) -> Run:
        import cepviz as cep
        from cepviz.data import stock_ticks, template
        from cepviz.engines.registry import ENGINES

        race, given = case["race"], dict(options)
        if race == "template":
            stream = stock_ticks(case["events"], seed=1, lowest=0)
            text = template(case["query"][-2:], case["query"][:2], case["window"])
        elif race == "contiguity":
            stream, text = cep.Stream.from_pandas(ticks(**case)), CONTIGUITY.format()
        else:
            stream = cep.Stream.from_pandas(frame(letters(**case)))
            text = (KLEENE if race == "kleene" else SEQUENCE).format(**case)
        pattern = cep.parse(text)
        if name == "columnar":
            given["count_only"] = case["count"]
            return lambda: len(
                cep.match(pattern, stream, engine=name, budget=BUDGET, memory=2**34, **given)
            )
        events = list(stream)
        kind = ENGINES[name]
        plan = cep.Order("c", "b", "a") if name == "lazy_chain" else None
        given.update({"compressed": True} if name == "sase" and case["count"] else {})

        def run() -> int:
            made = kind(pattern, plan, schema=stream.schema, budget=BUDGET, **given)
            found = sum(len(made.push(event)) for event in events) + len(made.flush())
            packed = getattr(made, "compressed", None)
            return found if packed is None else len(packed)

        return run

    return prepare


# ---- peers ----


def hand(case: Case) -> Run:
    """What a person would write for this one question, with numba."""
    import numba

    data, window = letters(**case), case["window"]

    @numba.njit
    def loops(pa: Any, xa: Any, pb: Any, xb: Any, pc: Any, xc: Any, w: int) -> int:
        n = first_a = first_b = 0
        for k in range(len(pc)):
            oldest = pc[k] - w + 1
            while first_b < len(pb) and pb[first_b] < oldest:
                first_b += 1
            while first_a < len(pa) and pa[first_a] < oldest:
                first_a += 1
            j, last_a = first_b, first_a
            while j < len(pb) and pb[j] < pc[k]:
                while last_a < len(pa) and pa[last_a] < pb[j]:
                    last_a += 1
                if xb[j] < xc[k]:
                    limit = xb[j]
                    for i in range(first_a, last_a):
                        if xa[i] < limit:
                            n += 1
                j += 1
        return n

    def run() -> int:
        columns = []
        for kind in range(3):
            places = np.flatnonzero(data["kinds"] == kind)
            columns += [places, data["x"][places]]
        return int(loops(*columns, window))

    return run


def polars(case: Case) -> Run:
    """Two inequality joins, the rare c with b first."""
    import polars as pl

    data, window = letters(**case), case["window"]
    table = pl.DataFrame({"kind": data["kinds"], "t": data["time"], "x": data["x"]})

    def part(kind: int, name: str) -> Any:
        named = {"t": f"t{name}", "x": f"x{name}"}
        return table.lazy().filter(pl.col("kind") == kind).select("t", "x").rename(named)

    def run() -> int:
        pairs = part(2, "c").join_where(
            part(1, "b"),
            pl.col("tb") < pl.col("tc"),
            pl.col("tb") > pl.col("tc") - window,
            pl.col("xb") < pl.col("xc"),
        )
        triples = pairs.join_where(
            part(0, "a"),
            pl.col("ta") < pl.col("tb"),
            pl.col("ta") > pl.col("tc") - window,
            pl.col("xa") < pl.col("xb"),
        )
        return int(triples.select(pl.len()).collect().item())

    return run


def duckdb(case: Case) -> Run:
    """The same two joins in SQL."""
    import duckdb as db

    data, window = letters(**case), case["window"]
    table = pd.DataFrame({"kind": data["kinds"], "t": data["time"], "x": data["x"]})
    connection = db.connect()
    connection.execute("SET memory_limit = '6GB'")
    for kind, name in enumerate("abc"):
        part = table[table.kind == kind][["t", "x"]]
        connection.register("part", part)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM part")
    query = f"""SELECT count(*) FROM c
        JOIN b ON b.t < c.t AND b.t > c.t - {window} AND b.x < c.x
        JOIN a ON a.t < b.t AND a.t > c.t - {window} AND a.x < b.x"""
    return lambda: int(connection.execute(query).fetchone()[0])


def flink(case: Case) -> Run:
    """Flink SQL, strict contiguity within a partition, in batch mode on a file."""
    from pyflink.table import EnvironmentSettings, TableEnvironment

    data = ticks(**case)
    moments = pd.Timestamp("2024-01-01") + pd.to_timedelta(data.time, unit="ms")
    data["time"] = moments.dt.strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3]
    path = os.path.join(tempfile.mkdtemp(), "ticks.csv")
    data.to_csv(path, header=False, index=False)
    environment = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    environment.get_config().set("parallelism.default", str(os.cpu_count()))
    environment.execute_sql(
        f"""CREATE TABLE ticks (
            kind STRING, ts TIMESTAMP(3), symbol INT, price INT, WATERMARK FOR ts AS ts
        ) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
    )
    query = """SELECT COUNT(*) FROM ticks MATCH_RECOGNIZE (
        PARTITION BY symbol ORDER BY ts
        MEASURES A.price AS price
        ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A B+ C)
        DEFINE A AS A.kind = 'A', B AS B.kind = 'B', C AS C.kind = 'C' AND C.price > A.price)"""

    def run() -> int:
        with environment.execute_sql(query).collect() as rows:
            return int([row[0] for row in rows][-1])

    return run


CONTESTANTS: dict[str, Callable[[Case], Run]] = {
    "columnar": engine("columnar", compiled=True),
    "columnar plain": engine("columnar", compiled=False),
    "lazy_chain": engine("lazy_chain"),
    "eager": engine("eager"),
    "sase": engine("sase"),
    "sase merging": engine("sase", algorithm="merging"),
    "numba by hand": hand,
    "polars": polars,
    "duckdb": duckdb,
    "flink": flink,
}


def answer(order: dict[str, Any], name: str, state: dict[str, Run]) -> dict[str, Any]:
    if "rest" in order:
        state.clear()
        return {}
    if "case" in order:
        state["run"] = CONTESTANTS[name](order["case"])
        return {"ready": True}
    others = children_time() if name == "flink" else 0.0
    started, worked = time.perf_counter(), time.process_time()
    matches = state["run"]()
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    if name == "flink":  # its work is done by a child
        work += children_time() - others
    return {"seconds": min(seconds, work), "matches": matches}


def children_time() -> float:
    """Processor time of the children of this process."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == os.getpid():
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def main(name: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # What a peer prints does not come between.
    if name != "flink":  # The Java machine reserves far more than it takes.
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    state: dict[str, Run] = {}
    for line in sys.stdin:
        try:
            found = answer(json.loads(line), name, state)
        except ImportError as error:
            found = {"missing": str(error)}
        except MemoryError:
            found = {"failed": "out of memory"}
        except Exception as error:
            found = {"failed": f"{type(error).__name__}: {error}"[:60]}
        answers.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
