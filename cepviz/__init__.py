"""cepviz: see how complex event processing works."""

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
from cepviz.language.chain import Chain, chain
from cepviz.language.functions import function
from cepviz.language.parser import parse
from cepviz.language.pattern import Pattern
from cepviz.matching import Result, engines, match, trace
from cepviz.trace import Snapshot, Trace

__version__ = "0.1.0"
