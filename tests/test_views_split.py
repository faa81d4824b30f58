"""The pictures of a split: its two halves, its buffers, the merge, latencies and the queue."""

import re

import numpy as np
import pytest
from literal import stream
from test_apam import FIGURE_2, FIGURE_2B, drifting

import cepviz as cep
from cepviz.data import chained, chained_query
from cepviz.engines.split import SplitEngine
from cepviz.latency import Served
from cepviz.plans.apam import Costs
from cepviz.views.latency import latencies, queue
from cepviz.views.split import split, split_text


@pytest.fixture(scope="module")
def example():
    return cep.trace(FIGURE_2, FIGURE_2B, engine="apam", plan=cep.Split("BC", "DA"))


def texts(scene, key):
    return [s.text for name, s in scene.shapes.items() if name.startswith(f"{key}:") and s.text]


def test_figure_2c_is_drawn_as_the_merge_ends(example):
    scene = split(example)
    assert "b10 c12" in texts(scene, "box:(B C)") and "b10 c14" in texts(scene, "box:(B C)")
    assert "b10 c12 d15" in texts(scene, "box:((B C) D)")
    assert "b10 c12 d15 a6" in texts(scene, "box:(((B C) D) A)")
    assert [t for t in texts(scene, "box:A") if t.startswith("a")] == ["a6", "a9", "a13"]
    assert texts(scene, "half:eager") == ["eager: matched as events come"]
    # Eager on the left, lazy on the right, in the order of the plan.
    x = [scene.shapes[f"box:{name}"].attributes["x"] for name in "BCDA"]
    assert x == sorted(x)
    middle = scene.shapes["half:lazy"].attributes["x"]
    assert x[1] < middle < x[2]


def test_buffers_fill_event_by_event(example):
    arrivals = [i for i, step in enumerate(example) if step.kind == "arrive"]
    held = [
        [t for t in texts(split(example, i - 1), "box:A") if t.startswith("a")]
        for i in arrivals[1:]
    ]
    assert held[0] == ["a1"] and held[4] == ["a1", "a5"] and held[-1] == ["a1", "a5", "a6", "a9",
                                                                         "a13"][-5:]  # fmt: skip


def test_the_window_is_shown_before_the_merge(example):
    (pruned,) = [i for i, s in enumerate(example) if s.kind == "prune" and s.buffer == "A"]
    assert "out: a1 a5" in texts(split(example, pruned), "box:A")
    tried = next(i for i, s in enumerate(example) if i > pruned and s.kind == "test")
    shown = texts(split(example, tried), "box:((B C) D)")
    assert "b10 c12 d15?" in shown and "C.attr2 7 = D.attr2 7" in shown


def test_the_picture_in_letters(example):
    lines = split_text(example).split("\n")
    assert lines[0] == "split BC/DA"
    assert lines[1].split() == ["BCDA", "merged", "b10+c12+d15+a6"]
    assert lines[-2].split() == ["B", "eager", "b7", "b10", "b11"]
    assert lines[-1].startswith("Match #1")


def test_every_step_of_an_adapting_trace_is_drawn_and_says_its_plan():
    text = "PATTERN OR(SEQ(A a, B b), SEQ(B first, C+ more[])) WHERE a.x < b.x WITHIN 6"
    trace = cep.trace(text, drifting(1.0, 0.1, 12), engine="apam", every=4, costs=Costs())
    assert any(step.kind == "replan" for step in trace)
    for index in range(len(trace)):
        scene = split(trace, index)
        assert scene.svg("dark").startswith("<svg") and scene.say
        assert split_text(trace, index).count("split ") == 2  # a picture for each branch
    assert "first more" in split_text(trace).replace("/", " ")


def test_values_from_data_are_escaped():
    events = cep.Stream.from_records(
        [{"type": "A", "time": 1, "id": "<b>&"}, {"type": "B", "time": 2, "id": "</text>"}], id="id"
    )
    trace = cep.trace("PATTERN A; B WITHIN 9", events, engine="apam", plan=cep.Split("", "AB"))
    for index in range(len(trace)):
        svg = split(trace, index).svg()
        assert "<b>" not in svg and "</text></text>" not in re.sub("&lt;.*?&gt;", "", svg)


def test_a_trace_of_another_engine_is_refused():
    trace = cep.trace("PATTERN A; B WITHIN 9", stream("a1 b2"), engine="eager")
    with pytest.raises(cep.CepError, match="one of eager"):
        split(trace)
    with pytest.raises(cep.CepError, match="not str"):
        split("trace")


def test_an_empty_trace_shows_the_empty_halves():
    trace = cep.Trace("apam", "PATTERN A; B WITHIN 9")
    trace.graph = SplitEngine(cep.parse("PATTERN A; B WITHIN 9"), cep.Split("A", "B")).graph
    scene = split(trace)
    assert "Nothing has arrived" in scene.say and {"half:eager", "half:lazy"} <= set(scene.shapes)


# ---- figures ----


@pytest.fixture(scope="module")
def compared():
    events = chained(3_000, [0.1, 0.02], seed=2)
    return cep.compare_splits(chained_query(2, 100), events, utilisations=[0.1, 1.5], costs=Costs())


def test_bars_are_waiting_and_service_of_each_candidate(compared):
    figure = latencies(compared)
    bars = figure.data
    assert len(bars) == 2 * 2 * 2  # rates, simulated and estimated, waiting and service
    cells = compared.at(compared.rates[0])
    service = next(bar for bar in bars if bar.name == "service")
    units = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}
    unit = units[figure.layout.yaxis.title.text.split(", ")[1]]
    assert np.asarray(service.y) * unit == pytest.approx([c.queued.mean_service for c in cells])
    chosen = [name for name in service.x if name.startswith("<b><u>")]
    assert chosen == [f"<b><u>{compared.chosen(compared.rates[0]).plan}</u></b>"]


def test_what_has_no_end_is_marked_so(compared):
    endless = [a for a in latencies(compared).layout.annotations if a.text == "∞"]
    assert len(endless) == sum(np.isinf(cell.estimate.latency) for cell in compared.cells) > 0


def test_the_queue_is_drawn_over_time(compared):
    queued = compared.cells[-1].queued
    figure = queue(queued, theme="dark")
    line, *dots = figure.data
    assert len(line.x) <= 2000 and max(line.y) == queued.queue()[1].max()
    assert [len(dot.x) for dot in dots] == [int(queued.counted.sum())] * 2
    empty = Served("none", np.ones(5), np.zeros(5, bool), 0).at(1.0)
    assert queue(empty).data
    with pytest.raises(cep.CepError, match="theme"):
        queue(queued, theme="blue")
