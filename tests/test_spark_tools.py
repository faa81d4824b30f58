"""Around matching on Spark: statistics, real flights, the command line, and lost executors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cepviz as cep
from cepviz import cli, data
from cepviz.plans.estimate import Estimator
from cepviz.spark.java import java_home

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.filterwarnings("ignore::cepviz.CepWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
]


@pytest.fixture(scope="module")
def spark():
    return cep.spark.session()


@pytest.fixture(scope="module")
def drifting():
    """A comes ten times as often in the first half as in the second; x grows in the second."""
    random = np.random.default_rng(5)
    size = 8000
    late = np.arange(size) >= size // 2
    chance = np.where(late, 0.05, 0.5)
    return pd.DataFrame(
        {
            "type": np.where(random.random(size) < chance, "A", "B"),
            "time": np.arange(size) * 2,
            "x": random.random(size) + late,
        }
    )


# Statistics

PATTERN = "PATTERN SEQ(A a, B b) WHERE a.x > 0.5 and b.x > a.x WITHIN 40"


def test_rates_are_counted_and_selectivities_sampled_with_their_error(spark, drifting):
    measured = cep.spark.statistics(spark.createDataFrame(drifting), PATTERN, bucket=8000)
    assert len(measured.starts) == 2
    early, late = measured.at(0), measured.at(1)
    # A window of 40 holds 20 events: half of them, or a twentieth, are A.
    assert early.rate("A") == pytest.approx(10, rel=0.1)
    assert late.rate("A") == pytest.approx(1, rel=0.2)
    frame = measured.frame.set_index(["bucket", "statistic"])
    for bucket, expected in ((0, 0.5), (1, 1.0)):
        row = frame.loc[bucket, "sel(a.x > 0.5)"]
        assert abs(row["value"] - expected) < 5 * row["error"] + 0.02
        assert row["samples"] > 30
    # Given that a passed its own condition, b passes with a quarter; later with a half.
    row = frame.loc[0, "sel(b.x > a.x)"]
    assert abs(row["value"] - 0.25) < 5 * row["error"]
    assert 0 < row["error"] < 0.05
    assert (frame.loc[0, "rate(A)"]["error"], frame.loc[0, "rate(A)"]["samples"]) == (0, pd.NA)
    assert measured.df.count() == len(measured.frame) == 8
    again = cep.spark.statistics(spark.createDataFrame(drifting), PATTERN, bucket=8000)
    assert again.frame.equals(measured.frame)


def test_statistics_are_those_of_one_machine(spark, drifting):
    whole = cep.spark.statistics(
        spark.createDataFrame(drifting), PATTERN, bucket=10**6, sample=10**6
    ).statistics
    estimator = Estimator(cep.parse(PATTERN), windows=1e9, exact=True)
    for event in cep.Stream.from_pandas(drifting):
        estimator.push(event)
    assert whole.selectivities == pytest.approx(dict(estimator.statistics().selectivities))
    assert dict(whole.rates) == pytest.approx(dict(estimator.statistics().rates), rel=0.01)


def test_drift_is_drawn(spark, drifting):
    measured = cep.spark.statistics(spark.createDataFrame(drifting), PATTERN, bucket=1000)
    figure = measured.figure()
    (heat,) = figure.data
    assert list(heat.y) == ["rate(A)", "rate(B)", "sel(a.x > 0.5)", "sel(b.x > a.x)"]
    assert heat.z[0][0] > 1.5 and heat.z[0][-1] < 0.5
    assert "text/plain" in measured._repr_mimebundle_()


def test_statistics_want_a_window_and_buckets_that_are_not_too_many(spark, drifting):
    frame = spark.createDataFrame(drifting)
    with pytest.raises(cep.CepError, match="give the pattern a WITHIN"):
        cep.spark.statistics(frame, "PATTERN SEQ(A a, B b)")
    with pytest.raises(cep.CepError, match="more than 5,000 buckets"):
        cep.spark.statistics(frame, PATTERN, bucket=0.5)


def test_a_plan_comes_from_what_was_measured(spark, drifting):
    few = drifting.assign(type=np.where(drifting.index % 97 == 0, "C", drifting["type"]))
    pattern = "PATTERN SEQ(A a, B b, C c) WHERE a.x > 0.9 and c.x > b.x WITHIN 40"
    found = cep.spark.match(spark.createDataFrame(few), pattern, engine="lazy_chain")
    # By how many events there are of each type, it would be c, a, b as well; but by what passes
    # a.x > 0.9 and is in order, the rare c comes first and the many b last.
    assert str(found.plan) == "c, a, b"
    expected = cep.match(pattern, cep.Stream.from_pandas(few))
    assert len(found) == len(expected) > 0


# Real data


def test_flights_are_all_there():
    stream = data.flights()
    assert stream.counts() == {"Flight": 328521, "Cancelled": 8255, "Weather": 26115}
    assert stream.schema.attributes["dep_delay"] == "number"
    # The first flight of the year left two minutes late, at 5:17 in New York.
    first = next(event for event in stream if event.type == "Flight")
    assert (first.tailnum, first.dep_delay) == ("N14228", 2)
    assert stream.schema.format_time(first.end) == "2013-01-01 10:17:00+00:00"


def test_a_pattern_on_real_flights_is_that_of_one_machine(spark):
    stream = data.flights()
    month = stream.between("2013-02-01", "2013-02-15")
    pattern = """PATTERN SEQ(Flight+ a[], Flight b)
        WHERE partition_contiguity { [tailnum] and a[i].dep_delay > a[i-1].dep_delay + 20
              and b.dep_delay > a[a.LEN].dep_delay + 20 and a.LEN = 2 }
        WITHIN 1 day"""
    table = data.flights(spark).where("time >= '2013-02-01' and time < '2013-02-15'")
    found = cep.spark.match(table, pattern, id="id", progress=False)
    expected = cep.match(pattern, month)
    assert sorted(str(m.ids) for m in found.take(1000)) == sorted(str(m.ids) for m in expected)
    assert len(found) > 10
    # Spark's own clock is the machine's, ours is UTC: the replay finds the same flights.
    match = found.first()
    trace = match.replay()
    arrived = {step.event for step in trace if step.kind == "arrive"}
    assert {f"e{i}" for i in (*match["a"], match["b"])} <= arrived
    assert len(arrived) < 20


# The command line


def run(*arguments, capsys):
    code = cli.main(list(arguments))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_spark_match_prints_and_writes(spark, tmp_path, capsys):
    rows = [{"type": "AB"[i % 2], "time": i, "x": i} for i in range(9)] + [{"type": "A"}]
    source = tmp_path / "log.json"
    source.write_text("\n".join(map(json.dumps, rows)))
    pattern = "PATTERN SEQ(A+ a[], B b) WHERE a.LEN = 2 WITHIN 4"
    code, out, err = run(
        "spark-match", pattern, str(source), "--out", str(tmp_path / "m.csv"), "--limit", "2",
        capsys=capsys,
    )  # fmt: skip
    assert code == 0
    assert out.splitlines()[0].split() == ["match", "key", "a", "a_time", "b", "b_time", "first",
                                           "last"]  # fmt: skip
    assert "and 1 more" in out and "3 matches in 9 events by" in out
    assert "warning: 1 rows are no events: the time is missing 1" in err
    written = pd.concat(map(pd.read_csv, (tmp_path / "m.csv").glob("*.csv")))
    assert sorted(written["a"]) == ["[0,2]", "[2,4]", "[4,6]"]
    code, out, err = run(
        "spark-match", pattern, str(source), "--out", str(tmp_path / "m.csv"), capsys=capsys
    )
    assert code == 1 and "cannot write" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["PATTERN SEQ(A a, B b)", "log.csv"], 1, "cannot read 'log.csv'"),
        (["PATTERN SEQ(A a", "log.csv"], 1, "expected"),
        (["PATTERN SEQ(A a)", "log.csv", "--out", "m.txt"], 2, ".parquet, .json or .csv"),
    ],
)
def test_spark_match_says_what_is_wrong(spark, capsys, arguments, code, said):
    try:
        done, _, err = run("spark-match", *arguments, capsys=capsys)
    except SystemExit as stopped:
        done, err = stopped.code, capsys.readouterr().err
    assert done == code and said in err


def test_spark_match_runs_under_spark_submit(tmp_path):
    """A job of its own Java and Python, started by Spark's own launcher."""
    import pyspark

    (tmp_path / "job.py").write_text("from cepviz.cli import main\nraise SystemExit(main())\n")
    (tmp_path / "log.csv").write_text("type,time\nA,1\nB,2\n")
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "JAVA_HOME": str(java_home()), "PYTHONPATH": str(ROOT)}
    env |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    env |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [home / "bin" / "spark-submit", "--master", "local[1]", tmp_path / "job.py"]
    command += ["spark-match", "PATTERN SEQ(A a, B b) WITHIN 5", "log.csv"]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=env, cwd=tmp_path, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "1 match in 2 events" in done.stdout


# Executors that die

KILL = """
import os, signal, threading, time
import numpy as np, pandas as pd
import cepviz as cep


def slow(x):
    time.sleep(0.003)
    return x


def parent(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def descends(process):
    while process > 1:
        if process == os.getpid():
            return True
        process = parent(process)
    return False


def executors():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read()
            java = command.split(b"\\0")[0].endswith(b"java")
            if java and b"CoarseGrainedExecutorBackend" in command and descends(int(name)):
                found.append(int(name))
        except OSError:  # it is gone
            continue
    return found


killed = []


def kill():
    tracker = spark.sparkContext.statusTracker()
    while not killed:
        time.sleep(0.1)
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        # The stage with a task for each piece, when some of them are done.
        if any(stage and stage.numTasks > 10 and stage.numCompletedTasks > 1 for stage in stages):
            victim = executors()[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)


# The driver may be sent a megabyte in all: it would not hold the data.
spark = cep.spark.session("local-cluster[2,1,1024]", spark_driver_maxResultSize="1m",
                          spark_executor_memory="768m")
size = 30_000
random = np.random.default_rng(1)
frame = pd.DataFrame({"type": random.choice(list("ABC"), size), "time": np.arange(size),
                      "x": random.random(size), "k": random.integers(0, 50, size),
                      "id": np.arange(size), "pad": ["%064d" % i for i in range(size)]})
cep.function(slow, name="slow")
events = cep.spark.read(spark.createDataFrame(frame), id="id")
pattern = "PATTERN SEQ(A a, B b) WHERE [k] and a.x > 0.8 and b.x > slow(a.x) WITHIN 400"
threading.Thread(target=kill, daemon=True).start()
found = cep.spark.match(events, pattern, piece=2000, progress=False)
assert killed
kept = {(row["a"], row["b"]) for row in found.df.select("a", "b").toLocalIterator()}
expected = cep.match(pattern.replace("slow(a.x)", "a.x"), cep.Stream.from_pandas(frame, id="id"))
assert len(found) == len(kept) == len(expected) > 100
assert kept == {(m.ids["a"], m.ids["b"]) for m in expected}
print("killed", len(killed), "and found", len(found))
spark.stop()
"""


def test_a_killed_executor_changes_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KILL],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("killed 1 and found")
