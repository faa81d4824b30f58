"""How explanations run engines: without warnings, and up to a budget."""

from __future__ import annotations

import warnings
from typing import Any

from cepviz.engines.registry import ENGINES, engine_class, refusal
from cepviz.errors import BudgetError
from cepviz.events import Stream
from cepviz.language.contexts import ContextQuery
from cepviz.language.pattern import Pattern
from cepviz.matching import Result, match, trace
from cepviz.trace import Trace

#: How many runs and matches a trace that is made for an explanation may have.
MOST_WATCHED = 20_000


def quietly(
    pattern: Pattern | ContextQuery, stream: Stream, **keywords: Any
) -> tuple[Result, bool]:
    """The matches, without warnings, and whether a budget ended the run before the stream did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return match(pattern, stream, progress=False, **keywords), False
        except BudgetError as error:
            return error.result, True


def watched(pattern: Pattern | ContextQuery, stream: Stream, engine: str | None = None) -> Trace:
    """A trace by `sase`, whose runs and pointers tell most, or else by the fastest engine that
    takes the pattern, unless one is named."""
    name = engine
    if isinstance(pattern, ContextQuery):
        name = engine_class(name, pattern).name
    elif name is None:
        intervals = bool((stream.starts != stream.ends).any())
        sase = refusal(ENGINES["sase"], pattern, intervals) is None
        name = "sase" if sase else engine_class(None, pattern, intervals, watch=True).name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        budget = {"runs": MOST_WATCHED, "matches": MOST_WATCHED}
        return trace(pattern, stream, engine=name, budget=budget, progress=False)
