"""The engines there are: a new one is its file and one line here."""

from __future__ import annotations

from cepviz.engines.base import Engine
from cepviz.engines.eager import Eager
from cepviz.engines.lazy_chain import LazyChain
from cepviz.engines.lazy_tree import LazyTree
from cepviz.engines.naive import Naive
from cepviz.engines.sase import Sase
from cepviz.errors import CepError, UnsupportedError, did_you_mean, one_of
from cepviz.language.pattern import Pattern

#: By name, the fastest first: the default for a pattern is the first that takes it.
ENGINES: dict[str, type[Engine]] = {
    "eager": Eager,
    "lazy_chain": LazyChain,
    "lazy_tree": LazyTree,
    "sase": Sase,
    "naive": Naive,
}


def refusal(engine: type[Engine], pattern: Pattern, intervals: bool = False) -> str | None:
    """Why an engine does not take a pattern, or a stream with intervals; None if it does."""
    if intervals and not engine.takes_intervals:
        return "the stream has events that last, and it orders events by position alone"
    return engine.refuses(pattern)


def engine_class(name: str | None, pattern: Pattern, intervals: bool = False) -> type[Engine]:
    """The engine of that name, or the fastest one that takes the pattern."""
    takers = [known for known, e in ENGINES.items() if refusal(e, pattern, intervals) is None]
    if name is None:
        return ENGINES[takers[0]]
    if name not in ENGINES:
        raise CepError(
            f"unknown engine {name!r}{did_you_mean(name, ENGINES)} (must be one of {list(ENGINES)})"
        )
    reason = refusal(ENGINES[name], pattern, intervals)
    if reason is not None:
        raise UnsupportedError(
            f"the engine {name!r} cannot run this: {reason}. "
            f"Use engine={one_of(repr(taker) for taker in takers)}, or none to have it chosen."
        )
    return ENGINES[name]
