"""The adaptivity lab without a browser: sources, notches, policies side by side."""

from __future__ import annotations

import asyncio

import pytest

import cepviz as cep
from cepviz.data.drift import drifting
from cepviz.plans.greedy import greedy
from cepviz.plans.statistics import Statistics
from cepviz.widgets.sources import settable

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

ABC = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and b.y < c.y WITHIN 10 minutes"


def share(stream, first, second, name):
    """How many pairs of events of two types are in rising order by an attribute."""
    low = [e[name] for e in stream if e.type == first]
    high = [e[name] for e in stream if e.type == second]
    return sum(a < b for a in low for b in high) / (len(low) * len(high))


def test_the_generator_has_the_rates_and_shares_asked_for():
    shares = {"B": {"x": (2, 0.2)}, "C": {"y": (2, 0.7)}}
    stream = drifting({"A": 20, "B": 10, "C": 5}, shares, windows=200, seed=1)
    counts = stream.counts()
    assert counts["A"] == pytest.approx(4000, rel=0.05)
    assert counts["C"] == pytest.approx(1000, rel=0.1)
    assert share(stream, "A", "B", "x") == pytest.approx(0.2, abs=0.04)
    assert share(stream, "B", "C", "y") == pytest.approx(0.7, abs=0.05)
    assert drifting({"A": 20}, seed=3)[0] == drifting({"A": 20}, seed=3)[0]


def test_conditions_in_a_chain_are_set_one_by_one():
    chain = cep.parse("PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and c.x > b.x WITHIN 9")
    levels = settable(chain)
    assert levels == {"a.x < b.x": ("B", "x", 2.0), "c.x > b.x": ("C", "x", 3.0)}
    both = {"B": {"x": (2, 0.2)}, "C": {"x": (3, 0.6)}}
    stream = drifting({"A": 20, "B": 20, "C": 20}, both, windows=50)
    assert share(stream, "A", "B", "x") == pytest.approx(0.2, abs=0.05)
    assert share(stream, "B", "C", "x") == pytest.approx(0.6, abs=0.05)


def test_what_a_generator_cannot_set_has_no_slider():
    odd = cep.parse("PATTERN SEQ(A a, B b) WHERE (a.x + b.x) % 2 = 0 and a.y > 3 WITHIN 9")
    assert settable(odd) == {}
    with pytest.raises(cep.CepError, match="per window of time"):
        cep.AdaptLab("PATTERN SEQ(A a, B b) WITHIN 9 events")
    with pytest.raises(cep.UnsupportedError, match="plans cannot adapt here"):
        cep.AdaptLab("PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 9")


@pytest.fixture(scope="module")
def lab():
    made = cep.AdaptLab(ABC)
    made.set()
    made.set({"rate(C)": 60})
    return made


def test_turning_a_rate_replaces_the_plan(lab):
    assert str(lab.plan) == "b, a, c"
    assert lab.same_matches and sum(lab.lanes[0].found.values()) > 0
    by_name = {lane.name: lane.engine.outcomes for lane in lab.lanes}
    assert by_name["static"] == {"first": 0, "replanned": 0, "same": 0}
    assert by_name["invariant(1, 0.1)"]["replanned"] >= 1
    assert by_name["unconditional"]["same"] > by_name["invariant(1, 0.1)"]["same"]
    assert "b, a, c instead of" in lab._state["told"][1]


def test_what_all_policies_find_is_what_naive_planning_finds():
    """The lab's events as one stream: the same matches by another engine."""
    made = cep.AdaptLab(ABC, windows=4)
    seen = []
    drawn = made._draw
    made._draw = lambda: seen.extend(events := drawn()) or events
    made.set()
    made.set({"rate(A)": 2, "rate(C)": 20})
    result = cep.match(ABC, cep.Stream.from_records(seen), engine="eager")
    assert len(result) == sum(made.lanes[0].found.values()) > 0
    assert {match.key for match in result} == set(made.lanes[0].found)


def test_the_policy_that_watches_costs_less_than_the_static_one(lab):
    last = {lane.name: lane.costs[-1][1] for lane in lab.lanes}
    assert last["invariant(1, 0.1)"] < last["static"]


def test_a_notch_is_where_the_planner_changes_its_mind():
    made = cep.AdaptLab(ABC, policies=["invariant(all, 0)"])
    first = Statistics(made.source.rates, made.source.selectivities)
    (notch,) = made.notches("rate(C)", first)
    below, above = (first.with_values({"rate(C)": notch + by}) for by in (-1, 1))
    assert greedy(made.pattern, below).plan == greedy(made.pattern, first).plan
    assert greedy(made.pattern, above).plan != greedy(made.pattern, first).plan


def test_dragging_shows_what_would_break_and_reads_nothing(lab):
    before = lab._number
    lab._told(lab, {"do": "drag", "values": {"rate(B)": 80.0}}, [])
    assert lab._live["broken"] and "breaks with these values" in lab._live["said"]
    assert lab._number == before
    lab._told(lab, {"do": "drag", "values": dict(lab.values)}, [])
    assert not lab._live["broken"]


def test_expected_and_counted_partial_matches_agree():
    made = cep.AdaptLab(ABC, windows=60)
    made.set()
    made.set()
    expected = float(made._state["told"][0].split(": ")[1].split()[0])
    assert made._actual == pytest.approx(expected, rel=0.2)


def test_release_and_script_run_beside_the_notebook():
    async def watch():
        made = cep.AdaptLab(ABC, windows=2)
        made._told(made, {"do": "release", "values": {"rate(A)": 30.0}}, [])
        await made._task
        assert made.values["rate(A)"] == 30 and made._number > 0
        made._told(made, {"do": "script"}, [])
        await asyncio.sleep(0.01)
        assert made.busy
        made._told(made, {"do": "stop"}, [])
        await made._task
        read = made._number
        assert made.busy == "" and made.same_matches
        made._told(made, {"do": "again"}, [])
        assert made._number == 0 < read

    asyncio.run(watch())


def test_a_script_goes_round(lab):
    script = lab.script()
    assert len(script) == 9
    assert script[-1] == {name: pytest.approx(v) for name, v in lab._first.with_values({}).values()
                          if name.startswith("rate(")}  # fmt: skip


def test_a_stream_is_thinned_to_the_rates():
    stream = drifting({"A": 20, "B": 20}, windows=50)
    made = cep.AdaptLab("PATTERN SEQ(A a, B b) WITHIN 10 minutes", stream)
    assert made.source.rates["A"] == pytest.approx(20, rel=0.1)
    assert made.source.selectivities == {}
    drawn = made.source.draw({"A": 5, "B": 100}, {}, 1).counts()
    assert drawn["A"] == pytest.approx(250, rel=0.25)
    assert drawn["B"] == stream.counts()["B"]


def test_a_source_is_a_function():
    def source(rates, selectivities, seed):
        return drifting(rates, windows=4, seed=seed)

    made = cep.AdaptLab("PATTERN SEQ(A a, B b) WITHIN 10 minutes", source, rates={"A": 9, "B": 3})
    made.set({"rate(B)": 20})
    assert made.same_matches and made._number > 50
    with pytest.raises(cep.CepError, match="say which rates"):
        cep.AdaptLab("PATTERN SEQ(A a, B b) WITHIN 10 minutes", source)


def test_wrong_values_are_refused_by_name(lab):
    with pytest.raises(cep.CepError, match=r"no slider 'rate\(D\)'"):
        lab.set({"rate(D)": 3})
    with pytest.raises(cep.CepError, match="between 0 and 1"):
        lab.set({"sel(a.x < b.x)": 3})
    lab._told(lab, {"do": "drag", "values": {"rate(A)": "-1"}}, [])
    assert "a number from 0" in lab.busy


def test_the_text_of_the_lab(lab):
    text = lab.text()
    assert "Plan b, a, c" in text and "Invariant 1" in text and "the same for all" in text


def test_spark_draws_the_sample():
    from cepviz.spark import session

    data = drifting({"A": 24, "B": 12}, windows=300).to_pandas()
    frame = session().createDataFrame(data)
    made = cep.AdaptLab("PATTERN SEQ(A a, B b) WITHIN 10 minutes", frame, rates={"A": 8, "B": 4})
    made.set({"rate(A)": 2})
    rates = made.statistics.rates
    assert rates["A"] == pytest.approx(2, rel=0.4) and rates["B"] == pytest.approx(4, rel=0.4)
    assert str(made.plan) == "a, b" and made.same_matches
    with pytest.raises(cep.CepError, match="say which rates to begin with"):
        cep.AdaptLab("PATTERN SEQ(A a, B b) WITHIN 10 minutes", frame)
