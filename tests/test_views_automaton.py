"""The automaton and the buffers as pictures: what is drawn for a step, where, and how safely."""

import itertools
import re
import time
from xml.etree import ElementTree

import pytest
from literal import WATCHED, stream
from test_sase import QUERY_3, google

import cepviz as cep
from cepviz.engines.registry import ENGINES
from cepviz.steps import (
    Arrive,
    Drop,
    Edge,
    Graph,
    Link,
    Matched,
    Move,
    Pass,
    Put,
    Scope,
    Spawn,
    State,
    Test,
    Tested,
)
from cepviz.trace import Trace
from cepviz.views.automaton import MOST_STATES, automaton, automaton_text
from cepviz.views.buffer import NEWEST, buffer, buffer_text, pointer_say
from cepviz.views.scene import Scene
from cepviz.views.style import CLASSES

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

THREE = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match { a.x < b.x and b.x < c.x } WITHIN 6"
EVENTS = "a1@1(x=1) b1@2(x=2) a2@3(x=3) c1@4(x=4) b2@5(x=5) c2@6(x=6) a3@7(x=7) b3@8(x=1) c3@9(x=9)"


@pytest.fixture(scope="module")
def query_3():
    return cep.trace(QUERY_3, google(), engine="sase")


def traced(engine, pattern=THREE, events=EVENTS):
    return cep.trace(pattern, stream(events), engine=engine)


def first(trace, kind, **wanted):
    """The index of the first step of a kind with these fields."""
    return next(
        index
        for index, step in enumerate(trace)
        if step.kind == kind and all(getattr(step, name) == value for name, value in wanted.items())
    )


def state(trace, name):
    return f"state:{[s.name for s in trace.graph.states].index(name)}"


def edge(trace, name):
    return f"edge:{[e.name for e in trace.graph.edges].index(name)}"


def lit_edges(trace, scene):
    return [
        e.name
        for number, e in enumerate(trace.graph.edges)
        if "lit" in scene.shapes[f"edge:{number}"].classes.split()
    ]


def text(scene, key):
    return scene.shapes[key].text


def classes(scene, key):
    return scene.shapes[key].classes.split()


# ---- the still picture ----


def test_states_and_edges_carry_names_types_and_formulas(query_3):
    scene = automaton(query_3, 0)
    names = [text(scene, f"state:{n}:name") for n in range(4)]
    assert names == ["a[1]", "a[i]", "b", "F"]
    assert text(scene, "state:1:line:0") == "Stock"
    take = edge(query_3, "take a[i]")
    assert classes(scene, take) == ["take"]
    assert text(scene, f"{take}:word") == "take"
    assert text(scene, f"{take}:1") == "a[i].price > avg(a[…-1].price)"
    assert "a[i].price > avg(a[..i-1].price)" in scene.shapes[take].title


def test_kinds_of_edges_differ_by_line_and_head(query_3):
    scene = automaton(query_3, 0)
    drawn = {e.action: classes(scene, edge(query_3, e.name))[0] for e in query_3.graph.edges}
    assert drawn == {"begin": "begin", "take": "take", "proceed": "proceed", "ignore": "ignore"}
    assert "stroke-dasharray" in CLASSES["ignore"]
    assert CLASSES["proceed-head"]["fill"] == "paper"
    for action in drawn:
        assert text(scene, f"legend:{action}:word") == action


def test_start_final_negated_and_splitting_states_are_marked():
    trace = traced("sase", "PATTERN SEQ(A a, ~B b, C c) WITHIN 6")
    scene = automaton(trace, 0)
    assert f"{state(trace, 'a')}:start" in scene.shapes
    assert f"{state(trace, 'F')}:ring" in scene.shapes
    assert classes(scene, state(trace, "~b")) == ["negated"]
    assert "begin-ignore" in scene.shapes[f"{state(trace, 'c')}:choices"].title


def test_a_pass_of_compilation_shows_its_formulas(query_3):
    take, ignore = edge(query_3, "take a[i]"), edge(query_3, "ignore a[i]")
    one, two, three = (automaton(query_3, 0, passes=k) for k in (1, 2, 3))
    assert f"{take}:0" not in one.shapes
    assert f"{take}:0" in two.shapes and f"{ignore}:0" not in two.shapes
    assert text(three, f"{ignore}:0").startswith("not (")
    assert text(two, "pass") == "after pass 2 predicates"
    with pytest.raises(cep.CepError, match=r"no pass 9 .* 1 structure"):
        automaton(query_3, passes=9)
    with pytest.raises(cep.CepError, match="only sase's does"):
        automaton(traced("eager"), passes=1)


# ---- a step ----


def test_a_test_lights_its_edge_with_a_verdict(query_3):
    index = first(query_3, "test", edge="proceed a[i]", passed=False)
    scene = automaton(query_3, index)
    proceed = edge(query_3, "proceed a[i]")
    assert lit_edges(query_3, scene) == ["proceed a[i]"]
    assert (text(scene, f"{proceed}:answer"), classes(scene, f"{proceed}:mark")) == (
        "no",
        ["cross"],
    )
    assert text(scene, f"{proceed}:event") == "e2"
    assert scene.say == query_3[index].say()


def test_each_conjunct_has_its_own_verdict(query_3):
    index = first(query_3, "test", run="2", edge="take a[i]", passed=False)
    scene, take = automaton(query_3, index), edge(query_3, "take a[i]")
    assert classes(scene, f"{take}:0:mark") == ["tick"]
    assert classes(scene, f"{take}:1:mark") == ["cross"]
    assert scene.shapes[f"{take}:1"].title == "a[i].price 120 > avg(a[..i-1].price) 120.5 no"
    assert f"{take}:2:mark" not in scene.shapes  # the window was not tested there


def test_badges_count_the_live_runs_and_list_them(query_3):
    index = first(query_3, "spawn")
    scene, here = automaton(query_3, index), f"{state(query_3, 'a[i]')}:badge"
    assert text(scene, f"{here}:text") == "3"
    assert scene.shapes[here].title.splitlines() == [
        "3 live runs at a[i]",
        "1: a = e1 e2 e3 e4 e5",
        "2: a = e3 e4",
        "1.0.0: a = e1 e2 e3 e4 e5",
    ]
    assert text(scene, f"{state(query_3, 'a[i]')}:note") == "split (take-proceed)"


def test_many_runs_are_counted_and_twenty_are_listed():
    trace = Trace(graph=traced("eager").graph)
    for number in range(150):
        trace(Move(str(number), "e1", "take", "take a", "q1", "q2", (("a", ("e1",)),)))
    scene = automaton(trace)
    assert text(scene, "state:1:badge:text") == "150"
    lines = scene.shapes["state:1:badge"].title.splitlines()
    assert (len(lines), lines[-1]) == (22, "and 130 more")


def test_a_match_flashes_the_final_state_with_a_diamond(query_3):
    scene, final = automaton(query_3, first(query_3, "match")), state(query_3, "F")
    assert classes(scene, final) == ["accepted"]
    assert scene.shapes[f"{final}:diamond"].tag == "polygon"
    assert text(scene, f"{final}:note") == "match #1"


def test_a_match_of_a_loop_at_the_end_goes_along_its_epsilon_edge():
    trace = traced("sase", "PATTERN SEQ(A a, B+ b[]) WITHIN 9")
    scene = automaton(trace, first(trace, "match"))
    assert classes(scene, state(trace, "F")) == ["accepted"]
    assert lit_edges(trace, scene) == ["proceed b[i]"]


def test_a_drop_is_a_cross_with_its_reason_where_the_run_was():
    trace = traced("eager")
    index = first(trace, "drop", reason="window")
    where = trace.at(index - 1).runs[trace[index].run].state
    scene = automaton(trace, index)
    assert text(scene, f"{state(trace, where)}:note") == "window"
    assert classes(scene, f"{state(trace, where)}:note:mark") == ["cross"]


def test_a_forbidden_event_lights_the_negate_edge():
    trace = traced("sase", "PATTERN SEQ(A a, ~B b, C c) WITHIN 6")
    scene = automaton(trace, first(trace, "drop", reason="negation"))
    assert lit_edges(trace, scene) == ["negate b"]
    assert text(scene, f"{state(trace, 'F')}:note") == "negation"


def test_a_stored_event_lights_the_store_edges_of_states_in_use():
    trace = cep.trace(THREE, stream(EVENTS), engine="lazy_chain", plan=cep.Order("c", "b", "a"))
    scene = automaton(trace, first(trace, "put", buffer="a"))
    assert lit_edges(trace, scene) == ["store at q1"]


def test_following_a_run_outlines_its_state_and_dims_the_others(query_3):
    trace = traced("eager")
    index = next(i for i in range(len(trace)) if len(trace.at(i).by_state()) > 1)
    run = next(iter(trace.at(index).runs.values()))
    scene = automaton(trace, index, run=run.id)
    for number, each in enumerate(trace.graph.states):
        mine = each.name == run.state
        assert ("selected" in classes(scene, f"state:{number}")) is mine
        if f"state:{number}:badge" in scene.shapes:
            assert ("dim" in classes(scene, f"state:{number}:badge")) is not mine
    with pytest.raises(cep.CepError, match=r"no run '1\.0\.1' in this trace .did you mean"):
        automaton(query_3, run="1.0.1")


def test_a_tree_shows_its_path_and_the_counters_at_its_end():
    trace = traced("lazy_tree")
    index = first(trace, "test", state="q(b)")
    scene = automaton(trace, index)
    bold = [s.name for s in trace.graph.states if "path" in classes(scene, state(trace, s.name))]
    assert bold == ["q0", "q(b)"]
    assert "path" in classes(scene, edge(trace, "take b at q0"))
    held = trace.at(index).buffers
    told = f"a {len(held['a'])} · c {len(held['c'])}"
    assert text(scene, f"{state(trace, 'q(b)')}:counters") == told


def test_a_join_lights_both_sides_and_counts_partial_matches():
    trace = traced("zstream")
    index = first(trace, "test", edge="join a")
    scene = automaton(trace, index)
    assert lit_edges(trace, scene) == ["join a", "join b"]
    join = state(trace, "(a b)")
    assert text(scene, f"{join}:answer") == "yes"
    leaf, above = scene.shapes[state(trace, "a")], scene.shapes[join]
    assert leaf.attributes["y"] > above.attributes["y"]
    assert text(scene, f"{state(trace, 'a')}:badge:text") == str(len(trace.at(index).buffers["a"]))


# ---- every engine, every step ----

PLACES = ("x", "y", "cx", "cy", "r", "width", "height", "d", "points")


def places(scene):
    """Where the states are and how the edges run."""
    return {
        key: [shape.attributes.get(name) for name in PLACES]
        for key, shape in scene.shapes.items()
        if key.count(":") == 1 and key.startswith(("state:", "edge:"))
    }


def keys(scene):
    tree = ElementTree.fromstring(scene.svg())
    return [part.get("data-key") for part in tree.iter() if part.get("data-key") is not None]


@pytest.mark.parametrize("engine", WATCHED)
def test_every_step_is_drawn_in_the_same_places(engine):
    trace = traced(engine)
    still = places(automaton(trace, 0))
    for index in range(len(trace)):
        for scene in (automaton(trace, index), buffer(trace, index)):
            assert scene.say == trace[index].say()
            drawn = keys(scene)
            assert len(drawn) == len(set(drawn)) == len(scene.shapes)
            known = {name for s in scene.shapes.values() for name in s.classes.split()}
            assert known <= set(CLASSES)
        scene = automaton(trace, index)
        assert places(scene) == still
        assert (scene.width, scene.height) == (
            automaton(trace, 0).width,
            automaton(trace, 0).height,
        )
        assert trace[index].say() in automaton_text(trace, index)
        assert trace[index].say() in buffer_text(trace, index)


@pytest.mark.parametrize(
    "pattern",
    [
        "PATTERN OR(SEQ(A a, B b), SEQ(B b2, C c)) WITHIN 6",
        "PATTERN SEQ(A a, AND(B b, C c)) WITHIN 6",
        "PATTERN SEQ(A+ a[], ~B n, C c) WITHIN 6",
        "PATTERN SEQ(A a, B* b[], C c) WITHIN 6",
    ],
)
def test_other_patterns_are_drawn_too(pattern):
    for engine in WATCHED:
        if ENGINES[engine].refuses(cep.parse(pattern)) is None:
            trace = traced(engine, pattern)
            for index in range(0, len(trace), 3):
                automaton(trace, index)
                buffer(trace, index)


@pytest.mark.parametrize("algorithm", ["basic", "merging", "backtrack"])
def test_every_run_of_sase_can_be_followed(algorithm):
    trace = cep.trace(QUERY_3, google(), engine="sase", algorithm=algorithm)
    for index in range(0, len(trace), 5):
        for run in trace.at(index).runs:
            automaton(trace, index, run=run)
            buffer(trace, index, run=run)


def test_states_do_not_overlap_one_another(query_3):
    for trace in (query_3, *map(traced, ("eager", "lazy_chain", "lazy_tree", "zstream"))):
        scene = automaton(trace, 0)
        boxes = []
        for number in range(len(trace.graph.states)):
            at = scene.shapes[f"state:{number}"].attributes
            if "cx" in at:
                left, top, wide, high = (
                    at["cx"] - at["r"],
                    at["cy"] - at["r"],
                    at["r"] * 2,
                    at["r"] * 2,
                )
            else:
                left, top, wide, high = at["x"], at["y"], at["width"], at["height"]
            assert left >= 0 and left + wide <= scene.width
            assert top >= 0 and top + high <= scene.height
            boxes.append((left, top, left + wide, top + high))
        for one, other in itertools.combinations(boxes, 2):
            apart = one[2] < other[0] or other[2] < one[0] or one[3] < other[1] or other[3] < one[1]
            assert apart


def test_a_step_changes_few_shapes(query_3):
    scenes = [automaton(query_3, index) for index in range(len(query_3))]
    changes = [len(b.diff(a)["put"]) + len(b.diff(a)["del"]) for a, b in itertools.pairwise(scenes)]
    assert max(changes) < 25


def test_a_step_of_query_3_takes_less_than_50_ms(query_3):
    automaton(query_3, 0).svg()
    began = time.perf_counter()
    for index in range(len(query_3)):
        automaton(query_3, index).svg()
    assert (time.perf_counter() - began) / len(query_3) < 0.05


def test_an_engine_without_an_automaton_says_so():
    trace = traced("naive")
    assert "no automaton" in text(automaton(trace), "none")
    assert "no automaton" in automaton_text(trace)


def test_an_empty_trace_is_drawn():
    trace = Trace(graph=traced("eager").graph)
    assert automaton(trace).say == buffer(trace).say == "Nothing has arrived yet."
    with pytest.raises(IndexError):
        automaton(trace, 3)


# ---- large graphs ----


def wide_tree(count=300):
    """A tree NFA of many states, with runs in two of them."""
    states = [State("q0", "start", "a"), *(State(f"q{n}", "past", "b") for n in range(1, count))]
    edges = [Edge(f"take {n}", "q0", f"q{n}", "take", "a") for n in range(1, count)]
    edges += [Edge(f"end {n}", f"q{n}", "F", "take", "b") for n in range(1, count)]
    trace = Trace(graph=Graph((*states, State("F", "final")), tuple(edges), "tree"))
    trace(Arrive("e1", "A", "1"))
    trace(Move("1", "e1", "take", "take 7", "q0", "q7", (("a", ("e1",)),)))
    trace(Move("2", "e1", "take", "take 9", "q0", "q9", (("a", ("e1",)),)))
    return trace


def test_a_large_graph_is_summed_up_to_what_lives():
    trace = wide_tree()
    scene = automaton(trace)
    assert len(scene.shapes) < 60
    assert text(scene, "column:1:name") == "299 states"
    assert text(scene, "column:1:badge:text") == "2"
    assert {text(scene, "slot:1:0:name"), text(scene, "slot:1:1:name")} == {"q7", "q9"}
    assert classes(scene, "step:0") == ["take", "lit"]
    assert "of 301 states" in automaton_text(trace)


def test_a_summary_keeps_its_columns_in_place():
    trace = wide_tree(MOST_STATES + 5)
    columns = [
        {k: s.attributes for k, s in automaton(trace, i).shapes.items() if k.startswith("column:")
         and k.count(":") == 1}
        for i in range(3)
    ]  # fmt: skip
    assert columns[0] == columns[1] == columns[2]


def test_five_thousand_runs_are_drawn_quickly():
    trace = Trace(graph=traced("eager").graph)
    for number in range(5000):
        trace(Move(str(number), "e1", "take", "take a", "q1", "q2", (("a", ("e1",)),)))
    began = time.perf_counter()
    assert len(automaton(trace).shapes) < 100
    assert len(buffer(trace).shapes) < 100
    assert time.perf_counter() - began < 1


# ---- the shared versioned buffer ----


def pointers(scene):
    """The versions written, and which arrows are bright."""
    return {
        text(scene, key): "dim" not in shape.classes.split()
        for key, shape in scene.shapes.items()
        if key.startswith("pointer:") and key.endswith(":version")
    }


def test_the_buffer_is_that_of_figure_4(query_3):
    scene = buffer(query_3)
    assert [text(scene, f"stack:{n}:name") for n in range(3)] == ["a[1]", "a[i]", "b"]
    cells = {key[5:] for key in scene.shapes if key.startswith("cell:") and key.count(":") == 2}
    assert cells == {
        "0:e1", "0:e3", "1:e2", "1:e3", "1:e4", "1:e5", "1:e6", "1:e7", "1:e8", "2:e6", "2:e8",
    }  # fmt: skip
    written = sorted(shape.text for key, shape in scene.shapes.items() if key.endswith(":version"))
    assert written == sorted(link.version for link in query_3.at(-1).links)


def test_an_event_has_the_same_height_in_every_stack(query_3):
    scene = buffer(query_3)
    height = {key: scene.shapes[f"cell:{key}"].attributes["y"] for key in ("0:e3", "1:e3", "1:e4")}
    assert height["0:e3"] == height["1:e3"] < height["1:e4"]


def test_only_the_pointers_of_the_followed_run_stay_bright(query_3):
    index = first(query_3, "match", number=2)  # run 2.0.0: e3 e4 | e6
    scene = buffer(query_3, index, run="2.0.0")
    bright = [
        key[5:] for key in scene.shapes
        if key.startswith("cell:") and key.count(":") == 2 and "dim" not in classes(scene, key)
    ]  # fmt: skip
    assert sorted(bright) == ["0:e3", "1:e4", "2:e6"]
    assert {version for version, on in pointers(scene).items() if on} == {"2", "2.0", "2.0.0"}
    assert text(scene, "version") == "run 2.0.0: version 2.0.0"


def test_a_match_shows_its_own_path_in_green(query_3):
    scene = buffer(query_3, first(query_3, "match", number=1))
    green = [
        key for key in scene.shapes if key.startswith("cell:") and "found" in classes(scene, key)
    ]
    assert [key[5:] for key in green] == ["0:e1", "1:e2", "1:e3", "1:e4", "1:e5", "2:e6"]


def test_the_path_that_is_drawn_is_the_run_s_bindings(query_3):
    for index in range(len(query_3)):
        for run in query_3.at(index).runs.values():
            scene = buffer(query_3, index, run=run.id)
            bright = {
                key.split(":")[2] for key in scene.shapes
                if key.startswith("cell:") and key.count(":") == 2
                and "dim" not in classes(scene, key)
            }  # fmt: skip
            moved = query_3.run_history(run.id)
            if any(query_3[i].kind == "move" and i <= index for i in moved):
                assert bright == {event for _, events in run.bindings for event in events}


@pytest.mark.parametrize(
    ("version", "pointer", "said"),
    [
        ("1.0.0", "1.0", "may follow pointer 1.0 from e4 to e3: 1.0 is a prefix of 1.0.0."),
        ("1.1", "1.0", "only the last digit differs, and it has grown from 0 to 1."),
        ("1.0", "1.0", "may follow pointer 1.0 from e4 to e3: the versions are equal."),
        ("1.0", "1.1", "may not follow .* its last digit 1 is larger than 0"),
        ("2.0.0", "1.0", "may not follow .* digit 1 is 2 in the version and 1 in the pointer."),
        ("1.1.0", "1.0", "may not follow .* digit 2 is 1 in the version and 0 in the pointer."),
        ("1.0", "1.0.0", "may not follow .* the pointer is longer"),
    ],
)
def test_a_pointer_says_why_it_is_compatible_or_not(version, pointer, said):
    told = pointer_say(version, Link("a[i]", "e4", "a[i]", "e3", pointer))
    assert re.search(said, told), told


def test_a_version_that_is_none_is_refused():
    with pytest.raises(cep.CepError, match="a version is numbers with dots"):
        pointer_say("x", Link("a", "e1", "", "", "1"))


def test_a_large_stack_shows_its_newest_events_and_how_many_more():
    events = " ".join(f"a{n}@{n}" for n in range(40))
    trace = traced("sase", "PATTERN SEQ(A a, B b) WITHIN 99", events)
    scene = buffer(trace)
    cells = [key for key in scene.shapes if key.startswith("cell:") and key.count(":") == 2]
    assert len(cells) == NEWEST
    assert cells[-1].endswith(trace.events[-1].event)
    assert text(scene, "stack:0:more") == f"+{40 - NEWEST} older"


# ---- the other buffers ----


def test_input_buffers_are_rows_with_the_scope_as_a_bracket():
    trace = cep.trace(THREE, stream(EVENTS), engine="lazy_chain", plan=cep.Order("b", "a", "c"))
    index = first(trace, "scope", buffer="a")
    scene, step = buffer(trace, index), trace[index]
    assert [text(scene, f"row:{n}:name") for n in range(3)] == ["a", "b", "c"]
    inside = [
        key for key in scene.shapes if key.startswith("cell:") and "in-scope" in classes(scene, key)
    ]
    assert [key.split(":")[2] for key in inside] == list(step.events)
    assert scene.shapes["scope"].title == step.say()
    assert text(scene, "scope:said") == f"scope of run {step.run}: {step.start} to {step.end}"
    assert "scope" not in buffer(trace, trace.next(index, "arrive")).shapes


def test_an_event_has_one_column_in_all_input_buffers():
    trace = traced("lazy_tree", "PATTERN SEQ(A a, A b, C c) WITHIN 9")
    scene = buffer(trace, 4)
    columns = {}
    for key, shape in scene.shapes.items():
        if key.startswith("cell:") and key.count(":") == 2:
            columns.setdefault(key.split(":")[2], set()).add(shape.attributes["x"])
    assert columns and all(len(found) == 1 for found in columns.values())


def test_a_tree_s_buffers_show_the_events_of_partial_matches():
    trace = traced("zstream")
    index = first(trace, "put", buffer="(a b)")
    scene = buffer(trace, index)
    names = {text(scene, key): key for key in scene.shapes if key.endswith(":name")}
    assert list(names) == ["((a b) c)", "c", "(a b)", "b", "a"]
    (cell,) = [key for key in scene.shapes if "fresh" in classes(scene, key)]
    run = trace.at(index).runs[trace[index].event]
    assert text(scene, f"{cell}:text") == " ".join(e for _, events in run.bindings for e in events)


def test_eager_runs_show_their_match_buffers():
    trace = traced("eager")
    index = next(i for i in range(len(trace)) if len(trace.at(i).runs) > 1)
    scene = buffer(trace, index)
    for run in trace.at(index).runs.values():
        assert text(scene, f"run:{run.id}:name") == f"run {run.id} at {run.state}"


# ---- text ----


def test_the_automaton_as_text_marks_the_edge_just_used(query_3):
    index = first(query_3, "test", edge="take a[i]", event="e6", run="1")
    assert automaton_text(query_3, index).splitlines() == [
        "> a[1]  Stock  -        begin -> a[i]",
        "  a[i]  Stock  2 runs   *take (loop) e6? yes*  proceed -> b  ignore (loop)",
        "  b     Stock  -        begin -> F  ignore (loop)",
        "F F            -",
        query_3[index].say(),
    ]


def test_the_buffer_as_text_lists_events_and_pointers(query_3):
    lines = buffer_text(query_3, first(query_3, "match", number=1)).splitlines()
    assert lines[:3] == ["a[1]  e1 e3", "a[i]  e2 e3 e4 e5", "b     e6"]
    assert lines[-2] == "  e6 in b -> e5 in a[i], version 1.0.0"


# ---- names from data ----

NASTY = [
    "<script>alert(1)</script>",
    "\"quotes' & <b>",
    "two\nlines\tand a tab",
    "x" * 10_000,
    "🚀🚀 rocket 漢字",
    "שלום עולם \u202e reversed",
    "nul \x00 and \x1b[31m escape",
    "]]> --> \\N \\\\ {|} <TABLE>",
    "",
]


def nasty_trace(name, kind):
    """Every place where a name can come from data, filled with it."""
    states = (State("s", "start", name, (name,)), State(name, "middle", name),
              State("F", "final", name), State(f"~{name}", "negated", name))  # fmt: skip
    edges = (
        Edge("go", "s", name, "begin", name, (name, name)),
        Edge(f"loop {name}", name, name, "take", name, (name,) * 5),
        Edge("store", name, name, "store", name),
        Edge("skip", "s", "s", "ignore", name, (name,)),
        Edge("end", name, "F", "proceed", "", (f"not ({name})",)),
        Edge("not", "F", f"~{name}", "negate", name, (name,)),
    )
    passes = (Pass(name, {e.name: (name,) for e in edges}),)
    trace = Trace(name, name, None, Graph(states, edges, kind, passes))
    run, event, held = f"r{name}", f"e{name}", ((name, (f"e{name}",)),)
    steps = [
        Arrive(event, name, name, {name: name}),
        Test(run, event, "s", "go", "begin", (Tested(name, name, False, (), name),), False),
        Put(name, event),
        Link(name, event, "", "", "1"),
        Move(run, event, "begin", "go", "s", name, held, ((name, name),)),
        Scope(run, name, event, "finish", (event,)),
        Spawn(run, f"c{name}", event, name, name),
        Drop(f"c{name}", name, event, name),
        Drop(f"d{name}", "negation", event, name),
        Move(run, event, "proceed", "end", name, "F", held),
        Matched(1, run, event, held, name),
    ]
    for step in steps:
        trace(step)
    return trace


@pytest.mark.parametrize("kind", ["nfab", "eager", "chain", "tree", "zstream", ""])
@pytest.mark.parametrize("name", NASTY, ids=range(len(NASTY)))
def test_names_from_data_come_out_escaped_and_cut(name, kind):
    trace = nasty_trace(name, kind)
    for index in range(len(trace)):
        for scene in (
            automaton(trace, index), automaton(trace, index, passes=1), buffer(trace, index),
            buffer(trace, index, run=f"r{name}"),
        ):  # fmt: skip
            assert_harmless(scene)
        for told in (automaton_text(trace, index), buffer_text(trace, index)):
            assert all(line.isprintable() for line in told.splitlines())
            assert len(told) < 6000


def assert_harmless(scene: Scene):
    for theme in ("auto", "light"):
        tree = ElementTree.fromstring(scene.svg(theme))  # well-formed, whatever the names
        assert not [part for part in tree.iter() if part.tag.endswith(("script", "}b", "TABLE"))]
    for shape in scene.shapes.values():
        assert len(shape.text or "") <= 60
        assert len(shape.title or "") < 2000
        assert (shape.text or "").isprintable()
    assert scene.width < 3000


def test_names_that_differ_late_stay_apart():
    long = ["x" * 300 + letter for letter in "ab"]
    states = (State("s", "start"), *(State(name) for name in long), State("F", "final"))
    edges = tuple(Edge(f"go {name}", "s", name, "take", "", (name,)) for name in long)
    scene = automaton(Trace(graph=Graph(states, edges, "eager")))
    assert (
        len([key for key in scene.shapes if key.startswith("state:") and key.count(":") == 1]) == 4
    )


# ---- merged runs ----


def bright(scene):
    """The cells and the number of pointers that are not dim."""
    cells = [k.split(":")[2] for k, s in scene.shapes.items() if re.fullmatch(r"cell:\d+:\w+", k)
             and "dim" not in s.classes]  # fmt: skip
    pointers = [k for k, s in scene.shapes.items() if re.fullmatch(r"pointer:\d+:\w+:\d+", k)
                and "path" in s.classes.split()]  # fmt: skip
    return sorted(cells), len(pointers)


@pytest.fixture(scope="module")
def merged():
    """Run 2 merges into run 1 at b1, run 3 at b2; run 1 then finds three matches at c1."""
    query = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_next_match WITHIN 20"
    events = stream("a1 a2 b1 a3 b2 c1")
    return cep.trace(query, events, engine="sase", algorithm="merging")


def test_a_run_carries_those_that_merged_into_it(merged):
    before = first(merged, "merge", run="2") - 1
    assert bright(buffer(merged, before, run="1")) == (["a1", "b1"], 2)
    after = first(merged, "merge", run="3")
    assert bright(buffer(merged, after, run="1")) == (["a1", "a2", "a3", "b1", "b2"], 6)


def test_a_merged_run_goes_on_in_the_other(merged):
    last = first(merged, "match", number=1) - 1
    assert bright(buffer(merged, last, run="2")) == (["a2", "b1", "c1"], 3)
    assert bright(buffer(merged, last, run="3"))[0] == ["a3", "b2", "c1"]


def test_a_match_of_a_merged_run_shows_its_own_events(merged):
    found = [bright(buffer(merged, place))[0] for place, _ in merged.matches]
    assert found == [["a1", "b1", "c1"], ["a2", "b1", "c1"], ["a3", "b2", "c1"]]
