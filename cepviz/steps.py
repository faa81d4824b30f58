"""The vocabulary of what an engine does: steps, as immutable plain data that can say themselves.

A step serialises, holds no live object and can be drawn without its neighbours. Events are named
by their label (`e6`), runs by their id, states and edges by the names they have in the `Graph`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar

from cepviz.errors import TraceError, did_you_mean, one_of
from cepviz.events import Event, Schema

LONGEST_VALUE = 200


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers, strings, truth values, lists and dicts of these."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # a numpy scalar or array
        return plain(value.tolist())
    return str(value)


def short(value: Any) -> str:
    """A value as a sentence shows it: floats with six digits, long text cut in the middle."""
    if isinstance(value, float):
        return format(value, ".6g")
    text = "missing" if value is None else str(value)
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE // 2]}…{text[-LONGEST_VALUE // 4 :]}"


def estimate(value: Any) -> str:
    """An estimate as a sentence shows it: with four digits, which is more than it is worth."""
    return format(value, ".4g") if isinstance(value, float) else short(value)


@dataclass(frozen=True, slots=True)
class Tested:
    """A condition with the values it saw: `said` is it with values, `truth` None is unknown."""

    __test__: ClassVar[bool] = False  # pytest takes classes of such a name for tests
    text: str
    said: str
    truth: bool | None
    values: tuple[tuple[str, Any], ...] = ()
    note: str = ""

    def say(self) -> str:
        verdict = {True: "yes", False: "no", None: "unknown"}[self.truth]
        return f"{self.said} {verdict}{f' ({self.note})' if self.note else ''}"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing an engine did; the kinds below are the whole vocabulary."""

    kind: ClassVar[str] = ""

    def say(self) -> str:
        """The step in one plain sentence."""
        raise NotImplementedError

    def to_plain(self) -> list[Any]:
        """The step as a JSON list: its kind, then its fields."""
        names: tuple[str, ...] = self.__match_args__  # what fields() would say, without the wait
        return [self.kind, *(_packed(getattr(self, name)) for name in names)]

    @staticmethod
    def from_plain(packed: list[Any]) -> Step:
        """The step that `to_plain` packed; a TraceError where it is none."""
        name = packed[0] if isinstance(packed, list) and packed else None
        if not isinstance(name, str):
            raise TraceError(f"not a step: {short(packed)}")
        if name not in KINDS:
            near = did_you_mean(name, KINDS)
            raise TraceError(f"unknown kind of step {short(name)!r}{near}: use {one_of(KINDS)}")
        try:
            values = [_unpacked(value) for value in packed[1:]]
            if all(map(isinstance, values, _shapes(name))):
                return KINDS[name](*values)
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"not a step of kind {name}: {short(packed)}") from error
        raise TraceError(f"not a step of kind {name}: {short(packed)}")


def _packed(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Tested):
        return {"test": [_packed(getattr(value, item.name)) for item in fields(value)]}
    if isinstance(value, tuple | list):
        return [_packed(inner) for inner in value]
    if isinstance(value, Mapping):
        return {"map": [[str(key), _packed(inner)] for key, inner in value.items()]}
    return plain(value)


@cache
def _shapes(kind: str) -> tuple[Any, ...]:
    """What each field of a step must be an instance of."""
    shapes: dict[str, Any] = {"str": str, "bool": bool, "int": int, "tuple": tuple, "Mapping": dict}
    shapes["float"] = (int, float, type(None))  # what is not finite is saved as null
    return tuple(shapes[str(item.type).partition("[")[0]] for item in fields(KINDS[kind]))


def _unpacked(value: Any) -> Any:
    if isinstance(value, str):
        return sys.intern(value)  # a trace names the same few runs and events again and again
    if isinstance(value, list):
        return tuple(_unpacked(inner) for inner in value)
    if isinstance(value, dict):
        if "test" in value:
            return Tested(*(_unpacked(inner) for inner in value["test"]))
        return {key: _unpacked(inner) for key, inner in value["map"]}
    return value


@dataclass(frozen=True, slots=True)
class Arrive(Step):
    """Event `event` is read: `time` is its end in words, `start` and `end` are the numbers."""

    kind: ClassVar[str] = "arrive"
    event: str
    type: str
    time: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    start: float = 0
    end: float = 0

    @classmethod
    def of(cls, event: Event) -> Arrive:
        """The arrival of an event, its attributes as plain values and dates in words.

        >>> Arrive.of(Event("Stock", 5, id=6, price=120)).say()
        'e6 Stock price 120 arrives at 5.'
        """
        schema = event.schema or Schema()
        told = set(schema.roles.values())  # columns that the other fields already say
        attributes = {}
        for name, value in event.attributes.items():
            if name in told:
                continue
            dated = schema.attributes.get(name) == "time" and isinstance(value, int | float)
            attributes[name] = schema.format_time(value) if dated else plain(value)
        time = schema.format_time(event.end)
        start, end = plain(event.start), plain(event.end)
        return cls(event.label, event.type, time, attributes, start, end)

    def say(self) -> str:
        shown = " ".join(f"{name} {short(value)}" for name, value in self.attributes.items())
        return f"{self.event} {self.type} {shown} arrives at {self.time}.".replace("  ", " ")


@dataclass(frozen=True, slots=True)
class Test(Step):
    """Run `run` at `state` tries an edge with event `event`: each predicate and the verdict."""

    kind: ClassVar[str] = "test"
    __test__: ClassVar[bool] = False
    run: str
    event: str
    state: str
    edge: str
    action: str
    tests: tuple[Tested, ...]
    passed: bool

    def say(self) -> str:
        told = ", ".join(test.say() for test in self.tests) or "nothing to check"
        verdict = "It holds." if self.passed else "It fails."
        return f"Run {self.run} at {self.state}: {self.action} {self.event}? {told}. {verdict}"


@dataclass(frozen=True, slots=True)
class Move(Step):
    """Run `run` goes along an edge: begin, take, ignore, proceed or store.

    `bindings` is what the run holds after the move, variable to event labels; `values` its value
    vector, if it has one.
    """

    kind: ClassVar[str] = "move"
    run: str
    event: str
    action: str
    edge: str
    source: str
    target: str
    bindings: tuple[tuple[str, tuple[str, ...]], ...] = ()
    values: tuple[tuple[str, Any], ...] = ()

    def say(self) -> str:
        if self.action == "ignore":
            return f"Run {self.run} ignores {self.event} and stays at {self.source}."
        if self.action == "proceed":
            return f"Run {self.run} proceeds from {self.source} to {self.target}."
        verbs = {"begin": "begins with", "take": "takes", "store": "stores"}
        verb = verbs.get(self.action, self.action)
        where = f"stays at {self.target}" if self.source == self.target else f"is at {self.target}"
        return f"Run {self.run} {verb} {self.event} and {where}."


@dataclass(frozen=True, slots=True)
class Spawn(Step):
    """Run `child` splits off run `run`, by one of the four kinds of nondeterminism."""

    kind: ClassVar[str] = "spawn"
    run: str
    child: str
    event: str
    state: str
    because: str

    def say(self) -> str:
        return (
            f"Run {self.run} at {self.state} splits on {self.event} ({self.because}): "
            f"run {self.child} is new."
        )


@dataclass(frozen=True, slots=True)
class Merge(Step):
    """Run `run` becomes one with run `into`: from here on they would do the same."""

    kind: ClassVar[str] = "merge"
    run: str
    into: str
    state: str

    def say(self) -> str:
        return f"Run {self.run} at {self.state} merges into run {self.into}."


@dataclass(frozen=True, slots=True)
class Drop(Step):
    """Run `run` ends without a match.

    `reason` is window, predicate, contiguity, negation, non-overlap, exhausted (of a lazy run:
    nothing more can be in its scope), budget or end.
    """

    kind: ClassVar[str] = "drop"
    run: str
    reason: str
    culprit: str
    detail: str = ""

    def say(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"Run {self.run} is dropped ({self.reason}, at {self.culprit}){detail}."


@dataclass(frozen=True, slots=True)
class Put(Step):
    """An event enters a buffer."""

    kind: ClassVar[str] = "put"
    buffer: str
    event: str

    def say(self) -> str:
        return f"{self.event} enters the buffer {self.buffer}."


@dataclass(frozen=True, slots=True)
class Scope(Step):
    """Run `run` searches an input buffer between two events; an end is an event, `start` (the
    beginning of the buffer) or `finish` (events to come count too)."""

    kind: ClassVar[str] = "scope"
    run: str
    buffer: str
    start: str
    end: str
    events: tuple[str, ...]

    def say(self) -> str:
        found = f"{', '.join(self.events)}" if self.events else "nothing yet"
        return (
            f"Run {self.run} searches the buffer {self.buffer} "
            f"from {self.start} to {self.end}: {found}."
        )


@dataclass(frozen=True, slots=True)
class Link(Step):
    """A versioned pointer is added: from an event in one stack to its predecessor in another."""

    kind: ClassVar[str] = "link"
    buffer: str
    event: str
    to_buffer: str
    to_event: str
    version: str

    def say(self) -> str:
        target = f"{self.to_event} in {self.to_buffer}" if self.to_event else "nothing"
        return f"{self.event} in {self.buffer} points to {target}, version {self.version}."


@dataclass(frozen=True, slots=True)
class Prune(Step):
    """Events leave a buffer."""

    kind: ClassVar[str] = "prune"
    buffer: str
    events: tuple[str, ...]
    because: str

    def say(self) -> str:
        return f"{', '.join(self.events)} leaves the buffer {self.buffer}: {self.because}."


@dataclass(frozen=True, slots=True)
class Matched(Step):
    """A match, with the run that produced it, its events, its length and the limit of it."""

    kind: ClassVar[str] = "match"
    number: int
    run: str
    event: str
    bindings: tuple[tuple[str, tuple[str, ...]], ...]
    span: str = ""

    def say(self) -> str:
        told = ", ".join(f"{name} = {' '.join(events)}" for name, events in self.bindings)
        return f"Match #{self.number}: {told}{f', {self.span}' if self.span else ''}."


@dataclass(frozen=True, slots=True)
class Stats(Step):
    """Estimates were updated."""

    kind: ClassVar[str] = "stats"
    values: Mapping[str, float]

    def say(self) -> str:
        told = ", ".join(f"{name} {estimate(value)}" for name, value in self.values.items())
        return f"Estimates: {told}."


@dataclass(frozen=True, slots=True)
class Check(Step):
    """An invariant was verified: both its sides with their values.

    With a `distance`, the left side may exceed the right one by that share of it.
    """

    kind: ClassVar[str] = "check"
    invariant: str
    left: str
    right: str
    left_value: float
    right_value: float
    holds: bool
    distance: float = 0.0

    def say(self) -> str:
        sides = (
            f"{self.left} {estimate(plain(self.left_value))} < "
            f"{self.right} {estimate(plain(self.right_value))}"
        )
        if self.distance:
            sides += f" (and {estimate(plain(self.distance * 100))}% more)"
        if self.holds:
            return f"Invariant {self.invariant} holds: {sides}."
        return f"Invariant {self.invariant} broke: {sides} no longer holds."


@dataclass(frozen=True, slots=True)
class Replan(Step):
    """A plan is replaced by another; `label` begins the names of its runs and states."""

    kind: ClassVar[str] = "replan"
    before: str
    after: str
    because: str
    label: str = ""

    def say(self) -> str:
        if self.before == self.after:
            return f"The plan is made anew and stays {self.after}, because {self.because}."
        return f"New plan {self.after} instead of {self.before}, because {self.because}."


KINDS: dict[str, type[Step]] = {
    kind.kind: kind
    for kind in (
        Arrive, Test, Move, Spawn, Merge, Drop, Put, Scope, Link, Prune, Matched, Stats, Check,
        Replan,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """A state of an automaton: `kind` is start, middle, final or negated; `choices` names the
    kinds of nondeterminism it can have."""

    name: str
    kind: str = "middle"
    label: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of an automaton with its formula: one conjunct each."""

    name: str
    source: str
    target: str
    action: str
    variable: str = ""
    formula: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """A step of compilation: the formula of every edge after it."""

    name: str
    formulas: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Graph:
    """The still picture of an engine: states and edges as plain data."""

    states: tuple[State, ...] = ()
    edges: tuple[Edge, ...] = ()
    kind: str = ""
    passes: tuple[Pass, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        parts: dict[str, tuple[Any, ...]]
        parts = {"states": self.states, "edges": self.edges, "passes": self.passes}
        return {"kind": self.kind} | {
            name: [[_packed(getattr(part, f.name)) for f in fields(part)] for part in listed]
            for name, listed in parts.items()
        }

    @staticmethod
    def from_plain(packed: dict[str, Any]) -> Graph:
        def made(kind: Any, name: str) -> tuple[Any, ...]:
            return tuple(kind(*(_unpacked(v) for v in values)) for values in packed[name])

        return Graph(
            made(State, "states"), made(Edge, "edges"), packed["kind"], made(Pass, "passes")
        )
