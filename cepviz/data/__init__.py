"""Streams to try patterns on: generators after the papers, loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "FINANCE": "sectors",
    "HI_TECH": "sectors",
    "TABLE_2": "selective",
    "chained": "selective",
    "chained_query": "selective",
    "correlated": "sectors",
    "correlation_threshold": "sectors",
    "letters": "sectors",
    "paired": "sectors",
    "sector_ticks": "sectors",
    "stock_ticks": "stocks",
    "template": "stocks",
}

__all__ = [
    "FINANCE",
    "HI_TECH",
    "TABLE_2",
    "chained",
    "chained_query",
    "correlated",
    "correlation_threshold",
    "letters",
    "paired",
    "sector_ticks",
    "stock_ticks",
    "template",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
