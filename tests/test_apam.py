"""APAM: splits, the hybrid engine, its latency model, and the queue."""

import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from literal import stream, written
from strategies import patterns, streams

import cepviz as cep
from cepviz.engines.apam import Apam
from cepviz.engines.base import bag
from cepviz.engines.split import SplitEngine
from cepviz.plans.plan import Branched, Split

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


@settings(quick, max_examples=60)
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
            prefixes = sum(map(len, place.older.values()))
            prefixes += len(place.incoming) + len(place.done)
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
