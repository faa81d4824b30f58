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
    "drifting": "drift",
    "flights": "new_york",
    "letters": "sectors",
    "paired": "sectors",
    "sector_ticks": "sectors",
    "STOCK_QUERY": "trading",
    "stock_prices": "trading",
    "stock_ticks": "stocks",
    "template": "stocks",
    "trading_days": "trading",
}

__all__ = [
    "FINANCE",
    "HI_TECH",
    "STOCK_QUERY",
    "TABLE_2",
    "chained",
    "chained_query",
    "correlated",
    "correlation_threshold",
    "drifting",
    "flights",
    "letters",
    "paired",
    "sector_ticks",
    "stock_prices",
    "stock_ticks",
    "template",
    "trading_days",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
