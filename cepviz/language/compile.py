"""Predicates as generated Python functions: the fast form of `evaluate.holds`.

The source is written from the syntax tree alone. Nothing a user wrote enters it as text: names of
attributes, strings and numbers are constants of the function, variables are mapped to places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from cepviz.events import Event
from cepviz.language.evaluate import Failed, aggregate, holds
from cepviz.language.expressions import (
    Aggregate,
    All,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Either,
    Expression,
    In,
    Length,
    Like,
    Literal,
    Negative,
    Opposite,
    Percent,
    Relation,
    Symbol,
    looks_back,
    per_element,
)
from cepviz.language.functions import find_function

#: Names every event answers to even where no attribute has them.
BUILT_IN = frozenset(("type", "id", "time", "start", "end"))

Predicate = Callable[[Event, Any], bool]


def predicate(
    conjuncts: Collection[Expression],
    places: Mapping[str, str],
    *,
    candidate: str | None = None,
    kleene: Collection[str] = (),
    first: bool = False,
    failed: Failed | None = None,
) -> Predicate:
    """A function of (event, held) that says whether all conjuncts hold.

    `places` says for each variable where its event (or events, if it is in `kleene`) is found,
    as an expression in `e`, the event, and `m`, what the run holds: for a run that keeps a tuple,
    `{"a": "m[0]", "b": "e"}`. If the `candidate` is Kleene, `e` is its newest element and its
    place holds the earlier ones; `first` says that there are none yet.
    """
    return written(conjuncts, Writer(places, candidate, frozenset(kleene), first), failed)


def written(
    conjuncts: Collection[Expression], writer: Writer, failed: Failed | None = None
) -> Predicate:
    """The function of (event, held) that a writer's source makes of conjuncts."""
    tests = [writer.conjunct(conjunct) for conjunct in conjuncts]
    body = " and ".join(tests) or "True"
    source = (
        "def predicate(e, m):\n"
        f"    {writer.prelude if 'V[' in body else 'pass'}\n"
        "    try:\n"
        f"        return {body}\n"
        "    except Exception:\n"
        "        return careful(bindings(e, m))\n"
        "def bindings(e, m):\n"
        f"    return {writer.bindings()}\n"
    )
    kept = tuple(conjuncts)
    namespace = writer.constants
    namespace["careful"] = lambda bound: all(holds(c, bound, failed) for c in kept)
    namespace["holds"] = lambda conjunct, bound: holds(conjunct, bound, failed)
    namespace["aggregate"] = aggregate
    exec(compile(source, "<predicate>", "exec"), namespace)
    function: Predicate = namespace["predicate"]
    return function


class Writer:
    """Writes conjuncts as Python source and collects the constants they need.

    An engine that keeps its runs in another form overrides `source`, `each` and `bindings`.
    """

    prelude = "pass"

    def __init__(
        self,
        places: Mapping[str, str],
        candidate: str | None,
        kleene: frozenset[str],
        first: bool,
    ):
        self.places = places
        self.candidate = candidate
        self.kleene = kleene
        self.first = first
        self.constants: dict[str, Any] = {}
        self.locals = 0

    def constant(self, value: Any) -> str:
        """The name under which the function knows a value; one name for the same string."""
        for name, known in self.constants.items():
            if isinstance(value, str) and isinstance(known, str) and known == value:
                return name
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def bindings(self) -> str:
        pairs = []
        for variable, place in self.places.items():
            if variable == self.candidate and variable in self.kleene:
                place = "(e,)" if self.first else f"(*{place}, e)"
            pairs.append(f"{self.constant(variable)}: {place}")
        return f"{{{', '.join(pairs)}}}"

    def conjunct(self, conjunct: Expression) -> str:
        candidate = self.candidate
        if self.first and candidate in self.kleene and looks_back(conjunct, str(candidate)):
            return "True"  # it holds from the second element on
        others = sorted(per_element(conjunct) - {candidate})
        if any(looks_back(conjunct, name) for name in others):
            return f"holds({self.constant(conjunct)}, bindings(e, m))"
        written = self.truth(conjunct)
        for name in others:
            written = f"all([{written} for x_{self._mark(name)} in {self.each(name)}])"
        return written

    def truth(self, node: Expression) -> str:
        """Source that is true exactly when the node is true, never None."""
        if isinstance(node, All | Either):
            word = " and " if isinstance(node, All) else " or "
            return f"({word.join(self.truth(part) for part in node.parts)})"
        leaves: dict[str, str] = {}
        inner = node.part if isinstance(node, Opposite) else node
        written = self.value(inner, leaves)
        guards = [f"({name} := {source}) is not None" for source, name in leaves.items()]
        return f"({' and '.join([*guards, self._decided(node, written)])})"

    def _decided(self, node: Expression, written: str) -> str:
        if isinstance(node, Opposite):
            return f"not {written}"
        if isinstance(node, Attribute | Call):
            return f"bool({written})"
        return written

    def value(self, node: Expression, leaves: dict[str, str]) -> str:
        """Source of a value, given that the leaves it collects are not missing."""
        if isinstance(node, Literal):
            return self.constant(node.value)
        if isinstance(node, Percent):
            return self.constant(node.amount / 100)
        if isinstance(node, Symbol):
            return self.constant(node.name)
        if isinstance(node, Attribute | Length | Aggregate):
            return self._leaf(self.source(node), leaves)
        if isinstance(node, Call):
            # A function may answer None, so its result is guarded like an attribute.
            arguments = ", ".join(self.value(part, leaves) for part in node.arguments)
            scalar = self.constant(find_function(node.function).scalar)
            return self._leaf(f"{scalar}({arguments})", leaves)
        if isinstance(node, Negative):
            return f"(-{self.value(node.operand, leaves)})"
        if isinstance(node, Arithmetic):
            # A unary plus refuses strings, which * and % would otherwise repeat or format.
            left, right = self.value(node.left, leaves), self.value(node.right, leaves)
            return f"((+{left}) {node.operator} (+{right}))"
        if isinstance(node, Compare):
            sign = "==" if node.operator == "=" else node.operator
            return f"({self.value(node.left, leaves)} {sign} {self.value(node.right, leaves)})"
        if isinstance(node, Relation):
            tests = node.meaning
            parts = tests.parts if isinstance(tests, All) else (tests,)
            written = " and ".join(self.value(part, leaves) for part in parts)
            return f"({'not ' * node.negated}({written}))"
        if isinstance(node, In):
            options = [self.value(option, leaves) for option in tuple(node.children())[1:]]
            word = "not in" if node.negated else "in"
            listed = "".join(f"{option}, " for option in options)
            return f"({self.value(node.operand, leaves)} {word} ({listed}))"
        if isinstance(node, Between):
            # As leaves, all three are computed even where the first comparison decides.
            operand, low, high = (
                self._leaf(self.value(part, leaves), leaves) for part in node.children()
            )
            return f"({'not ' * node.negated}({low} <= {operand} <= {high}))"
        if isinstance(node, Like):
            operand = self.value(node.operand, leaves)
            word = "is" if node.negated else "is not"
            return f"({self.constant(node.regex.fullmatch)}({operand}) {word} None)"
        raise TypeError(f"{node} cannot be compiled before the pattern meets a stream")

    def _leaf(self, source: str, leaves: dict[str, str]) -> str:
        if source not in leaves:
            self.locals += 1
            leaves[source] = f"v{self.locals}"
        return leaves[source]

    def each(self, variable: str) -> str:
        """Source of the elements of a Kleene variable that is not the candidate."""
        return self.places[variable]

    def source(self, node: Attribute | Length | Aggregate) -> str:
        """Source of what a reference stands for; None where it is missing."""
        place = self.places[node.variable]
        if isinstance(node, Length):
            return f"len({place})"
        if isinstance(node, Aggregate):
            function, name = self.constant(node.function), self.constant(node.name)
            return f"aggregate({function}, {name}, {place})"
        return self.attribute(self._element(node, place), node.name)

    def attribute(self, event: str, name: str) -> str:
        """Source of an attribute of an event."""
        reads = "get" if name in BUILT_IN else "attributes.get"
        return f"{event}.{reads}({self.constant(name)})"

    def _element(self, node: Attribute, place: str) -> str:
        if node.variable not in self.kleene:
            return place
        if node.index == "LEN":
            return f"{place}[-1]"
        if node.variable == self.candidate:
            newest = node.index == "i" or (node.index == "1" and self.first)
            return "e" if newest else f"{place}[{'0' if node.index == '1' else '-1'}]"
        return f"{place}[0]" if node.index == "1" else f"x_{self._mark(node.variable)}"

    def _mark(self, variable: str) -> int:
        return sorted(self.places).index(variable)
