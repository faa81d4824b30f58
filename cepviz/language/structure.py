"""The shape of a pattern: SEQ, AND, OR, NOT and Kleene over variables, and what it unfolds to.

A pattern unfolds into *branches*: one for each choice of every OR, and for each `T*` one with and
one without it. A branch is a set of variables, a partial order on them and negations: the one
input form of every engine (SEMANTICS section 5).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from cepviz.errors import PatternError
from cepviz.language.expressions import Place, quoted

MOST_BRANCHES = 256


@dataclass(frozen=True)
class Atom:
    """`T v`: one event of type T, called v."""

    type: str
    variable: str
    place: Place | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        if self.type == self.variable:
            return quoted(self.type)
        return f"{quoted(self.type)} {quoted(self.variable)}"


@dataclass(frozen=True)
class Kleene:
    """`T+ v[]`: one or more events; `T* v[]`: zero or more."""

    atom: Atom
    optional: bool = False

    def __str__(self) -> str:
        sign = "*" if self.optional else "+"
        return f"{quoted(self.atom.type)}{sign} {quoted(self.atom.variable)}[]"


@dataclass(frozen=True)
class Not:
    """`~(T v)`: no such event at this place."""

    atom: Atom

    def __str__(self) -> str:
        return f"~({self.atom})"


@dataclass(frozen=True)
class Seq:
    """Its parts, one after the other."""

    parts: tuple[Structure, ...]

    def __str__(self) -> str:
        return f"SEQ({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class And:
    """All of its parts, in any order."""

    parts: tuple[Structure, ...]

    def __str__(self) -> str:
        return f"AND({', '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Or:
    """One of its parts."""

    parts: tuple[Structure, ...]

    def __str__(self) -> str:
        return f"OR({', '.join(map(str, self.parts))})"


Structure = Atom | Kleene | Not | Seq | And | Or


@dataclass(frozen=True)
class Variable:
    """A name of the pattern with the type of event it stands for."""

    name: str
    type: str
    kleene: bool = False
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.name}[]" if self.kleene else self.name


@dataclass(frozen=True)
class Absence:
    """A negated variable and its place: after all of `after` and before all of `before`."""

    variable: Variable
    after: frozenset[str]
    before: frozenset[str]


@dataclass(frozen=True)
class Shape:
    """One unfolding of a structure: positive variables, their order, absences, empty `T*`."""

    variables: tuple[Variable, ...]
    order: frozenset[tuple[str, str]] = frozenset()
    absences: tuple[Absence, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(variable.name for variable in self.variables)


def atoms(node: Structure) -> Iterator[tuple[Atom, Variable]]:
    """Every declared variable, in the order of the text."""
    if isinstance(node, Atom):
        yield node, Variable(node.variable, node.type)
    elif isinstance(node, Kleene):
        yield node.atom, Variable(node.atom.variable, node.atom.type, kleene=True)
    elif isinstance(node, Not):
        yield node.atom, Variable(node.atom.variable, node.atom.type, negated=True)
    else:
        for part in node.parts:
            yield from atoms(part)


def unfold(node: Structure) -> list[Shape]:
    """The shapes of a structure: one for each choice of every OR and every `T*`."""
    if isinstance(node, Atom | Kleene | Not):
        ((_, variable),) = atoms(node)
        if isinstance(node, Not):
            return [Shape((), absences=(Absence(variable, frozenset(), frozenset()),))]
        present = Shape((variable,))
        optional = isinstance(node, Kleene) and node.optional
        return [present, Shape((), empty=(variable.name,))] if optional else [present]
    unfolded = [unfold(part) for part in node.parts]
    if isinstance(node, Or):
        shapes = list(itertools.chain.from_iterable(unfolded))
    else:
        if isinstance(node, And):
            _refuse_bare_not(node, unfolded)
        total = 1
        for options in unfolded:
            total *= len(options)
            if total > MOST_BRANCHES:
                break
        else:
            join = _in_sequence if isinstance(node, Seq) else _together
            return [join(choice) for choice in itertools.product(*unfolded)]
        raise PatternError(
            f"the choices of OR and T* multiply to more than {MOST_BRANCHES} patterns; "
            "write them as separate patterns"
        )
    return shapes


def _refuse_bare_not(node: And, unfolded: list[list[Shape]]) -> None:
    for options in unfolded:
        for shape in options:
            if shape.absences and not shape.variables:
                name = shape.absences[0].variable
                places = [atom.place for atom, variable in atoms(node) if variable == name]
                raise PatternError(
                    f"NOT needs a place in an order, and AND has none: put ~({name.type} "
                    f"{name.name}) into a SEQ, next to the event it must not precede or follow",
                    place=places[-1],
                )


def _together(choice: tuple[Shape, ...]) -> Shape:
    return Shape(
        tuple(itertools.chain.from_iterable(shape.variables for shape in choice)),
        frozenset().union(*(shape.order for shape in choice)),
        tuple(itertools.chain.from_iterable(shape.absences for shape in choice)),
        tuple(itertools.chain.from_iterable(shape.empty for shape in choice)),
    )


def _in_sequence(choice: tuple[Shape, ...]) -> Shape:
    joined = _together(choice)
    order = set(joined.order)
    absences = []
    for position, shape in enumerate(choice):
        earlier = frozenset().union(*(other.names for other in choice[:position]))
        later = frozenset().union(*(other.names for other in choice[position + 1 :]))
        order.update(itertools.product(shape.names, later))
        absences += [
            replace(absence, after=absence.after | earlier, before=absence.before | later)
            for absence in shape.absences
        ]
    return replace(joined, order=frozenset(order), absences=tuple(absences))
