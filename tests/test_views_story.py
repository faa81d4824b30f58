"""Explanations as pictures: the story of a match, and a candidate that is none on the timeline."""

import re
from xml.etree import ElementTree

import pytest
from literal import WATCHED, stream

import cepviz as cep
from cepviz.explain import why, why_not
from cepviz.views.story import AFTER, AXIS_LEFT, AXIS_RIGHT, BEFORE, story
from cepviz.views.timeline import timeline

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

QUERY = "PATTERN SEQ(A a, B b, C c) WHERE b.x > a.x WITHIN 310"
EVENTS = "a1@0(x=101) b1@60(x=98) c1@90(x=1) b2@120(x=104) c2@302(x=2) c3@330(x=9)"


@pytest.fixture(scope="module")
def told():
    return why(cep.match(QUERY, stream(EVENTS))[0])


def texts(scene, part=""):
    return [shape.text for key, shape in scene.shapes.items() if shape.text and part in key]


def row(scene, number):
    """What stands on the right of a row, each sentence with the class of its mark."""
    found = []
    for key, shape in scene.shapes.items():
        if re.fullmatch(rf"row:{number}:said:\d+", key):
            mark = scene.shapes.get(f"{key}:mark")
            found.append((mark.classes if mark else "", shape.text))
    return found


def place(scene, number):
    return float(re.match(r"M([\d.]+),", scene.shapes[f"event:{number}"].attributes["d"])[1])


def test_a_row_for_each_event_with_its_moves_conditions_and_choices(told):
    scene = story(told)
    assert [scene.shapes[f"row:{n}:name"].text for n in range(4)] == ["a", "b", "c", "others"]
    assert scene.shapes["row:1:event"].text == "b2 B"
    assert scene.shapes["row:1:did"].text == "Run 1.1 begins with b2 and is at c."
    assert scene.shapes["row:1:step"].text == f"step {told.parts[1].step}"
    assert row(scene, 1) == [
        ("tick", "b.x 104 > a.x 101"),
        ("fork", "run 1 ignores it"),
        ("pointer", "version 1.1: to a1 in a"),
    ]
    assert row(scene, 3) == [("cross", "b1: b.x 98 > a.x 101")]


def test_events_lie_where_their_times_are_under_the_window(told):
    scene = story(told)
    # A dot begins at its left; the last one is a diamond, which is a little wider.
    xs = [place(scene, n) + wide for n, wide in ((0, 5.5), (1, 5.5), (2, 7.5))]
    assert xs[0] == AXIS_LEFT + 10 and xs[2] == AXIS_RIGHT - 10
    assert (xs[1] - xs[0]) / (xs[2] - xs[0]) == pytest.approx(120 / 302, abs=0.01)
    assert scene.shapes["event:2"].classes == "match"
    bracket = scene.shapes["window"].attributes["d"]
    assert bracket.startswith(f"M{xs[0]:g},") and f"H{xs[2]:g}" in bracket
    assert scene.shapes["window:text"].text == "window: 302 of 310"
    assert scene.shapes["join"].attributes["d"].count("L") == 2
    hollow = [shape for key, shape in scene.shapes.items() if key.startswith("other:")]
    assert [shape.classes for shape in hollow] == ["hollow", "read"]  # b1 was tried, c1 was not


def test_what_must_not_be_there_is_shaded():
    result = cep.match("PATTERN SEQ(A a, ~(B n), C c) WITHIN 9", stream("b0 a1 c1 b2"))
    scene = story(why(result[0]))
    assert scene.shapes["gap:0"].classes == "gap"
    assert scene.shapes["gap:0"].title == "no B n"
    said = "~(B n): no such event; b0 b2 near it lie elsewhere or fail its conditions."
    assert row(scene, 2) == [("gap", said)]


def test_nothing_between_needs_no_row():
    scene = story(why(cep.match("PATTERN SEQ(A a, B b) WITHIN 9", stream("a1 b1"))[0]))
    assert "others" not in texts(scene)


def test_the_middle_of_a_long_match_is_one_row():
    events = " ".join(f"b{n}(x={n})" for n in range(1, 60))
    query = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { b[i].x > b[i-1].x }"
    result = cep.match(f"{query} WITHIN 99", stream(f"a1 {events} c1"))
    told = why(max(result, key=lambda match: len(match.events)))
    scene = story(told)
    names = texts(scene, ":name")[:-1]  # the last is the axis
    middle = len(told.parts) - BEFORE - AFTER
    assert names[BEFORE] == f"{middle} more" and len(names) == BEFORE + 1 + AFTER
    assert row(scene, BEFORE)[0] == ("tick", f"{middle} conditions hold")
    assert sum(key.startswith("event:") for key in scene.shapes) == len(told.parts)
    assert names[-2:] == ["b[59]", "c"] and ("tick", "b[i].x 59 > b[i-1].x 58") in row(scene, 12)


@pytest.mark.parametrize("engine", WATCHED)
def test_every_engine_has_stories(engine):
    trace = cep.trace(QUERY, stream(EVENTS), engine=engine)
    scene = story(why(cep.match(QUERY, stream(EVENTS))[0], trace))
    assert ElementTree.fromstring(scene.svg()) is not None
    assert "b.x 104 > a.x 101" in texts(scene)
    assert scene.say.startswith("Match #1: a = a1, b = b2, c = c2.")


def test_a_lazy_run_says_in_which_order_it_took_them():
    events = stream("a1(x=1) a2(x=1) a3(x=1) b1(x=2) b2(x=2) c1(x=3)")
    trace = cep.trace(QUERY, events, engine="lazy_chain", plan=cep.Order("c", "b", "a"))
    scene = story(why(cep.match(QUERY, events)[0], trace))
    ranks = [text.split(", ")[1] for text in texts(scene, ":step")]
    assert ranks == ["taken as number 3", "taken as number 2", "taken as number 1"]


def test_intervals_are_bars():
    events = [cep.Event("A", 0, end=4, id=1), cep.Event("B", 6, end=9, id=2)]
    scene = story(why(cep.match("PATTERN SEQ(A a, B b) WITHIN 20", events)[0]))
    assert "H" in scene.shapes["event:0"].attributes["d"]


def test_a_notebook_shows_the_story(told):
    page = told._repr_mimebundle_()["text/html"]
    assert page.index("<svg") < page.index("<table>")
    assert told.picture().shapes == story(told).shapes
    assert told.picture(width=700).width == 700


# ---- a candidate that is no match ----


@pytest.fixture(scope="module")
def verdict():
    return why_not(QUERY.replace("310", "300"), stream(EVENTS), a="a1", b="b1", c="c2")


def test_the_text_says_where_to_look(verdict):
    step = verdict.trace[verdict.step]
    assert verdict.text().splitlines()[-1] == (
        f"Show: [.timeline()] [.trace[{verdict.step}], where run {step.run} was refused b1]"
    )
    assert step.event == "b1" and not step.passed


def test_the_timeline_of_a_candidate_names_what_is_in_its_way(verdict):
    scene = verdict.timeline()
    assert scene.shapes["caption"].text == "candidate: a = a1, b = b1, c = c2"
    assert [scene.shapes[f"event:{e}"].classes for e in ("a1:a", "b1:b", "c2:c")] == ["dot"] * 3
    assert scene.shapes["event:a1:a:why"].text == "window, predicate"
    assert scene.shapes["event:b1:b:why"].text == "predicate"
    assert scene.shapes["event:c2:c:why"].text == "window"
    assert "event:b2:b:cross" not in scene.shapes
    assert "98 > 101 is false, short by 3" in scene.shapes["event:b1:b"].title
    assert scene.shapes["join"].classes == "tried"
    assert scene.shapes["window:text"].text == "window 300"
    assert scene.say.startswith("Not a match: 2 reasons.")


def test_an_event_in_between_is_crossed():
    said = why_not("PATTERN SEQ(A a, ~(C n), B b) WITHIN 300", stream(EVENTS), a="a1", b="b2")
    scene = said.timeline()
    assert scene.shapes["event:c1:n:why"].text == "negation"
    assert "event:b1:b:cross" not in scene.shapes


def test_a_late_event_is_on_its_timeline():
    rows = [("p", "A", 0), ("q", "A", 90), ("r", "B", 3)]
    rows = [{"n": n, "type": type, "time": at} for n, type, at in rows]
    late = cep.Stream.from_records(rows, id="n", lateness=5)
    scene = why_not("PATTERN SEQ(A a, B b) WITHIN 9", late, a="p", b="r").timeline()
    assert scene.shapes["event:r:b:why"].text == "lateness"


def test_a_notebook_shows_the_candidate(verdict):
    assert "<svg" in verdict._repr_mimebundle_()["text/html"]


def test_a_candidate_must_be_in_the_trace():
    trace = cep.trace(QUERY, stream(EVENTS))
    with pytest.raises(cep.CepError, match="no event 'b9' in this trace"):
        timeline(trace, candidate={"b": ["b9"]})
    with pytest.raises(cep.CepError, match="a stream has no variables"):
        timeline(stream(EVENTS), candidate={"b": ["b1"]})


# ---- whatever the data hold ----

HOSTILE = [
    *("<script>alert(1)</script>", "\"'><b onload=x>&amp;", "a\nb\tc\x00\x1b[31m", "x" * 10_000),
    *("🚀👩‍👩‍👧", "\u202eevil\u2066", "מחיר שלום", "]]>", "--><!--", "\ud800", "`"),
]


def visible(root):
    for shown in root.iter("{http://www.w3.org/2000/svg}text"):
        yield "".join([shown.text or "", *(child.tail or "" for child in shown)])


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_the_data_hold_explanations_are_well_formed_and_small(text, tmp_path):
    type = text.replace("`", "").replace("\n", "").replace("\x00", "").replace("\x1b", "")[:500]
    named = f"`{type}`" if type and not type.startswith("\ud800") else "A"
    type = type if named != "A" else "A"
    rows = [
        {"key": f"{text}1", "type": type, "time": 1, "v": text},
        {"key": f"{text}2", "type": "B", "time": 2, "v": text},
        {"key": f"{text}3", "type": "B", "time": 3, "v": "other"},
    ]
    events = cep.Stream.from_records(rows, id="key")
    query = f"PATTERN SEQ({named} a, B b) WHERE [v] WITHIN 9"
    story_of = why(cep.match(query, events)[0])
    verdict = why_not(query, events, a=f"{text}1", b=f"{text}3")
    for explained in (story_of, verdict):
        picture = explained.picture()
        for theme in ("auto", "light", "dark"):
            written = picture.svg(theme)
            root = ElementTree.fromstring(written)
            assert not root.findall(".//{*}script") and not root.findall(".//{*}b")
            assert all(len(shown) <= 140 and shown.isprintable() for shown in visible(root))
        picture.save(tmp_path / "x.html")
        page = explained._repr_mimebundle_()["text/html"]
        assert "<script" not in page and "<b onload" not in page
        assert all(line.isprintable() for line in explained.text().splitlines())
