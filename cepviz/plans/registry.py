"""The planners there are: a new one is its file and one line here."""

from __future__ import annotations

from cepviz.errors import CepError, did_you_mean
from cepviz.plans.by_rate import by_rate
from cepviz.plans.conditions import Planner
from cepviz.plans.exhaustive import exhaustive, exhaustive_tree
from cepviz.plans.greedy import greedy
from cepviz.plans.zstream import zstream

PLANNERS: dict[str, Planner] = {
    "greedy": greedy,
    "zstream": zstream,
    "by_rate": by_rate,
    "exhaustive": exhaustive,
    "exhaustive_tree": exhaustive_tree,
}


def planner_called(name: str | Planner) -> Planner:
    """The planner of that name; a planner itself stays what it is."""
    if not isinstance(name, str):
        return name
    if name not in PLANNERS:
        raise CepError(
            f"unknown planner {name!r}{did_you_mean(name, PLANNERS)} "
            f"(must be one of {list(PLANNERS)})"
        )
    return PLANNERS[name]
