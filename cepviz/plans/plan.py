"""`Order`, `Tree` and `Branched`: evaluation plans as values that print as they are written."""

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


@dataclass(frozen=True)
class Branched:
    """A plan for each branch of a pattern with OR, in the order of its branches."""

    plans: tuple[Order, ...] | tuple[Tree, ...]

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


Plan = Order | Tree | Branched


def follows(plan: object, kind: type[Order] | type[Tree]) -> bool:
    """Whether a plan is an order, or a tree, in every branch."""
    parts = plan.plans if isinstance(plan, Branched) else (plan,)
    return all(isinstance(part, kind) for part in parts)


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
