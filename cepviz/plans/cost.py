"""Cost models: how many partial matches a plan is expected to make.

Everything is counted for one window of the stream. A variable contributes the events of its type
that pass its own conditions; a set of variables the product of these, of the selectivities of the
conditions between them, and of the chance that they come in the order the pattern asks for. A
Kleene variable contributes the expected number of its non-empty lists: with n events that arrive
independently that is e^n - 1. An order costs what its prefixes hold, a tree what its nodes hold
(INVARIANTS section 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from cepviz.language.expressions import Expression, needs_all
from cepviz.language.pattern import Branch, Pattern
from cepviz.plans.plan import Plan, Shape, Split, Tree, follows, leaves, shape_text
from cepviz.plans.statistics import Statistics

#: Lists of more events than this are not told apart any more: the cost is out of reach anyway.
MOST_ELEMENTS = 300.0

#: Values computed in one round under the same statistics.
Memo = dict[object, float]


class Model:
    """The cost model of one branch: cardinalities of sets of its variables."""

    def __init__(self, branch: Branch):
        self.branch = branch
        self.names = tuple(variable.name for variable in branch.variables)
        self.types = {variable.name: variable.type for variable in branch.variables}
        self.kleene = frozenset(v.name for v in branch.variables if v.kleene)
        #: By variable, the conditions that thin out its events before anything is joined.
        self.own = {name: [str(conjunct) for conjunct in branch.own(name)] for name in self.names}
        #: The others: their variables, their text, and the Kleene variable whose elements they
        #: thin out, if there is one.
        self.shared = [
            (conjunct.variables, str(conjunct), self._thinned(conjunct))
            for conjunct in branch.shared()
        ]
        self._groups: dict[frozenset[str], Group] = {}
        self._nodes: dict[Shape, Node] = {}
        #: What planners compare, for those who plan again and again.
        self.sides: dict[Hashable, Any] = {}

    def _thinned(self, conjunct: Expression) -> str | None:
        for name in self.names:
            if name in self.kleene & conjunct.variables and not needs_all(conjunct, name):
                return name
        return None

    def conditions(self, name: str, held: Iterable[str]) -> list[str]:
        """The conditions that can be judged once a variable joins others, by their text."""
        known = {*held, name}
        return [t for variables, t, _ in self.shared if name in variables and variables <= known]

    def leaf(self, name: str, statistics: Statistics) -> float:
        """The events of a variable in a window that pass its own conditions."""
        count = statistics.rate(self.types[name])
        for text in self.own[name]:
            count *= statistics.selectivities.get(text, 1.0)
        return count

    def product(
        self, names: frozenset[str], statistics: Statistics, memo: Memo | None = None
    ) -> float:
        """The combinations of events that satisfy all conditions, in whatever order they come."""
        return self.group(names).product(statistics, {} if memo is None else memo)

    def group(self, names: frozenset[str]) -> Group:
        """What is known about a set of variables, found out once."""
        found = self._groups.get(names)
        if found is None:
            found = self._groups[names] = Group(self, names)
        return found

    def tree(self, shape: Shape) -> Node:
        """The nodes of a tree, made once."""
        found = self._nodes.get(shape)
        if found is None:
            found = self._nodes[shape] = Node(self, shape)
        return found

    def with_lists(self, names: frozenset[str], statistics: Statistics) -> float:
        """The product for a set with Kleene variables."""
        elements = {}
        total = 1.0
        for name in self.names:
            if name in names:
                if name in self.kleene:
                    elements[name] = self.leaf(name, statistics)
                else:
                    total *= self.leaf(name, statistics)
        for variables, text, thinned in self.shared:
            if variables <= names:
                if thinned is None:
                    total *= statistics.selectivity(text)
                else:
                    elements[thinned] *= statistics.selectivity(text)
        for count in elements.values():
            total *= math.expm1(min(count, MOST_ELEMENTS))
        return total

    def share(self, names: frozenset[str]) -> float:
        """The chance that events come in the order the branch asks for, all orders being alike."""
        return self.group(names).share if names else 1.0

    def in_order(self, names: frozenset[str]) -> float:
        """The same, computed."""
        # The order is series-parallel: parts that no order ties are independent, parts that are
        # wholly ordered come in one of the ways to interleave them.
        if len(names) < 2:
            return 1.0
        ordered = self.branch.order
        loose = list(_parts(names, lambda u, w: (u, w) in ordered or (w, u) in ordered))
        if len(loose) > 1:
            return math.prod(self.share(part) for part in loose)
        chained = list(_parts(names, lambda u, w: (u, w) not in ordered and (w, u) not in ordered))
        ways = math.prod(math.factorial(len(part)) for part in chained)
        return math.prod(self.share(part) for part in chained) * ways / math.factorial(len(names))

    def cardinality(self, names: frozenset[str], statistics: Statistics, memo: Memo) -> float:
        """The partial matches of a set of variables that one window holds."""
        return self.group(names).cardinality(statistics, memo)

    def order_cost(self, names: tuple[str, ...], statistics: Statistics, memo: Memo) -> float:
        """What the prefixes of an order hold in all."""
        return sum(
            self.cardinality(frozenset(names[:count]), statistics, memo)
            for count in range(1, len(names) + 1)
        )

    def tree_cost(self, shape: Shape, statistics: Statistics, memo: Memo) -> float:
        """What the nodes of a tree hold in all; each subtree is computed once for a memo."""
        return self.tree(shape).cost(statistics, memo)


class Group:
    """A set of variables of a branch."""

    __slots__ = ("lists", "model", "names", "rest", "share", "texts", "type")

    def __init__(self, model: Model, names: frozenset[str]):
        self.model = model
        self.names = names
        self.share = model.in_order(names)
        self.lists = bool(names & model.kleene)
        # What its last variable adds is multiplied to what the others come to, so that a set has
        # one value however it was put together.
        last = max(names, key=model.names.index)
        rest = names - {last}
        self.rest = model.group(rest) if rest else None
        self.type = model.types[last]
        self.texts = (*model.own[last], *model.conditions(last, rest))

    def product(self, statistics: Statistics, memo: Memo) -> float:
        found = memo.get(self)
        if found is None:
            if self.lists:
                found = self.model.with_lists(self.names, statistics)
            else:
                found = statistics.rate(self.type)
                selectivities = statistics.selectivities
                for text in self.texts:
                    found *= selectivities.get(text, 1.0)
                if self.rest is not None:
                    found *= self.rest.product(statistics, memo)
            memo[self] = found
        return found

    def cardinality(self, statistics: Statistics, memo: Memo) -> float:
        return self.product(statistics, memo) * self.share


class Node:
    """A node of a tree: the variables it joins, and the nodes below it."""

    __slots__ = ("below", "group")

    def __init__(self, model: Model, shape: Shape):
        self.group = model.group(frozenset(leaves(shape)))
        self.below = () if isinstance(shape, str) else tuple(map(model.tree, shape))

    def cost(self, statistics: Statistics, memo: Memo) -> float:
        found = memo.get(self)
        if found is None:
            found = self.group.product(statistics, memo) * self.group.share
            if self.below:
                left, right = self.below
                found += left.cost(statistics, memo) + right.cost(statistics, memo)
            memo[self] = found
        return found


def model_of(branch: Branch) -> Model:
    """The cost model of a branch, kept with it: neither ever changes."""
    model = vars(branch).get("_model")
    if model is None:
        model = Model(branch)
        object.__setattr__(branch, "_model", model)
    return model


def _parts(names: frozenset[str], tied: Callable[[str, str], bool]) -> Iterator[frozenset[str]]:
    """The connected parts of a set of names under a relation."""
    left = set(names)
    while left:
        part: set[str] = set()
        edge = [min(left)]
        while edge:
            name = edge.pop()
            if name in left:
                left.discard(name)
                part.add(name)
                edge += [other for other in left if tied(name, other)]
        yield frozenset(part)


def cost(plan: Plan, pattern: Pattern, statistics: Statistics) -> float:
    """What a plan is expected to hold in one window, over all branches of the pattern.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN AND(A a, B b) WITHIN 1 hour")
    >>> s = Statistics({"A": 100, "B": 2})
    >>> from cepviz.plans.plan import Order, Tree
    >>> cost(Order("b", "a"), p, s), cost(Tree(("a", "b")), p, s)
    (202.0, 302.0)
    """
    total = 0.0
    for branch in pattern.branches:
        model, memo = model_of(branch), Memo()
        part: Any = plan.of(branch, pattern)
        if follows(plan, Split):  # its variables make one chain
            part = (*part[0], *part[1])
        if not follows(plan, Tree):
            total += model.order_cost(part, statistics, memo)
        else:
            total += model.tree_cost(part, statistics, memo)
    return total


def expected(
    plan: Plan, pattern: Pattern, statistics: Statistics, windows: float = 1.0
) -> dict[str, float]:
    """What is expected to come out of each node of a plan while a stream of so many windows
    passes: by variable for an order, by the text of the subtree for a tree. Where the pattern has
    several branches, the number of the branch stands before it, as in `2:b`.

    A set of k variables starts k times as often as a window holds it, because any of its events
    may be the first.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN SEQ(A a, B b) WITHIN 1 hour")
    >>> from cepviz.plans.plan import Tree
    >>> expected(Tree(("a", "b")), p, Statistics({"A": 100, "B": 2}), windows=10)
    {'a': 1000.0, 'b': 20.0, '(a b)': 2000.0}
    """
    found: dict[str, float] = {}
    for number, branch in enumerate(pattern.branches, 1):
        prefix = f"{number}:" if len(pattern.branches) > 1 else ""
        model, memo = model_of(branch), Memo()
        part: Any = plan.of(branch, pattern)
        if follows(plan, Split):
            part = (*part[0], *part[1])
        nodes = (
            [(part[count - 1], part[:count]) for count in range(1, len(part) + 1)]
            if not follows(plan, Tree)
            else [(shape_text(shape), tuple(leaves(shape))) for shape in _subtrees(part)]
        )
        for label, names in nodes:
            each = model.cardinality(frozenset(names), statistics, memo)
            found[prefix + label] = each * len(names) * windows
    return found


def _subtrees(shape: Shape) -> Iterator[Shape]:
    if not isinstance(shape, str):
        for part in shape:
            yield from _subtrees(part)
    yield shape
