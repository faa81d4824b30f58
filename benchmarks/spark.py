"""Matching on Spark: events per second, two cores against one, growth, memory, real flights.

    ./run python benchmarks/spark.py [--quick]

Every measurement is a process of its own with a Spark session of its own, timed by the clock on
the wall: Java, the workers and the driver take part. Cases take turns, so that what else the
machine does falls on all of them; the load before each is in the table. The events are made on
Spark and written to Parquet first: 10,000 keys, three types, and a pattern over three events.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from _measure import Report, main, progress

ROOT = Path(__file__).parent.parent
KEYS = 10_000

#: About 20 events of a key in a window: ten matches for a hundred events.
PATTERN = """PATTERN SEQ(A a, B b, C c)
WHERE [k] and a.x < 0.2 and b.x > a.x + 0.5 and c.x > b.x WITHIN 200000"""

GROWING = """PATTERN SEQ(Flight+ a[], Flight b)
WHERE partition_contiguity { [tailnum] and a[i].dep_delay > a[i-1].dep_delay + 30
      and b.dep_delay > a[a.LEN].dep_delay + 30 and a.LEN = 2 }
WITHIN 1 day"""


@dataclass(frozen=True)
class Size:
    rows: tuple[int, ...]
    repeats: int
    memory: tuple[int, int]
    flights: bool = True


FULL = Size((1_000_000, 5_000_000, 10_000_000), 3, (1_000_000, 5_000_000))
QUICK = Size((100_000, 500_000), 1, (100_000, 500_000))


@dataclass(frozen=True)
class Job:
    """What one process does: make events, match them, or fly."""

    kind: str
    path: str = ""
    rows: int = 0
    cores: int = 2
    engine: str | None = "columnar"


def session(job: Job) -> Any:
    """A session of its own; the driver may be sent 16 MB in all, so it cannot hold the data."""
    import cepviz as cep

    return cep.spark.session(f"local[{job.cores}]", spark_driver_maxResultSize="16m")


def make(job: Job) -> dict[str, Any]:
    """Writes events to Parquet, in order of time."""
    from pyspark.sql import functions as F

    numbers = session(job).range(0, job.rows, 1, 8)
    number = F.col("id")
    frame = numbers.select(
        number,
        number.alias("time"),
        F.element_at(F.array(F.lit("A"), F.lit("B"), F.lit("C")),
                     F.pmod(F.hash(number, F.lit(1)), F.lit(3)) + 1).alias("type"),
        F.pmod(F.xxhash64(number, F.lit(2)), F.lit(KEYS)).alias("k"),
        (F.pmod(F.xxhash64(number, F.lit(3)), F.lit(10**6)) / 1e6).alias("x"),
    )  # fmt: skip
    frame.write.mode("overwrite").parquet(job.path)
    return {}


def match(job: Job) -> dict[str, Any]:
    """Reads and matches, once Java and the workers are warm."""
    import cepviz as cep

    spark = session(job)
    cep.spark.match(spark.range(10).selectExpr("id", "id time", "'A' type", "id k", "0.5 x"),
                    PATTERN, job.engine, id="id", progress=False)  # fmt: skip
    started = time.perf_counter()
    events = cep.spark.read(job.path, format="parquet", id="id")
    read = time.perf_counter() - started
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = cep.spark.match(events, PATTERN, job.engine, progress=False)
    seconds = time.perf_counter() - started - read
    return {
        "matches": len(found),
        "read": read,
        "seconds": seconds,
        "engine": found.tally.seconds,
        "worker": found.tally.total,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "grown": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def fly(job: Job) -> dict[str, Any]:
    """The whole way with real data, from an empty process to one match replayed."""
    started = time.perf_counter()
    import cepviz as cep
    from cepviz import data

    spark = session(job)
    ready = time.perf_counter() - started
    events = cep.spark.read(data.flights(spark), id="id")
    read = time.perf_counter() - started
    found = cep.spark.match(events, GROWING, progress=False)
    matched = time.perf_counter() - started
    trace = found.take(1)[0].replay()
    seconds = time.perf_counter() - started
    return {
        "session": ready,
        "read": read - ready,
        "match": matched - read,
        "replay": seconds - matched,
        "seconds": seconds,
        "matches": len(found),
        "steps": len(trace),
        "events": events.report.kept,
    }


KINDS = {"make": make, "match": match, "fly": fly}


def done(job: Job) -> dict[str, Any]:
    """Runs a job in a process of its own."""
    progress(f"{job.kind} {job.rows:,} rows on {job.cores} cores")
    load = os.getloadavg()[0]
    command = [sys.executable, __file__, "--job", json.dumps(asdict(job))]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, env=env)
    if ran.returncode:
        raise RuntimeError(f"{job} failed:\n{ran.stderr[-3000:]}")
    return {"load": load, **json.loads(ran.stdout.splitlines()[-1])}


def measure(report: Report, size: Size) -> None:
    with tempfile.TemporaryDirectory(prefix="cepviz-bench-") as folder:
        paths = {rows: f"{folder}/{rows}.parquet" for rows in {*size.rows, *size.memory}}
        for rows, path in paths.items():
            done(Job("make", path, rows))
        grow(report, size, paths)
        cores(report, size, paths)
        memory(report, size, paths)
    if size.flights:
        flights(report, size)


def grow(report: Report, size: Size, paths: dict[int, str]) -> None:
    rates: dict[int, float] = {}
    columns = ["events", "matches", "events/s", "read s", "match s", "in engine", "in worker",
               "load"]  # fmt: skip
    note = (
        "events/s of matching, reading aside. Shares of the time of both cores: what the engine "
        "took, and what the workers took in all with making streams of rows and rows of matches; "
        "the rest is Spark's own, or idle."
    )
    with report.table("Growth, by key on two cores", columns, note) as table:
        results: dict[int, list[dict[str, Any]]] = {rows: [] for rows in size.rows}
        for _ in range(size.repeats):
            for rows in size.rows:
                results[rows].append(done(Job("match", paths[rows], rows)))
        for rows, found in results.items():
            best = sorted(found, key=lambda one: one["seconds"])[len(found) // 2]
            rates[rows] = rows / best["seconds"]
            both = 2 * best["seconds"]
            table.append([
                rows, best["matches"], rates[rows], best["read"], best["seconds"],
                f"{best['engine'] / both:.0%}", f"{best['worker'] / both:.0%}",
                f"{best['load']:.1f}",
            ])  # fmt: skip
    first, last = min(rates), max(rates)
    report.bar(
        f"growth is linear: {last:,} events at the rate of {first:,} or better than 0.7 of it",
        f"{rates[last] / rates[first]:.2f} of it",
        rates[last] >= 0.7 * rates[first],
    )
    report.chart(
        "Events per second",
        {"matching": (list(rates), list(rates.values()))},
        "events",
        "events/s",
    )


def cores(report: Report, size: Size, paths: dict[int, str]) -> None:
    rows = size.rows[min(1, len(size.rows) - 1)]
    columns = ["round", "one core s", "two cores s", "times as fast", "load"]
    ratios = []
    with report.table(f"Two cores against one, {rows:,} events", columns) as table:
        for turn in range(size.repeats):
            found = {
                count: done(Job("match", paths[rows], rows, count))
                for count in ((1, 2) if turn % 2 else (2, 1))
            }
            assert found[1]["matches"] == found[2]["matches"]
            ratios.append(found[1]["seconds"] / found[2]["seconds"])
            load = max(one["load"] for one in found.values())
            table.append([
                turn + 1, found[1]["seconds"], found[2]["seconds"], ratios[-1], f"{load:.1f}"
            ])  # fmt: skip
    report.bar(
        "two cores are 1.6 times as fast as one",
        f"{median(ratios):.2f} times",
        median(ratios) >= 1.6,
    )


def memory(report: Report, size: Size, paths: dict[int, str]) -> None:
    columns = ["events", "driver's peak MB", "grown while matching, MB"]
    note = "The Python driver; Spark was told to refuse sending it more than 16 MB."
    peaks = []
    with report.table("The driver's memory", columns, note) as table:
        for rows in size.memory:
            found = done(Job("match", paths[rows], rows))
            peaks.append(found["memory"])
            table.append([rows, found["memory"], found["grown"]])
    report.bar(
        f"the driver's memory does not grow from {size.memory[0]:,} to {size.memory[1]:,} events",
        f"{peaks[1] - peaks[0]:+.1f} MB of {peaks[0]:.0f}",
        peaks[1] - peaks[0] < 20,
    )


def flights(report: Report, size: Size) -> None:
    columns = ["events", "matches", "session s", "read s", "match s", "replay s", "in all s",
               "load"]  # fmt: skip
    with report.table("New York's flights, end to end", columns) as table:
        runs = [done(Job("fly")) for _ in range(size.repeats)]
        for found in runs:
            table.append([
                found["events"], found["matches"], found["session"], found["read"],
                found["match"], found["replay"], found["seconds"], f"{found['load']:.1f}",
            ])  # fmt: skip
    taken = median(found["seconds"] for found in runs)
    report.bar(
        "flights matched and one match replayed in under 30 s, session start included",
        f"{taken:.1f} s",
        taken < 30,
    )


def run(report: Report, quick: bool) -> None:
    measure(report, QUICK if quick else FULL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        job = Job(**json.loads(sys.argv[2]))
        print(json.dumps(KINDS[job.kind](job)))
    else:
        main("Spark, by the clock on the wall (not processor time)", "spark.html", run)
