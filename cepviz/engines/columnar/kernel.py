"""`Kernel`: what the generated loops share: arguments, columns, conditions.

A kernel is one Python function, written from the plan and the syntax tree. It runs as it is, or
compiled by numba: the same source. Variables are numbered, so nothing a user wrote is in it.

Each variable has an index into its own columns. Kleene variables keep a stack of indexes, `K`, of
depth `d`, with running aggregates beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cepviz.engines.columnar.table import NUMBER, Array, Column, NotTyped, Table
from cepviz.engines.columnar.values import Typed, truth
from cepviz.events import Event
from cepviz.language import evaluate
from cepviz.language.columns import EXACT, LARGEST, FailedRows, StreamColumns, mask
from cepviz.language.compile import predicate
from cepviz.language.evaluate import Failed
from cepviz.language.expressions import (
    Aggregate,
    Attribute,
    Expression,
    Length,
    looks_back,
    per_element,
)
from cepviz.language.pattern import Branch, Negation

#: What every kernel gets before its own arguments: which of its outer candidates to run, where
#: matches and the elements of lists go, how many there is room for, how many lists may be tried.
GIVEN = "lo, hi, out, tail, most, room, lists"


@dataclass(frozen=True)
class Only:
    """Which matches a batch reports: by the row of their `last` or their `first` event."""

    side: str
    low: int
    high: int


@dataclass(frozen=True)
class Task:
    """What a kernel is for: a branch on a table, and how it tells what fails."""

    branch: Branch
    conjuncts: tuple[Expression, ...]
    negations: tuple[Negation, ...]
    table: Table
    counting: bool
    only: Only | None
    events: Callable[[], list[Event]]
    failed: Failed
    failed_rows: Callable[[Expression, str, Array], FailedRows]


@dataclass(frozen=True)
class Moment:
    """The point of the loops at which a condition is tried.

    `newest` is the index of the candidate; if that is Kleene, it is not on the stack yet. While
    the elements of other lists are gone through, `elements` says where each stands.
    """

    candidate: str | None = None
    newest: str = "0"
    first: bool = False
    elements: Mapping[str, str] = field(default_factory=dict)


class Kernel:
    """A kernel in the making: its lines, its arguments, and conditions as source."""

    def __init__(self, task: Task):
        self.task = task
        self.branch, self.table = task.branch, task.table
        self.number = {v.name: str(n) for n, v in enumerate(self.branch.variables)}
        for n, negation in enumerate(task.negations):
            self.number[negation.variable.name] = f"n{n}"
        self.kleene = frozenset(v.name for v in self.branch.variables if v.kleene)
        self.arguments: dict[str, Any] = {}
        self.scratch: dict[str, tuple[int, str]] = {}
        #: Whether a condition is computed on Python objects, so that numba cannot compile it.
        self.objects = False
        self.lines: list[str] = []
        self.depth = 1
        self.moment = Moment()
        self.judged: set[str] = set()
        #: Where the column index of a variable that is one event is found.
        self.here: dict[str, str] = {}
        self._names: dict[Any, str] = {}
        self._running: dict[tuple[str, str, str | None], tuple[str, str | None, Column]] = {}
        self._columns: dict[Any, tuple[Column, tuple[int, int]]] = {}
        self._flags = 0

    # ---- what a subclass says ----

    def places(self, name: str) -> Array:
        """The places of a variable's events, by the index of its columns."""
        raise NotImplementedError

    # ---- source ----

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        self.emit(text)
        self.depth += 1

    def flag(self) -> str:
        self._flags += 1
        return f"b{self._flags}"

    def argument(self, key: Any, make: Callable[[], Any]) -> str:
        """The name of an argument; one name for one key."""
        if key not in self._names:
            self._names[key] = name = f"k{len(self._names)}"
            self.arguments[name] = make()
        return self._names[key]

    def constant(self, value: Any) -> str:
        return self.argument(("constant", type(value), value), lambda: value)

    def rank(self, text: str) -> int:
        return self.table.rank(text)

    def rows(self, name: str) -> str:
        """The rows of a variable's events, by index."""
        return self.argument(("rows", self.space(name)), lambda: self.table.row(self.places(name)))

    def space(self, name: str) -> Any:
        """What tells apart the index spaces of variables."""
        return name

    def edge(self, name: str, side: str) -> str:
        """The first (`back`) or the last (`ahead`) place that a variable's events can share a
        match with, by index."""
        make = self.table.back if side == "back" else self.table.ahead
        return self.argument((side, self.space(name)), lambda: make(self.places(name)))

    # ---- columns and references ----

    def column(self, name: str, attribute: str) -> Column:
        return self.table.column(attribute).take(self.places(name))

    def values(self, name: str, attribute: str, index: str) -> Typed:
        key = (self.space(name), attribute)
        if key not in self._columns:
            column = self.column(name, attribute)
            self._columns[key] = (column, column.bounds)
        column, (low, high) = self._columns[key]
        source = self.argument(("column", *key), lambda: column.values)
        guards: tuple[str, ...] = ()
        if column.nulls is not None:
            nulls = self.argument(("nulls", *key), lambda: column.nulls)
            guards = (f"not {nulls}[{index}]",)
        whole = column.values.dtype.kind == "i"
        zero: Any = lambda: bool((column.values == 0).any())  # noqa: E731
        if whole and (low > 0 or high < 0):
            zero = False
        return Typed(f"{source}[{index}]", column.kind, whole, low, high, guards, zero)

    def reference(self, node: Attribute | Length | Aggregate) -> Typed:
        name = node.variable
        if isinstance(node, Attribute):
            return self.values(name, node.name, self._index(node))
        mine = name == self.moment.candidate
        if mine != (isinstance(node, Aggregate) and node.prefix):
            raise NotTyped("a list that is not complete")
        depth = f"d{self.number[name]}"
        count = len(self.places(name))
        if isinstance(node, Length) or node.name is None:
            return Typed(depth, NUMBER, True, 1, count, zero=False)
        return self._aggregate(node, depth, count)

    def _index(self, node: Attribute) -> str:
        name, moment = node.variable, self.moment
        if name not in self.kleene:
            return moment.newest if name == moment.candidate else self.here[name]
        stack, depth = f"K{self.number[name]}", f"d{self.number[name]}"
        if name == moment.candidate:
            if node.index == "i" or (node.index == "1" and moment.first):
                return moment.newest
            return f"{stack}[0]" if node.index == "1" else f"{stack}[{depth} - 1]"
        if node.index in ("1", "LEN"):
            return f"{stack}[0]" if node.index == "1" else f"{stack}[{depth} - 1]"
        if node.index == "i" and name in moment.elements:
            return moment.elements[name]
        raise NotTyped("an element before the current one of another list")

    def _aggregate(self, node: Aggregate, depth: str, count: int) -> Typed:
        function = "sum" if node.function == "avg" else node.function
        key = (node.variable, function, node.name)
        if key not in self._running:
            raise NotTyped("an aggregate of Python objects")
        running, known, column = self._running[key]
        at = f"[{depth} - 1]"
        guards = () if known is None else (f"{known}{at} > 0",)
        many = depth if known is None else f"{known}{at}"
        whole = column.values.dtype.kind == "i"
        low, high = column.bounds
        if function == "count":
            return Typed(many, NUMBER, True, 0 if known else 1, count, zero=known is not None)
        if function == "sum":
            low, high = min(0, low * count), max(0, high * count)
            most = EXACT if node.function == "avg" else LARGEST
            if whole and max(-low, high) > most:
                raise NotTyped("a sum that may leave 64 bits")
            if node.function == "avg":
                return Typed(f"({running}{at} / {many})", NUMBER, guards=guards)
        return Typed(f"{running}{at}", column.kind, whole, low, high, guards)

    def alone(self, node: Expression) -> str:
        """A part that an event alone decides, as a column of truth values."""
        if not node.variables:
            decided = evaluate.truth(node, {}, failed=self.task.failed)
            return self.constant(decided is True)
        if len(node.variables) > 1:
            raise NotTyped("two events in a function")
        (name,) = node.variables
        nodes = list(node.walk())
        indexes = {n.index for n in nodes if isinstance(n, Attribute)}
        if not indexes <= {"", "i"} or any(isinstance(n, Length | Aggregate) for n in nodes):
            raise NotTyped("several elements of a list")
        some = next(n for n in nodes if isinstance(n, Attribute))
        key = ("truth", self.space(name), name, node)
        array = self.argument(key, lambda: self.decided(node, name, self.places(name)))
        return f"{array}[{self._index(some)}]"

    def decided(self, conjunct: Expression, name: str, places: Array) -> Array:
        """Where a condition on one event holds, at these places."""
        rows = self.table.row(places)
        everything = self.table.rows is None and len(rows) == len(self.table.stream)
        columns = {name: StreamColumns(self.table.stream, None if everything else rows)}
        return mask(conjunct, columns, self.task.failed_rows(conjunct, name, rows))

    def chosen(self, name: str, type: str, conjuncts: Iterable[Expression]) -> Array:
        """The places of the events of a type for which these conditions hold by themselves."""
        places = self.table.of_type(type)
        for conjunct in conjuncts:
            if len(places):
                places = places[self.decided(conjunct, name, places)]
        return places

    # ---- conditions ----

    def tests(
        self, conjuncts: Iterable[Expression], moment: Moment, more: Iterable[str] = ()
    ) -> None:
        """Opens `if`s that only what satisfies all conjuncts passes."""
        plain = list(more)
        looping: list[tuple[Expression, list[str]]] = []
        for conjunct in conjuncts:
            name = moment.candidate
            if name in self.kleene and moment.first and looks_back(conjunct, str(name)):
                continue  # it holds from the second element on
            try:
                others = sorted((per_element(conjunct) & self.kleene) - {name})
                if others:
                    looping.append((conjunct, others))
                else:
                    plain.append(self.typed(conjunct, moment))
            except NotTyped:
                plain.append(self.called(conjunct, moment))
        if plain:
            self.open(f"if {' and '.join(plain)}:")
        for conjunct, others in looping:
            self._each(conjunct, others, moment)

    def typed(self, conjunct: Expression, moment: Moment) -> str:
        self.moment = moment
        return truth(conjunct, self)

    def _each(self, conjunct: Expression, others: list[str], moment: Moment) -> None:
        """Opens an `if` for a condition on every element of lists that are complete."""
        places = {name: f"K{self.number[name]}[z{self.number[name]}]" for name in others}
        try:
            if any(looks_back(conjunct, name) for name in others):
                raise NotTyped("an element before the current one of another list")
            test = self.typed(conjunct, replace(moment, elements=places))
        except NotTyped:
            self.open(f"if {self.called(conjunct, moment)}:")
            return
        flag, depth = self.flag(), self.depth
        self.emit(f"{flag} = True")
        for name in others:
            self.open(f"for z{self.number[name]} in range(d{self.number[name]}):")
        self.open(f"if not {test}:")
        self.emit(f"{flag} = False")
        self.emit("break")
        for _ in others[1:]:
            self.depth -= 2
            self.open(f"if not {flag}:")
            self.emit("break")
        self.depth = depth
        self.open(f"if {flag}:")

    def called(self, conjunct: Expression, moment: Moment) -> str:
        """Source that calls a condition on events, for what has no typed form."""
        self.objects = True
        candidate = moment.candidate
        names = sorted(conjunct.variables - {candidate})
        if candidate in self.kleene:
            names.append(str(candidate))
        spots = {name: f"m[{n}]" for n, name in enumerate(names)}
        if candidate is not None and candidate not in self.kleene:
            spots[candidate] = "e"
        judge = predicate(
            [conjunct],
            spots,
            candidate=candidate,
            kleene=self.kleene & conjunct.variables,
            first=moment.first,
            failed=self.task.failed,
        )
        every = self.task.events()
        event_at = {
            name: [every[row] for row in self.table.row(self.places(name)).tolist()]
            for name in [*names, *([] if candidate is None else [candidate])]
        }

        def test(newest: int, *held: Any) -> bool:
            event: Any = None if candidate is None else event_at[candidate][newest]
            bound = [
                event_at[name][index] if isinstance(index, int)
                else tuple([event_at[name][one] for one in index])
                for name, index in zip(names, held, strict=True)
            ]  # fmt: skip
            return judge(event, bound)

        held = [
            f"K{self.number[n]}[:d{self.number[n]}]" if n in self.kleene else self.here[n]
            for n in names
        ]
        if candidate in self.kleene and moment.first:
            held[-1] = "()"
        key = ("call", conjunct, candidate, moment.first)
        return f"{self.argument(key, lambda: test)}({', '.join([moment.newest, *held])})"
