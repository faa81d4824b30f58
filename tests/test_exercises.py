"""Checks of exercises: what is open, right and wrong."""

from __future__ import annotations

import pytest

import cepviz as cep
from cepviz.exercises import check, check_pattern

STREAM = cep.Stream.from_records({"type": t, "time": n} for n, t in enumerate("ABAB"))


def pairs(stream):
    events = list(stream)
    return [
        {"a": a.id, "b": b.id}
        for a in events
        for b in events
        if (a.type, b.type) == ("A", "B") and a.position < b.position
    ]


@pytest.mark.parametrize("answer", [..., [...], (1, ...), "", "...", "\n...\n"])
def test_an_answer_that_is_not_there_is_neither_right_nor_wrong(answer):
    def never():
        raise AssertionError("computed for nobody")

    assert check(answer, never).state == "open"
    assert check_pattern(answer, lambda stream: never(), [STREAM]).state == "open"


@pytest.mark.parametrize(
    ("answer", "right"), [(3, 3), (3, 3.0), ([1, 2], (1, 2)), ({"a": [1]}, {"a": (1,)})]
)
def test_equal_values_are_right(answer, right):
    assert check(answer, lambda: right)


@pytest.mark.parametrize(("answer", "right"), [(3, 4), ([1, 2], [2, 1]), ("3", 3), (None, 0)])
def test_other_values_are_wrong(answer, right):
    grade = check(answer, lambda: right)
    assert not grade and grade.state == "wrong"
    assert repr(right) not in repr(grade).replace(repr(answer), "")  # it does not give it away


def test_the_reason_may_depend_on_the_value():
    assert "seven" in repr(check(7, lambda: 7, lambda value: {7: "seven"}[value]))


def test_a_pattern_is_graded_by_its_matches_on_every_stream():
    more = STREAM[:2]
    assert check_pattern("PATTERN SEQ(A a, B b) WITHIN 9", pairs, [STREAM, more])
    grade = check_pattern("PATTERN SEQ(A a, B b) WITHIN 3", pairs, [more, STREAM])
    assert not grade and "1 missing" in grade.text and "window" in grade.text


def test_a_pattern_that_is_none_is_wrong_with_the_place():
    grade = check_pattern("PATTERN SEQ(A a, B b) WITHN 9", pairs, [STREAM])
    assert not grade and "column" in grade.text


def test_what_is_said_is_escaped():
    page = check("<b>", lambda: 1)._repr_mimebundle_()["text/html"]
    assert "&lt;b&gt;" in page
