"""Whatever text comes in, `parse` answers with a pattern or a `PatternError`, and soon.

CEPVIZ_EXAMPLES=200000 makes the search long.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import patterns

from cepviz.errors import PatternError
from cepviz.language.highlight import highlighted
from cepviz.language.parser import parse

EXAMPLES = int(os.environ.get("CEPVIZ_EXAMPLES", "400"))
LONGEST = 5.0  # seconds; a text of this size takes milliseconds, the limit is for slow machines

QUERIES = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parent / "queries").glob("*.sase"))
]
WORDS = (
    *("PATTERN", "WHERE", "WITHIN", "RETURN", "OUTPUT", "SEQ", "AND", "OR", "NOT", "IN", "LIKE"),
    *("BETWEEN", "TRUE", "FALSE", "TIMESTAMP", "unbounded", "events", "minutes", "h", "all"),
    *("CONTEXT", "CPC", "SELECT", "AS", "FROM", "WINDOW", "TEMPORAL", "COUNT", "RESTRICT"),
    *("SEQUENCE", "KLNCLOSE", "PUBLISH", "$pre", "$suf", "$cur", "Start", "End", "<Stock>"),
    *("skip_till_next_match", "partition-contiguity", "strict_contiguity", "non_overlap"),
    *("A", "a", "b", "x", "i", "LEN", "avg", "count", "Corr", "T", "`a b`", "``", "`"),
    *("a.x", "b[i].x", "b[i-1].x", "b[b.LEN].x", "b[]", "b[..i-1].x", "a.LEN", "[k]", "A a"),
    *("B+ b[]", "C* c[]", "~(B b)", "1", "0", ".5", "1e9", "1e999", "80%", "7 %", "'s'", '"'),
    *("'", "--", "/*", "*/", "\n", "\t", "(", ")", "[", "]", "{", "}", "<", ">", "<=", "=", "=="),
    *("!=", "≠", "∈", "∧", "+", "-", "*", "/", "%", ",", ";", ".", "..", "~", "!", "^", "&&", "||"),
    *("\x00", "é", "🙂", "\u202e", "\ud800", "\u2028", "９", "İ", "ſeq"),
)


def read(text: str) -> Any:
    """What `parse` makes of a text: the value, or None where it is refused."""
    started = time.perf_counter()
    try:
        pattern = parse(text)
    except PatternError as error:
        assert str(error)
        pattern = None
    assert time.perf_counter() - started < LONGEST
    return pattern


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A text that was a pattern before pieces of it were cut, doubled, moved or replaced."""
    if draw(st.booleans()):
        text = draw(st.sampled_from(QUERIES))
    else:
        text = str(draw(patterns(wide=True)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(
            st.one_of(
                st.just(""),
                st.sampled_from(WORDS),
                st.just(text[start:end] * 2),
                st.just(text[end : end + 8]),
                st.characters(),
            )
        )
        text = text[:start] + piece + text[end:]
    return text


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_a_broken_pattern_is_refused_or_read(text: str) -> None:
    pattern = read(text)
    if pattern is not None:
        assert parse(str(pattern)) == pattern


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(WORDS), max_size=25), st.sampled_from(("PATTERN ", "CONTEXT ", "")))
def test_a_heap_of_words_is_refused_or_read(words: list[str], first: str) -> None:
    pattern = read(first + " ".join(words))
    if pattern is not None:
        assert parse(str(pattern)) == pattern


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.text())
def test_any_text_is_refused(text: str) -> None:
    read(text)


SEQ = "PATTERN SEQ(A a, B+ b[]) WHERE a.x > "
LONG = {
    "digits": SEQ + "9" * 90_000,
    "fraction": SEQ + "9" * 40_000 + "." + "9" * 40_000 + "e",
    "blanks": SEQ + " " * 90_000,
    "blanks in brackets": SEQ + "b[" + " " * 90_000 + "].x",
    "back quotes": SEQ + "b[" + "`" * 90_001,
    "back quotes in brackets": SEQ + "b[" + "`" * 90_000 + "].x",
    "quotes": SEQ + "'" * 90_001,
    "open comment": SEQ + "/*" + " *" * 40_000,
    "comments": "/**/" * 20_000 + "CONTEX",
    "minus": SEQ + "- " * 45_000 + "1",
    "parentheses": SEQ + "(" * 45_000 + "1" + ")" * 45_000,
    "open parentheses": SEQ + "(" * 90_000,
    "not": "PATTERN SEQ(A a) WHERE " + "not " * 20_000 + "a.x = 1",
    "sum": SEQ + "1 + " * 20_000 + "1",
    "nested SEQ": "PATTERN " + "SEQ(" * 20_000 + "A a" + ")" * 20_000,
    "variables": "PATTERN SEQ(" + ", ".join(f"A a{n}" for n in range(8_000)) + ")",
    "choices": "PATTERN SEQ(" + ", ".join(f"OR(A a{n}, B b{n})" for n in range(3_000)) + ")",
    "conjuncts": "PATTERN SEQ(A a) WHERE " + " and ".join(f"a.x = {n}" for n in range(5_000)),
    "disjuncts": "PATTERN SEQ(A a) WHERE "
    + " or ".join(f"a.x = {n} and a.y = {n}" for n in range(2_000)),
    "options": SEQ + "1 and a.x IN (" + "1, " * 20_000 + "1)",
    "returned": "PATTERN SEQ(A a) RETURN X(" + ", ".join(f"a{n} = 1" for n in range(5_000)) + ")",
    "open streams": "CONTEXT CPC SELECT <x> FROM " + "<" * 90_000,
    "operators": "CONTEXT CPC SELECT <x> FROM <A> " + "SEQUENCE <B> " * 7_000,
    "selected": "CONTEXT CPC SELECT <" + ", ".join(f"a{n}" for n in range(5_000)) + "> FROM <A>",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_text_does_not_hang(name: str) -> None:
    read(LONG[name])
    started = time.perf_counter()
    highlighted(LONG[name])
    assert time.perf_counter() - started < LONGEST
