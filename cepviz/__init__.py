"""cepviz: see how complex event processing works."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cepviz.adapting import Adaptation, adapt
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
    from cepviz.explain import why, why_not, why_so_many
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
    "Adaptation", "And", "Budget", "BudgetError", "CepError", "CepWarning", "Chain", "Event",
    "Kleene", "Match", "Or", "Order", "Pattern", "PatternError", "PlanError", "PredicateError",
    "Result", "Schema", "Seq", "SetupError", "Snapshot", "Split", "Statistics", "Stream",
    "StreamError", "Trace", "TraceError", "Tree", "UnsupportedError", "adapt", "avg", "call",
    "chain", "count", "engines", "first", "function", "i", "last", "match", "max", "min", "parse",
    "percent", "same", "sum", "trace", "types", "why", "why_not", "why_so_many",
]  # fmt: skip

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
    """Explanations and widgets are loaded when they are first asked for."""
    if name in ("why", "why_not", "why_so_many"):
        return getattr(import_module("cepviz.explain"), name)
    if name in WIDGETS:
        try:
            return getattr(import_module(f"cepviz.widgets.{WIDGETS[name]}"), name)
        except ModuleNotFoundError as error:
            raise SetupError(
                f"{name} needs the package {error.name}: pip install 'cepviz[lab]'"
            ) from None
    raise AttributeError(f"module 'cepviz' has no attribute {name!r}")
