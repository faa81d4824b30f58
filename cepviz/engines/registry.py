"""The engines there are: a new one is its file and one line here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from importlib import import_module

from cepviz.engines.base import Engine
from cepviz.errors import CepError, UnsupportedError, did_you_mean, one_of
from cepviz.language.contexts import ContextQuery
from cepviz.language.pattern import Pattern


class Engines(MutableMapping[str, type[Engine]]):
    """Engines by name, each loaded when it is first asked for. One of your own can be put in."""

    def __init__(self, **classes: str):
        self._classes: dict[str, str | type[Engine]] = {**classes}

    def __getitem__(self, name: str) -> type[Engine]:
        found = self._classes[name]
        if isinstance(found, str):
            loaded: type[Engine] = getattr(import_module(f"cepviz.engines.{name}"), found)
            found = self._classes[name] = loaded
        return found

    def __setitem__(self, name: str, engine: type[Engine]) -> None:
        self._classes[name] = engine

    def __delitem__(self, name: str) -> None:
        del self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


#: By name, the fastest first: the default for a pattern is the first that takes it.
ENGINES = Engines(
    columnar="Columnar",
    eager="Eager",
    sase="Sase",
    lazy_chain="LazyChain",
    lazy_tree="LazyTree",
    zstream="ZStream",
    adaptive="Adaptive",
    apam="Apam",
    naive="Naive",
)

#: Those that run CONTEXT queries.
CONTEXT_ENGINES = Engines(contexts="Contexts")


def refusal(
    engine: type[Engine],
    pattern: Pattern,
    intervals: bool = False,
    options: Iterable[str] = (),
    watch: bool = False,
) -> str | None:
    """Why an engine does not take a pattern, a stream with intervals, an option or somebody who
    watches; None if it takes them all."""
    if watch and engine.whole:
        return "it works on whole columns and has no steps to show"
    for option in options:
        if option not in engine.options:
            known = f"; it has {one_of(engine.options)}" if engine.options else ""
            return f"it has no option {option!r}{known}"
    if intervals and not engine.orders_intervals(pattern):
        return "the stream has events that last, and it orders events by position"
    return engine.refuses(pattern)


def engine_class(
    name: str | None,
    pattern: Pattern | ContextQuery,
    intervals: bool = False,
    options: Iterable[str] = (),
    watch: bool = False,
) -> type[Engine]:
    """The engine of that name, or the fastest one that takes the pattern."""
    if isinstance(pattern, ContextQuery):
        return _context_engine(name, pattern, options)
    if name is not None and name in CONTEXT_ENGINES:
        reason = CONTEXT_ENGINES[name].refuses(pattern)
        raise UnsupportedError(f"the engine {name!r} cannot run this: {reason}")
    wanted = (pattern, intervals, tuple(options), watch)
    takers = (known for known, engine in ENGINES.items() if refusal(engine, *wanted) is None)
    if name is not None and name not in ENGINES:
        raise CepError(
            f"unknown engine {name!r}{did_you_mean(name, ENGINES)} (must be one of {list(ENGINES)})"
        )
    asked = next(takers, "naive") if name is None else name
    reason = refusal(ENGINES[asked], *wanted)
    if reason is not None:
        others = one_of(repr(taker) for taker in takers)
        use = f"Use engine={others}, or none to have it chosen." if others else "No engine does."
        raise UnsupportedError(f"the engine {asked!r} cannot run this: {reason}. {use}")
    return ENGINES[asked]


def _context_engine(name: str | None, query: ContextQuery, options: Iterable[str]) -> type[Engine]:
    known = next(iter(CONTEXT_ENGINES)) if name is None else name
    if known not in CONTEXT_ENGINES:
        raise UnsupportedError(
            f"the engine {known!r} cannot run this: a CONTEXT query is run by "
            f"{one_of(map(repr, CONTEXT_ENGINES))}"
        )
    for option in options:
        raise UnsupportedError(f"the engine {known!r} cannot run this: it has no option {option!r}")
    return CONTEXT_ENGINES[known]
