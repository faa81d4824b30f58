"""One suite for every engine and every way to run it: the same matches as the oracle, `naive`."""

import itertools
import os

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from literal import stream
from strategies import patterns, streams

import cepviz as cep
from cepviz.engines.base import bag
from cepviz.engines.registry import ENGINES

WAYS = [
    pytest.param(name, way, id="-".join([name, *map(str, way.values())]))
    for name, engine in ENGINES.items()
    if name != "naive"
    for way in engine.variants
]
WATCHED = [way for way in WAYS if not ENGINES[way.values[0]].whole]  # those that show steps
BUDGET = {"runs": 3000, "matches": 3000}
EXAMPLES = int(os.environ.get("CEPVIZ_EXAMPLES", "200"))  # raise it for a long search
pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")


def matches(pattern, events, engine, **way):
    return bag(cep.match(pattern, events, engine=engine, **way))


def expected(pattern, events):
    try:
        return matches(pattern, events, "naive", budget=BUDGET)
    except cep.BudgetError:
        assume(False)


@pytest.mark.parametrize(("name", "way"), WAYS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(pattern=patterns(), events=streams())
def test_engine_equals_the_oracle(name, way, pattern, events):
    if ENGINES[name].refuses(pattern) is not None:
        return
    note(str(pattern))
    note(str([(e.label, e.type, e.time, e.attributes) for e in events]))
    assert matches(pattern, events, name, **way) == expected(pattern, events)


@pytest.mark.parametrize(("name", "way"), WAYS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    pattern=patterns(
        strategies=["skip_till_any_match"],
        kleene=False, negation=False, and_=False, or_=False, optional=False,
    ),
    events=streams(),
)  # fmt: skip
def test_engine_equals_the_oracle_on_plain_sequences(name, way, pattern, events):
    test_engine_equals_the_oracle.hypothesis.inner_test(name, way, pattern, events)


@pytest.mark.parametrize(("name", "way"), WATCHED)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(pattern=patterns(), events=streams())
def test_watching_does_not_change_the_matches(name, way, pattern, events):
    if ENGINES[name].refuses(pattern) is not None:
        return
    recorded = cep.trace(pattern, events, engine=name, **way)
    unwatched = cep.match(pattern, events, engine=name, **way)
    assert recorded.counters == unwatched.counters
    assert len(recorded.matches) == len(unwatched)


@pytest.mark.parametrize("name", ENGINES)
def test_no_step_is_built_when_nobody_watches(name, monkeypatch):
    import cepviz.steps

    def refuse(*arguments, **keywords):
        raise AssertionError("a step was built")

    for kind in cepviz.steps.KINDS.values():
        monkeypatch.setattr(kind, "__init__", refuse)
    result = cep.match("PATTERN SEQ(A a, B b, C c) WITHIN 9", stream("a1 b1 c1"), engine=name)
    assert len(result) == 1


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_refuses_time_going_back(name):
    engine = ENGINES[name](cep.parse("PATTERN SEQ(A a) WITHIN 9"))
    engine.push(cep.Event("A", 5))
    with pytest.raises(cep.StreamError, match="in order of time"):
        engine.push(cep.Event("A", 4))


def test_an_unknown_engine_is_named_with_the_known_ones():
    with pytest.raises(cep.CepError, match="did you mean 'eager'"):
        cep.match("PATTERN SEQ(A a) WITHIN 9", stream("a1"), engine="eagr")


def test_an_engine_that_does_not_take_a_pattern_names_one_that_does():
    with pytest.raises(cep.UnsupportedError, match=r"no Kleene closure.*'naive'"):
        cep.match("PATTERN SEQ(A+ a[]) WITHIN 9", stream("a1"), engine="eager")


def test_a_predicate_that_cannot_be_computed_is_kept_and_the_stream_goes_on():
    events = stream("a1(x=1) a2(x=0) a3(x=2)")
    result = cep.match("PATTERN SEQ(A a) WHERE 2 / a.x > 1 WITHIN 9", events, engine="eager")
    assert [match.ids["a"] for match in result] == ["a1"]
    (failure,) = result.failures
    assert (failure.predicate, failure.events) == ("2 / a.x > 1", "a=a2")
    assert "division by zero" in failure.reason
    with pytest.raises(cep.PredicateError, match=r"2 / a.x > 1 on a=a2"):
        cep.match(
            "PATTERN SEQ(A a) WHERE 2 / a.x > 1 WITHIN 9", events, engine="eager", on_error="raise"
        )


# ---- eager: the counts of LAZY ----

EXAMPLE = """PATTERN SEQ(E a, E b, E c)
WHERE a.ticker = 'MSFT' and b.ticker = 'GOOG' and c.ticker = 'AAPL'
  and a.price < b.price and b.price < c.price WITHIN 4 hours"""
TICKERS = {"a": "MSFT", "b": "GOOG", "c": "AAPL"}


def quotes(*pairs):
    return cep.Stream.from_records(
        {"type": "E", "time": time, "ticker": TICKERS[name], "price": price}
        for time, (name, price) in enumerate(pairs)
    )


def test_eager_counts_evaluations_as_lazy_section_7_does():
    count = lambda *pairs: cep.match(EXAMPLE, quotes(*pairs), engine="eager").counters  # noqa: E731
    assert count(("a", 3), ("b", 7), ("c", 9))["evaluations"] == 3
    # b is not taken, so the second edge is the last one that is tried.
    assert count(("a", 8), ("b", 7), ("c", 9))["evaluations"] == 2


def test_eager_keeps_the_prefixes_of_lazy_section_1():
    events = quotes(("a", 3), ("a", 5), ("a", 8), ("b", 7), ("b", 13), ("c", 9))
    result = cep.match(EXAMPLE, events, engine="eager")
    assert [tuple(match.ids.values()) for match in result] == [(0, 3, 5), (1, 3, 5)]
    # The empty instance, three a, and all pairs but the third a with the first b.
    assert result.counters["peak_runs"] == 1 + 3 + 5


def test_eager_needs_ten_thousand_evaluations_where_one_c_ends_all():
    events = quotes(*[("a", 1)] * 100, *[("b", 50)] * 99, ("b", 2), ("c", 3))
    counters = cep.match(EXAMPLE, events, engine="eager").counters
    assert counters["evaluations"] == 100 + 100 * 100 + 100 * 100
    assert counters["peak_runs"] == 1 + 100 + 100 * 100


def test_a_trace_says_what_eager_does():
    trace = cep.trace(
        "PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 5",
        stream("a1(x=3) b1(x=2) b2(x=4) c1@9"),
        engine="eager",
    )
    said = [step.say() for step in trace]
    assert "Run 1 at q2: take b1? a.x 3 < b.x 2 no. It fails." in said
    assert "Run 1 at q2 splits on b2 (take-ignore): run 2 is new." in said
    assert "Match #1: a = a1, b = b2, 2 of 5." in said
    assert any(line.startswith("Run 1 is dropped (window, at c1)") for line in said)


@pytest.mark.parametrize(("name", "way"), WATCHED)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(pattern=patterns(), events=streams())
def test_a_trace_speaks_of_its_graph_and_ends_what_it_begins(name, way, pattern, events):
    if ENGINES[name].refuses(pattern) is not None:
        return
    trace = cep.trace(pattern, events, engine=name, **way)
    states = {state.name for state in trace.graph.states}
    edges = {edge.name: edge for edge in trace.graph.edges}
    for step in trace:
        assert step.say()
        if step.kind in ("test", "move"):
            assert step.edge in edges
        if step.kind == "test":
            assert step.state in states
        if step.kind == "move":
            edge = edges[step.edge]
            assert (step.source, step.target, step.action) == (
                edge.source,
                edge.target,
                edge.action,
            )
    for index in range(len(trace)):
        for run in trace.at(index).runs.values():
            assert run.state in states
    final = {state.name for state in trace.graph.states if state.kind == "final"}
    if pattern.output == "all":
        assert [run for run in trace.at(-1).runs.values() if run.state in final] == []


# ---- plans: any of them gives the same matches ----


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(pattern=patterns(strategies=["skip_till_any_match"]), events=streams())
def test_every_order_gives_the_same_matches(pattern, events):
    names = [v.name for v in pattern.variables.values() if not v.negated]
    assume(len(names) <= 4)
    wanted = expected(pattern, events)
    for order in itertools.permutations(names):
        note(str(order))
        assert matches(pattern, events, "lazy_chain", plan=cep.Order(*order)) == wanted


def trees(names):
    """Every binary tree over the names, in every arrangement of the leaves."""
    if len(names) == 1:
        yield names[0]
    for size in range(1, len(names)):
        for left in itertools.combinations(names, size):
            right = [name for name in names if name not in left]
            yield from itertools.product(trees(list(left)), trees(right))


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=list(HealthCheck))
@given(pattern=patterns(strategies=["skip_till_any_match"]), events=streams())
def test_every_tree_gives_the_same_matches(pattern, events):
    names = [v.name for v in pattern.variables.values() if not v.negated]
    assume(len(names) <= 3)
    wanted = expected(pattern, events)
    for shape in trees(names):
        note(str(shape))
        assert matches(pattern, events, "zstream", plan=cep.Tree(shape)) == wanted
