"""Structured Streaming: the same matches as a batch, each once, also after a restart."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import events as some_events
from strategies import patterns

import cepviz as cep
from cepviz.language.pattern import STRATEGIES
from cepviz.spark.columns import made_task
from cepviz.spark.cutting import Needs
from cepviz.spark.open_window import MICROS, NEVER, USED, VERSION, Keeping, OpenWindow

pytestmark = [
    pytest.mark.filterwarnings("ignore::cepviz.CepWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
]

SECOND = 10**6


@pytest.fixture(scope="module")
def spark():
    return cep.spark.session()


# The open window, without Spark


def table_of(events):
    return pa.table(
        {
            "type": pa.array([e.type for e in events], pa.string()),
            "time": pa.array([e.end for e in events], pa.int64()),
            "id": pa.array([e.id for e in events], pa.int64()),
            "x": pa.array([e.x for e in events], pa.int64()),
            "k": pa.array([e.k for e in events], pa.int64()),
            MICROS: pa.array([e.end * SECOND for e in events], pa.int64()),
            USED: pa.array([False] * len(events), pa.bool_()),
        }
    )


def rows_of(found, task):
    for row in found.to_pylist()[:-1]:
        ids = {name: row[f"_v_{name}"] for name, _ in task.variables}
        yield str(sorted((n, i) for n, i in ids.items() if i is not None))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    patterns(strategies=STRATEGIES, windows=["time"], outputs=("all", "all", "non_overlap")),
    some_events(),
    st.integers(0, 4),
    st.randoms(use_true_random=False),
)
def test_whatever_the_batches_each_match_is_reported_once(pattern, listed, lateness, chance):
    stream = cep.Stream.from_records(
        [{"type": e.type, "time": e.end, "id": e.id, "x": e.x, "k": e.k} for e in listed], id="id"
    )
    roles = {"type": "type", "time": "time", "id": "id"}
    try:
        needs = Needs.of(pattern, stream.schema)
        task = made_task(pattern, stream.schema, roles, None, ("id",), needs, "naive")
        keeping = Keeping.of(pattern, task)
    except cep.UnsupportedError:
        assert pattern.output != "all"
        return
    keys = sorted({e.k for e in listed if e.k is not None}) if needs.keys else [None]
    found: Counter = Counter()
    kept = {key: table_of([]) for key in keys}
    windows = {key: OpenWindow(kept[key]) for key in keys}
    # Events come in any order that the lateness allows, in batches of any size.
    waiting = sorted(listed, key=lambda e: (e.end + chance.uniform(0, lateness), e.id))
    batches = []
    while waiting:
        size = chance.randint(1, 3)
        batches.append(waiting[:size])
        waiting = waiting[size:]
    latest = 0
    for batch in (*batches, None):
        mark = NEVER if latest - lateness <= 0 else (latest - lateness) * SECOND - 1
        if batch is None:
            mark = 10**12
        for key in keys:
            mine = [e for e in batch or () if key is None or e.k == key]
            window = OpenWindow.read(*windows[key].written())
            windows[key], matches = window.moved(keeping, mark, table_of(mine))
            if matches is not None:
                found.update(rows_of(matches, task))
        latest = max([latest, *(e.end for e in batch or ())])
    expected = Counter(
        str(sorted(match.ids.items())) for match in cep.match(pattern, stream, engine="naive")
    )
    assert found == expected
    assert all(window.next(keeping) is None for window in windows.values())


def test_state_of_another_version_is_refused():
    version, done, events = OpenWindow(table_of([]), 5).written()
    assert OpenWindow.read(version, done, events).done == 5
    with pytest.raises(cep.CepError, match=f"reads version {VERSION}"):
        OpenWindow.read(VERSION + 1, done, events)


def test_state_is_compact():
    listed = [cep.Event("A", i, id=i, x=i % 5, k=0) for i in range(1000)]
    *_, written = OpenWindow(table_of(listed)).written()
    assert len(written) < 12 * 1000  # bytes for an event of five columns


# On Spark

SCHEMA = "id long, type string, time timestamp, x long, k string"
START = 1_700_000_000


def arrivals(size=400, seed=3, lateness=8):
    """Rows in the order they come: late by at most the lateness, and some with gaps."""
    chance = random.Random(seed)
    rows = [
        {
            "id": number,
            "type": chance.choice("AABC"),
            "time": START + number // 2,  # two of each time
            "x": None if chance.random() < 0.2 else 2**60 + chance.randint(0, 2),
            "k": chance.choice(["ü", "b", None]),
        }
        for number in range(size)
    ]
    # The watermark of a batch is that of those before it, so this is within the lateness.
    return sorted(rows, key=lambda row: (row["time"] + chance.uniform(0, lateness - 1), row["id"]))


def put(folder, batches):
    """Batches as files: each is what one trigger reads."""
    folder.mkdir(exist_ok=True)
    for number, batch in enumerate(batches):
        text = "".join(
            json.dumps({**row, "time": time.strftime("%FT%TZ", time.gmtime(row["time"]))}) + "\n"
            for row in batch
        )
        path = folder / f"{number:03d}.json"
        path.write_text(text)
        os.utime(path, (START + number, START + number))  # Spark reads the oldest file first


def started(spark, folder, pattern, **keywords):
    source = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    )
    found = cep.spark.match_stream(source, pattern, id="id", lateness="8 seconds", **keywords)
    return (
        found.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def ids_of(rows, names):
    return Counter(
        tuple((n, tuple(row[n]) if isinstance(row[n], list) else (row[n],)) for n in names)
        for row in rows
    )


END = {"id": 10**6, "type": "Z", "time": START + 10**5, "x": None, "k": "end"}

PATTERNS = [
    ("PATTERN SEQ(A a, B b, C c) WHERE [k] and a.x < b.x WITHIN 20 seconds", "abc"),
    ("PATTERN SEQ(A a, B+ b[], ~(C c)) WHERE skip_till_next_match { [k] } WITHIN 9 seconds", "ab"),
    ("PATTERN SEQ(A a, B b) WHERE strict_contiguity WITHIN 5 seconds", "ab"),
    ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 20 seconds OUTPUT non_overlap", "ab"),
]


@pytest.mark.parametrize(("pattern", "names"), PATTERNS)
def test_streaming_equals_batch(spark, tmp_path, pattern, names):
    rows = arrivals()
    put(tmp_path / "in", [rows[:150], rows[150:300], rows[300:], [{**END, "type": "A"}]])
    query = started(spark, tmp_path, pattern)
    query.awaitTermination()
    assert query.exception() is None
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {row["kind"] for row in out} == {"match"}
    assert len({row["match"] for row in out}) == len(out)
    whole = spark.read.schema(SCHEMA).json(str(tmp_path / "in"))
    batch = cep.spark.match(whole, pattern, id="id", order="id", progress=False)
    assert ids_of(out, names) == ids_of(batch.df.collect(), names)
    assert len(out) > 20
    # Every partition's events are gone, but for that of the last.
    states = query.lastProgress["stateOperators"][0]
    assert states["numRowsTotal"] <= 1
    counted = [p["observedMetrics"]["cepviz"]["match"] for p in query.recentProgress]
    assert sum(counted) == len(out)


def test_late_and_bad_rows_go_to_the_side(spark, tmp_path):
    rows = arrivals(100)
    late = {**rows[5], "id": 777, "k": "b"}
    bad = [{**rows[5], "id": 778, "type": None}, {**rows[5], "id": None}]
    put(tmp_path / "in", [rows, [{**END, "id": 10**6 + 1}], [late, *bad], [END]])
    query = started(spark, tmp_path, "PATTERN SEQ(A a, A b) WHERE [k] WITHIN 3 seconds")
    query.awaitTermination()
    out = spark.read.parquet(str(tmp_path / "out")).where("kind != 'match'").collect()
    said = sorted((row["kind"], row["event"] or 0) for row in out)
    # The wanted type decides whether a late row matters; one without a type always does.
    wanted = [("late", 777)] if late["type"] == "A" else []
    assert said == [("bad", 0), ("bad", 778), *wanted]
    assert all(row["match"] is None and row["first"] is not None for row in out)


def test_a_query_that_is_killed_goes_on_where_it_was(spark, tmp_path):
    """Stopped again and again in the middle of its batches: nothing lost, nothing twice."""
    pattern = "PATTERN SEQ(A a, B b, C c) WHERE [k] and a.x < b.x WITHIN 20 seconds"
    rows = arrivals()
    size = 40
    put(
        tmp_path / "in",
        [*(rows[i : i + size] for i in range(0, len(rows), size)), [{**END, "type": "A"}]],
    )
    stops = 0
    chance = random.Random(1)
    for attempt in range(30):
        query = started(spark, tmp_path, pattern)
        # Longer each time, so that it is done at some time on any machine.
        if query.awaitTermination(1.5 + 0.7 * attempt + chance.random()):
            break
        query.stop()
        stops += 1
    assert query.exception() is None
    assert stops >= 1
    out = spark.read.parquet(str(tmp_path / "out")).collect()
    whole = spark.read.schema(SCHEMA).json(str(tmp_path / "in"))
    batch = cep.spark.match(whole, pattern, id="id", order="id", progress=False)
    assert ids_of(out, "abc") == ids_of(batch.df.collect(), "abc")
    assert max(ids_of(out, "abc").values()) == 1


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("PATTERN SEQ(A a, B b) WHERE [k]", "needs a WITHIN"),
        ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 5 events", "give WITHIN a time"),
        ("PATTERN SEQ(A a, ~(B b)) WHERE [k] WITHIN 5 s OUTPUT non_overlap", "leave one of them"),
        ("PATTERN SEQ(A a, B kind) WHERE [k] WITHIN 5 s", "called 'kind'"),
        ("PATTERN SEQ(A a, B b) WHERE a.y = 1 WITHIN 5 s", "no event has an attribute 'y'"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(spark, tmp_path, pattern, said):
    put(tmp_path, [])
    source = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    with pytest.raises(cep.CepError, match=said):
        cep.spark.match_stream(source, pattern, id="id")


def test_a_batch_is_no_stream_and_text_no_time(spark, tmp_path):
    with pytest.raises(cep.StreamError, match="takes a streaming DataFrame"):
        cep.spark.match_stream(spark.range(3), "PATTERN SEQ(A a) WITHIN 5 s", id="id")
    source = spark.readStream.schema("id long, type string, time string").json(str(tmp_path))
    with pytest.raises(cep.StreamError, match="as with to_timestamp"):
        cep.spark.match_stream(source, "PATTERN SEQ(A a) WITHIN 5 s", id="id")
    with pytest.raises(cep.StreamError, match="use match_stream"):
        cep.spark.read(source)
