"""`contexts`: the figures of CONTEXTS, an independent brute force, and its properties."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from literal import stream as intervals

import cepviz as cep

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")
CONTEXTS = ("CPC", "EXP", "CPL", "TCL")


def query(context: str, source: str, window: str = "", publish: str = "") -> str:
    behind = f"FROM {f'WINDOW {{{window}}} ' if window else ''}"
    return f"CONTEXT {context} SELECT <x> {behind}{source}{publish}"


def words(match: cep.Match) -> str:
    """A match as its events by role: `a1 | b1 b2 | c1`."""
    said = []
    for bound in match.bindings.values():
        events = (bound,) if isinstance(bound, cep.Event) else bound
        said.append(" ".join(event.label for event in events))
    return " | ".join(said)


def found(context: str, source: str, stream: cep.Stream, window: str = "") -> list[str]:
    return [words(match) for match in cep.match(query(context, source, window), stream)]


# ---- the figures of the paper ----

#: Built to the facts of Figure 2: b3 begins before a3 ends, so b4 is the successor of a3 and a4.
FIGURE_2 = "a1@1-2 b1@3-4 a2@5-6 b2@7-8 a3@9-12 b3@10-13 a4@11-14 b4@15-16 c1@17-18"

TABLE_1 = {
    ("CPC", "SQ"): ["a1 | b1", "a2 | b2", "a4 | b4"],
    ("EXP", "SQ"): ["a1 | b1", "a2 | b2", "a3 | b4"],
    ("CPL", "SQ"): ["a1 | b1", "a2 | b2", "a3 | b4", "a4 | b4"],
    ("TCL", "SQ"): ["a1 |  | b1", "a2 |  | b2", "a3 | a4 | b4", "a4 |  | b4"],
    ("CPC", "KC"): ["a1 | b1 b2 b3 b4 | c1", "a2 | b2 b3 b4 | c1", "a4 | b4 | c1"],
    ("EXP", "KC"): ["a1 | b1 b2 b3 b4 | c1", "a2 | b2 b3 b4 | c1", "a3 | b4 | c1"],
    ("CPL", "KC"): [
        "a1 | b1 b2 b3 b4 | c1", "a2 | b2 b3 b4 | c1", "a3 | b4 | c1", "a4 | b4 | c1",
    ],
    ("TCL", "KC"): [
        "a1 |  | b1 b2 b3 b4 | c1", "a2 |  | b2 b3 b4 | c1", "a3 | a4 | b4 | c1",
        "a4 |  | b4 | c1",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("context", "operator"), TABLE_1)
def test_table_1_on_the_stream_of_figure_2(context: str, operator: str) -> None:
    source = {"SQ": "<A> SEQUENCE <B>", "KC": "<A> KLNCLOSE <B>, <C>"}[operator]
    assert found(context, source, intervals(FIGURE_2)) == TABLE_1[context, operator]


def test_figure_2_the_initiators_of_c1() -> None:
    events = intervals(FIGURE_2)
    everyone = ["b1 | c1", "b2 | c1", "b3 | c1", "b4 | c1"]
    assert found("CPL", "<B> SEQUENCE <C>", events) == everyone
    assert found("CPC", "<B> SEQUENCE <C>", events) == ["b4 | c1"]
    assert found("EXP", "<B> SEQUENCE <C>", events) == ["b1 | c1"]


@pytest.mark.parametrize(
    ("rivals", "successor"),
    [
        ("b2@4-8 b1@3-9", "b2"),  # both start after a1 ends; b2 ends first
        ("b1@2-5 b2@4-8", "b2"),  # b1 ends first and starts too early
        ("b1@1-5 b3@6-7 b2@4-8", "b3"),  # four overlapping events, as in Figure 1
        ("b1@4-8 b2@3-8", "b1"),  # they end together: the one that arrived first
        ("b1@2-8 b2@2-9", None),
    ],
)
def test_figure_1_the_successor_is_unique(rivals: str, successor: str | None) -> None:
    wanted = [] if successor is None else [f"a1 | {successor}"]
    assert found("CPL", "<A> SEQUENCE <B>", intervals(f"a1@1-2 {rivals}")) == wanted


FIGURE_3 = "a1@1 b1@2 b2@3 a2@4 b3@5 b4@6 a3@7 b5@8 b6@9"
INNER = "<A> KLNCLOSE WINDOW {COUNT 2, COUNT 2} <B>"


def test_figure_3_two_windows_one_over_the_other() -> None:
    result = cep.match(query("CPC", INNER, "COUNT 2, COUNT 1"), intervals(FIGURE_3))
    assert [[event.id for event in match.events] for match in result] == [
        ["a1", "b1", "b2", "a2", "b3", "b4"],
        ["a2", "b3", "b4", "a3", "b5", "b6"],
    ]


def figure_4(window: str) -> cep.Trace:
    return cep.trace(query("CPC", f"<{INNER}> KLNCLOSE <B>", window), intervals(FIGURE_3))


def paths(trace: cep.Trace, event: str) -> tuple[set[str], set[str]]:
    """The outputs in the cache, and its other entries, when an event has been processed."""
    last = next(i for i, step in enumerate(trace) if getattr(step, "event", "") == event)
    after = trace.next(last, "arrive")
    snapshot = trace.at(-1 if after is None else after - 1)
    outputs = set(snapshot.buffers.get("Output", ()))
    others = {e for name, held in snapshot.buffers.items() if name != "Output" for e in held}
    return outputs, others


def codes(trace: cep.Trace) -> list[str]:
    """The paths in the order in which they came to be."""
    return [s.event for s in trace if s.kind == "put" and s.buffer == "Output"]


def test_figure_4a_wipe_out() -> None:
    trace = figure_4("COUNT 1, COUNT 1")
    assert codes(trace)[0] == "a1 1-1-1-1"
    assert paths(trace, "a2") == (set(), {"a1", "b1", "b2", "a2"})
    # a1, b1, b2 and b3 were used; a2 goes because its path goes through b3.
    assert paths(trace, "b3") == (set(), set())
    wiped = {e for s in trace if s.kind == "prune" and "wipe-out" in s.because for e in s.events}
    assert wiped == {"a1 1-1-1-1", "a1", "b1", "b2", "a2", "b3"}


def test_figure_4b_referencing_keep() -> None:
    trace = figure_4("COUNT 2, COUNT 1")
    assert paths(trace, "b3") == ({"a1 1-1-1-1"}, {"a1", "b1", "b2", "a2", "b3"})
    # Both paths are given out together. Then only the edge from b3 to the output is deleted.
    first = trace.matches[0][1]
    assert dict(first.bindings)["detectors_2"] == ("b3", "b4")
    assert paths(trace, "b4") == ({"a1 1-1-1-2"}, {"a1", "b1", "b2", "a2", "b3", "b4"})
    before, after = (trace.at(i) for i in (trace.matches[0][0], trace.matches[0][0] + 2))
    edges = [{(k.event, k.to_event, k.version) for k in s.links} for s in (before, after)]
    assert edges[0] - edges[1] == {("a1 1-1-1-1", "b3", "1")}


@pytest.mark.parametrize(("unit", "further"), [(10, False), (5, False), (4, True)])
def test_figure_4c_rigid(unit: int, further: bool) -> None:
    """From a1 to b3 it is 4: with a longer unit all of the path is gone and 1-1-1-2 never is."""
    trace = figure_4(f"COUNT 1, TEMPORAL {unit}")
    assert codes(trace)[0] == "a1 1-1-1-1"
    assert ("a1 1-1-1-2" in codes(trace)) is further
    if not further:
        assert paths(trace, "b3") == (set(), set())


# ---- an independent brute force, from Definitions 3 to 7 ----


@dataclass(eq=False)
class Thing:
    """An event, or an output as the next operator sees it."""

    start: int
    end: int
    order: tuple[int, ...]
    x: Any
    text: str
    whole: bool = False

    def before(self, other: Thing) -> bool:
        points = self.start == self.end and other.start == other.end
        if points and not self.whole and not other.whole:
            return self.order < other.order
        return self.end < other.start


def successor(thing: Thing, instances: list[Thing], holds: Any) -> Thing | None:
    """Definition 3: of those that start after the end, the one that ends first."""
    later = [other for other in instances if thing.before(other) and holds(other)]
    return min(later, key=lambda other: other.order, default=None)


def kept(context: str, group: list[Thing]) -> list[tuple[Thing, list[Thing]]]:
    """Definitions 4 to 7: the initiators with those that belong to their output."""
    group = sorted(group, key=lambda thing: thing.order)
    if context == "CPC":
        return [(group[-1], [])]
    if context == "EXP":
        return [(group[0], [])]
    between = {n: group[n + 1 :] if context == "TCL" else [] for n in range(len(group))}
    return [(thing, between[n]) for n, thing in enumerate(group)]


def outputs(
    context: str,
    firsts: list[Thing],
    seconds: list[Thing],
    thirds: list[Thing] | None,
    detects: Any,
    ends: Any,
    same: bool = False,
) -> list[Thing]:
    """SQ or KC: for each detector its contiguous initiators, and what the context makes of them.

    With `same`, detectors and terminators are of one stream, and a terminator that comes before
    the first detector ends its initiator.
    """
    first_detector = {i: successor(i, seconds, lambda d, i=i: detects(i, d, i)) for i in firsts}
    for i in firsts if same else ():
        end = successor(i, thirds or [], lambda t, i=i: ends(i, t, i))
        detector = first_detector[i]
        if end is not None and detector is not None and end.order <= detector.order:
            first_detector[i] = None
    made = []
    for detector in seconds:
        group = [i for i in firsts if first_detector[i] is detector]
        for initiator, between in kept(context, group) if group else ():
            chain, last = [detector], None
            if thirds is not None:
                while following := successor(
                    chain[-1],
                    seconds,
                    lambda d: detects(initiator, d, chain[-1]),  # noqa: B023
                ):
                    chain.append(following)

                def holds(end, initiator=initiator, chain=chain):
                    inside = [d for d in chain if d.before(end)]
                    return ends(initiator, end, inside[-1])

                last = successor(detector, thirds, holds)
                if last is None:
                    continue
                chain = [d for d in chain if d.before(last)]
            parts = [initiator, *between, *chain, *([last] if last else [])]
            text = [initiator.text, *([" ".join(b.text for b in between)] * (context == "TCL"))]
            text += [" ".join(d.text for d in chain), *([last.text] if last else [])]
            made.append(
                Thing(
                    min(p.start for p in parts), parts[-1].end,
                    (*parts[-1].order, *initiator.order), parts[-1].x, " | ".join(text), True,
                )
            )  # fmt: skip
    return sorted(made, key=lambda thing: thing.order)


def things(stream: cep.Stream, type: str) -> list[Thing]:
    return [
        Thing(e.start, e.end, (e.end, e.position), e.get("x"), e.label)
        for e in stream
        if e.type == type
    ]


@st.composite
def streams(draw: st.DrawFn, most: int = 12, points: bool = False) -> cep.Stream:
    """Intervals and points of four types in a short time, so that they overlap and tie."""
    rows = []
    for number in range(draw(st.integers(1, most))):
        start = draw(st.integers(0, 14))
        length = 0 if points else draw(st.sampled_from((0, 0, 1, 2, 5)))
        kind = draw(st.sampled_from("ABCD"))
        x = draw(st.integers(0, 3))
        rows.append(
            {"id": f"{kind}{number}", "type": kind, "s": start, "t": start + length, "x": x}
        )
    rows.sort(key=lambda row: row["t"])
    return cep.Stream.from_records(rows, time="s", end="t", id="id")


CONDITIONS = [
    ("true", lambda pre, suf, cur: True),
    ("$suf.x >= $pre.x", lambda pre, suf, cur: suf.x >= pre.x),
    ("$suf.x = $pre.x", lambda pre, suf, cur: suf.x == pre.x),
    ("$suf.x != $cur.x", lambda pre, suf, cur: suf.x != cur.x),
    ("$suf.x = $cur.x", lambda pre, suf, cur: suf.x == cur.x),
]
many = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(st.sampled_from(CONTEXTS), streams(), st.sampled_from(CONDITIONS[:3]))
def test_a_sequence_is_what_the_definitions_say(context, stream, condition) -> None:
    note(str([(e.label, e.start, e.end, e.x) for e in stream]))
    text, holds = condition
    wanted = outputs(context, things(stream, "A"), things(stream, "B"), None, holds, None)
    got = found(context, f"<A> SEQUENCE RESTRICT {{{text}}} <B>", stream)
    assert sorted(got) == sorted(thing.text for thing in wanted)


@many
@given(
    st.sampled_from(CONTEXTS), streams(), st.sampled_from(CONDITIONS), st.sampled_from(CONDITIONS),
    st.booleans(),
)  # fmt: skip
def test_a_closure_is_what_the_definitions_say(context, stream, detects, ends, same) -> None:
    """With terminators of their own, or of the stream of the detectors."""
    note(str([(e.label, e.start, e.end, e.x) for e in stream]))
    last = "B" if same else "C"
    a, b, thirds = (things(stream, name) for name in ("A", "B", last))
    wanted = outputs(context, a, b, thirds, detects[1], ends[1], same)
    restricts = f"{{RESTRICT {{{detects[0]}}}, RESTRICT {{{ends[0]}}}}}"
    if same and ends[0] == "true":  # no restriction and no stream would mean: no terminators
        restricts = f"{{RESTRICT {{{detects[0]}}}, RESTRICT {{1 = 1}}}}"
    got = found(context, f"<A> KLNCLOSE {restricts} <B>{'' if same else ', <C>'}", stream)
    assert sorted(got) == sorted(thing.text for thing in wanted)


@many
@given(st.sampled_from(CONTEXTS), streams(14), st.sampled_from(CONDITIONS[:3]))
def test_outputs_are_events_for_further_operators(context, stream, condition) -> None:
    note(str([(e.label, e.start, e.end, e.x) for e in stream]))
    text, holds = condition
    always = CONDITIONS[0][1]
    a, b, c, d = (things(stream, name) for name in "ABCD")
    inner = outputs(context, a, b, None, holds, None)
    source = f"<<A> SEQUENCE RESTRICT {{{text}}} <B>>"
    if context != "TCL":  # where the parts of `between` would be told apart
        wanted = outputs(context, inner, c, None, holds, None)
        got = found(context, f"{source} SEQUENCE RESTRICT {{{text}}} <C>", stream)
        assert sorted(got) == sorted(thing.text for thing in wanted)
        wanted = outputs(context, inner, c, d, always, always)
        assert sorted(found(context, f"{source} KLNCLOSE <C>, <D>", stream)) == sorted(
            thing.text for thing in wanted
        )
    later = outputs(context, b, c, None, holds, None)
    wanted = outputs(context, a, later, None, always, None)
    got = found(context, f"<A> SEQUENCE <<B> SEQUENCE RESTRICT {{{text}}} <C>>", stream)
    assert sorted(got) == sorted(thing.text for thing in wanted)


# ---- the properties of the paper ----


def spans(context: str, source: str, stream: cep.Stream) -> dict[Any, Any]:
    """By initiator: the events of the output and its interval, `between` told apart."""
    result = {}
    for match in cep.match(query(context, source), stream):
        bound = {name: match.ids[name] for name in match if name != "between"}
        key = tuple(tuple(v) if isinstance(v, list) else v for v in bound.values())
        result[key] = (match.first, match.last, {e.id for e in match.events})
    return result


SOURCES = ["<A> SEQUENCE <B>", "<A> KLNCLOSE <B>, <C>"]


@many
@given(st.sampled_from(SOURCES), streams())
def test_property_8_compact_is_within_expanded(source: str, stream: cep.Stream) -> None:
    """One output each for a detector; compact is inside expanded, unless an initiator contains
    another (the paper's proviso; here also where both end together)."""
    compact, expanded = (spans(context, source, stream) for context in ("CPC", "EXP"))
    assert len(compact) == len(expanded)
    starts = {e.id: e.start for e in stream}
    contained = any(
        a.start > b.start and a.end <= b.end for a, b in itertools.permutations(stream, 2)
        if a.type == b.type == "A"
    )  # fmt: skip
    tails = {key[1:]: (span, starts[key[0]]) for key, span in expanded.items()}
    for key, (first, last, _) in compact.items():
        (other_first, other_last, _), _ = tails[key[1:]]
        assert last == other_last  # finished by: the same detector, the same terminator
        if not contained:
            assert other_first <= first


@many
@given(st.sampled_from(SOURCES), streams())
def test_properties_9_and_10_inclusion(source: str, stream: cep.Stream) -> None:
    compact, expanded, complete, traceable = (spans(c, source, stream) for c in CONTEXTS)
    assert {**compact, **expanded}.items() <= complete.items()
    assert complete.keys() == traceable.keys()
    for key, (_, last, events) in complete.items():
        assert events <= traceable[key][2]
        assert last == traceable[key][1]


@many
@given(streams(points=True), st.sampled_from(("", " and b.x >= a.x")))
def test_points_agree_with_sase(stream: cep.Stream, more: str) -> None:
    """A sequence of points in the complete context is skip till next match; a closure is its
    first match for each initiator."""
    restrict = " RESTRICT {$suf.x >= $pre.x}" if more else ""
    pattern = f"PATTERN SEQ(A a, B b) WHERE skip_till_next_match {{ a.x >= 0{more} }}"
    theirs = cep.match(pattern, stream, engine="sase")
    ours = found("CPL", f"<A> SEQUENCE{restrict} <B>", stream)
    assert sorted(ours) == sorted(words(match) for match in theirs)
    each = "" if not more else " and b[i].x >= a.x"
    pattern = f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match {{ a.x >= 0{each} }}"
    first: dict[str, str] = {}
    for match in cep.match(pattern, stream, engine="sase"):
        first.setdefault(match.ids["a"], words(match))
    restrict = " {RESTRICT {$suf.x >= $pre.x}, RESTRICT {true}}" if more else ""
    assert sorted(found("CPL", f"<A> KLNCLOSE{restrict} <B>, <C>", stream)) == sorted(
        first.values()
    )


# ---- watching ----

SHAPES = [
    "<A> SEQUENCE RESTRICT {$suf.x >= $pre.x} <B>",
    "<A> SEQUENCE WINDOW {COUNT 4, COUNT 2, KEEP} <B>",
    "<A> SEQUENCE WINDOW {TEMPORAL 4, TEMPORAL 2} <B>",
    "<A> KLNCLOSE {RESTRICT {$pre.x > 0}, RESTRICT {$suf.x != $cur.x}, RESTRICT {true}} <B>, <C>",
    "<A> KLNCLOSE <B>",
    "<<A> KLNCLOSE WINDOW {COUNT 2, 1} <B>> KLNCLOSE WINDOW {TEMPORAL 2, 1, WIPEOUT} <B>, <C>",
    "<A> SEQUENCE <<B> SEQUENCE <C>>",
    "<A> KLNCLOSE <RESTRICT {$cur.x > 0} <<B> SEQUENCE <C>>>, <D>",
    "RESTRICT {$cur.x > 0} <A>",
]
OUTER = [
    "",
    "COUNT 1, COUNT 1",
    "COUNT 2, COUNT 1",
    "TEMPORAL 3, TEMPORAL 1",
    "COUNT 2, 1, ROLLING",
]


@many
@given(
    st.sampled_from(CONTEXTS),
    st.sampled_from(SHAPES),
    st.sampled_from(OUTER),
    streams(points=False),
)
def test_a_trace_speaks_of_its_graph_and_changes_nothing(context, source, window, stream) -> None:
    text = query(context, source, window)
    note(text)
    note(str([(e.label, e.start, e.end, e.x) for e in stream]))
    trace, result = cep.trace(text, stream), cep.match(text, stream)
    assert trace.counters == result.counters
    assert [dict(m.bindings) for _, m in trace.matches] == [
        {n: (b.label,) if isinstance(b, cep.Event) else tuple(e.label for e in b)
         for n, b in match.bindings.items()}
        for match in result
    ]  # fmt: skip
    states = {state.name for state in trace.graph.states}
    edges = {edge.name: edge for edge in trace.graph.edges}
    for step in trace:
        assert step.say()
        if step.kind in ("test", "move"):
            edge = edges[step.edge]
            if step.kind == "move":
                ends = (step.source, step.target, step.action)
                assert ends == (edge.source, edge.target, edge.action)
            else:
                assert step.state in states
    last = trace.at(-1)
    for run in last.runs.values():
        assert run.state in states
    held = {event for events in last.buffers.values() for event in events}
    if not window:  # every entry of the cache belongs to a path that is still growing
        growing = {e for run in last.runs.values() for _, events in run.bindings for e in events}
        assert held == growing


def test_a_trace_names_initiators_detectors_and_the_rule() -> None:
    trace = cep.trace(query("CPC", "<A> SEQUENCE <B>"), intervals(FIGURE_2))
    said = [step.say() for step in trace]
    assert "Run 3 at 2: take b3? b3 starts at 10, not after a3 ends at 12 no. It fails." in said
    assert (
        "Run 3 is dropped (context, at b4): b4 is the successor of a3, a4: "
        "compact keeps the initiator that ends last, a4." in said
    )
    assert "Match #3: initiator = a4, detector = b4, 5." in said


# ---- windows on a sequence ----


def numbered(stream: cep.Stream) -> list[tuple[int, cep.Event]]:
    """The events a sequence of A and B reads, with their numbers from 1."""
    read = [event for event in stream if event.type in "AB"]
    return list(enumerate(read, 1))


def precedes(first: cep.Event, second: cep.Event) -> bool:
    if first.is_interval or second.is_interval:
        return first.end < second.start
    return first.position < second.position


@many
@given(streams(16), st.integers(1, 6), st.integers(1, 4))
def test_a_count_window_holds_the_last_events(stream, reach, slide) -> None:
    """It begins after a multiple of the slide, and ends with the present event. Referencing-keep
    pairs a detector with all in it; rolling lets each initiator meet its successor in its block."""
    events = numbered(stream)
    pairs, blocks = [], []
    for n, b in events:
        front = max(0, -(-(n - reach) // slide) * slide)
        block = (n - 1) // reach * reach
        for m, a in events:
            if (a.type, b.type) == ("A", "B") and precedes(a, b):
                pairs += [f"{a.label} | {b.label}"] if m > front else []
                taken = any(x.startswith(f"{a.label} ") for x in blocks)
                blocks += [f"{a.label} | {b.label}"] if m > block and not taken else []
    for strategy, wanted in (("KEEP", pairs), ("ROLLING", blocks)):
        source = f"<A> SEQUENCE WINDOW {{COUNT {reach}, COUNT {slide}, {strategy}}} <B>"
        assert sorted(found("CPL", source, stream)) == sorted(wanted)


@many
@given(streams(16), st.integers(1, 8))
def test_a_temporal_window_is_shorter_than_its_range(stream, reach) -> None:
    """With a slide of one unit it begins anywhere: every output lasts less than the range."""
    source = f"<A> SEQUENCE WINDOW {{TEMPORAL {reach}, TEMPORAL 1, KEEP}} <B>"
    wanted = [
        f"{a.label} | {b.label}"
        for a, b in itertools.permutations(stream, 2)
        if (a.type, b.type) == ("A", "B") and precedes(a, b) and b.end - a.start < reach
    ]
    assert sorted(found("CPL", source, stream)) == sorted(wanted)


def test_wipe_out_on_a_sequence_uses_an_event_once() -> None:
    events = intervals("a1@1(x=1) a2@2(x=2) a3@3(x=3) a4@4(x=4)")
    rising = "<A> SEQUENCE WINDOW {{COUNT 9, COUNT 1, {}}} RESTRICT {{$suf.x > $pre.x}} <A>"
    assert found("CPC", rising.format("WIPEOUT"), events) == ["a1 | a2", "a3 | a4"]
    assert found("CPC", rising.format("KEEP"), events) == ["a1 | a2", "a2 | a3", "a3 | a4"]
    assert len(found("CPL", rising.format("KEEP"), events)) == 6


def test_rigid_skips_what_is_older_than_the_slide() -> None:
    events = intervals("a1@1 b1@2 a2@3 b2@4 a3@7 b3@8")
    source = "<A> SEQUENCE WINDOW {TEMPORAL 20, TEMPORAL 5} <B>"
    # After a1 b1 the window begins at 1 + 5: a2 and b2 are older than that.
    assert found("CPC", source, events) == ["a1 | b1", "a3 | b3"]


def test_a_window_on_a_sequence_bounds_what_is_kept() -> None:
    rows = [{"type": "A", "time": n, "x": 0} for n in range(2000)]
    events = cep.Stream.from_records(rows)
    source = "<A> SEQUENCE{} RESTRICT {{$suf.x > 1}} <A>"
    kept = cep.match(query("CPL", source.format(" WINDOW {COUNT 50, COUNT 10}")), events)
    everything = cep.match(query("CPL", source.format("")), events)
    assert kept.counters["peak_buffered"] <= 51
    assert everything.counters["peak_buffered"] == 2000


# ---- windows on a closure ----


def test_a_chain_is_given_out_when_it_fills_its_window() -> None:
    events = intervals("a1@1 b1@2 b2@3 b3@4 b4@9 c1@10")
    chain = "<A> KLNCLOSE WINDOW {{{}}} <B>"
    assert found("CPC", chain.format("COUNT 3, COUNT 3"), events) == ["a1 | b1 b2 b3"]
    assert found("CPC", chain.format("COUNT 2, COUNT 1"), events) == [
        "a1 | b1 b2",
        "a1 | b1 b2 b3",
        "a1 | b1 b2 b3 b4",
    ]
    assert found("CPC", chain.format("TEMPORAL 3, COUNT 1"), events) == ["a1 | b1 b2 b3"]
    assert found("CPC", chain.format("TEMPORAL 4, COUNT 1"), events) == ["a1 | b1 b2 b3 b4"]
    assert found("CPC", chain.format("TEMPORAL 2, TEMPORAL 4, KEEP"), events) == [
        "a1 | b1 b2",
        "a1 | b1 b2 b3 b4",
    ]


def test_a_terminator_drops_a_chain_that_does_not_fill_its_window() -> None:
    events = intervals("a1@1 b1@2 c1@3 b2@4 b3@5 a2@6 b4@7 b5@8")
    got = found("CPC", "<A> KLNCLOSE WINDOW {COUNT 2, COUNT 2} <B>, <C>", events)
    assert got == ["a2 | b4 b5"]


def test_the_range_of_a_window_may_depend_on_the_prefix() -> None:
    """What is left of a day of 10, as in the paper's stock query."""
    events = intervals("a1@3 b1@6 b2@9 b3@10 a2@18 b4@19 b5@20 b6@21")
    source = "<A> KLNCLOSE WINDOW {TEMPORAL 10 - End($pre).end % 10, COUNT 1} <B>"
    assert found("CPC", source, events) == ["a1 | b1 b2 b3", "a2 | b4 b5"]


def test_rolling_starts_a_closure_anew() -> None:
    events = intervals("a1@1 a2@2 b1@3 a3@4 b2@5 b3@6 b4@7")
    chain = "<A> KLNCLOSE WINDOW {{COUNT 2, COUNT 2, {}}} <B>"
    # At b2 the chains of a1 and a2 are full, and that of a3 has begun with it.
    assert found("CPL", chain.format("ROLLING"), events) == ["a1 | b1 b2", "a2 | b1 b2"]
    assert found("CPL", chain.format("KEEP"), events)[:3] == [
        "a1 | b1 b2",
        "a2 | b1 b2",
        "a3 | b2 b3",
    ]


def test_coupled_windows() -> None:
    """An inner window over the chain, an outer one over the initiators it gives."""
    events = intervals("a1@1 b1@2 b2@3 a2@4 b3@5 b4@6 c1@7 a3@20 b5@21 b6@22 c2@40")
    source = f"<{INNER}> SEQUENCE WINDOW {{TEMPORAL 10, TEMPORAL 1, KEEP}} <C>"
    assert found("CPL", source, events) == ["a1 | b1 b2 | c1", "a2 | b3 b4 | c1"]


# ---- windows behind FROM, partitions ----


def test_a_temporal_window_behind_from_is_full_when_its_outputs_span_it() -> None:
    events = intervals("a1@1 b1@2 a2@3 b2@4 a3@5 b3@6 a4@7 b4@8")
    got = found("CPC", "<A> SEQUENCE <B>", events, "TEMPORAL 5, TEMPORAL 2, KEEP")
    assert got == ["a1 a2 a3 | b1 b2 b3", "a2 a3 a4 | b2 b3 b4"]


def test_windows_are_kept_apart_where_every_part_is_equal_in_an_attribute() -> None:
    events = intervals("a1@1(k=1) a2@2(k=2) b1@3(k=2) b2@4(k=1) a3@5(k=2) b3@6(k=2)")
    source = "<A> SEQUENCE RESTRICT {$suf.k = $pre.k} <B>"
    got = found("CPC", source, events, "COUNT 2, COUNT 2")
    assert got == ["a2 a3 | b1 b3"]  # both with k = 2; a1 b2 with k = 1 waits for another
    assert found("CPC", source, events) == ["a2 | b1", "a1 | b2", "a3 | b3"]


# ---- through the same doors as patterns ----


def test_a_published_output_is_read_by_another_query() -> None:
    rise = (
        "CONTEXT CPC SELECT <x AS top, start AS began> "
        "FROM <A> SEQUENCE RESTRICT {$suf.x > $pre.x} <A> PUBLISH <Rise>"
    )
    after = "CONTEXT CPC SELECT <top> FROM <Rise> SEQUENCE RESTRICT {$suf.x > $pre.top} <B>"
    events = intervals("a1@1(x=1) a2@2(x=5) b1@3(x=4) b2@4(x=6)")
    result = cep.match(cep.chain(rise, after), events)
    assert [match.ids for match in result] == [{"initiator": "Rise#1", "detector": "b2"}]
    origin = result.origin(result[0]["initiator"])
    assert origin.ids == {"initiator": "a1", "detector": "a2"}
    composite = origin.composite()
    assert (composite.type, composite.start, composite.end, composite.top) == ("Rise", 1, 2, 5)
    pattern = "PATTERN SEQ(Rise r, B b) WHERE b.x > r.top WITHIN 10"
    assert [m.ids for m in cep.match(cep.chain(rise, pattern), events)] == [
        {"r": "Rise#1", "b": "b2"}
    ]
    trace = cep.trace(cep.chain(rise, after), events)
    inner, step = trace.open("Rise#1")
    assert inner.steps[step].say() == "Match #1: initiator = a1, detector = a2, 1."
    with pytest.raises(cep.PatternError, match="needs a PUBLISH"):
        cep.chain("CONTEXT CPC SELECT <x> FROM <A>", "PATTERN SEQ(A a)")


def test_a_result_of_a_query_has_frames_and_a_picture_in_words() -> None:
    result = cep.match(query("TCL", "<A> SEQUENCE <B>"), intervals(FIGURE_2))
    frame = result.to_frame()
    assert list(frame.columns) == ["initiator", "between", "detector", "first", "last", "events"]
    assert list(frame["between"]) == [[], [], ["a4"], []]
    assert len(result.to_frame("events")) == 9
    assert "<table>" in result._repr_mimebundle_()["text/html"]
    assert result.engine == "contexts"
    assert "contexts" in cep.engines()


@pytest.mark.parametrize(
    ("text", "engine", "message"),
    [
        ("PATTERN SEQ(A a) WITHIN 9", "contexts", "begin with CONTEXT"),
        ("CONTEXT CPC SELECT <x> FROM <A>", "sase", "is run by 'contexts'"),
    ],
)
def test_engines_say_which_queries_they_run(text: str, engine: str, message: str) -> None:
    with pytest.raises(cep.UnsupportedError, match=message):
        cep.match(text, intervals("a1@1"), engine=engine)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("<A> SEQUENCE RESTRICT {$suf.y > 1} <B>", "no event has an attribute 'y'"),
        ("<A> SEQUENCE WINDOW {COUNT N, 1} <B>", r"COUNT N has no value yet.*given\(N="),
        ("<A> SEQUENCE RESTRICT {$suf.x > 'b'} <B>", "compares a number with a string"),
        ("<A> SEQUENCE WINDOW {COUNT 3, COUNT 1, RIGID} <B>", "slides over time"),
        ("<A> SEQUENCE WINDOW {TEMPORAL $pre.x, 1} <B>", r"speaks of \$pre.x"),
        ("<A> KLNCLOSE WINDOW {COUNT 1, TEMPORAL $pre.x} <B>", r"speaks of \$pre.x"),
    ],
)
def test_a_query_is_refused_before_an_event_is_read(source: str, message: str) -> None:
    with pytest.raises(cep.PatternError, match=message):
        cep.match(query("CPC", source), intervals("a1@1(x=1)"))


def test_a_bare_number_needs_a_unit_where_times_are_dates() -> None:
    import pandas as pd

    frame = pd.DataFrame({"type": ["A"], "time": pd.to_datetime(["2024-01-01"]), "x": [1]})
    with pytest.raises(cep.PatternError, match="TEMPORAL 5 needs a unit"):
        cep.match(query("CPC", "<A> SEQUENCE WINDOW {TEMPORAL 5, 1} <B>"), frame)


def test_a_budget_stops_a_query_and_keeps_what_was_found() -> None:
    rows = [{"type": "A", "time": n, "x": 0} for n in range(100)]
    with pytest.raises(cep.BudgetError) as caught:
        cep.match(query("CPL", "<A> SEQUENCE <B>"), rows, budget={"runs": 10})
    assert caught.value.limit == "runs"
    with pytest.raises(cep.BudgetError) as caught:
        cep.match(query("CPL", "<A> SEQUENCE <A>"), rows, budget={"matches": 10})
    assert len(caught.value.result) == 10


def test_a_condition_that_cannot_be_computed_is_kept() -> None:
    for test in ("1 / $suf.x > 0", "1 / ($suf.x * $pre.x) > 0"):
        text = query("CPC", f"<A> SEQUENCE RESTRICT {{{test}}} <B>")
        events = intervals("a1@1(x=1) a2@1(x=1) b1@2(x=0) b2@3(x=1)")
        result = cep.match(text, events)
        assert [words(match) for match in result] == ["a2 | b2"]
        assert "division by zero" in result.failures[0].reason
        assert cep.trace(text, events).counters == result.counters


def test_no_step_is_built_when_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    import cepviz.steps

    def refuse(*arguments, **keywords):
        raise AssertionError("a step was built")

    for kind in cepviz.steps.KINDS.values():
        monkeypatch.setattr(kind, "__init__", refuse)
    assert len(found("CPC", f"<{INNER}> KLNCLOSE <B>", intervals(FIGURE_3), "COUNT 1, 1")) == 1


# ---- why and why not ----


def test_why_tells_which_rule_kept_the_initiator_and_whom_it_rejected() -> None:
    result = cep.match(query("CPC", "<A> SEQUENCE <B>"), intervals(FIGURE_2))
    story = cep.why(result[2])
    rule = "b4 is the successor of a3, a4: compact keeps the initiator that ends last, a4"
    assert f"a3 was rejected: {rule}." in story.lines()
    assert [(part.role, part.event.id) for part in story.parts] == [
        ("initiator", "a4"),
        ("detector", "b4"),
    ]
    assert [test.said for test in story.parts[1].tests] == [
        "b4 starts at 15, after a4 ends at 14",
        rule,
    ]
    assert story.trace[story.step].kind == "match"
    assert "b4" in story.text()
    assert "<svg" in story._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("source", [*SHAPES, *SOURCES])
def test_every_match_has_a_story(context: str, source: str) -> None:
    events = "a1@1(x=1) b1@2(x=1) b2@3(x=2) c1@4(x=1) a2@5(x=2) b3@6-8(x=3) c2@9(x=2) d1@10(x=1)"
    for window in OUTER:
        for match in cep.match(query(context, source, window), intervals(events)):
            story = cep.why(match)
            assert [part.event for part in story.parts] == match.events
            assert story.text()


@pytest.mark.parametrize(
    ("asked", "kind", "text", "fix"),
    [
        ({"initiator": "a3", "detector": "b4"}, "context", "compact keeps", "CONTEXT EXP"),
        ({"initiator": "a1", "detector": "b2"}, "successor", "successor of a1 is b1, not b2", None),
        ({"initiator": "a3", "detector": "b3"}, "order", "b3 starts at 10, not after a3", None),
        ({"initiator": "b3"}, "type", "b3 is of type B; initiator needs A", None),
    ],
)
def test_why_not_names_the_rule(asked: Any, kind: str, text: str, fix: str | None) -> None:
    verdict = cep.why_not(query("CPC", "<A> SEQUENCE <B>"), intervals(FIGURE_2), **asked)
    assert verdict.is_match is False
    assert [blocker.kind for blocker in verdict.blockers] == [kind]
    assert text in verdict.blockers[0].text
    assert [f.text for f in verdict.fixes][:1] == ([fix] if fix else [])
    assert kind in verdict.text()
    assert "<svg" in verdict._repr_mimebundle_()["text/html"]


def test_why_not_knows_windows_and_conditions() -> None:
    events = intervals("a1@1(x=5) a2@2(x=1) b1@3(x=3) b2@30(x=9)")
    source = "<A> SEQUENCE WINDOW {TEMPORAL 10, TEMPORAL 1, KEEP} {RESTRICT {$pre.x > 2}, "
    text = query("CPC", f"{source}RESTRICT {{$suf.x > $pre.x}}}} <B>")
    verdict = cep.why_not(text, events, initiator="a2", detector="b1")
    assert [b.kind for b in verdict.blockers] == ["predicate", "missing"]
    assert "$pre.x 1 > 2 no" in verdict.blockers[0].text
    verdict = cep.why_not(text, events, initiator="a1", detector="b1")
    assert "$suf.x 3 > $pre.x 5 no" in verdict.blockers[0].text
    verdict = cep.why_not(text, events, initiator="a1", detector="b2")
    assert (verdict.blockers[0].kind, verdict.fixes[0].edits) == (
        "window",
        ("without WINDOW {TEMPORAL 10, TEMPORAL 1, KEEP}",),
    )
    assert cep.why_not(text, events, initiator="a1").is_match is False
    assert cep.why_not(verdict.fix, events, initiator="a1", detector="b2").is_match
    with pytest.raises(cep.CepError, match="asks about events"):
        cep.why_not(text, events)


# ---- the pictures ----


def test_paths_draw_the_coded_edges_before_and_after_a_slide() -> None:
    from cepviz.views.paths import paths, paths_text, slide

    trace = figure_4("COUNT 2, COUNT 1")
    index = trace.matches[0][0]
    assert paths_text(trace, index).splitlines()[1:] == [
        "2: a1 a2; a1 -0-> a2",
        "3: b1 b2 b3 b4; a1 -1-> b1, b1 -1-> b2, a2 -1-> b3, b3 -1-> b4",
        "5: b3 b4; b2 -1-> b3, b3 -1-> b4",
        "Output: a1 1-1-1-1 a1 1-1-1-2; b3 -1-> a1 1-1-1-1, b4 -2-> a1 1-1-1-2",
    ]
    keys = paths(trace, index).shapes
    assert "edge:2:b3:3:a1 1-1-1-1:label" in keys
    both = slide(trace, 0)
    going, staying = (
        both.shapes["before:edge:2:b3:3:a1 1-1-1-1"],
        both.shapes["before:edge:0:a1:1:b1"],
    )
    assert "tried" in going.classes and "tried" not in staying.classes
    assert "after:edge:2:b3:3:a1 1-1-1-1" not in both.shapes
    assert "after:edge:2:b4:3:a1 1-1-1-2" in both.shapes
    assert both.svg("light").startswith("<svg")
    followed = paths(trace, index, run="2").shapes
    assert "selected" in followed["entry:0:a2"].classes
    assert "dim" in followed["entry:0:a1"].classes


def test_paths_are_those_of_context_queries() -> None:
    from cepviz.views.paths import paths, slide

    other = cep.trace("PATTERN SEQ(A a) WITHIN 9", intervals("a1@1"))
    with pytest.raises(cep.TraceError, match="paths are those of a CONTEXT query"):
        paths(other)
    with pytest.raises(cep.TraceError, match="no window slides"):
        slide(cep.trace(query("CPC", "<A> SEQUENCE <B>"), intervals("a1@1")))


@pytest.mark.parametrize("source", SHAPES)
def test_every_view_shows_a_context_query(source: str, tmp_path: Any) -> None:
    from cepviz.views.film import chosen_views, known_views

    trace = cep.trace(query("CPL", source, "COUNT 1, COUNT 1"), intervals(FIGURE_2 + " d1@19(x=1)"))
    names = {"automaton", "buffer", "paths", "timeline", "runs"}
    for name, (_, view) in known_views().items():
        for index in range(0, len(trace), 7) if name in names else ():
            assert view(trace, index).svg("dark").startswith("<svg")
    assert [title for title, _ in chosen_views(None, trace)] == ["Automaton", "Paths", "Timeline"]
    assert trace.to_html(tmp_path / "page.html").stat().st_size > 1000
    assert cep.Trace.load(trace.save(tmp_path / "t.json")) == trace


def test_labels_of_events_are_escaped_in_paths() -> None:
    from cepviz.views.paths import paths

    rows = [{"id": "<b>&", "type": "A", "time": 1}, {"id": "b", "type": "B", "time": 2}]
    trace = cep.trace(query("CPC", "<A> SEQUENCE <B>").replace("<x>", "<time>"),
                      cep.Stream.from_records(rows, id="id"))  # fmt: skip
    svg = paths(trace, trace.matches[0][0]).svg()
    assert "<b>&" not in svg and "&lt;b&gt;&amp;" in svg


# ---- the stock query of section 3 ----


def planted_days(**planted: list[str]) -> dict[str, list[tuple[float, float]]]:
    """For each stock, the first and last minute of each match."""
    from cepviz.data import STOCK_QUERY, trading_days

    found: dict[str, list[tuple[float, float]]] = {}
    for match in cep.match(STOCK_QUERY, trading_days(planted)):
        (name,) = {event.Name for event in match.events}
        found.setdefault(name, []).append((match.first, match.last))
    return found


def test_the_stock_query_finds_what_was_planted() -> None:
    good = "rises"
    found = planted_days(
        THREE=[good, good, good],
        FOUR=["noise", good, good, good, good],
        GAP=[good, good, "noise", good, "noise", good],
        SHORT=[good, good, "short"],
        THIN=[good, "thin", good],
        FALLS=["falls", good, good],
    )
    # The days are minutes 5 to 360, 365 to 720, and so on.
    assert found == {"THREE": [(5, 1080)], "FOUR": [(365, 1440), (725, 1800)]}


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(("rises", "rises", "short", "thin", "falls", "noise")), min_size=1,
             max_size=7)
)  # fmt: skip
def test_the_stock_query_finds_any_three_good_days_in_a_row(kinds: list[str]) -> None:
    wanted = [
        (360 * day + 5, 360 * (day + 3))
        for day in range(len(kinds) - 2)
        if kinds[day : day + 3] == ["rises"] * 3
    ]
    assert planted_days(STOCK=kinds).get("STOCK", []) == wanted


def test_the_inner_closure_of_the_stock_query_is_a_rise_of_thirty_minutes() -> None:
    from cepviz.data import STOCK_QUERY, trading_days

    inner = cep.parse(STOCK_QUERY).source.initiator
    rise = cep.parse("CONTEXT CPC SELECT <Name> FROM <Stock>")
    from dataclasses import replace

    matches = cep.match(replace(rise, source=inner), trading_days({"A": ["rises", "short"]}))
    (match,) = matches
    prices = [event.Price for event in match.events]
    assert prices == sorted(prices)
    assert match.last - match.first == 30
    assert match["initiator"].Volume > 1000


# ---- the notebook ----

ANSWERS: list[tuple[Any, Any]] = [
    ("b4", "b3"),
    ((["b4 c1"], ["b1 c1"]), (["b1 c1"], ["b4 c1"])),
    ("COUNT 3, COUNT 3", "COUNT 3, COUNT 1"),
    (["ROLLING", "RIGID", "WIPEOUT", "KEEP"], ["RIGID", "ROLLING", "WIPEOUT", "KEEP"]),
    ({"ACME": 2, "BOLT": 2, "CORE": 1}, {"ACME": 1}),
]


def test_the_exercises_of_the_notebook_grade_what_they_are_given(capsys: Any) -> None:
    path = Path(__file__).parent.parent / "notebooks" / "06_intervals.ipynb"
    cells = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    space: dict[str, Any] = {}
    answers = iter(ANSWERS)
    said = []
    right = wrong = None
    for source in cells:
        if source.startswith("answer = None"):
            right, wrong = next(answers)
            continue
        graded = "\ncheck(answer" in source
        for answer in (None, wrong, right) if graded else ("",):
            space["answer"] = answer
            exec(compile(source, path.name, "exec"), space)
            if graded:
                said.append(capsys.readouterr().out.split(":")[0].strip())
    blank = "Write your answer in the cell above, and run both."
    assert said == [blank, "Not yet", "Right."] * len(ANSWERS)
