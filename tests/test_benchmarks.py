"""The benchmarks run, in a size that takes seconds, and what they count is right.

No test here looks at a clock: times are for the benchmarks to print.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"
NAMES = [path.stem for path in sorted(FOLDER.glob("[!_]*.py"))]


@pytest.fixture(scope="module", autouse=True)
def folder():
    """Benchmarks are scripts: they find each other in their own folder."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))
    for name in (*NAMES, "_measure", "_racer"):
        sys.modules.pop(name, None)


@pytest.fixture
def report():
    return importlib.import_module("_measure").Report("a test")


@pytest.fixture(scope="module")
def work(folder):
    return sase().Workload(6_000, seed=2)


def sase():
    return importlib.import_module("sase")


def lazy():
    return importlib.import_module("lazy")


def test_there_are_benchmarks_and_each_imports():
    assert {"hooks", "lazy", "peers", "sase", "spark"} <= set(NAMES)
    for name in NAMES:
        importlib.import_module(name)


def test_sase_measures_everything_in_a_tiny_size(report, tmp_path, capsys):
    tiny = sase().Size(
        events=3_000, window=100, windows=(50, 100, 150), long=3_000, repeats=1, keys=(2, 50),
        keyed=2_000, memory=4_000,
    )  # fmt: skip
    sase().measure(report, tiny)
    page = tmp_path / "page.html"
    report.close(page)
    printed = capsys.readouterr().out
    for part in ("Table 2", "8(a)", "8(b)", "8(c)", "8(d)", "8(e)", "8(f)", "8(g)", "Table 3"):
        assert part in printed
    assert len(report.bars) == 6
    assert printed.count("PASS") + printed.count("FAIL") == 6
    text = page.read_text()
    assert text.count("Plotly.newPlot(") == 6
    assert 'src="http' not in text and "src='http" not in text


def test_contexts_measures_everything_in_a_tiny_size(report, tmp_path, capsys):
    contexts = importlib.import_module("contexts")
    tiny = contexts.Size(events=2_000, steps=(500, 1_000), joined=(1_500,), repeats=1)
    contexts.measure(report, tiny)
    report.close(tmp_path / "page.html")
    printed = capsys.readouterr().out
    for part in ("Simple operator", "With and without", "Ranges", "Table 2", "Coupled windows"):
        assert part in printed
    assert len(report.bars) == 7


def test_contexts_finds_the_order_of_table_2():
    contexts = importlib.import_module("contexts")
    counted = contexts.table_2(contexts.Workload(20_000))
    assert counted[50] == (2868, 5037, 5959, 4749)
    assert all(contexts.ordered(*found) for found in counted.values())


def test_hooks_off_builds_no_step(report):
    importlib.import_module("hooks").measure(report, 300, 1)
    (rows,) = report.tables.values()
    assert [row[0] for row in rows] == ["eager", "sase"]
    for _, off, on, *_ in rows:
        assert off == 0 < on
    assert report.bars[0][2]


def test_counting_steps_leaves_them_as_they_were():
    from cepviz.steps import Arrive

    before = Arrive.__init__
    with importlib.import_module("hooks").counted_steps() as made:
        Arrive("e1", "A", "1")
    assert made == [1]
    assert Arrive.__init__ is before


@pytest.mark.parametrize("query", ["p1s2", "p1s3", "p2s2", "p2s3", "p3s2", "p3s3", "p3avgs3"])
def test_algorithms_agree_on_the_queries_of_the_paper(work, query):
    basic = work.run(query, 200)
    assert basic.matches > 0
    for algorithm in ("merging", "backtrack"):
        found = work.run(query, 200, algorithm=algorithm)
        assert (found.matches, found.complexity) == (basic.matches, basic.complexity), algorithm
    for algorithm in ("basic", "merging"):
        assert work.run(query, 200, algorithm=algorithm, compressed=True).matches == basic.matches


@pytest.mark.parametrize("query", ["p3s2", "p3s3", "p3*s2", "p3*s3"])
def test_algorithms_agree_without_overlap(work, query):
    basic, again = (
        work.run(query, 200, non_overlap=True, algorithm=name) for name in ("basic", "backtrack")
    )
    assert (basic.matches, basic.complexity) == (again.matches, again.complexity)


def test_p1_takes_every_event_of_a_symbol_so_its_matches_can_be_counted_by_hand(work):
    """A start and a later low volume of the same symbol within the window: one match each."""
    columns = work.stream.columns(["symbol", "price", "volume"])
    symbol, price, volume = (column.tolist() for column in columns.values())
    counts = [
        sum(symbol[k] == symbol[first] for k in range(first, last + 1))
        for first in range(len(price))
        if price[first] % 500 == 0
        for last in range(first + 1, min(first + 400, len(price)))
        if symbol[last] == symbol[first] and volume[last] < 150
    ]
    found = work.run("p1s3", 200)
    assert (found.matches, found.complexity) == (len(counts), sum(counts))


@pytest.mark.parametrize("query", ["p1s3", "p2s2", "p2s3", "p3s2", "p3s3"])
def test_backtracking_tries_the_edges_that_basic_tries_but_reads_events_again(work, query):
    basic, again = (
        work.run(query, 200, algorithm=name).counters for name in ("basic", "backtrack")
    )
    assert again["evaluations"] == basic["evaluations"]
    assert again["reprocessed"] > 0 == basic["reprocessed"]


def test_merging_follows_fewer_runs_for_the_same_matches(work):
    basic = work.run("p1s3", 2000, compressed=True)
    merging = work.run("p1s3", 2000, compressed=True, algorithm="merging")
    assert merging.matches == basic.matches
    assert 0 < merging.counters["merged"] < work.starts
    assert merging.runs_per_step() < basic.runs_per_step()


# ---- peers: contestants in processes of their own ----


def peers():
    return importlib.import_module("peers")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_peers_measures_everything_in_a_tiny_size(report, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    tiny = peers().Size(
        events=(2_000,), windows=(50,), rates=(0.001,), contiguity=(1_000,), template=2_000,
        queries=("p2s3",), kleene=60, growth=(500, 1_000), wider=(20, 40), repeats=1, limit=60.0,
        peers=(),
    )  # fmt: skip
    peers().measure(report, tiny)
    page = tmp_path / "page.html"
    report.close(page)
    printed = capsys.readouterr().out
    assert "log-log slope in events" in printed
    assert printed.count("PASS") + printed.count("FAIL") == len(report.bars) == 5
    assert "not judged, as nothing was there to compare with" in printed  # polars, Flink
    written = peers().markdown(report)
    assert all(f"### {n}: " in written for n in range(1, 6))
    (row,) = report.tables["4: Kleene, bound by its output"]
    assert row[1] > 60


def test_a_peer_that_is_not_there_leaves_the_race(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "polars.py").write_text("raise ImportError('not here')")
    case = {"race": "sequence", "events": 100, "window": 9, "f_c": 0.1, "count": True}
    found = peers().race(case, ("polars",), peers().QUICK)["polars"]
    peers().RUNNING.pop("polars").close()
    assert found.text() == "not installed"
    assert peers().ratio({"polars": found, "columnar": found}, "polars", "columnar") is None


def test_contestants_that_disagree_are_an_error(monkeypatch):
    monkeypatch.setattr(
        peers().Contestant, "ask",
        lambda self, order: {"ready": 1} if "case" in order else
        {"seconds": 1.0, "matches": len(self.name)},
    )  # fmt: skip
    with pytest.raises(AssertionError, match="disagree"):
        peers().race({}, ("columnar", "polars"), peers().QUICK)


# ---- lazy: counts are exact, so the bars on them are tests ----


def test_lazy_measures_everything_in_a_tiny_size(report, tmp_path, capsys):
    tiny = lazy().Size(
        rates={0.001: 1_500, 0.01: 600, 1.0: 300}, stationary={0.1: 600}, seeds=(1,),
        inputs=(300, 600), period=300, periods=3, speed=400, grown=(300, 900), repeats=1,
    )  # fmt: skip
    lazy().measure(report, tiny)
    page = tmp_path / "page.html"
    report.close(page)
    printed = capsys.readouterr().out
    for part in ("Figure 7", "sequence c, b, a", "sequence a, c, b", "Figure 9", "Figure 10"):
        assert part in printed
    assert len(report.bars) == 7
    assert page.read_text().count("Plotly.newPlot(") == 6


@pytest.fixture(scope="module")
def rare(folder):
    """Events of types A, B and C, of which C is rare: f_c = 0.01."""
    return lazy().Workload.letters(6_000, 0.01)


@pytest.fixture(scope="module")
def evaluations(rare):
    return {case: rare.run(case).counters.evaluations for case in lazy().CASES}


def kinds(work):
    """The events by type, as (position, time, x)."""
    found: dict[str, list[tuple[int, int, int]]] = {"A": [], "B": [], "C": []}
    for event in work.events:
        found[event.type].append((event.position, event.end, event["x"]))
    return found.values()


def earlier(events, event, last):
    """Those before an event and in one window with the last of the match."""
    return [old for old in events if old[0] < event[0] and last[1] - old[1] < 600]


def fits(one, other):
    return (one[2] + other[2]) % 100 == 0


def test_evaluations_of_the_chain_from_c_can_be_counted_by_hand(rare, evaluations):
    """One for each c; each b before it; and for a b that fits, each a before that."""
    a_events, b_events, c_events = kinds(rare)
    count = 0
    for c in c_events:
        before = earlier(b_events, c, c)
        count += 1 + len(before)
        count += sum(len(earlier(a_events, b, c)) for b in before if fits(b, c))
    assert evaluations["cba"] == count


def test_evaluations_of_eager_can_be_counted_by_hand(rare, evaluations):
    """One for each a; each a before a b; and for each c, each pair that fits."""
    a_events, b_events, c_events = kinds(rare)
    pairs = [(a, b) for b in b_events for a in earlier(a_events, b, b)]
    fitting = [(a, b) for a, b in pairs if fits(a, b)]
    late = sum(b[0] < c[0] and c[1] - a[1] < 600 for c in c_events for a, b in fitting)
    assert evaluations["eager"] == len(a_events) + len(pairs) + late


def test_a_chain_in_the_order_of_the_sequence_tries_what_eager_tries(rare, evaluations):
    assert evaluations["abc"] == evaluations["eager"]
    assert (
        rare.run("cba", "cba").counters.evaluations == rare.run("eager", "cba").counters.evaluations
    )


@pytest.mark.parametrize(("f_c", "count", "times"), [(0.01, 6_000, 15), (0.001, 12_000, 100)])
@pytest.mark.parametrize("stream", ["stocks", "letters"])
def test_waiting_for_a_rare_event_saves_evaluations(stream, f_c, count, times):
    work = getattr(lazy().Workload, stream)(count, f_c)
    eager, chain = (work.run(case).counters for case in ("eager", "cba"))
    assert eager.evaluations >= times * chain.evaluations
    assert eager.peak_runs >= 10 * chain.peak_runs
    assert eager.matches == chain.matches


@pytest.mark.parametrize("sequence", ["abc", "cba", "acb"])
@pytest.mark.parametrize("f_c", [0.01, 0.1, 1.0])
def test_tree_is_about_as_good_as_the_best_chain(sequence, f_c):
    work = lazy().Workload.letters(3_000 if f_c < 1 else 1_500, f_c)
    chains = [work.run(case, sequence).counters for case in ("abc", "bac", "bca", "cba")]
    tree = work.run("tree", sequence).counters
    assert tree.evaluations <= 1.1 * min(chain.evaluations for chain in chains)
    assert {chain.matches for chain in chains} == {tree.matches}


@pytest.mark.parametrize(
    ("f_c", "count", "sequence"), [(0.001, 40_000, "cba"), (0.3, 6_000, "abc")]
)
def test_tree_is_not_misled_by_its_first_few_events(f_c, count, sequence):
    work = lazy().Workload.letters(count, f_c, seed=2)
    chain, tree = (work.run(case, sequence).counters for case in ("cba", "tree"))
    assert tree.evaluations <= 1.1 * chain.evaluations


def test_tree_is_better_than_every_chain_where_the_rarest_type_changes():
    work = lazy().Workload.letters(6_000, 0.01, period=1_000)
    counts = {case: work.counted(case, 500) for case in lazy().CASES}
    tree, slices = counts.pop("tree")
    assert len(slices) == 12 and sum(slices) == tree.counters.evaluations
    for case, (engine, _) in counts.items():
        assert engine.counters.evaluations > 2 * tree.counters.evaluations, case
        assert engine.counters.matches == tree.counters.matches


def test_instances_are_those_of_the_stream_so_far(rare):
    peaks = rare.peaks("eager", (100, 6_000))
    assert peaks[-1] == rare.run("eager").counters.peak_runs > peaks[0]


def test_engines_agree_on_the_query_of_the_paper():
    work = lazy().Workload.stocks(1_500, 0.1)
    wanted = work.matches("eager")
    assert wanted
    for case in (*lazy().CHAINS, "tree", lazy().JOINS):
        assert work.matches(case) == wanted, case


def test_straight_line_is_found_straight():
    assert sase().straight([1, 2, 3], [5.0, 7.0, 9.0]) == pytest.approx((2, 1))
    assert sase().straight([1, 2, 3, 4], [1.0, 4.0, 1.0, 4.0])[1] == pytest.approx(0.2)


def test_a_ratio_is_the_median_over_the_rounds():
    measure = importlib.import_module("_measure")
    times = {"slow": [2.0, 9.0, 8.0], "fast": [1.0, 1.0, 2.0]}
    assert measure.ratio(times, "slow", "fast") == 4


def test_every_case_runs_once_a_round():
    done: list[str] = []
    cases = {"x": lambda: done.append("x"), "y": lambda: done.append("y")}
    times = importlib.import_module("_measure").interleaved(cases, 2)
    assert done == ["x", "y", "y", "x"]
    assert {name: len(listed) for name, listed in times.items()} == {"x": 2, "y": 2}


def test_an_interrupted_table_is_printed_as_far_as_it_got(report, capsys):
    with pytest.raises(KeyboardInterrupt), report.table("half", ["a", "b"]) as rows:
        rows.append(["first", 1])
        raise KeyboardInterrupt
    assert "first" in capsys.readouterr().out


# ---- apam ----


def test_apam_measures_everything_in_a_tiny_size(report, capsys):
    apam = importlib.import_module("apam")
    tiny = apam.Size(events=1_500, window=150, utilisations=(0.1, 1.5), seeds=2, scale=30)
    apam.measure(report, tiny)
    printed = capsys.readouterr().out
    for part in ("Experiment 1, services counted", "Experiment 3, services measured", "361.48"):
        assert part in printed
    assert len(report.tables) == 6 and all(len(rows) == 2 for rows in report.tables.values())
    assert len(report.bars) == 2


def test_apam_counts_the_same_latencies_every_time():
    import cepviz as cep

    apam = importlib.import_module("apam")
    tiny = apam.Size(events=1_000, window=150, utilisations=(0.5,), seeds=1, scale=30)
    one, two = (apam.Experiment(1, tiny, cep.Costs()) for _ in range(2))
    (cell,) = one.cells(one.counted)
    assert cell == two.cells(two.counted)[0] and cell.lazy > 0
    assert str(one.plans[0]) == "/EDCBA"


# ---- spark ----


@pytest.mark.filterwarnings("ignore::cepviz.CepWarning", "ignore:PySpark does not yet")
def test_spark_measures_growth_and_cores_on_the_same_matches(report, monkeypatch, capsys):
    import cepviz as cep

    spark = importlib.import_module("spark")
    # In this process and its session, instead of one for each job.
    monkeypatch.setattr(spark, "session", lambda job: cep.spark.session())
    monkeypatch.setattr(spark, "done", lambda job: {"load": 0.0, **spark.KINDS[job.kind](job)})
    spark.measure(report, spark.Size((4_000, 8_000), 1, (4_000, 8_000), flights=False))
    rows = report.tables["Growth, by key on two cores"]
    assert [row[0] for row in rows] == [4_000, 8_000]
    assert all(row[2] > 0 for row in rows)
    assert len(report.bars) == 3
    assert "The driver's memory" in capsys.readouterr().out
