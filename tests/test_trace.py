"""Traces: recording, seeking, files, comparing and showing."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepviz.errors import TraceError
from cepviz.events import Event, Schema, Stream
from cepviz.steps import (
    KINDS,
    Arrive,
    Check,
    Drop,
    Edge,
    Graph,
    Link,
    Matched,
    Merge,
    Move,
    Pass,
    Prune,
    Put,
    Replan,
    Spawn,
    State,
    Stats,
    Step,
    Test,
    Tested,
)
from cepviz.trace import RunView, Snapshot, Trace

module: Any = sys.modules["cepviz.trace"]  # `cepviz.trace` itself is the function
FORMAT_PAGE = Path(__file__).parent.parent / "docs" / "trace-format.md"
GRAPH = Graph(
    (State("a", "start"), State("b"), State("F", "final")),
    (Edge("take a", "a", "b", "take", "a"), Edge("take b", "b", "F", "take", "b", ("b.x > 1",))),
    "eager",
    (Pass("placed", {"take a": (), "take b": ("b.x > 1",)}),),
)
A = (("a", ("e1",)),)
AB = (("a", ("e1",)), ("b", ("e2",)))

STORY: list[Step] = [
    Arrive("e1", "A", "1", {"x": 1}, 1, 1),
    Move("1", "e1", "begin", "take a", "a", "b", A),
    Put("a", "e1"),
    Arrive("e2", "B", "2", {"x": 5}, 2, 2),
    Test("1", "e2", "b", "take b", "take", (Tested("b.x > 1", "5 > 1", True),), True),
    Spawn("1", "1.1", "e2", "b", "take-ignore"),
    Move("1.1", "e2", "take", "take b", "b", "F", AB),
    Matched(1, "1.1", "e2", AB, "within 1 of 10"),
    Arrive("e3", "A", "12", {"x": 2}, 12, 12),
    Drop("1", "window", "e3", "e1 left the window"),
    Prune("a", ("e1",), "window"),
]


def record(steps: list[Step], **about: Any) -> Trace:
    trace = Trace(
        **{"engine": "eager", "pattern": "PATTERN SEQ(A a, B b)", "graph": GRAPH, **about}
    )
    for step in steps:
        trace(step)
    return trace


@pytest.fixture
def story() -> Trace:
    return record(STORY, counters={"evaluations": 1}, note="all of it")


def test_a_run_is_born_splits_matches_and_is_dropped(story: Trace) -> None:
    born = RunView("1", "b", A, None, 1, "e1")
    assert story.at(0).runs == {}
    assert story.at(1).runs == {"1": born}
    assert story.at(5).runs == {"1": born, "1.1": RunView("1.1", "b", A, "1", 5, "e1")}
    assert story.at(6).runs == {"1": born, "1.1": RunView("1.1", "F", AB, "1", 5, "e2")}
    assert story.at(7).runs == {"1": born}
    assert story.at(9).runs == {}
    assert story.at(9).step == Drop("1", "window", "e3", "e1 left the window")


def test_a_snapshot_knows_event_buffers_matches_and_counts(story: Trace) -> None:
    shot = story.at(8)
    assert (shot.index, shot.event, shot.buffers, shot.matches) == (8, "e3", {"a": ("e1",)}, (7,))
    assert {kind: n for kind, n in shot.counts.items() if n} == {
        "arrive": 3, "test": 1, "move": 2, "spawn": 1, "put": 1, "match": 1,
    }  # fmt: skip
    assert shot.by_state() == {"b": ["1"]}
    assert story.at(-1) == story.at(10)
    assert story.at(-1).buffers == {"a": ()}
    assert repr(story.at(6)) == (
        "After step 6: Run 1.1 takes e2 and is at F. "
        "Now 2 live runs (b 1, F 1), buffered a 1, 0 matches."
    )


def test_a_snapshot_names_the_last_ten_matches() -> None:
    trace = record([Matched(i, "", "e1", A) for i in range(25)])
    assert trace.at(4).matches == (0, 1, 2, 3, 4)
    assert trace.at(20).matches == tuple(range(11, 21))
    assert trace.at(20).counts["match"] == 21


def test_a_match_ends_its_run_only_in_a_final_state() -> None:
    steps = [Move("1", "e1", "begin", "x", "a", "b", A), Matched(1, "1", "e1", A)]
    assert list(record(steps).at(-1).runs) == ["1"]
    at_once = record(steps, graph=Graph((State("b", "final"),)))
    assert list(at_once.at(-1).runs) == []
    later = record(steps)
    later.graph = at_once.graph
    assert later.at(-1).runs == {} and later == at_once


def test_an_ignored_event_leaves_the_run_as_it_is() -> None:
    trace = record([STORY[1], Move("1", "e2", "ignore", "ignore b", "b", "b")])
    assert trace.at(1).runs == trace.at(0).runs


def test_a_child_of_an_unknown_parent_starts_empty() -> None:
    trace = record([Spawn("root", "1", "e1", "a", "begin-ignore")])
    assert trace.at(0).runs == {"1": RunView("1", "a", (), "root", 0)}


def test_a_merged_run_is_gone() -> None:
    begin = [Move(run, "e1", "begin", "take a", "a", "b", A) for run in ("1", "2")]
    assert list(record([*begin, Merge("2", "1", "b")]).at(-1).runs) == ["1"]


def test_a_pruned_event_takes_the_pointers_from_and_to_it_along() -> None:
    first = Link("a", "e1", "", "", "1")
    second = Link("a", "e2", "a", "e1", "1.0")
    third = Link("b", "e3", "a", "e2", "1.0.0")
    twice = Link("b", "e3", "a", "e2", "2.0")
    itself = Link("a", "e2", "a", "e2", "3")
    trace = record([first, second, third, twice, itself, Prune("a", ("e1",), "window"),
                    Prune("a", ("e2", "e9"), "window")])  # fmt: skip
    assert sorted(trace.at(4).links, key=str) == sorted(
        [first, second, third, twice, itself], key=str
    )
    assert sorted(trace.at(5).links, key=str) == sorted([third, twice, itself], key=str)
    assert trace.at(6).links == ()
    assert trace._live.links == {}, "a pointer stays filed under its other end"


def test_plans_invariants_and_estimates() -> None:
    held = Check("1", "rate(B)", "rate(A)", 15.0, 15.8, True)
    broke = Check("1", "rate(B)", "rate(A)", 16.2, 15.8, False)
    trace = record(
        [Stats({"rate(A)": 15.8, "rate(B)": 15.0}), held, Stats({"rate(B)": 16.2}), broke,
         Replan("C, B, A", "C, A, B", "invariant 1 broke")],
        plan="C, B, A",
    )  # fmt: skip
    assert (trace.at(1).plan, trace.at(1).plan_before) == ("C, B, A", None)
    assert trace.at(1).invariants == {"1": held} and trace.at(3).invariants == {"1": broke}
    assert trace.at(3).stats == {"rate(A)": 15.8, "rate(B)": 16.2}
    assert (trace.at(4).plan, trace.at(4).plan_before) == ("C, A, B", "C, B, A")
    assert trace.at(4).invariants == {} and trace.at(4).replan == trace[4]


def test_steps_by_index(story: Trace) -> None:
    assert len(story) == 11 and list(story) == STORY and story[-1] == STORY[-1]
    assert story[1:3] == STORY[1:3]
    for index in (11, -12):
        for look in (story.at, story.event_of, story.__getitem__):
            with pytest.raises(IndexError, match=f"no step {index}: this trace has steps 0 to 10"):
                look(index)
    with pytest.raises(IndexError, match="no step 0: this trace has no steps"):
        Trace().at(0)
    assert [story.event_of(i) for i in (0, 2, 3, 7, -1)] == ["e1", "e1", "e2", "e2", "e3"]
    assert record([Put("a", "e1")]).event_of(0) == ""


def test_next_and_previous_of_a_kind(story: Trace) -> None:
    assert [story.next(i, "arrive") for i in (-1, 0, 3, 8)] == [0, 3, 8, None]
    assert [story.previous(i, "arrive") for i in (0, 1, 3, 4, 10)] == [None, 0, 0, 3, 8]
    assert story.next(0, "match") == 7 and story.previous(10, "replan") is None
    with pytest.raises(TraceError, match=r"unknown kind of step 'matc' \(did you mean 'match'\?\)"):
        story.next(0, "matc")


def test_events_and_matches(story: Trace) -> None:
    assert [event.event for event in story.events] == ["e1", "e2", "e3"]
    assert story.event("e2").attributes == {"x": 5}
    with pytest.raises(KeyError, match="no event 'e7' arrived"):
        story.event("e7")
    assert story.matches == [(7, STORY[7])]
    story(Arrive("e4", "A", "13"))
    assert story.event("e4").time == "13"


def test_run_history(story: Trace) -> None:
    assert story.run_history("1") == [1, 4, 5, 9]
    assert story.run_history("1.1") == [5, 6, 7]
    assert story.run_history("1.1", ancestors=True) == [1, 4, 5, 6, 7]
    assert story.run_history("none") == [] == story.run_history("none", ancestors=True)
    story(Merge("7", "1", "b"))
    assert story.run_history("1")[-1] == 11


def test_run_history_of_a_run_that_is_its_own_parent_ends() -> None:
    trace = record([Spawn("1", "1", "e1", "a", ""), Spawn("2", "1", "e1", "a", ""),
                    Spawn("1", "2", "e1", "a", "")])  # fmt: skip
    assert trace.run_history("1", ancestors=True) == [1, 2]
    assert trace.run_history("2", ancestors=True) == [1, 2]


def test_arrival_of_an_event_is_plain_data() -> None:
    rows = [{"type": "A", "time": "2024-01-01 10:00", "seen": "2024-01-01 09:00", "x": np.nan}]
    stream = Stream.from_records(rows)
    arrive = Arrive.of(stream[0])
    assert (arrive.event, arrive.type, arrive.time) == ("e0", "A", "2024-01-01 10:00:00")
    assert arrive.start == arrive.end == stream.ends[0] and isinstance(arrive.end, int)
    assert "time" not in arrive.attributes and arrive.attributes["x"] is None
    odd = Arrive.of(Event("A", 1, id=1, v=np.arange(3), f=np.float32(0.5), inf=math.inf))
    assert odd.attributes == {"v": [0, 1, 2], "f": 0.5, "inf": None}


# Generated steps

runs = st.sampled_from(["1", "2", "1.0", "2.0", "root"])
events = st.sampled_from(["e1", "e2", "e3", "e4"])
states = st.sampled_from(["a", "b", "F"])
buffers = st.sampled_from(["a", "b"])
bindings = st.lists(
    st.tuples(st.sampled_from("ab"), st.lists(events, max_size=2).map(tuple)), max_size=2
).map(tuple)
actions = st.sampled_from(["begin", "take", "ignore", "proceed", "store"])
numbers = st.floats() | st.integers()
words = st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
tested = st.builds(
    Tested, words, words, st.none() | st.booleans(), st.tuples(st.tuples(words, values)), words
)
steps = st.one_of(
    st.builds(Arrive, events, words, words, st.dictionaries(words, values), numbers, numbers),
    st.builds(Test, runs, events, states, words, actions, st.tuples(tested), st.booleans()),
    st.builds(Move, runs, events, actions, words, states, states, bindings),
    st.builds(Spawn, runs, runs, events, states, words),
    st.builds(Merge, runs, runs, states),
    st.builds(Drop, runs, words, words, words),
    st.builds(Put, buffers, events),
    st.builds(Link, buffers, events, buffers, events | st.just(""), words),
    st.builds(Prune, buffers, st.lists(events, max_size=3).map(tuple), words),
    st.builds(Matched, st.integers(), runs, events, bindings, words),
    st.builds(Stats, st.dictionaries(st.sampled_from(["r1", "r2"]), numbers)),
    st.builds(Check, st.sampled_from("123"), words, words, numbers, numbers, st.booleans()),
    st.builds(Replan, words, words, words),
)


def fold(done: list[Step]) -> dict[str, Any]:
    """The state after some steps, folded again from the first, by the table of the format page."""
    runs: dict[str, RunView] = {}
    buffers: dict[str, list[str]] = {}
    links: list[Link] = []
    invariants: dict[str, Check] = {}
    stats: dict[str, float] = {}
    for i, step in enumerate(done):
        if isinstance(step, Move) and (step.action != "ignore" or step.run not in runs):
            old = runs.get(step.run, RunView("", "", (), None, i))
            runs[step.run] = RunView(
                step.run, step.target, step.bindings, old.parent, old.born_at, step.event
            )
        elif isinstance(step, Spawn):
            old = runs.get(step.run, RunView("", step.state))
            runs[step.child] = RunView(
                step.child, old.state, old.bindings, step.run, i, old.last_event
            )
        elif isinstance(step, Drop | Merge) or (
            isinstance(step, Matched) and step.run in runs and runs[step.run].state == "F"
        ):
            runs = {name: run for name, run in runs.items() if name != step.run}
        elif isinstance(step, Put) and step.event not in buffers.setdefault(step.buffer, []):
            buffers[step.buffer].append(step.event)
        elif isinstance(step, Link):
            links.append(step)
        elif isinstance(step, Prune):
            gone = {(step.buffer, event) for event in step.events}
            if step.buffer in buffers:
                kept = [event for event in buffers[step.buffer] if event not in step.events]
                buffers[step.buffer] = kept
            links = [
                link
                for link in links
                if (link.buffer, link.event) not in gone
                and (link.to_buffer, link.to_event) not in gone
            ]
        elif isinstance(step, Stats):
            stats |= step.values
        elif isinstance(step, Check):
            invariants[step.invariant] = step
        elif isinstance(step, Replan):
            invariants = {}
    return {
        "runs": runs,
        "buffers": {name: tuple(events) for name, events in buffers.items()},
        "links": sorted(links, key=str),
        "invariants": invariants,
        "stats": stats,
        "counts": {kind: sum(step.kind == kind for step in done) for kind in KINDS},
    }


def seen(shot: Snapshot) -> dict[str, Any]:
    names = ("runs", "buffers", "links", "invariants", "stats", "counts")
    found = {name: getattr(shot, name) for name in names}
    return found | {"links": sorted(shot.links, key=str)}


@given(st.lists(steps, min_size=1, max_size=40), st.integers(1, 7))
def test_any_step_can_be_sought(done: list[Step], spacing: int) -> None:
    with patch.object(module, "SPACING", spacing):
        trace = record(done)
    for i in reversed(range(len(done))):
        assert seen(trace.at(i)) == fold(done[: i + 1])
    last = trace.at(-1)
    assert seen(last) == fold(done), "an earlier seek changed a checkpoint"


@given(st.lists(steps, max_size=12), st.text(), st.dictionaries(words, numbers))
def test_a_saved_trace_comes_back(
    tmp_path_factory: pytest.TempPathFactory, done: list[Step], text: str, counters: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("trace")
    trace = record(done, pattern=text, plan=text, counters=counters, note=text)
    for name in ("x.json", "x.json.gz"):
        back = Trace.load(trace.save(folder / name))
        assert back == trace and not trace.diff(back) and back.diff(trace).same
        assert back.save(folder / "again.json").read_bytes() == (folder / "x.json").read_bytes()
        json.dumps([shot.index for shot in map(back.at, range(len(back)))])
    for file in folder.iterdir():
        file.unlink()


@given(st.lists(steps, max_size=12))
def test_every_step_says_itself_in_one_line_also_after_loading(done: list[Step]) -> None:
    again = [Step.from_plain(json.loads(json.dumps(step.to_plain()))) for step in done]
    for trace in (record(done), record(again)):
        assert len(trace.text().split("\n")) == max(1, len(done))
        assert trace.text().replace("\n", "").isprintable()


# Large traces


def busy(length: int, live: int) -> Iterator[Step]:
    """Steps of an engine that keeps about `live` runs and a window of buffered events."""
    chance, names, events, count = random.Random(1), list[str](), 0, 0
    while count < length:
        events += 1
        label = f"e{events}"
        done: list[Step] = [Arrive(label, "A", str(events)), Put("a", label)]
        done.append(Move(f"{events}", label, "begin", "take a", "a", "b", (("a", (label,)),)))
        names.append(f"{events}")
        for name in chance.sample(names, min(4, len(names))):
            done.append(Move(name, label, "take", "take b", "b", "b", (("a", (label, label)),)))
        if len(names) > live:
            done.append(Drop(names.pop(chance.randrange(len(names))), "window", label))
            done.append(Prune("a", (f"e{events - live}",), "window"))
        count += len(done)
        yield from done


@pytest.mark.parametrize("live", [10, 300, 3000])
def test_a_seek_replays_few_steps_and_checkpoints_stay_small(live: int) -> None:
    trace = Trace()
    for step in busy(60_000, live):
        trace(step)
    state = trace._live.size()
    replayed = 0
    apply = module._Live.apply

    def counting(*given: Any) -> None:
        nonlocal replayed
        replayed += 1
        apply(*given)

    chance = random.Random(2)
    places = [0, 1, len(trace) - 1, *(chance.randrange(len(trace)) for _ in range(100))]
    with patch.object(module._Live, "apply", counting):
        for i in [*places, *(mark - 1 for mark in trace._marks[1:])]:
            replayed = 0
            trace.at(i)
            assert replayed <= max(module.SPACING, state)
    copied = sum(checkpoint.size() for checkpoint in trace._checkpoints)
    assert copied <= 2 * len(trace)
    assert [run for run in trace.at(-1).runs] == list(trace._live.runs)


def test_stepping_on_and_jumping_about_show_the_same() -> None:
    steps = list(busy(2000, 40))
    fresh = {i: record(steps).at(i) for i in range(0, len(steps), 97)}
    trace = record(steps)
    kept = {i: trace.at(i) for i in range(len(steps))}  # each from the one before
    for i, snapshot in fresh.items():
        assert kept[i] == snapshot
    order = list(fresh)
    random.Random(1).shuffle(order)
    assert all(trace.at(i) == fresh[i] for i in order)


# Files


def test_the_format_page_is_right(tmp_path: Path) -> None:
    page = FORMAT_PAGE.read_text(encoding="utf-8")
    example = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert example is not None
    path = tmp_path / "example.json"
    path.write_text(example[1], encoding="utf-8")
    trace = Trace.load(path)
    assert trace.at(-1).say() == "Match #1: a = e1, b = e2, within 2 of 10."
    assert trace.at(-1).runs == {} and trace.graph.states[2].kind == "final"
    assert Trace.load(trace.save(tmp_path / "again.json")) == trace
    for kind, step in KINDS.items():
        assert f"| `{kind}` | {', '.join(item.name for item in fields(step))} |" in page
    for name, part in {"state": State, "edge": Edge, "pass": Pass}.items():
        assert f"| {name} | {', '.join(item.name for item in fields(part))} |" in page
    saved = json.loads((tmp_path / "again.json").read_text())
    assert [f"| `{name}` |" for name in saved if f"| `{name}` |" not in page] == []


def test_numbers_that_are_not_finite_are_saved_as_null(tmp_path: Path) -> None:
    trace = record([Check("1", "a", "b", math.nan, math.inf, False), Stats({"r": math.nan})])
    path = trace.save(tmp_path / "x.json")
    assert "NaN" not in path.read_text() and "Infinity" not in path.read_text()
    back = Trace.load(path)
    assert back == trace
    assert back[0].say() == "Invariant 1 broke: a missing < b missing no longer holds."


def test_saving_replaces_the_file_at_once_or_not_at_all(tmp_path: Path, story: Trace) -> None:
    path = story.save(tmp_path / "x.json")
    before = path.read_bytes()
    with patch.object(Step, "to_plain", side_effect=OSError("disk full")), pytest.raises(OSError):
        story.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_the_same_trace_is_the_same_file(tmp_path: Path, story: Trace) -> None:
    one, two = story.save(tmp_path / "one.json.gz"), story.save(tmp_path / "two.json.gz")
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes()[:2] == b"\x1f\x8b"
    plain_name = one.rename(tmp_path / "one.json")  # what is in a file counts, not its name
    assert Trace.load(plain_name) == story


def test_any_layout_of_the_same_json_loads(tmp_path: Path, story: Trace) -> None:
    path = story.save(tmp_path / "x.json")
    packed = json.loads(path.read_text())
    for layout in (json.dumps(packed), json.dumps(packed, indent=2), "\ufeff" + json.dumps(packed)):
        path.write_text(layout, encoding="utf-8")
        assert Trace.load(path) == story
    path.write_text(json.dumps({key: packed[key] for key in reversed(packed)}))
    assert Trace.load(path) == story


def changed(**parts: Any) -> bytes:
    packed = {
        "format": "cepviz-trace",
        "version": 1,
        **Trace()._about(),
        "counters": {},
        "steps": [],
    }
    packed |= parts
    return json.dumps({key: value for key, value in packed.items() if value != "left out"}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON, or was cut short"),
        (b"hello", "not JSON, or was cut short"),
        (b"\xff\xfe\x00rubbish\n", "not JSON"),
        (b"\x1f\x8b rubbish", "cannot read"),
        (b"[" * 100_000, "cannot read"),
        (b"[1, 2]", "JSON but no trace"),
        (b'{"a": [\n', "not JSON, or was cut short"),
        (b'{"format": "other"}', 'JSON but no trace: a trace says "format": "cepviz-trace"'),
        (changed(version=2), "has version 2 and this cepviz reads 1: update cepviz"),
        (changed(version="1"), r"its version is 1 \(must be a number"),
        (changed(version="left out"), "its version is missing"),
        (changed(graph="left out"), "missing 'graph'"),
        (changed(steps="left out"), "missing 'steps'"),
        (changed(steps=5), "cannot read"),
        (changed(graph={"kind": "", "states": [["a", "b", "c", "d"]], "edges": []}), "cannot read"),
        (changed(pattern=5), "its pattern is 5, which is not text"),
        (changed(clock={"unit": "year"}), "unknown unit 'year'"),
        (changed(clock={"unit": "s", "zone": "Mars/Base"}), "Mars/Base"),
        (changed(clock={"unit": "s", "zone": "../../etc/passwd"}), "etc/passwd"),
        (changed(steps=[["put", "a", "e1"], ["mtach", 1]]), "step 1: unknown kind of step 'mtach'"),
        (changed(steps=[["put", "a"]]), "step 0: not a step of kind put"),
        (changed(steps=[["put", "a", 5]]), "step 0: not a step of kind put"),
        (changed(steps=[["put", "a", {"test": 5}]]), "step 0: not a step of kind put"),
        (changed(steps=[["put", "a", {"map": [5]}]]), "step 0: not a step of kind put"),
        (changed(steps=[["put", "a", "b", "c"]]), "step 0: not a step of kind put"),
        (changed(steps=[5]), "step 0: not a step: 5"),
        (changed(steps={"put": 1}), "step 0: not a step: put"),
        (changed(steps=[[["put"]]]), "step 0: not a step"),
    ],
)
def test_a_bad_file_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as error:
        Trace.load(path)
    assert str(path) in str(error.value)


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path, story: Trace) -> None:
    whole = story.save(tmp_path / "x.json").read_bytes()
    path = tmp_path / "short.json"
    for length in range(len(whole) - 2):
        path.write_bytes(whole[:length])
        with pytest.raises(TraceError, match="cut short"):
            Trace.load(path)
    packed = gzip.compress(whole)
    for length in range(2, len(packed)):
        path.write_bytes(packed[:length])
        with pytest.raises(TraceError, match="cannot read"):
            Trace.load(path)


def test_a_damaged_line_is_named(tmp_path: Path, story: Trace) -> None:
    path = story.save(tmp_path / "x.json")
    lines = path.read_text().split("\n")
    lines[3] = lines[3][:-4]
    path.write_text("\n".join(lines))
    with pytest.raises(TraceError, match="line 4 is damaged"):
        Trace.load(path)


def test_nothing_may_follow_the_end(tmp_path: Path, story: Trace) -> None:
    path = story.save(tmp_path / "x.json")
    path.write_text(path.read_text() + "more")
    with pytest.raises(TraceError, match="something follows its end in line 13"):
        Trace.load(path)


def test_a_missing_file_says_what_is_near(tmp_path: Path, story: Trace) -> None:
    story.save(tmp_path / "story.json")
    with pytest.raises(TraceError, match=r"no file .*stroy.json' \(did you mean 'story.json'\?\)"):
        Trace.load(tmp_path / "stroy.json")


# Comparing


def test_equal_traces_do_not_differ(story: Trace) -> None:
    difference = story.diff(record(STORY, counters={"evaluations": 1}, note="all of it"))
    assert difference.same and not difference and repr(difference) == "no difference"
    assert story != 5 and story == story


def test_a_difference_says_where(story: Trace) -> None:
    other_steps = [*STORY[:7], Matched(1, "1.1", "e2", (("a", ("e1",)), ("b", ("e3",))))]
    difference = story.diff(record(other_steps, engine="naive", counters={"evaluations": 4}))
    assert difference and not difference.same
    assert (difference.first, difference.left, difference.right) == (7, STORY[7], other_steps[7])
    assert difference.only_left == (AB,)
    assert difference.only_right == ((("a", ("e1",)), ("b", ("e3",))),)
    assert difference.counters == {"evaluations": (1, 4)}
    assert difference.counts == {"arrive": (3, 2), "drop": (1, None), "prune": (1, None)}
    assert repr(difference).split("\n") == [
        "engine eager | naive",
        "note all of it | ",
        "first different step: 7",
        "  left : Match #1: a = e1, b = e2, within 1 of 10.",
        "  right: Match #1: a = e1, b = e3.",
        "1 match only left:",
        "  a = e1, b = e2",
        "1 match only right:",
        "  a = e1, b = e3",
        "steps arrive: 3 | 2",
        "steps drop: 1 | missing",
        "steps prune: 1 | missing",
        "counters evaluations: 1 | 4",
    ]


def test_matches_are_compared_as_multisets_without_order() -> None:
    one = record([Matched(1, "1", "e2", AB), Matched(2, "2", "e2", AB), Matched(3, "3", "e1", A)])
    two = record([Matched(1, "9", "e1", A), Matched(2, "9", "e2", AB[::-1])])
    assert (one.diff(two).only_left, one.diff(two).only_right) == ((AB,), ())


def test_a_trace_that_ends_early_differs_where_it_ends(story: Trace) -> None:
    difference = story.diff(record(STORY[:9], counters={"evaluations": 1}, note="all of it"))
    assert (difference.first, difference.left, difference.right) == (9, STORY[9], None)
    assert "right: has ended" in repr(difference)


# Showing


def test_repr_says_engine_pattern_and_counts(story: Trace) -> None:
    assert repr(story).split("\n") == [
        "Trace of eager: 11 steps, 3 events, 1 match",
        "  pattern  PATTERN SEQ(A a, B b)",
        "  steps    arrive 3, test 1, move 2, spawn 1, drop 1, put 1, prune 1, match 1",
        "  counters evaluations 1",
        "  note     all of it",
    ]
    assert repr(Trace()) == "Trace of an engine: 0 steps, 0 events, 0 matches"


def test_text_is_numbered_sentences(story: Trace) -> None:
    assert story.text(6, 9) == (
        "6  Run 1.1 takes e2 and is at F.\n"
        "7  Match #1: a = e1, b = e2, within 1 of 10.\n"
        "8  e3 A x 2 arrives at 12."
    )
    assert story.text(-2).startswith(" 9  Run 1 is dropped (window, at e3)")
    assert Trace().text() == ""


def test_hostile_values_are_escaped() -> None:
    evil = "<script>alert(1)</script>\x1b[31m\n\u202e"
    trace = record([Arrive(evil, evil, "1", {evil: evil})], engine=evil, pattern=evil, note=evil,
                   counters={evil: evil})  # fmt: skip
    bundle = trace._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "<script" not in bundle["text/html"] and "&lt;script&gt;" in bundle["text/html"]
    for text in (*bundle.values(), trace.text(), repr(trace.at(0)), repr(trace.diff(Trace()))):
        assert "\x1b" not in text and "\u202e" not in text


def test_the_clock_prints_times(tmp_path: Path) -> None:
    schema = Schema({"x": "number"}, ("A",), unit="ns", zone="Europe/Berlin")
    trace = Trace.load(Trace(schema=schema).save(tmp_path / "x.json"))
    assert trace.clock == Schema(unit="ns", zone="Europe/Berlin")
    assert trace.clock.format_time(0) == "1970-01-01 01:00:00+01:00"
