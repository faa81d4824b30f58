"""What an engine did: a trace of its steps, and a snapshot of everything after any one of them.

A trace is a hook. Give it to an engine and it writes down each step; later it says how things
stood after step i, for any i, forward and back, without the engine and without the data.
"""

from __future__ import annotations

import gzip
import html
import importlib
import io
import json
import os
import secrets
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias, overload

from cepviz.errors import CepError, TraceError, did_you_mean, one_of
from cepviz.events import Schema
from cepviz.steps import (
    KINDS,
    Arrive,
    Check,
    Drop,
    Graph,
    Link,
    Matched,
    Merge,
    Move,
    Prune,
    Put,
    Replan,
    Scope,
    Spawn,
    Stats,
    Step,
    Test,
    plain,
    short,
)

__all__ = ["Difference", "RunView", "Snapshot", "Trace"]

Bindings: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

FORMAT, VERSION = "cepviz-trace", 1
SPACING = 1000  # steps between two checkpoints, where the state they copy is small
RECENT = 10  # how many matches a snapshot names


# How things stand


@dataclass(frozen=True, slots=True)
class RunView:
    """A live run: the state it is in, the events it holds and where it came from.

    `born_at` is the step at which it appeared, `last_event` the event of its last move; an
    ignored event does not count as one. `values` is its value vector, if it has one.
    """

    id: str
    state: str
    bindings: Bindings = ()
    parent: str | None = None
    born_at: int = 0
    last_event: str = ""
    values: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """How things stand after one step: live runs, buffers, matches, the plan and its invariants.

    `matches` are the indices of the last few match steps and `counts["match"]` is how many there
    were. `invariants` holds the last check of each invariant of the plan now in use, `replan` the
    step that brought this plan. A dropped run is gone; `step` still says which it was.
    """

    index: int
    step: Step
    event: str
    runs: Mapping[str, RunView] = field(default_factory=dict)
    buffers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    matches: tuple[int, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    plan: str | None = None
    replan: Replan | None = None
    invariants: Mapping[str, Check] = field(default_factory=dict)
    stats: Mapping[str, float] = field(default_factory=dict)

    @property
    def plan_before(self) -> str | None:
        """The plan that the present one replaced."""
        return None if self.replan is None else self.replan.before

    def by_state(self) -> dict[str, list[str]]:
        """The live runs in each state: what the badges of an automaton count."""
        found: dict[str, list[str]] = {}
        for run in self.runs.values():
            found.setdefault(run.state, []).append(run.id)
        return found

    def say(self) -> str:
        """The step just done, in one plain sentence."""
        return self.step.say()

    def __repr__(self) -> str:
        places = ", ".join(f"{state} {len(runs)}" for state, runs in self.by_state().items())
        held = ", ".join(f"{name} {len(events)}" for name, events in self.buffers.items())
        parts = [_count(len(self.runs), "live run") + (f" ({places})" if places else "")]
        parts += [f"buffered {held}"] if held else []
        parts += [_count(self.counts.get("match", 0), "match", "matches")]
        return _printable(f"After step {self.index}: {self.say()} Now {', '.join(parts)}.")


class _Live:
    """The state of the replay while it moves; a snapshot is this, held still."""

    __slots__ = ("buffers", "invariants", "links", "runs", "stats")

    def __init__(self) -> None:
        self.runs: dict[str, RunView] = {}
        self.buffers: dict[str, dict[str, None]] = {}  # the events in order, quick to take out
        # Each pointer is filed under both of its ends, so that it goes with either.
        self.links: dict[tuple[str, str], tuple[Link, ...]] = {}
        self.invariants: dict[str, Check] = {}
        self.stats: dict[str, float] = {}

    def copy(self) -> _Live:
        other = _Live()
        other.runs = self.runs.copy()
        other.buffers = {name: events.copy() for name, events in self.buffers.items()}
        other.links = self.links.copy()
        other.invariants = self.invariants.copy()
        other.stats = self.stats.copy()
        return other

    def size(self) -> int:
        """How many entries a copy has to write."""
        parts: list[Any] = [self.runs, self.links, self.invariants, self.stats, self.buffers]
        return sum(map(len, parts)) + sum(map(len, self.buffers.values()))

    def apply(self, index: int, step: Step, final: frozenset[str]) -> None:
        """One step's effect: this method is the meaning of the whole vocabulary.

        A run appears by a spawn (as a copy of its parent) or by its first move. It goes by a drop,
        by a merge, or by a match in a final state; in any other state it lives on after a match.
        """
        runs = self.runs
        match step:
            case Test() | Arrive() | Scope():
                pass
            case Move():
                old = runs.get(step.run)
                if old is None or step.action != "ignore":
                    parent, born_at = (old.parent, old.born_at) if old else (None, index)
                    runs[step.run] = RunView(
                        step.run,
                        step.target,
                        step.bindings,
                        parent,
                        born_at,
                        step.event,
                        step.values,
                    )
            case Spawn():
                old = runs.get(step.run)
                if old is None:  # a parent that never moved, such as the root of all runs
                    old = RunView(step.run, step.state)
                runs[step.child] = RunView(
                    step.child,
                    old.state,
                    old.bindings,
                    step.run,
                    index,
                    old.last_event,
                    old.values,
                )
            case Drop() | Merge():
                runs.pop(step.run, None)
            case Matched():
                if step.run in runs and runs[step.run].state in final:
                    del runs[step.run]
            case Put():
                self.buffers.setdefault(step.buffer, {})[step.event] = None
            case Link():
                for end in set(_ends(step)):
                    self.links[end] = (*self.links.get(end, ()), step)
            case Prune():
                events = self.buffers.get(step.buffer, {})
                for event in step.events:
                    events.pop(event, None)
                    self._unlink((step.buffer, event))
            case Stats():
                self.stats.update(step.values)
            case Check():
                self.invariants[step.invariant] = step
            case Replan():
                self.invariants.clear()  # they guarded the plan that is gone

    def _unlink(self, place: tuple[str, str]) -> None:
        for link in self.links.pop(place, ()):
            for end in set(_ends(link)) - {place}:
                rest = tuple(other for other in self.links.get(end, ()) if other is not link)
                if rest:
                    self.links[end] = rest
                else:
                    self.links.pop(end, None)


def _ends(link: Link) -> list[tuple[str, str]]:
    source, target = (link.buffer, link.event), (link.to_buffer, link.to_event)
    return [source, target] if link.to_event else [source]  # the first event points to nothing


# The trace


class Trace:
    """Everything an engine did on a stream, step by step.

    A trace is a hook: `Eager(pattern, hooks=[trace])` writes into it. `trace.at(i)` is how things
    stood after step i, `trace.events` the events that arrived, `trace.next(i, "match")` the next
    step of a kind. `counters` and `note` (why it stopped early, say) are for the caller to fill.

    >>> trace = Trace(engine="eager", pattern="PATTERN SEQ(A a, B b)")
    >>> trace(Arrive("e1", "A", "10:00"))
    >>> trace(Move("1", "e1", "begin", "begin a", "a", "b", (("a", ("e1",)),)))
    >>> print(trace.text())
    0  e1 A arrives at 10:00.
    1  Run 1 begins with e1 and is at b.
    >>> trace.at(1)
    After step 1: Run 1 begins with e1 and is at b. Now 1 live run (b 1), 0 matches.
    """

    def __init__(
        self,
        engine: str = "",
        pattern: str = "",
        plan: str | None = None,
        graph: Graph | None = None,
        schema: Schema | None = None,
        counters: Mapping[str, Any] | None = None,
        note: str = "",
    ):
        self.engine = engine
        self.pattern = pattern
        self.plan = plan
        clock = schema or Schema()
        self.clock = Schema(unit=clock.unit, zone=clock.zone, naive=clock.naive)
        self.counters: dict[str, Any] = dict(counters or {})
        self.note = note
        #: In a chain of queries, the trace of the query before: what composite events are made of.
        self.inner: Trace | None = None
        self.steps: list[Step] = []
        self._by_run: dict[str, list[int]] = {}
        self._by_label: dict[str, Arrive] = {}
        self._indexed = 0  # how many steps the two above have seen
        self.graph = graph or Graph()

    @property
    def graph(self) -> Graph:
        """The still picture of the engine. Its final states decide which runs a match ends."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        # Known only after the engine was built around this hook, perhaps after the first steps.
        self._graph = graph
        self._final = frozenset(state.name for state in graph.states if state.kind == "final")
        self._live = _Live()
        self._seen: tuple[Snapshot, _Live] | None = None  # where `at` was last
        self._marks, self._checkpoints = [0], [_Live()]  # a checkpoint's number of steps; it
        self._due = SPACING
        self._places = {kind: array("Q") for kind in KINDS}  # the indices of each kind's steps
        steps, self.steps = self.steps, []
        for step in steps:
            self(step)

    # Writing

    def __call__(self, step: Step) -> None:
        """Writes one step down; what makes a trace a hook."""
        index = len(self.steps)
        self._live.apply(index, step, self._final)
        self.steps.append(step)
        self._places[step.kind].append(index)
        if index + 1 == self._due:
            # A copy costs its size, so it is taken only every so many steps: all copies together
            # grow as the steps do, and a seek replays about as many steps as it copies entries.
            self._marks.append(index + 1)
            self._checkpoints.append(self._live.copy())
            self._due += max(SPACING, self._live.size())

    # Seeking

    def at(self, index: int) -> Snapshot:
        """How things stood after a step; -1 is the last."""
        index = self._index(index)
        if self._seen is not None and self._seen[0].index == index:
            return self._seen[0]
        mark = bisect_right(self._marks, index + 1) - 1
        start, known = self._marks[mark], self._checkpoints[mark]
        if self._seen is not None and start <= self._seen[0].index < index:
            # Whoever steps on is a step or two away, and need not go back to a checkpoint.
            start, known = self._seen[0].index + 1, self._seen[1]
        live = known.copy()
        for place in range(start, index + 1):
            live.apply(place, self.steps[place], self._final)
        counts = {kind: bisect_right(places, index) for kind, places in self._places.items()}
        replan = self._last(index, "replan")
        found = counts["match"]
        snapshot = Snapshot(
            index=index,
            step=self.steps[index],
            event=self.event_of(index),
            runs=live.runs,
            buffers={name: tuple(events) for name, events in live.buffers.items()},
            links=tuple(
                link
                for place, links in live.links.items()
                for link in links
                if (link.buffer, link.event) == place
            ),
            matches=tuple(self._places["match"][max(0, found - RECENT) : found]),
            counts=counts,
            plan=replan.after if isinstance(replan, Replan) else self.plan,
            replan=replan if isinstance(replan, Replan) else None,
            invariants=live.invariants,
            stats=live.stats,
        )
        self._seen = (snapshot, live)
        return snapshot

    def event_of(self, index: int) -> str:
        """The label of the event being processed at a step; empty before the first."""
        step = self._last(self._index(index), "arrive")
        return step.event if isinstance(step, Arrive) else ""

    def next(self, index: int, kind: str) -> int | None:
        """The next step of a kind (match, drop, spawn, replan, arrive, ...) after `index`."""
        places = self._of_kind(kind)
        found = bisect_right(places, index)
        return places[found] if found < len(places) else None

    def previous(self, index: int, kind: str) -> int | None:
        """The last step of a kind before `index`."""
        places = self._of_kind(kind)
        found = bisect_left(places, index)
        return places[found - 1] if found else None

    def run_history(self, run: str, ancestors: bool = False) -> list[int]:
        """The steps that concern a run; with `ancestors`, also what led to its birth."""
        self._look_up()
        own = list(self._by_run.get(run, ()))
        line: list[int] = []
        while ancestors:
            births = [i for i in own if getattr(self.steps[i], "child", None) == run]
            if not births:
                break
            line = [i for i in own if i >= births[-1]] + line
            run = self.steps[births[-1]].run  # type: ignore[attr-defined]
            own = [i for i in self._by_run.get(run, ()) if i < births[-1]]
        return own + line

    def _look_up(self) -> None:
        for index in range(self._indexed, len(self)):
            step = self.steps[index]
            if isinstance(step, Arrive):
                self._by_label[step.event] = step
            for name in {getattr(step, role, "") for role in ("run", "child", "into")} - {""}:
                self._by_run.setdefault(name, []).append(index)
        self._indexed = len(self)

    # Looking

    @property
    def events(self) -> list[Arrive]:
        """The events that arrived: label, type, time as text and numbers, attributes."""
        return [self.steps[place] for place in self._places["arrive"]]  # type: ignore[misc]

    def event(self, label: str) -> Arrive:
        """The event with this label."""
        self._look_up()
        if label not in self._by_label:
            near = did_you_mean(label, self._by_label)
            raise KeyError(f"no event {label!r} arrived in this trace{near}")
        return self._by_label[label]

    def open(self, label: str) -> tuple[Trace, int]:
        """In a chain of queries, the inner trace and its step at which the composite event
        called `label` (`Rise#3`) was matched."""
        type, _, number = label.rpartition("#")
        inner = self.inner
        while inner is not None:
            text = inner.pattern.replace("`", "")
            made_here = f"\nRETURN {type}(" in text or f"\nPUBLISH <{type}>" in text
            for index, step in inner.matches if made_here else ():
                if str(step.number) == number:
                    return inner, index
            inner = inner.inner
        raise TraceError(f"{label!r} is no event that an inner query made")

    @property
    def matches(self) -> list[tuple[int, Matched]]:
        """The matches, each with the index of its step."""
        return [(i, self.steps[i]) for i in self._places["match"]]  # type: ignore[misc]

    def counts(self) -> dict[str, int]:
        """How many steps there are of each kind that occurs."""
        return {kind: len(places) for kind, places in self._places.items() if places}

    def text(self, start: int = 0, stop: int | None = None) -> str:
        """The numbered sentences of the steps, one a line, as a terminal prints them."""
        numbers = range(len(self))[start:stop]
        width = len(str(numbers[-1])) if numbers else 0
        return "\n".join(f"{i:{width}}  {_printable(self.steps[i].say())}" for i in numbers)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        return self.steps[index if isinstance(index, slice) else self._index(index)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return not self.diff(other) and self.inner == other.inner

    __hash__ = None  # type: ignore[assignment]

    def _index(self, index: int) -> int:
        if -len(self) <= index < len(self):
            return range(len(self))[index]
        has = f"steps 0 to {len(self) - 1}" if self.steps else "no steps"
        raise IndexError(f"there is no step {index}: this trace has {has}")

    def _last(self, index: int, kind: str) -> Step | None:
        found = bisect_right(self._places[kind], index)
        return self.steps[self._places[kind][found - 1]] if found else None

    def _of_kind(self, kind: str) -> array[int]:
        if kind not in KINDS:
            near = did_you_mean(kind, KINDS)
            raise TraceError(f"unknown kind of step {kind!r}{near}: use {one_of(KINDS)}")
        return self._places[kind]

    # Comparing

    def diff(self, other: Trace) -> Difference:
        """Where two traces differ: the first step, the matches, the counters; falsy if nowhere."""
        both = range(min(len(self), len(other)))
        first = next((i for i in both if not _same(self.steps[i], other.steps[i])), None)
        if first is None and len(self) != len(other):
            first = len(both)
        mine, theirs = self._found(), other._found()
        return Difference(
            first=first,
            left=None if first is None or first >= len(self) else self[first],
            right=None if first is None or first >= len(other) else other[first],
            only_left=tuple((mine - theirs).elements()),
            only_right=tuple((theirs - mine).elements()),
            counters=_unequal(plain(self.counters), plain(other.counters)),
            counts=_unequal(self.counts(), other.counts()),
            about=_unequal(self._about(), other._about()),
        )

    def _found(self) -> Counter[Bindings]:
        return Counter(tuple(sorted(match.bindings)) for _, match in self.matches)

    def _about(self) -> dict[str, Any]:
        clock = {"unit": self.clock.unit, "zone": self.clock.zone, "naive": self.clock.naive}
        words = {"engine": self.engine, "pattern": self.pattern, "plan": self.plan}
        return {**words, "note": self.note, "clock": clock, "graph": self.graph.to_plain()}

    # Saving

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Saves the trace as JSON, compressed if the name ends in .gz; all of it or nothing.

        docs/trace-format.md describes the file.
        """
        path = Path(path)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        pack = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
        head: dict[str, Any] = {"format": FORMAT, "version": VERSION, **self._head()}
        try:
            with open(part, "xb") as raw, _writer(raw, path.suffix == ".gz") as file:
                file.write(f'{pack(head)[:-1]},"steps":[')
                for index, step in enumerate(self.steps):
                    file.write(",\n" if index else "\n")
                    file.write(pack(step.to_plain()))
                file.write("\n]}\n")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def to_html(self, path: str | os.PathLike[str], *, progress: bool | None = None) -> Path:
        """Saves the trace as one page that plays it, without network, kernel or Python.

        `progress` shows a bar while it is made: on a terminal after two seconds, if not given.
        """
        # Views stand above the trace, so they are looked up by name, when they are asked for.
        page: str = importlib.import_module("cepviz.views.replay").replay(self, progress=progress)
        path = Path(path)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            part.write_text(page, encoding="utf-8")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """The trace in a file that `save` wrote; a TraceError says what is wrong with any other."""
        path = Path(path)
        try:
            with _reader(path) as file:
                return cls._made(*_read(file))
        except FileNotFoundError:
            near = did_you_mean(path.name, (other.name for other in path.parent.glob("*")))
            raise TraceError(f"there is no file {str(path)!r}{near}") from None
        except KeyError as error:
            wrong: object = f"missing {error}"
        except EOFError:
            wrong = "it is cut short"
        except (CepError, OSError, TypeError, ValueError, RecursionError, zlib.error) as error:
            wrong = error
        raise TraceError(f"cannot read {str(path)!r}: {wrong}")

    @classmethod
    def _made(cls, head: Mapping[str, Any], steps: Iterator[Any]) -> Trace:
        clock, graph = Schema(**head["clock"]), Graph.from_plain(head["graph"])
        clock.format_time(0)  # an unknown zone says so now, not in a picture
        engine, pattern, plan, note = (
            _text(head, name) for name in ("engine", "pattern", "plan", "note")
        )
        trace = cls(engine, pattern, plan, graph, clock, head["counters"], note)
        for packed in steps:
            try:
                trace(Step.from_plain(packed))
            except (TraceError, TypeError) as error:
                raise TraceError(f"step {len(trace)}: {error}") from error
        if head.get("inner") is not None:
            trace.inner = cls._made(head["inner"], iter(head["inner"]["steps"]))
        return trace

    def _whole(self) -> dict[str, Any]:
        """The trace as one JSON value: how an inner trace is kept inside an outer one."""
        return {**self._head(), "steps": [step.to_plain() for step in self.steps]}

    def _head(self) -> dict[str, Any]:
        head = {**self._about(), "counters": plain(self.counters)}
        return head if self.inner is None else {**head, "inner": self.inner._whole()}

    # Showing

    def _summary(self) -> list[tuple[str, str]]:
        rows = [("pattern", " ".join(self.pattern.split())), ("plan", self.plan or "")]
        rows += [("steps", _listed(self.counts())), ("counters", _listed(self.counters))]
        rows += [("note", self.note)]
        return [(name, short(_printable(value))) for name, value in rows if value]

    def _title(self) -> str:
        events, found = (len(self._places[kind]) for kind in ("arrive", "match"))
        told = [_count(len(self), "step"), _count(events, "event")]
        told += [_count(found, "match", "matches")]
        return _printable(f"Trace of {short(self.engine) or 'an engine'}: {', '.join(told)}")

    def __repr__(self) -> str:
        return "\n".join([self._title(), *(f"  {n:9}{value}" for n, value in self._summary())])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        # No colours of its own: the table takes the notebook's, light or dark.
        style = "style='background:inherit;color:inherit;text-align:left;padding:2px 8px'"
        rows = "".join(
            f"<tr style='background:inherit'><th {style}>{name}</th>"
            f"<td dir='auto' {style}>{html.escape(value)}</td></tr>"
            for name, value in self._summary()
        )
        title = f"<div>{html.escape(self._title())}</div>"
        page = f"<div class='cepviz-trace'>{title}<table>{rows}</table></div>"
        return {"text/plain": repr(self), "text/html": page}


@dataclass(frozen=True)
class Difference:
    """Where two traces differ; falsy where they do not.

    `first` is the first step that differs and `left` and `right` are it in both (None where a
    trace has ended). The dicts hold pairs (left, right), and only what differs.
    """

    first: int | None = None
    left: Step | None = None
    right: Step | None = None
    only_left: tuple[Bindings, ...] = ()
    only_right: tuple[Bindings, ...] = ()
    counters: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    counts: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    about: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether the traces are equal."""
        return self == Difference()

    def __bool__(self) -> bool:
        return not self.same

    def __repr__(self) -> str:
        lines = [f"{name} {short(a)} | {short(b)}" for name, (a, b) in self.about.items()]
        if self.first is not None:
            lines.append(f"first different step: {self.first}")
            for side, step in (("left ", self.left), ("right", self.right)):
                lines.append(f"  {side}: {step.say() if step else 'has ended'}")
        for side, found in (("left", self.only_left), ("right", self.only_right)):
            lines += [f"{_count(len(found), 'match', 'matches')} only {side}:"] if found else []
            lines += [f"  {_bound(bindings)}" for bindings in found[:RECENT]]
            lines += [f"  and {len(found) - RECENT} more"] if len(found) > RECENT else []
        for title, unequal in (("steps", self.counts), ("counters", self.counters)):
            lines += [
                f"{title} {name}: {short(a)} | {short(b)}" for name, (a, b) in unequal.items()
            ]
        return "\n".join(map(_printable, lines)) or "no difference"


def _same(left: Step, right: Step) -> bool:
    # What is not a number equals nothing, not even itself; its plain form does.
    return left == right or left.to_plain() == right.to_plain()


def _unequal(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    pairs = {name: (left.get(name), right.get(name)) for name in {**left, **right}}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b}


# Files


def _writer(raw: IO[bytes], compress: bool) -> IO[str]:
    # Without name and time in its head, the same trace is the same file.
    binary = gzip.GzipFile("", "wb", 6, raw, 0) if compress else raw
    return io.TextIOWrapper(binary, encoding="ascii", newline="\n")


def _reader(path: Path) -> IO[str]:
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    # A byte that is no text becomes a backslash and an x, which JSON refuses wherever it stands.
    opened = gzip.open if packed else open
    return opened(path, "rt", encoding="utf-8-sig", errors="backslashreplace")


_parse = json.JSONDecoder(parse_constant=lambda _: None).decode


def _read(file: IO[str]) -> tuple[dict[str, Any], Iterator[Any]]:
    """The head of a trace file, and its steps one by one.

    `save` ends the first line where the steps begin and gives each a line, so that the file is
    never in memory as a whole; a file of another layout is, but it is read too.
    """
    first = file.readline()
    head: Any = None
    with suppress(ValueError):
        head = _parse(first + "]}")
    if isinstance(head, dict) and list(head.items())[-1] == ("steps", []):
        steps = _lines(file)
    else:
        try:
            head = _parse(first + file.read())
        except ValueError as error:
            raise TraceError(f"it is not JSON, or was cut short ({error})") from error
        steps = iter(head.get("steps", ()) if isinstance(head, dict) else ())
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise TraceError(f'it is JSON but no trace: a trace says "format": "{FORMAT}"')
    version = head.get("version")
    if not isinstance(version, int) or version < 1:
        raise TraceError(f"its version is {short(version)} (must be a number from 1)")
    if version > VERSION:
        raise TraceError(f"it has version {version} and this cepviz reads {VERSION}: update cepviz")
    if "steps" not in head:
        raise KeyError("steps")
    return head, steps


def _lines(file: IO[str]) -> Iterator[Any]:
    number = 1
    for number, line in enumerate(file, start=2):
        if line.strip() == "]}":
            if file.read().strip():  # reading on also lets gzip check its sum
                raise TraceError(f"something follows its end in line {number}")
            return
        try:
            yield _parse(line.rstrip().removesuffix(","))
        except ValueError as error:
            raise TraceError(f"line {number} is damaged or cut short ({error})") from error
    raise TraceError(f"it is cut short after line {number}")


def _text(head: Mapping[str, Any], name: str) -> Any:
    if isinstance(head[name], str) or (name == "plan" and head[name] is None):
        return head[name]
    raise TraceError(f"its {name} is {short(head[name])}, which is not text")


# Words


def _count(number: int, word: str, many: str = "") -> str:
    return f"{number} {word if number == 1 else many or f'{word}s'}"


def _listed(numbers: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {short(value)}" for name, value in numbers.items())


def _bound(bindings: Bindings) -> str:
    return ", ".join(f"{name} = {' '.join(events)}" for name, events in bindings)


def _printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
