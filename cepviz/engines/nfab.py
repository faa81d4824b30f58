"""NFA^b: compiling a sequence into states, edges, formulas and a value vector (SASE+ section 3.2).

The six steps are separate passes. Each leaves the formulas of all edges as it found and changed
them, so that a picture can show the automaton after any of them (the paper's Figure 2).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cepviz.events import Event
from cepviz.language.compile import BUILT_IN, Predicate, Writer, written
from cepviz.language.evaluate import Failed
from cepviz.language.expressions import (
    Aggregate,
    Attribute,
    Expression,
    Length,
    per_element,
    quoted,
)
from cepviz.language.pattern import ANY, NEXT, PARTITION, STRICT, Branch, Pattern
from cepviz.language.structure import Variable
from cepviz.steps import Edge, Graph, Pass, State

Values = tuple[Any, ...]

#: Table 4: the nondeterminism a state can have under each strategy.
LOOP_CHOICES = {
    STRICT: ("take-proceed",),
    PARTITION: ("take-proceed",),
    NEXT: ("take-proceed", "ignore-proceed"),
    ANY: ("take-proceed", "ignore-proceed", "take-ignore"),
}


@dataclass(frozen=True)
class Column:
    """One value a run carries: an operation on an attribute of a variable (Figure 5(a)).

    `set` keeps the value of an event (of `a[1]` if the variable is Kleene), `last` that of the
    newest element; sum, count, min, max, first and final run over the elements and skip missing
    values; `size` counts elements, `each` keeps them as a linked list.
    """

    variable: str
    attribute: str | None
    operation: str

    def __str__(self) -> str:
        attribute = "" if self.attribute is None else f".{quoted(self.attribute)}"
        return f"{self.operation}({self.variable}{attribute})"


class Broken:
    """A running value that could not be computed; using it fails, and the careful way is taken."""

    def _refuse(self, *others: object) -> Any:
        raise TypeError("a running aggregate could not be computed")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __truediv__ = __rtruediv__ = __pos__ = __neg__ = _refuse

    def __hash__(self) -> int:
        return id(self)


BROKEN = Broken()


@dataclass(eq=False)
class NfaState:
    """A state: of a singleton component, or the first (p[1]) or second (p[i]) of a Kleene pair."""

    name: str
    index: int
    variable: Variable
    loop: bool
    next: NfaState | None = None
    #: The component after this one; None if the next state is F.
    follows: NfaState | None = None
    begin: Predicate | None = None
    take: Predicate | None = None
    proceed: Predicate | None = None
    update: Callable[[Event, Values], Values] = field(default=lambda event, values: values)
    #: Which columns of the value vector matter from here on (5.2.2's masks, joined).
    mask: tuple[int, ...] = ()

    @property
    def type(self) -> str:
        return self.variable.type


class Nfa:
    """The automaton of one sequence, ready to run and to be drawn."""

    def __init__(self, branch: Branch, pattern: Pattern, hashed: bool, failed: Failed):
        self.branch = branch
        self.pattern = pattern
        self.states = _states(branch)
        self.columns = _columns(branch)
        self.empty: Values = (None,) * len(self.columns)
        kleene = self.kleene = frozenset(v.name for v in branch.variables if v.kleene)
        # With runs hashed by key, the equivalence tests hold for every run an event meets.
        known = frozenset(branch.equivalences) if hashed else frozenset()

        def compiled(name: str, action: str, candidate: str | None, first: bool) -> Any:
            tests = [c for c in branch.placed(name, action) if c not in known]
            writer = _Reader(self.columns, candidate, kleene, first)
            return written(tests, writer, failed) if tests else None

        for state in self.states:
            name = state.variable.name
            first = not state.loop
            if state.loop:
                state.take = compiled(name, "take", name, False)
                state.proceed = compiled(name, "proceed", None, False)
            else:
                state.begin = compiled(name, "begin", name, True)
            state.update = _update(self.columns, name, first)
        self._mask()

    def _mask(self) -> None:
        later: set[int] = set()
        for state in reversed(self.states):
            actions = ("take", "proceed") if state.loop else ("begin",)
            for action in actions:
                for conjunct in self.branch.placed(state.variable.name, action):
                    for column in _needs(conjunct, state.variable.name, action, self.branch):
                        later.add(self.columns.index(column))
            state.mask = tuple(sorted(later))

    def mask_at(self, state: NfaState) -> tuple[int, ...]:
        """The columns that the state's own edges read: one bit mask of Figure 6."""
        name = state.variable.name
        actions = ("take", "proceed") if state.loop else ("begin",)
        read = {
            self.columns.index(column)
            for action in actions
            for conjunct in self.branch.placed(name, action)
            for column in _needs(conjunct, name, action, self.branch)
        }
        return tuple(sorted(read))

    @property
    def graph(self) -> Graph:
        """The automaton as plain data, with the formulas after each pass."""
        return _graph(self)


def _states(branch: Branch) -> list[NfaState]:
    states: list[NfaState] = []
    firsts: list[NfaState] = []
    for variable in branch.variables:
        name = quoted(variable.name)
        if variable.kleene:
            states.append(NfaState(f"{name}[1]", len(states), variable, False))
            firsts.append(states[-1])
            states.append(NfaState(f"{name}[i]", len(states), variable, True))
        else:
            states.append(NfaState(name, len(states), variable, False))
            firsts.append(states[-1])
    for state, following in itertools.pairwise(states):
        state.next = following
    for state in states:
        later = [first for first in firsts if first.index > state.index]
        state.follows = later[0] if later else None
    return states


# ---- the value vector ----


def _needs(conjunct: Expression, last: str, action: str, branch: Branch) -> list[Column]:
    """The columns that judging a conjunct on an edge reads."""
    needed: list[Column] = []
    for node in conjunct.walk():
        if isinstance(node, Length):
            needed.append(Column(node.variable, None, "size"))
        elif isinstance(node, Aggregate):
            needed += _aggregate_columns(node)
        elif isinstance(node, Attribute):
            current = node.variable == last and (
                (action == "begin" and node.index in ("", "1", "i"))
                or (action == "take" and node.index == "i")
            )
            if current:
                continue
            if node.index in ("", "1"):
                needed.append(Column(node.variable, node.name, "set"))
            elif node.index == "LEN" or (node.index == "i-1" and node.variable == last):
                needed.append(Column(node.variable, node.name, "last"))
    for name in per_element(conjunct):
        if name != last or action == "proceed":
            needed.append(Column(name, None, "each"))
    # The walk goes from the right; the vector reads better from the left.
    return list(dict.fromkeys(reversed(needed)))


def _aggregate_columns(node: Aggregate) -> list[Column]:
    if node.name is None:
        return [Column(node.variable, None, "size")]
    count = Column(node.variable, node.name, "count")
    if node.function == "count":
        return [count]
    if node.function in ("sum", "avg"):
        return [count, Column(node.variable, node.name, "sum")]
    return [Column(node.variable, node.name, "final" if node.function == "last" else node.function)]


def _columns(branch: Branch) -> list[Column]:
    columns: dict[Column, None] = {}
    for variable in branch.variables:
        for action in ("begin", "take", "proceed"):
            for conjunct in branch.placed(variable.name, action):
                columns.update(dict.fromkeys(_needs(conjunct, variable.name, action, branch)))
    order = [variable.name for variable in branch.variables]
    return sorted(
        columns, key=lambda column: (order.index(column.variable), column.operation != "set")
    )


#: How each operation changes with a further value x, which is not missing.
GROWTH = {
    "sum": "{old} + (+{x})",
    "count": "{old} + 1",
    "min": "({x} if {old} is None or {x} < {old} else {old})",
    "max": "({x} if {old} is None or {x} > {old} else {old})",
    "first": "({x} if {old} is None else {old})",
    "final": "{x}",
}
START = {"sum": "0", "count": "0", "min": "None", "max": "None", "first": "None", "final": "None"}


def _update(columns: list[Column], variable: str, first: bool) -> Callable[[Event, Values], Values]:
    """The function that moves the value vector when an event is selected for a variable."""
    cells = []
    constants: dict[str, Any] = {"BROKEN": BROKEN}
    for index, column in enumerate(columns):
        old = f"V[{index}]"
        if column.variable != variable or (column.operation == "set" and not first):
            cells.append(old)
        elif column.operation == "size":
            cells.append("1" if first else f"{old} + 1")
        elif column.operation == "each":
            cells.append("(None, e)" if first else f"({old}, e)")
        else:
            constants[f"k{index}"] = column.attribute
            reads = "get" if column.attribute in BUILT_IN else "attributes.get"
            x = f"e.{reads}(k{index})"
            if column.operation in ("set", "last"):
                cells.append(x)
                continue
            before = START[column.operation] if first else old
            grown = GROWTH[column.operation].format(old=before, x=f"x{index}")
            cells.append(f"({before} if (x{index} := {x}) is None else {grown})")
    if all(cell == f"V[{index}]" for index, cell in enumerate(cells)):
        return lambda event, values: values
    source = (
        "def update(e, V):\n"
        "    try:\n"
        f"        return ({''.join(cell + ', ' for cell in cells)})\n"
        "    except Exception:\n"
        "        return slowly(e, V)\n"
    )
    # Only on a value that cannot be added or compared: then each column by itself.
    parts = [f"def part{i}(e, V):\n    return {cell}\n" for i, cell in enumerate(cells)]
    exec(compile(source + "".join(parts), "<update>", "exec"), constants)
    each = [constants[f"part{index}"] for index in range(len(cells))]

    def slowly(event: Event, values: Values) -> Values:
        done = []
        for part in each:
            try:
                done.append(part(event, values))
            except Exception:
                done.append(BROKEN)
        return tuple(done)

    constants["slowly"] = slowly
    function: Callable[[Event, Values], Values] = constants["update"]
    return function


def linked(cell: Any) -> list[Event]:
    """The elements of an `each` column, oldest first."""
    events = []
    while cell is not None:
        cell, event = cell
        events.append(event)
    return events[::-1]


class _Reader(Writer):
    """Writes predicates that read a run's value vector instead of its events."""

    prelude = "V = m.values"

    def __init__(
        self, columns: list[Column], candidate: str | None, kleene: frozenset[str], first: bool
    ):
        super().__init__({}, candidate, kleene, first)
        self.columns = columns
        self.constants["linked"] = linked

    def bindings(self) -> str:
        return f"m.bindings({self.constant(self.candidate)}, e)"

    def each(self, variable: str) -> str:
        return f"linked({self._column(variable, None, 'each')})"

    def _column(self, variable: str, attribute: str | None, operation: str) -> str:
        return f"V[{self.columns.index(Column(variable, attribute, operation))}]"

    def _mark(self, variable: str) -> int:
        return sorted(self.kleene).index(variable)

    def source(self, node: Attribute | Length | Aggregate) -> str:
        if isinstance(node, Length):
            return self._column(node.variable, None, "size")
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        if node.variable == self.candidate:
            if node.index in ("", "i") or (node.index == "1" and self.first):
                return self.attribute("e", node.name)
        elif node.index == "i":
            return self.attribute(f"x_{self._mark(node.variable)}", node.name)
        operation = "set" if node.index in ("", "1") else "last"
        return self._column(node.variable, node.name, operation)

    def _aggregate(self, node: Aggregate) -> str:
        if node.name is None:
            return self._column(node.variable, None, "size")
        if node.function not in ("sum", "avg"):
            operation = "final" if node.function == "last" else node.function
            return self._column(node.variable, node.name, operation)
        total = self._column(node.variable, node.name, "sum")
        count = self._column(node.variable, node.name, "count")
        computed = total if node.function == "sum" else f"{total} / {count}"
        return f"({computed} if {count} else None)"


# ---- the picture ----


def _graph(nfa: Nfa) -> Graph:
    pattern, branch = nfa.pattern, nfa.branch
    edges: dict[str, tuple[str, str, str, str]] = {}
    for state in nfa.states:
        name = state.variable.name
        after = state.next.name if state.next else "F"
        if state.loop:
            target = state.follows.name if state.follows else "F"
            edges[f"take {state.name}"] = (state.name, state.name, "take", name)
            edges[f"proceed {state.name}"] = (state.name, target, "proceed", name)
        else:
            edges[f"begin {state.name}"] = (state.name, after, "begin", name)
        if state.index > 0:
            edges[f"ignore {state.name}"] = (state.name, state.name, "ignore", "")
    formulas: dict[str, tuple[str, ...]] = dict.fromkeys(edges, ())
    passes = [Pass("1 structure", dict(formulas))]

    for name, (_, _, action, variable) in edges.items():
        if action != "ignore":
            formulas[name] = tuple(map(str, branch.placed(variable, action)))
    passes.append(Pass("2 predicates", dict(formulas)))

    for name, (source, _, action, _) in edges.items():
        if action == "ignore":
            taken = formulas.get(f"take {source}", formulas.get(f"begin {source}", ()))
            formulas[name] = _ignore(pattern, taken)
    passes.append(Pass("3 selection strategy", dict(formulas)))

    window = _window(pattern, nfa)
    final = [name for name, (_, target, _, _) in edges.items() if target == "F"]
    if window:
        for name in final:
            formulas[name] = (*formulas[name], window)
    passes.append(Pass("4 time window", dict(formulas)))

    if window:
        start = nfa.states[0].name
        for name, (source, _, action, _) in edges.items():
            if action != "proceed" and source != start and window not in formulas[name]:
                formulas[name] = (*formulas[name], window)
    passes.append(Pass("5 time window early", dict(formulas)))

    for state in nfa.states:
        if state.loop and state.follows is not None:
            peek = [str(c) for c in branch.placed(state.follows.variable.name, "begin")]
            said = " and ".join(peek) or f"it is a {state.follows.type}"
            name = f"proceed {state.name}"
            formulas[name] = (*formulas[name], f"the event can begin {state.follows.name}: {said}")
    passes.append(Pass("6 constrained proceed", dict(formulas)))

    begin_choices = ("begin-ignore",) if pattern.strategy == ANY else ()
    states = [
        State(
            state.name,
            "start" if state.index == 0 else "middle",
            state.type,
            LOOP_CHOICES[pattern.strategy] if state.loop else begin_choices if state.index else (),
        )
        for state in nfa.states
    ]
    made = [
        Edge(name, source, target, action, variable, formulas[name])
        for name, (source, target, action, variable) in edges.items()
    ]
    absent, forbidding = _negations(nfa)
    return Graph(
        (*states, State("F", "final"), *absent), (*made, *forbidding), "nfab", tuple(passes)
    )


def _negations(nfa: Nfa) -> tuple[list[State], list[Edge]]:
    """Negated components as automata of one state each, composed with the positive one: an event
    that leads from `F` there eliminates the match (section 3.1)."""
    states, edges = [], []
    for negation in nfa.branch.negations:
        name = quoted(negation.variable.name)
        place = [f"after {other}" for other in sorted(negation.after)]
        place += [f"before {other}" for other in sorted(negation.before)]
        formula = (*place, *map(str, negation.conjuncts))
        states.append(State(f"~{name}", "negated", negation.variable.type))
        edges.append(Edge(f"negate {name}", "F", f"~{name}", "negate", name, formula))
    return states, edges


def _ignore(pattern: Pattern, taken: tuple[str, ...]) -> tuple[str, ...]:
    if pattern.strategy == ANY:
        return ("true",)
    if pattern.strategy == STRICT:
        return ("false",)
    if pattern.strategy == PARTITION:
        return (f"not ({' and '.join(f'[{quoted(name)}]' for name in pattern.same)})",)
    return (f"not ({' and '.join(taken) or 'true'})",)


def _window(pattern: Pattern, nfa: Nfa) -> str:
    if pattern.within is None or pattern.within.amount is None:
        return ""
    measure = "position" if pattern.within.in_events else "time"
    return f"now.{measure} - {nfa.states[0].name}.{measure} < {pattern.within}"
