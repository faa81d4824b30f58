"""The uses of a predicate agree: one at a time, compiled, over columns, explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from strategies import COMPARISONS, conditions, events

from cepviz.errors import UnsupportedError
from cepviz.events import Event, Stream
from cepviz.language.columns import StreamColumns, mask
from cepviz.language.compile import predicate
from cepviz.language.evaluate import aggregate, elements, explain, holds, truth
from cepviz.language.expressions import (
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Either,
    Expression,
    In,
    Like,
    Literal,
    Opposite,
    Percent,
    Symbol,
    needs_all,
)
from cepviz.language.functions import FUNCTIONS, correlation, function
from cepviz.language.normal_form import conjuncts
from cepviz.language.parser import parse
from cepviz.language.structure import Variable

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def event(**attributes: Any) -> Event:
    return Event("A", 0, id=0, attributes=attributes)


def condition(text: str, structure: str = "SEQ(A a, A+ b[], A c)") -> Expression:
    (only,) = parse(f"PATTERN {structure} WHERE {text}").where
    return only


def ignore(*_: Any) -> None:
    """What to do with predicates that cannot be computed: nothing."""


# ---- three-valued logic ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x = 1", True),
        ("a.x != 1", False),
        ("a.none = 1", None),
        ("a.none != 1", None),
        ("a.none = a.none", None),
        ("a.absent < 1", None),
        ("a.none + 1 > 0", None),
        ("-a.none < 0", None),
        ("a.none IN (1, 2)", None),
        ("a.x IN (2, a.none)", None),
        ("a.x NOT IN (2, 3)", True),
        ("a.x IN ()", False),
        ("a.x BETWEEN 1 AND 1", True),
        ("a.x NOT BETWEEN 0 AND 2", False),
        ("a.none BETWEEN 0 AND 2", None),
        ("a.s LIKE 'he%'", True),
        ("a.s LIKE 'h_'", False),
        ("a.s NOT LIKE 'H%'", True),
        ("a.none LIKE '%'", None),
        ("a.x = 1 or a.none = 1", True),
        ("a.x = 2 or a.none = 1", None),
        ("not (a.x = 2 or a.none = 1)", None),
        ("a.flag", True),
        ("not a.flag", False),
        ("not a.none", None),
        ("a.s = 'hello'", True),
        ("a.s = hello", True),
        ("a.s = 1", False),
        ("80% * a.x = 0.8", True),
        ("a.x % 2 = 1", True),
        ("-7 % 3 = 2", True),
        ("a.x / 2 = 0.5", True),
        ("a.type = 'A'", True),
        ("a.time = 0", True),
    ],
)
def test_comparisons_follow_sql(text: str, expected: bool | None) -> None:
    bound = {"a": event(x=1, none=None, s="hello", flag=True)}
    parts = parse(f"PATTERN SEQ(A a) WHERE {text}").where
    found = [truth(part, bound) for part in parts]
    together = False if False in found else None if None in found else True
    assert together is expected
    assert all(holds(part, bound) for part in parts) is (expected is True)
    assert predicate(parts, {"a": "e"})(bound["a"], ()) is (expected is True)


def test_not_over_and_keeps_unknown_unknown() -> None:
    (clause,) = parse("PATTERN SEQ(A a) WHERE not (a.x = 1 and a.none = 1)").where
    assert truth(clause, {"a": event(x=1, none=None)}) is None
    assert truth(clause, {"a": event(x=2, none=None)}) is True


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a.x / (a.x - 1) > 0", "division by zero"),
        ("a.x % 0 > 0", "modulo"),
        ("a.s + 1 > 0", "'hello' is not a number"),
        ("a.s < 1", "not supported"),
        ("a.x LIKE 'a%'", "expected string"),
        ("a.s BETWEEN 1 AND 2", "not supported"),
    ],
)
def test_what_cannot_be_computed_is_told_and_is_not_true(text: str, error: str) -> None:
    bound = {"a": event(x=1, s="hello")}
    test = condition(text, "SEQ(A a)")
    with pytest.raises((ArithmeticError, TypeError)):
        truth(test, bound)
    told: list[tuple[Expression, Any, Exception]] = []
    assert holds(test, bound, lambda *args: told.append(args)) is False
    ((part, seen, problem),) = told
    assert (part, seen) == (test, bound)
    assert error in str(problem)
    assert predicate([test], {"a": "e"}, failed=ignore)(bound["a"], ()) is False
    with pytest.raises((ArithmeticError, TypeError)):
        predicate([test], {"a": "e"})(bound["a"], ())


def test_a_failing_part_of_an_or_does_not_hide_a_true_one() -> None:
    test = condition("a.x / 0 > 1 or a.x = 1", "SEQ(A a)")
    assert holds(test, {"a": event(x=1)}, ignore) is True
    assert predicate([test], {"a": "e"}, failed=ignore)(event(x=1), ()) is True


def test_strings_are_not_multiplied_or_formatted() -> None:
    for text in ("a.s * 3 = 'ababab'", "a.s % 2 = 'ab'", "-a.s = 1"):
        test = condition(text, "SEQ(A a)")
        assert holds(test, {"a": event(s="ab")}, ignore) is False
        assert predicate([test], {"a": "e"}, failed=ignore)(event(s="ab"), ()) is False


# ---- Kleene references ----


def row(*values: int | None) -> tuple[Event, ...]:
    return tuple(Event("A", n, id=n, x=value) for n, value in enumerate(values))


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("b[i].x > 1", (2, 3), True),
        ("b[i].x > 1", (1, 3), False),
        ("b.x > 1", (1, 3), False),
        ("b[i].x > b[i-1].x", (2,), True),  # it looks back, so the first element need not
        ("b[i].x > b[i-1].x", (1, 2, 3), True),
        ("b[i].x > b[i-1].x", (1, 3, 2), False),
        ("b[1].x = 1", (1, 9), True),
        ("b[b.LEN].x = 9", (1, 9), True),
        ("b.LEN = 2", (1, 9), True),
        ("b[i].x >= avg(b[..i-1].x)", (2, 2, 4, 3), True),
        ("b[i].x >= avg(b[..i-1].x)", (2, 4, 2), False),
        ("b[i].x > max(b[..i-1].x)", (1, 2, 3), True),
        ("b[i].x > count(b[..i-1])", (1, 2, 3), True),
        ("sum(b[].x) = 6", (1, 2, 3), True),
        ("count(b[].x) = 2", (1, None, 3), True),
        ("count(b[]) = 3", (1, None, 3), True),
        ("avg(b[].x) = 2", (1, None, 3), True),
        ("first(b[].x) + last(b[].x) = 4", (1, None, 3), True),
        ("min(b[].x) = 1", (None, None), False),
    ],
)
def test_elements_of_a_kleene_variable(
    text: str, values: tuple[int | None, ...], expected: bool
) -> None:
    test = condition(text)
    assert holds(test, {"b": row(*values)}) is expected
    places = {"b": "m"}
    assert predicate([test], places, kleene={"b"})(row(0)[0], row(*values)) is expected


def test_two_kleene_variables_are_taken_each_with_each() -> None:
    test = condition("b[i].x < d[i].x", "SEQ(A+ b[], A+ d[])")
    bound = {"b": row(1, 2), "d": row(3, 2)}
    assert list(elements(test, bound)) == [
        {"b": 0, "d": 0},
        {"b": 0, "d": 1},
        {"b": 1, "d": 0},
        {"b": 1, "d": 1},
    ]
    assert holds(test, bound) is False
    assert holds(test, {"b": row(1, 2), "d": row(3, 4)}) is True


def test_the_first_candidate_of_a_kleene_variable_is_its_own_first_element() -> None:
    test = condition("b[i].x >= b[1].x")
    begin = predicate([test], {"b": "m"}, candidate="b", kleene={"b"}, first=True)
    take = predicate([test], {"b": "m"}, candidate="b", kleene={"b"})
    one, two, three = row(2, 3, 1)
    assert begin(one, ()) is True
    assert take(two, (one,)) is True
    assert take(three, (one, two)) is False


def test_aggregates_skip_missing_values() -> None:
    events = row(None, 4, 2)
    found = {name: aggregate(name, "x", events) for name in ("sum", "min", "max", "avg", "count")}
    assert found == {"sum": 6, "min": 2, "max": 4, "avg": 3, "count": 2}
    assert aggregate("sum", "x", row(None)) is None
    assert aggregate("count", "x", row(None)) == 0


# ---- functions ----


def test_correlation_is_pearsons() -> None:
    assert correlation([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert correlation([1, 2, 3, 4], [1, -1, -1, 1]) == pytest.approx(0)
    assert correlation([1, 1, 1], [1, 2, 3]) is None


def test_corr_in_a_pattern() -> None:
    test = condition("Corr(a.h, c.h) > 0.9")
    a, c, flat = event(h=[1, 2, 3]), event(h=[2, 4, 7]), event(h=[1, 1, 1])
    assert holds(test, {"a": a, "c": c}) is True
    assert truth(test, {"a": a, "c": flat}) is None
    check = predicate([test], {"a": "m", "c": "e"}, failed=ignore)
    assert [check(other, a) for other in (c, flat, event(h=None), event(h=[1]))] == [
        True,
        False,
        False,
        False,
    ]


def test_a_function_is_never_called_with_a_missing_value() -> None:
    called = []

    @function(name="noted")
    def noted(value: Any) -> Any:
        called.append(value)
        return value

    try:
        test = condition("noted(a.x) = 1", "SEQ(A a)")
        assert truth(test, {"a": event(x=None)}) is None
        assert predicate([test], {"a": "e"})(event(x=None), ()) is False
        stream = Stream.from_records([event(x=None)])
        assert mask(test, {"a": StreamColumns(stream)}).tolist() == [False]
        assert called == []
    finally:
        del FUNCTIONS["noted"]


# ---- explanations ----


def test_an_explanation_shows_values_and_the_truth() -> None:
    pattern = parse(
        "PATTERN SEQ(A+ b[], A c) WHERE c.volume < 80% * b[b.LEN].volume and c.x > b[i].x"
    )
    bound = {"b": (event(volume=900, x=1), event(volume=1020, x=2)), "c": event(volume=999, x=2)}
    first, second = (explain(test, bound) for test in pattern.where)
    assert first.said == "c.volume 999 < 80% * b[b.LEN].volume 1020 = 816"
    assert (first.truth, dict(first.values)) == (
        False,
        {"c.volume": 999, "b[b.LEN].volume": 1020},
    )
    assert second.said == "c.x 2 > b[i].x 2"  # at the element where it fails
    assert second.truth is False


def test_an_explanation_says_what_is_missing_or_wrong() -> None:
    missing = explain(condition("a.x > 1"), {"a": event(x=None)})
    assert (missing.truth, missing.note) == (None, "a.x is missing")
    assert missing.said == "a.x missing > 1"
    failing = explain(condition("1 / a.x > 1"), {"a": event(x=0)})
    assert (failing.truth, failing.note) == (None, "1 / a.x > 1: division by zero")


# ---- compiled equals evaluated ----

SINGLE, LIST, OTHER = Variable("a", "A"), Variable("b", "B", kleene=True), Variable("c", "C")


@settings(max_examples=400, deadline=None, suppress_health_check=SLOW)
@given(conditions([SINGLE, LIST, OTHER]), events(min_size=3, max_size=5))
def test_compiled_equals_evaluated_when_all_is_bound(test: Expression, found: list[Event]) -> None:
    a, c, *b = found
    for clause in conjuncts(test):
        expected = holds(clause, {"a": a, "b": tuple(b), "c": c}, ignore)
        check = predicate(
            [clause],
            {"a": "m[0]", "b": "m[1]", "c": "e"},
            candidate="c",
            kleene={"b"},
            failed=ignore,
        )
        assert check(c, (a, tuple(b))) is expected


@settings(max_examples=400, deadline=None, suppress_health_check=SLOW)
@given(conditions([SINGLE, LIST]), events(min_size=2, max_size=6))
def test_compiled_equals_evaluated_element_by_element(test: Expression, found: list[Event]) -> None:
    clauses = [clause for clause in conjuncts(test) if not needs_all(clause, "b")]
    assume(clauses)
    a, *rest = found
    places = {"a": "m[0]", "b": "m[1]"}
    options: dict[str, Any] = {"candidate": "b", "kleene": {"b"}, "failed": ignore}
    begin = predicate(clauses, places, first=True, **options)
    take = predicate(clauses, places, **options)
    taken: tuple[Event, ...] = ()
    for candidate in rest:
        bound = {"a": a, "b": (*taken, candidate)}
        expected = all(holds(clause, bound, ignore) for clause in clauses)
        check = take if taken else begin
        assert check(candidate, (a, taken)) is expected
        if expected:  # a run that took an element satisfied the conjuncts until then
            taken = (*taken, candidate)


# ---- columns equal evaluated ----


NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from((2**53, 2**53 + 1, 2**62, -(2**63), 2**63 - 1)),
    st.floats(-3, 3, allow_nan=False).map(lambda value: round(value, 1)),
    st.sampled_from((0.0, 1e308, 2.0**53, -0.5)),
)


@st.composite
def columns_of_values(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records whose columns each have one kind, or mix them; any value may be missing."""
    size = draw(st.integers(1, 4))
    kinds = {
        "n": st.integers(-3, 3),
        "big": st.integers(-(2**63), 2**63 - 1),
        "f": st.floats(-3, 3, allow_nan=False).map(lambda value: round(value, 1)),
        "s": st.sampled_from(("", "a", "ab", "b")),
        "b": st.booleans(),
        "m": st.one_of(NUMBERS, st.booleans(), st.sampled_from(("a", "b"))),
    }
    missing = st.sampled_from((None, *"nnnnn"))

    def column(kind: st.SearchStrategy[Any]) -> list[Any]:
        return [None if draw(missing) is None else draw(kind) for _ in range(size)]

    made = {name: column(kind) for name, kind in kinds.items()}
    return [{name: values[row] for name, values in made.items()} for row in range(size)]


def _values() -> st.SearchStrategy[Expression]:
    attribute = st.builds(
        Attribute, st.sampled_from("ab"), st.sampled_from(("n", "big", "f", "s", "b", "m", "none"))
    )
    # What a function makes of whole columns is its own affair, overflow included.
    small = st.builds(Attribute, st.sampled_from("ab"), st.sampled_from(("n", "f", "s", "b")))
    literal = st.one_of(
        NUMBERS.map(Literal),
        st.booleans().map(Literal),
        st.sampled_from(("a", "ab")).map(Literal),
        st.integers(0, 200).map(Percent),
        st.sampled_from("ab").map(Symbol),
    )
    return st.recursive(
        st.one_of(attribute, attribute, literal),
        lambda inner: st.one_of(
            st.builds(Arithmetic, st.sampled_from("+-*/%"), inner, inner),
            st.builds(Call, st.just("slope"), st.tuples(small, small)),
            st.builds(Call, st.just("steep"), st.lists(inner, max_size=2).map(tuple)),
        ),
        max_leaves=4,
    )


def _tests() -> st.SearchStrategy[Expression]:
    value = _values()
    simple = st.one_of(
        st.builds(Compare, st.sampled_from(COMPARISONS), value, value),
        st.builds(In, value, st.lists(value, max_size=3).map(tuple), st.booleans()),
        st.builds(Between, value, value, value, st.booleans()),
        st.builds(Like, value, st.sampled_from(("a%", "_", "%")), st.booleans()),
        st.builds(Attribute, st.sampled_from("ab"), st.sampled_from(("n", "s", "b", "m"))),
        st.builds(Call, st.just("steep"), st.lists(value, max_size=2).map(tuple)),
    )
    return st.one_of(
        simple, st.builds(Opposite, simple), st.builds(Either, st.tuples(simple, simple, simple))
    )


@settings(max_examples=600, deadline=None, suppress_health_check=SLOW)
@given(_tests(), columns_of_values(), columns_of_values())
def test_columns_equal_evaluated(
    test: Expression, left: list[dict[str, Any]], right: list[dict[str, Any]]
) -> None:
    rows = min(len(left), len(right))
    streams = {
        name: Stream.from_records([Event("A", n, id=n, attributes=row) for n, row in enumerate(r)])
        for name, r in (("a", left[:rows]), ("b", right[:rows]))
    }
    columns = {name: StreamColumns(stream) for name, stream in streams.items()}
    told: list[int] = []
    failed: list[int] = []
    for clause in conjuncts(test):
        expected = [
            holds(
                clause,
                {name: stream[n] for name, stream in streams.items()},
                lambda *_, n=n: told.append(n),
            )
            for n in range(rows)
        ]
        found = mask(clause, columns, lambda _, where, __: failed.extend(where.tolist()))
        assert found.dtype == bool
        assert found.tolist() == expected
    assert sorted(failed) == sorted(told)


def test_columns_tell_which_rows_failed_and_why() -> None:
    stream = Stream.from_records([{"type": "A", "time": n, "x": n} for n in (0, 1, 2)])
    test = condition("2 / a.x > 1", "SEQ(A a)")
    told: list[Any] = []
    found = mask(test, {"a": StreamColumns(stream)}, lambda *args: told.append(args))
    assert found.tolist() == [False, True, False]
    ((node, rows, error),) = told
    assert node == test
    assert rows.tolist() == [0]
    assert str(error) == "division by zero"


def test_columns_of_chosen_rows() -> None:
    stream = Stream.from_records([{"type": "A", "time": n, "x": n} for n in (0, 1, 2)])
    test = condition("a.x < c.x")
    chosen = {
        "a": StreamColumns(stream, np.array([0, 1, 2])),
        "c": StreamColumns(stream, np.array([1, 1, 1])),
    }
    assert mask(test, chosen).tolist() == [True, False, False]


def test_columns_take_the_candidate_element_only() -> None:
    stream = Stream.from_records([{"type": "A", "time": n, "x": n} for n in (0, 1, 2)])
    columns = {"b": StreamColumns(stream)}
    assert mask(condition("b[i].x > 0"), columns).tolist() == [False, True, True]
    assert mask(condition("b.x > 0"), columns).tolist() == [False, True, True]
    refused = ("b[i-1].x > 0", "b[1].x > 0", "b[b.LEN].x > 0", "b.LEN > 0", "sum(b[].x) > 0")
    for text in refused:
        with pytest.raises(UnsupportedError, match="one element at a time"):
            mask(condition(text), columns)


def test_columns_do_not_overflow() -> None:
    stream = Stream.from_records([{"type": "A", "time": 0, "x": 2**62, "y": 2**53 + 1}])
    columns = {"a": StreamColumns(stream)}
    for text in ("a.x * 4 = 18446744073709551616", "a.x + a.x > 0", "a.y != 9007199254740992.0"):
        assert mask(condition(text, "SEQ(A a)"), columns).tolist() == [True], text
