"""`match` and `trace`: a pattern and a stream in, matches or every step out."""

from __future__ import annotations

import heapq
import html
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from cepviz.engines.base import Budget, Engine, Failure, Match
from cepviz.engines.registry import CONTEXT_ENGINES, ENGINES, engine_class
from cepviz.errors import BudgetError, CepError, CepWarning, did_you_mean
from cepviz.events import Event, Stream
from cepviz.language.build import Draft, as_query
from cepviz.language.chain import Chain
from cepviz.language.contexts import ContextQuery
from cepviz.language.pattern import Pattern
from cepviz.trace import Trace


class Result(Sequence[Match]):
    """The matches of a pattern on a stream, in the order they were completed."""

    def __init__(self, matches: Sequence[Match], engine: Engine, stream: Stream, seconds: float):
        self._matches = matches
        self.pattern = engine.pattern
        self.stream = stream
        #: The engine's name, with the form that ran where it has several: "columnar (compiled)".
        self.engine = f"{engine.name} ({engine.form})" if engine.form else engine.name
        self.counters: dict[str, int] = engine.counters.as_dict()
        self.failures: list[Failure] = engine.failures
        self.seconds = seconds
        #: Why it ended before the stream did; empty where no budget ended it.
        self.stopped = ""
        #: In a chain of queries, the result of the query before: the origin of composite events.
        self.inner: Result | None = None

    def __len__(self) -> int:
        return len(self._matches)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...
    def __getitem__(self, index: Any) -> Any:
        found = self._matches[index]
        return self._mine(found) if isinstance(found, Match) else list(map(self._mine, found))

    def __iter__(self) -> Iterator[Match]:
        return map(self._mine, self._matches)

    def _mine(self, match: Match) -> Match:
        """A match that knows where it came from, as `why` asks."""
        match.result = self
        return match

    def origin(self, event: Event) -> Match | None:
        """The match that a composite event stands for, in a chain of queries."""
        inner = self.inner
        while inner is not None:
            for number, found in enumerate(inner, 1):
                if _composite_id(inner.pattern, number) == event.id:
                    return found
            inner = inner.inner
        return None

    def to_frame(self, shape: str = "matches") -> Any:
        """A DataFrame: a row for each match, or with "events" a row for each event of each match.

        Columns of "matches": one for each variable with its event id (a list for Kleene), then
        first, last and length.
        """
        if shape == "matches":
            names = [v.name for v in self.pattern.variables.values() if not v.negated]
            # Matches that are kept as rows need not become objects first.
            by_column = getattr(self._matches, "columns", lambda: None)()
            if by_column is not None:
                return self._by_column(names, by_column)
            rows = [
                [
                    *map(match.ids.get, names),
                    *(self._moment(time) for time in (match.first, match.last)),
                    len(match.events),
                ]
                for match in self._matches
            ]
            frame = _frame(rows, [*names, *(_free(n, names) for n in ("first", "last", "events"))])
            frame.index.name = _free("match", names)
            return frame
        if shape == "events":
            columns = ["match", "variable", "index", "id", "type", "time"]
            schema = self.stream.schema
            extra = [name for name in schema.attributes if name not in schema.roles.values()]
            rows = [
                row
                for number, match in enumerate(self._matches)
                for row in self._rows(number, match, extra)
            ]
            return _frame(rows, [*columns, *(_free(name, columns) for name in extra)])
        raise CepError(f"to_frame takes 'matches' or 'events', not {shape!r}")

    def _by_column(self, names: list[str], rows: Mapping[str, Any]) -> Any:
        """The frame of matches that are kept as rows of the stream."""
        import numpy as np
        import pandas as pd

        stream, schema = self.stream, self.stream.schema
        frame: dict[str, Any] = {name: stream.ids[rows[name]] for name in names}
        places = np.stack([rows[name] for name in names])
        for title, side in (("first", places.min(axis=0)), ("last", places.max(axis=0))):
            times: Any = pd.Series(stream.ends[side])
            if schema.zone is not None:
                times = pd.to_datetime(times, unit="ns", utc=True)
                times = times.dt.tz_convert(None if schema.naive else schema.zone)
            frame[_free(title, names)] = times
        frame[_free("events", names)] = len(names)
        made = pd.DataFrame(frame).infer_objects()
        made.index.name = _free("match", names)
        return made

    def _moment(self, number: int | float) -> Any:
        """A time as a frame shows it: a date where the stream has dates."""
        import pandas as pd

        schema = self.stream.schema
        if schema.zone is None:
            return number
        moment = pd.Timestamp(number, unit="ns", tz="UTC")
        return moment.tz_localize(None) if schema.naive else moment.tz_convert(schema.zone)

    def _rows(self, number: int, match: Match, extra: list[str]) -> Iterator[list[Any]]:
        for variable, bound in match.bindings.items():
            for index, event in enumerate((bound,) if isinstance(bound, Event) else bound, 1):
                place = None if isinstance(bound, Event) else index
                when = self._moment(event.end)
                values = (self._value(name, event) for name in extra)
                yield [number, variable, place, event.id, event.type, when, *values]

    def _value(self, name: str, event: Event) -> Any:
        found = event.attributes.get(name)
        if found is None or self.stream.schema.attributes[name] != "time":
            return found
        return self._moment(found)

    def _summary(self) -> str:
        text = f"{len(self)} match{'' if len(self) == 1 else 'es'}"
        text += f" in {self.counters['events']:,} events by {self.engine}"
        text += f" ({self.counters['evaluations']:,} evaluations, {self.seconds:.2g} s)"
        failed = self.counters["failed_predicates"]
        return text + (f"; {failed} predicates could not be computed: .failures" if failed else "")

    def __repr__(self) -> str:
        shown = "".join(f"\n  {match!r}" for match in self._matches[:5])
        more = f"\n  and {len(self) - 5:,} more" if shown and len(self) > 5 else ""
        return f"<{self._summary()}{shown}{more}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        names = [
            variable.name for variable in self.pattern.variables.values() if not variable.negated
        ]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in (*names, "from", "to"))
        rows = ""
        for match in self._matches[:10]:
            labels = dict(_labels(match))
            cells = [" ".join(labels.get(name, ("",))) for name in names]
            cells += [self.stream.schema.format_time(t) for t in (match.first, match.last)]
            rows += f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
        more = f"<p>and {len(self) - 10:,} more</p>" if rows and len(self) > 10 else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        summary = f"<p>{html.escape(self._summary())}</p>"
        return {
            "text/plain": repr(self),
            "text/html": f"{summary}{table if rows else ''}{more}",
        }


def _free(name: str, taken: list[str]) -> str:
    """The name of a column, with a _ behind it where a variable or attribute is called so."""
    return _free(f"{name}_", taken) if name in taken else name


def _frame(rows: list[list[Any]], columns: list[str]) -> Any:
    """A DataFrame in which whole numbers stay so where others of their column are missing."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=columns, dtype=object)
    for name in columns:
        known = frame[name].dropna()
        if 0 < len(known) < len(frame) and all(type(value) is int for value in known):
            frame[name] = frame[name].astype("Int64")
    return frame.infer_objects()


def _labels(match: Match) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, bound in match.bindings.items():
        yield name, tuple(e.label for e in ((bound,) if isinstance(bound, Event) else bound))


def as_stream(stream: Any) -> Stream:
    """A stream from a stream, a DataFrame with columns `type` and `time`, or events."""
    if isinstance(stream, Stream):
        return stream
    if hasattr(stream, "columns") and hasattr(stream, "iloc"):
        return Stream.from_pandas(stream)
    return Stream.from_records(stream)


def warn(pattern: Pattern, stream: Stream) -> None:
    said = pattern.warnings()
    for variable in pattern.variables.values():
        if variable.type not in stream.schema.types:
            near = did_you_mean(variable.type, stream.schema.types)
            said.append(f"the stream has no event of type {variable.type!r}{near}")
    for text in dict.fromkeys(said):
        warnings.warn(text, CepWarning, stacklevel=5)


def _watched(stream: Stream, progress: bool | None) -> Any:
    """The stream with a progress bar: on request, or after two seconds on a terminal."""
    if progress is False or (progress is None and len(stream) < 10_000):
        return stream
    from tqdm.auto import tqdm

    off = None if progress is None else False
    return tqdm(stream, total=len(stream), unit=" events", delay=2, leave=False, disable=off)


def run(engine: Engine, stream: Stream, progress: bool | None = None) -> Result:
    """Feeds a stream to an engine; when the budget is reached, the error has the result so far."""
    matches: list[Match] = []
    started = time.perf_counter()
    stopped: BudgetError | None = None
    try:
        if engine.whole:
            engine.run(stream)
        else:
            for event in _watched(stream, progress):
                found = engine.push(event)
                if found:
                    matches += found
            matches += engine.flush()
    except BudgetError as error:
        matches += engine.out
        stopped = error
    result = Result(engine.collected(matches), engine, stream, time.perf_counter() - started)
    if stopped is not None:
        result.stopped = str(stopped)
        stopped.result = result
        raise stopped
    return result


def _composite_id(pattern: Pattern, number: int) -> str:
    assert pattern.returns is not None
    return f"{pattern.returns.type}#{number}"


def with_composites(result: Result) -> Stream:
    """The stream of a result with its matches as events in it, each where it ends."""
    composites = []
    for number, found in enumerate(result, 1):
        event = found.composite()
        composites.append(
            Event(
                event.type,
                event.start,
                end=event.end,
                id=_composite_id(result.pattern, number),
                schema=result.stream.schema,
                attributes=event.attributes,
            )
        )
    merged = heapq.merge(
        result.stream, sorted(composites, key=lambda e: e.end), key=lambda e: e.end
    )
    return Stream.from_records(list(merged))


def match(
    pattern: Pattern | Draft | ContextQuery | Chain | str,
    stream: Any,
    engine: str | None = None,
    plan: Any = None,
    budget: Budget | Mapping[str, int] | None = None,
    *,
    on_error: str = "keep",
    progress: bool | None = None,
    **options: Any,
) -> Result:
    """Finds the matches of a pattern in a stream.

    `engine` is one of `cepviz.engines()`; by default the fastest that takes the pattern, which is
    mostly `columnar`. When the
    budget is reached, a `BudgetError` is raised whose `result` holds the matches found until then.
    Predicates that cannot be computed are kept in `result.failures`, or raised with
    `on_error="raise"`.

    >>> import cepviz as cep
    >>> s = cep.Stream.from_records([{"type": "A", "time": 1}, {"type": "B", "time": 2}])
    >>> cep.match("PATTERN SEQ(A a, B b) WITHIN 5 seconds", s)[0].ids
    {'a': 0, 'b': 1}
    """
    *_, (result, _) = _stages(pattern, stream, engine, plan, budget, on_error, progress, options)
    return result


def trace(
    pattern: Pattern | Draft | ContextQuery | Chain | str,
    stream: Any,
    engine: str | None = None,
    plan: Any = None,
    budget: Budget | Mapping[str, int] | None = None,
    *,
    on_error: str = "keep",
    progress: bool | None = None,
    **options: Any,
) -> Trace:
    """Runs a pattern like `match` and keeps every step: the trace that views draw.

    When the budget is reached, the trace is complete up to there and its `note` says so. For a
    chain of queries it is the trace of the last one; `inner` is that of the query before.
    """
    inner: Trace | None = None
    keywords = (engine, plan, budget, on_error, progress, options)
    for _, recorded in _stages(pattern, stream, *keywords, watch=True):
        recorded.inner, inner = inner, recorded
    assert inner is not None
    return inner


def _stages(
    pattern: Any,
    stream: Any,
    engine: str | None,
    plan: Any,
    budget: Budget | Mapping[str, int] | None,
    on_error: str,
    progress: bool | None,
    options: Mapping[str, Any],
    watch: bool = False,
) -> Iterator[tuple[Result, Trace]]:
    """Runs each query of a chain, or the one there is, and gives its result and its trace."""
    stream = as_stream(stream)
    inner: Result | None = None
    queries: Sequence[Any] = pattern.queries if isinstance(pattern, Chain) else (as_query(pattern),)
    for query in queries:
        if inner is not None:
            stream = with_composites(inner)
        intervals = stream.starts is not stream.ends and bool((stream.starts != stream.ends).any())
        chosen = engine_class(engine, query, intervals, options, watch)
        chosen_plan = plan
        if plan is None and not chosen.whole:  # which plans by what it sees in the columns
            chosen_plan = chosen.planned(query, stream.counts())
        planned = None if chosen_plan is None else str(chosen_plan)
        recorded = Trace(chosen.name, str(query), planned, schema=stream.schema)
        made = chosen(
            query,
            chosen_plan,
            hooks=[recorded] if watch else [],
            schema=stream.schema,
            budget=budget,
            on_error=on_error,
            **options,
        )
        recorded.graph = made.graph
        warn(query, stream)
        try:
            result = run(made, stream, progress)
        except BudgetError as error:
            if not watch:
                raise
            recorded.note, result = str(error), error.result
        if made.graph != recorded.graph:  # an automaton that grows as it runs
            recorded.graph = made.graph
        recorded.counters = made.counters.as_dict()
        result.inner, inner = inner, result
        yield result, recorded


def engines() -> dict[str, str]:
    """The engines there are, each with one line on what it is."""
    known = {**ENGINES, **CONTEXT_ENGINES}
    return {name: (engine.__doc__ or "").split("\n")[0] for name, engine in known.items()}
