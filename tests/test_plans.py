"""Statistics, cost models, planners and the conditions they record, invariants and policies."""

import itertools
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cepviz as cep
from cepviz.plans.by_rate import by_rate
from cepviz.plans.cost import Model, cost, expected
from cepviz.plans.exhaustive import exhaustive, exhaustive_tree
from cepviz.plans.greedy import greedy
from cepviz.plans.plan import Branched, Order, Tree
from cepviz.plans.statistics import Statistics
from cepviz.plans.zstream import zstream

EXAMPLE_1 = cep.parse(
    """PATTERN SEQ(A a, B b, C c)
    WHERE a.person_id = b.person_id and b.person_id = c.person_id WITHIN 10 minutes"""
)
CAMERAS = Statistics({"A": 100, "B": 15, "C": 10})
quick = settings(deadline=None, suppress_health_check=list(HealthCheck))

TYPES = "ABCDEFGH"


@st.composite
def planned_patterns(draw, most=5, kleene=True):
    """A sequence or conjunction of single-letter types, with conditions between some of them."""
    count = draw(st.integers(1, most))
    names = [letter.lower() for letter in TYPES[:count]]
    operator = draw(st.sampled_from(["SEQ", "AND"]))
    looped = draw(st.sampled_from([None, *range(count)])) if kleene else None
    atoms = [
        f"{name.upper()}+ {name}[]" if place == looped else f"{name.upper()} {name}"
        for place, name in enumerate(names)
    ]
    pairs = draw(st.lists(st.sampled_from([*itertools.combinations(names, 2), *zip(names)])))
    tests = []
    for pair in dict.fromkeys(pairs):
        refs = [
            f"{n}[i].x" if looped is not None and n == names[looped] else f"{n}.x" for n in pair
        ]
        tests.append(" < ".join(refs) if len(refs) == 2 else f"{refs[0]} < 7")
    where = f" WHERE {' and '.join(tests)}" if tests else ""
    return cep.parse(f"PATTERN {operator}({', '.join(atoms)}){where} WITHIN 9")


@st.composite
def statistics_of(draw, pattern):
    # Few different values, so that ties are common.
    rates = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.5])
    shares = st.sampled_from([0.0, 0.1, 0.5, 1.0])
    types = {v.type for v in pattern.variables.values()}
    texts = {str(c) for branch in pattern.branches for c in branch.conjuncts}
    return Statistics(
        {type: draw(rates) for type in sorted(types)},
        {text: draw(shares) for text in sorted(texts)},
    )


@st.composite
def planning(draw, most=5, kleene=True, moments=1):
    pattern = draw(planned_patterns(most, kleene))
    return pattern, [draw(statistics_of(pattern)) for _ in range(moments)]


# ---- planners ----


def texts(block):
    return {str(condition) for condition in block.conditions}


def test_example_1_has_the_deciding_conditions_of_figure_4():
    planned = by_rate(EXAMPLE_1, CAMERAS)
    assert planned.plan == Order("c", "b", "a")
    assert [texts(block) for block in planned.blocks] == [
        {"rate(C) < rate(B)", "rate(C) < rate(A)"},
        {"rate(B) < rate(A)"},
        set(),
    ]
    values = {str(c): (c.left_value, c.right_value) for b in planned.blocks for c in b.conditions}
    assert values["rate(C) < rate(B)"] == (10, 15)
    assert values["rate(B) < rate(A)"] == (15, 100)


def algorithm_2(names, rates, selectivities):
    """INVARIANTS Algorithm 2, word by word."""
    order = [min(names, key=lambda j: rates[j] * selectivities[j, j])]
    while len(order) < len(names):
        rest = [j for j in names if j not in order]
        order.append(
            min(
                rest,
                key=lambda j: (
                    rates[j] * selectivities[j, j] * math.prod(selectivities[k, j] for k in order)
                ),
            )
        )
    return order


@quick
@given(st.data())
def test_greedy_is_algorithm_2(data):
    names = "abcde"[: data.draw(st.integers(2, 5))]
    pairs = [*itertools.combinations(names, 2), *((n, n) for n in names)]
    asked = data.draw(st.lists(st.sampled_from(pairs), unique=True))
    tests = {pair: f"{pair[0]}.x < {f'{pair[1]}.x' if pair[0] != pair[1] else 7}" for pair in asked}
    where = f" WHERE {' and '.join(tests.values())}" if tests else ""
    body = ", ".join(f"{n.upper()} {n}" for n in names)
    pattern = cep.parse(f"PATTERN SEQ({body}){where} WITHIN 9")
    # Powers of two: products are exact, in whatever order they are taken.
    powers = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    rates = {n: data.draw(powers) * 64 for n in names}
    shares = {pair: data.draw(powers) for pair in asked}
    both = {**{p: 1.0 for p in itertools.product(names, names)}, **shares}
    both |= {(w, u): share for (u, w), share in shares.items()}
    statistics = Statistics(
        {n.upper(): rate for n, rate in rates.items()},
        {tests[pair]: share for pair, share in shares.items()},
    )
    assert list(greedy(pattern, statistics).plan.names) == algorithm_2(names, rates, both)


@quick
@given(planning(most=6))
def test_zstream_costs_what_the_best_of_all_trees_costs(given_):
    pattern, (statistics,) = given_
    best = cost(exhaustive_tree(pattern, statistics).plan, pattern, statistics)
    assert cost(zstream(pattern, statistics).plan, pattern, statistics) == best


@quick
@given(planning(most=5))
def test_no_order_is_cheaper_than_that_of_exhaustive(given_):
    pattern, (statistics,) = given_
    best = cost(exhaustive(pattern, statistics).plan, pattern, statistics)
    assert cost(greedy(pattern, statistics).plan, pattern, statistics) >= best


def test_exhaustive_refuses_what_it_cannot_try():
    body = ", ".join(f"{n.upper()} {n}" for n in "abcdefghi")
    with pytest.raises(cep.PlanError, match="use greedy or zstream"):
        exhaustive(cep.parse(f"PATTERN SEQ({body}) WITHIN 9"), Statistics())


def test_each_branch_has_its_own_plan():
    pattern = cep.parse("PATTERN OR(SEQ(A a, B b), SEQ(B c, A d)) WITHIN 9")
    statistics = Statistics({"A": 5, "B": 2})
    assert greedy(pattern, statistics).plan == Branched((Order("b", "a"), Order("c", "d")))
    assert zstream(pattern, statistics).plan == Branched((Tree(("a", "b")), Tree(("c", "d"))))


def test_a_planner_says_its_ties():
    (first, _) = by_rate(cep.parse("PATTERN SEQ(A a, B b) WITHIN 9"), Statistics()).blocks
    (condition,) = first.conditions
    assert condition.slack == 0 and condition.wins_ties
    assert condition.holds(3, 3) and not condition.holds(3.1, 3)
    assert condition.holds(3.1, 3, distance=0.1)


# ---- cost models ----


def linear_extensions(names, order):
    return sum(
        all(line.index(u) < line.index(w) for u, w in order if u in names and w in names)
        for line in itertools.permutations(names)
    )


@pytest.mark.parametrize(
    "structure",
    ["SEQ(A a, B b, C c, D d)", "AND(A a, B b, C c)", "SEQ(A a, AND(B b, C c, D d), E e)",
     "AND(SEQ(A a, B b), SEQ(C c, D d), E e)", "SEQ(AND(A a, SEQ(B b, C c)), AND(D d, E e))"],
)  # fmt: skip
def test_the_chance_of_an_order_is_that_of_its_linear_extensions(structure):
    (branch,) = cep.parse(f"PATTERN {structure} WITHIN 9").branches
    model = Model(branch)
    for size in range(1, len(model.names) + 1):
        for names in itertools.combinations(model.names, size):
            counted = linear_extensions(names, branch.order) / math.factorial(size)
            assert model.share(frozenset(names)) == pytest.approx(counted)


def test_a_conjunction_costs_as_in_section_4_2():
    pattern = cep.parse("PATTERN AND(A a, B b, C c) WHERE a.x < b.x and b.x < c.x WITHIN 9")
    statistics = Statistics({"A": 2, "B": 3, "C": 5}, {"a.x < b.x": 0.5, "b.x < c.x": 0.1})
    ab = 2 * 3 * 0.5
    assert cost(Tree((("a", "b"), "c")), pattern, statistics) == pytest.approx(
        2 + 3 + ab + 5 + ab * 5 * 0.1
    )
    assert cost(Order("b", "a", "c"), pattern, statistics) == pytest.approx(3 + ab + ab * 5 * 0.1)


def test_expected_cardinalities_come_true_on_a_random_stream():
    import numpy as np

    random = np.random.default_rng(7)
    rates = {"A": 4.0, "B": 2.0, "C": 3.0}
    windows, window = 400, 1000
    records = sorted(
        ({"type": type, "time": int(t), "x": float(random.random())}
         for type, rate in rates.items()
         for t in random.integers(0, windows * window, random.poisson(rate * windows))),
        key=lambda record: record["time"],
    )  # fmt: skip
    pattern = cep.parse(f"PATTERN SEQ(A a, B b, C c) WHERE a.x < 0.5 and b.x < c.x WITHIN {window}")
    statistics = Statistics(rates, {"a.x < 0.5": 0.5, "b.x < c.x": 0.5})
    plan = Tree(("a", ("b", "c")))
    hoped = expected(plan, pattern, statistics, windows)
    recorded = cep.trace(pattern, cep.Stream.from_records(records), engine="zstream", plan=plan)
    assert len(recorded.matches) == pytest.approx(hoped["(a (b c))"], rel=0.15)
    kept = sum(step.kind == "put" and step.buffer == "a" for step in recorded)
    assert kept == pytest.approx(hoped["a"], rel=0.15)


def test_lists_of_a_kleene_variable_are_counted():
    pattern = cep.parse("PATTERN SEQ(A+ a[], B b) WHERE a[i].x < b.x WITHIN 9")
    statistics = Statistics({"A": 3, "B": 2}, {"a[i].x < b.x": 0.5})
    model = Model(pattern.branches[0])
    assert model.product(frozenset("a"), statistics, {}) == pytest.approx(math.expm1(3))
    assert model.product(frozenset("ab"), statistics, {}) == pytest.approx(2 * math.expm1(1.5))


# ---- statistics ----


@pytest.mark.parametrize(
    ("rates", "shares", "said"),
    [({"A": -1}, {}, "from 0"), ({"A": math.nan}, {}, "from 0"), ({}, {"a.x < 1": 2}, "0 and 1")],
)
def test_impossible_statistics_are_refused(rates, shares, said):
    with pytest.raises(cep.CepError, match=said):
        Statistics(rates, shares)


def test_a_statistic_is_set_by_its_name():
    moved = CAMERAS.with_values({"rate(C)": 16, "sel(a.x < b.x)": 0.5})
    assert (moved.rate("C"), moved.rate("B"), moved.selectivity("a.x < b.x")) == (16, 15, 0.5)
    with pytest.raises(cep.CepError, match=r"write rate\(A\)"):
        CAMERAS.with_values({"C": 16})
