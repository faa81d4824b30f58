"""Why, why-not and why so many: each kind of blocker in words, and generated candidates."""

from __future__ import annotations

import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from literal import stream
from strategies import patterns, streams

import cepviz as cep
from cepviz.errors import CepError, StreamError
from cepviz.explain import why, why_not, why_so_many
from cepviz.explain.blockers import KINDS
from cepviz.explain.funnel import Funnel

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")


def reasons(pattern, events, **bindings):
    said = why_not(pattern, stream(events) if isinstance(events, str) else events, **bindings)
    return [(blocker.kind, blocker.text) for blocker in said.blockers]


# ---- each kind of blocker, in words ----


@pytest.mark.parametrize(
    ("pattern", "events", "bindings", "kind", "text"),
    [
        (
            "PATTERN SEQ(A a, B b) WITHIN 9",
            "a1 c1 b1",
            {"a": "a1", "b": "c1"},
            "type",
            "c1 is of type C; b needs B.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE b.price > a.price WITHIN 9",
            "a1(price=101) b1(price=98)",
            {"a": "a1", "b": "b1"},
            "predicate",
            "b.price > a.price: 98 > 101 is false, short by 3.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE b.x < a.x WITHIN 9",
            "a1(x=2) b1(x=2)",
            {"a": "a1", "b": "b1"},
            "predicate",
            "b.x < a.x: 2 < 2 is false, they are equal.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE b.x <= a.x WITHIN 9",
            "a1(x=2) b1(x=2.5)",
            {"a": "a1", "b": "b1"},
            "predicate",
            "b.x <= a.x: 2.5 <= 2 is false, over by 0.5.",
        ),
        (
            "PATTERN SEQ(A a) WHERE a.x = 'red' WITHIN 9",
            "a1(x=blue)",
            {"a": "a1"},
            "predicate",
            "a.x = 'red': 'blue' = 'red' is false.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9",
            "a1(x=2) b1(x=)",
            {"a": "a1", "b": "b1"},
            "predicate",
            "b.x > a.x: b.x is missing, so it is unknown.",
        ),
        (
            "PATTERN SEQ(A a) WHERE 1 / a.x > 0 WITHIN 9",
            "a1(x=0)",
            {"a": "a1"},
            "predicate",
            "1 / a.x > 0: it cannot be computed (1 / a.x > 0: division by zero).",
        ),
        (
            "PATTERN SEQ(A a) WHERE a.x = 1 or a.x = 2 WITHIN 9",
            "a1(x=3)",
            {"a": "a1"},
            "predicate",
            "a.x = 1 or a.x = 2: a.x 3 = 1 or a.x 3 = 2 is false.",
        ),
        (
            "PATTERN SEQ(A+ a[], B b) WHERE a[i].x > a[i-1].x WITHIN 9",
            "a1(x=5) a2(x=4) a3(x=1) b1",
            {"a": ["a1", "a2", "a3"], "b": "b1"},
            "predicate",
            "a[i].x > a[i-1].x: 4 > 5 is false, short by 1 (at a[2] = a2 and 1 more element).",
        ),
        (
            "PATTERN SEQ(A a, B b) WITHIN 9",
            "b1@3 a1@7",
            {"a": "a1", "b": "b1"},
            "order",
            "a = a1 must come before b = b1; a1 is at 7, b1 at 3.",
        ),
        (
            "PATTERN SEQ(A a, B b) WITHIN 9",
            "b1@3 a1@3",
            {"a": "a1", "b": "b1"},
            "order",
            "a = a1 must come before b = b1; both are at 3, and a1 arrived after b1.",
        ),
        (
            "PATTERN SEQ(A a, B b) WITHIN 9",
            "a1@0-4 b1@4-5",
            {"a": "a1", "b": "b1"},
            "order",
            "a = a1 must come before b = b1; a1 ends at 4 and b1 starts at 4, which is not later.",
        ),
        (
            "PATTERN SEQ(A a, B b) WITHIN 300 seconds",
            "a1@0 b1@302",
            {"a": "a1", "b": "b1"},
            "window",
            "a@0 to b@302 is 302 s; WITHIN 300 seconds needs less.",
        ),
        (
            "PATTERN SEQ(A a, B b) WITHIN 3 events",
            "a1 c1 c2 b1",
            {"a": "a1", "b": "b1"},
            "window",
            "a = a1 to b = b1 is 4 events of the stream; WITHIN 3 events holds 3.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9",
            "a1(k=0) b1(k=1)",
            {"a": "a1", "b": "b1"},
            "partition",
            "[k]: a = a1 has 0, b = b1 has 1.",
        ),
        (
            "PATTERN SEQ(A a) WHERE [k] WITHIN 9",
            "a1(k=) a2(k=1)",
            {"a": "a1"},
            "partition",
            "[k]: a = a1 has no k.",
        ),
        (
            "PATTERN SEQ(A a, ~(C c), B b) WITHIN 9",
            "a1 c1 b1",
            {"a": "a1", "b": "b1"},
            "negation",
            "c1 lies between a = a1 and b = b1; ~(C c) forbids it.",
        ),
        (
            "PATTERN SEQ(A a, ~(C c)) WHERE c.x > a.x WITHIN 9",
            "a1(x=1) c1(x=0) c2(x=4)",
            {"a": "a1"},
            "negation",
            "c2 (c.x 4 > a.x 1) lies after a = a1, in its window; ~(C c) forbids it.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE skip_till_next_match WITHIN 9",
            "a1 b1 b2",
            {"a": "a1", "b": "b2"},
            "strategy",
            "next-match had to take b1 for b; under any-match it would match.",
        ),
        (
            "PATTERN SEQ(A+ a[], B b) WHERE skip_till_next_match WITHIN 9",
            "a1 a2 b1",
            {"a": ["a1"], "b": "b1"},
            "strategy",
            "next-match had to take a2 for a[2]; under any-match it would match.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE strict_contiguity WITHIN 9",
            "a1 c1 b1",
            {"a": "a1", "b": "b1"},
            "contiguity",
            "c1 (C) stands between a = a1 and b = b1; strict_contiguity allows none; "
            "under next-match it would match.",
        ),
        (
            "PATTERN SEQ(A a, B b) WHERE partition_contiguity { [k] } WITHIN 9",
            "a1(k=1) c0(k=2) c1(k=1) b1(k=1)",
            {"a": "a1", "b": "b1"},
            "contiguity",
            "c1 (C) of the same partition stands between a = a1 and b = b1; "
            "partition_contiguity allows none; under next-match it would match.",
        ),
        (
            "PATTERN SEQ(A a, A b) WITHIN 9",
            "a1 a2",
            {"a": "a1", "b": "a1"},
            "used twice",
            "a1 stands for a and b; an event fills one place of a match.",
        ),
        (
            "PATTERN SEQ(A a, B b, C c) WITHIN 9",
            "a1 b1",
            {"a": "a1", "b": "b1"},
            "missing",
            "there is no event of type C for c in the stream.",
        ),
        (
            "PATTERN SEQ(A+ a[], B b) WITHIN 9",
            "a1 b1",
            {"a": [], "b": "b1"},
            "missing",
            "a[] needs at least one event.",
        ),
        (
            "PATTERN SEQ(A a, OR(B b, C c)) WITHIN 9",
            "a1 b1 c1",
            {"b": "b1", "c": "c1"},
            "branch",
            "b and c stand in different branches of the pattern: no match has them together.",
        ),
        (
            "PATTERN SEQ(A a, B b) WITHIN 9 OUTPUT non_overlap",
            "a1 b1 b2",
            {"a": "a1", "b": "b2"},
            "overlap",
            "it overlaps a = a1, b = b1, which is reported first (non_overlap).",
        ),
    ],
)
def test_each_blocker_in_words(pattern, events, bindings, kind, text):
    assert reasons(pattern, events, **bindings) == [(kind, text)]


def test_all_blockers_are_told_in_order():
    found = reasons(
        "PATTERN SEQ(A a, B b) WHERE b.x > a.x and [k] WITHIN 5",
        "b1@0(x=1,k=1) a1@7(x=3,k=0)",
        a="a1",
        b="b1",
    )
    assert [kind for kind, _ in found] == ["order", "window", "partition", "predicate"]
    assert [kind for kind, _ in found] == sorted((kind for kind, _ in found), key=KINDS.index)


def test_a_late_event_is_found_in_stream_late():
    rows = [("a", "A", 0), ("b", "B", 9), ("c", "B", 2)]
    rows = [{"id": id, "type": type, "time": at} for id, type, at in rows]
    late = cep.Stream.from_records(rows, id="id", lateness=3)
    said = why_not("PATTERN SEQ(A a, B b) WITHIN 9", late, a="a", b="c")
    assert [(b.kind, b.text) for b in said.blockers] == [
        (
            "lateness",
            "c at 2 came later than the stream's lateness allows: it is in stream.late, "
            "not in the stream.",
        )
    ]
    assert said.is_match is False and said.fix is None


def test_a_late_event_that_shares_its_number_is_told_by_itself():
    rows = [{"type": t, "time": at} for t, at in [("A", 0), ("B", 9), ("B", 2), ("B", 10)]]
    events = cep.Stream.from_records(rows, lateness=3)
    assert events.late[0].id == events[2].id == 2, "rows are counted twice"
    said = why_not("PATTERN SEQ(A a, B b) WITHIN 20", events, a=0, b=events.late[0])
    assert [blocker.kind for blocker in said.blockers] == ["lateness"]
    assert why_not("PATTERN SEQ(A a, B b) WITHIN 20", events, a=0, b=events[2]).is_match


def test_a_result_that_a_budget_ended_says_so():
    events, query = stream("a1 b1 b2 b3"), "PATTERN SEQ(A a, B b) WITHIN 9"
    with pytest.raises(cep.BudgetError) as stopped:
        cep.match(query, events, budget={"matches": 1})
    said = why_not(stopped.value, a="a1", b="b3")
    assert said.is_match and [blocker.kind for blocker in said.blockers] == ["budget"]
    assert repr(said).splitlines()[0] == (
        "It is a match, but it is not in the result, for 1 reason: a = a1, b = b3."
    )
    assert "stopped at b1: 1 matches" in said.blockers[0].text
    assert not why_not(stopped.value.result, a="a1", b="b1").blockers
    assert not why_not(cep.match(query, events), a="a1", b="b3").blockers
    with pytest.raises(cep.CepError, match="needs a stream"):
        why_not(query, a="a1")


CHAIN = cep.chain(
    "PATTERN SEQ(A a, A b) WHERE a.x < b.x WITHIN 5 RETURN Rise(top = b.x)",
    "PATTERN SEQ(Rise r, B c) WHERE c.x > r.top WITHIN 9",
)


def test_a_chain_is_judged_by_the_query_that_has_the_variables():
    events = stream("a1(x=1) a2(x=2) b1(x=1) b2(x=3)")
    said = why_not(CHAIN, events, r="Rise#1", c="b1")
    assert [blocker.kind for blocker in said.blockers] == ["predicate"]
    assert repr(said).startswith("Query 2 of 2 of the chain.\nNot a match: 1 reason.")
    assert why_not(CHAIN, events, r="Rise#1", c="b2").is_match
    first = why_not(CHAIN, events, a="a2", b="a1")
    assert first.note == "Query 1 of 2 of the chain." and first.blockers[0].kind == "order"
    with pytest.raises(cep.CepError, match="no query of the chain has a and r: query 1 has a or b"):
        why_not(CHAIN, events, a="a1", r="Rise#1")


def test_a_pattern_that_reads_from_a_context_query_is_explained():
    rise = "CONTEXT CPC SELECT <x AS top> FROM <A> SEQUENCE <A> PUBLISH <Rise>"
    events = stream("a1@1(x=1) a2@2(x=5) b1@3(x=4)")
    mixed = cep.chain(rise, "PATTERN SEQ(Rise r, B b) WHERE b.x > r.top WITHIN 10")
    said = why_not(mixed, events, r="Rise#1", b="b1")
    assert said.blockers[0].text == "b.x > r.top: 4 > 5 is false, short by 1."


def test_the_funnel_of_a_chain_is_that_of_the_query_that_finds_nothing():
    said = why_not(CHAIN, stream("a1(x=2) a2(x=1) b1(x=1)"))
    assert said.verdict.startswith("Query 1 of 2 of the chain. No match in 3 events")
    assert "Query 2 of 2" in why_not(CHAIN, stream("a1(x=1) a2(x=2) b1(x=1)")).verdict


@pytest.mark.parametrize(
    ("pattern", "events", "nearest"),
    [
        # More elements mend a condition on all of them ...
        ("SEQ(A a, B+ b[], C c) WHERE sum(b[].x) > 5 and c.x > 3", "b1 b2 b3", "b1 b2 b3"),
        ("SEQ(A a, B+ b[], C c) WHERE count(b[]) >= 2 and c.x > 3", "b1 b2 b3", "b1 b2"),
        # ... and what the strategy had to take; but no more than needed.
        ("SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { c.x > 3 }", "b1 b2 b3", "b1 b2 b3"),
        ("SEQ(A a, B+ b[], C c) WHERE c.x > 3", "b1 b2 b3", "b1"),
    ],
)
def test_an_open_list_gets_the_elements_it_needs(pattern, events, nearest):
    given = stream("a1(x=0) b1(x=1) b2(x=2) b3(x=3) c1(x=0)")
    said = why_not(f"PATTERN {pattern} WITHIN 99", given, a="a1", c="c1")
    assert [event.label for event in said.bindings["b"]] == nearest.split()
    assert [blocker.conjunct and str(blocker.conjunct) for blocker in said.blockers] == ["c.x > 3"]


def test_a_search_that_is_too_long_is_not_decided(monkeypatch):
    monkeypatch.setattr("cepviz.explain.closest.MOST_TRIED", 10)
    events = " ".join(f"a{n}(x=0)" for n in range(8)) + " b1(x=1)"
    query = "PATTERN SEQ(A+ a[], B b) WHERE sum(a[].x) > b.x WITHIN 99"
    said = why_not(query, stream(events), b="b1")
    assert said.is_match is None
    assert [blocker.kind for blocker in said.blockers] == ["budget"]
    assert "Not decided." in repr(said)


def test_a_completion_further_away_than_the_search_goes_is_not_decided(monkeypatch):
    for module in ("closest", "verdict"):
        monkeypatch.setattr(f"cepviz.explain.{module}.NEAR", 2)
    events = stream("a1(x=5) b1(x=1) c1 c2 b2(x=7)")
    said = why_not("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 99", events, a="a1")
    assert said.is_match is None
    assert [blocker.kind for blocker in said.blockers] == ["predicate", "budget"]
    assert said.fixes[0].text == "b.x >= a.x - 4"


@pytest.mark.parametrize(
    ("bindings", "error", "said"),
    [
        ({"a": "a9"}, StreamError, "no event of the stream has the id 'a9'"),
        ({"z": "a1"}, CepError, "the pattern has no variable 'z'"),
        ({"c": "c1"}, CepError, "c must not occur in a match"),
        ({"b": ["b1", "b1"]}, CepError, "b is one event, not a list of 2"),
    ],
)
def test_wrong_bindings_are_refused(bindings, error, said):
    with pytest.raises(error, match=said):
        why_not("PATTERN SEQ(A a, ~(C c), B b) WITHIN 9", stream("a1 c1 b1"), **bindings)


def test_an_unknown_number_names_the_ids_there_are():
    rows = [{"type": "A", "time": n} for n in range(5)]
    with pytest.raises(StreamError, match="has the id 99; ids go from 0 to 4"):
        why_not("PATTERN SEQ(A a)", rows, a=99)


def test_variables_may_be_called_like_the_parameters():
    rows = [{"type": "A", "time": 0}, {"type": "B", "time": 1}]
    query = "PATTERN SEQ(A pattern, B stream) WITHIN 9"
    assert why_not(query, rows, pattern=0, stream="e1").is_match


# ---- verdicts and fixes ----


def test_a_match_says_so_and_which():
    events = stream("a1 b1 b2")
    said = why_not("PATTERN SEQ(A a, B b) WITHIN 9", events, a="a1", b="b2")
    assert said.is_match and said.blockers == [] and said.fix is None
    assert repr(said) == "It is a match, #2: a = a1, b = b2."


def test_partial_bindings_are_completed_by_a_match():
    said = why_not("PATTERN SEQ(A a, B b, C c) WHERE c.x > b.x WITHIN 9",
                   stream("a1(x=0) b1(x=5) b2(x=1) c1(x=3)"), a="a1", c="c1")  # fmt: skip
    assert said.match.ids == {"a": "a1", "b": "b2", "c": "c1"}


def test_the_closest_completion_has_the_fewest_blockers():
    said = why_not("PATTERN SEQ(A a, B b) WHERE b.x > a.x and b.y > a.y WITHIN 9",
                   stream("a1(x=5,y=5) b1(x=1,y=1) b2(x=1,y=6)"), a="a1")  # fmt: skip
    assert repr(said) == (
        "No match contains a = a1.\n"
        "Nearest: a = a1, b = b2; 1 reason.\n"
        "1  predicate  b.x > a.x: 1 > 5 is false, short by 4.\n"
        "Closest: b.x >= a.x - 4 would match (checked).\n"
        "     or: without b.x > a.x (checked).\n"
        "Show: [.timeline()] [.trace[9], where run 1 was refused b2]"
    )


@pytest.mark.parametrize(
    ("pattern", "events", "bindings", "fix"),
    [
        ("SEQ(A a, B b) WITHIN 5 minutes", "a1@0 b1@302", "a1 b1", "WITHIN 303 seconds"),
        ("SEQ(A a, B b) WITHIN 5", "a1@0 b1@5", "a1 b1", "WITHIN 6"),
        ("SEQ(A a, B b) WITHIN 0.5", "a1@0 b1@0.5", "a1 b1", "WITHIN 0.502"),
        ("SEQ(A a, B b) WITHIN 2 events", "a1 c1 b1", "a1 b1", "WITHIN 3 events"),
        ("SEQ(A a, B b) WHERE b.x > a.x WITHIN 9", "a1(x=4) b1(x=1)", "a1 b1", "b.x >= a.x - 3"),
        ("SEQ(A a, B b) WHERE b.x < a.x WITHIN 9", "a1(x=1) b1(x=1)", "a1 b1", "b.x <= a.x"),
        (
            "SEQ(A a, B b) WHERE b.x < 80% * a.x WITHIN 9",
            "a1(x=999) b1(x=950)",
            "a1 b1",
            "b.x <= 80% * a.x + 150.8",
        ),
        ("SEQ(A a, B b) WHERE b.x > 5 WITHIN 9", "a1(x=1) b1(x=3)", "a1 b1", "b.x >= 3"),
        (
            "SEQ(A a, B b) WHERE b.x = a.x WITHIN 9",
            "a1(x=1) b1(x=3)",
            "a1 b1",
            "b.x BETWEEN a.x - 2 AND a.x + 2",
        ),
        ("SEQ(A a, B b) WHERE b.x > a.x WITHIN 9", "a1(x=1) b1(x=)", "a1 b1", "without b.x > a.x"),
        ("SEQ(A a, B b) WHERE [k] WITHIN 9", "a1(k=1) b1(k=2)", "a1 b1", "without [k]"),
        ("SEQ(A a, ~(C c), B b) WITHIN 9", "a1 c1 b1", "a1 b1", "without ~(C c)"),
        (
            "SEQ(A a, B b) WHERE skip_till_next_match WITHIN 9",
            "a1 b1 b2",
            "a1 b2",
            "skip_till_any_match",
        ),
        (
            "SEQ(A a, B b) WHERE strict_contiguity WITHIN 9",
            "a1 c1 b1",
            "a1 b1",
            "skip_till_next_match",
        ),
    ],
)
def test_the_smallest_change_that_helps(pattern, events, bindings, fix):
    one, two = bindings.split()
    said = why_not(f"PATTERN {pattern}", stream(events), a=one, b=two)
    assert said.fixes[0].text == fix
    found = cep.match(said.fix, stream(events), engine="naive")
    assert {"a": one, "b": two} in [match.ids for match in found]
    assert cep.parse(str(said.fix)) == said.fix


def test_a_change_that_brings_a_new_blocker_is_followed_up():
    # The wider window lets the leading NOT look further back, to c1.
    said = why_not("PATTERN SEQ(~(C c), A a, B b) WITHIN 3", stream("c1@2 a1@2 b1@7"),
                   a="a1", b="b1")  # fmt: skip
    assert [blocker.kind for blocker in said.blockers] == ["window"]
    assert said.fixes[0].text == "WITHIN 6 and without ~(C c)"


def test_a_fix_is_reported_even_without_overlap():
    query = "PATTERN SEQ(A a, B b) WHERE strict_contiguity WITHIN 9 OUTPUT non_overlap"
    events = stream("a1 a2 b1")
    said = why_not(query, events, a="a1", b="b1")
    assert said.fixes[0].text == "skip_till_next_match"
    assert [match.ids for match in cep.match(said.fix, events)] == [{"a": "a1", "b": "b1"}]
    said = why_not(query, stream("a1 a2 b1 b2"), a="a1", b="b2")
    assert said.fixes[0].text == "skip_till_any_match and OUTPUT all"


def test_dates_are_told_as_dates():
    rows = [
        {"type": "A", "time": "2024-01-01 10:00:00"},
        {"type": "B", "time": "2024-01-01 10:05:02"},
    ]
    said = why_not("PATTERN SEQ(A a, B b) WITHIN 5 minutes", rows, a=0, b=1)
    assert said.blockers[0].text == (
        "a@2024-01-01 10:00:00 to b@2024-01-01 10:05:02 is 5 min 2 s; WITHIN 5 minutes needs less."
    )
    assert str(said.fix.within) == "303 seconds"


def test_the_step_where_the_run_was_refused():
    said = why_not("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9",
                   stream("a1(x=4) b1(x=1) b2(x=5)"), a="a1", b="b1")  # fmt: skip
    assert said.trace[said.step].say() == "Run 1 at b: begin b1? b.x 1 > a.x 4 no. It fails."


@pytest.mark.parametrize("query", [
    "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 500",
    "PATTERN SEQ(A+ a[], B b) WHERE b.x > a.x WITHIN 500 events",
    "PATTERN SEQ(A a, ~(C c), B b) WHERE skip_till_next_match { b.x > a.x } WITHIN 500",
    "PATTERN SEQ(A a, B b) WHERE strict_contiguity { b.x > a.x } WITHIN unbounded",
])  # fmt: skip
def test_a_long_stream_is_no_trouble(query):
    import pandas as pd

    size = 100_000
    frame = {"type": list("ABC" * (size // 3 + 1))[:size], "time": range(size)}
    frame["x"] = [n % 7 for n in range(size)]
    events = cep.Stream.from_pandas(pd.DataFrame(frame))
    start = time.perf_counter()
    said = why_not(query, events, a=50_001, b=50_200)
    repr(said)
    assert said.is_match is not None
    repr(why_not(query, events, b=50_200))
    assert why_not(query, events, a=50_001).is_match is not False
    assert time.perf_counter() - start < 10


# ---- generated candidates ----


@st.composite
def candidates(draw, events, pattern):
    """Some events for some of the variables, a little more often of the right type."""
    names = [v for v in pattern.variables.values() if not v.negated]
    ids = [event.id for event in events]
    chosen = {}
    for variable in names:
        if draw(st.integers(0, 4)) == 0:
            continue
        right = [event.id for event in events if event.type == variable.type] or ids
        one = st.one_of(st.sampled_from(right), st.sampled_from(right), st.sampled_from(ids))
        if variable.kleene:
            chosen[variable.name] = sorted(draw(st.lists(one, max_size=3, unique=True)))
        else:
            chosen[variable.name] = draw(one)
    return chosen


def found_by_naive(pattern, events, chosen):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = cep.match(pattern, events, engine="naive")
    return [
        match.ids for match in result
        if all(name in match.ids and match.ids[name] == ids for name, ids in chosen.items())
    ]  # fmt: skip


@settings(deadline=None, max_examples=400)
@given(st.data(), patterns(outputs=("all", "all", "all", "non_overlap")), streams(max_size=7))
def test_it_is_a_match_exactly_when_naive_finds_it(data, pattern, events):
    chosen = data.draw(candidates(events, pattern))
    said = why_not(pattern, events, **chosen)
    repr(said), said._repr_mimebundle_(), said.to_frame()
    if isinstance(said, Funnel):
        assert said.is_match == bool(found_by_naive(pattern, events, {}))
        return
    assert said.is_match == bool(found_by_naive(pattern, events, chosen))
    assert said.is_match == (said.blockers == [])
    if said.is_match:
        assert said.match.ids in found_by_naive(pattern, events, chosen)
    for fix in said.fixes:
        judged = {
            name: [e.id for e in bound] if isinstance(bound, tuple) else bound.id
            for name, bound in said.bindings.items()
        }
        assert found_by_naive(fix.pattern, events, judged), fix.text


@settings(deadline=None, max_examples=200)
@given(patterns(), streams(max_size=7))
def test_every_match_has_a_story(pattern, events):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = cep.match(pattern, events)
    for match in result[:5]:
        story = why(match)
        repr(story), story._repr_mimebundle_(), story.to_frame()
        assert [part.event for part in story.parts] == match.events
        assert all(test.truth is True for part in story.parts for test in part.tests)
        assert sorted(story.steps) == story.steps and story.step in story.steps
        if story.trace.engine == "sase":
            path = [link.event for link in story.pointers]
            assert path == [event.label for event in reversed(match.events)]
    many = why_so_many(result)
    repr(many), many._repr_mimebundle_()
    assert sum(group.matches for group in many.groups) == len(result)
    assert sum(group.matches for group in many.prefixes) == len(result)
    assert all(remedy.matches < len(result) for remedy in many.remedies)


# ---- why ----


def test_the_story_of_a_match():
    query = "PATTERN SEQ(A+ a[], B b) WHERE [k] and a[i].x > a[i-1].x WITHIN 9"
    result = cep.match(query, stream("a1(x=1,k=1) a2(x=2,k=1) b1(x=0,k=1)"))
    (match,) = [match for match in result if match.ids == {"a": ["a1", "a2"], "b": "b1"}]
    story = why(match)
    assert [(part.role, part.action) for part in story.parts] == [
        ("a[1]", "begin"),
        ("a[2]", "take"),
        ("b", "begin"),
    ]
    assert [test.said for test in story.parts[1].tests] == [
        "a[i].k 1 = a[1].k 1",
        "a[i].x 2 > a[i-1].x 1",
    ]
    assert [(c.event, c.because, c.did, c.instead) for c in story.choices] == [
        ("a2", "take-ignore", "takes it", "ignores it"),
        ("b1", "ignore-proceed", "proceeds and begins with it", "ignores it"),
    ]
    assert [(link.event, link.to_event, link.version) for link in story.pointers] == [
        ("b1", "a2", "1.1.1"),
        ("a2", "a1", "1.1"),
        ("a1", "", "1"),
    ]
    assert story.trace[story.step].kind == "match"


def test_a_story_from_a_given_trace_of_any_engine():
    query, events = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9", stream("a1(x=1) b1(x=2)")
    match = cep.match(query, events)[0]
    for engine in ("eager", "sase", "lazy_chain", "lazy_tree", "zstream", "naive"):
        trace = cep.trace(query, events, engine=engine)
        story = why(match, trace)
        assert story.trace is trace and trace[story.step].kind == "match"
        assert story.parts[1].tests[0].said == "b.x 2 > a.x 1"


def test_a_match_that_knows_nothing_needs_a_trace():
    from cepviz.engines.sase import Sase

    engine = Sase(cep.parse("PATTERN SEQ(A a) WITHIN 9"))
    (match,) = engine.push(cep.Event("A", 0, id=1))
    with pytest.raises(CepError, match="does not know its stream"):
        why(match)
    other = cep.trace("PATTERN SEQ(A a) WITHIN 9", stream("a1"))
    with pytest.raises(CepError, match="is no match of this trace"):
        why(match, other)


def test_a_story_among_too_many_runs_is_told_by_its_own_events(monkeypatch):
    monkeypatch.setattr("cepviz.explain.running.MOST_WATCHED", 100)
    result = cep.match("PATTERN SEQ(A+ a[], B b) WITHIN 99", stream("a1 a2 a3 a4 a5 a6 a7 b1"))
    (match,) = [match for match in result if match.ids["a"] == ["a1", "a3", "a7"]]
    story = why(match)
    assert story.note.startswith("Too many runs to watch")
    assert [part.event.label for part in story.parts] == ["a1", "a3", "a7", "b1"]
    assert [link.event for link in story.pointers] == ["b1", "a7", "a3", "a1"]


def test_overlapping_intervals_have_a_story():
    (match,) = cep.match("PATTERN AND(A a, B b) WITHIN 9", stream("a1@0-4 b1@2-5"), engine="naive")
    assert [part.event.label for part in why(match).parts] == ["a1", "b1"]


def test_negations_are_part_of_the_story():
    query = "PATTERN SEQ(A a, ~(C c), B b) WHERE c.x > 1 WITHIN 9"
    (match,) = cep.match(query, stream("a1(x=0) c1(x=1) b1(x=0)"))
    assert why(match).absent == [
        "~(C c): no such event; c1 near it lie elsewhere or fail its conditions."
    ]


# ---- the funnel and why so many ----


@pytest.mark.parametrize(
    ("pattern", "events", "verdict"),
    [
        ("SEQ(A a, B b) WITHIN 9", "a1 a2", "the stream has no event of type B, for b."),
        ("SEQ(A a, B b) WHERE b.x > 3 WITHIN 9", "a1(x=1) b1(x=2)", "no B passes b.x > 3, for b."),
        ("SEQ(A a, B b) WITHIN 9", "b1 a1", "no a comes before a b within one window."),
        (
            "SEQ(A a, B b) WHERE b.x > a.x WITHIN 9",
            "a1(x=3) b1(x=2)",
            "no pair of a and b passes b.x > a.x.",
        ),
        (
            "SEQ(A a, ~(C c), B b) WITHIN 9",
            "a1 c1 b1",
            "1 run came to 2 of 2 variables; all ended by negation.",
        ),
    ],
)
def test_the_funnel_says_where_it_dies(pattern, events, verdict):
    said = why_not(f"PATTERN {pattern}", stream(events))
    size = len(events.split())
    assert said.verdict == f"No match in {size} events: {verdict}"
    assert not said.is_match


def test_the_funnel_counts_types_conditions_and_pairs():
    said = why_not("PATTERN SEQ(A a, B b) WHERE a.x > 0 and b.x > a.x WITHIN 9",
                   stream("a1(x=0) a2(x=1) b1(x=1) a3(x=5) b2(x=2)"))  # fmt: skip
    assert [(s.what, s.before, s.after) for s in said.stages] == [
        ("A for a", 5, 3),
        ("a.x > 0", 3, 2),
        ("B for b", 5, 2),
        ("a, b in order and in the window", 4, 3),
        ("b.x > a.x", 3, 1),
    ]
    assert said.verdict == "It does match: 1 match in 5 events."


def test_a_sampled_funnel_says_so(monkeypatch):
    monkeypatch.setattr("cepviz.explain.funnel.MOST_EVENTS", 40)
    monkeypatch.setattr("cepviz.explain.funnel.MOST_TRACED", 10)
    rows = [{"type": "AB"[n % 2], "time": n, "x": n % 3} for n in range(100)]
    said = why_not("PATTERN SEQ(A a, B b) WHERE b.x > a.x + 5 WITHIN 9", rows)
    assert "sampled: 40 events" in repr(said) and "of the first 10 events only" in repr(said)


def test_the_variable_that_multiplies():
    result = cep.match("PATTERN SEQ(A+ a[], B b) WITHIN 9", stream("a1 a2 a3 b1 b2"))
    many = why_so_many(result)
    assert many.multiplier == "a"
    assert [(g.shared, g.matches) for g in many.groups] == [("b = b1", 7), ("b = b2", 7)]
    assert [(r.text, r.matches) for r in many.remedies] == [
        ("WITHIN 4", 10),
        ("skip_till_next_match", 6),
        ("OUTPUT non_overlap", 1),
    ]
    assert list(many.to_frame("events").columns) == ["event", "matches"]
    with pytest.raises(CepError, match="unknown table 'x'"):
        many.to_frame("x")


def test_no_matches_are_not_many():
    result = cep.match("PATTERN SEQ(A a, B b) WITHIN 9", stream("a1"))
    assert "There are no matches" in repr(why_so_many(result))


def test_html_is_escaped():
    rows = [{"type": "<script>", "time": 0, "x": "<b>"}]
    query = "PATTERN SEQ(`<script>` a) WHERE a.x = '<i>' WITHIN 9"
    page = why_not(query, rows, a=0)._repr_mimebundle_()["text/html"]
    assert "<b>" not in page and "<i>" not in page and "&lt;i&gt;" in page
    page = why_not(query, rows)._repr_mimebundle_()["text/html"]
    assert "<script>" not in page and "<i>" not in page
