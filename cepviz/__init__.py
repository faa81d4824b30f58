"""cepviz: see how complex event processing works."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cepviz.engines.base import Budget, Match
from cepviz.errors import (
    BudgetError,
    CepError,
    CepWarning,
    PatternError,
    PlanError,
    PredicateError,
    SetupError,
    StreamError,
    TraceError,
    UnsupportedError,
)
from cepviz.events import Event, Schema, Stream
from cepviz.language.build import (
    And,
    Kleene,
    Or,
    Seq,
    avg,
    call,
    count,
    first,
    i,
    last,
    max,
    min,
    percent,
    same,
    sum,
    types,
)
from cepviz.language.chain import Chain, chain
from cepviz.language.functions import function
from cepviz.language.parser import parse
from cepviz.language.pattern import Pattern
from cepviz.matching import Result, engines, match, trace
from cepviz.plans.plan import Order, Split, Tree
from cepviz.plans.statistics import Statistics
from cepviz.trace import Snapshot, Trace

if TYPE_CHECKING:
    from cepviz import spark
    from cepviz.adapting import Adaptation, adapt
    from cepviz.explain import why, why_not, why_so_many
    from cepviz.latency import Comparison, Queued, Served, compare_splits, serve, simulate
    from cepviz.plans.apam import Costs
    from cepviz.widgets.adaptlab import AdaptLab as AdaptLab
    from cepviz.widgets.compare import Compare as Compare
    from cepviz.widgets.compare import compare as compare
    from cepviz.widgets.contextlab import ContextLab as ContextLab
    from cepviz.widgets.editor import StreamEditor as StreamEditor
    from cepviz.widgets.explaining import Explain as Explain
    from cepviz.widgets.player import Player as Player
    from cepviz.widgets.player import play as play
    from cepviz.widgets.race import Race as Race

__version__ = "0.1.0"

__all__ = [
    "Adaptation", "And", "Budget", "BudgetError", "CepError", "CepWarning", "Chain", "Comparison",
    "Costs", "Event", "Kleene", "Match", "Or", "Order", "Pattern", "PatternError", "PlanError",
    "PredicateError", "Queued", "Result", "Schema", "Seq", "Served", "SetupError", "Snapshot",
    "Split", "Statistics", "Stream", "StreamError", "Trace", "TraceError", "Tree",
    "UnsupportedError", "adapt", "avg", "call", "chain", "compare_splits", "count", "engines",
    "first", "function", "i", "last", "match", "max", "min", "parse", "percent", "same", "serve",
    "simulate", "spark", "sum", "trace", "types", "why", "why_not", "why_so_many",
]  # fmt: skip

#: What is loaded when it is first asked for, and where it is.
LATER = {
    "Adaptation": "adapting", "Comparison": "latency", "Costs": "plans.apam", "Queued": "latency",
    "Served": "latency", "adapt": "adapting", "compare_splits": "latency", "serve": "latency",
    "simulate": "latency", "why": "explain", "why_not": "explain", "why_so_many": "explain",
}  # fmt: skip

#: What needs a notebook's packages, and where it is. Not in __all__: `import *` needs none of them.
WIDGETS = {
    "AdaptLab": "adaptlab", "Compare": "compare", "ContextLab": "contextlab",
    "Explain": "explaining", "Player": "player", "Race": "race", "StreamEditor": "editor",
    "compare": "compare", "play": "player",
}  # fmt: skip


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext cepviz` brings the `%%sase` cell magic."""
    from cepviz.magics import load_ipython_extension

    load_ipython_extension(ipython)


def __getattr__(name: str) -> Any:
    """Plans that adapt, explanations, Spark and widgets are loaded when first asked for."""
    if name == "spark":
        return import_module("cepviz.spark")
    if name in LATER:
        return getattr(import_module(f"cepviz.{LATER[name]}"), name)
    if name in WIDGETS:
        try:
            return getattr(import_module(f"cepviz.widgets.{WIDGETS[name]}"), name)
        except ModuleNotFoundError as error:
            raise SetupError(
                f"{name} needs the package {error.name}: pip install 'cepviz[lab]'"
            ) from None
    raise AttributeError(f"module 'cepviz' has no attribute {name!r}")
