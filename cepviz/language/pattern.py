"""`Pattern`: a whole query as an immutable value, checked when it is made, printed as its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cepviz.errors import PatternError, did_you_mean, one_of
from cepviz.language.expressions import (
    Aggregate,
    Attribute,
    Call,
    Compare,
    Either,
    Expression,
    In,
    Length,
    Place,
    Symbol,
    amount_text,
    looks_back,
    needs_all,
    number_text,
    per_element,
    quoted,
)
from cepviz.language.functions import find_function
from cepviz.language.literals import as_literal
from cepviz.language.normal_form import conjuncts
from cepviz.language.structure import (
    Absence,
    And,
    Atom,
    Kleene,
    Shape,
    Structure,
    Variable,
    atoms,
    unfold,
)
from cepviz.language.structure import Seq as SeqNode

ANY, NEXT = "skip_till_any_match", "skip_till_next_match"
PARTITION, STRICT = "partition_contiguity", "strict_contiguity"
STRATEGIES = (STRICT, PARTITION, NEXT, ANY)
OUTPUTS = ("all", "non_overlap")

#: Deeper expressions are refused rather than met by Python's recursion limit somewhere later.
DEEPEST = 100

#: The order of a pattern is kept as pairs of variables, so their number is bounded.
MOST_VARIABLES = 100


@dataclass(frozen=True)
class Window:
    """`WITHIN 10 minutes`, `WITHIN 2000 events`, or a bare number in the stream's own unit.

    A match fits when last minus first is strictly less. `unit` is a word of time, "events", ""
    for a bare number; `amount` is None for `WITHIN unbounded`.
    """

    amount: int | float | Symbol | None
    unit: str = ""

    def __str__(self) -> str:
        if self.amount is None:
            return "unbounded"
        if isinstance(self.amount, Symbol):
            return f"{self.amount} {self.unit}".rstrip()
        return amount_text(self.amount, self.unit) if self.unit else number_text(self.amount)

    @property
    def in_events(self) -> bool:
        return self.unit == "events"


@dataclass(frozen=True)
class Returns:
    """`RETURN Alert(symbol = b.symbol)`: the type and attributes of the composite event."""

    type: str
    attributes: tuple[tuple[str, Expression], ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(f"{quoted(name)} = {value}" for name, value in self.attributes)
        return f"{quoted(self.type)}({inner})"


@dataclass(frozen=True)
class Negation:
    """No event of this variable that satisfies `conjuncts` lies between its neighbours: after all
    of `after` and before all of `before`."""

    variable: Variable
    after: frozenset[str]
    before: frozenset[str]
    conjuncts: tuple[Expression, ...]

    @property
    def trailing(self) -> bool:
        """Whether it looks ahead, so that only the end of the window can confirm it."""
        return not self.before


@dataclass(frozen=True)
class Branch:
    """A pattern without OR: variables, a partial order on them, conjuncts and negations."""

    variables: tuple[Variable, ...]
    order: frozenset[tuple[str, str]]
    conjuncts: tuple[Expression, ...]
    negations: tuple[Negation, ...] = ()
    empty: tuple[str, ...] = ()
    #: Those of the conjuncts that come from equivalence tests such as [symbol].
    equivalences: tuple[Expression, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Variable]:
        return {variable.name: variable for variable in self.variables}

    @property
    def is_sequence(self) -> bool:
        """Whether the order is total: the text order of the variables is then that order."""
        return len(self.order) == len(self.variables) * (len(self.variables) - 1) // 2

    def own(self, name: str) -> tuple[Expression, ...]:
        """The conjuncts that an event alone decides: those on this variable and no other, on
        every element, without looking back. Constant conjuncts go with the first variable."""
        first = self.variables[0].name
        return tuple(
            conjunct
            for conjunct in self.conjuncts
            if conjunct.variables <= {name}
            and (conjunct.variables or name == first)
            and (not self.by_name[name].kleene or _is_own(conjunct, name))
        )

    def placed(self, name: str, action: str) -> tuple[Expression, ...]:
        """The conjuncts on an edge of a sequence (SASE+ step 2): those whose last identifier is
        instantiated there. `action` is begin, take (a further element) or proceed (it is full)."""
        return self._placements.get((name, action), ())

    @cached_property
    def _placements(self) -> dict[tuple[str, str], tuple[Expression, ...]]:
        order = [variable.name for variable in self.variables]
        placed: dict[tuple[str, str], tuple[Expression, ...]] = {}
        for conjunct in self.conjuncts:
            last = max(conjunct.variables, key=order.index, default=order[0])
            for action in _actions(conjunct, last):
                placed[last, action] = (*placed.get((last, action), ()), conjunct)
        return placed

    def shared(self) -> tuple[Expression, ...]:
        """The conjuncts that no single event decides."""
        alone = {c for variable in self.variables for c in self.own(variable.name)}
        return tuple(conjunct for conjunct in self.conjuncts if conjunct not in alone)


def _actions(conjunct: Expression, last: str) -> tuple[str, ...]:
    if needs_all(conjunct, last):
        return ("proceed",)
    if looks_back(conjunct, last):
        return ("take",)
    return ("begin", "take") if last in per_element(conjunct) else ("begin",)


def _is_own(conjunct: Expression, name: str) -> bool:
    fixed = any(isinstance(node, Attribute) and node.index == "1" for node in conjunct.walk())
    return not (fixed or looks_back(conjunct, name) or needs_all(conjunct, name))


@dataclass(frozen=True)
class Pattern:
    """What to look for: structure, conditions, strategy, window, output.

    >>> import cepviz as cep
    >>> p = cep.parse("pattern seq(A a, B b) where a.x<b.x and a.y=1 within 10 min")
    >>> print(p)
    PATTERN SEQ(A a, B b)
    WHERE a.x < b.x and a.y = 1
    WITHIN 10 minutes
    >>> cep.parse(str(p)) == p
    True
    """

    structure: Structure
    where: tuple[Expression, ...] = ()
    same: tuple[str, ...] = ()
    strategy: str = ANY
    within: Window | None = None
    returns: Returns | None = None
    output: str = "all"
    source: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if isinstance(self.structure, Atom | Kleene):
            put(self, "structure", SeqNode((self.structure,)))
        put(self, "_declared", _declare(self.structure))
        check_depth(self.where, self.returns)
        flat = tuple(c for condition in self.where for c in conjuncts(condition))
        put(self, "where", tuple(dict.fromkeys(self._named(c) for c in flat)))
        put(self, "same", tuple(dict.fromkeys(self.same)))
        if self.returns:
            values = tuple((n, self._named(value)) for n, value in self.returns.attributes)
            put(self, "returns", replace(self.returns, attributes=values))
        self._check()

    # ---- reading it ----

    def __str__(self) -> str:
        lines = [f"PATTERN {self.structure}"]
        tests = [f"[{quoted(name)}]" for name in self.same]
        tests += [f"({c})" if isinstance(c, Either) else str(c) for c in self.where]
        body = "\n  and ".join(tests) if len(tests) > 2 else " and ".join(tests)
        if self.strategy != ANY:
            body = f"{self.strategy} {{ {body} }}" if body else self.strategy
        if body:
            lines.append(f"WHERE {body}")
        if self.within:
            lines.append(f"WITHIN {self.within}")
        if self.returns:
            lines.append(f"RETURN {self.returns}")
        if self.output != "all":
            lines.append(f"OUTPUT {self.output}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Pattern {' '.join(str(self).split())}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from cepviz.language.highlight import highlighted

        return {"text/plain": str(self), "text/html": highlighted(str(self))}

    @property
    def variables(self) -> dict[str, Variable]:
        """The declared variables by name, in the order of the text."""
        return dict(self._declared)  # type: ignore[attr-defined]

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The patterns without OR and `T*` that this pattern is the union of."""
        return tuple(self._branch(shape) for shape in self._shapes if shape.variables)

    @cached_property
    def _shapes(self) -> list[Shape]:
        return unfold(self.structure)

    def complexity(self) -> str:
        """How many runs the pattern can have at most, in words (SASE+ Table 5).

        >>> import cepviz as cep
        >>> cep.parse("PATTERN SEQ(A+ a[], B b) WITHIN 9").complexity()
        'O(2^W * W^3) runs: exponential in W, the events of a partition in one window'
        """
        bounds = []
        for branch in self.branches:
            loops = sum(variable.kleene for variable in branch.variables)
            states = len(branch.variables) + loops + 1  # singletons, pairs p[1] p[i], and F
            if self.strategy == ANY:
                power = states - loops
                bound = (
                    (2, power, f"O(2^W * W^{power})") if loops else (1, states, f"O(W^{states})")
                )
            else:
                bound = (1, loops + 1, f"O(W^{loops + 1})") if loops else (0, 0, "O(1)")
            bounds.append(bound)
        growth, _, text = max(bounds)
        if growth == 0:
            return f"{text} runs for each event that begins one: they never split"
        word = "exponential" if growth == 2 else "polynomial"
        return f"{text} runs: {word} in W, the events of a partition in one window"

    def warnings(self) -> list[str]:
        """What is legal here but probably not meant."""
        said = []
        nodes = [node for expression in self._expressions() for node in expression.walk()]
        sets = self._set_names()
        for name in dict.fromkeys(node.name for node in nodes if isinstance(node, Symbol)):
            key = name.replace("-", "_")
            if name in sets:
                said.append(f"the set {name} has no values yet: .given({key}=[...]) gives them")
                continue
            said.append(
                f"{name} is read as the string '{name}': put it in quotes, or give it a value "
                f"with .given({key}=...)"
            )
        if self.within and isinstance(self.within.amount, Symbol):
            name = self.within.amount.name
            said.append(f"WITHIN {name} has no value yet: .given({name}='5 minutes') gives one")
        grows = self._grows()
        if self.within is None and grows:
            said.append(
                f"no WITHIN: events of {grows} are kept for ever; add WITHIN, "
                "or WITHIN unbounded if that is meant"
            )
        return said

    def _grows(self) -> str | None:
        for branch in self.branches:
            if len(branch.variables) > 1 and self.strategy != STRICT:
                return branch.variables[0].name
            for variable in branch.variables:
                if variable.kleene:
                    return variable.name
        return None

    # ---- changing it: each returns a new pattern ----

    def given(self, **values: Any) -> Pattern:
        """The pattern with bare names replaced by values: numbers, strings, lists, `"5 minutes"`.

        >>> import cepviz as cep
        >>> p = cep.parse("PATTERN SEQ(A a) WHERE a.x > T WITHIN h")
        >>> print(p.given(T=3, h="2 hours"))
        PATTERN SEQ(A a)
        WHERE a.x > 3
        WITHIN 2 hours
        """
        used: set[str] = set()

        def key(symbol: Symbol) -> str:
            return symbol.name.replace("-", "_")

        sets = set(self._set_names())

        def put(node: Expression) -> Expression:
            if isinstance(node, In) and isinstance(node.options, Symbol):
                name = key(node.options)
                if name in values:
                    used.add(name)
                    return replace(node, options=_listed(name, values[name]))
            elif isinstance(node, Symbol) and key(node) in values and node.name not in sets:
                used.add(key(node))
                return as_literal(values[key(node)])
            return node

        where = tuple(condition.map(put) for condition in self.where)
        returns = self.returns and replace(
            self.returns,
            attributes=tuple((n, value.map(put)) for n, value in self.returns.attributes),
        )
        within = self.within
        if within and isinstance(within.amount, Symbol) and key(within.amount) in values:
            from cepviz.language.parser import parse_window

            used.add(key(within.amount))
            given = values[key(within.amount)]
            length = given if isinstance(given, str) else as_literal(given)
            within = parse_window(f"{length} {within.unit}")
        for name in values:
            if name not in used:
                raise PatternError(f"the pattern has no parameter {name!r}")
        return replace(self, where=where, returns=returns, within=within)

    # ---- making it ----

    def _expressions(self) -> list[Expression]:
        return [*self.where, *(value for _, value in (self.returns or Returns("")).attributes)]

    def _set_names(self) -> list[str]:
        """The sets that are given by name: Finance in `a.ticker IN Finance`."""
        return [
            node.options.name
            for expression in self._expressions()
            for node in expression.walk()
            if isinstance(node, In) and isinstance(node.options, Symbol)
        ]

    def _named(self, expression: Expression) -> Expression:
        """Checks names, and writes plain `a.x` on a Kleene variable as `a[i].x`."""
        declared: dict[str, Variable] = self._declared  # type: ignore[attr-defined]

        def change(node: Expression) -> Expression:
            if isinstance(node, Call):
                try:
                    find_function(node.function)
                except Exception as error:
                    raise PatternError(str(error), place=node.place) from None
            if isinstance(node, Symbol) and node.name in declared:
                raise PatternError(
                    f"{node.name} is an event: name one of its attributes, as in {node.name}.price",
                    place=node.place,
                )
            if not isinstance(node, Attribute | Length | Aggregate):
                return node
            variable = declared.get(node.variable)
            if variable is None:
                raise PatternError(
                    f"{node.variable!r} is not a variable of the pattern"
                    f"{did_you_mean(node.variable, declared)}; it has {one_of(declared)}",
                    place=node.place,
                )
            if isinstance(node, Length) and not variable.kleene:
                return Attribute(node.variable, node.word, place=node.place)
            single = isinstance(node, Attribute) and not node.index
            if not variable.kleene and not single:
                raise PatternError(
                    f"{node.variable} is one event, not a list, so {node} has no meaning: "
                    f"write {node.variable}.{getattr(node, 'name', None) or 'x'}, "
                    f"or declare {variable.type}+ {node.variable}[]",
                    place=node.place,
                )
            if isinstance(node, Attribute) and variable.kleene and not node.index:
                return replace(node, index="i")
            return node

        named = expression.map(change)
        negated = [name for name in sorted(named.variables) if declared[name].negated]
        if len(negated) > 1:
            raise PatternError(
                f"{named} speaks of two absent events, {' and '.join(negated)}: "
                "each NOT is judged by itself",
                place=_place(named),
            )
        return named

    def _check(self) -> None:
        if self.strategy not in STRATEGIES:
            raise PatternError(f"unknown strategy {self.strategy!r}: use {one_of(STRATEGIES)}")
        if self.output not in OUTPUTS:
            raise PatternError(f"unknown output {self.output!r}: use {one_of(OUTPUTS)}")
        if self.strategy == PARTITION and not self.same:
            raise PatternError(
                "partition_contiguity needs a partition: add an equivalence test such as [symbol]"
            )
        if not any(shape.variables for shape in self._shapes):
            raise PatternError("a pattern needs at least one event that must occur")
        if self.returns:
            self._check_returns(self.returns)
        for shape in self._shapes:
            names = [variable.name for variable in shape.variables]
            names += [absence.variable.name for absence in shape.absences] + list(shape.empty)
            for name in names:
                if names.count(name) > 1:
                    raise PatternError(
                        f"the variable {name!r} is declared twice", place=self._declared_at(name)
                    )
            for absence in shape.absences:
                self._check_absence(absence, shape)
        if self.strategy != ANY and _has_and(self.structure):
            raise PatternError(
                f"AND has no order, so {self.strategy} cannot say which event comes next: "
                "use skip_till_any_match, or a SEQ"
            )

    def _declared_at(self, name: str) -> Place | None:
        """Where a variable is declared, the last time if it is so several times."""
        places = [atom.place for atom, _ in atoms(self.structure) if atom.variable == name]
        return places[-1]

    def _check_absence(self, absence: Absence, shape: Shape) -> None:
        name = f"~({absence.variable.type} {absence.variable.name})"
        place = self._declared_at(absence.variable.name)
        if not shape.variables or not (absence.after or absence.before):
            raise PatternError(f"{name} needs an event beside it that does occur", place=place)
        bounded = self.within is not None and self.within.amount is not None
        if not (absence.after and absence.before) and not bounded:
            side = "first" if absence.before else "last"
            raise PatternError(
                f"{name} stands {side}, so it needs a WITHIN to say how far it looks",
                place=place,
            )

    def _check_returns(self, returns: Returns) -> None:
        declared = self.variables
        for name, value in returns.attributes:
            if per_element(value):
                raise PatternError(
                    f"RETURN {name} = {value} has a value for each element: "
                    "take a[1], a[a.LEN] or an aggregate such as sum(a[].x)",
                    place=_place(value),
                )
            for variable in sorted(value.variables):
                if declared[variable].negated:
                    raise PatternError(
                        f"RETURN {name}: {variable} does not occur in a match", place=_place(value)
                    )
        names = [name for name, _ in returns.attributes]
        for name, value in reversed(returns.attributes):
            if names.count(name) > 1:
                raise PatternError(f"RETURN gives {name!r} twice", place=_place(value))

    def _branch(self, shape: Shape) -> Branch:
        equivalences = self._equal_to_first(shape)
        tests = [*equivalences, *self.where]
        absent = {name for name, variable in self.variables.items() if variable.negated}
        positive = [test for test in tests if not test.variables & absent]
        negations = []
        for absence in shape.absences:
            name = absence.variable.name
            about = _present([t for t in tests if name in t.variables], shape.names | {name})
            about = [test for test in about if name in test.variables]
            # Its neighbours are enough: what lies beyond them is ordered by the match itself.
            after = {
                u for u in absence.after if not any((u, v) in shape.order for v in absence.after)
            }
            before = {
                w for w in absence.before if not any((v, w) in shape.order for v in absence.before)
            }
            negations.append(
                Negation(absence.variable, frozenset(after), frozenset(before), tuple(about))
            )
        return Branch(
            shape.variables,
            shape.order,
            tuple(dict.fromkeys(_present(positive, shape.names))),
            tuple(negations),
            shape.empty,
            tuple(equivalences),
        )

    def _equal_to_first(self, shape: Shape) -> list[Expression]:
        """`[attr]` in canonical form: every event agrees with the first (SASE+ step 2).

        The first is compared with itself, so an event without the attribute is in no partition.
        """
        if not shape.variables:
            return []
        first = shape.variables[0]
        return [
            Compare(
                "=",
                Attribute(variable.name, name, "i" if variable.kleene else ""),
                Attribute(first.name, name, "1" if first.kleene else ""),
            )
            for name in self.same
            for variable in (*shape.variables, *(absent.variable for absent in shape.absences))
        ]


def _listed(name: str, given: Any) -> tuple[Expression, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise PatternError(f"{name} must be a list of values, not {given!r}")
    ordered = sorted(given, key=repr) if isinstance(given, set | frozenset) else given
    return tuple(as_literal(value) for value in ordered)


def _declare(structure: Structure) -> dict[str, Variable]:
    declared: dict[str, Variable] = {}
    for number, (atom, variable) in enumerate(atoms(structure)):
        if number == MOST_VARIABLES:
            raise PatternError(
                f"a pattern has at most {MOST_VARIABLES} variables", place=atom.place
            )
        known = declared.setdefault(variable.name, variable)
        if (known.kleene, known.negated) != (variable.kleene, variable.negated):
            raise PatternError(
                f"{variable.name!r} is declared in two ways; use two names", place=atom.place
            )
    return declared


def _place(expression: Expression) -> Place | None:
    return next((node.place for node in expression.walk() if node.place), None)


def check_depth(where: tuple[Expression, ...], returns: Returns | None = None) -> None:
    """Refuses an expression that is nested too deeply for Python to walk."""
    values = tuple(value for _, value in returns.attributes) if returns else ()
    level: list[Expression] = [*where, *values]
    for _ in range(DEEPEST):
        level = [child for node in level for child in node.children()]
        if not level:
            return
    raise PatternError(f"an expression is nested more than {DEEPEST} deep")


def _has_and(node: Structure) -> bool:
    parts = getattr(node, "parts", ())
    return (isinstance(node, And) and len(parts) > 1) or any(_has_and(part) for part in parts)


def _present(tests: list[Expression], names: frozenset[str]) -> list[Expression]:
    """The conjuncts as far as they speak of variables that are there.

    In a branch of OR, a condition on a variable of another branch does not apply; of a
    disjunction, the parts on present variables remain.
    """
    kept = []
    for test in tests:
        parts = test.parts if isinstance(test, Either) else (test,)
        there = tuple(part for part in parts if part.variables <= names)
        if there:
            kept.append(there[0] if len(there) == 1 else Either(there, place=test.place))
    return kept
