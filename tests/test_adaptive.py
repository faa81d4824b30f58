"""INVARIANTS: estimates, invariants and policies, the adaptive engine and its migration."""

import random

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from literal import stream
from strategies import patterns, streams
from test_plans import CAMERAS, EXAMPLE_1, planning

import cepviz as cep
from cepviz.engines.adaptive import Adaptive
from cepviz.engines.base import bag
from cepviz.engines.eager import Eager
from cepviz.plans.by_rate import by_rate
from cepviz.plans.cost import Model
from cepviz.plans.estimate import Estimator
from cepviz.plans.exhaustive import shapes
from cepviz.plans.greedy import greedy
from cepviz.plans.histogram import ExponentialHistogram, WindowedCount
from cepviz.plans.plan import Branched, Order, Tree
from cepviz.plans.policies import Invariant, Static, Threshold, Unconditional, policy_called
from cepviz.plans.statistics import Statistics
from cepviz.plans.zstream import zstream
from cepviz.views.automaton import automaton

quick = settings(deadline=None, suppress_health_check=list(HealthCheck))
BUDGET = {"runs": 3000, "matches": 3000}
pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")


# ---- counting in a sliding window ----


@quick
@given(
    gaps=st.lists(st.integers(0, 5), max_size=400),
    span=st.integers(1, 200),
    error=st.sampled_from([0.01, 0.05, 0.1, 0.5]),
)
def test_a_histogram_errs_by_no_more_than_it_says(gaps, span, error):
    rough, exact = ExponentialHistogram(span, error), WindowedCount(span)
    now = 0
    for gap in gaps:
        now += gap
        rough.add(now)
        exact.add(now)
        assert abs(rough.count(now) - exact.count(now)) <= error * exact.count(now)
    later = now + span
    assert rough.count(later) == exact.count(later) == 0


def test_a_histogram_is_small():
    histogram = ExponentialHistogram(span=100_000, error=0.05)
    for now in range(200_000):
        histogram.add(now)
    # ceil(1 / (2 * 0.05)) + 1 buckets of each size at most, of which there are log2(count).
    assert histogram.buckets <= 11 * 18


# ---- estimates ----


def drifting(rates, windows, window=100, seed=1, **attributes):
    """A stream in which each type arrives so often in a window; the rates change by phase."""
    draw = random.Random(seed)
    records, start = [], 0
    for phase in rates:
        for type, rate in phase.items():
            for _ in range(round(rate * windows)):
                time = start + draw.random() * windows * window
                values = {name: make(draw) for name, make in attributes.items()}
                records.append({"type": type, "time": time, **values})
        start += windows * window
    return cep.Stream.from_records(sorted(records, key=lambda record: record["time"]))


@pytest.mark.parametrize("within", ["100", "20 events"])
def test_estimates_come_close_to_what_the_stream_is_made_of(within):
    events = drifting([{"A": 12, "B": 6, "X": 2}], windows=40, x=lambda draw: draw.random())
    pattern = cep.parse(
        f"PATTERN SEQ(A a, B b) WHERE a.x < 0.3 and b.x < a.x + 0.5 WITHIN {within}"
    )
    estimator = Estimator(pattern, events.schema, windows=20)
    assert not estimator.ready
    for event in events:
        estimator.push(event)
    assert estimator.ready
    found = estimator.statistics()
    # In both cases a window holds 20 events of all types on average.
    assert found.rate("A") == pytest.approx(12, rel=0.15)
    assert found.rate("B") == pytest.approx(6, rel=0.2)
    assert found.selectivity("a.x < 0.3") == pytest.approx(0.3, abs=0.08)
    # b.x < a.x + 0.5 where a.x is uniform below 0.3.
    errors = estimator.deviations()
    assert found.selectivity("b.x < a.x + 0.5") == pytest.approx(
        0.65, abs=3 * errors["b.x < a.x + 0.5"] + 0.05
    )
    assert all(0 <= error < 0.2 for error in errors.values())


def test_the_plain_average_is_the_count_itself():
    pattern = cep.parse("PATTERN SEQ(A a, B b) WITHIN 10")
    estimator = Estimator(pattern, windows=2, exact=True)
    for time in range(100):
        estimator.push(cep.Event("A" if time % 5 else "B", time))
    assert estimator.statistics() == Statistics({"A": 8, "B": 2})


def test_an_estimator_learns_from_the_steps_of_an_engine():
    events = drifting([{"A": 6, "B": 6}], windows=30, x=lambda draw: draw.random())
    pattern = cep.parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x - 0.5 WITHIN 100")
    estimator = Estimator(pattern, events.schema, windows=10)
    engine = Eager(pattern, hooks=[estimator], schema=events.schema)
    for event in events:
        engine.push(event)
    found = estimator.statistics()
    assert found.rate("A") == pytest.approx(6, rel=0.25)
    assert found.selectivity("a.x < b.x - 0.5") == pytest.approx(0.125, abs=0.06)


def test_rates_need_a_window():
    with pytest.raises(cep.PlanError, match="give the pattern a WITHIN"):
        Estimator(cep.parse("PATTERN SEQ(A a, B b) WITHIN unbounded"))


# ---- invariants ----


def test_the_invariants_of_example_1_are_those_of_figure_4():
    policy = Invariant()
    policy.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
    assert [str(w.condition) for w in policy.watched] == ["rate(C) < rate(B)", "rate(B) < rate(A)"]
    assert policy.decide(CAMERAS) is None
    grown = CAMERAS.with_values({"rate(C)": 16})
    assert policy.decide(grown) == "rate(C) 16 < rate(B) 15 no longer holds"
    assert by_rate(EXAMPLE_1, grown).plan == Order("b", "c", "a")


def test_k_invariants_are_the_tightest_of_each_block():
    everything = Invariant(k=None)
    everything.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
    assert [str(w.condition) for w in everything.watched] == [
        "rate(C) < rate(B)", "rate(C) < rate(A)", "rate(B) < rate(A)",
    ]  # fmt: skip


def test_checks_are_told_in_the_order_of_the_blocks_and_end_with_the_first_that_breaks():
    told = []
    policy = Invariant()
    policy.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
    policy.decide(CAMERAS, told.append)
    assert [(c.left, c.left_value, c.right_value, c.holds) for c in told] == [
        ("rate(C)", 10, 15, True), ("rate(B)", 15, 100, True),
    ]  # fmt: skip
    told.clear()
    policy.decide(CAMERAS.with_values({"rate(C)": 30, "rate(B)": 200}), told.append)
    assert [(c.left, c.holds) for c in told] == [("rate(C)", True), ("rate(B)", False)]


def test_a_distance_lets_the_left_side_exceed_the_right_one():
    policy = Invariant(d=0.1)
    policy.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
    assert policy.decide(CAMERAS.with_values({"rate(C)": 16.4})) is None
    assert policy.decide(CAMERAS.with_values({"rate(C)": 16.6})) is not None


def test_the_average_distance_is_that_of_the_first_plan():
    policy = Invariant(d="average")
    policy.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
    average = (5 / 10 + 90 / 10 + 85 / 15) / 3
    assert [w.distance for w in policy.watched] == pytest.approx([average] * 2)
    moved = Statistics({"A": 1, "B": 2, "C": 3})
    policy.begin(by_rate(EXAMPLE_1, moved), moved)
    assert [w.distance for w in policy.watched] == pytest.approx([average] * 2)


def test_an_adaptive_distance_grows_where_a_replan_brought_little():
    policy = Invariant(d="adaptive")
    statistics = CAMERAS
    policy.begin(by_rate(EXAMPLE_1, statistics), statistics)
    for _ in range(3):  # B and C change places again and again, for next to nothing
        swapped = {"rate(B)": statistics.rate("C"), "rate(C)": statistics.rate("B")}
        statistics = statistics.with_values(swapped)
        if policy.decide(statistics) is None:
            break
        policy.begin(by_rate(EXAMPLE_1, statistics), statistics)
        policy.learned(gain=0.01)
    distances = {str(w.condition): w.distance for w in policy.watched}
    assert distances["rate(B) < rate(C)"] == pytest.approx(0.2)
    assert distances["rate(C) < rate(A)"] == 0
    policy.decide(statistics.with_values({"rate(B)": 90}))
    policy.learned(gain=0.8)
    assert {str(w.condition): w.distance for w in policy.watched}[
        "rate(B) < rate(C)"
    ] == pytest.approx(0.1)


PLANNERS = pytest.mark.parametrize("planner", [by_rate, greedy, zstream])


@PLANNERS
@pytest.mark.parametrize("k", [1, 2, 5])
@settings(quick, max_examples=300)
@given(planning(most=5, moments=2))
def test_theorem_1_an_invariant_that_breaks_means_another_plan(planner, k, given_):
    pattern, (then, now) = given_
    planned = planner(pattern, then)
    policy = Invariant(k=k)
    policy.begin(planned, then)
    assert policy.decide(then) is None
    if policy.decide(now) is not None:
        assert planner(pattern, now).plan != planned.plan


@PLANNERS
@settings(quick, max_examples=500)
@given(planning(most=5, moments=2))
def test_theorem_2_with_all_conditions_it_breaks_exactly_when_the_plan_changes(planner, given_):
    pattern, (then, now) = given_
    planned = planner(pattern, then)
    policy = Invariant(k=None)
    policy.begin(planned, then)
    assert (policy.decide(now) is not None) == (planner(pattern, now).plan != planned.plan)


def test_one_invariant_can_miss_what_all_of_them_see():
    pattern = cep.parse("PATTERN SEQ(A a, B b, C c, D d) WITHIN 9")
    then = Statistics({"A": 10, "B": 1, "C": 20, "D": 2})
    now = then.with_values({"rate(D)": 10})
    planned = zstream(pattern, then)
    assert planned.plan != zstream(pattern, now).plan
    one, everything = Invariant(k=1), Invariant(k=None)
    for policy in (one, everything):
        policy.begin(planned, then)
    assert one.decide(now) is None
    assert everything.decide(now) is not None


@quick
@given(planning(most=5, kleene=False))
def test_trees_over_the_same_variables_differ_by_their_subtrees_alone(given_):
    """Why the costs of subtrees are not constants, as section 4.2 has it: nothing else in a
    condition could change."""
    pattern, (statistics,) = given_
    model = Model(pattern.branches[0])
    if len(model.names) < 3:
        return
    memo = {}
    rests = {
        round(
            model.tree_cost(shape, statistics, memo)
            - sum(model.tree_cost(part, statistics, memo) for part in shape),
            6,
        )
        for shape in shapes(model.names)
    }
    assert len(rests) == 1


# ---- policies ----


def test_a_threshold_is_a_dilemma():
    """INVARIANTS section 1: above 6 it misses that C overtakes B, below 6 it reacts to A."""
    overtaken = CAMERAS.with_values({"rate(C)": 16})
    swaying = CAMERAS.with_values({"rate(A)": 106})
    for t, sees_c, minds_a in ((7, False, False), (5, True, True)):
        policy = Threshold(t)
        policy.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
        assert (policy.decide(overtaken) is not None) is sees_c
        assert (policy.decide(swaying) is not None) is minds_a
    policy = Invariant()
    policy.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
    assert policy.decide(overtaken) is not None
    assert policy.decide(swaying) is None


def test_the_dilemma_on_a_stream():
    calm = {"A": 100, "B": 15, "C": 10}
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.p = b.p and b.p = c.p WITHIN 100"
    run = {}
    events = drifting(
        [calm, {**calm, "A": 112}, {**calm, "A": 88}, calm, {**calm, "C": 17}],
        windows=12, p=lambda draw: draw.randrange(5),
    )  # fmt: skip
    for policy in ("threshold(9)", "threshold(4)", "invariant"):
        run[policy] = cep.adapt(text, events, "by_rate", policy, every=200, windows=10)
    first, *others = map(bag, run.values())
    assert all(other == first for other in others)
    last = {policy: r.final for policy, r in run.items()}
    assert last["invariant"] == Order("b", "c", "a")
    assert run["invariant"].false_positives == 0
    # The high threshold reacts to A, which changes nothing, and to nothing else it should.
    assert run["threshold(4)"].false_positives > 0
    assert run["threshold(4)"].final == Order("b", "c", "a")
    assert run["threshold(9)"].final == Order("c", "b", "a")


def test_a_relative_threshold_is_a_share_of_the_first_value():
    policy = Threshold(0.5, relative=True)
    policy.begin(by_rate(EXAMPLE_1, CAMERAS), CAMERAS)
    assert policy.decide(CAMERAS.with_values({"rate(A)": 149})) is None
    assert policy.decide(CAMERAS.with_values({"rate(C)": 16})) is not None


@pytest.mark.parametrize(
    ("text", "policy"),
    [("static", Static()), ("unconditional", Unconditional()), ("threshold(6)", Threshold(6)),
     ("threshold(0.5, relative)", Threshold(0.5, relative=True)), ("invariant", Invariant()),
     ("invariant(2, 0.1)", Invariant(2, 0.1)),
     ("invariant(all, average)", Invariant(None, "average")),
     ("invariant(1, adaptive)", Invariant(1, "adaptive"))],
)  # fmt: skip
def test_a_policy_has_a_short_name(text, policy):
    assert policy_called(text) == policy
    assert policy_called(str(policy)) == policy


@pytest.mark.parametrize(
    ("text", "said"),
    [("invariants", "did you mean 'invariant'"), ("threshold", "not complete"),
     ("threshold(-1)", "from 0"), ("invariant(0)", "from 1"), ("invariant(1, much)", "'average'"),
     ("invariant(1, -0.5)", "from 0"), ("static(1)", "not complete"), ("(", "unknown policy")],
)  # fmt: skip
def test_a_policy_that_is_none_is_refused(text, said):
    with pytest.raises(cep.CepError, match=said):
        policy_called(text)


def test_invariants_need_a_planner_that_says_what_decided():
    with pytest.raises(cep.PlanError, match="nothing to watch"):
        cep.adapt("PATTERN SEQ(A a, B b) WITHIN 9", stream("a1 b2"), "exhaustive",
                  statistics=Statistics({"A": 1}))  # fmt: skip


# ---- migration ----


def any_plan(draw, pattern):
    """A random order, or tree, for every branch."""

    def shape(names):
        if len(names) == 1:
            return names[0]
        cut = draw.randrange(1, len(names))
        return (shape(names[:cut]), shape(names[cut:]))

    made = []
    kind = draw.choice([Order, Tree])
    for branch in pattern.branches:
        names = [variable.name for variable in branch.variables]
        draw.shuffle(names)
        made.append(Order(*names) if kind is Order else Tree(shape(names)))
    return made[0] if len(made) == 1 else Branched(tuple(made))


@settings(quick, max_examples=400)
@given(
    pattern=patterns(strategies=["skip_till_any_match"]),
    events=streams(),
    seed=st.integers(0, 2**20),
    often=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_no_match_is_lost_or_found_twice_whatever_plans_follow_each_other(
    pattern, events, seed, often
):
    assume(Adaptive.refuses(pattern) is None)
    note(str(pattern))
    note(str([(e.label, e.type, e.time, e.attributes) for e in events]))
    try:
        expected = bag(cep.match(pattern, events, engine="naive", budget=BUDGET))
    except cep.BudgetError:
        assume(False)
    draw = random.Random(seed)
    engine = Adaptive(pattern, policy="static", schema=events.schema)
    found = []
    for event in events:
        if draw.random() < often:
            engine.migrate(any_plan(draw, engine.pattern))
        found += engine.push(event)
    found += engine.flush()
    assert bag(found) == expected


@quick
@given(seed=st.integers(0, 2**20), structure=st.sampled_from([
    "SEQ(A a, B b, C c)", "SEQ(A a, ~(B b), C c)", "SEQ(A a, B b, ~(C c))", "SEQ(~(A a), B b, C c)",
    "SEQ(A a, B+ b[], C c)", "AND(A a, B b, C c)", "OR(SEQ(A a, B b), SEQ(C c, B d))",
]), within=st.sampled_from(["7", "6 events"]))  # fmt: skip
def test_drifting_rates_and_frequent_replans_change_no_match(seed, structure, within):
    draw = random.Random(seed)
    weights = [[8, 1, 1], [1, 8, 1], [1, 1, 8]]
    records = [
        {"type": draw.choices("ABC", weights[time // 15])[0], "time": time, "x": draw.random()}
        for time in range(45)
    ]
    events = cep.Stream.from_records(records)
    pattern = f"PATTERN {structure} WITHIN {within}"
    expected = bag(cep.match(pattern, events, engine="naive"))
    for planner in ("greedy", "zstream"):
        way = {"planner": planner, "policy": "unconditional", "every": 2, "windows": 2}
        assert bag(cep.match(pattern, events, engine="adaptive", **way)) == expected


def test_an_old_plan_ends_with_its_window():
    engine = Adaptive(cep.parse("PATTERN SEQ(A a, B b) WITHIN 10"))
    engine.push(cep.Event("A", 0))
    engine.migrate(Order("b", "a"))
    engine.push(cep.Event("A", 1))
    engine.migrate(Order("a", "b"))
    assert [g.plan for g in engine.generations] == [
        Order("a", "b"), Order("b", "a"), Order("a", "b"),
    ]  # fmt: skip
    assert len(engine.push(cep.Event("B", 9))) == 2
    assert len(engine.generations) == 3
    assert len(engine.push(cep.Event("B", 10))) == 1  # the A at 0 is too old now
    assert len(engine.generations) == 2
    engine.push(cep.Event("B", 11))
    assert len(engine.generations) == 1
    # What the ended plans held is not counted any more.
    assert engine.live == engine.generations[0].evaluator.live
    assert engine.buffered == engine.generations[0].evaluator.buffered


@pytest.mark.parametrize("plan", [Order("a", "b", "c"), Tree((("a", "b"), "c"))])
def test_the_old_plan_only_goes_on_with_what_it_began(plan):
    records = [{"type": "ABC"[t % 3], "time": t, "x": t} for t in range(36)]
    listed = list(cep.Stream.from_records(records))
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and b.x < c.x WITHIN 50"
    engine = Adaptive(cep.parse(text), plan=plan, policy="static")
    engine.push(listed[0])
    engine.migrate(Order("c", "b", "a"))
    for event in listed[1:]:
        engine.push(event)
    names = {"Order": "lazy_chain", "Tree": "zstream"}
    new = cep.match(text, listed[1:], engine="lazy_chain", plan=Order("c", "b", "a"))
    whole = cep.match(text, listed, engine=names[type(plan).__name__], plan=plan)
    old = engine.counters.evaluations - new.counters["evaluations"]
    # Every A as it comes; with the first one alone, every B, and every C after each of these.
    assert old <= 12 + 12 + 12 * 13 / 2 < whole.counters["evaluations"] / 3
    assert engine.counters.matches == whole.counters["matches"]


# ---- adapt ----


def test_adapt_tells_the_history_of_its_plans():
    events = drifting([{"A": 9, "B": 3, "C": 6}, {"A": 2, "B": 12, "C": 6}], windows=20)
    result = cep.adapt("PATTERN SEQ(A a, B b, C c) WITHIN 100", events, every=16)
    assert bag(result) == bag(cep.match("PATTERN SEQ(A a, B b, C c) WITHIN 100", events))
    assert result.final == Order("a", "c", "b")
    assert result.false_positives == 0
    assert result.replans == len([d for d in result.history if d.outcome == "replanned"]) > 0
    assert [plan for _, plan in result.plans][-1] == result.final
    frame = result.frame()
    assert frame["outcome"].iloc[0] == "first"
    assert frame["because"].str.contains("no longer holds").sum() == result.replans
    assert f"plan {result.final}, because" in result.story()
    assert "replan" in repr(result) and "<ul>" in result._repr_mimebundle_()["text/html"]
    assert 0 < result.overhead < 1


def test_policies_are_compared_on_one_stream():
    events = drifting([{"A": 6, "B": 3}, {"A": 3, "B": 6}], windows=10)
    result = cep.adapt("PATTERN SEQ(A a, B b) WITHIN 100", events, every=10)
    table = result.compare()
    assert list(table.index) == ["invariant(1, 0)", "static", "unconditional",
                                 "threshold(0.5, relative)", "invariant(1, 0.1)"]  # fmt: skip
    assert table["matches"].nunique() == 1
    assert table.loc["static", ["replans", "false_positives", "checks"]].sum() == 0
    unconditional = table.loc["unconditional"]
    assert unconditional["replans"] + unconditional["false_positives"] == unconditional["checks"]


def test_known_statistics_make_the_first_plan():
    result = cep.adapt("PATTERN SEQ(A a, B b) WITHIN 9", stream("a1 b2"),
                       statistics=Statistics({"A": 5, "B": 1}))  # fmt: skip
    assert result.final == Order("b", "a") and not result.history


@pytest.mark.parametrize(
    ("text", "said"),
    [("PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 9", "skip_till_any_match only"),
     ("PATTERN SEQ(A a, B b) WITHIN unbounded", "no WITHIN")],
)  # fmt: skip
def test_what_cannot_adapt_is_said(text, said):
    with pytest.raises(cep.UnsupportedError, match=said):
        cep.adapt(text, stream("a1 b2"))


def test_an_unknown_planner_is_named_with_the_known_ones():
    with pytest.raises(cep.CepError, match="did you mean 'greedy'"):
        cep.adapt("PATTERN SEQ(A a, B b) WITHIN 9", stream("a1 b2"), planner="gredy")


def test_a_trace_has_the_estimates_checks_and_replans():
    events = drifting([{"A": 9, "B": 3}, {"A": 2, "B": 12}], windows=12)
    recorded = cep.trace("PATTERN SEQ(A a, B b) WITHIN 100", events, engine="adaptive", every=8)
    kinds = [step.kind for step in recorded]
    assert {"stats", "check", "replan"} <= set(kinds)
    (broken,) = [s for s in recorded if s.kind == "check" and not s.holds]
    replans = [step for step in recorded if step.kind == "replan"]
    assert replans[-1].because.startswith("rate(B)") and broken.left == "rate(B)"
    names = {state.name for state in recorded.graph.states}
    moved = {step.target for step in recorded if step.kind == "move"}
    assert moved <= names  # the states of every plan are in the picture
    # The runs of a plan that ended are dropped with it.
    final = recorded.at(-1)
    labels = {run.state.split(":")[0] for run in final.runs.values()}
    assert labels == {replans[-1].label.rstrip(":")}


@pytest.mark.parametrize("planner", ["greedy", "zstream"])
def test_the_automaton_shows_the_plans_in_use(planner):
    events = drifting([{"A": 9, "B": 3, "C": 6}, {"A": 2, "B": 12, "C": 6}], windows=8)
    recorded = cep.trace("PATTERN SEQ(A a, B b, C c) WITHIN 100", events, engine="adaptive",
                         planner=planner, every=16)  # fmt: skip
    changed = [i for i, s in enumerate(recorded) if s.kind == "replan" and s.before != s.after]

    def drawn(index):
        scene = automaton(recorded, index)
        names = {s.text for key, s in scene.shapes.items() if key.startswith("state:")}
        told = [s.text for key, s in scene.shapes.items() if key.startswith("plan:")]
        return {name for name in names if name}, told

    before, told = drawn(changed[0] - 1)
    assert not any(name.startswith("p") for name in before) and told == []
    both, told = drawn(changed[0] + 30)
    assert any(name.startswith("p2:") for name in both) and before & both
    assert told == ["plan in use", "old plan: it ends what it began"]
    after, told = drawn(len(recorded) - 1)
    last = recorded[changed[-1]].label
    assert all(name.startswith(last) for name in after if name.endswith("F"))
