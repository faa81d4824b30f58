"""Spark: read, clean, sample and measure events, and match past one machine.

Each name is loaded when it is first asked for, and pyspark with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cepviz.errors import SetupError

if TYPE_CHECKING:
    from cepviz.spark.matching import Found, Matches, match
    from cepviz.spark.measuring import Measured, statistics
    from cepviz.spark.reading import Events, Report, read
    from cepviz.spark.replaying import fetch, replay, why_not
    from cepviz.spark.sampling import sample
    from cepviz.spark.sessions import session
    from cepviz.spark.streaming import match_stream

_WHERE = {
    "Events": "reading",
    "Found": "matching",
    "Matches": "matching",
    "Measured": "measuring",
    "Report": "reading",
    "fetch": "replaying",
    "match": "matching",
    "match_stream": "streaming",
    "read": "reading",
    "replay": "replaying",
    "sample": "sampling",
    "session": "sessions",
    "statistics": "measuring",
    "why_not": "replaying",
}

__all__ = [
    "Events",
    "Found",
    "Matches",
    "Measured",
    "Report",
    "fetch",
    "match",
    "match_stream",
    "read",
    "replay",
    "sample",
    "session",
    "statistics",
    "why_not",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    except ModuleNotFoundError as error:
        raise SetupError(
            f"Spark needs the package {error.name}: pip install 'cepviz[lab]'"
        ) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
