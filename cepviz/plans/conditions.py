"""What a planner returns: a plan, and the comparisons that decided every block of it.

A *block* is the smallest part of a plan: one place of an order, one inner node of a tree. The
planner chose it because it compared it with the others that could have stood there; each of these
comparisons is a *deciding condition* (INVARIANTS section 3.1). Both sides are kept as expressions
over statistics, so that they can be computed again when the statistics have moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cepviz.language.pattern import Pattern
from cepviz.plans.cost import Memo
from cepviz.plans.plan import Plan
from cepviz.plans.statistics import Statistics


@dataclass(frozen=True)
class Side:
    """An expression over statistics: its text, and the function that computes it.

    What several sides need, such as the cost of a subtree, is computed once for a memo.
    """

    text: str
    value: Callable[[Statistics, Memo], float] = field(compare=False)


@dataclass(frozen=True)
class Condition:
    """`left < right`, checked and found true when the plan was made.

    The block on the left won; on a tie it wins too where it is considered first. `whole`
    stands for the right side when no change may be missed: the best that could stand there now,
    instead of the best that could when the plan was made.
    """

    left: Side
    right: Side
    left_value: float
    right_value: float
    wins_ties: bool
    whole: Side | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.left.text} < {self.right.text}"

    @property
    def slack(self) -> float:
        """How far it was from being false."""
        return self.right_value - self.left_value

    @property
    def difference(self) -> float:
        """The gap relative to the smaller side (INVARIANTS section 3.4)."""
        least = min(self.left_value, self.right_value)
        return abs(self.slack) / least if least > 0 else 0.0

    def holds(self, left: float, right: float, distance: float = 0.0) -> bool:
        """Whether two values satisfy it, the left one being allowed to exceed the right one by a
        relative distance."""
        bound = (1 + distance) * right
        return left < bound or (self.wins_ties and left == bound)


@dataclass(frozen=True)
class Block:
    """A part of a plan with the conditions that decided it: its deciding condition set."""

    text: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Planned:
    """A plan with the blocks it is made of, in the order in which they are to be verified; None
    from a planner that does not build plans block by block."""

    plan: Plan
    blocks: tuple[Block, ...] | None = None

    def __str__(self) -> str:
        lines = [str(self.plan)]
        for block in self.blocks or ():
            told = ", ".join(map(str, block.conditions)) or "nothing was compared"
            lines.append(f"  {block.text}: {told}")
        return "\n".join(lines)


#: A planner: deterministic, from a pattern and statistics to a plan with its conditions.
Planner = Callable[[Pattern, Statistics], Planned]


def compared(
    left: Side,
    right: Side,
    statistics: Statistics,
    memo: Memo,
    wins_ties: bool,
    whole: Side | None = None,
) -> Condition:
    """The condition that one side is below another, with the values it was decided on."""
    values = left.value(statistics, memo), right.value(statistics, memo)
    return Condition(left, right, *values, wins_ties, whole)
