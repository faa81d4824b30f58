"""A pattern as a picture: its order, its conditions, its branches, and what a match puts in it."""

from xml.etree import ElementTree

import pytest
from literal import stream

import cepviz as cep
from cepviz.views.automaton import automaton
from cepviz.views.pattern import MOST_BRANCHES, MOST_ROWS, pattern

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")


def titles(scene, part):
    return [shape.title for key, shape in scene.shapes.items() if key.startswith(part)
            and shape.title]  # fmt: skip


def text(scene, key):
    return scene.shapes[key].text


def dots(scene, number):
    """The variables a condition is about, by the column they stand in."""
    columns = {}
    for key, shape in scene.shapes.items():
        if key.startswith("variable:") and key.endswith(":name"):
            columns[shape.attributes["x"]] = shape.text
    row = [shape for key, shape in scene.shapes.items()
           if key.startswith(f"condition:{number}:") and shape.tag == "path"]  # fmt: skip
    found = []
    for shape in row:
        x = float(shape.attributes["d"][1:].split(",")[0])
        found.append(min(columns, key=lambda column: abs(column - x)))
    return [columns[x] for x in found]


def test_the_order_without_what_follows_from_it():
    scene = pattern("PATTERN SEQ(A a, B b, C c) WITHIN 9")
    assert titles(scene, "order") == ["a comes before b", "b comes before c"]
    assert not titles(scene, "free")
    assert text(scene, "window:text") == "within 9, skip till any match"


def test_without_an_order_stands_and():
    scene = pattern("PATTERN SEQ(AND(A a, B b), C c) WITHIN 9")
    assert titles(scene, "free") == ["a and b, in any order"]
    assert titles(scene, "order") == ["a comes before c", "b comes before c"]
    arch, straight = (scene.shapes[f"order:{n}"].attributes["d"] for n in (0, 1))
    assert "C" in arch and "C" not in straight


def test_each_condition_has_a_dot_under_its_variables():
    where = "[k] and a.x < 4 and a.x < c.x"
    scene = pattern(f"PATTERN SEQ(A a, B b, C c) WHERE {where} WITHIN 9")
    said = [text(scene, f"condition:{n}:text") for n in range(3)]
    assert said == ["[k]: all the same", "a.x < 4", "a.x < c.x"]
    assert [dots(scene, n) for n in range(3)] == [["a", "b", "c"], ["a"], ["a", "c"]]


def test_kleene_and_negated_variables_are_marked():
    scene = pattern("PATTERN SEQ(A+ a[], ~(B b), C c) WHERE b.x = c.x WITHIN 9")
    names = [text(scene, f"variable:{n}:name") for n in range(3)]
    assert names == ["a[]", "~b", "c"]
    assert "variable:0:more" in scene.shapes and "variable:2:more" not in scene.shapes
    assert scene.shapes["variable:1"].classes == "negated"
    assert scene.shapes["variable:1"].title == "no event of type B after a and before c"
    assert scene.shapes["condition:0:0"].classes == "cross"


def test_every_branch_has_its_picture():
    scene = pattern("PATTERN SEQ(A a, OR(B b, C c), D* d[]) WITHIN 9")
    heads = [shape.text for key, shape in scene.shapes.items() if key.endswith("branch")]
    assert heads == ["branch 1 of 4", "branch 2 of 4, d[] is empty", "branch 3 of 4",
                     "branch 4 of 4, d[] is empty"]  # fmt: skip
    many = pattern(f"PATTERN OR({', '.join(f'T{n} v{n}' for n in range(9))}) WITHIN 9")
    assert f"and {9 - MOST_BRANCHES} more branches" in [s.text for s in many.shapes.values()]


def test_many_conditions_are_counted():
    where = " and ".join(f"a.x > {n}" for n in range(30))
    scene = pattern(f"PATTERN SEQ(A a, B b) WHERE {where} WITHIN 9")
    last = f"condition:{MOST_ROWS - 1}:text"
    assert text(scene, last) == f"and {30 - MOST_ROWS + 1} more conditions"


def test_a_chain_is_one_below_the_other():
    both = cep.chain("PATTERN SEQ(A a, A b) WITHIN 5 RETURN Rise(top = b.x)",
                     "PATTERN SEQ(Rise r, B c) WITHIN 9")  # fmt: skip
    scene = pattern(both)
    assert {"0:variable:0", "1:variable:0"} <= scene.shapes.keys()


def test_an_engine_without_an_automaton_shows_its_pattern():
    trace = cep.trace("PATTERN SEQ(A a, B b) WITHIN 9", stream("a1 b1"), engine="naive")
    found = trace.next(0, "match")
    before, now = automaton(trace, 0), automaton(trace, found)
    assert "naive has no automaton" in text(now, "none")
    assert text(now, "variable:0:held") == "a1" and text(now, "variable:1:held") == "b1"
    assert "variable:0:held" not in before.shapes
    assert now.say == trace[found].say()
    still = [(key, shape.attributes) for key, shape in before.shapes.items()]
    assert still == [(k, s.attributes) for k, s in now.shapes.items() if not k.endswith("held")]


def test_nothing_lies_outside_and_all_is_legal_xml():
    query = 'PATTERN SEQ(A a, B+ b[], ~(C c)) WHERE a.x != "<script>\'\\u202e" WITHIN 9'
    scene = pattern(query.replace("\\u202e", "\u202e"))
    for theme in ("auto", "light", "dark"):
        ElementTree.fromstring(scene.svg(theme))
    assert "<script>" not in scene.svg()
    assert all(0 <= s.attributes["x"] <= scene.width for s in scene.shapes.values()
               if s.tag in ("rect", "text"))  # fmt: skip
