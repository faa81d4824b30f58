"""Batch matching on Spark: the same matches as on one machine, however the stream is cut."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import functions as F
from strategies import events as some_events
from strategies import patterns

import cepviz as cep
from cepviz.engines.registry import ENGINES, refusal
from cepviz.language.pattern import STRATEGIES
from cepviz.spark.columns import made_task
from cepviz.spark.cutting import OWNED, PIECE, POSITION, Needs
from cepviz.spark.worker import Tally

pytestmark = [
    pytest.mark.filterwarnings("ignore::cepviz.CepWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
]


@pytest.fixture(scope="module")
def spark():
    """The session of all Spark tests: it starts once and is never stopped."""
    return cep.spark.session()


@pytest.fixture(scope="module")
def frame():
    """Events with many ties in time, missing values, a giant key and keys in other letters."""
    random = np.random.default_rng(7)
    size = 600
    keys = np.array(["ü", "b c", "日本", "", None], dtype=object)
    return pd.DataFrame(
        {
            "type": random.choice(list("AABBC"), size),
            "time": np.sort(random.integers(0, 400, size)),
            "x": random.integers(0, 5, size).astype(float),
            "k": random.choice(keys, size, p=[0.6, 0.1, 0.1, 0.1, 0.1]),
            "n": np.where(random.random(size) < 0.1, np.nan, random.integers(-1, 2, size) * 0.0),
        }
    )


@pytest.fixture(scope="module")
def events(spark, frame):
    found = cep.spark.read(spark.createDataFrame(frame))
    found.frame.cache()
    return found


def bag(matches):
    """Matches, of Spark or of one machine, as a multiset of bindings."""
    listed = matches.take(1_000_000) if isinstance(matches, cep.spark.Matches) else matches
    return Counter(
        tuple((n, tuple(i) if isinstance(i, list) else (i,)) for n, i in sorted(m.ids.items()))
        for m in listed
    )


PATTERNS = [
    # by slices of time, with ties across their borders
    "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 4",
    "PATTERN SEQ(A a, AND(B b, C c)) WITHIN 4",
    "PATTERN SEQ(A a, OR(B b, C c)) WHERE b.x > a.x WITHIN 4",
    "PATTERN SEQ(A a, B* b[], C c) WHERE skip_till_next_match WITHIN 5",
    "PATTERN SEQ(~(C c), A a, B b, ~(C d)) WHERE a.x = b.x WITHIN 4",
    # by positions in the whole stream
    "PATTERN SEQ(A a, B b) WITHIN 4 events",
    "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9 events",
    "PATTERN SEQ(A a, B b, ~(C c)) WITHIN 5 events",
    # neighbours in the whole stream, neighbours in a partition
    "PATTERN SEQ(A a, B b) WHERE strict_contiguity WITHIN 4",
    "PATTERN SEQ(A a, B b) WHERE strict_contiguity { [k] } WITHIN 4",
    "PATTERN SEQ(A a, B b) WHERE partition_contiguity { [k] } WITHIN 20",
    # by partitions
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] } WITHIN 20",
    "PATTERN SEQ(A a, B b, C c) WHERE [k] and [n] WITHIN 30",
    "PATTERN SEQ(A a, B b) WHERE [k] and [x] WITHIN 20 OUTPUT non_overlap",
    "PATTERN SEQ(A a, C b) WHERE skip_till_next_match { [k] and [x] }",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pieces_give_the_matches_of_the_whole(events, frame, pattern):
    # Every other one by columns, whatever the default is.
    engine = "columnar" if PATTERNS.index(pattern) % 2 else None
    found = cep.spark.match(events, pattern, engine, piece=60, progress=False)
    expected = bag(cep.match(pattern, cep.Stream.from_pandas(frame)))
    assert len(found) == sum(expected.values()) > 0
    assert bag(found) == expected
    assert len({match["match"] for match in found.take(10_000)}) == len(found)
    found.free()


def test_the_giant_key_is_cut_in_time(events, frame):
    pattern = "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 5"
    found = cep.spark.match(events, pattern, piece=40, progress=False)
    assert "1 of them cut into" in found.pieces or "2 of them cut into" in found.pieces
    # No worker got the giant whole: its 340 events lie in pieces of their own.
    assert max(report.events for report in found.reports) < 150
    assert bag(found) == bag(cep.match(pattern, cep.Stream.from_pandas(frame)))


@pytest.mark.parametrize("width", [3, 1000])
def test_slices_of_a_chosen_width(events, frame, width):
    pattern = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 4"
    found = cep.spark.match(events, pattern, slice=width, progress=False)
    assert found.pieces.startswith(f"{399 // width + 1} slice")
    assert bag(found) == bag(cep.match(pattern, cep.Stream.from_pandas(frame)))


# The rule that makes pieces exact, on generated patterns, without Spark between.


def pieces_of(stream, needs, borders):
    """A stream cut at borders as `cutting` says: Arrow tables with what each piece owns."""
    line = stream.positions if needs.positions else stream.ends
    table = pa.table(
        {
            "type": stream.column("type"),
            "time": stream.ends,
            "x": pa.array([event.x for event in stream], pa.int64()),
            "k": pa.array([event.k for event in stream], pa.int64()),
            POSITION: stream.positions,
        }
    )
    keep = np.ones(len(stream), dtype=bool)
    if needs.types is not None:
        keep &= np.isin(stream.column("type"), needs.types)
    if needs.keys:
        keep &= ~stream.mask("k")
    edges = [-np.inf, *(borders if needs.ahead is not None else ()), np.inf]
    for number, (low, high) in enumerate(pairwise(edges)):
        ahead = 0 if needs.ahead is None else needs.ahead
        inside = keep & (line >= low - needs.back) & (line < high + ahead)
        if inside.any():
            part = table.filter(pa.array(inside))
            mine = (line >= low) & (line < high)
            part = part.append_column(OWNED, pa.array(mine[inside]))
            yield part.append_column(PIECE, pa.array([number] * part.num_rows))


@pytest.mark.parametrize("engine", ["naive", "columnar"])
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    patterns(strategies=STRATEGIES, outputs=("all", "all", "non_overlap")),
    some_events(),
    st.lists(st.integers(0, 12), max_size=3),
)
def test_cut_anywhere_the_matches_are_the_same(engine, pattern, listed, borders):
    made = cep.Stream.from_records(
        [{"type": e.type, "time": e.end, "x": e.x, "k": e.k} for e in listed]
    )
    try:
        needs = Needs.of(pattern, made.schema)
    except cep.UnsupportedError:
        assert pattern.within is None or pattern.output != "all"
        return
    if refusal(ENGINES[engine], pattern) is not None:
        return
    roles = {"type": "type", "time": "time"}
    task = made_task(pattern, made.schema, roles, None, (), needs, engine)
    found: Counter = Counter()
    for table in pieces_of(made, needs, sorted(borders)):
        rows = task(table).to_pylist()
        assert Tally.read(rows.pop()["_cep_tally"]).events == table.num_rows
        for row in rows:
            ids = {name: row[f"_v_{name}"] for name, _ in task.variables}
            found[str(sorted((n, i) for n, i in ids.items() if i is not None))] += 1
    expected = Counter(
        str(sorted(match.ids.items())) for match in cep.match(pattern, made, engine="naive")
    )
    assert found == expected


# What cannot be cut


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("PATTERN SEQ(A a, B b)", "no WITHIN.*Give it a WITHIN, or an equivalence"),
        ("PATTERN SEQ(A a, B b) WITHIN 5 OUTPUT non_overlap", "non_overlap.*Give it OUTPUT all"),
        ("PATTERN SEQ(A a, B b) WHERE strict_contiguity { [k] }", "Give it a WITHIN; or use"),
        ("PATTERN SEQ(A a, B b) WHERE a.y > 1 WITHIN 5", "no event has an attribute 'y'"),
    ],
)
def test_a_pattern_that_cannot_be_cut_is_refused(events, pattern, said):
    with pytest.raises(cep.CepError, match=said):
        cep.spark.match(events, pattern)


def test_wrong_numbers_are_refused(events):
    pattern = "PATTERN SEQ(A a, B b) WITHIN 5"
    with pytest.raises(cep.CepError, match="must be a number of events from 1"):
        cep.spark.match(events, pattern, piece=0)
    with pytest.raises(cep.CepError, match="number above 0"):
        cep.spark.match(events, pattern, slice=0)
    with pytest.raises(cep.CepError, match="more than 20,000 slices"):
        cep.spark.match(events, pattern, slice=0.001)


def test_no_rows_give_no_matches(spark):
    empty = spark.createDataFrame([], "type string, time long, x double, k string")
    for pattern in ("PATTERN SEQ(A a, B b) WITHIN 5", "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 5"):
        found = cep.spark.match(empty, pattern, progress=False)
        assert len(found) == 0 and found.first() is None
        assert found.df.columns == ["match", "key", "a", "a_time", "b", "b_time", "first", "last"]


def test_dates_ids_and_intervals(spark):
    rows = pd.DataFrame(
        {
            "what": ["A", "B", "A", "B", "B"],
            "start": pd.to_datetime(
                ["2024-03-31 01:59:59.999999"] * 2 + ["2024-03-31 03:00"] * 3, format="ISO8601"
            ),
            "stop": pd.to_datetime(
                ["2024-03-31 02:00", "2024-03-31 02:30"] + ["2024-03-31 03:00"] * 3
            ),
            "name": ["e1", "e2", "e3", "e4", "e5"],
        }
    )
    names = {"type": "what", "time": "start", "end": "stop", "id": "name"}
    pattern = "PATTERN SEQ(A a, B b) WITHIN 61 minutes"
    expected = bag(cep.match(pattern, cep.Stream.from_pandas(rows, **names)))
    found = cep.spark.match(spark.createDataFrame(rows), pattern, slice="1 minute", **names)
    assert bag(found) == expected and sum(expected.values()) == 4
    row = found.df.orderBy("first", "b").first()
    assert (row["a"], str(row["a_time"])) == ("e1", "2024-03-31 02:00:00")


def test_columns_do_not_collide(spark):
    rows = [{"type": "A", "time": 1, "Key": 1}, {"type": "B", "time": 2, "Key": 1}]
    found = cep.spark.match(
        spark.createDataFrame(rows), "PATTERN SEQ(A key, B key_time) WHERE [Key] WITHIN 5"
    )
    assert found.df.columns == [
        "match", "key_", "key", "key_time_", "key_time", "key_time_time", "first", "last"
    ]  # fmt: skip
    assert found.first().ids == {"key": 0, "key_time": 1} and found.first().key == 1


def test_functions_and_failures_come_back(spark):
    cep.function(lambda a, b: a + b, name="spark_test_plus")
    rows = [{"type": "A", "time": i, "x": i % 3} for i in range(9)]
    frame = spark.createDataFrame(rows)
    found = cep.spark.match(
        frame, "PATTERN SEQ(A a, A b) WHERE spark_test_plus(a.x, b.x) = 4 and 2 / a.x = 1 WITHIN 2"
    )
    assert len(found) == 0
    found = cep.spark.match(frame, "PATTERN SEQ(A a) WHERE spark_test_plus(a.x, 2) = 4 WITHIN 2")
    assert [m.ids for m in found.take(9)] == [{"a": 2}, {"a": 5}, {"a": 8}]
    found = cep.spark.match(frame, "PATTERN SEQ(A a) WHERE 1 / a.x > 0 WITHIN 2")
    assert len(found) == 6 and found.counters["failed_predicates"] == 3
    assert "division by zero" in str(found.failures[0])
    assert "3 predicates could not be computed" in repr(found)
    with pytest.raises(cep.PredicateError, match="division by zero"):
        cep.spark.match(frame, "PATTERN SEQ(A a) WHERE 1 / a.x > 0 WITHIN 2", on_error="raise")


def test_a_budget_stops_a_piece_and_keeps_what_was_found(spark):
    frame = spark.createDataFrame([{"type": "A", "time": i} for i in range(8)])
    with pytest.raises(cep.BudgetError, match="budget's limit") as stopped:
        cep.spark.match(frame, "PATTERN SEQ(A+ a[]) WITHIN 99", budget={"matches": 20})
    assert stopped.value.limit == "matches"
    assert len(stopped.value.result) == 20
    assert len(stopped.value.result.take(50)) == 20


# Reading


def test_what_is_no_event_is_kept_aside(spark, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "id,type,time,x\n"
        "1,A,2024-01-01 10:00:00,1\n"
        "2,B,2024-01-01T10:00:01.25,\n"
        "3,,2024-01-01 10:00:02,3\n"
        "4,A,yesterday,4\n"
        "5,A,,4\n"
        "1,A,2024-01-01 10:00:03,4\n"
        "6,A,2024-01-01 10:00:04Z,4\n"
        "7,A,2024,4\n"
        "8,A,2024-01-01 10:00:05,4,5,6\n"
    )
    events = cep.spark.read(path, id="id")
    report = events.report
    assert (report.rows, report.kept) == (9, 2)
    assert report.bad == {
        "the id is already taken": 1, "the row does not parse": 1, "the time cannot be read": 3,
        "the time is missing": 1, "the type is missing": 1,
    }  # fmt: skip
    assert report.nulls == {"x": 1} and report.types == {"A": 1, "B": 1}
    assert events.schema.naive and events.schema.attributes["x"] == "number"
    aside = {row["id"]: row for row in events.bad.collect() if row["id"] != 1}
    assert aside[4]["time"] == "yesterday" and aside[4]["reason"] == "the time cannot be read"
    assert aside[8]["row"].endswith(",5,6")
    assert [row["id"] for row in events.df.orderBy("time").collect()] == [1, 2]
    assert "2024-01-01 10:00:00 to 2024-01-01 10:00:01.250" in repr(events)
    assert "<div>" in events._repr_mimebundle_()["text/html"]


def test_files_are_read_in_the_order_of_their_names(spark, tmp_path):
    # The second is larger, so Spark would read it first; all events are of one time.
    tmp_path = tmp_path / "mit Lücke"
    tmp_path.mkdir()
    (tmp_path / "a.json").write_text('{"type": "A", "time": 5}\n{"type": "A", "time": 5}\n')
    (tmp_path / "b.json").write_text('{"type": "B", "time": 5}\n' * 50)
    events = cep.spark.read(tmp_path, format="json")
    found = cep.spark.match(events, "PATTERN SEQ(A a, B b) WITHIN 3 events")
    assert sorted((m["a"], m["b"]) for m in found.take(9)) == [(0, 2), (1, 2), (1, 3)]
    assert len(cep.spark.match(events, "PATTERN SEQ(B b, A a) WITHIN 99")) == 0


def test_parquet_tables_and_pandas_are_read(spark, tmp_path, frame):
    path = str(tmp_path / "events.parquet")
    frame.to_parquet(path)
    from_file = cep.spark.read(path)
    frame_of_spark = spark.createDataFrame(frame)
    frame_of_spark.createOrReplaceTempView("some_events")
    for other in (cep.spark.read("some_events"), cep.spark.read(frame)):
        assert other.report.types == from_file.report.types
        assert other.schema == from_file.schema


@pytest.mark.parametrize(
    ("rows", "keywords", "said"),
    [
        ([{"type": "A", "when": 1}], {}, "no time column 'time'.*the columns are type, when"),
        ([{"type": 1, "time": 1}], {}, "holds bigint, not text"),
        ([{"type": "A", "time": True}], {}, "holds boolean: use numbers"),
        ([{"type": "A", "time": 1, "id": 1.5}], {"id": "id"}, "use whole numbers or text"),
        ([{"type": "A", "time": 1, "stop": "2024-01-01"}], {"end": "stop"}, "make them alike"),
        ([{"type": "A", "time": "2024-01-01"}], {"unit": "s"}, "leave unit='s' out"),
        ([{"type": "A", "time": 1}], {"type": "x", "every": "A"}, "exclude each other"),
    ],
)
def test_wrong_columns_are_refused(spark, rows, keywords, said):
    with pytest.raises(cep.StreamError, match=said):
        cep.spark.read(spark.createDataFrame(pd.DataFrame(rows)), **keywords)


def test_wrong_sources_are_refused(spark, tmp_path):
    with pytest.raises(cep.StreamError, match="cannot tell what"):
        cep.spark.read("nowhere.xyz")
    with pytest.raises(cep.StreamError, match="cannot read"):
        cep.spark.read(tmp_path / "missing.csv")
    with pytest.raises(cep.StreamError, match="not a int"):
        cep.spark.read(5)


def test_dates_need_a_session_in_utc(spark):
    frame = spark.createDataFrame([("A", "2024-01-01 10:00")], "type string, time string")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with pytest.raises(cep.SetupError, match=r"spark\.conf\.set"):
            cep.spark.read(frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


# Sampling, replaying, asking


def test_a_sample_has_the_rates_asked_for(spark):
    rows = pd.DataFrame({"type": ["A"] * 6000 + ["B"] * 600 + ["C"] * 50, "id": np.arange(6650)})
    rows["time"] = np.random.default_rng(1).uniform(0, 600, len(rows))
    events = cep.spark.read(spark.createDataFrame(rows), id="id")
    stream = cep.spark.sample(events, {"A": 5, "B": 2.5}, seed=3)
    counts = stream.counts()
    assert set(counts) == {"A", "B"}
    # 3000 and 1500 expected, each drawn by chance: five standard deviations aside.
    assert abs(counts["A"] - 3000) < 5 * 3000**0.5
    assert abs(counts["B"] - 1500) < 5 * 150**0.5
    again = cep.spark.sample(
        cep.spark.read(spark.createDataFrame(rows).repartition(5), id="id"),
        {"A": 5, "B": 2.5},
        seed=3,
    )
    assert list(again.ends) == list(stream.ends)
    other = cep.spark.sample(events, {"A": 5, "B": 2.5}, seed=4)
    assert list(other.ends) != list(stream.ends)
    few = cep.spark.sample(events, {"A": 5, "B": 2.5}, seed=3, limit=100)
    assert list(few.ends) == list(stream.ends[:100])
    with pytest.raises(cep.CepError, match="no events of type 'AA'"):
        cep.spark.sample(events, {"AA": 5})


def test_a_sample_per_hour_of_dates(spark):
    rows = pd.DataFrame(
        {"type": "A", "time": pd.date_range("2024-01-01", periods=1000, freq="min")}
    )
    stream = cep.spark.sample(spark.createDataFrame(rows), {"A": 120}, per="1 hour")
    assert len(stream) == pytest.approx(2 * 999, abs=3)
    assert stream.schema.zone == "UTC"


@pytest.mark.parametrize(
    "pattern",
    [
        "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] } WITHIN 20",
        "PATTERN SEQ(A a, B b) WITHIN 4 events",
        "PATTERN SEQ(~(C c), A a, B b, ~(C d)) WHERE a.x = b.x WITHIN 4",
        "PATTERN SEQ(A a, B b) WHERE [k] and [x] WITHIN 20 OUTPUT non_overlap",
    ],
)
def test_a_match_is_replayed_from_its_window_alone(events, pattern):
    found = cep.spark.match(events, pattern, progress=False)
    match = found.take(5)[-1]
    trace = cep.spark.replay(match)
    ids = [
        i for bound in match.ids.values() for i in (bound if isinstance(bound, list) else [bound])
    ]
    labels = sorted(f"e{i}" for i in ids)
    held = [
        sorted(label for _, bound in step.bindings for label in bound)
        for step in trace
        if step.kind == "match"
    ]
    assert labels in held
    arrived = [step for step in trace if step.kind == "arrive"]
    assert len(arrived) < 150
    assert found.replay(match["match"]).counters == trace.counters


def test_why_not_takes_a_partition_and_a_range(events, frame):
    pattern = "PATTERN SEQ(A a, B b) WHERE [k] and a.x > b.x WITHIN 5"
    part = frame[(frame.k == "ü") & frame.time.between(0, 99)]
    first = part.index[part.type == "A"][0]
    second = part.index[(part.type == "B") & (part.index > first)][-1]
    said = cep.spark.why_not(
        pattern, events, key="ü", between=(0, 100), a=int(first), b=int(second)
    )
    assert not said.is_match and "window" in repr(said)
    fetched = cep.spark.fetch(events, key={"k": "ü"}, between=(50, 100))
    assert fetched.ids.tolist() == part.index[part.time >= 50].tolist()
    with pytest.raises(cep.CepError, match="more than 10 events"):
        cep.spark.fetch(events, limit=10)
    with pytest.raises(cep.CepError, match="holds no events"):
        cep.spark.fetch(events, key={"k": "nobody"})


# While it runs


def test_ctrl_c_cancels_and_leaves_the_session_usable(spark):
    def slow(x):
        time.sleep(0.05)
        return x

    cep.function(slow, name="spark_test_slow")
    frame = spark.createDataFrame([{"type": "A", "time": i, "x": i} for i in range(4000)])
    events = cep.spark.read(frame)
    threading.Timer(4, signal.raise_signal, [signal.SIGINT]).start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            cep.spark.match(
                events, "PATTERN SEQ(A a) WHERE spark_test_slow(a.x) > 0 WITHIN 5", progress=True
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - started < 60  # all of it would take minutes
    tracker, patience = spark.sparkContext.statusTracker(), time.monotonic() + 20
    while tracker.getActiveJobsIds() and time.monotonic() < patience:
        time.sleep(0.1)
    assert not tracker.getActiveJobsIds()
    assert len(cep.spark.match(events, "PATTERN SEQ(A a) WHERE a.x < 3 WITHIN 5")) == 3


def test_a_session_is_reused_and_another_master_refused(spark):
    assert cep.spark.session() is spark
    assert cep.spark.session(spark) is spark
    with pytest.raises(cep.SetupError, match="runs already"):
        cep.spark.session("local[7]")


def test_importing_spark_loads_no_pyspark():
    import subprocess
    import sys

    code = "import sys, cepviz as cep; dir(cep.spark); print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_matches_can_be_written(events, tmp_path):
    found = cep.spark.match(events, "PATTERN SEQ(A a, B b) WITHIN 3", progress=False)
    found.df.write.parquet(str(tmp_path / "out"))
    again = events.spark.read.parquet(str(tmp_path / "out"))
    assert again.count() == len(found)
    assert again.agg(F.countDistinct("match")).first()[0] == len(found)
    assert "matches in 600 events" in found._repr_mimebundle_()["text/html"]
