"""`match` on Spark: pieces of the stream to the workers, their matches as a DataFrame."""

from __future__ import annotations

import html
import re
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cepviz import errors
from cepviz.engines.base import Budget, Engine, Failure
from cepviz.engines.registry import engine_class
from cepviz.errors import BudgetError, CepError, CepWarning, did_you_mean
from cepviz.language.build import Draft, as_pattern
from cepviz.language.chain import Chain
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import resolve
from cepviz.plans.greedy import greedy
from cepviz.plans.plan import Branched, Order, Tree
from cepviz.plans.zstream import zstream
from cepviz.spark.columns import TALLY, Names, made_task, returned_schema, shaped
from cepviz.spark.cutting import PIECE, Needs, cut
from cepviz.spark.reading import Events, col, read
from cepviz.spark.running import run
from cepviz.spark.worker import Tally, Task
from cepviz.trace import Trace

#: How many events a worker takes at a time, unless told otherwise.
PIECE_SIZE = 100_000


class Matches:
    """The matches of a pattern on Spark: a DataFrame, and what it took to find them.

    Columns of `df`: `match` (an id made of the bindings), `key` (the value of `[attr]`; a struct
    for several), for each variable its event id and `NAME_time` (lists for Kleene), `first` and
    `last`. It is kept in Spark's cache until `free()`.
    """

    def __init__(
        self,
        pattern: Pattern,
        events: Events,
        raw: DataFrame,
        task: Task,
        pieces: str,
    ):
        self.pattern = pattern
        self.events = events
        self.engine = task.engine
        self.plan = task.plan
        self.pieces = pieces
        self.seconds = 0.0
        self._raw = raw
        self._task = task
        self.tally = Tally()
        self.reports: list[Tally] = []
        self.columns = Names.of(task.variables)
        shown = shaped(task, self.columns)
        found = raw.where(F.col(TALLY).isNull())
        self.df = found.select(*(column.alias(name) for name, column in shown.items()))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def counters(self) -> dict[str, int]:
        """What the engines counted, added up over the pieces; overlaps count twice."""
        return dict(self.tally.counters)

    @property
    def failures(self) -> list[Failure]:
        """The first of the predicates that could not be computed."""
        return [Failure(**failure) for failure in self.tally.failures]

    def take(self, count: int = 5) -> list[Found]:
        """The first matches in time, ready to be replayed."""
        names = self.columns
        rows = self.df.orderBy(names.first, names.last, names.match).limit(count).collect()
        return [Found(self, row) for row in rows]

    def first(self) -> Found | None:
        """The first match in time."""
        return next(iter(self.take(1)), None)

    def found(self, match: str | Row | Found) -> Found:
        """The match of an id, or of a row of `df`."""
        if isinstance(match, Found):
            return match
        if isinstance(match, Row):
            return Found(self, match)
        rows = self.df.where(col(self.columns.match) == match).limit(1).collect()
        if not rows:
            raise CepError(f"there is no match {match!r}")
        return Found(self, rows[0])

    def replay(self, match: str | Row | Found, engine: str = "sase", **options: Any) -> Trace:
        """Fetches the events around a match and runs the pattern on them, every step kept."""
        from cepviz.spark.replaying import replay

        return replay(self.found(match), engine, **options)

    def to_frame(self, limit: int = 1000) -> Any:
        """The first matches in time as a pandas DataFrame."""
        import pandas as pd

        rows = [found.row.asDict() for found in self.take(limit)]
        return pd.DataFrame(rows, columns=self.columns.all, dtype=object).infer_objects()

    def write(self, path: str) -> None:
        """Writes all matches to a folder of files: .parquet, .json (one object a line) or .csv.

        In CSV, lists and structs are written as JSON. For anything else there is `df.write`.
        """
        kind = Path(path).suffix[1:]
        if kind not in ("parquet", "json", "csv"):
            raise CepError(f"{path!r} must end in .parquet, .json or .csv; or use df.write")
        frame = self.df
        if kind == "csv":
            nested = (T.ArrayType, T.StructType)
            flat = {
                f.name: F.to_json(col(f.name))
                for f in frame.schema.fields
                if isinstance(f.dataType, nested)
            }
            frame = frame.withColumns(flat)
        try:
            frame.write.format(kind).options(header=True).save(path)
        except AnalysisException as error:
            said = str(error).split("\n")[0]
            raise CepError(f"cannot write {path!r}: {said}") from None

    def free(self) -> None:
        """Takes the matches out of Spark's cache: they are found again if asked for."""
        self._raw.unpersist()

    def _find(self, progress: bool | None) -> None:
        started = time.perf_counter()
        self._raw.persist(StorageLevel.MEMORY_AND_DISK)
        about = F.count(F.when(F.col(TALLY).isNull(), 1)).alias("count")
        try:
            counted = run(
                self.events.spark,
                "matching",
                lambda: self._raw.agg(about).first(),
                progress,
            )
            assert counted is not None
            self._count = counted["count"]
            for row in self._raw.where(F.col(TALLY).isNotNull()).select(TALLY).collect():
                self.reports.append(Tally.read(row[0]))
                self.tally.merge(self.reports[-1])
        except PythonException as error:
            self._raw.unpersist()
            raise _ours(error) from None
        except BaseException:
            self._raw.unpersist()
            raise
        self.seconds = time.perf_counter() - started
        if self.tally.stopped is not None:
            raise BudgetError(
                f"in a piece of the stream: {self.tally.stopped}",
                limit=self.tally.limit,
                result=self,
            )

    def _summary(self) -> str:
        found = f"{len(self):,} match{'' if len(self) == 1 else 'es'}"
        text = f"{found} in {self.events.report.kept:,} events by {self.engine} on Spark"
        text += f" ({self.pieces}, {self.seconds:.2g} s)"
        failed = self.counters.get("failed_predicates", 0)
        return text + (f"; {failed} predicates could not be computed: .failures" if failed else "")

    def __repr__(self) -> str:
        shown = "".join(f"\n  {found!r}" for found in self.take(5)) if len(self) else ""
        more = f"\n  and {len(self) - 5:,} more" if len(self) > 5 else ""
        return f"<{self._summary()}{shown}{more}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        found = self.take(10) if len(self) else []
        names = self.columns.all
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(m.row[n]))}</td>" for n in names) + "</tr>"
            for m in found
        )
        table = (
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        )
        more = f"<p>and {len(self) - 10:,} more</p>" if len(self) > 10 else ""
        text = f"<{self._summary()}>"
        return {
            "text/plain": text,
            "text/html": f"<p>{html.escape(self._summary())}</p>{table}{more}",
        }


@dataclass(frozen=True, repr=False)
class Found:
    """One match on Spark: a row of `Matches.df` that knows where it came from."""

    matches: Matches
    row: Row

    def __getitem__(self, name: str) -> Any:
        return self.row[name]

    @property
    def ids(self) -> dict[str, Any]:
        """Variable to event id, or list of ids, as in a match on one machine."""
        bound = {name: self.row[column] for name, column in self.matches.columns.ids.items()}
        return {name: value for name, value in bound.items() if value is not None}

    @property
    def key(self) -> Any:
        return self.row[self.matches.columns.key]

    @property
    def first(self) -> Any:
        return self.row[self.matches.columns.first]

    @property
    def last(self) -> Any:
        return self.row[self.matches.columns.last]

    def replay(self, engine: str = "sase", **options: Any) -> Trace:
        """Fetches the events around this match and runs the pattern on them, every step kept."""
        return self.matches.replay(self, engine, **options)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={_short(ids)}" for name, ids in self.ids.items())
        key = "" if self.key is None else f"{self.key}: "
        events = self.matches.events
        start, end = (
            events.schema.format_time(events.clock(time) * events.tick)
            for time in (self.first, self.last)
        )
        return f"<Match {key}{said} from {start} to {end}>"


def match(
    events: Any,
    pattern: Pattern | Draft | str,
    engine: str | None = None,
    plan: Any = None,
    budget: Budget | Mapping[str, int] | None = None,
    *,
    slice: Any = None,
    piece: int = PIECE_SIZE,
    on_error: str = "keep",
    progress: bool | None = None,
    **reading: Any,
) -> Matches:
    """Finds the matches of a pattern in events on Spark: the same as `cepviz.match` finds.

    `events` is what `read` returns, or anything it takes, with its keywords. Work is cut by
    `[attr]` where the pattern has one, otherwise into slices of time that overlap by the window.
    `piece` is about how many events a worker takes at a time; `slice="1 hour"` cuts slices of that
    width instead. The budget is for each piece. A pattern that cannot be cut without losing
    matches is refused, with what would help.

    `engine` is by default the fastest that takes the pattern. For one that follows a plan, rates
    and selectivities are measured first, and the plan is made from these. The search starts at
    once, with a progress bar; Ctrl-C cancels it and leaves the session as it was.
    """
    if isinstance(pattern, Chain):
        raise CepError("match on Spark takes one query: write its matches, and match those")
    query = as_pattern(pattern)
    stream = read(events, **reading)
    resolve(query, stream.schema)  # refuses what cannot be, before a job starts
    _warn(query, stream)
    if piece < 1:
        raise CepError(f"piece={piece} must be a number of events from 1")
    needs = Needs.of(query, stream.schema)
    runner = engine_class(engine, query, stream.intervals)
    if plan is None:
        plan = _planned(runner, query, stream)
    width = None if slice is None else _width(slice, needs, stream)
    pieces = cut(stream, needs, piece, width)
    task = made_task(
        query,
        stream.schema,
        stream.roles,
        stream.every,
        stream.arrival,
        needs,
        runner.name,
        plan=plan,
        budget=budget,
        on_error=on_error,
    )
    kinds = returned_schema(task, pieces.frame.schema)
    raw = (
        pieces.frame.repartition(pieces.count, PIECE)
        .groupBy(PIECE)
        .applyInArrow(_alone(task), kinds)
    )
    matches = Matches(query, stream, raw, task, pieces.said)
    matches._find(progress)
    return matches


def _planned(runner: type[Engine], query: Pattern, events: Events) -> Any:
    """The plan for an engine that takes one, from statistics that are measured on Spark."""
    plain = runner.planned(query, events.report.types)
    low, high = events.span
    if not isinstance(plain, Order | Tree | Branched) or query.within is None or not high > low:
        return plain
    from cepviz.spark.measuring import statistics

    measured = statistics(events, query, (high - low) * events.tick / 8, sample=500).statistics
    parts = plain.plans if isinstance(plain, Branched) else (plain,)
    planner = zstream if isinstance(parts[0], Tree) else greedy
    return planner(query, measured).plan


def _alone(task: Task) -> Callable[[Any], Any]:
    """A task as a function of one argument, which is how Spark tells what to hand it."""

    def matched(table: Any) -> Any:
        return task(table)

    return matched


def _ours(error: PythonException) -> Exception:
    """The error of cepviz that a worker raised, if that is what it was."""
    said = re.findall(r"^cepviz\.errors\.(\w+): (.*)$", str(error), re.M)
    if not said:
        return error
    name, text = said[-1]
    kind: type[Exception] = getattr(errors, name, CepError)
    return kind(text)


def _width(slice: Any, needs: Needs, events: Events) -> int | float:
    width = slice if needs.positions else events.schema.duration(slice)
    if not isinstance(width, (int, float)) or not width > 0:
        raise CepError(f"slice={slice!r} must be a length such as '1 hour', or a number above 0")
    low, high = (0, events.report.kept) if needs.positions else events.span
    most = 20_000
    if (high - low) * (1 if needs.positions else events.tick) / width > most:
        raise CepError(f"slice={slice!r} cuts the stream into more than {most:,} slices: widen it")
    return width


def _warn(pattern: Pattern, events: Events) -> None:
    said = pattern.warnings()
    types = events.schema.types or ((events.every,) if events.every else ())
    for variable in pattern.variables.values():
        if variable.type not in types:
            near = did_you_mean(variable.type, [str(name) for name in types])
            said.append(f"the stream has no event of type {variable.type!r}{near}")
    for text in dict.fromkeys(said):
        warnings.warn(text, CepWarning, stacklevel=3)


def _short(ids: Any) -> str:
    if not isinstance(ids, list):
        return str(ids)
    return " ".join(map(str, ids[:6])) + (f" … ({len(ids)})" if len(ids) > 6 else "")
