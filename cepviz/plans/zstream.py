"""ZStream's planner for trees: INVARIANTS Algorithm 3, every split of every interval.

The cardinality of an interval of variables does not depend on its tree, so trees over one interval
differ by their subtrees alone. INVARIANTS section 4.2 keeps the costs of subtrees as constants to
make checking cheap; since they are all that differs, a condition made of constants would never
break. Here each side is the cost of its tree under the statistics of the moment, and a subtree that
many conditions share is computed once in a round of checks.
"""

from __future__ import annotations

from functools import partial

from cepviz.language.pattern import Branch, Pattern
from cepviz.plans.conditions import Block, Planned, Side, compared
from cepviz.plans.cost import Memo, model_of
from cepviz.plans.plan import Branched, Shape, Tree, shape_text
from cepviz.plans.statistics import Statistics

Interval = tuple[int, int]  # from one variable to before another, in the order of the text


def zstream(pattern: Pattern, statistics: Statistics) -> Planned:
    """Finds the cheapest tree that keeps the order of the text, by dynamic programming.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN SEQ(A a, B b, C c) WITHIN 10 minutes")
    >>> print(zstream(p, Statistics({"A": 100, "B": 15, "C": 10})))
    (a (b c))
      (b c): nothing was compared
      (a (b c)): cost(a (b c)) < cost((a b) c)
    """
    made = [Trees(branch).planned(statistics) for branch in pattern.branches]
    trees = tuple(tree for tree, _ in made)
    blocks = tuple(block for _, listed in made for block in listed)
    return Planned(trees[0] if len(trees) == 1 else Branched(trees), blocks)


class Trees:
    """The trees of one branch, by interval."""

    def __init__(self, branch: Branch):
        self.model = model_of(branch)
        self.names = self.model.names

    def planned(self, statistics: Statistics) -> tuple[Tree, tuple[Block, ...]]:
        """The best tree, and the comparisons that decided its nodes from the leaves up."""
        memo: Memo = {}
        best: dict[Interval, Shape] = {}
        count = len(self.names)
        for size in range(1, count + 1):
            for start in range(count - size + 1):
                interval = (start, start + size)
                shapes = [self.names[start]] if size == 1 else [
                    (best[start, cut], best[cut, start + size]) for cut in self.cuts(interval)
                ]  # fmt: skip
                cost = partial(self.model.tree_cost, statistics=statistics, memo=memo)
                best[interval] = min(shapes, key=cost)
        blocks: list[Block] = []
        self._blocks((0, count), best, statistics, memo, blocks)
        return Tree(best[0, count]), tuple(blocks)

    def cuts(self, interval: Interval) -> range:
        """Where an interval can be split into two."""
        return range(interval[0] + 1, interval[1])

    def _blocks(
        self,
        interval: Interval,
        best: dict[Interval, Shape],
        statistics: Statistics,
        memo: Memo,
        blocks: list[Block],
    ) -> None:
        start, end = interval
        shape = best[interval]
        if isinstance(shape, str):
            return
        chosen = next(cut for cut in self.cuts(interval)
                      if (best[start, cut], best[cut, end]) == shape)  # fmt: skip
        self._blocks((start, chosen), best, statistics, memo, blocks)
        self._blocks((chosen, end), best, statistics, memo, blocks)
        conditions = tuple(
            compared(
                self.side(shape),
                self.side((best[start, cut], best[cut, end])),
                statistics,
                memo,
                wins_ties=chosen < cut,
                whole=self.best_side(start, cut, end),
            )
            for cut in self.cuts(interval)
            if cut != chosen
        )
        blocks.append(Block(shape_text(shape), conditions))

    def side(self, shape: Shape) -> Side:
        """The cost of a tree."""
        found: Side | None = self.model.sides.get(shape)
        if found is None:
            text = shape_text(shape)
            text = f"cost{text}" if text.startswith("(") else f"cost({text})"
            found = self.model.sides[shape] = Side(text, self.model.tree(shape).cost)
        return found

    def best_side(self, start: int, cut: int, end: int) -> Side:
        """The cost of the best tree that splits an interval at a cut."""
        left, right = (" ".join(self.names[slice(*part)]) for part in ((start, cut), (cut, end)))

        def value(statistics: Statistics, memo: Memo) -> float:
            parts = (self.least(part, statistics, memo) for part in ((start, cut), (cut, end)))
            whole = frozenset(self.names[start:end])
            return sum(parts) + self.model.cardinality(whole, statistics, memo)

        return Side(f"best({left} / {right})", value)

    def least(self, interval: Interval, statistics: Statistics, memo: Memo) -> float:
        """The cost of the best tree over an interval."""
        start, end = interval
        if end - start == 1:
            return self.model.tree_cost(self.names[start], statistics, memo)
        found = memo.get((self.model, interval))
        if found is None:
            found = memo[self.model, interval] = min(
                self.best_side(start, cut, end).value(statistics, memo)
                for cut in self.cuts(interval)
            )
        return found
