"""assert_matches: passes on exactly the expected matches, and says why it does not."""

from __future__ import annotations

import pytest
from literal import stream

import cepviz as cep
from cepviz.testing import assert_matches

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

PATTERN = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9"
EVENTS = stream("a1(x=1) b1(x=2) b2(x=3) b3(x=0)")


def failure(*arguments, **keywords):
    with pytest.raises(AssertionError) as caught:
        assert_matches(*arguments, **keywords)
    return str(caught.value)


def test_the_matches_in_any_order_pass():
    assert_matches(PATTERN, EVENTS, [{"a": "a1", "b": "b2"}, {"a": "a1", "b": "b1"}])
    assert_matches("PATTERN SEQ(B a, A b) WITHIN 9", EVENTS, [])


def test_a_missing_match_is_told_with_its_why_not():
    wanted = [{"a": "a1", "b": b} for b in ("b1", "b2", "b3")]
    said = failure(PATTERN, EVENTS, wanted)
    assert said.startswith("3 matches expected, 2 found: 1 missing.")
    assert "Missing: a = a1, b = b3" in said
    assert "b.x > a.x: 0 > 1 is false, short by 1" in said
    assert "Too much" not in said


def test_a_match_too_much_is_told_with_its_why():
    said = failure(PATTERN, EVENTS, [{"a": "a1", "b": "b1"}])
    assert said.startswith("1 match expected, 2 found: 1 too much.")
    assert "Too much: a = a1, b = b2" in said
    assert "b.x 3 > a.x 1" in said
    assert "Missing" not in said


def test_matches_are_counted_as_often_as_they_occur():
    assert "1 missing" in failure(
        PATTERN, EVENTS, [{"a": "a1", "b": b} for b in ("b1", "b2", "b2")]
    )


def test_kleene_takes_lists_and_the_empty_may_be_left_out():
    plus = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match WITHIN 3"
    assert_matches(plus, EVENTS, [{"a": "a1", "b": ["b1"]}, {"a": "a1", "b": ["b1", "b2"]}])
    star = "PATTERN SEQ(A a, C* c[], B b) WHERE strict_contiguity WITHIN 9"
    assert_matches(star, EVENTS, [{"a": "a1", "b": "b1"}])
    assert_matches(star, EVENTS, [{"a": "a1", "b": "b1", "c": []}])


def test_an_event_that_is_not_there_is_an_error_not_a_difference():
    with pytest.raises(cep.CepError, match="b9"):
        assert_matches(PATTERN, EVENTS, [{"a": "a1", "b": "b9"}])


def test_an_engine_can_be_named():
    wanted = [{"a": "a1", "b": "b1"}, {"a": "a1", "b": "b2"}]
    for engine in ("naive", "eager", "lazy_chain"):
        assert_matches(PATTERN, EVENTS, wanted, engine=engine)
