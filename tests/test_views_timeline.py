"""Timeline, runs, plan, invariants and metrics: what they draw for small traces."""

import gc
import pickle
import re
import subprocess
import sys
import weakref
import xml.etree.ElementTree as ET

import pytest
from literal import WATCHED, stream
from test_sase import QUERY_3, google

import cepviz as cep
from cepviz.steps import Arrive, Check, Drop, Matched, Move, Replan, Spawn, Step
from cepviz.trace import Trace
from cepviz.views.axis import nice_times
from cepviz.views.invariants import invariants, invariants_text
from cepviz.views.metrics import measures, metrics, metrics_text
from cepviz.views.plan import plan, plan_text
from cepviz.views.plan_numbers import as_plan
from cepviz.views.runs import lives, runs, runs_text
from cepviz.views.timeline import timeline, timeline_text

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

ABC = "PATTERN SEQ(A a, B b, C c) WHERE a.x < b.x and b.x < c.x WITHIN 999"
NEGATED = "PATTERN SEQ(A a, ~(D d), B b, C c) WITHIN 9"
HOSTILE = ["<script>alert(1)</script>", "\"'&", "a\nb\tc\x00\x1b[31m", "L" * 10_000, "🎉👩‍👩‍👧",
           "‮שלום‬ مرحبا", "\ud800"]  # fmt: skip


@pytest.fixture(scope="module")
def query_3():
    return cep.trace(QUERY_3, google(), engine="sase")


@pytest.fixture(scope="module")
def lazy():
    events = stream("b1(x=2) a1(x=1) b2(x=2) c1(x=3) a2(x=1) b3(x=2) b4(x=9) c2(x=4)")
    return cep.trace(ABC, events, "lazy_chain", cep.Order(*"cab"))


@pytest.fixture(scope="module")
def negated():
    return cep.trace(NEGATED, stream("a1 d1 b1 c1 a2 b2 c2"), "sase")


def classes(scene, keys):
    return [scene.shapes[key].classes for key in keys]


def of_events(scene):
    """The class of every event's mark, by label."""
    return {
        key.removeprefix("event:"): shape.classes
        for key, shape in scene.shapes.items()
        if re.fullmatch(r"event:\w+", key)
    }


def texts(scene):
    return {key: shape.text for key, shape in scene.shapes.items() if shape.text}


def step_of(trace, kind, number=0):
    return [index for index, step in enumerate(trace) if step.kind == kind][number]


# ---- timeline ----


def test_a_match_is_joined_and_ends_in_a_diamond(query_3):
    scene = timeline(query_3, step_of(query_3, "match"))
    assert of_events(scene) == {
        "e1": "dot", "e2": "dot", "e3": "dot", "e4": "dot", "e5": "dot", "e6": "match",
        "e7": "read dim", "e8": "read dim",
    }  # fmt: skip
    assert scene.shapes["join"].attributes["d"].count("L") == 5
    assert scene.say == "Match #1: a = e1 e2 e3 e4 e5, b = e6, 5 of 3600."
    said = texts(scene)
    assert said["caption"] == "match #1 of run 1.0.0: a = e1 e2 e3 e4 e5, b = e6"
    assert said["window:text"] == "window: 5 of 3600"
    assert said["now:text"] == "e6" and said["matches:e6:text"] == "#1"


def test_an_ignored_event_is_hollow_and_those_before_the_run_are_only_read(query_3):
    scene = timeline(query_3, 39)
    assert query_3[39].say() == "Run 2 ignores e5 and stays at a[i]."
    assert of_events(scene) == {
        "e1": "read", "e2": "read", "e3": "dot", "e4": "dot", "e5": "hollow",
        "e6": "read dim", "e7": "read dim", "e8": "read dim",
    }  # fmt: skip
    assert scene.shapes["join"].attributes["d"] == ""
    assert texts(scene)["window:text"] == "window 1 hour"
    assert scene.shapes["event:e5:ring"].classes == "ring"


def test_a_chosen_run_or_match_is_followed_whatever_the_step_is(query_3):
    followed = timeline(query_3, 84, run="1")
    assert of_events(followed)["e1"] == "dot" and of_events(followed)["e8"] == "dot"
    second = timeline(query_3, match=2)
    assert [e for e, mark in of_events(second).items() if mark in ("dot", "match")] == [
        "e3", "e4", "e6",
    ]  # fmt: skip
    with pytest.raises(cep.CepError, match="no match #9 in this trace: it has 1 to 3"):
        timeline(query_3, match=9)


def test_a_scope_has_a_bracket_and_what_lies_outside_is_a_hollow_square(lazy):
    scene = timeline(lazy, step_of(lazy, "scope", -1))
    assert lazy[step_of(lazy, "scope", -1)].say() == (
        "Run 8 searches the buffer b from a2 to c2: b3, b4."
    )
    assert of_events(scene) == {
        "b1": "hollow-square", "a1": "hollow-square", "b2": "hollow-square",
        "c1": "hollow-square", "a2": "dot", "b3": "square", "b4": "square", "c2": "dot",
    }  # fmt: skip
    assert texts(scene)["scope:text"] == "scope of b (a2, c2): 2 found"
    a2, c2 = (x_of(scene, f"event:{label}") for label in ("a2", "c2"))
    found = re.fullmatch(r"M([\d.]+),.*H([\d.]+)V.*", scene.shapes["scope"].attributes["d"])
    assert [float(x) for x in found.groups()] == [a2, c2]


def x_of(scene, key):
    """The middle of a mark: of a circle or square drawn as a path."""
    path = scene.shapes[key].attributes["d"]
    start, _, rest = path[1:].partition(",")
    width = re.search(r"0 1 0 ([\d.]+),0|h([\d.]+)", rest)
    return float(start) + float(width[1] or width[2]) / 2


def test_the_gap_of_a_negation_is_shaded_and_its_culprit_crossed(negated):
    scene = timeline(negated, step_of(negated, "drop"))
    a1, b1 = x_of(scene, "event:a1"), x_of(scene, "event:b1")
    found = re.fullmatch(r"M([\d.]+),.*?H([\d.]+)V.*", scene.shapes["gap"].attributes["d"])
    assert [float(x) for x in found.groups()] == [a1, b1]
    assert scene.shapes["event:d1:cross"].classes == "drop"
    assert texts(scene)["gap:text"] == "no D d"
    assert texts(scene)["caption"].startswith("run 1.1.1, dropped (negation)")
    before = timeline(negated, 0)
    assert before.shapes["gap"].attributes["d"] == "" and "event:d1:cross" not in before.shapes


def test_lanes_of_variables_show_an_event_wherever_it_may_stand(query_3):
    scene = timeline(query_3, step_of(query_3, "match"), lanes="variable")
    assert [texts(scene)[f"lane:{n}:name"] for n in (0, 1)] == ["a[]: Stock", "b: Stock"]
    assert classes(scene, ["event:e5:a", "event:e5:b"]) == ["dot", "read"]
    assert classes(scene, ["event:e6:a", "event:e6:b"]) == ["read", "match"]
    with pytest.raises(cep.CepError, match="lanes are by 'type' or 'variable', not 'colour'"):
        timeline(query_3, lanes="colour")


def test_events_that_last_are_bars():
    events = stream("a1@0-4 b1@5-9")
    scene = timeline(cep.trace("PATTERN SEQ(A a, B b) WITHIN 30", events, "naive"))
    first, last = scene.shapes["event:a1"], scene.shapes["event:b1"]
    assert re.fullmatch(r"M140\.?0?,[\d.]+H[\d.]+V[\d.]+H140\.?0?Z", first.attributes["d"])
    assert (first.classes, last.classes) == ("dot", "match")


def test_a_stream_is_drawn_without_a_run():
    scene = timeline(stream("a1 b1 a2"), 1)
    assert of_events(scene) == {"a1": "read", "b1": "read", "a2": "read dim"}
    assert scene.say == "b1 B arrives at 1."
    with pytest.raises(cep.CepError, match="a stream has no runs"):
        timeline(stream("a1"), run="1")
    with pytest.raises(IndexError, match="no event 5"):
        timeline(stream("a1"), 5)


def test_a_long_stream_is_shown_around_the_current_event_and_counted_outside():
    events = cep.Stream.from_records({"type": "AB"[n % 2], "time": n} for n in range(1500))
    scene = timeline(events, 700)
    marks = of_events(scene)
    assert len(marks) == 300 and texts(scene)["now:text"] == "e700"
    assert (marks["e700"], marks["e701"]) == ("read", "read dim")
    assert texts(scene)["earlier"] == "◀ 600 earlier" and texts(scene)["later"] == "600 later ▶"


def test_crowded_times_are_spread_and_the_axis_says_so():
    times = [*range(100), *range(10**6, 10**6 + 30)]
    scene = timeline(cep.Stream.from_records({"type": "A", "time": t} for t in times))
    assert texts(scene)["axis:name"] == "time in s, not to scale"


def test_ticks_are_round_and_dates_are_said_once():
    assert nice_times(3, 47, cep.Schema()) == [10, 20, 30, 40]
    events = cep.Stream.from_records(
        {"type": "A", "time": f"2024-05-01 10:{minute:02}:30"} for minute in range(0, 60, 7)
    )
    said = texts(timeline(events))
    ticks = [text for key, text in said.items() if re.fullmatch(r"tick:\d+:text", key)]
    assert ticks == ["10:10", "10:20", "10:30", "10:40", "10:50"]
    assert said["axis:name"] == "2024-05-01"


def test_the_timeline_in_letters(negated):
    assert timeline_text(negated, step_of(negated, "drop"), width=40).splitlines() == [
        "window ├─────────────────────────────▸",
        "A      ●                   ˙",
        "D           ✕",
        "B                ●              ˙",
        "C                     ●              ˙",
        "                      ▲ c1",
        "       0                             6",
        "Run 1.1.1 is dropped (negation, at d1): d1 is a d that must not be, so a = a1, b = b1, "
        "c = c1 is no match.",
        "● in the run  ˙ to come  ✕ must not be",
    ]


# ---- runs ----


def test_runs_are_rows_with_their_family(query_3):
    scene = runs(query_3)
    names = {k: t for k, t in texts(scene).items() if k.endswith(":name") and k.startswith("run")}
    assert list(names.values()) == ["1", "1.0.0", "1.1.0", "2", "2.0.0"]
    assert [scene.shapes[k].attributes["y"] for k in names] == sorted(
        scene.shapes[k].attributes["y"] for k in names
    )
    assert "run:1.0.0:kin" in scene.shapes and "run:1:kin" not in scene.shapes
    words = [texts(scene)[f"run:{run}:word"] for run in names.values()]
    assert words == ["at a[i]", "#1", "#3", "at a[i]", "#2"]
    assert scene.shapes[f"mark:{step_of(query_3, 'match')}"].classes == "match"
    assert scene.shapes["mark:39"].classes == "hollow"


def test_a_dropped_run_has_a_cross_and_the_reason_as_a_word(negated):
    index = step_of(negated, "drop")
    scene = runs(negated, index)
    assert scene.shapes[f"mark:{index}"].classes == "drop"
    assert texts(scene)["run:1.1.1:word"] == "negation"
    assert "run:2" not in scene.shapes  # not born yet


def test_merged_runs_are_connected():
    trace = cep.trace(QUERY_3.replace("avg(", "max("), google(), "sase", algorithm="merging")
    scene = runs(trace)
    assert texts(scene)["run:2:word"] == "into 1" and "run:2:into" in scene.shapes


def crowd(count):
    """Runs 1 to `count`, one born and one dropped with each event."""
    trace = Trace()
    for n in range(count):
        trace(Arrive(f"e{n}", "A", str(n), {}, n, n))
        trace(Move(str(n), f"e{n}", "begin", "begin a", "a", "b"))
        if n:
            trace(Drop(str(n - 1), "window", f"e{n}"))
    return trace


def test_of_many_runs_the_newest_are_shown_and_the_others_counted():
    trace = crowd(352)
    scene = runs(trace)
    assert texts(scene)["others"] == "+312 more runs: 312 dropped by window"
    assert "run:351" in scene.shapes and "run:0" not in scene.shapes
    assert runs_text(trace).splitlines()[-1] == "+312 more runs: 312 dropped by window"


def test_a_row_keeps_its_place_while_its_run_is_shown():
    trace, rows = crowd(60), {}
    for index in range(len(trace)):
        for key, shape in runs(trace, index, most=5).shapes.items():
            if re.fullmatch(r"run:\d+:name", key):
                assert rows.setdefault(key, shape.attributes["y"]) == shape.attributes["y"]


def test_a_run_that_is_born_twice_has_two_keys():
    trace = Trace()
    trace(Arrive("e1", "A", "1"))
    for _ in range(2):
        trace(Spawn("0", "1", "e1", "q1", "take"))
        trace(Drop("1", "window", "e1"))
    assert [life.key for life in lives(trace)] == ["run:0", "run:1", "run:1~2"]
    assert "run:1~2" in runs(trace).shapes


def test_an_engine_without_runs_says_so():
    trace = cep.trace("PATTERN SEQ(A a) WITHIN 9", stream("a1"), "naive")
    assert texts(runs(trace))["empty"].startswith("No runs")
    assert runs_text(trace) == "No runs."


# ---- plan ----


def test_an_order_is_a_chain_with_what_was_tried_and_passed(lazy):
    scene = plan(lazy, expected={"a": 6.0})
    said = texts(scene)
    assert [said[f"node:{name}:name"] for name in "cab"] == ["1. c: C", "2. a: A", "3. b: B"]
    assert [said[f"node:c:{n}"] for n in range(3)] == ["2 events", "2 of 2 passed", "2 runs out"]
    assert said["node:b:1"] == "4 of 6 passed" and said["node:b:share"] == "67%"
    assert (said["node:a:expected:number"], said["node:a:actual:number"]) == ("6", "3")
    assert said["node:a:off"] == "2 times fewer"
    assert "6 expected (×0.5)" in scene.shapes["node:a"].title
    assert "node:b:expected" not in scene.shapes, "nothing is expected of it"
    assert said["flow:a:b:text"] == "3"
    start = plan(lazy, 0)
    assert texts(start)["node:c:0"] == "0 events"


def test_a_tree_has_its_leaves_at_the_bottom():
    events = stream("a1(x=1) b1(x=2) c1(x=3) c2(x=0)")
    trace = cep.trace(ABC, events, "zstream", cep.Tree(("a", ("b", "c"))))
    scene = plan(trace)
    y = {k: s.attributes["y"] for k, s in scene.shapes.items() if s.classes == "state"}
    assert y["node:(a (b c))"] < y["node:(b c)"] < y["node:a"] == y["node:b"] == y["node:c"]
    assert texts(scene)["node:(b c):0"] == "1 of 2 passed"
    assert texts(scene)["flow:c:(b c):text"] == "2"
    assert plan_text(trace).splitlines()[1] == "join (a (b c))  (1 of 1 passed; 1 run out)"


def test_expected_and_actual_are_bars_on_one_scale(lazy):
    scene = plan(lazy, expected={"c": 2.0, "a": 3.0, "b": 900.0})
    said = texts(scene)
    wide = {
        (name, word): scene.shapes[f"node:{name}:{word}:bar"].attributes["width"]
        for name in "cab" for word in ("expected", "actual")
    }  # fmt: skip
    assert wide["c", "expected"] == wide["c", "actual"] < wide["a", "actual"]
    assert wide["b", "expected"] == max(wide.values()) > 4 * wide["b", "actual"]
    assert said["node:c:off"] == "as expected" and "node:c:far" not in scene.shapes
    assert said["node:b:off"] == "225 times fewer"
    assert scene.shapes["node:b:far"].classes == "cross", "not by colour alone"
    classes = {scene.shapes[f"node:c:{word}:bar"].classes for word in ("expected", "actual")}
    assert classes == {"other-side", "watched"}, "hollow and filled"


def test_a_leaf_of_a_tree_has_what_it_kept_beside_what_was_expected():
    events = stream("a1(x=1) b1(x=2) c1(x=3) c2(x=0)")
    trace = cep.trace(ABC, events, "zstream", cep.Tree(("a", ("b", "c"))))
    said = texts(plan(trace, expected={"c": 4.0, "(b c)": 0.25}))
    assert (said["node:c:expected:number"], said["node:c:actual:number"]) == ("4", "2")
    assert (said["node:(b c):expected:number"], said["node:(b c):off"]) == ("0.25", "4 times more")
    assert plan_text(trace, expected={"c": 4.0}).splitlines()[-1] == (
        "    c: C  (2 events; 2 kept, 100%; 4 expected (×0.5))"
    )


def test_a_plan_alone_is_drawn_with_given_counts():
    said = texts(plan(cep.Order("b", "a"), pattern="PATTERN SEQ(A a, B b) WITHIN 9",
                      counts={"A": 70, "B": 3}))  # fmt: skip
    assert (said["node:b:0"], said["node:a:0"]) == ("3 events", "70 events")
    assert plan(cep.Order("b", "a")).say == "Order b, a."


def test_a_loop_and_the_variable_after_it_are_counted_apart(query_3):
    assert plan_text(query_3).splitlines()[1:] == [
        "1. a[]: Stock  (8 events; 11 of 14 passed; 11 runs out)",
        "  2. b: Stock  (8 events; 3 of 12 passed; 3 runs out)",
    ]


@pytest.mark.parametrize("text", ["c, a, b", "((a b) c)", "(a (b (c d)))", "a"])
def test_a_plan_is_read_from_what_it_prints(text):
    assert str(as_plan(text)) == text


@pytest.mark.parametrize("text", ["(a b", "(a b) c", "(a b c)"])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(cep.PlanError):
        as_plan(text)


# ---- invariants and metrics ----


def adaptive():
    trace = Trace(plan="c, b, a")
    trace(Arrive("e1", "A", "1"))
    trace(Check("1", "rate(C)", "rate(B)", 9.5, 15.8, True))
    trace(Check("2", "rate(B)", "rate(A)", 15.8, 16.2, True))
    trace(Arrive("e2", "A", "2"))
    trace(Check("2", "rate(B)", "rate(A)", 17.1, 16.0, False))
    trace(Replan("c, b, a", "c, a, b", "invariant 2 broke"))
    trace(Check("1", "rate(C)", "rate(A)", 9.5, 16.0, True))
    return trace


def test_an_invariant_is_two_bars_and_a_gap_that_is_crossed_when_it_breaks():
    trace = adaptive()
    holds, broke = invariants(trace, 2), invariants(trace, 4)
    keys = ["invariant:2:left", "invariant:2:right", "invariant:2:gap"]
    assert classes(holds, keys) == ["watched", "other-side", "now"]
    assert classes(broke, keys) == ["broken", "other-side", "drop"]
    assert texts(holds)["invariant:2:word"] == "holds, watched"
    assert texts(broke)["invariant:2:word"] == "✕ broken"
    assert texts(broke)["invariant:2:slack"] == "crossed by 1.1, 7% of the right side"
    left, right = (holds.shapes[key].attributes["width"] for key in keys[:2])
    assert left < right
    left, right = (broke.shapes[key].attributes["width"] for key in keys[:2])
    assert left > right


def test_a_distance_moves_the_place_where_it_breaks():
    trace = Trace()
    trace(Check("1", "rate(B)", "rate(A)", 11.0, 10.0, True, 0.2))
    said = texts(invariants(trace))
    assert said["invariant:1:slack"] == "gap 1, 10% of the right side"
    assert said["invariant:1:distance"] == "distance 20%: breaks at 12"
    assert "invariant:1:limit" in invariants(trace).shapes
    assert trace[0].say() == "Invariant 1 holds: rate(B) 11 < rate(A) 10 (and 20% more)."
    assert Step.from_plain(trace[0].to_plain()) == trace[0]
    assert Step.from_plain(trace[0].to_plain()[:-1]).distance == 0, "as older files have it"
    plain = Trace()
    plain(Check("1", "rate(B)", "rate(A)", 9.0, 10.0, True))
    assert "invariant:1:limit" not in invariants(plain).shapes


def test_a_new_plan_shows_its_own_invariants_and_what_brought_it():
    trace = adaptive()
    said = texts(invariants(trace))
    assert said["plan"] == "New plan c, a, b"
    assert said["because"] == (
        "instead of c, b, a, because invariant 2 broke (rate(B) 17.1 < rate(A) 16)"
    )
    assert "invariant:2:name" not in said
    assert texts(invariants(trace, 5))["invariant:1:word"] == "not checked yet"
    assert invariants_text(trace).splitlines()[0] == trace[5].say()
    assert "No invariant" in invariants_text(Trace())


def test_the_scale_of_the_bars_stays_while_a_plan_is_in_use():
    trace = adaptive()
    widths = [invariants(trace, i).shapes["invariant:1:left"].attributes["width"] for i in (1, 4)]
    assert widths[0] == widths[1]


def test_a_plan_is_followed_through_replans():
    trace = adaptive()
    assert plan(trace, 4).say == "Order c, b, a." and plan(trace).say == "Order c, a, b."


def test_metrics_count_what_the_trace_and_its_snapshots_say(query_3, lazy):
    for trace in (query_3, lazy):
        known = measures(trace)
        for place, label in enumerate(known.events):
            after = [i for i in range(len(trace)) if trace.event_of(i) == label][-1]
            snapshot = trace.at(after)
            assert {name: values[place] for name, values in known.series.items()} == {
                "evaluations": snapshot.counts["test"],
                "live runs": len({*snapshot.runs} | _roots(trace, after)),
                "buffered events": sum(map(len, snapshot.buffers.values())),
                "matches": snapshot.counts["match"],
            }


def _roots(trace, index):
    """Runs that only ever split, which a snapshot does not list."""
    return {step.run for step in trace[: index + 1] if isinstance(step, Spawn)} - {
        step.run for step in trace[: index + 1] if isinstance(step, Drop | Matched)
    }


def test_several_traces_are_lines_that_differ_by_more_than_colour(query_3, lazy):
    figure = metrics({"one": query_3, "<script>": lazy})
    assert len(figure.data) == 8
    assert {line.line.dash for line in figure.data} == {"solid", "dash"}
    assert [a.text for a in figure.layout.annotations] == [
        "evaluations", "live runs", "buffered events", "matches",
    ]  # fmt: skip
    assert {line.name for line in figure.data} == {"one", "&lt;script>"}
    assert metrics_text([query_3, query_3]).splitlines()[2].startswith("sase #2")
    with pytest.raises(cep.CepError, match="metrics shows traces"):
        metrics(3)


def test_plotly_is_loaded_only_when_a_figure_is_made():
    code = "import sys, cepviz.views.metrics; assert 'plotly' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- all of them ----

VIEWS = [timeline, runs, plan, invariants]


@pytest.mark.parametrize("engine", WATCHED)
def test_every_step_of_every_engine_is_drawn_and_nothing_moves(engine):
    pattern = "PATTERN SEQ(A a, B b, C c) WHERE a.x <= c.x WITHIN 5"
    events = stream("a1(x=1) b1(x=1) a2(x=2) c1(x=1) b2(x=1) c2(x=3) a3(x=0) b3(x=1) c3(x=2)")
    trace = cep.trace(pattern, events, engine)
    for view in VIEWS:
        size = None
        for index in range(len(trace)):
            scene = view(trace, index)
            assert scene.say
            size = size or (scene.width, scene.height)
            assert (scene.width, scene.height) == size
            ET.fromstring(scene.svg("dark"))
    places = {}
    for index in range(len(trace)):
        scene = timeline(trace, index)
        for label in ("a1", "b2", "c3"):
            text = scene.shapes.get(f"event:{label}:text")
            if text is not None:
                assert places.setdefault(label, text.attributes["x"]) == text.attributes["x"]
        timeline_text(trace, index), runs_text(trace, index), plan_text(trace, index)


def test_negations_loops_and_branches_are_drawn_at_every_step(negated, query_3, lazy):
    either = cep.trace("PATTERN SEQ(A a, OR(B b, D d), C c) WITHIN 9 events",
                       stream("a1 b1 d1 c1"), "lazy_chain")  # fmt: skip
    for trace in (negated, query_3, lazy, either):
        for lanes in ("type", "variable"):
            for index in range(len(trace)):
                assert timeline(trace, index, lanes=lanes).shapes
                assert runs(trace, index).shapes and plan(trace, index).shapes


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_labels_hold_the_picture_is_well_formed_and_small(text, tmp_path):
    trace = Trace(engine=text, plan="a, b")
    trace(Arrive(text, text, text, {text: text}, 1, 1))
    trace(Arrive("e2", text, text, {}, 2, 2))
    trace(Move(text, text, "begin", text, text, text, ((text, (text,)),)))
    trace(Spawn(text, f"{text}.1", text, text, text))
    trace(Drop(f"{text}.1", text, text, text))
    trace(Check(text, text, text, 1.0, float("nan"), True))
    trace(Matched(1, text, "e2", ((text, (text, "e2")),), text))
    for view in VIEWS:
        for theme in ("auto", "light"):
            written = view(trace).svg(theme)
            root = ET.fromstring(written)
            assert not root.findall(".//{*}script") and "<script>" not in written
            for shown in root.iter("{http://www.w3.org/2000/svg}text"):
                visible = "".join([shown.text or "", *(child.tail or "" for child in shown)])
                assert len(visible) <= 140 and visible.isprintable()
        view(trace).save(tmp_path / "x.svg")
    for said in (timeline_text(trace), runs_text(trace), plan_text(trace), metrics_text(trace)):
        assert all(line.isprintable() and len(line) < 1000 for line in said.splitlines())


def test_nothing_is_drawn_of_nothing():
    for view in (timeline, runs, invariants):
        assert view(Trace()).say == "Nothing happened."
    assert timeline(cep.Stream.from_records([cep.Event("A", 1)])[:0]).say == "0 events."
    assert metrics_text(Trace()).splitlines()[1].split() == [
        "trace", "0", "0", "0,", "peak", "0", "0,", "peak", "0", "0",
    ]  # fmt: skip


def test_a_step_changes_few_shapes(query_3):
    before = timeline(query_3, 0)
    for index in range(1, len(query_3)):
        scene = timeline(query_3, index)
        assert len(scene.diff(before)["put"]) <= 24
        before = scene


def test_a_trace_that_grows_is_drawn_anew():
    trace = Trace()
    trace(Arrive("e1", "A", "1", {}, 1, 1))
    assert list(of_events(timeline(trace))) == ["e1"]
    trace(Arrive("e2", "A", "2", {}, 2, 2))
    assert list(of_events(timeline(trace))) == ["e1", "e2"]


def test_what_a_view_remembers_goes_with_its_trace():
    trace = crowd(5)
    size = len(pickle.dumps(trace))
    timeline(trace), runs(trace)
    assert len(pickle.dumps(trace)) < size + 200
    gone = weakref.ref(trace)
    del trace
    gc.collect()
    assert gone() is None
