"""LAZY in its own examples: Figures 2 to 6, the scenario of section 4, scopes; ZStream trees."""

from collections import Counter

import pytest
from literal import stream, written

import cepviz as cep
from cepviz.engines.eager import Eager
from cepviz.engines.lazy_chain import LazyChain
from cepviz.engines.lazy_tree import LazyTree
from cepviz.engines.zstream import ZStream

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

EXAMPLE_1 = """PATTERN SEQ(E a, E b, E c)
WHERE a.ticker = 'MSFT' and b.ticker = 'GOOG' and c.ticker = 'AAPL'
  and a.price < b.price and b.price < c.price
WITHIN 4 hours"""
TICKERS = {"a": "MSFT", "b": "GOOG", "c": "AAPL"}
ABC = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and b.x < c.x WITHIN 999"


def quotes(*pairs):
    return cep.Stream.from_records(
        {"type": "E", "time": time, "ticker": TICKERS[name], "price": price}
        for time, (name, price) in enumerate(pairs)
    )


def edges(graph, action):
    return {edge.name: edge for edge in graph.edges if edge.action == action}


# ---- Figures 2 and 3: the eager NFA ----


def test_figure_2_the_eager_nfa_of_example_1():
    graph = Eager(cep.parse(EXAMPLE_1)).graph
    assert [(state.name, state.kind) for state in graph.states] == [
        ("q1", "start"), ("q2", "middle"), ("q3", "middle"), ("F", "final"),
    ]  # fmt: skip
    takes = edges(graph, "take")
    assert [(e.source, e.target, e.formula) for e in takes.values()] == [
        ("q1", "q2", ("a.ticker = 'MSFT'", "within 4 hours")),
        ("q2", "q3", ("b.ticker = 'GOOG'", "a.price < b.price", "within 4 hours")),
        ("q3", "F", ("c.ticker = 'AAPL'", "b.price < c.price", "within 4 hours")),
    ]
    assert [e.source for e in edges(graph, "ignore").values()] == ["q1", "q2", "q3"]


def test_figure_3_an_event_that_can_be_taken_splits_the_instance():
    trace = cep.trace(EXAMPLE_1, quotes(("a", 3), ("b", 7)), engine="eager")
    before, after = (
        trace.at(trace.next(i, "arrive") - 1 if i is not None else -1) for i in (1, None)
    )
    assert {run.state for run in before.runs.values()} == {"q2"}
    assert Counter(run.state for run in after.runs.values()) == {"q2": 1, "q3": 1}


# ---- section 4: why to be lazy ----


def scenario():
    """100 a, then 100 b of which one is below c, then c."""
    return quotes(*[("a", 1)] * 100, *[("b", 50)] * 99, ("b", 2), ("c", 3))


def test_a_chain_needs_two_hundred_evaluations_where_eager_needs_ten_thousand():
    eager = cep.match(EXAMPLE_1, scenario(), engine="eager")
    chain = cep.match(EXAMPLE_1, scenario(), engine="lazy_chain", plan=cep.Order("c", "b", "a"))
    assert len(eager) == len(chain) == 100
    assert eager.counters["evaluations"] >= 10_000 and eager.counters["peak_runs"] >= 10_000
    # One try of c, 100 of b with c, 100 of a with the one b that fits.
    assert chain.counters["evaluations"] == 1 + 100 + 100
    assert chain.counters["peak_runs"] == 3  # the empty one, (c), (c, b)


def test_the_tree_finds_the_best_order_of_that_scenario_by_itself():
    tree = cep.match(EXAMPLE_1, scenario(), engine="lazy_tree")
    assert tree.counters["evaluations"] == 1 + 100 + 100
    assert len(tree) == 100


# ---- Figure 4 and section 5: scopes ----


def scopes(order, pattern=ABC):
    engine = LazyChain(cep.parse(pattern), cep.Order(*order))
    takes = [e for e in engine.graph.edges if e.action == "take"]
    return [edge.formula[-1] for edge in takes]


def test_figure_4_scopes():
    assert scopes("abc") == ["scope (start, finish)", "scope (a, finish)", "scope (b, finish)"]
    assert scopes("cab") == ["scope (start, finish)", "scope (start, c)", "scope (a, c)"]


def test_a_scope_begins_at_the_latest_in_sequence_order_not_in_evaluation_order():
    pattern = "PATTERN SEQ(A a, B b, C c, D d) WITHIN 99"
    assert scopes("badc", pattern)[-1] == "scope (b, d)"  # as printed, the paper's says (a, d)


def test_a_search_is_a_step_with_the_ends_of_its_scope():
    trace = cep.trace(
        ABC, stream("b1(x=2) a1(x=1) b2(x=2) c1(x=3)"), "lazy_chain", cep.Order(*"cab")
    )
    said = [step.say() for step in trace if step.kind == "scope"]
    assert said[-2:] == [
        "Run 1 searches the buffer a from start to c1: a1.",
        "Run 2 searches the buffer b from a1 to c1: b2.",
    ]


# ---- Figure 5: the chain ----


def test_figure_5_the_chain_of_example_1():
    graph = LazyChain(cep.parse(EXAMPLE_1), cep.Order("c", "b", "a")).graph
    assert [(s.name, s.label) for s in graph.states] == [
        ("q1", "c"), ("q2", "b"), ("q3", "a"), ("F", ""),
    ]  # fmt: skip
    takes = list(edges(graph, "take").values())
    assert [(e.source, e.target, e.variable) for e in takes] == [
        ("q1", "q2", "c"), ("q2", "q3", "b"), ("q3", "F", "a"),
    ]  # fmt: skip
    assert takes[1].formula == ("b.ticker = 'GOOG'", "b.price < c.price", "scope (start, c)")
    assert [e.variable for e in edges(graph, "store").values()] == ["b, a", "a"]


# ---- Figure 6: the tree ----


def test_figure_6_the_whole_tree_of_example_1():
    engine = LazyTree(cep.parse(EXAMPLE_1))
    graph = engine.whole_graph()
    assert [s.name for s in graph.states] == [
        "q0", "q(a)", "q(b)", "q(c)",
        "q(a, b)", "q(a, c)", "q(b, a)", "q(b, c)", "q(c, a)", "q(c, b)", "F",
    ]  # fmt: skip
    assert len(edges(graph, "take")) == 3 + 3 * 2 + 6
    assert [s.name for s in engine.graph.states] == ["q0", "F"]  # all that exists at first


def test_states_of_the_tree_exist_while_an_instance_is_in_them():
    engine = LazyTree(cep.parse("PATTERN SEQ(C c, B b, A a) WITHIN 5"))
    names = lambda: [s.name for s in engine.graph.states]  # noqa: E731
    for event in stream("a1 b1 c1"):
        engine.push(event)
    assert names() == ["q0", "q(c)", "F"]
    engine.push(cep.Event("D", 99))
    assert names() == ["q0", "F"]


def test_the_path_for_counts_c_below_b_below_a():
    events = stream("a1(x=1) a2(x=1) a3(x=1) b1(x=2) b2(x=2) c1(x=3)")
    trace = cep.trace(ABC, events, engine="lazy_tree")
    taken = [step.edge for step in trace if step.kind == "move"]
    assert list(dict.fromkeys(taken)) == ["take c at q0", "take b at q(c)", "take a at q(c, b)"]


def test_nothing_is_evaluated_before_every_variable_has_an_event():
    counters = cep.match(
        ABC, stream("a1(x=1) a2(x=1) b1(x=2) b2(x=2)"), engine="lazy_tree"
    ).counters
    assert counters["evaluations"] == 0


# ---- any plan, and wrong ones ----


def test_a_plan_is_a_value():
    assert repr(cep.Order("c", "b", "a")) == "Order('c', 'b', 'a')"
    assert str(cep.Order("c", "b", "a")) == "c, b, a"
    assert cep.Order("a", "b") == cep.Order("a", "b") != cep.Order("b", "a")
    assert repr(cep.Tree(("a", ("b", "c")))) == "Tree(('a', ('b', 'c')))"
    assert str(cep.Tree.left_deep("a", "b", "c")) == "((a b) c)"
    assert str(cep.Tree.right_deep("a", "b", "c")) == "(a (b c))"


@pytest.mark.parametrize(
    ("engine", "plan", "message"),
    [
        ("lazy_chain", lambda: cep.Order("a", "b"), r"leaves out c"),
        (
            "lazy_chain",
            lambda: cep.Order("a", "b", "c", "cc"),
            r"names 'cc' \(did you mean 'c'\?\)",
        ),
        ("lazy_chain", lambda: cep.Order("a", "b", "b"), r"names 'b' twice"),
        ("lazy_chain", lambda: cep.Tree(("a", ("b", "c"))), r"follows an order"),
        ("zstream", lambda: cep.Order("a", "b", "c"), r"follows a tree"),
        ("zstream", lambda: cep.Tree(("a", "b", "c")), r"two parts at a time"),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(engine, plan, message):
    with pytest.raises(cep.PlanError, match=message):
        cep.match(ABC, stream("a1(x=1)"), engine=engine, plan=plan())


def test_without_a_plan_the_rarest_type_comes_first():
    trace = cep.trace(ABC, stream("a1(x=1) a2(x=1) b1(x=2) b2(x=2) c1(x=3)"), engine="lazy_chain")
    assert trace.plan == "c, a, b"


# ---- negation as early as its neighbours are there ----


@pytest.mark.parametrize("engine", ["lazy_chain", "zstream"])
def test_a_negation_is_checked_as_soon_as_its_neighbours_are_there(engine):
    pattern = "PATTERN SEQ(A a, ~(D d), B b, C c) WITHIN 99"
    plan = cep.Order("a", "b", "c") if engine == "lazy_chain" else cep.Tree((("a", "b"), "c"))
    trace = cep.trace(pattern, stream("a1 d1 b1 c1 c2"), engine, plan)
    dropped = trace.next(0, "drop")
    assert trace.event_of(dropped) == "b1"  # before any c has come
    assert trace.matches == []


# ---- ZStream ----


def test_equalities_between_two_sides_are_looked_up():
    pattern = "PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 999"
    events = stream(" ".join(f"a{n}(k={n})" for n in range(50)) + " b1(k=7)")
    result = cep.match(pattern, events, engine="zstream")
    assert [written(match) for match in result] == ["a7|b1"]
    assert result.counters["evaluations"] == 1


def test_a_tree_tries_each_predicate_at_the_lowest_node_that_can():
    graph = ZStream(cep.parse(ABC), cep.Tree(("a", ("b", "c")))).graph
    assert {edge.name: edge.formula for edge in graph.edges} == {
        "join a": ("a.x < b.x",),
        "join b": ("b.x < c.x",),
        "join c": ("b.x < c.x",),
        "join (b c)": ("a.x < b.x",),
        "join (a (b c))": (),
    }


def test_buffers_of_a_tree_forget_what_left_the_window():
    engine = ZStream(cep.parse("PATTERN SEQ(A a, B b, C c) WITHIN 5"))
    for event in cep.Stream.from_records({"type": "AB"[n % 2], "time": n} for n in range(100)):
        engine.push(event)
    assert engine.buffered <= 5 + 6  # events of one window, and the pairs of them
    assert engine.counters.peak_buffered <= 5 + 6
