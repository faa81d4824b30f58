"""The engines there are: a new one is its file and one line here."""

from __future__ import annotations

from cepviz.engines.base import Engine
from cepviz.engines.eager import Eager
from cepviz.engines.naive import Naive
from cepviz.engines.sase import Sase
from cepviz.errors import CepError, UnsupportedError, did_you_mean, one_of
from cepviz.language.pattern import Pattern

#: By name, the fastest first: the default for a pattern is the first that takes it.
ENGINES: dict[str, type[Engine]] = {
    "sase": Sase,
    "eager": Eager,
    "naive": Naive,
}


def engine_class(name: str | None, pattern: Pattern) -> type[Engine]:
    """The engine of that name, or the fastest one that takes the pattern."""
    takers = [known for known, engine in ENGINES.items() if engine.refuses(pattern) is None]
    if name is None:
        return ENGINES[takers[0]]
    if name not in ENGINES:
        raise CepError(
            f"unknown engine {name!r}{did_you_mean(name, ENGINES)} (must be one of {list(ENGINES)})"
        )
    reason = ENGINES[name].refuses(pattern)
    if reason is not None:
        raise UnsupportedError(
            f"the engine {name!r} does not take this pattern: {reason}. "
            f"Use engine={one_of(repr(taker) for taker in takers)}, or none to have it chosen."
        )
    return ENGINES[name]
