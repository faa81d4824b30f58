"""APAM: splits, the hybrid engine, its latency model, and the queue."""

import itertools
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from literal import stream, written
from strategies import patterns, streams

import cepviz as cep
from cepviz.engines.apam import Apam, calibrate
from cepviz.engines.base import bag
from cepviz.engines.split import SplitEngine
from cepviz.latency import Served, waits
from cepviz.plans.apam import Costs, Latency, candidates, estimate, matching_order
from cepviz.plans.plan import Branched, Split, Tree
from cepviz.plans.statistics import Statistics

quick = settings(deadline=None, suppress_health_check=list(HealthCheck))
BUDGET = {"runs": 3000, "matches": 3000}
pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

QUERIES = Path(__file__).parent / "queries"
FIGURE_2 = (QUERIES / "apam_figure2a.sase").read_text()
#: Figure 2(b); attr1 and attr2 of the paper.
FIGURE_2B = stream(
    "a1@1(attr1=2) c2@2(attr1=3,attr2=1) b3@3(attr1=1) c4@4(attr1=2,attr2=5) a5@5(attr1=7) "
    "a6@6(attr1=1) b7@7(attr1=9) c8@8(attr1=6,attr2=6) a9@9(attr1=9) b10@10(attr1=3) "
    "b11@11(attr1=4) c12@12(attr1=3,attr2=7) a13@13(attr1=3) c14@14(attr1=3,attr2=6) "
    "d15@15(attr1=5,attr2=7)"
)


# ---- plans ----


def test_a_split_prints_as_the_paper_writes_it():
    plan = Split("BC", "AD")
    assert (str(plan), repr(plan)) == ("BC/AD", "Split('BC', 'AD')")
    assert [str(Split("", "BCAD")), str(Split("ABCD"))] == ["/BCAD", "ABCD/"]
    assert plan == Split(["B", "C"], ("A", "D")) == Split("B, C", "A D")
    assert str(Split(("bid", "ask"), ["t"])) == "bid ask/t"
    assert repr(Split("bid ask", "t")) == "Split(('bid', 'ask'), ('t',))"


def test_the_eager_group_is_in_the_order_of_the_query():
    pattern = cep.parse("PATTERN A; B; C; D WITHIN 9")
    assert Split("BCA", "D").of(pattern.branches[0], pattern) == (("A", "B", "C"), ("D",))
    assert str(Split("BCA", "D").in_query_order(pattern)) == "ABC/D"
    assert str(Apam(pattern, Split("BCA", "D")).plan) == "ABC/D"


@pytest.mark.parametrize(
    ("plan", "said"),
    [(lambda: Split("AB", "BC"), "names 'B' twice"), (lambda: Split(), "here are none"),
     (lambda: Split("A"), "leaves out B"), (lambda: Split("AX", "B"), "names 'X'"),
     (lambda: cep.Order("A", "B"), "follows a split")],
)  # fmt: skip
def test_a_split_that_does_not_fit_is_refused(plan, said):
    with pytest.raises(cep.PlanError, match=said):
        cep.match("PATTERN A; B WITHIN 9", stream("a1 b2"), engine="apam", plan=plan())


# ---- Example 1 ----


def test_example_1_discards_joins_and_finds_what_figure_2_shows():
    trace = cep.trace(FIGURE_2, FIGURE_2B, engine="apam", plan=Split("BC", "DA"))
    steps = list(trace)
    start = next(i for i, s in enumerate(steps) if s.kind == "arrive" and s.event == "d15")
    # The eager pairs, which wait in the result buffer when d15 comes.
    held = trace.at(start).buffers
    assert held["(B C)"] == ("b10+c12", "b10+c14")
    assert held["A"] == ("a1", "a5", "a6", "a9", "a13")
    merge = steps[start:]
    # (1) The window is applied first, and nothing else is too old.
    prunes = [(s.buffer, s.events) for s in merge if s.kind == "prune"]
    assert prunes == [("A", ("a1", "a5"))]
    first_test = next(i for i, s in enumerate(merge) if s.kind == "test")
    assert [s.kind for s in merge[:first_test]] == ["arrive", "put", "prune"]
    # (2) and (3), in this order; what stands in the buffers of the join tree.
    tests = [(s.run, s.passed) for s in merge if s.kind == "test"]
    assert tests == [
        ("b10+c12+d15", True), ("b10+c14+d15", False),
        ("b10+c12+d15+a6", True), ("b10+c12+d15+a9", False),
    ]  # fmt: skip
    assert trace.at(-1).buffers["((B C) D)"] == ("b10+c12+d15",)
    (found,) = [step for step in merge if step.kind == "match"]
    assert dict(found.bindings) == {"A": ("a6",), "B": ("b10",), "C": ("c12",), "D": ("d15",)}


@pytest.mark.parametrize("cut", range(5))
@pytest.mark.parametrize("order", ["BCDA", "BCAD", "DCBA", "ABCD"])
def test_example_1_has_one_match_by_every_split(order, cut):
    plan = Split(order[:cut], order[cut:])
    result = cep.match(FIGURE_2, FIGURE_2B, engine="apam", plan=plan)
    assert [written(match) for match in result] == ["a6|b10|c12|d15"]


# ---- the same matches as naive ----


def splits(names):
    """Every choice of eager variables, with every order of the others."""
    for count in range(len(names) + 1):
        for eager in itertools.combinations(names, count):
            lazy = [name for name in names if name not in eager]
            for order in itertools.permutations(lazy):
                yield Split(eager, order)


@settings(quick, max_examples=40)
@given(pattern=patterns(strategies=["skip_till_any_match"]), events=streams())
def test_every_split_gives_the_matches_of_naive(pattern, events):
    assume(Apam.refuses(pattern) is None)
    names = [v.name for v in pattern.variables.values() if not v.negated]
    note(str(pattern))
    note(str([(e.label, e.type, e.time, e.attributes) for e in events]))
    try:
        expected = bag(cep.match(pattern, events, engine="naive", budget=BUDGET))
    except cep.BudgetError:
        assume(False)
    for plan in splits(names):
        note(str(plan))
        assert bag(cep.match(pattern, events, engine="apam", plan=plan)) == expected


@settings(quick, max_examples=100)
@given(
    pattern=patterns(strategies=["skip_till_any_match"], outputs=["all", "non_overlap"]),
    events=streams(), seed=st.integers(0, 2**20),
)  # fmt: skip
def test_what_is_counted_as_held_is_held(pattern, events, seed):
    """Runs and buffers are counted down as they were counted up, by whatever split."""
    assume(Apam.refuses(pattern) is None)
    draw = random.Random(seed)
    names = [v.name for v in pattern.variables.values() if not v.negated]
    draw.shuffle(names)
    cut = draw.randrange(len(names) + 1)
    note(f"{pattern} {names} {cut}")
    note(str([(e.label, e.type, e.time, e.attributes) for e in events]))
    trace = cep.Trace(schema=events.schema)
    engine = SplitEngine(pattern, Split(names[:cut], names[cut:]), schema=events.schema,
                         hooks=[trace])  # fmt: skip
    for event in events:
        engine.push(event)
    instances = held = 0
    for chain in engine.chains:
        instances += bool(chain.cut)
        for place in chain.places:
            prefixes = len(place.older) + len(place.incoming) + len(place.done)
            assert sum(map(len, place.families.values())) == len(place.older)
            if place.number and chain.places[place.number - 1].eager:
                instances += prefixes
            else:
                held += prefixes
            held += len(place.stored) if place.variable.kleene else (
                len(place.events) + len(place.waiting))  # fmt: skip
    assert (engine.live, engine.buffered) == (instances, held)
    shown = Counter({name: len(inside) for name, inside in trace.at(-1).buffers.items()})
    assert sum(shown.values()) == instances + held - sum(bool(c.cut) for c in engine.chains)
    engine.close(event, "the test ends")
    assert (engine.live, engine.buffered) == (0, 0)
    assert not any(trace.at(-1).buffers.values())


def random_split(draw, pattern):
    made = []
    for branch in pattern.branches:
        names = list(branch.by_name)
        draw.shuffle(names)
        cut = draw.randrange(len(names) + 1)
        made.append(Split(names[:cut], names[cut:]))
    return made[0] if len(made) == 1 else Branched(tuple(made))


@settings(quick, max_examples=200)
@given(
    pattern=patterns(strategies=["skip_till_any_match"]), events=streams(),
    seed=st.integers(0, 2**20), often=st.sampled_from([0.1, 0.5, 1.0]),
)  # fmt: skip
def test_no_match_is_lost_or_found_twice_whatever_splits_follow_each_other(
    pattern, events, seed, often
):
    assume(Apam.refuses(pattern) is None)
    note(str(pattern))
    note(str([(e.label, e.type, e.time, e.attributes) for e in events]))
    try:
        expected = bag(cep.match(pattern, events, engine="naive", budget=BUDGET))
    except cep.BudgetError:
        assume(False)
    draw = random.Random(seed)
    engine = Apam(pattern, random_split(draw, pattern), schema=events.schema)
    found = []
    for event in events:
        if draw.random() < often:
            engine.migrate(random_split(draw, engine.pattern))
        found += engine.push(event)
    found += engine.flush()
    assert bag(found) == expected


# ---- all eager, all lazy ----

SEQUENCES = {"kleene": False, "negation": False, "and_": False, "or_": False, "optional": False}
PLAIN = patterns(strategies=["skip_till_any_match"], windows=["time", "events"], **SEQUENCES)


@settings(quick, max_examples=200)
@given(pattern=PLAIN, events=streams())
def test_all_eager_is_the_eager_engine_down_to_its_counters(pattern, events):
    names = [v.name for v in pattern.variables.values()]
    eager = cep.match(pattern, events, engine="eager")
    split = cep.match(pattern, events, engine="apam", plan=Split(names))
    assert bag(split) == bag(eager)
    # eager counts its empty instance as a run, and a trial of it with each event that begins one;
    # here nothing is tried where there is nothing to join with.
    steps = cep.trace(pattern, events, engine="eager")
    begun = sum(step.kind == "spawn" and step.run == "0" for step in steps)
    own = {"evaluations": begun, "runs": begun + 1}
    for name, counted in eager.counters.items():
        assert split.counters[name] == counted - own.get(name, 0), name


def no_equality(pattern):
    return not pattern.same and not any("=" in str(c) for c in pattern.where)


@settings(quick, max_examples=200)
@given(pattern=PLAIN, events=streams(), seed=st.integers(0, 1000))
def test_all_lazy_tries_no_pair_that_zstream_does_not_try(pattern, events, seed):
    """zstream looks equalities up by hash, so that only without them pairs can be counted alike."""
    names = [v.name for v in pattern.variables.values()]
    random.Random(seed).shuffle(names)
    note(f"{pattern} {names}")
    tree = cep.match(pattern, events, engine="zstream", plan=Tree.left_deep(*names))
    lazy = cep.match(pattern, events, engine="apam", plan=Split("", names))
    assert bag(lazy) == bag(tree)
    assert lazy.counters["filters"] == tree.counters["filters"]
    if no_equality(pattern):
        assert lazy.counters["evaluations"] <= tree.counters["evaluations"]
        assert lazy.counters["runs"] <= tree.counters["runs"]


@pytest.mark.parametrize("order", ["ABC", "CBA", "BCA", "ACB"])
def test_all_lazy_tries_the_pairs_of_zstream_if_none_expires_before_a_final_event(order):
    draw = random.Random(1)
    records = [{"type": draw.choice("AABBC"), "time": t, "x": draw.random()} for t in range(80)]
    events = cep.Stream.from_records([*records, {"type": "C", "time": 80, "x": 2.0}])
    text = "PATTERN A; B; C WHERE A.x < B.x AND B.x < C.x WITHIN 1000"
    tree = cep.match(text, events, engine="zstream", plan=Tree.left_deep(*order))
    lazy = cep.match(text, events, engine="apam", plan=Split("", order))
    assert bag(lazy) == bag(tree)
    for name in ("evaluations", "runs", "filters", "matches"):
        assert lazy.counters[name] == tree.counters[name], name


def test_lazy_evaluation_waits_for_a_final_event():
    engine = Apam(cep.parse("PATTERN A; B; C WHERE A.x < B.x WITHIN 100"), Split("", "ABC"))
    for time in range(20):
        engine.push(cep.Event("AB"[time % 2], time, x=time))
    assert engine.counters.evaluations == 0
    assert len(engine.push(cep.Event("C", 20))) == 10 * 11 / 2
    # Each pair once, and each of those that passed with the one C.
    assert engine.counters.evaluations == 55 + 55
    assert len(engine.push(cep.Event("C", 21))) == 55
    assert engine.counters.evaluations == 55 + 55 + 55  # the pairs are not tried again


def test_deferred_events_do_not_pile_up_where_no_final_event_comes():
    engine = Apam(cep.parse("PATTERN A; B WITHIN 10"), Split("", "AB"))
    for time in range(1000):
        engine.push(cep.Event("A", time))
    assert engine.counters.peak_buffered <= 21


def test_an_old_plan_only_goes_on_with_what_it_began():
    records = [{"type": "ABC"[t % 3], "time": t, "x": t} for t in range(36)]
    listed = list(cep.Stream.from_records(records))
    text = "PATTERN A; B; C WHERE A.x < B.x and B.x < C.x WITHIN 50"
    for plan in (Split("ABC"), Split("", "ABC"), Split("A", "BC")):
        engine = Apam(cep.parse(text), plan)
        engine.push(listed[0])
        engine.migrate(Split("", "CBA"))
        for event in listed[1:]:
            engine.push(event)
        new = cep.match(text, listed[1:], engine="apam", plan=Split("", "CBA"))
        whole = cep.match(text, listed, engine="apam", plan=plan)
        old = engine.counters.evaluations - new.counters["evaluations"]
        # With the first A alone: itself, every B, and every C after each of these.
        assert old <= 1 + 12 + 12 * 13 / 2 < whole.counters["evaluations"] / 3
        assert engine.counters.matches == whole.counters["matches"]


# ---- the planner ----


def experiment(number, window=400.0):
    """The query of Figure 3(b) and what is known in an experiment of Table 2."""
    from cepviz.data import TABLE_2

    pattern = cep.parse((QUERIES / "apam_figure3b.sase").read_text())
    shares = dict(zip(map(str, pattern.where), TABLE_2[number], strict=True))
    return pattern, Statistics(dict.fromkeys("ABCDE", window), shares)


@pytest.mark.parametrize(("number", "order"), [(1, "EDCBA"), (2, "ABCDE"), (3, "BCDAE")])
def test_the_matching_orders_of_table_2(number, order):
    pattern, statistics = experiment(number)
    found, blocks = matching_order(pattern.branches[0], statistics)
    assert "".join(found) == order
    # The pair, then three places; what was compared held.
    assert [len(block.conditions) for block in blocks] == [9, 2, 1, 0]
    for condition in (c for block in blocks for c in block.conditions):
        assert condition.holds(condition.left_value, condition.right_value)


def test_the_candidates_of_the_paper():
    """Section 4: for A;B;C;D in the order B, C, A, D."""
    pattern = cep.parse("PATTERN A; B; C; D WHERE B.x < C.x AND A.x < C.x AND C.x < D.x WITHIN 9")
    statistics = Statistics(dict.fromkeys("ABCD", 10), {"B.x < C.x": 0.1, "A.x < C.x": 0.2})
    listed = candidates(pattern.branches[0], statistics)
    assert [str(plan) for plan in listed] == ["/BCAD", "B/CAD", "BC/AD", "ABC/D", "ABCD/"]


def test_the_equations_by_hand():
    """Two types, ten of each in a window, half of the pairs pass; units of one second."""
    pattern = cep.parse("PATTERN A; B WHERE A.x < B.x WITHIN 9")
    statistics = Statistics({"A": 10, "B": 10}, {"A.x < B.x": 0.5})
    costs = Costs(evaluation=2.0, result=3.0, insertion=1.0)
    eager = estimate(pattern, Split("AB"), statistics, costs, 0.01)
    # (6): an A has nothing to join with; a B is tried on ten of them and passes with five.
    a, b = 1, 1 + 10 * 2 + 5 * 3
    mean = (a + b) / 2  # (4)
    assert (eager.service, eager.service_mean) == (b, mean)  # (8), without a merge
    assert eager.service_deviation == pytest.approx((b - a) / 2)  # (5), as it should be
    load = 0.01 * mean
    assert eager.utilisation == pytest.approx(load)
    variation = ((b - a) / 2 / mean) ** 2
    assert eager.waiting == pytest.approx(load * mean / (2 * (1 - load)) * (1 + variation))  # (3)
    assert eager.latency == eager.waiting + eager.service  # (2)
    lazy = estimate(pattern, Split("", "AB"), statistics, costs, 0.01)
    # (7) for both; (9): the new B meets ten events of A, as none was merged with it before.
    assert lazy.service == 1 + 10 * 2 + 5 * 3
    assert lazy.service_mean == (1 + lazy.service) / 2


def test_a_merge_joins_what_is_new_since_the_last_final_event():
    """Every A meets every later B once, whenever final events come; not at each of them again."""
    pattern = cep.parse("PATTERN A; B; C WHERE A.x < B.x WITHIN 9")
    costs = Costs(evaluation=1.0, result=0.0, insertion=0.0)

    def merging(finals):
        statistics = Statistics({"A": 30, "B": 30, "C": finals}, {"A.x < B.x": 0.0})
        return estimate(pattern, Split("", "ABC"), statistics, costs, 1e-9).service

    assert merging(10) == pytest.approx(30 * 30 / 10)
    assert merging(90) == pytest.approx(30 * 30 / 90)
    # Where they are rare, a merge finds what one window holds and no more: equation 9 as it stands.
    assert merging(0.1) == pytest.approx(30 * 30 / 2)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_estimate_is_what_the_engine_counts(number):
    """Mean services of all candidates, against a run of 60 windows."""
    from cepviz.data import TABLE_2, chained, chained_query

    shares = [share * 10 for share in TABLE_2[number]]
    events = chained(8_000, shares, seed=3)
    pattern = cep.parse(chained_query(4, 200))
    statistics = Statistics(dict.fromkeys("ABCDE", 40.0),
                            dict(zip(map(str, pattern.where), shares, strict=True)))  # fmt: skip
    costs = Costs(1.0, 2.0, 3.0)
    for plan in candidates(pattern.branches[0], statistics):
        served = cep.serve(pattern, events, plan=plan, costs=costs)
        expected = estimate(pattern, plan, statistics, costs, 1e-9)
        assert served.services.mean() == pytest.approx(expected.service_mean, rel=0.15), str(plan)


def test_a_slow_stream_is_best_served_eagerly_and_a_fast_one_in_the_best_order():
    pattern, statistics = experiment(1)
    costs = Costs(1e-6, 2e-6, 2e-6)
    chosen = {rate: Latency(costs, rate)(pattern, statistics) for rate in (10, 3_000, 100_000)}
    assert str(chosen[10].plan) == "ABCDE/"
    eager = {rate: len(found.plan.eager) for rate, found in chosen.items()}
    assert eager[10] > eager[3_000] > eager[100_000]
    # When nothing keeps up, the fastest service wins.
    fast = chosen[100_000]
    assert all(math.isinf(e.latency) and e.utilisation >= 1 for e in fast.estimates)
    (taken,) = [e for e in fast.estimates if e.plan == fast.plan]
    assert taken.service_mean == pytest.approx(min(e.service_mean for e in fast.estimates))
    # Section 6.2.1: of the equally fast, the one that begins with D and E in query order.
    assert fast.plan == Split("DE", "CBA")
    assert len(fast.estimates) == 6


def test_a_prefix_of_the_best_order_that_is_in_query_order_is_better_eager():
    """Section 4.3, Case 2: the service of a final event is less, the utilisation the same."""
    pattern, statistics = experiment(2)
    made = [estimate(pattern, plan, statistics, Costs(), 1_000)
            for plan in candidates(pattern.branches[0], statistics)]  # fmt: skip
    loads = [e.utilisation for e in made]
    assert max(loads) < 1.05 * min(loads)
    services = [e.service for e in made]
    assert services[1:] == sorted(services[1:], reverse=True)
    assert str(Latency(Costs(), 1_000)(pattern, statistics).plan) == "ABCDE/"


def test_the_conditions_that_decided_hold_and_break_with_the_rate_of_a_type():
    pattern, statistics = experiment(1)
    planned = Latency(Costs(), 3_000)(pattern, statistics)
    *_, split = planned.blocks
    assert split.text == f"split {planned.plan}" and len(split.conditions) == 5
    for condition in (c for block in planned.blocks for c in block.conditions):
        assert condition.holds(condition.left_value, condition.right_value)
    assert str(planned).count("latency") == 6


def test_branches_of_or_are_split_one_by_one():
    pattern = cep.parse("PATTERN OR(SEQ(A a, B b), SEQ(C c, D d, E e)) WITHIN 9")
    statistics = Statistics(dict.fromkeys("ABCDE", 20.0))
    planned = Latency(Costs(), 10)(pattern, statistics)
    assert isinstance(planned.plan, Branched) and len(planned.plan.plans) == 2
    events = stream("a1 c2 b3 d4 e5 b6")
    found = cep.match(pattern, events, engine="apam", plan=planned.plan)
    assert bag(found) == bag(cep.match(pattern, events, engine="naive"))


def test_unit_costs_are_measured_or_given():
    costs = calibrate(size=60, rounds=2)
    assert 0 < costs.insertion < 1e-3 and 0 <= costs.evaluation < 1e-3 and 0 <= costs.result < 1e-3
    assert str(Costs(1e-6, 2e-6, 3e-6)) == "T_PE 1 µs, T_RC 2 µs, T_BI 3 µs"
    for bad in (-1.0, math.inf, math.nan):
        with pytest.raises(cep.CepError, match="must be seconds, from 0"):
            Costs(evaluation=bad)
    with pytest.raises(cep.CepError, match="above 0"):
        estimate(*experiment(1)[:1], Split("ABCDE"), experiment(1)[1], costs, 0)


# ---- adapting ----


def drifting(slow, fast, count=600):
    """A stream that comes slowly first and then fast: the split should become lazier."""
    draw = random.Random(2)
    time, records = 0.0, []
    for gap in (slow, fast):
        for _ in range(count):
            time += gap
            records.append({"type": draw.choice("ABC"), "time": time, "x": draw.random()})
    return cep.Stream.from_records(records)


def test_the_split_is_chosen_anew_when_events_come_faster():
    from cepviz.data import chained, chained_query

    records = [
        {**event.attributes, "type": event.type,
         "time": event.time if event.time < 1200 else 1200 + (event.time - 1200) * 1e-5}
        for event in chained(2400, [0.08, 0.06, 0.04, 0.02], seed=1)
    ]  # fmt: skip
    events, text = cep.Stream.from_records(records), chained_query(4, 200)
    options = {"costs": Costs(2e-6, 2e-6, 1e-6), "every": 200, "windows": 6}
    engine = Apam(cep.parse(text), schema=events.schema, **options)
    found, plans = [], []
    for event in events:
        found += engine.push(event)
        plans.append(engine.current)
    assert plans[1199] == Split("ABCDE")
    assert len(plans[-1].eager) <= 3
    assert bag(found) == bag(cep.match(text, events, engine="eager"))
    assert all(d.cost_after <= d.cost_before for d in engine.decisions)


def test_a_given_plan_stays_unless_a_policy_is_given():
    events = drifting(1.0, 1.0, 200)
    text = "PATTERN A; B WITHIN 10"
    engine = Apam(cep.parse(text), Split("B", "A"), schema=events.schema, every=5)
    adapting = Apam(cep.parse(text), Split("B", "A"), schema=events.schema, every=5,
                    policy="unconditional")  # fmt: skip
    for event in events:
        engine.push(event)
        adapting.push(event)
    assert engine.current == Split("B", "A") and not engine.decisions
    assert adapting.decisions and adapting.current != Split("B", "A")


def test_the_rate_is_that_of_the_stream_unless_given():
    events = drifting(0.5, 0.5, 100)
    engine = Apam(cep.parse("PATTERN A; B WITHIN 10"), schema=events.schema, every=5)
    for event in events:
        engine.push(event)
    assert engine.arrival_rate == pytest.approx(2)
    assert Apam(cep.parse("PATTERN A; B WITHIN 10"), arrival_rate=7).arrival_rate == 7
    with pytest.raises(cep.CepError, match="above 0"):
        Apam(cep.parse("PATTERN A; B WITHIN 10"), arrival_rate=0)


# ---- the queue ----


def served(services, completes=None):
    count = len(services)
    done = np.ones(count, bool) if completes is None else np.array(completes)
    return Served("test", np.asarray(services, float), done, int(done.sum()))


def test_waits_are_those_of_a_queue_walked_by_hand():
    draw = np.random.default_rng(3)
    arrivals, services = draw.exponential(1, 500).cumsum(), draw.exponential(0.9, 500)
    free, expected = 0.0, []
    for arrival, service in zip(arrivals, services, strict=True):
        start = max(arrival, free)
        expected.append(start - arrival)
        free = start + service
    assert waits(arrivals, services) == pytest.approx(expected)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_waiting_is_that_of_an_m_m_1_queue(load):
    """W = load / (mu - lambda), here with services of one second on average."""
    services = np.random.default_rng(1).exponential(1.0, 400_000)
    queued = served(services).at(load, seed=2)
    assert queued.mean_waiting == pytest.approx(load / (1 - load), rel=0.05)
    assert queued.mean == pytest.approx(1 / (1 - load), rel=0.05)
    assert queued.utilisation == pytest.approx(load, rel=0.01)
    # The latency of M/M/1 is exponential: its percentiles are known too.
    assert queued.percentile(90) == pytest.approx(math.log(10) / (1 - load), rel=0.07)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_waiting_is_that_of_an_m_d_1_queue(load):
    """Half of what it is with exponential services: nothing varies but the arrivals."""
    queued = served(np.ones(400_000)).at(load, seed=3)
    assert queued.mean_waiting == pytest.approx(load / (2 * (1 - load)), rel=0.05)
    assert queued.mean_service == 1


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_waiting_is_that_of_equation_3_for_services_of_two_kinds(load):
    draw = np.random.default_rng(4)
    services = np.where(draw.random(400_000) < 0.2, 4.0, 0.25)
    mean, deviation = services.mean(), services.std()
    queued = served(services).at(load / mean, seed=5)
    expected = load * mean / (2 * (1 - load)) * (1 + (deviation / mean) ** 2)
    assert queued.mean_waiting == pytest.approx(expected, rel=0.06)


def test_a_queue_that_cannot_keep_up_grows():
    queued = served(np.ones(2_000)).at(2.0)
    times, lengths = queued.queue()
    assert queued.utilisation == 2.0
    assert lengths.max() == pytest.approx(1_000, rel=0.1) and lengths[-1] == 0
    assert (np.diff(times) >= 0).all()
    assert queued.waiting[-1] > queued.waiting[0]


def test_only_true_final_events_after_the_warm_up_have_a_latency():
    done = served([1.0, 2.0, 3.0, 4.0], [True, False, False, True])
    queued = done.queued([0, 1, 2, 3], warm_up=0.25)
    assert queued.frame()["event"].tolist() == [3]
    assert (queued.waiting.tolist(), queued.service.tolist()) == ([3.0], [4.0])
    assert queued.mean == 7 and "1 true final" in repr(queued)
    nothing = served([1.0], [False]).queued([0.0], warm_up=0)
    assert math.isnan(nothing.mean) and "no true final event" in repr(nothing)
    with pytest.raises(cep.CepError, match="4 arrival times, not 2"):
        done.queued([0, 1])
    with pytest.raises(cep.CepError, match="must not go back"):
        done.queued([0, 2, 1, 3])
    with pytest.raises(cep.CepError, match="below 1"):
        done.queued([0, 1, 2, 3], warm_up=1)


def test_counted_services_are_the_work_of_the_engine():
    events = stream("a1(x=1) a2(x=5) b3(x=3) c4 c5")
    text = "PATTERN A; B; C WHERE A.x < B.x WITHIN 10"
    costs = Costs(evaluation=100.0, result=10.0, insertion=1.0)
    lazy = cep.serve(text, events, plan=Split("", "ABC"), costs=costs)
    # At c4 two pairs are tried and one passes, which is tried with c4; c5 meets only that one.
    assert lazy.services.tolist() == [1, 1, 1, 1 + 200 + 10 + 100 + 10, 1 + 100 + 10]
    assert lazy.completes.tolist() == [False, False, False, True, True] and lazy.matches == 2
    eager = cep.serve(text, events, engine="eager", costs=costs)
    assert eager.services.tolist() == [111, 111, 211, 111, 111]
    split = cep.serve(text, events, plan=Split("ABC"), costs=costs)
    assert split.services.tolist() == [1, 1, 211, 111, 111]
    measured = cep.serve(text, events, plan=Split("", "ABC"))
    assert (measured.services >= 0).all() and measured.matches == 2


def test_simulations_with_counted_services_repeat_exactly():
    from cepviz.data import chained, chained_query

    events = chained(1_500, [0.1, 0.05], seed=2)
    one, two = (
        cep.simulate(chained_query(2, 100), events, 5_000, costs=Costs(), every=50)
        for _ in range(2)
    )
    assert one.latency.tolist() == two.latency.tolist() and len(one.latency)


def test_candidates_are_compared_at_several_rates():
    from cepviz.data import chained, chained_query

    events = chained(3_000, [0.1, 0.02], seed=2)
    found = cep.compare_splits(chained_query(2, 100), events, [100, 20_000], costs=Costs())
    assert [str(cell.plan) for cell in found.at(100)] == ["/CBA", "C/BA", "BC/A", "ABC/"]
    assert sum(cell.chosen for cell in found.cells) == 2
    for rate in found.rates:
        assert found.best(rate).queued.mean <= found.chosen(rate).queued.mean
        assert found.chosen(rate).estimate.latency == min(
            cell.estimate.latency for cell in found.at(rate)
        )
    frame = found.frame()
    assert len(frame) == 8 and frame["simulated"].notna().all()
    assert repr(found).count(">") == 2 and "<b>" not in repr(found)
    assert found._repr_mimebundle_()["text/html"].count("<th>/CBA</th>") <= 2
    with pytest.raises(cep.CepError, match="no rate 7"):
        found.at(7)
