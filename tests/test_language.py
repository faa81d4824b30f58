"""The language: what is read and to what, what is refused and how, and the same in Python."""

from __future__ import annotations

import datetime
import pickle
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import patterns

from cepviz.errors import PatternError
from cepviz.events import Schema
from cepviz.language.build import (
    And,
    Kleene,
    Or,
    Seq,
    as_pattern,
    avg,
    call,
    count,
    first,
    i,
    last,
    percent,
    same,
    types,
)
from cepviz.language.build import max as max_of
from cepviz.language.build import min as min_of
from cepviz.language.build import sum as sum_of
from cepviz.language.contexts import (
    Closure,
    ContextQuery,
    Input,
    Limit,
    Part,
    Restricted,
    Selected,
    Sequence,
    Sliding,
)
from cepviz.language.expressions import (
    All,
    Arithmetic,
    Attribute,
    Between,
    Compare,
    Duration,
    Either,
    Literal,
    Opposite,
    Percent,
    Symbol,
)
from cepviz.language.functions import FUNCTIONS, function
from cepviz.language.highlight import STYLES, highlighted
from cepviz.language.parser import parse
from cepviz.language.pattern import ANY, NEXT, Pattern, Window
from cepviz.language.resolve import resolve, window_size
from cepviz.language.structure import And as AndNode
from cepviz.language.structure import Atom, Not, Variable
from cepviz.language.structure import Kleene as KleeneNode
from cepviz.language.structure import Or as OrNode
from cepviz.language.structure import Seq as SeqNode

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def where(condition: str, structure: str = "SEQ(A a, B b)") -> str:
    """The canonical text of a condition."""
    pattern = parse(f"PATTERN {structure} WHERE {condition}")
    return " and ".join(str(pattern).split("WHERE ", 1)[1].replace("\n  and ", " and ").split("\n"))


def refused(text: str) -> PatternError:
    with pytest.raises(PatternError) as caught:
        parse(text)
    return caught.value


# ---- structure ----


@pytest.mark.parametrize(
    ("text", "structure"),
    [
        ("SEQ(A a)", SeqNode((Atom("A", "a"),))),
        ("A a", SeqNode((Atom("A", "a"),))),
        ("SEQ(A a, B b)", SeqNode((Atom("A", "a"), Atom("B", "b")))),
        ("seq ( A a , B b )", SeqNode((Atom("A", "a"), Atom("B", "b")))),
        ("(A a, B b)", SeqNode((Atom("A", "a"), Atom("B", "b")))),
        ("A; B", SeqNode((Atom("A", "A"), Atom("B", "B")))),
        ("A(x); B(x, y)", SeqNode((Atom("A", "A"), Atom("B", "B")))),
        ("SEQ(A, B)", SeqNode((Atom("A", "A"), Atom("B", "B")))),
        ("SEQ(A+ a[])", SeqNode((KleeneNode(Atom("A", "a")),))),
        ("SEQ(A+ a)", SeqNode((KleeneNode(Atom("A", "a")),))),
        ("A+ a[ ]", SeqNode((KleeneNode(Atom("A", "a")),))),
        ("SEQ(A* a[], B b)", SeqNode((KleeneNode(Atom("A", "a"), True), Atom("B", "b")))),
        ("AND(A a, B b)", AndNode((Atom("A", "a"), Atom("B", "b")))),
        ("OR(A a, B b)", OrNode((Atom("A", "a"), Atom("B", "b")))),
        (
            "SEQ(A a, ~(B b), C c)",
            SeqNode((Atom("A", "a"), Not(Atom("B", "b")), Atom("C", "c"))),
        ),
        (
            "SEQ(A a, AND(B b, SEQ(C+ c[], D d)), OR(E e, F* f[]))",
            SeqNode(
                (
                    Atom("A", "a"),
                    AndNode(
                        (
                            Atom("B", "b"),
                            SeqNode((KleeneNode(Atom("C", "c")), Atom("D", "d"))),
                        )
                    ),
                    OrNode((Atom("E", "e"), KleeneNode(Atom("F", "f"), True))),
                )
            ),
        ),
    ],
)
def test_structure(text: str, structure: Any) -> None:
    pattern = parse(f"PATTERN {text}")
    assert pattern.structure == structure
    assert parse(str(pattern)) == pattern


@pytest.mark.parametrize("no", ["~(B b)", "~B b", "NOT(B b)", "not B b", "!(B b)", "¬(B b)"])
def test_negation_has_several_spellings(no: str) -> None:
    assert str(parse(f"PATTERN SEQ(A a, {no}, C c)")) == "PATTERN SEQ(A a, ~(B b), C c)"


def test_variables_know_what_they_are() -> None:
    pattern = parse("PATTERN SEQ(A a, B+ b[], ~(C c), D d)")
    assert list(pattern.variables.values()) == [
        Variable("a", "A"),
        Variable("b", "B", kleene=True),
        Variable("c", "C", negated=True),
        Variable("d", "D"),
    ]


def test_a_pattern_unfolds_into_branches() -> None:
    pattern = parse("PATTERN SEQ(A a, OR(B b, C* c[]), D d) WHERE a.x < b.x and c.x = 1 WITHIN 9")
    found = [
        ([v.name for v in branch.variables], [str(c) for c in branch.conjuncts], branch.empty)
        for branch in pattern.branches
    ]
    assert found == [
        (["a", "b", "d"], ["a.x < b.x"], ()),
        (["a", "c", "d"], ["c[i].x = 1"], ()),
        (["a", "d"], [], ("c",)),
    ]


def test_and_inside_seq_keeps_its_place() -> None:
    (branch,) = parse("PATTERN SEQ(A a, AND(B b, C c), D d)").branches
    assert branch.order == {
        ("a", "b"),
        ("a", "c"),
        ("a", "d"),
        ("b", "d"),
        ("c", "d"),
    }
    assert not branch.is_sequence


def test_an_equivalence_test_compares_every_event_with_the_first() -> None:
    text = "PATTERN SEQ(A+ a[], ~(B b), C c) WHERE [k, s] WITHIN 9"
    (branch,) = parse(text).branches
    assert [str(c) for c in branch.conjuncts] == [
        "a[i].k = a[1].k",
        "c.k = a[1].k",
        "a[i].s = a[1].s",
        "c.s = a[1].s",
    ]
    assert [str(c) for c in branch.negations[0].conjuncts] == ["b.k = a[1].k", "b.s = a[1].s"]


# ---- conditions ----


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a.x=1", "a.x = 1"),
        ("a.x==1", "a.x = 1"),
        ("a.x<>1", "a.x != 1"),
        ("a.x ≠ 1", "a.x != 1"),
        ("a.x≤b.x", "a.x <= b.x"),
        ("a.x ≥ b.x", "a.x >= b.x"),
        ("a.x = 1 AND b.x = 2", "a.x = 1 and b.x = 2"),
        ("a.x = 1 && b.x = 2", "a.x = 1 and b.x = 2"),
        ("a.x = 1 ∧ b.x = 2", "a.x = 1 and b.x = 2"),
        ("(a.x = 1) ^ (b.x = 2)", "a.x = 1 and b.x = 2"),
        ("a.x = 1 OR b.x = 2", "(a.x = 1 or b.x = 2)"),
        ("a.x = 1 || b.x = 2", "(a.x = 1 or b.x = 2)"),
        ("NOT a.x = 1", "a.x != 1"),
        ("not a.x < 1", "a.x >= 1"),
        ("a.x IN (1, 2.5, 'three')", "a.x IN (1, 2.5, 'three')"),
        ("a.x not in (1)", "a.x NOT IN (1)"),
        ("a.x ∈ Hi-Tech", "a.x IN Hi-Tech"),
        ("a.x between 1 and 2 and b.x = 3", "a.x BETWEEN 1 AND 2 and b.x = 3"),
        ("a.x not between b.x - 1 and b.x + 1", "a.x NOT BETWEEN b.x - 1 AND b.x + 1"),
        ("a.s like 'A%'", "a.s LIKE 'A%'"),
        ("not a.s like 'A_'", "a.s NOT LIKE 'A_'"),
        ('a.s = "it\'s"', "a.s = 'it''s'"),
        ("a.s = 'it''s'", "a.s = 'it''s'"),
        ("a.s = MSFT", "a.s = MSFT"),
        ("a.flag", "a.flag"),
        ("not a.flag", "not a.flag"),
        ("a.flag = TRUE or a.flag = False", "(a.flag = true or a.flag = false)"),
        ("true and a.x = 1", "a.x = 1"),
        ("a.x + 2 * 3 - b.x / 4 > 0", "a.x + 2 * 3 - b.x / 4 > 0"),
        ("(a.x + 2) * 3 > 0", "(a.x + 2) * 3 > 0"),
        ("a.x - (b.x - 1) > 0", "a.x - (b.x - 1) > 0"),
        ("(a.x - b.x) - 1 > 0", "a.x - b.x - 1 > 0"),
        ("-a.x < -1", "-a.x < -1"),
        ("a.x - -1 > 0", "a.x - (-1) > 0"),
        ("a.x > .5", "a.x > 0.5"),
        ("a.x > 1e3", "a.x > 1000.0"),
        ("b.time - a.time < 5 min", "b.time - a.time < 5 minutes"),
        ("b.time - a.time < 1 hrs", "b.time - a.time < 1 hour"),
        ("a.t > timestamp '2024-01-02 10:00'", "a.t > TIMESTAMP '2024-01-02 10:00'"),
        ("Corr(a.history, b.history) > T", "Corr(a.history, b.history) > T"),
        ("[k]", "[k]"),
        ("[k] and a.x = 1 and [s, k]", "[k] and [s] and a.x = 1"),
        ("a.x = 1 and a.x = 1", "a.x = 1"),
    ],
)
def test_conditions(text: str, canonical: str) -> None:
    assert where(text) == canonical
    assert where(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("b[1].x > 0", "b[1].x > 0"),
        ("b[ i ].x > b[ i - 1 ].x", "b[i].x > b[i-1].x"),
        ("b.x > 0", "b[i].x > 0"),
        ("b[b.LEN].x > 0", "b[b.LEN].x > 0"),
        ("b[b.len].x > b.len", "b[b.LEN].x > b.LEN"),
        ("b.LEN > 2", "b.LEN > 2"),
        ("b[i].x > AVG(b[..i-1].x)", "b[i].x > avg(b[..i-1].x)"),
        ("b[i].x > avg(b[.. i-1].x)", "b[i].x > avg(b[..i-1].x)"),
        ("sum(b[].x) > 3", "sum(b[].x) > 3"),
        ("sum(b.x) > 3", "sum(b[].x) > 3"),
        ("count(b[]) > 3", "count(b[]) > 3"),
        ("count(b[..i-1]) > 3", "count(b[..i-1]) > 3"),
        ("min(b[].x) < max(b[].x)", "min(b[].x) < max(b[].x)"),
        ("first(b[].x) < last(b[].x)", "first(b[].x) < last(b[].x)"),
    ],
)
def test_elements_and_aggregates(text: str, canonical: str) -> None:
    assert where(text, "SEQ(A a, B+ b[])") == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a.x < 80% * b.x", "a.x < 80% * b.x"),
        ("a.x < 80%*b.x", "a.x < 80% * b.x"),
        ("a.x > 80%", "a.x > 80%"),
        ("a.x > 12.5% and b.x = 1", "a.x > 12.5% and b.x = 1"),
        ("a.x % 500 = 0", "a.x % 500 = 0"),
        ("a.x %500==0", "a.x % 500 = 0"),
        ("7 % b.x = 1", "7 % b.x = 1"),
        ("7%b.x = 1", "7 % b.x = 1"),
        ("7 % (b.x + 1) = 1", "7 % (b.x + 1) = 1"),
        ("a.x * 80% < 3", "a.x * 80% < 3"),
        ("(80%) % 3 = 1", "80% % 3 = 1"),
    ],
)
def test_percent_is_told_from_modulo(text: str, canonical: str) -> None:
    assert where(text) == canonical


def test_percent_and_modulo_are_different_trees() -> None:
    (share,) = parse("PATTERN SEQ(A a) WHERE a.x > 80%").where
    assert share == Compare(">", Attribute("a", "x"), Percent(80))


def test_comments_are_blanks() -> None:
    text = """-- first
    PATTERN SEQ(A a, /* a comment
    of two lines */ B b) -- and this
    WHERE a.x /* here */ < b.x"""
    assert str(parse(text)) == "PATTERN SEQ(A a, B b)\nWHERE a.x < b.x"


def test_names_that_are_no_words_stand_in_back_quotes() -> None:
    text = "PATTERN SEQ(`where` `a b`) WHERE `a b`.`x``y` = 1 and `a b`.from = 2"
    pattern = parse(text)
    assert pattern.structure == SeqNode((Atom("where", "a b"),))
    assert {c.left.name for c in pattern.where} == {"x`y", "from"}
    assert str(pattern) == text.replace(" WHERE", "\nWHERE")


def test_an_attribute_may_be_called_len() -> None:
    (test,) = parse("PATTERN SEQ(A a) WHERE a.len > 1").where
    assert test.left == Attribute("a", "len")
    (test,) = parse("PATTERN SEQ(A+ a[]) WHERE a.`LEN` > 1").where
    assert test.left == Attribute("a", "LEN", "i")


# ---- conjunctive normal form ----


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("a.x = 1 and (a.y = 2 and a.z = 3)", ["a.x = 1", "a.y = 2", "a.z = 3"]),
        ("not (a.x = 1 or b.y < 2)", ["a.x != 1", "b.y >= 2"]),
        ("not (a.x = 1 and b.y < 2)", ["a.x != 1 or b.y >= 2"]),
        ("a.x = 1 or a.y = 2 and a.z = 3", ["a.x = 1 or a.y = 2", "a.x = 1 or a.z = 3"]),
        ("not not a.x = 1", ["a.x = 1"]),
        ("not a.x in (1, 2)", ["a.x NOT IN (1, 2)"]),
        ("not (a.f or not b.f)", ["not a.f", "b.f"]),
        ("a.x = 1 or (b.x = 2 or a.x = 1)", ["a.x = 1 or b.x = 2"]),
    ],
)
def test_conditions_are_kept_as_conjuncts(text: str, clauses: list[str]) -> None:
    pattern = parse(f"PATTERN SEQ(A a, B b) WHERE {text}")
    assert [str(clause) for clause in pattern.where] == clauses


def test_each_conjunct_knows_its_variables() -> None:
    pattern = parse("PATTERN SEQ(A a, B+ b[], C c) WHERE a.x < 1 and a.x < b.LEN and c.x = a.y")
    assert [sorted(clause.variables) for clause in pattern.where] == [["a"], ["a", "b"], ["a", "c"]]


def test_a_disjunction_that_would_explode_stays_whole() -> None:
    parts = " or ".join(f"(a.x = {n} and a.y = {n})" for n in range(10))
    pattern = parse(f"PATTERN SEQ(A a) WHERE {parts}")
    assert len(pattern.where) == 1
    assert parse(str(pattern)) == pattern


# ---- the other clauses ----


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10 minutes", Window(10, "minutes")),
        ("10min", Window(10, "minutes")),
        ("1 HOUR", Window(1, "hours")),
        ("2.5 s", Window(2.5, "seconds")),
        ("3 ms", Window(3, "milliseconds")),
        ("2 weeks", Window(2, "weeks")),
        ("2000 events", Window(2000, "events")),
        ("1 event", Window(1, "events")),
        ("500", Window(500)),
        ("unbounded", Window(None)),
        ("h", Window(Symbol("h"))),
        ("h minutes", Window(Symbol("h"), "minutes")),
    ],
)
def test_windows(text: str, window: Window) -> None:
    pattern = parse(f"PATTERN SEQ(A a) WITHIN {text}")
    assert pattern.within == window
    assert parse(str(pattern)) == pattern


@pytest.mark.parametrize(
    "text",
    [
        "WHERE skip_till_next_match(a, b) { a.x < b.x }",
        "WHERE skip_till_next_match { a.x < b.x }",
        "WHERE skip-till-next-match AND a.x < b.x",
        "where SKIP_TILL_NEXT_MATCH (a, b[]) {a.x<b.x}",
    ],
)
def test_the_strategy_is_written_in_several_ways(text: str) -> None:
    pattern = parse(f"PATTERN SEQ(A a, B+ b[]) {text}")
    assert pattern.strategy == NEXT
    assert [str(c) for c in pattern.where] == ["a.x < b[i].x"]


def test_the_two_forms_of_the_semantics_page_mean_the_same_in_their_shared_part() -> None:
    sase = "PATTERN SEQ(Stock+ a[], Stock b) WHERE skip_till_next_match(a[], b) { [symbol] }"
    flat = "PATTERN SEQ(Stock+ a[], Stock b) WHERE skip-till-next-match AND [symbol]"
    assert parse(sase) == parse(flat)


def test_the_default_strategy_is_any_match() -> None:
    plain = parse("PATTERN SEQ(A a)")
    assert plain.strategy == ANY
    assert plain == parse("PATTERN SEQ(A a) WHERE skip_till_any_match")


def test_return_and_output() -> None:
    pattern = parse(
        "PATTERN SEQ(A a, B+ b[]) WITHIN 5 "
        "RETURN Alert(who = a.name, total = sum(b[].x) + 1) OUTPUT non-overlap"
    )
    assert str(pattern) == (
        "PATTERN SEQ(A a, B+ b[])\nWITHIN 5\n"
        "RETURN Alert(who = a.name, total = sum(b[].x) + 1)\nOUTPUT non_overlap"
    )
    assert parse(str(pattern)) == pattern


def test_parameters_are_given_by_name() -> None:
    text = "PATTERN SEQ(A a) WHERE a.x > T and a.s IN Hi-Tech WITHIN h"
    pattern = parse(text, T=0.8, Hi_Tech=["X", "Y"], h=datetime.timedelta(minutes=20))
    assert str(pattern) == (
        "PATTERN SEQ(A a)\nWHERE a.x > 0.8 and a.s IN ('X', 'Y')\nWITHIN 20 minutes"
    )
    assert parse(text).given(T=1, h="3 events").within == Window(3, "events")
    with pytest.raises(PatternError, match="no parameter 'U'"):
        parse(text, U=1)
    with pytest.raises(PatternError, match="must be a list"):
        parse(text, Hi_Tech="X")


def test_a_set_without_values_is_never_met() -> None:
    pattern = parse("PATTERN SEQ(A a) WHERE a.s IN Sector", Sector=[])
    assert str(pattern).endswith("a.s IN ()")
    assert parse(str(pattern)) == pattern


def test_warnings_name_what_was_probably_not_meant() -> None:
    pattern = parse("PATTERN SEQ(A a, B b) WHERE a.s = MSFT and b.s IN Finance")
    assert pattern.warnings() == [
        "MSFT is read as the string 'MSFT': put it in quotes, or give it a value "
        "with .given(MSFT=...)",
        "the set Finance has no values yet: .given(Finance=[...]) gives them",
        "no WITHIN: events of a are kept for ever; "
        "add WITHIN, or WITHIN unbounded if that is meant",
    ]
    assert parse("PATTERN SEQ(A a, B b) WITHIN unbounded").warnings() == []
    assert parse("PATTERN SEQ(A a)").warnings() == []


def test_a_pattern_is_a_value() -> None:
    pattern = parse("PATTERN SEQ(A a, B b) WHERE a.x < b.x")
    same_one = parse("pattern seq(A a,B b) where a.x<b.x")
    assert pattern == same_one
    assert len({pattern, same_one}) == 1
    assert pickle.loads(pickle.dumps(pattern)) == pattern
    with pytest.raises(AttributeError):
        pattern.strategy = "other"  # type: ignore[misc]


# ---- canonical text ----


@settings(max_examples=300, deadline=None, suppress_health_check=SLOW)
@given(patterns(wide=True, outputs=("all", "non_overlap")))
def test_the_text_of_any_pattern_is_that_pattern(pattern: Pattern) -> None:
    assert parse(str(pattern)) == pattern
    assert str(parse(str(pattern))) == str(pattern)


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(patterns())
def test_the_text_of_a_pattern_for_engines_is_that_pattern(pattern: Pattern) -> None:
    assert parse(str(pattern)) == pattern


# ---- errors ----


def test_an_error_shows_line_column_caret_and_what_was_expected() -> None:
    error = refused("PATTERN SEQ(A a,\n            B b)\nWHRE a.x < b.x")
    assert str(error) == (
        "line 3, column 1: 'WHRE' is not expected here (did you mean 'where'?)\n"
        "  WHRE a.x < b.x\n"
        "  ^^^^\n"
        "expected ;, a dot, the end, OUTPUT, RETURN, WHERE or WITHIN"
    )
    assert (error.line, error.column) == (3, 1)
    assert "WHERE" in error.expected


@pytest.mark.parametrize(
    ("text", "message", "column", "width"),
    [
        # names
        ("PATTERN SEQ(A a) WHERE b.x = 1", "'b' is not a variable", 24, 3),
        (
            "PATTERN SEQ(A stock) WHERE stok.x = 1",
            "'stok' is not a variable of the pattern (did you mean 'stock'?)",
            28,
            6,
        ),
        ("PATTERN SEQ(A a) WHERE foo(a.x) > 1", "unknown function 'foo'", 24, 3),
        ("PATTERN SEQ(A a) WHERE cor(a.x) > 1", "did you mean 'Corr'?", 24, 3),
        ("PATTERN SEQ(A a) WHERE a = 1", "a is an event: name one of its attributes", 24, 1),
        ("PATTERN SEQ(A a, B a)", "the variable 'a' is declared twice", 20, 1),
        ("PATTERN SEQ(A a, OR(B b, C+ b[]))", "'b' is declared in two ways", 29, 1),
        (
            "PATTERN SEQ(A a) WHERE skip_till_next_match(a, b)",
            "b is not a variable of the pattern",
            48,
            1,
        ),
        # Kleene
        ("PATTERN SEQ(A a) WHERE a[i].x = 1", "a is one event, not a list", 24, 6),
        ("PATTERN SEQ(A a) WHERE a[1].x = 1", "a is one event, not a list", 24, 6),
        ("PATTERN SEQ(A a) WHERE sum(a[].x) = 1", "a is one event, not a list", 24, 3),
        ("PATTERN SEQ(A+ a[]) WHERE a[2].x = 1", "a[2] is not an element", 28, 3),
        ("PATTERN SEQ(A+ a[], B+ b[]) WHERE a[b.LEN].x = 1", "not an element", 36, 7),
        ("PATTERN SEQ(A+ a[]) WHERE a[i] = 1", "a[i] is an event", 28, 3),
        ("PATTERN SEQ(A+ a[]) WHERE a[..i-1].x = 1", "needs an aggregate", 27, 10),
        ("PATTERN SEQ(A+ a[]) WHERE a[] = 1", "needs an aggregate", 27, 1),
        ("PATTERN SEQ(A+ a[]) WHERE avg(a[i].x) = 1", "write avg(a[..i-1].x)", 27, 3),
        ("PATTERN SEQ(A+ a[]) WHERE sum(a[]) = 1", "write sum(a[].price)", 27, 3),
        ("PATTERN SEQ(A a[])", "a[] is a list: write A+ a[] or A* a[]", 16, 2),
        ("PATTERN SEQ(A+ a[1])", "a declaration is written a[]", 17, 3),
        # conditions and values
        ("PATTERN SEQ(A a) WHERE a.x + 1", "a.x + 1 is a value, not a condition", 28, 1),
        ("PATTERN SEQ(A a) WHERE (a.x = 1) > 2", "(a.x = 1) is a condition, not a value", 29, 1),
        (
            "PATTERN SEQ(A a) WHERE skip_til_next_match",
            "(did you mean 'skip_till_next_match'?)",
            24,
            19,
        ),
        ("PATTERN SEQ(A a) WHERE a.x = 1 or [k]", "an equivalence test stands alone", 36, 1),
        ("PATTERN SEQ(A a) WHERE not [k]", "an equivalence test stands alone", 29, 1),
        ("PATTERN SEQ(A a) WHERE a.x = 1e999", "this number is too large", 30, 5),
        # negation
        ("PATTERN SEQ(~(A a), B b)", "~(A a) stands first, so it needs a WITHIN", 17, 1),
        ("PATTERN SEQ(A a, ~(B b))", "~(B b) stands last, so it needs a WITHIN", 22, 1),
        ("PATTERN SEQ(A a, ~(B b)) WITHIN unbounded", "stands last, so it needs a WITHIN", 22, 1),
        ("PATTERN SEQ(~(A a), B* b[]) WITHIN 3", "needs an event beside it", 17, 1),
        ("PATTERN AND(A a, ~(B b)) WITHIN 3", "NOT needs a place in an order", 22, 1),
        ("PATTERN SEQ(A a, ~(B+ b[]), C c)", "NOT takes one event", 23, 1),
        (
            "PATTERN SEQ(A a, ~(B b), ~(C c), D d) WHERE b.x = c.x",
            "speaks of two absent events, b and c",
            49,
            1,
        ),
        # strategies
        ("PATTERN SEQ(A a) WHERE partition_contiguity", "needs a partition", 24, 20),
        (
            "PATTERN AND(A a, B b) WHERE skip_till_next_match",
            "AND has no order, so skip_till_next_match cannot say",
            29,
            20,
        ),
        ("PATTERN OR(A a, AND(B b, C c)) WHERE strict-contiguity", "AND has no order", 38, 17),
        # the rest
        ("PATTERN SEQ(A a) WITHIN 0", "a window must be longer than 0", 25, 1),
        ("PATTERN SEQ(A a) WITHIN 2.5 events", "a whole number of events", 25, 3),
        ("PATTERN SEQ(A+ a[]) RETURN X(y = a.x)", "has a value for each element", 34, 3),
        ("PATTERN SEQ(A a, ~(B b), C c) RETURN X(y = b.x)", "b does not occur in a match", 44, 3),
        ("PATTERN SEQ(A a) RETURN X(y = 1, y = 2)", "RETURN gives 'y' twice", 38, 1),
        # spelling
        ("PATTERN SEQ(A a) WITHN 3", "(did you mean 'within'?)", 18, 5),
        ("PATTERN SEQ(A a) WHERE a.x = 'it", "the quote ' is not closed", 30, 1),
        ("PATTERN SEQ(A a) WHERE a.x = 1 /* it", "the comment /* is not closed", 32, 2),
        ("PATTERN SEQ(A a) /* it", "the comment /* is not closed", 18, 2),
        ("PATTERN SEQ(A a) WHERE a.x = @", "'@' cannot be read here", 30, 1),
        ("PATTERN SEQ(A a", "the text ends too early", 16, 1),
        ("PATTERN SEQ()", "')' is not expected here", 13, 1),
    ],
)
def test_what_is_refused_is_refused_with_its_place(
    text: str, message: str, column: int, width: int
) -> None:
    error = refused(text)
    assert message in str(error)
    assert error.place == (1, column, width)
    said, shown, carets = str(error).split("\n")[:3]
    assert said.startswith(f"line 1, column {column}: ")
    assert shown == f"  {text}"
    assert carets == "  " + " " * (column - 1) + "^" * width


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty"),
        ("  \n ", "the text is empty"),
        ("PATTERN SEQ(~(A a)) WITHIN 3", "at least one event that must occur"),
        ("PATTERN SEQ(" + ", ".join(f"A* a{n}[]" for n in range(20)) + ")", "more than 256"),
        ("PATTERN " + "SEQ(" * 5000 + "A a" + ")" * 5000, "nested too deeply"),
        ("PATTERN SEQ(A a) WHERE a.x = " + "1 + " * 200 + "1", "nested more than 100 deep"),
        ("PATTERN SEQ(" + ", ".join(f"A a{n}" for n in range(101)) + ")", "at most 100 variables"),
        ("x" * 100_001, "longer than 100000 characters"),
    ],
)
def test_what_has_no_place_is_refused_too(text: str, message: str) -> None:
    assert message in str(refused(text))


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(PatternError, match="a pattern is text, not int"):
        parse(3)  # type: ignore[arg-type]


def test_the_caret_stays_in_sight_in_a_long_line() -> None:
    error = refused("PATTERN SEQ(A a) WHERE " + "a.x = 1 and " * 100 + "b.x = 1")
    _, shown, carets = str(error).split("\n")
    assert len(shown) <= 130
    assert shown[carets.index("^") :].startswith("b.x = 1")


# ---- meeting a stream ----

SCHEMA = Schema(
    attributes={"price": "number", "name": "string", "flag": "bool", "at": "time", "h": "list"},
    types=("A", "B"),
    unit="s",
    zone="UTC",
    naive=True,
)


@pytest.mark.parametrize(
    ("condition", "message", "column"),
    [
        ("a.prise > 1", "no event has an attribute 'prise' (did you mean 'price'?)", 24),
        ("a.name > 1", "compares a string with a number", 31),
        ("a.price = 'x'", "compares a number with a string", 32),
        ("a.name + 1 > 2", "a.name is a string, not a number", 31),
        ("-a.name > 2", "a.name is a string, not a number", 25),
        ("a.price LIKE 'x%'", "a.price is a number, not text", 32),
        ("a.price IN (1, 'x')", "compares a number with a string", 32),
        ("a.price BETWEEN 1 AND 'x'", "compares a number with a string", 32),
        ("a.price > T", "T has no value yet", 34),
        ("a.name IN Finance", "the set Finance has no values yet", 34),
        ("[prise]", "no event has an attribute 'prise'", None),
        ("a.at > 'soon'", "'soon' is not a date", 31),
    ],
)
def test_a_mismatch_is_refused_before_any_event_is_read(
    condition: str, message: str, column: int | None
) -> None:
    pattern = parse(f"PATTERN SEQ(A a) WHERE {condition}")
    with pytest.raises(PatternError) as caught:
        resolve(pattern, SCHEMA)
    assert message in str(caught.value)
    assert caught.value.column == column


def test_sums_of_text_are_refused() -> None:
    pattern = parse("PATTERN SEQ(A+ a[]) WHERE sum(a[].name) > 1")
    with pytest.raises(PatternError, match="name is a string"):
        resolve(pattern, SCHEMA)


def test_times_become_numbers_of_the_stream() -> None:
    pattern = parse("PATTERN SEQ(A a) WHERE a.at > '1970-01-01 00:01' and a.price < 2 minutes")
    first_test, second = resolve(pattern, SCHEMA).where
    assert first_test.right == Literal(60)
    assert second.right == Literal(120)
    assert str(second) == "a.price < 2 minutes"


@pytest.mark.parametrize(
    ("text", "size"),
    [("10 minutes", 600), ("1500 ms", 1.5), ("7 events", 7), ("unbounded", None)],
)
def test_the_window_in_the_unit_of_the_stream(text: str, size: float | None) -> None:
    assert window_size(parse(f"PATTERN SEQ(A a) WITHIN {text}"), SCHEMA) == size


def test_a_bare_window_needs_a_unit_where_times_are_dates() -> None:
    pattern = parse("PATTERN SEQ(A a) WITHIN 500")
    assert window_size(pattern, Schema()) == 500
    with pytest.raises(PatternError, match="write WITHIN 500 seconds, or WITHIN 500 events"):
        window_size(pattern, SCHEMA)
    with pytest.raises(PatternError, match=r"\.given\(h=\.\.\.\)"):
        window_size(parse("PATTERN SEQ(A a) WITHIN h"), SCHEMA)


# ---- the same in Python ----

A, B, C, D = types("A B C D")
a, b, c, d = A.a, B.b, C.c, D.d


@pytest.mark.parametrize(
    ("draft", "text"),
    [
        (Seq(a, b), "PATTERN SEQ(A a, B b)"),
        (Seq(A, B), "PATTERN SEQ(A, B)"),
        (Seq(a), "PATTERN A a"),
        (Kleene(b), "PATTERN B+ b[]"),
        (Seq(a, Kleene(b), ~c, d), "PATTERN SEQ(A a, B+ b[], ~(C c), D d)"),
        (Seq(a, +b), "PATTERN SEQ(A a, B+ b[])"),
        (Seq(a, Kleene(b, optional=True)), "PATTERN SEQ(A a, B* b[])"),
        (Seq(a, And(b, Seq(c, d))), "PATTERN SEQ(A a, AND(B b, SEQ(C c, D d)))"),
        (Or(a, +b), "PATTERN OR(A a, B+ b[])"),
        (
            Seq(A["a b"]).where(A["a b"]["within"] > 1),
            "PATTERN SEQ(A `a b`) WHERE `a b`.within > 1",
        ),
        (
            Seq(a, +b).where(a.x < b[i].x, same("symbol")).within("10 minutes"),
            "PATTERN SEQ(A a, B+ b[]) WHERE [symbol] and a.x < b[i].x WITHIN 10 minutes",
        ),
        (
            Seq(a, +b).where(b[1].x > b[-1].x).where(b[i].x >= b[i - 1].x, b[b.LEN].x != b.LEN),
            "PATTERN SEQ(A a, B+ b[]) "
            "WHERE b[1].x > b[b.LEN].x and b[i].x >= b[i-1].x and b[b.LEN].x != b.LEN",
        ),
        (
            Seq(+b).where(b.x > avg(b[:i].x), sum_of(b[:].x) == count(b[:]), count(b[:i]) < 3),
            "PATTERN SEQ(B+ b[]) "
            "WHERE b.x > avg(b[..i-1].x) and sum(b[].x) = count(b[]) and count(b[..i-1]) < 3",
        ),
        (
            Seq(+b).where(min_of(b.x) < max_of(b[:i].x), first(b[:].x) == last(b[:]["x"])),
            "PATTERN SEQ(B+ b[]) WHERE min(b[].x) < max(b[..i-1].x) and first(b[].x) = last(b[].x)",
        ),
        (
            Seq(a, b).where((a.x > 1) & ((b.y == "s") | ~(a.z <= 2.5))),
            "PATTERN SEQ(A a, B b) WHERE a.x > 1 and (b.y = 's' or not a.z <= 2.5)",
        ),
        (
            Seq(a, b).where(a.x + 1 - b.x * 2 / 3 % 4 > -a.x, 1 + a.x == 2 - b.x),
            "PATTERN SEQ(A a, B b) WHERE a.x + 1 - b.x * 2 / 3 % 4 > -a.x and 1 + a.x = 2 - b.x",
        ),
        (
            Seq(a).where(2 / a.x > 3 % a.x, 3 * a.x < 1),
            "PATTERN SEQ(A a) WHERE 2 / a.x > 3 % a.x and 3 * a.x < 1",
        ),
        (
            Seq(a, b).where(a.x.is_in([1, "two", b.x]), ~a.x.is_in({2, 1}), a.x.is_in([])),
            "PATTERN SEQ(A a, B b) "
            "WHERE a.x IN (1, 'two', b.x) and a.x NOT IN (1, 2) and a.x IN ()",
        ),
        (
            Seq(a, b).where(a.x.between(1, b.x), a.s.like("A%"), ~a.s.like("_")),
            "PATTERN SEQ(A a, B b) "
            "WHERE a.x BETWEEN 1 AND b.x and a.s LIKE 'A%' and a.s NOT LIKE '_'",
        ),
        (
            Seq(a, b).where(call("Corr", a.h, b.h) > 0.8, b.v < percent(80) * a.v, a.flag),
            "PATTERN SEQ(A a, B b) WHERE Corr(a.h, b.h) > 0.8 and b.v < 80% * a.v and a.flag",
        ),
        (
            Seq(a).where(a.x > np.int64(3), np.float64(2.5) > a.y, a.f == True),  # noqa: E712
            "PATTERN SEQ(A a) WHERE a.x > 3 and a.y < 2.5 and a.f = true",
        ),
        (
            Seq(a, b).where(b.time - a.time < datetime.timedelta(minutes=5)),
            "PATTERN SEQ(A a, B b) WHERE b.time - a.time < 5 minutes",
        ),
        (
            Seq(a).where(a.t >= datetime.datetime(2024, 1, 2, 10)),
            "PATTERN SEQ(A a) WHERE a.t >= TIMESTAMP '2024-01-02 10:00:00'",
        ),
        (
            Seq(a, b).where(same("k", "s")).strategy("partition-contiguity").within(500),
            "PATTERN SEQ(A a, B b) WHERE partition_contiguity { [k, s] } WITHIN 500",
        ),
        (Seq(a).within("7 events"), "PATTERN SEQ(A a) WITHIN 7 events"),
        (Seq(a).within(datetime.timedelta(hours=2)), "PATTERN SEQ(A a) WITHIN 2 hours"),
        (Seq(a).within(None), "PATTERN SEQ(A a) WITHIN unbounded"),
        (
            Seq(a, +b).returns("Alert", {"a b": a.x}, total=sum_of(b[:].x), type=1).output("all"),
            "PATTERN SEQ(A a, B+ b[]) RETURN Alert(`a b` = a.x, total = sum(b[].x), type = 1)",
        ),
        (Seq(a).output("non-overlap"), "PATTERN SEQ(A a) OUTPUT non_overlap"),
        (Seq(a, ~b).within(3), "PATTERN SEQ(A a, ~(B b)) WITHIN 3"),
    ],
)
def test_a_pattern_built_in_python_is_the_parsed_one(draft: Any, text: str) -> None:
    assert draft.pattern == parse(text)
    assert draft == parse(text)
    assert parse(text) == draft
    assert str(draft) == str(parse(text))
    assert hash(draft) == hash(parse(text))


def test_a_draft_does_not_change() -> None:
    start = Seq(a, b)
    start.where(a.x > 1).within(3)
    assert start == parse("PATTERN SEQ(A a, B b)")


def test_one_name_gives_one_type() -> None:
    assert Seq(types("Stock").s) == parse("PATTERN SEQ(Stock s)")
    two = types(["A type", "B"])
    assert Seq(*(kind.x if n else kind.y for n, kind in enumerate(two))) == parse(
        "PATTERN SEQ(`A type` y, B x)"
    )


def test_a_text_a_draft_and_a_pattern_are_all_taken() -> None:
    pattern = parse("PATTERN SEQ(A a)")
    assert as_pattern("PATTERN SEQ(A a)") == as_pattern(Seq(a)) == as_pattern(pattern) == pattern


def test_a_registered_function_is_called_itself() -> None:
    @function
    def doubled(x: float) -> float:
        return 2 * x

    try:
        assert Seq(a).where(call(doubled, a.x) > 1) == parse(
            "PATTERN SEQ(A a) WHERE doubled(a.x) > 1"
        )
    finally:
        del FUNCTIONS["doubled"]
    with pytest.raises(PatternError, match="doubled is not registered"):
        call(doubled, a.x)


def test_parameters_of_a_draft() -> None:
    assert Seq(a).within("h").given(h=3) == parse("PATTERN SEQ(A a) WITHIN 3")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: bool(a.x > 1), "join conditions with & and |"),
        (lambda: (a.x > 1) and (a.y > 2), "join conditions with & and |"),
        (lambda: not a.x, "write ~ instead of not"),
        (lambda: 1 < a.x < 3, "a.x.between(1, 5) instead of 1 < a.x < 5"),
        (lambda: a.x in [1, 2], "a.x.is_in([1, 2]) instead of in"),
        (lambda: a.x > 1 & a.y, "write (a.x > 1) & (b.y > 2) with parentheses"),
        (lambda: Seq(a).where(a == b), "compare attributes, as in a.x == b.x"),
        (lambda: Seq(a).where(a != b), "compare attributes, as in a.x == b.x"),
        (lambda: Seq(a).where("a.x > 1"), "is not a condition"),
        (lambda: a.x > b, "B b is an event: name one of its attributes"),
        (lambda: a.x > b[i], "b[i] is an event: name one of its attributes"),
        (lambda: a.x > b[:i], "needs an aggregate, as in avg(b[:i].price)"),
        (lambda: Seq(a, +b).where(b[:i].x > 1).pattern, "a range of elements needs an aggregate"),
        (lambda: avg(b[i].x), "write avg(b[:].x) or avg(b[:i].x)"),
        (lambda: avg(b[:]), "write avg(b[:].x) or avg(b[:i].x)"),
        (lambda: count(3), "write count(b[:]) or count(b[:i])"),
        (lambda: b[0], "b[0] is not an element"),
        (lambda: b[2].x, "b[2] is not an element"),
        (lambda: b[2:i], "write b[:i] for the elements before the current one"),
        (lambda: b[: i - 1], "write b[:i] for the elements before the current one"),
        (lambda: i - 2, "a predicate looks back one element, i - 1"),
        (lambda: ~Kleene(b), "NOT takes one event"),
        (lambda: ~Seq(a, b), "NOT takes one event"),
        (lambda: Kleene(Seq(a)), "Kleene takes one variable"),
        (lambda: Kleene(~a), "Kleene takes one variable"),
        (lambda: Seq(a, Seq(b).within(3)), "belong to the whole pattern"),
        (lambda: Seq(), "Seq needs parts"),
        (lambda: Seq(a, "B b"), "is no part of a pattern"),
        (lambda: Seq(a).where(B.a.x > 1).pattern, "B.a is not in the pattern, which has A.a"),
        (lambda: Seq(a).where(b.x > 1).pattern, "'b' is not a variable of the pattern"),
        (lambda: Seq(a, ~b).pattern, "stands last, so it needs a WITHIN"),
        (lambda: Seq(a).where(a.x + 1).pattern, "a.x + 1 is a value, not a condition"),
        (lambda: Seq(a).where((a.x > 1) + 2 > 3).pattern, "is a condition, not a value"),
        (lambda: Seq(a).where(same("k") | (a.x > 1)).pattern, "an equivalence test stands alone"),
        (lambda: Seq(a).strategy("some").pattern, "unknown strategy 'some'"),
        (lambda: Seq(a).within("soon enough"), "'enough' is not expected here"),
        (lambda: Seq(a).within([3]), "a window is '10 minutes'"),
        (lambda: Seq(a).within(0), "a window must be longer than 0"),
        (lambda: a.x.is_in("abc"), "is_in takes a list of values"),
        (lambda: a.x.like(3), "like takes text"),
        (lambda: a.x > float("nan"), "nan cannot be written in a pattern"),
        (lambda: a.x > np.array([1, 2]), "cannot be written in a pattern"),
        (lambda: percent("80"), "percent takes a number"),
        (lambda: same(), "same needs the name of an attribute"),
        (lambda: types(""), "types needs names"),
        (lambda: a[""], "the name of an attribute is text"),
    ],
)
def test_mistakes_in_python_are_explained(mistake: Any, message: str) -> None:
    with pytest.raises(PatternError, match=re.escape(message)):
        mistake()


def test_notebooks_may_probe_types_and_variables() -> None:
    for thing in (A, a, b[i], b[:i]):
        assert not hasattr(thing, "_repr_html_")
        assert not hasattr(thing, "__array__")
        with pytest.raises(TypeError):
            iter(thing)
    assert (repr(A), repr(a), repr(b[i]), repr(a.x > 1)) == ("A", "A a", "b[i]", "a.x > 1")


# ---- highlighting ----


class Page(HTMLParser):
    """Collects the text of a page and the classes around each word; refuses other elements."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.open: list[str] = []
        self.words: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        assert tag in ("pre", "span")
        assert {name for name, _ in attributes} <= {"class", "style", "dir"}
        self.open.append(dict(attributes)["class"].removeprefix("cepviz-"))

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        self.words.append((self.open[-1], data))


def page_of(text: str, lit: Any = ()) -> Page:
    page = Page()
    page.feed(highlighted(text, lit))
    page.close()
    assert page.open == []
    return page


def test_words_of_a_pattern_are_told_apart() -> None:
    text = (
        "PATTERN SEQ(Stock+ a[], ~(Sale b)) -- mine\n"
        "WHERE skip_till_next_match { a[1].where > 1.5 and b.s = 'and' } WITHIN 10 minutes"
    )
    marked = [(kind, word) for kind, word in page_of(text).words if kind != "pattern"]
    assert marked == [
        ("keyword", "PATTERN"),
        ("keyword", "SEQ"),
        ("type", "Stock"),
        ("variable", "a"),
        ("type", "Sale"),
        ("variable", "b"),
        ("comment", "-- mine"),
        ("keyword", "WHERE"),
        ("keyword", "skip_till_next_match"),
        ("variable", "a"),
        ("number", "1"),
        ("number", "1.5"),
        ("keyword", "and"),
        ("variable", "b"),
        ("string", "'and'"),
        ("keyword", "WITHIN"),
        ("number", "10"),
        ("keyword", "minutes"),
    ]


def test_words_of_a_context_query_are_told_apart() -> None:
    text = "CONTEXT CPC SELECT <Name> FROM <A> SEQUENCE RESTRICT {$pre.x < y} <B>"
    marked = [(kind, word) for kind, word in page_of(text).words if kind != "pattern"]
    assert marked == [
        *[("keyword", word) for word in ("CONTEXT", "CPC", "SELECT", "FROM")],
        ("type", "A"),
        ("keyword", "SEQUENCE"),
        ("keyword", "RESTRICT"),
        ("variable", "$pre"),
        ("type", "B"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "PATTERN SEQ(A a) WHERE a.x = '<img src=x onerror=\"alert(1)\">' -- </pre><b>",
        "\"'`&amp;&lt;",
        "\n\n\t \r\n",
        "שלום ‮ abc",
        "🙂 PATTERN 🙂",
        "PATTERN SEQ(A a) " * 600,
        "'" * 10_000,
        "/*" * 5_000,
        "",
    ],
)
def test_hostile_text_comes_out_as_text(text: str) -> None:
    for lit in ([], [(0, 3), (2, 8), (50, 10**9), (-5, -1)]):
        shown = page_of(text, lit).text
        assert shown.replace("\ufffd", "\r") == text
    assert "<script" not in highlighted(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.lists(st.tuples(st.integers(-2, 70), st.integers(-2, 70))))
def test_any_text_comes_out_whole(text: str, lit: list[tuple[int, int]]) -> None:
    shown = page_of(text, lit).text
    assert len(shown) == len(text)
    assert all(one == other or one == "\ufffd" for one, other in zip(shown, text, strict=True))


def test_lit_spans_are_outlined() -> None:
    text = "PATTERN SEQ(A a) WHERE a.x > 1"
    page = highlighted(text, lit=[(23, 30)])
    lit = re.search(r'<span class="cepviz-lit" style="outline:[^"]*">(.*)</span></pre>', page)
    assert lit is not None
    assert re.sub("<[^>]*>", "", lit[1]) == "a.x &gt; 1"
    assert page.count("cepviz-lit") == 1


def test_colours_can_be_read_on_white_and_on_black() -> None:
    def brightness(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one: str, other: str) -> float:
        low, high = sorted((brightness(one), brightness(other)))
        return (high + 0.05) / (low + 0.05)

    colours = re.findall(r"#\w{6}", " ".join(STYLES.values()))
    assert len(colours) == len(set(colours)) == 4
    for colour in colours:
        assert contrast(colour, "#ffffff") >= 3, colour
        assert contrast(colour, "#111111") >= 3, colour
    assert "bold" in STYLES["keyword"]


def test_a_pattern_shows_itself_in_a_notebook() -> None:
    bundle = parse("PATTERN SEQ(A a) WHERE a.s = '<b>'")._repr_mimebundle_()
    assert bundle["text/plain"] == "PATTERN SEQ(A a)\nWHERE a.s = '<b>'"
    assert "&lt;b&gt;" in bundle["text/html"]
    assert "<b>" not in bundle["text/html"]
    assert Seq(a)._repr_mimebundle_() == parse("PATTERN SEQ(A a)")._repr_mimebundle_()


# ---- the cell magic ----


@pytest.fixture
def shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config(HistoryManager={"hist_file": ":memory:"}))
    shell.run_line_magic("load_ext", "cepviz.magics")
    return shell


def run(shell: Any, cell: str) -> tuple[bool, str, list[dict[str, str]]]:
    from IPython.utils.capture import capture_output

    publisher = shell.display_pub
    shown: list[dict[str, str]] = []
    publisher.publish = lambda data, **_: shown.append(data)
    with capture_output(display=False) as captured:
        result = shell.run_cell(cell)
    return result.success, captured.stdout, shown


def test_the_magic_shows_the_pattern_and_gives_it_a_name(shell: Any) -> None:
    fine, printed, (shown,) = run(
        shell, '%%sase rising T=0.8 h="20 minutes"\nPATTERN SEQ(A a) WHERE a.x > T WITHIN h\n'
    )
    assert (fine, printed) == (True, "")
    expected = parse("PATTERN SEQ(A a) WHERE a.x > 0.8 WITHIN 20 minutes")
    assert shell.user_ns["rising"] == expected
    assert shown["text/plain"] == str(expected)
    assert shown["text/html"] == highlighted(str(expected))


def test_the_magic_has_a_default_name_and_shows_warnings(shell: Any) -> None:
    _, _, (shown,) = run(shell, "%%sase\nPATTERN SEQ(A a, B b) WHERE a.s = '<b>' and b.s = MSFT")
    assert shell.user_ns["pattern"].where[1].right == Symbol("MSFT")
    assert "warning: MSFT is read as the string 'MSFT'" in shown["text/plain"]
    assert "warning: no WITHIN" in shown["text/plain"]
    assert "<b>warning:</b> MSFT is read as the string &#x27;MSFT&#x27;" in shown["text/html"]


def test_the_magic_takes_lists_and_variables_of_the_notebook(shell: Any) -> None:
    shell.user_ns["chosen"] = ["X", "Y Z"]
    for given_as in ("S=chosen", "S=['X', 'Y Z']", "S = ('X', 'Y Z')"):
        fine, _, _ = run(shell, f"%%sase q {given_as}\nPATTERN SEQ(A a) WHERE a.s IN S")
        assert fine
        assert str(shell.user_ns.pop("q")).endswith("a.s IN ('X', 'Y Z')")


def test_the_magic_shows_a_caret_and_no_traceback(shell: Any) -> None:
    run(shell, "%%sase q\nPATTERN SEQ(A a)")
    fine, printed, shown = run(shell, "%%sase q\nPATTERN SEQ(A a,\n B b) WHRE a.x > 1")
    assert (fine, shown) == (False, [])
    assert printed.split("\n")[:3] == [
        "PatternError: line 2, column 7: 'WHRE' is not expected here (did you mean 'where'?)",
        "   B b) WHRE a.x > 1",
        "        ^^^^",
    ]
    assert "Traceback" not in printed
    assert str(shell.user_ns["q"]) == "PATTERN SEQ(A a)"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q T=zz", "T=zz: zz is neither a Python value nor a variable of the notebook"),
        ("q 3", "%%sase does not understand '3'"),
        ("class", "%%sase does not understand 'class'"),
        ("q T=", "%%sase does not understand 'T='"),
        ("q U=1", "the pattern has no parameter 'U'"),
    ],
)
def test_the_magic_explains_its_own_line(shell: Any, line: str, message: str) -> None:
    fine, printed, _ = run(shell, f"%%sase {line}\nPATTERN SEQ(A a) WHERE a.x > T")
    assert not fine
    assert message in printed
    assert "Traceback" not in printed


# ---- CONTEXTS ----


def test_a_context_query_is_read_into_its_parts() -> None:
    query: Any = parse(
        "-- comments may come first\n"
        "CONTEXT tcl SELECT <Name, Price AS p> "
        "FROM RESTRICT {$cur.Volume > 10} <Stock> SEQUENCE RESTRICT {$pre.x < $suf.x} <News> "
        "KLNCLOSE WINDOW {COUNT 50, 10} <Stock>, <Alarm> PUBLISH <Out>"
    )
    assert isinstance(query, ContextQuery)
    assert (query.context, query.publish, query.window) == ("traceable", "Out", None)
    assert [(chosen.name, chosen.alias) for chosen in query.select] == [
        ("Name", None),
        ("Price", "p"),
    ]
    assert isinstance(query.source, Closure)
    assert (query.source.detector, query.source.terminator) == (Input("Stock"), Input("Alarm"))
    assert str(query.source.window) == "WINDOW {COUNT 50, COUNT 10}"
    inner = query.source.initiator
    assert inner == Sequence(
        Restricted(Input("Stock"), Compare(">", Part("cur", "Volume"), Literal(10))),
        Input("News"),
        detector_restrict=Compare("<", Part("pre", "x"), Part("suf", "x")),
    )
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("restricts", "of"),
    [
        ("", {}),
        ("RESTRICT {$suf.x > 1}", {"detector": "$suf.x > 1"}),
        ("{RESTRICT {$suf.x > 1}}", {"detector": "$suf.x > 1"}),
        (
            "{RESTRICT {$suf.x > 1}, RESTRICT {$suf.x < 0}}",
            {"detector": "$suf.x > 1", "terminator": "$suf.x < 0"},
        ),
        (
            "{RESTRICT {$pre.x = 1}, RESTRICT {true}, RESTRICT {$suf.x < $cur.x}}",
            {"initiator": "$pre.x = 1", "terminator": "$suf.x < $cur.x"},
        ),
    ],
)
def test_restrictions_of_a_closure_by_place(restricts: str, of: dict[str, str]) -> None:
    query: Any = parse(f"CONTEXT CPC SELECT <x> FROM <A> KLNCLOSE {restricts} <B>")
    found = {
        part: str(getattr(query.source, f"{part}_restrict"))
        for part in ("initiator", "detector", "terminator")
        if getattr(query.source, f"{part}_restrict") is not None
    }
    assert found == of
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("window", "canonical"),
    [
        ("{TEMPORAL 6hrs, 1hr}", "{TEMPORAL 6 hours, TEMPORAL 1 hour}"),
        ("{COUNT 3, TEMPORAL 6hrs}", "{COUNT 3, TEMPORAL 6 hours}"),
        ("{TEMPORAL <50, 10>}", "{TEMPORAL 50, TEMPORAL 10}"),
        (
            "{temporal 6hrs-End($pre).end%6hrs, count 1}",
            "{TEMPORAL 6 hours - End($pre).end % 6 hours, COUNT 1}",
        ),
        ("{COUNT N, 1}", "{COUNT N, COUNT 1}"),
    ],
)
def test_windows_of_a_context_query(window: str, canonical: str) -> None:
    query: Any = parse(f"CONTEXT CPC SELECT <x> FROM <A> SEQUENCE WINDOW {window} <B>")
    assert str(query.source.window) == f"WINDOW {canonical}"
    assert parse(str(query)) == query


@pytest.mark.parametrize("word", ["EXP", "exp", "expanded", "EXPENDED", "extended"])
def test_the_expanded_context_has_several_spellings(word: str) -> None:
    query: Any = parse(f"CONTEXT {word} SELECT <x> FROM <A>")
    assert query.context == "expanded"
    assert str(query).startswith("CONTEXT EXP\n")


def test_parameters_of_a_context_query() -> None:
    text = "CONTEXT CPC SELECT <x> FROM <A> SEQUENCE WINDOW {COUNT N, 1} RESTRICT {$suf.x > T} <B>"
    query: Any = parse(text, N=3, T=0.5)
    assert "COUNT 3" in str(query)
    assert "$suf.x > 0.5" in str(query)
    assert [said.split(" is")[0] for said in parse(text).warnings()] == ["N", "T"]


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("CONTEXT CPX SELECT <x> FROM <A>", "unknown context CPX", 9),
        ("CONTEXT CPC SELECT <x> FRM <A>", "(did you mean 'from'?)", 24),
        ("CONTEXT CPC SELECT <x> FROM <A> SEQUENCE RESTRICT {$pro.x > 1} <B>", "did you mean", 52),
        ("CONTEXT CPC SELECT <x> FROM <A> SEQUENCE RESTRICT {$cur.x > 1} <B>", "not $cur", 52),
        ("CONTEXT CPC SELECT <x> FROM RESTRICT {$suf.x > 1} <B>", "speaks of $cur, not", 39),
        ("CONTEXT CPC SELECT <x> FROM WINDOW {COUNT $pre.x, 1} <B>", "only numbers", 43),
        ("CONTEXT CPC SELECT <x> FROM <A> SEQUENCE RESTRICT {$suf.x + 1} <B>", "is a value", 59),
        ("CONTEXT CPC SELECT <x> FROM WINDOW {COUNT 0, 1} <A>", "must be more than 0", 43),
        ("CONTEXT CPC SELECT <x> FROM WINDOW {COUNT -1, 1} <A>", "must be more than 0", 44),
        ("CONTEXT CPC SELECT <x> FROM WINDOW {COUNT 1.5, 1} <A>", "needs a whole number", 43),
        ("CONTEXT CPC SELECT <x> FROM WINDOW {COUNT 1 min, 1} <A>", "needs a whole number", 43),
        ("CONTEXT CPC SELECT <x> FROM WINDOW {3, 1} <A>", "needs a kind", 37),
        (
            "CONTEXT CPC SELECT <x> FROM <A> SEQUENCE {RESTRICT {1=1}, RESTRICT {1=1}, "
            "RESTRICT {1=1}} <B>",
            "SEQUENCE takes at most 2 RESTRICT",
            33,
        ),
        ("CONTEXT CPC SELECT <x> FROM <A", "the text ends too early", 31),
    ],
)
def test_mistakes_in_a_context_query_have_a_place(text: str, message: str, column: int) -> None:
    error = refused(text)
    assert message in str(error)
    assert (error.line, error.column) == (1, column)


@st.composite
def context_queries(draw: st.DrawFn) -> ContextQuery:
    """Queries of any shape, with conditions and windows that are legal where they stand."""
    names = st.sampled_from(("Stock", "x", "from", "AND", "a b", "count", "end"))

    def part(roles: str) -> Part:
        edges = st.sampled_from(("", "", "Start", "End"))
        return Part(draw(st.sampled_from(roles.split())), draw(names), draw(edges))

    def maybe_condition(roles: str) -> Any:
        kind = draw(st.sampled_from(("none", "none", "one", "and", "or", "not")))
        if kind == "none":
            return None
        test = Compare(draw(st.sampled_from(("<", ">", "=", "<="))), part(roles), draw(values))
        other = Between(part(roles), Literal(1), part(roles))
        many = {"one": test, "and": All((test, other)), "or": Either((test, other))}
        return many.get(kind, Opposite(Either((test, All((test, other))))))

    values = st.sampled_from((Literal(3), Literal("<"), Duration(5, "minutes"), Symbol("T")))

    def maybe_window(roles: str) -> Any:
        if draw(st.booleans()):
            return None
        amounts: list[Any] = [Literal(3), Symbol("N")]
        if roles:
            amounts.append(Arithmetic("%", part(roles), Literal(6)))
        limit = st.builds(Limit, st.sampled_from(("COUNT", "TEMPORAL")), st.sampled_from(amounts))
        return Sliding(draw(limit), draw(limit))

    def source(depth: int) -> Any:
        kind = draw(st.sampled_from(("input", "restricted", "sequence", "closure")))
        if depth == 0 or kind == "input":
            return Input(draw(names))
        if kind == "restricted":
            condition = maybe_condition("cur")
            inner = source(depth - 1)
            return inner if condition is None else Restricted(inner, condition)
        parts = source(depth - 1), source(depth - 1)
        if kind == "sequence":
            conditions = maybe_condition("pre"), maybe_condition("pre suf")
            return Sequence(*parts, maybe_window("pre suf"), *conditions)
        end = source(depth - 1) if draw(st.booleans()) else None
        last = maybe_condition("pre suf cur")
        conditions = maybe_condition("pre"), maybe_condition("pre suf cur")
        return Closure(*parts, end, maybe_window("pre suf cur"), *conditions, last)

    select = draw(st.lists(st.builds(Selected, names), min_size=1, max_size=3, unique=True))
    context = draw(st.sampled_from(("compact", "expanded", "complete", "traceable")))
    publish = draw(st.one_of(st.none(), names))
    return ContextQuery(context, tuple(select), source(3), maybe_window(""), publish)


@settings(max_examples=200, deadline=None, suppress_health_check=SLOW)
@given(context_queries())
def test_the_text_of_any_context_query_is_that_query(query: ContextQuery) -> None:
    assert parse(str(query)) == query


def test_an_output_name_is_given_once() -> None:
    assert "SELECT gives 'x' twice" in str(refused("CONTEXT CPC SELECT <x, y AS x> FROM <A>"))


def test_context_is_a_name_like_any_other_elsewhere() -> None:
    pattern = parse("PATTERN SEQ(Context context) WHERE context.from = 1")
    assert isinstance(pattern, Pattern)
