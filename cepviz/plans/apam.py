"""The split with the lowest expected latency: APAM's matching order, candidates and cost model.

Events queue for one server, first come, first served. The latency of a match is the time its last
event waits in the queue and the time it takes to serve it, which includes the merge. The more is
eager, the less a final event has to do itself; but only what is lazy is matched in the best order,
so that the server may be busier and the queue longer. The numbers in brackets are the paper's
equations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cepviz.errors import CepError
from cepviz.language.pattern import Branch, Pattern
from cepviz.plans.conditions import Block, Planned, Side, compared
from cepviz.plans.cost import Memo, Model, model_of
from cepviz.plans.plan import Branched, Split
from cepviz.plans.statistics import Statistics


@dataclass(frozen=True)
class Costs:
    """What a unit of work takes, in seconds: APAM's T_PE, T_RC and T_BI.

    `evaluation` is to try the conditions of one join on one pair, `result` to make and keep what
    passes, `insertion` to read one event and put it away.
    """

    evaluation: float = 1e-6
    result: float = 1e-6
    insertion: float = 1e-6

    def __post_init__(self) -> None:
        for name, seconds in vars(self).items():
            if not (math.isfinite(seconds) and seconds >= 0):
                raise CepError(f"the cost of an {name} is {seconds}: it must be seconds, from 0")

    def __str__(self) -> str:
        told = {"T_PE": self.evaluation, "T_RC": self.result, "T_BI": self.insertion}
        return ", ".join(f"{name} {seconds * 1e6:.3g} µs" for name, seconds in told.items())


@dataclass(frozen=True)
class Estimate:
    """What a split is expected to do: `waiting` and `service` of a final event make its latency.

    `service_mean` is E[ST] over all events, `service_deviation` its standard deviation,
    `utilisation` the share of the time that the server is busy; all times are seconds.
    """

    plan: Split | Branched
    waiting: float
    service: float
    utilisation: float
    service_mean: float
    service_deviation: float

    @property
    def latency(self) -> float:
        """E[L], infinite where the server cannot keep up."""
        return self.waiting + self.service

    def __str__(self) -> str:
        times = map(spoken_time, (self.latency, self.waiting, self.service))
        told = "latency {} (waiting {}, service {})".format(*times)
        return f"{self.plan}: {told}, utilisation {self.utilisation:.3g}"


def spoken_time(seconds: float) -> str:
    """Seconds as a sentence shows them."""
    if not math.isfinite(seconds):
        return "without end"
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


# ---- the order ----


def matching_order(
    branch: Branch, statistics: Statistics
) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    """More selective matching earlier: the pair that leaves least, then always what leaves least.

    Of the pair, the one that the others have less to do with comes first, so that the chain goes
    on from the second: EDCBA where E is at the end of the selective conditions.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN A; B; C WHERE A.x < B.x AND B.x < C.x WITHIN 10")
    >>> s = Statistics({"A": 5, "B": 5, "C": 5}, {"A.x < B.x": 0.5, "B.x < C.x": 0.1})
    >>> matching_order(p.branches[0], s)[0]
    ('C', 'B', 'A')
    """
    model, memo = model_of(branch), Memo()
    names = model.names

    def side(*chosen: str) -> Side:
        known = frozenset(chosen)
        text = f"card({', '.join(chosen)})"
        return Side(text, lambda statistics, memo: model.product(known, statistics))

    def held(*chosen: str) -> float:
        return model.product(frozenset(chosen), statistics)

    if len(names) == 1:
        return names, (Block(f"{names[0]} first", ()),)
    pairs = [(one, two) for index, one in enumerate(names) for two in names[index + 1 :]]
    best = min(pairs, key=lambda pair: held(*pair))
    conditions = tuple(
        compared(side(*best), side(*pair), statistics, memo, pairs.index(best) < number)
        for number, pair in enumerate(pairs)
        if pair != best
    )
    rest = [name for name in names if name not in best]

    def drawn(name: str) -> float:
        """How little of its events the best of the others leaves."""
        alone = held(name)
        leaves = [held(name, other) / (alone * held(other) or 1.0) for other in rest]
        return min(leaves, default=1.0)

    chosen = sorted(best, key=lambda name: (-drawn(name), names.index(name)))
    blocks = [Block(f"{chosen[0]} and {chosen[1]} first", conditions)]
    while rest:
        best_next = min(rest, key=lambda name: held(*chosen, name))
        conditions = tuple(
            compared(side(*chosen, best_next), side(*chosen, name), statistics, memo,
                     names.index(best_next) < names.index(name))
            for name in rest
            if name != best_next
        )  # fmt: skip
        chosen.append(best_next)
        rest.remove(best_next)
        blocks.append(Block(f"{best_next} as number {len(chosen)}", conditions))
    return tuple(chosen), tuple(blocks)


def candidates(branch: Branch, statistics: Statistics) -> list[Split]:
    """The splits of the matching order at each of its places, the lazy plan first.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN A; B; C WHERE A.x < B.x AND B.x < C.x WITHIN 10")
    >>> s = Statistics({"A": 5, "B": 5, "C": 5}, {"A.x < B.x": 0.5, "B.x < C.x": 0.1})
    >>> print(*candidates(p.branches[0], s))
    /CBA C/BA BC/A ABC/
    """
    order, _ = matching_order(branch, statistics)
    return [
        Split([name for name in branch.by_name if name in order[:cut]], order[cut:])
        for cut in range(len(order) + 1)
    ]


# ---- the latency ----


@dataclass
class _Work:
    """The work of one branch in one window, in seconds."""

    eager: dict[str, float]  # by the variable whose events cause it
    merges: float  # in a merge, on average
    batch: float  # that part of it that is left from events before the final one
    finals: dict[str, float]  # merges in a window by the variable of the final event


def _pairs(
    model: Model, before: tuple[str, ...], name: str, statistics: Statistics
) -> Iterator[tuple[str, float, float]]:
    """For the join of a variable to those before it: which variable's event comes last of all, and
    how many pairs are tried and how many pass then, in one window."""
    known = frozenset((*before, name))
    tried = model.product(frozenset(before), statistics)
    tried *= model.product(frozenset([name]), statistics)
    passed = model.product(known, statistics)
    for last in known:
        if not any((last, other) in model.branch.order for other in known):
            share = model.share(known - {last})
            yield last, tried * share, passed * share


def _work(
    model: Model, eager: tuple[str, ...], lazy: tuple[str, ...], statistics: Statistics,
    costs: Costs,
) -> _Work:  # fmt: skip
    order = model.branch.order
    earlier = {first for first, _ in order}
    finals = {n: model.leaf(n, statistics) for n in model.names if n not in earlier}
    count = sum(finals.values())
    found = _Work(dict.fromkeys(model.names, 0.0), 0.0, 0.0, finals)
    chain = (*eager, *lazy)
    for number, name in enumerate(chain):
        before = chain[:number]
        if not number:
            continue  # There is nothing to join with.
        each = list(_pairs(model, before, name, statistics))
        if number < len(eager):  # (6)
            for last, tried, passed in each:
                found.eager[last] += tried * costs.evaluation + passed * costs.result
        elif count > 0:  # (9)
            known = frozenset((*before, name))
            spent = sum(t * costs.evaluation + p * costs.result for _, t, p in each) / count
            if known.isdisjoint(finals):
                # Two buffers hold no more than a window of pairs, however long no final event came.
                whole = model.share(known) * sum(
                    (t * costs.evaluation + p * costs.result) / model.share(known - {last})
                    for last, t, p in each[:1]
                )
                spent = min(spent, whole)
                found.batch += spent
            found.merges += spent
    return found


def estimate(
    pattern: Pattern, plan: Split | Branched, statistics: Statistics, costs: Costs,
    arrival_rate: float,
) -> Estimate:  # fmt: skip
    """The expected latency of a split when so many events arrive in a second.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN A; B WHERE A.x < B.x WITHIN 10")
    >>> s = Statistics({"A": 20, "B": 20}, {"A.x < B.x": 0.1})
    >>> print(estimate(p, Split("AB"), s, Costs(), 10_000))
    AB/: latency 24.5 µs (waiting 1.51 µs, service 23 µs), utilisation 0.12
    >>> print(estimate(p, Split("AB"), s, Costs(), 100_000))
    AB/: latency without end (waiting without end, service 23 µs), utilisation 1.2
    """
    if not arrival_rate > 0:
        raise CepError(f"the arrival rate is {arrival_rate}: it must be events per second, above 0")
    rates = {v.type: statistics.rate(v.type) for v in pattern.variables.values()}
    total = sum(rates.values())
    base = dict.fromkeys(rates, costs.insertion)  # (7)
    merging: dict[str, list[tuple[float, float, float]]] = {}
    for branch in pattern.branches:
        model = model_of(branch)
        eager, lazy = plan.of(branch, pattern)
        work = _work(model, eager, lazy, statistics, costs)
        for name, seconds in work.eager.items():
            if rates[model.types[name]] > 0:
                base[model.types[name]] += seconds / rates[model.types[name]]
        for name, count in work.finals.items():
            type = model.types[name]
            share = min(count / rates[type], 1.0) if rates[type] > 0 else 0.0
            merging.setdefault(type, []).append((share, work.merges, work.batch))
    # Kinds of events: how often they come, what they take, and how much that varies.
    kinds: list[tuple[float, float, float]] = []
    final_seconds = final_count = 0.0
    for type, rate in rates.items():
        merges = merging.get(type, [])
        often = max((share for share, _, _ in merges), default=0.0)
        kinds.append((rate * (1 - often), base[type], 0.0))
        if often > 0:
            seconds = base[type] + sum(share / often * merge for share, merge, _ in merges)  # (8)
            # A batch is as long as the time since the last final event: geometric.
            apart = 1 - min(rate * often / total, 0.999)
            varies = sum((share / often * batch) ** 2 for share, _, batch in merges) / apart
            kinds.append((rate * often, seconds, varies))
            final_seconds += rate * often * seconds
            final_count += rate * often
    service = final_seconds / final_count if final_count else costs.insertion
    if total > 0:
        mean = sum(rate * seconds for rate, seconds, _ in kinds) / total  # (4)
        spread = [rate * ((seconds - mean) ** 2 + varies) for rate, seconds, varies in kinds]
        deviation = math.sqrt(sum(spread) / total)  # (5)
    else:
        mean, deviation = costs.insertion, 0.0
    utilisation = arrival_rate * mean
    waiting = math.inf
    if utilisation < 1:
        varied = deviation / mean if mean > 0 else 0.0
        waiting = utilisation * mean / (2 * (1 - utilisation)) * (1 + varied**2)  # (3)
    return Estimate(plan, waiting, service, utilisation, mean, deviation)


# ---- the choice ----


@dataclass(frozen=True)
class Chosen(Planned):
    """A split with the estimates of all candidates it was chosen from."""

    estimates: tuple[Estimate, ...] = ()

    def __str__(self) -> str:
        chosen = [("> " if e.plan == self.plan else "  ") + str(e) for e in self.estimates]
        return "\n".join([str(self.plan), *chosen])


@dataclass(frozen=True)
class Latency:
    """Plans for the lowest latency at an arrival rate, in events per second.

    >>> import cepviz as cep
    >>> p = cep.parse("PATTERN A; B; C WHERE A.x < B.x AND B.x < C.x WITHIN 10")
    >>> s = Statistics({"A": 50, "B": 50, "C": 50}, {"A.x < B.x": 0.5, "B.x < C.x": 0.01})
    >>> print(Latency(Costs(), 1_000)(p, s))
    BC/A
      /CBA: latency 71.1 µs (waiting 0.843 µs, service 70.2 µs), utilisation 0.0241
      C/BA: latency 71.1 µs (waiting 0.843 µs, service 70.2 µs), utilisation 0.0241
    > BC/A: latency 71.1 µs (waiting 0.843 µs, service 70.2 µs), utilisation 0.0241
      ABC/: latency 721 µs (waiting 88.5 µs, service 632 µs), utilisation 0.236
    """

    costs: Costs
    arrival_rate: float

    def __call__(self, pattern: Pattern, statistics: Statistics) -> Chosen:
        """The best of the l + 1 candidates; with OR, of those of each branch in turn."""
        lists = [candidates(branch, statistics) for branch in pattern.branches]
        best = [listed[0] for listed in lists]
        told: tuple[Estimate, ...] = ()
        for _ in range(len(lists) + 1):
            before = list(best)
            for number, listed in enumerate(lists):
                told = tuple(
                    self.estimate(pattern, [*best[:number], split, *best[number + 1 :]], statistics)
                    for split in listed
                )
                best[number] = listed[told.index(min(told, key=_rank))]
            if best == before:
                break
        chosen = min(told, key=_rank)
        blocks = [b for branch in pattern.branches for b in matching_order(branch, statistics)[1]]
        return Chosen(chosen.plan, (*blocks, self._split(pattern, chosen, told, statistics)), told)

    def estimate(self, pattern: Pattern, splits: list[Split], statistics: Statistics) -> Estimate:
        plan = splits[0] if len(splits) == 1 else Branched(tuple(splits))
        return estimate(pattern, plan, statistics, self.costs, self.arrival_rate)

    def _split(
        self, pattern: Pattern, chosen: Estimate, told: tuple[Estimate, ...], known: Statistics
    ) -> Block:
        """The comparisons that decided where the order is cut."""

        def side(what: str, plan: Split | Branched) -> Side:
            def value(statistics: Statistics, memo: Memo) -> float:
                found = estimate(pattern, plan, statistics, self.costs, self.arrival_rate)
                return _rounded(getattr(found, what))

            said = {"latency": "E[L]", "service_mean": "E[ST]", "utilisation": "utilisation"}
            return Side(f"{said[what]} of {plan}", value)

        memo = Memo()
        what = "latency" if math.isfinite(chosen.latency) else "service_mean"
        place = told.index(chosen)
        conditions = [
            compared(side(what, chosen.plan), side(what, other.plan), known, memo, place > number)
            for number, other in enumerate(told)
            if number != place
        ]
        if what == "service_mean":  # then no candidate keeps up
            one = Side("1", lambda statistics, memo: 1.0)
            conditions.append(compared(one, side("utilisation", chosen.plan), known, memo, True))
        return Block(f"split {chosen.plan}", tuple(conditions))


def _rank(found: Estimate) -> tuple[float, float, int]:
    """The lowest latency; where none is finite, the fastest service; of equal ones, the eager."""
    splits = found.plan.plans if isinstance(found.plan, Branched) else (found.plan,)
    eager = sum(len(split.eager) for split in splits if isinstance(split, Split))
    return _rounded(found.latency), _rounded(found.service_mean), -eager


def _rounded(value: float) -> float:
    """A value without the last digits, in which sums of the same parts may differ."""
    return float(f"{value:.9g}")
