"""The widgets without a browser: what they send, what they do when told, how they read as text."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import nbformat
import pytest
from literal import stream

import cepviz as cep
from cepviz import demo
from cepviz.engines.registry import ENGINES, refusal
from cepviz.steps import Test
from cepviz.trace import Trace
from cepviz.views.clauses import Clauses
from cepviz.views.film import Film, head
from cepviz.views.quiz import question
from cepviz.views.timeline import timeline

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">&'"
RISE = "PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9"
EVENTS = "a1(x=1) b1(x=2) b2(x=3) b3(x=0)"


@pytest.fixture(scope="module")
def trace():
    return demo.story()[-1].trace


def unpacked(data):
    return json.loads(gzip.decompress(data))


def asked(widget, **wanted):
    """What the widget answers to a request of its player."""
    sent = []
    widget.send = lambda content, buffers=None: sent.append((content, buffers))
    widget._asked(widget, {"ask": {"number": 1, "run": "", **wanted}}, [])
    ((content, (buffer,)),) = sent
    assert content == {"part": 1}
    return unpacked(buffer)


def shapes_at(part, film, panel, place):
    """The shapes of a part at a place, as the player finds them."""
    data, shapes = part["films"][film]["panels"][panel], part["films"][film]["shapes"]
    found = {}
    for key, history in zip(data["keys"], data["history"], strict=True):
        past = [shape for at, shape in zip(history[::2], history[1::2], strict=True) if at <= place]
        if past and past[-1] >= 0:
            found[key] = shapes[past[-1]]
    return found


def plain(scene):
    return {key: json.loads(json.dumps(s.to_plain())) for key, s in scene.shapes.items()}


# ---- loading ----


def test_widgets_are_loaded_when_they_are_asked_for():
    code = (
        "import sys, cepviz; assert not {'ipywidgets', 'anywidget'} & set(sys.modules);"
        "cepviz.play; assert 'ipywidgets' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_widget_resolves():
    assert all(callable(getattr(cep, name)) for name in cep.WIDGETS)


def test_without_the_packages_of_a_notebook_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "import cepviz\n"
        "from cepviz import *\n"
        "try: cepviz.Player\n"
        "except cepviz.SetupError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Player needs the package anywidget: pip install 'cepviz[lab]'"


# ---- the player ----


def test_any_part_shows_what_the_views_draw(trace):
    player = cep.Player(trace, ["automaton", "buffer", "timeline", "runs"])
    part = asked(player, start=10, stop=60)
    for place in (10, 11, 37, 59):
        for number, scene in enumerate(player.films[0].scenes(place)):
            assert shapes_at(part, 0, number, place) == plain(scene)


def test_following_a_run_draws_it_in_the_views_that_can(trace):
    player = cep.Player(trace, ["automaton", "runs"])
    index = trace.next(0, "match")
    part = asked(player, start=index, stop=index + 1, run="2")
    scenes = player.films[0].scenes(index, "2")
    assert shapes_at(part, 0, 0, index) == plain(scenes[0])
    assert plain(scenes[0]) != plain(player.films[0].scenes(index)[0])


def test_a_request_for_what_was_played_before_is_not_answered(trace):
    player = cep.Player(trace)
    player.show(cep.trace(RISE, stream(EVENTS)))
    sent = []
    player.send = lambda *content: sent.append(content)
    player._asked(player, {"ask": {"number": 1, "run": "", "start": 0, "stop": 9}}, [])
    player._asked(player, {"no": "request"}, [])
    assert sent == []
    player._asked(player, {"ask": {"number": 2, "run": "", "start": -4, "stop": 10**9}}, [])
    assert len(sent) == 1


def test_an_unknown_view_is_refused_with_the_known_ones(trace):
    with pytest.raises(cep.CepError, match=r"unknown view 'timelin' .did you mean 'timeline'"):
        cep.Player(trace, ["timelin"])


def test_a_view_of_ones_own_is_a_function(trace):
    def last_three(trace, index):
        return timeline(trace, index, width=400)

    player = cep.Player(trace, [last_three])
    assert player.films[0].views[0][0] == "Last three"
    assert player.films[0].scenes(5)[0].width == 400


def test_shapes_know_what_they_stand_for():
    film = Film(cep.trace(RISE, stream(EVENTS), engine="eager"))
    assert film.about("event:b1:ring") == ["event", "b1"]
    assert film.about("run:1:a:a1") == ["event", "a1"]
    assert film.about("run:1:name") == ["run", "1"]
    assert film.about("matches:b2") == ["match", "b2"]
    assert film.about("mark:4") == ["step", "4"]
    assert film.about("lane:0") == film.about("event:nobody") == []


def test_text_of_a_player(trace):
    player = cep.Player(trace, step=trace.next(0, "match"))
    text = player.text()
    assert text.startswith("Step 49 of 85: Match #1: a = e1 e2 e3 e4 e5, b = e6")
    assert trace.pattern in text and repr(player) == text
    assert cep.Player(Trace()).text() == "Nothing happened."


def test_play_takes_a_pattern_and_a_dataframe():
    frame = demo.stocks().to_pandas()
    rise = "PATTERN SEQ(Stock a, Stock b) WHERE b.price > a.price WITHIN 12 minutes"
    player = cep.play(rise, frame)
    assert len(player.trace.matches) > 0


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "columnar"])
def test_every_engine_with_steps_can_be_played(engine):
    text = "CONTEXT CPL SELECT <x> FROM <A> SEQUENCE <B>" if engine == "contexts" else RISE
    views = ["automaton", "buffer", "timeline", "runs"]
    player = cep.play(text, stream(EVENTS), engine=engine, views=views)
    part = asked(player, start=0, stop=len(player.trace))
    for number, scene in enumerate(player.films[0].scenes(player.count - 1)):
        assert shapes_at(part, 0, number, player.count - 1) == plain(scene)
    assert player.text() and "<svg" in player.still()


# ---- lit clauses ----


def lit(trace, index):
    return [trace.pattern[start:end] for start, end in Clauses(trace).of(trace[index])]


def test_a_test_lights_its_conditions(trace):
    index = next(
        i for i, step in enumerate(trace) if isinstance(step, Test) and step.state == "a[i]"
    )
    assert lit(trace, index) == ["[symbol]", "a[i].price > avg(a[..i-1].price)"]


def test_an_event_lights_the_variables_of_its_type():
    trace = cep.trace("PATTERN SEQ(A a, ~(C c), B+ b[]) WITHIN 9", stream("a1 b1 c1 b2"))
    arrivals = [index for index, step in enumerate(trace) if step.kind == "arrive"]
    assert [lit(trace, index) for index in arrivals] == [["A a"], ["B+ b[]"], ["C c"], ["B+ b[]"]]


@pytest.mark.parametrize("engine", ["eager", "sase", "lazy_chain", "lazy_tree", "zstream"])
def test_every_test_of_every_engine_lights_something(engine):
    text = "PATTERN SEQ(A a, B b) WHERE [k] and b.x > a.x WITHIN 2"
    trace = cep.trace(
        text, stream("a1(x=1,k=1) b1(x=2,k=1) a2(x=1,k=2) b2(x=3,k=2)"), engine=engine
    )
    for index, step in enumerate(trace):
        if isinstance(step, Test) and step.tests:
            assert "b.x > a.x" in lit(trace, index) or "[k]" in lit(trace, index)
        if step.kind == "drop" and step.reason == "window":
            assert lit(trace, index) == ["WITHIN 2"]


# ---- the quiz ----


def test_the_right_answer_is_what_happens(trace):
    kinds = set()
    for index, step in enumerate(trace):
        asking = question(trace, index)
        if asking is None:
            continue
        kinds.add(step.kind)
        right = asking.answers[asking.right]
        if isinstance(step, Test):
            assert (right == "It holds.") == step.passed
        elif step.kind == "match":
            assert right == "A match is found."
        elif step.kind == "move":
            assert step.run in right and (step.event in right or step.action == "proceed")
        assert len(set(asking.answers)) == len(asking.answers)
        assert question(trace, index) == asking
    assert {"test", "move", "spawn", "match"} <= kinds


def test_wrong_answers_are_wrong(trace):
    """No other answer says what a step with the same words would."""
    for index in range(len(trace)):
        asking = question(trace, index)
        if asking and len(asking.answers) > 2:
            others = [a for n, a in enumerate(asking.answers) if n != asking.right]
            assert asking.answers[asking.right] not in others


def test_a_head_has_a_question_for_each_step_that_has_one(trace):
    words = head(Film(trace))
    assert set(words["questions"]) == {i for i in range(len(trace)) if question(trace, i)}
    assert words["say"] == [step.say() for step in trace]


# ---- side by side ----


def test_compare_goes_by_events_and_finds_what_differs():
    strategies = ["skip_till_next_match", "skip_till_any_match"]
    both = cep.compare(RISE, stream(EVENTS), strategies=strategies)
    assert both.count == 4
    assert both.differences == {"a = a1, b = b2": ["skip_till_any_match"]}
    part = asked(both, start=0, stop=4)
    for place in range(4):
        for number, film in enumerate(both.films):
            for panel, scene in enumerate(film.scenes(place)):
                assert shapes_at(part, number, panel, place) == plain(scene)
    (table,) = unpacked(both._head)["tables"]
    assert [(row["cells"][1:], row["at"]) for row in table["rows"]] == [
        (["◆", "◆"], [1, 1, 1]),
        (["–", "◆"], [2, None, 2]),
    ]


def test_compare_engines_and_plans():
    engines = cep.compare(RISE, stream(EVENTS), engines=["eager", "lazy_chain", "zstream"])
    assert engines.differences == {}
    assert "2 matches, the same for all" in engines.text()
    orders = [cep.Order("a", "b"), cep.Order("b", "a")]
    plans = cep.compare(RISE, stream(EVENTS), plans=orders, engine="lazy_chain")
    assert [film.title for film in plans.films] == [str(order) for order in orders]
    assert plans.differences == {}


def test_compare_takes_all_strategies_the_pattern_can_have():
    assert cep.compare(RISE, stream(EVENTS)).names == [
        "strict_contiguity", "skip_till_next_match", "skip_till_any_match",
    ]  # fmt: skip
    with pytest.raises(cep.PatternError):
        cep.compare(
            RISE, stream(EVENTS), strategies=["partition_contiguity", "skip_till_any_match"]
        )


def test_compare_refuses_traces_of_different_streams():
    traces = {name: cep.trace(RISE, stream(name)) for name in ("a1(x=1)", "a2(x=1)")}
    with pytest.raises(cep.CepError, match="not a trace of the same events"):
        cep.Compare(traces)
    with pytest.raises(cep.CepError, match="plans need an engine"):
        cep.compare(RISE, stream(EVENTS), plans=[cep.Order("a", "b")])


# ---- racing ----

LONG = "PATTERN SEQ(A a, B b, C c) WITHIN 12"


def long_stream(times=60):
    return [{"type": t, "time": n} for n, t in enumerate("AABC" * times)]


def test_all_engines_that_take_the_pattern_race_but_the_brute_force():
    race = cep.Race(LONG, long_stream())
    takers = [
        name for name, engine in ENGINES.items()
        if refusal(engine, cep.parse(LONG), watch=True) is None
    ]  # fmt: skip
    assert race.names == [name for name in takers if name != "naive"]
    race.run()
    result = cep.match(LONG, long_stream(), engine="eager")
    assert [row["matches"] for row in race.rows] == [len(result)] * len(race.names)
    (eager,) = [row for row in race.rows if row["name"] == "eager"]
    assert eager["evaluations"] == result.counters["evaluations"]
    assert race.verdict == f"All found the same {len(result):,} matches."
    assert all(row["state"] == "done" and row["events"] == 240 for row in race.rows)


def test_a_race_runs_beside_the_notebook_and_can_be_paused():
    async def watch():
        race = cep.Race(LONG, long_stream(600), ["eager", "lazy_chain"])
        race._told(race, {"do": "start"}, [])
        await asyncio.sleep(0.05)
        assert race.running
        race._told(race, {"do": "pause"}, [])
        await asyncio.sleep(0.1)
        places = [row["events"] for row in race.rows]
        assert not race.running and min(places) > 0 and race.verdict == ""
        await asyncio.sleep(0.05)
        assert [row["events"] for row in race.rows] == places
        race.start()
        while race.running:
            await asyncio.sleep(0.01)
        assert race.verdict.startswith("All found the same")
        race.again()
        assert [row["events"] for row in race.rows] == [0, 0]

    # In a thread of its own: a browser of other tests may run a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, watch()).result()


def test_an_engine_that_runs_out_of_budget_is_said_to():
    race = cep.Race(LONG, long_stream(), ["eager", "sase"], budget={"matches": 5})
    race.run()
    assert race.verdict == "eager, sase did not come to the end."
    assert "stopped" in race.text()


def test_engines_that_differ_are_told(monkeypatch):
    race = cep.Race(LONG, long_stream(), ["eager", "sase"])
    race.run()
    race._runners[1].matches.pop()
    assert race._judged().startswith("They did not find the same")


# ---- explaining ----


def test_explain_tells_why_and_plays_it():
    explain = cep.Explain(cep.match(RISE, stream(EVENTS)))
    assert explain._state["chosen"] == 0
    explain._told(explain, {"do": "match", "number": 1}, [])
    assert explain._state["chosen"] == 1
    assert explain._state["answer"]["lines"][0].startswith("Match #2: a = a1, b = b2")
    assert explain.films[0].trace[explain.step].kind == "match"
    assert explain._state["answer"]["picture"]["panels"][0]["keys"]


def test_explain_tells_why_not_and_applies_the_fix():
    explain = cep.Explain(cep.match(RISE, stream(EVENTS)))
    explain._told(explain, {"do": "why_not", "picks": {"a": "a1", "b": "b3"}}, [])
    state = explain._state
    assert "b.x > a.x: 0 > 1 is false" in state["answer"]["lines"][1]
    assert state["fixes"][0] == "b.x >= a.x - 1"
    explain._told(explain, {"do": "fix", "number": 0}, [])
    assert [match.ids["b"] for match in explain.result] == ["b1", "b2", "b3"]
    state = explain._state
    assert [row["isNew"] for row in state["matches"]] == [False, False, True]
    assert state["chosen"] == 2 and state["changed"]
    assert state["said"] == "Applied: b.x >= a.x - 1. 3 matches now, 2 before."
    explain._told(explain, {"do": "back"}, [])
    assert len(explain.result) == 2 and not explain._state["changed"]


def test_explain_says_what_was_wrong_with_a_pick():
    explain = cep.Explain(cep.match(RISE, stream(EVENTS)))
    explain._told(explain, {"do": "why_not", "picks": {"a": "a7", "b": ""}}, [])
    assert "a7" in explain._state["said"]
    explain._told(explain, {"do": "fix", "number": 7}, [])
    assert "no fix" in explain._state["said"]


def test_explain_of_nothing_is_the_funnel():
    explain = cep.Explain(cep.match("PATTERN SEQ(A a, B b) WHERE b.x > 9 WITHIN 9", stream(EVENTS)))
    assert explain._state["answer"]["tables"][0]["title"] == "Funnel"
    assert explain._state["chosen"] is None


def test_kleene_picks_are_several_events():
    plus = "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match { b[i].x > 0 } WITHIN 9"
    explain = cep.Explain(cep.match(plus, stream(EVENTS)))
    explain._told(explain, {"do": "why_not", "picks": {"a": "a1", "b": "b1, b3"}}, [])
    assert explain._state["answer"]["lines"][0].startswith("Not a match")
    assert explain.answer.bindings["b"][1].id == "b3"


# ---- editing ----


@pytest.fixture
def editor():
    return cep.StreamEditor(RISE, stream(EVENTS))


def changes(editor):
    return [(c.sign, c.match.ids["b"], c.why.lines()[0]) for c in editor.changes]


def test_an_edit_makes_matches_come_and_go_with_the_reason(editor):
    editor._told(editor, {"do": "edit", "label": "b1", "column": "x", "value": "1"}, [])
    assert changes(editor) == [("-", "b1", "Not a match: 1 reason.")]
    assert "1 > 1 is false" in editor._state["changes"][0]["why"]["lines"][1]
    editor._told(editor, {"do": "edit", "label": "b3", "column": "x", "value": "7"}, [])
    assert [(sign, b) for sign, b, _ in changes(editor)] == [("-", "b1"), ("+", "b3")]
    editor._told(editor, {"do": "undo"}, [])
    assert [(sign, b) for sign, b, _ in changes(editor)] == [("-", "b1")]
    editor._told(editor, {"do": "reset"}, [])
    assert changes(editor) == [] and editor.stream is editor.first


def test_a_dropped_event_is_named(editor):
    editor._told(editor, {"do": "drop", "label": "b2"}, [])
    assert changes(editor) == [("-", "b2", "b2 is no longer in the stream.")]
    assert len(editor.stream) == 3


def test_a_moved_event_changes_places_with_its_neighbour(editor):
    editor._told(editor, {"do": "move", "label": "a1", "by": 1}, [])
    assert [event.id for event in editor.stream] == ["b1", "a1", "b2", "b3"]
    assert changes(editor)[0][:2] == ("-", "b1")
    assert "order" in editor._state["changes"][0]["why"]["lines"][1]
    editor._told(editor, {"do": "move", "label": "b1", "by": -1}, [])  # the first stays the first
    assert [event.id for event in editor.stream] == ["b1", "a1", "b2", "b3"]


def test_events_are_added_and_copied(editor):
    editor.add("B", 2.5, x=9)
    assert [event.id for event in editor.stream] == ["a1", "b1", "b2", "new1", "b3"]
    assert [(sign, b) for sign, b, _ in changes(editor)] == [("+", "new1")]
    editor._told(editor, {"do": "copy", "label": "b1"}, [])
    assert [(sign, b) for sign, b, _ in changes(editor)] == [("+", "new2"), ("+", "new1")]


def test_times_are_edited_as_they_are_shown():
    editor = cep.StreamEditor(
        "PATTERN SEQ(Stock a, Stock b) WHERE b.price > a.price WITHIN 12 minutes", demo.stocks()
    )
    said = {"do": "edit", "label": "e2", "column": "time", "value": "2024-01-02 10:18"}
    editor._told(editor, said, [])
    assert editor.stream[2].attributes["time"] == editor.stream[2].end
    assert ("-", 2) in [(c.sign, c.match.ids["b"]) for c in editor.changes]
    assert [event.id for event in editor.stream][:3] == [1, 3, 2]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("x", "many", "x is a number"), ("time", "noon", "time is a number"), ("y", "1", "no column")],
)
def test_what_cannot_be_is_said_and_not_done(editor, column, value, said):
    editor._told(editor, {"do": "edit", "label": "b1", "column": column, "value": value}, [])
    assert said in editor._state["said"]
    assert editor.changes == [] and editor.stream is editor.first


def test_a_long_stream_is_not_for_editing_by_hand():
    with pytest.raises(cep.CepError, match="too many to edit by hand"):
        cep.StreamEditor(LONG, long_stream())


# ---- without a kernel ----


# ---- the context lab ----


def test_the_context_lab_moves_intervals_and_matches_again():
    lab = cep.ContextLab()
    assert [len(found) for found in lab.results.values()] == [3, 3, 4, 4]
    handle = {(h["id"], h["edge"]): h["at"] for h in lab._state["handles"]}
    assert (handle["a3", "start"], handle["a3", "end"]) == (9, 12)
    lab._told(None, {"do": "move", "id": "a3", "edge": "end", "to": 9}, None)
    assert [match.ids["initiator"] for match in lab.results["compact"]] == ["a1", "a2", "a3", "a4"]
    lab.move("a3", start=30)  # an end cannot pass the other
    assert (lab.events[4].start, lab.events[4].end) == (9, 9)
    with pytest.raises(cep.CepError, match="no event 'zz'"):
        lab.move("zz", end=3)


def test_the_context_lab_shows_the_cache_before_and_after_a_slide():
    lab = cep.ContextLab()
    lab._told(None, {"do": "choose", "name": "source", "value": "<A> KLNCLOSE <B>, <C>"}, None)
    assert "detectors" in repr(lab.results["complete"][0])
    lab.window = "COUNT 1, COUNT 1"
    keys = str(lab._state["cache"]["panels"][0])
    assert "before:" in keys and "after:" in keys
    lab.source = "<A> SEQUENS <B>"
    assert "SEQUENS" in lab._state["said"]


NAMES = [name for name in cep.WIDGETS if name[0].isupper()]


@pytest.fixture(scope="module")
def hostile():
    """Every widget, on a stream and a pattern that would rather be markup."""
    rows = [{"type": HOSTILE, "time": 1, "x": HOSTILE}, {"type": "B", "time": 2, "x": "y"}]
    pattern = f"PATTERN SEQ(`{HOSTILE}` a, B b) WITHIN 9"
    trace = cep.trace(pattern, rows, engine="sase")
    other = cep.trace(pattern, rows, engine="eager")
    return {
        "Player": cep.Player(trace),
        "Compare": cep.Compare({HOSTILE: trace, "other": other}),
        "Race": cep.Race(pattern, rows),
        "Explain": cep.Explain(cep.match(pattern, rows)),
        "StreamEditor": cep.StreamEditor(pattern, rows),
        "AdaptLab": cep.AdaptLab(pattern),
        "ContextLab": cep.ContextLab(rows, f"<`{HOSTILE}`> SEQUENCE <B>"),
    }


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.found, self.attributes = set(), {}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.add(tag)
        self.attributes |= dict(attributes)


@pytest.mark.parametrize("name", NAMES)
def test_every_widget_reads_without_a_kernel(hostile, name):
    data, _ = hostile[name]._repr_mimebundle_()
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} <= set(data)
    word = "CONTEXT" if name == "ContextLab" else "PATTERN"
    assert data["text/plain"] == hostile[name].text() and word in data["text/html"]
    page = Tags(data["text/html"])
    assert not page.found & {"script", "img", "link", "iframe", "object"}
    assert not {name for name in page.attributes if name in ("src", "href") or name[:2] == "on"}
    assert not re.search(r"@import|url\(", data["text/html"])
    assert "&lt;img" in data["text/html"]


@pytest.mark.parametrize("name", NAMES)
def test_no_widget_asks_for_code_or_style_from_elsewhere(hostile, name):
    widget = hostile[name]
    code = str(widget._esm).replace("http://www.w3.org/2000/svg", "") + str(widget._css)
    assert not re.search(r"https?:|\bimport\b|@import|url\(|innerHTML|eval\(", code)


def test_a_saved_notebook_shows_the_still_page():
    from nbconvert import HTMLExporter

    player = cep.play(RISE, stream(EVENTS), engine="sase")
    data, metadata = player._repr_mimebundle_()
    output = nbformat.v4.new_output("display_data", data, metadata=metadata)
    cell = nbformat.v4.new_code_cell("player", outputs=[output])
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(
        nbformat.v4.new_notebook(cells=[cell])
    )
    assert "Step" in page and "<svg" in page and "Match #1" in page
