"""Plans as values that print as they are written: `Order`, `Tree`, `Split` and `Branched`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cepviz.errors import PlanError, did_you_mean, one_of
from cepviz.language.pattern import Branch, Pattern


class Order:
    """The order in which variables are matched: `Order("c", "b", "a")` waits for c first."""

    def __init__(self, *names: str):
        _check_names(names)
        self.names = names

    def __repr__(self) -> str:
        return f"Order({', '.join(map(repr, self.names))})"

    def __str__(self) -> str:
        return ", ".join(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Order) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def of(self, branch: Branch, pattern: Pattern) -> tuple[str, ...]:
        """The order for one branch of a pattern, which has some of the variables."""
        _check_fit(self.names, branch, pattern, self)
        return tuple(name for name in self.names if name in branch.by_name)


Shape = Any  # a name, or a pair of shapes


@dataclass(frozen=True)
class Tree:
    """A binary tree of joins: `Tree(("a", ("b", "c")))` joins b with c, then a with the pairs."""

    shape: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked(self.shape))
        _check_names(tuple(leaves(self.shape)))

    def __repr__(self) -> str:
        return f"Tree({self.shape!r})"

    def __str__(self) -> str:
        return shape_text(self.shape)

    def of(self, branch: Branch, pattern: Pattern) -> Shape:
        """The tree for one branch of a pattern: leaves it does not have are taken out."""
        _check_fit(tuple(leaves(self.shape)), branch, pattern, self)
        return _only(self.shape, branch)

    @classmethod
    def left_deep(cls, *names: str) -> Tree:
        """((a b) c) d: each further variable is joined with all before it."""
        shape: Shape = names[0]
        for name in names[1:]:
            shape = (shape, name)
        return cls(shape)

    @classmethod
    def right_deep(cls, *names: str) -> Tree:
        """a (b (c d)): each variable is joined with all after it."""
        shape: Shape = names[-1]
        for name in reversed(names[:-1]):
            shape = (name, shape)
        return cls(shape)


class Split:
    """Which variables are evaluated eagerly and which lazily: `Split("BC", "DA")` prints as BC/DA.

    The eager ones are matched as they come, in the order of the query; the lazy ones wait for a
    final event and are then joined in the order given here. A string names one variable with each
    letter; longer names go into a tuple, or into a string with spaces.

    >>> Split("BC", "DA"), str(Split("BC", "DA")), str(Split(("bid", "ask"), "t"))
    (Split('BC', 'DA'), 'BC/DA', 'bid ask/t')
    >>> Split("bid ask", ("t",)) == Split(("bid", "ask"), "t")
    True
    """

    def __init__(self, eager: str | Iterable[str] = (), lazy: str | Iterable[str] = ()):
        self.eager, self.lazy = _group(eager), _group(lazy)
        _check_names((*self.eager, *self.lazy))
        if not self.eager + self.lazy:
            raise PlanError("a split names variables, as in Split('BC', 'AD'): here are none")

    def _written(self) -> tuple[str, str]:
        apart = " " if any(len(name) > 1 for name in self.eager + self.lazy) else ""
        return apart.join(self.eager), apart.join(self.lazy)

    def __repr__(self) -> str:
        if any(len(name) > 1 for name in self.eager + self.lazy):
            return f"Split({self.eager!r}, {self.lazy!r})"
        return "Split({!r}, {!r})".format(*self._written())

    def __str__(self) -> str:
        return "/".join(self._written())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and (self.eager, self.lazy) == (other.eager, other.lazy)

    def __hash__(self) -> int:
        return hash((self.eager, self.lazy))

    def of(self, branch: Branch, pattern: Pattern) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The two groups for one branch of a pattern, the eager one in the order of the query."""
        _check_fit((*self.eager, *self.lazy), branch, pattern, self)
        eager = tuple(name for name in branch.by_name if name in self.eager)
        return eager, tuple(name for name in self.lazy if name in branch.by_name)

    def in_query_order(self, pattern: Pattern) -> Split:
        """The same with its eager group as the query has it: ABC/D, never BCA/D."""
        names = list(pattern.variables)
        return Split(
            sorted(self.eager, key=lambda n: names.index(n) if n in names else -1), self.lazy
        )


@dataclass(frozen=True)
class Branched:
    """A plan for each branch of a pattern with OR, in the order of its branches."""

    plans: tuple[Order, ...] | tuple[Tree, ...] | tuple[Split, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.plans))

    def of(self, branch: Branch, pattern: Pattern) -> Any:
        """The plan of one branch."""
        if len(self.plans) != len(pattern.branches):
            raise PlanError(
                f"the plan is for {len(self.plans)} branches, the pattern has "
                f"{len(pattern.branches)}"
            )
        return self.plans[pattern.branches.index(branch)].of(branch, pattern)


Plan = Order | Tree | Split | Branched


def follows(plan: object, kind: type[Order] | type[Tree] | type[Split]) -> bool:
    """Whether a plan is an order, or a tree, or a split, in every branch."""
    parts = plan.plans if isinstance(plan, Branched) else (plan,)
    return all(isinstance(part, kind) for part in parts)


def _group(names: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(names, str):
        return tuple(names)
    listed = names.replace(",", " ").split()
    return tuple(listed[0]) if len(listed) == 1 and " " not in names else tuple(listed)


def _checked(shape: Any) -> Shape:
    if isinstance(shape, str):
        return shape
    if isinstance(shape, Tree):
        return shape.shape
    parts = tuple(shape) if isinstance(shape, list | tuple) else ()
    if len(parts) != 2:
        raise PlanError(f"a tree joins two parts at a time, as in ('a', ('b', 'c')), not {shape!r}")
    return (_checked(parts[0]), _checked(parts[1]))


def leaves(shape: Shape) -> Iterator[str]:
    if isinstance(shape, str):
        yield shape
    else:
        for part in shape:
            yield from leaves(part)


def shape_text(shape: Shape) -> str:
    return shape if isinstance(shape, str) else f"({shape_text(shape[0])} {shape_text(shape[1])})"


def _only(shape: Shape, branch: Branch) -> Shape:
    if isinstance(shape, str):
        return shape if shape in branch.by_name else None
    parts = [part for part in (_only(part, branch) for part in shape) if part is not None]
    return None if not parts else parts[0] if len(parts) == 1 else tuple(parts)


def _check_names(names: Iterable[str]) -> None:
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise PlanError(f"a plan names variables, as in Order('b', 'a'), not {name!r}")
        if listed.count(name) > 1:
            raise PlanError(f"the plan names {name!r} twice")


def _check_fit(names: tuple[str, ...], branch: Branch, pattern: Pattern, plan: object) -> None:
    positive = [v.name for v in pattern.variables.values() if not v.negated]
    for name in names:
        if name not in positive:
            raise PlanError(
                f"{plan!r} names {name!r}{did_you_mean(name, positive)}, which is no variable "
                f"that the pattern waits for; it waits for {one_of(positive)}"
            )
    missing = [name for name in branch.by_name if name not in names]
    if missing:
        raise PlanError(f"{plan!r} leaves out {one_of(missing)}")
