"""The columnar engine: the oracle's matches in every form and every batch size, and its edges.

The shared suite in test_engines.py runs it as `match` does on small data: plain.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from literal import stream
from strategies import patterns, streams

import cepviz as cep
from cepviz.engines.base import bag
from cepviz.engines.columnar import Columnar
from cepviz.engines.columnar.forms import numba_is_there
from cepviz.language.pattern import ANY

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")
BUDGET = {"runs": 3000, "matches": 3000}
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}
OUTPUTS = ("all", "all", "non_overlap")
needs_numba = pytest.mark.skipif(not numba_is_there(), reason="numba is not installed")


def oracle(pattern, events):
    try:
        return bag(cep.match(pattern, events, engine="naive", budget=BUDGET))
    except cep.BudgetError:
        assume(False)


def found(pattern, events, **options):
    return bag(cep.match(pattern, events, engine="columnar", **options))


# ---- equal to the oracle ----


@settings(max_examples=200, **QUIET)
@given(pattern=patterns(outputs=OUTPUTS), events=streams(), data=st.data())
def test_every_order_and_count_only_agree_with_the_oracle(pattern, events, data):
    wanted = oracle(pattern, events)
    plan = None
    if pattern.strategy == ANY:
        names = [v.name for v in pattern.variables.values() if not v.negated]
        plan = cep.Order(*data.draw(st.permutations(names)))
    note(f"{pattern}\n{plan}")
    assert found(pattern, events, plan=plan) == wanted
    counted = cep.match(pattern, events, engine="columnar", plan=plan, count_only=True)
    assert len(counted) == counted.counters["matches"] == sum(wanted.values())


@settings(max_examples=200, **QUIET)
@given(pattern=patterns(outputs=OUTPUTS), events=streams(), size=st.integers(0, 5))
def test_every_batch_size_agrees_with_the_oracle(pattern, events, size):
    trailing = any(n.trailing for b in pattern.branches for n in b.negations)
    assume(pattern.output == "all" or not trailing)
    wanted = oracle(pattern, events)
    note(f"{pattern}\n{size}")
    engine = Columnar(pattern, schema=events.schema)
    if size == 0:  # event by event, by the protocol of every engine
        matches = [match for event in events for match in engine.push(event)]
    else:
        parts = [events[low : low + size] for low in range(0, len(events), size)]
        matches = [match for part in parts for match in engine.push_batch(part)]
    matches += engine.flush()
    assert bag(matches) == wanted
    assert engine.counters.matches == len(matches)
    assert engine.counters.events == len(events)


@needs_numba
@settings(max_examples=25, **QUIET)
@given(pattern=patterns(outputs=OUTPUTS, max_variables=3), events=streams())
def test_compiled_agrees_with_the_oracle(pattern, events):
    assert found(pattern, events, compiled=True) == oracle(pattern, events)


COMPILED = [
    "SEQ(A a, B b, C c) WHERE a.x < b.x and b.x + c.x > 1 WITHIN 12",
    "SEQ(A a, AND(B b, C c)) WHERE a.x = c.x WITHIN 12 events",
    "AND(A a, A b, B c) WHERE a.x % 2 = b.x % 2 WITHIN 7",
    "SEQ(A a, ~(B b), C c) WHERE b.x > a.x and [k] WITHIN 12",
    "SEQ(~(B b), A a, C c) WITHIN 6",
    "SEQ(A a, ~(B b)) WHERE b.x = a.x WITHIN 6",
    "SEQ(A+ a[], B b) WHERE a[i].x >= avg(a[..i-1].x) and [k] WITHIN 8",
    "SEQ(A a, B+ b[], C c) WHERE b[i].x > a.x and sum(b[].x) < 7 and c.x < b[1].x WITHIN 8",
    "SEQ(A* a[], OR(B b, C c)) WHERE a[a.LEN].x = b.x or c.s LIKE 'u%' WITHIN 6",
    "SEQ(A a, B b) WHERE a.s = b.s and b.s < 'w' WITHIN 12",
    "SEQ(A+ a[], B b) WHERE skip_till_next_match { [k] and a[i].x >= max(a[..i-1].x) } WITHIN 12",
    "SEQ(A a, B+ b[]) WHERE skip_till_next_match { a.x < b[1].x and ~(1 = 2) } WITHIN 12",
    "SEQ(A+ a[], B b) WHERE partition_contiguity { [k] and a.LEN > 1 } WITHIN 40",
    "SEQ(A a, B b, A c) WHERE strict_contiguity and c.x <= a.x WITHIN 9",
]


@needs_numba
@pytest.mark.parametrize("text", [text for text in COMPILED if "~(1" not in text])
def test_both_forms_find_the_same_in_more_data(text):
    random = np.random.default_rng(5)
    n = 90
    frame = pd.DataFrame(
        {
            "type": random.choice(list("AABC"), n),
            "time": np.cumsum(random.integers(0, 3, n)),
            "x": pd.array(random.integers(0, 5, n), dtype="Int64"),
            "k": random.integers(0, 4, n),
            "s": random.choice(["u", "v", "w"], n),
        }
    )
    frame.loc[::7, "x"] = pd.NA
    events = cep.Stream.from_pandas(frame)
    budget = {"runs": 10**6, "matches": 10**6}
    wanted = bag(cep.match(f"PATTERN {text}", events, engine="naive", budget=budget))
    assert wanted
    for compiled in (False, True):
        result = cep.match(f"PATTERN {text}", events, engine="columnar", compiled=compiled)
        assert result.engine == f"columnar ({'compiled' if compiled else 'plain'})"
        assert bag(result) == wanted
        counted = cep.match(
            f"PATTERN {text}", events, engine="columnar", compiled=compiled, count_only=True
        )
        assert len(counted) == len(result)


# ---- which form runs ----


def test_match_uses_it_unless_somebody_watches():
    events = stream("a1 b1")
    assert cep.match("PATTERN SEQ(A a, B b) WITHIN 9", events).engine == "columnar (plain)"
    assert cep.trace("PATTERN SEQ(A a, B b) WITHIN 9", events).engine == "eager"
    lasting = stream("a1@0-2 b1@3-4")
    assert cep.match("PATTERN SEQ(A a, B b) WITHIN 9", lasting).engine == "sase"


@needs_numba
def test_large_data_is_compiled_and_small_is_not():
    random = np.random.default_rng(2)
    n = 40_000
    frame = {"type": random.choice(list("ABC"), n), "time": np.arange(n), "x": random.random(n)}
    events = cep.Stream.from_pandas(pd.DataFrame(frame))
    query = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and b.x < c.x WITHIN 100 events"
    large = cep.match(query, events, count_only=True)
    assert large.engine == "columnar (compiled)"
    small = cep.match(query, events[:3_000], count_only=True)
    assert small.engine == "columnar (plain)" and len(small) > 90_000


def test_a_python_function_runs_on_objects():
    cep.function(lambda x, y: x > y, name="beats")
    events = stream("a1(x=1) a2(x=3) b1(x=2)")
    result = cep.match("PATTERN SEQ(A a, B b) WHERE beats(b.x, a.x) WITHIN 9", events, "columnar")
    assert result.engine == "columnar (objects)"
    assert [match.ids for match in result] == [{"a": "a1", "b": "b1"}]


def test_a_python_function_on_one_event_needs_no_objects():
    cep.function(lambda x: x > 1, name="large")
    events = stream("a1(x=1) a2(x=3) b1(x=2)")
    result = cep.match("PATTERN SEQ(A a, B b) WHERE large(a.x) WITHIN 9", events, "columnar")
    assert result.engine == "columnar (plain)"
    assert [match.ids for match in result] == [{"a": "a2", "b": "b1"}]


@pytest.mark.parametrize(
    ("condition", "form"),
    [
        ("a.x / b.x > 0", "objects"),  # b.x is 0 once
        ("b.x / a.x >= 0", "plain"),
        ("a.big + b.big > 0", "objects"),  # beyond 64 bits
        ("a.big > b.big", "plain"),
        ("a.big < b.f", "objects"),  # not exact as a float
        ("a.x + b.x < 3 or a.s LIKE 'p%'", "plain"),
    ],
)
def test_what_could_fail_or_overflow_is_left_to_python(condition, form):
    rows = [
        {"type": "A", "time": 0, "x": 1, "big": 2**62 + 1, "f": 1.0, "s": "p"},
        {"type": "A", "time": 1, "x": 3, "big": 5, "f": 2.0, "s": "q"},
        {"type": "B", "time": 2, "x": 0, "big": 2**62, "f": float(2**62), "s": "q"},
        {"type": "B", "time": 3, "x": 2, "big": 4, "f": 3.5, "s": "q"},
    ]
    events = cep.Stream.from_records(rows)
    pattern = f"PATTERN SEQ(A a, B b) WHERE {condition} WITHIN 9"
    result = cep.match(pattern, events, engine="columnar")
    assert result.engine == f"columnar ({form})"
    naive = cep.match(pattern, events, engine="naive")
    assert bag(result) == bag(naive)
    assert (form == "objects") >= bool(result.failures) == bool(naive.failures)


def test_failures_are_kept_with_their_event_and_raised_on_request():
    events = stream("a1(x=1) a2(x=0) b1(x=0)")
    own = "PATTERN SEQ(A a, B b) WHERE 2 / a.x > 1 WITHIN 9"
    both = "PATTERN SEQ(A a, B b) WHERE a.x / b.x > 1 WITHIN 9"
    result = cep.match(own, events, engine="columnar")
    assert [str(f) for f in result.failures] == ["2 / a.x > 1 on a=a2: division by zero"]
    result = cep.match(both, events, engine="columnar")
    assert result.counters["failed_predicates"] == 2 == len(result.failures)
    for pattern in (own, both):
        with pytest.raises(cep.PredicateError, match="division by zero"):
            cep.match(pattern, events, engine="columnar", on_error="raise")


def test_the_source_holds_nothing_a_user_wrote():
    from cepviz.engines.columnar.table import Table

    text = "PATTERN SEQ(Alpha first, Beta second) WHERE first.price > second.price + 1234 WITHIN 77"
    rows = [{"type": t, "time": 0, "price": 1} for t in ("Alpha", "Beta")]
    events = cep.Stream.from_records(rows)
    engine = Columnar(cep.parse(text), schema=events.schema)
    engine.stream = events
    (branch,) = engine.pattern.branches
    source = engine.kernel(branch, Table(events, 77, False), False, None).written()
    for word in ("lpha", "eta", "first", "second", "price", "1234", "77"):
        assert word not in source
    other = text.replace("1234", "4").replace("77", "5").replace("price", "volume")
    rows = [{"type": t, "time": 0, "volume": 1} for t in ("Alpha", "Beta")]
    events = cep.Stream.from_records(rows)
    engine = Columnar(cep.parse(other), schema=events.schema)
    engine.stream = events
    (branch,) = engine.pattern.branches
    assert engine.kernel(branch, Table(events, 5, False), False, None).written() == source


# ---- results ----


def test_matches_are_objects_only_when_looked_at():
    result = cep.match("PATTERN SEQ(A a, B+ b[]) WITHIN 9", stream("a1 b1 b2 a2"), "columnar")
    assert len(result) == 3
    assert [m.ids["b"] for m in result] == [["b1"], ["b1", "b2"], ["b2"]]
    assert result[-1].completed.label == "b2"
    assert [m.ids for m in result[:1]] == [{"a": "a1", "b": ["b1"]}]
    assert result[0].result is result
    assert list(result.to_frame()["a"]) == ["a1"] * 3
    with pytest.raises(IndexError):
        result[3]


@pytest.mark.parametrize("zone", [None, "plain", "Europe/Berlin"])
def test_a_frame_of_rows_is_the_frame_of_objects(zone):
    times = pd.Series([0, 1, 1, 3, 4])
    if zone is not None:
        times = pd.to_datetime(times, unit="h", origin="2024-03-31")
        times = times if zone == "plain" else times.dt.tz_localize("UTC").dt.tz_convert(zone)
    rows = pd.DataFrame({"type": list("AABAB"), "time": times, "name": list("vwxyz")})
    for names in ({}, {"id": "name"}):
        events = cep.Stream.from_pandas(rows, **names)
        for text in ("SEQ(A a, B first)", "SEQ(A a, C c)", "AND(A a, B b)"):
            pattern = f"PATTERN {text} WITHIN 9 hours"
            frames = [
                cep.match(pattern, events, engine=name).to_frame() for name in ("columnar", "sase")
            ]
            by = list(frames[0].columns[:2])
            one, other = (f.sort_values(by, ignore_index=True) for f in frames)
            assert frames[0].index.name == frames[1].index.name
            pd.testing.assert_frame_equal(one, other, check_dtype=len(one) > 0)


def test_matches_come_in_the_order_of_completion():
    events = stream("a1 b1 a2 c1 b2 c2 c3")
    for text in ("SEQ(A a, B b, C c)", "OR(SEQ(A a, C c), SEQ(A a, B b))"):
        result = cep.match(f"PATTERN {text} WITHIN 9", events, engine="columnar")
        places = [match.completed.position for match in result]
        assert places == sorted(places) and len(places) > 3


def test_counting_gives_no_matches():
    result = cep.match(
        "PATTERN SEQ(A a, B b) WITHIN 9", stream("a1 b1"), engine="columnar", count_only=True
    )
    assert len(result) == 1 and "1 match in 2 events" in repr(result)
    with pytest.raises(cep.CepError, match="count_only"):
        result[0]


def test_evaluations_are_the_candidates_that_the_loops_try():
    events = stream("a1(x=1) a2(x=2) b1(x=1) b2(x=0) c1")
    pattern = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x WITHIN 9"
    order = cep.Order("c", "b", "a")
    columnar, lazy = (
        cep.match(pattern, events, engine=name, plan=order).counters
        for name in ("columnar", "lazy_chain")
    )
    # One c, its two b, and for each of these both a.
    assert columnar["evaluations"] == lazy["evaluations"] == 1 + 2 + 4
    assert columnar["filters"] == 5


# ---- limits ----


def test_the_budget_keeps_the_matches_found_until_then():
    events = stream("a1 a2 a3 a4")
    with pytest.raises(cep.BudgetError, match="4 matches") as stopped:
        cep.match("PATTERN SEQ(A+ a[]) WITHIN 99", events, engine="columnar", budget={"matches": 4})
    assert len(stopped.value.result) == 4 == len(set(bag(stopped.value.result)))
    assert stopped.value.limit == "matches"


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_numba)])
def test_lists_that_lead_nowhere_end_at_the_budget(compiled):
    """Compiled code does not hear Ctrl-C, so a search among all lists must end by itself."""
    events = stream(" ".join([*(f"a{n}(x=1)" for n in range(60)), "b1(x=0)"]))
    pattern = "PATTERN SEQ(A+ a[], B b) WHERE sum(a[].x) < b.x WITHIN 99"
    for count_only in (False, True):
        with pytest.raises(cep.BudgetError, match="5000 live runs") as stopped:
            cep.match(
                pattern, events, engine="columnar", compiled=compiled, count_only=count_only,
                budget={"runs": 5000},
            )  # fmt: skip
        assert stopped.value.limit == "runs" and len(stopped.value.result) == 0


def test_a_long_outer_loop_is_run_in_pieces(monkeypatch):
    events = stream(" ".join(f"a{n} b{n}" for n in range(400)))
    calls = []
    from cepviz.engines.columnar.forms import Pace

    before = Pace.next
    monkeypatch.setattr(Pace, "next", lambda self, low: calls.append(low) or before(self, low))
    result = cep.match("PATTERN SEQ(A a, B b) WITHIN 3 events", events, engine="columnar")
    assert len(result) == 400 and calls[:2] == [0, 256]


@pytest.mark.parametrize("text", ["SEQ(A a, A b, A c)", "SEQ(A a, A+ b[])"])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_numba)])
def test_results_come_in_chunks_that_fit_the_memory(text, compiled):
    events = stream(" ".join(f"a{n}" for n in range(12)))
    way = {"engine": "columnar", "compiled": compiled}
    everything = cep.match(f"PATTERN {text} WITHIN 99", events, **way)
    small = cep.match(f"PATTERN {text} WITHIN 99", events, memory=2 * 10**5, **way)
    assert bag(small) == bag(everything)
    with pytest.raises(cep.BudgetError, match="count_only=True") as stopped:
        cep.match(f"PATTERN {text} WITHIN 99", events, memory=600, **way)
    assert stopped.value.limit == "memory"
    kept = bag(stopped.value.result)
    assert kept and kept.items() <= bag(everything).items()


def test_options_are_checked():
    events = stream("a1")
    for options, words in [
        ({"memory": 0}, "number of bytes"),
        ({"plan": cep.Tree(("a", "b"))}, "follows an order"),
    ]:
        with pytest.raises(cep.CepError, match=words):
            cep.match("PATTERN SEQ(A a, A b) WITHIN 9", events, engine="columnar", **options)


def test_too_many_variables_are_left_to_others():
    parts = ", ".join(f"A a{n}" for n in range(13))
    with pytest.raises(cep.UnsupportedError, match=r"at most 12 variables.*'eager'"):
        cep.match(f"PATTERN SEQ({parts}) WITHIN 9", stream("a1"), engine="columnar")


def test_a_trace_names_engines_that_show_steps():
    with pytest.raises(cep.UnsupportedError, match=r"no steps to show.*'eager'"):
        cep.trace("PATTERN SEQ(A a) WITHIN 9", stream("a1"), engine="columnar")


# ---- batches ----


def test_batches_are_numbered_on_and_keep_the_open_window_only():
    engine = Columnar(cep.parse("PATTERN SEQ(A a, B b) WHERE a.s = b.s WITHIN 10"))
    batches = [
        {"type": ["A", "B"], "time": [1, 2], "s": ["x", "y"]},
        {"type": ["A", "B"], "time": [5, 9], "s": ["z", "x"]},
        {"type": ["B", "B"], "time": [11, 30], "s": ["x", "z"]},
    ]
    found = [[match.ids for match in engine.push_batch(batch)] for batch in batches]
    assert found == [[], [{"a": 0, "b": 3}], []]
    assert engine.counters.peak_buffered == 4
    with pytest.raises(cep.StreamError, match="in order of time"):
        engine.push_batch({"type": ["A"], "time": [29]})


def test_batches_may_disagree_on_the_kinds_of_their_columns():
    engine = Columnar(cep.parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 99"))
    batches = [
        {"type": ["A"], "time": [1], "x": [2**53 + 1]},
        {"type": ["B"], "time": [2], "x": [2.0**53]},
        {"type": ["B"], "time": [3]},
        {"type": ["B"], "time": [4], "x": ["a word"]},
        {"type": ["B"], "time": [5], "x": [2**53 + 2]},
    ]
    found = [match.ids for batch in batches for match in engine.push_batch(batch)]
    assert found == [{"a": 0, "b": 4}]
    assert engine.counters.failed_predicates == 1


# ---- without numba ----


def test_it_runs_without_numba():
    code = """if True:
    import sys
    import cepviz as cep
    from cepviz.engines.columnar import engine, forms
    forms.numba_is_there = engine.numba_is_there = lambda: False
    engine.WORTH_COMPILING = 0
    rows = [{"type": t, "time": n} for n, t in enumerate("ABAB")]
    result = cep.match("PATTERN SEQ(A a, B b) WITHIN 9", cep.Stream.from_records(rows), "columnar")
    assert len(result) == 3 and result.engine == "columnar (plain)"
    try:
        cep.match("PATTERN SEQ(A a) WITHIN 9", rows, "columnar", compiled=True)
    except cep.SetupError as error:
        print(error)
    assert "numba" not in sys.modules
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cepviz[fast]" in done.stdout
