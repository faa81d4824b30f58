"""Allen's thirteen relations: exactly one holds of any two intervals, in every predicate form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cepviz as cep
from cepviz.language.allen import INVERSE, RELATIONS, relation
from cepviz.language.columns import StreamColumns, mask
from cepviz.language.compile import predicate
from cepviz.language.evaluate import explain, holds

SPANS = [(start, end) for start in range(4) for end in range(start, 4)]


def events(type: str) -> list[cep.Event]:
    return [cep.Event(type, start, end=end, id=f"{type}{start}{end}") for start, end in SPANS]


def intervals() -> cep.Stream:
    return cep.Stream.from_records(sorted(events("A") + events("B"), key=lambda e: e.end))


#: As Allen drew them: the first interval, the second, the relation.
DRAWN = [
    ((0, 1), (2, 3), "BEFORE"),
    ((0, 2), (2, 3), "MEETS"),
    ((0, 2), (1, 3), "OVERLAPS"),
    ((0, 1), (0, 3), "STARTS"),
    ((1, 2), (0, 3), "DURING"),
    ((1, 3), (0, 3), "FINISHES"),
    ((0, 3), (0, 3), "EQUALS"),
    ((1, 1), (1, 3), "STARTS"),  # a point
    ((3, 3), (1, 3), "FINISHES"),
    ((2, 2), (2, 2), "EQUALS"),
]


@pytest.mark.parametrize(("first", "second", "name"), DRAWN)
def test_a_relation_and_its_inverse(first, second, name) -> None:
    a, b = (cep.Event("A", start, end=end) for start, end in (first, second))
    assert (relation(a, b), relation(b, a)) == (name, INVERSE[name])


def test_exactly_one_relation_holds_of_any_two() -> None:
    assert len(RELATIONS) == 13
    found = [
        match.key
        for name in RELATIONS
        for match in cep.match(f"PATTERN AND(A a, B b) WHERE a {name} b WITHIN 99", intervals())
    ]
    assert len(found) == len(set(found)) == len(SPANS) ** 2


@pytest.mark.parametrize("name", RELATIONS)
def test_every_form_of_the_predicate_says_the_same(name: str) -> None:
    texts = (f"a {name} b", f"{name.lower()}(a, b)", f"a NOT {name} b", f"not (a {name} b)")
    (plain,), (call,), (no,), (opposite,) = (
        cep.parse(f"PATTERN AND(A a, B b) WHERE {text} WITHIN 99").where for text in texts
    )
    assert call == plain
    assert opposite == no
    fast = {c: predicate([c], {"a": "m", "b": "e"}) for c in (plain, no)}
    for a, b in itertools.product(events("A"), events("B")):
        truth = relation(a, b) == name
        for conjunct, wanted in ((plain, truth), (no, not truth)):
            assert holds(conjunct, {"a": a, "b": b}) is wanted
            assert fast[conjunct](b, a) is wanted
            assert explain(conjunct, {"a": a, "b": b}).truth is wanted


def test_relations_on_columns() -> None:
    (conjunct,) = cep.parse("PATTERN AND(A a, B b) WHERE a OVERLAPS b WITHIN 99").where
    table = intervals()
    rows = {name: np.flatnonzero(table.types == table.schema.types.index(name)) for name in "AB"}
    pairs = np.array(list(itertools.product(rows["A"], rows["B"])))
    columns = {name: StreamColumns(table, pairs[:, place]) for place, name in enumerate("ab")}
    wanted = [relation(table[int(a)], table[int(b)]) == "OVERLAPS" for a, b in pairs]
    assert list(mask(conjunct, columns)) == wanted


def test_a_relation_is_explained_with_the_ends_of_both() -> None:
    (conjunct,) = cep.parse("PATTERN AND(A a, B b) WHERE a DURING b WITHIN 99").where
    a, b = cep.Event("A", 3, end=5), cep.Event("B", 2, end=9)
    assert explain(conjunct, {"a": a, "b": b}).said == "a 3..5 DURING b 2..9"


def test_a_relation_on_a_kleene_variable_holds_for_every_element() -> None:
    rows = [
        {"id": "w", "type": "W", "from": 0, "to": 10},
        {"id": "p1", "type": "P", "from": 1, "to": 2},
        {"id": "p2", "type": "P", "from": 3, "to": 10},
    ]
    table = cep.Stream.from_records(sorted(rows, key=lambda r: r["to"]), time="from", end="to",
                                    id="id")  # fmt: skip
    pattern = cep.parse("PATTERN AND(P+ p[], W w) WHERE p DURING w WITHIN 99")
    assert str(pattern) == "PATTERN AND(P+ p[], W w)\nWHERE p[i] DURING w\nWITHIN 99"
    assert cep.parse(str(pattern)) == pattern
    assert [m.ids for m in cep.match(pattern, table)] == [{"p": ["p1"], "w": "w"}]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("a.x DURING b", "between two events, and a.x is none"),
        ("DURING(a)", "write a DURING b"),
        ("c DURING a", "'c' is not a variable"),
        ("a[1] DURING b", "a is one event, not a list"),
        ("a[i] > 3", "is an event: name one of its attributes"),
    ],
)
def test_mistakes_with_relations(condition: str, message: str) -> None:
    with pytest.raises(cep.PatternError) as caught:
        cep.parse(f"PATTERN SEQ(A a, B b) WHERE {condition}")
    assert message in str(caught.value)


def test_a_column_of_another_meaning_is_refused() -> None:
    rows = [{"type": "A", "time": 1, "start": 5}, {"type": "B", "time": 2, "start": 6}]
    with pytest.raises(cep.PatternError, match="a column 'start' that is not the start"):
        cep.match("PATTERN AND(A a, B b) WHERE a DURING b WITHIN 9", rows)


def test_words_of_relations_stay_names_elsewhere() -> None:
    text = "PATTERN SEQ(Before during, B b)\nWHERE during.starts = 1 and b.contains > 2"
    assert str(cep.parse(text)) == text
