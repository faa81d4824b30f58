"""`statistics`: rates and selectivities of a stream over time, measured on Spark."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cepviz.errors import CepError
from cepviz.language.build import Draft, as_pattern
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import resolve, window_size
from cepviz.plans.estimate import Estimator
from cepviz.plans.statistics import Statistics
from cepviz.spark.arrow import ordered, to_stream
from cepviz.spark.columns import made_task
from cepviz.spark.cutting import Grid, Needs
from cepviz.spark.reading import Events, col, read
from cepviz.spark.worker import Task

MOST_BUCKETS = 5000


@dataclass(frozen=True)
class Share:
    """A condition in one bucket: how many samples were tried, and how many were true."""

    tried: int
    passed: int

    @property
    def value(self) -> float:
        # As the estimator of one machine: half a success more, so that nothing is impossible.
        return min((self.passed + 0.5) / (self.tried + 1), 1.0)

    @property
    def error(self) -> float:
        """One standard error, from the number of samples."""
        return math.sqrt(self.value * (1 - self.value) / (self.tried + 1))


class Measured:
    """What was measured: a table over time, and the statistics that planners take.

    `statistics` is for the whole stream, `at(n)` for one bucket. `frame` has a row for each bucket
    and statistic: the value, its standard error (0 where everything was counted) and the number of
    samples; `df` is the same on Spark. `figure()` draws how it drifts.
    """

    def __init__(
        self,
        events: Events,
        starts: list[int | float],
        rates: list[dict[str, float]],
        shares: list[dict[str, Share]],
        whole: dict[str, float],
    ):
        self.events = events
        self.starts = starts
        self._rates = rates
        self._shares = shares
        self.statistics = Statistics(whole, _pooled(shares))

    def at(self, bucket: int) -> Statistics:
        """The statistics of one bucket, by its number."""
        shares = self._shares[bucket]
        return Statistics(self._rates[bucket], {text: s.value for text, s in shares.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        for number, start in enumerate(self.starts):
            for type, rate in self._rates[number].items():
                yield self._row(number, start, f"rate({type})", rate, 0.0, None)
            for text, share in self._shares[number].items():
                yield self._row(
                    number, start, f"sel({text})", share.value, share.error, share.tried
                )

    def _row(self, number: int, start: Any, name: str, *values: Any) -> dict[str, Any]:
        value, error, samples = values
        shown = {"bucket": number, "start": self._moment(start), "statistic": name}
        return {**shown, "value": value, "error": error, "samples": samples}

    def _moment(self, number: int | float) -> Any:
        import pandas as pd

        schema = self.events.schema
        if schema.zone is None:
            return number
        moment = pd.Timestamp(int(number), unit="ns", tz="UTC")
        return moment.tz_localize(None) if schema.naive else moment

    @property
    def frame(self) -> Any:
        import pandas as pd

        columns = ["bucket", "start", "statistic", "value", "error", "samples"]
        return pd.DataFrame(list(self.rows()), columns=columns).astype({"samples": "Int64"})

    @property
    def df(self) -> DataFrame:
        return self.events.spark.createDataFrame(self.frame)

    def figure(self) -> Any:
        """A heat map of drift: each statistic over time, against its own mean (plotly)."""
        import plotly.graph_objects as go

        frame = self.frame
        table = frame.pivot(index="statistic", columns="start", values="value")
        table = table.loc[list(dict.fromkeys(frame["statistic"]))]
        against = table.div(table.mean(axis=1).replace(0, 1), axis=0)
        said = [
            [f"{value:.3g}, {ratio:.2f} times its mean" for value, ratio in zip(*row, strict=True)]
            for row in zip(table.to_numpy(), against.to_numpy(), strict=True)
        ]
        figure = go.Figure(
            go.Heatmap(
                x=list(table.columns),
                y=list(table.index),
                z=against.to_numpy(),
                text=said,
                hovertemplate="%{y}<br>%{x}<br>%{text}<extra></extra>",
                # Okabe and Ito's blue and vermilion: told apart by everyone, white in the middle.
                colorscale=[[0, "#0072B2"], [0.5, "#FFFFFF"], [1, "#D55E00"]],
                zmin=0,
                zmax=2,
                colorbar={"title": "of its mean"},
            )
        )
        figure.update_layout(
            title="Drift: each statistic over time, against its own mean",
            yaxis={"autorange": "reversed"},
            margin={"l": 10, "r": 10, "t": 50, "b": 40},
            template="plotly_white",
        )
        return figure

    def __repr__(self) -> str:
        count = len(self.starts)
        return f"<{count} bucket{'s' * (count != 1)}; of all: {self.statistics}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        try:
            figure = self.figure()
        except ImportError:  # without plotly, the text is all there is
            return {"text/plain": repr(self)}
        made = figure._repr_mimebundle_(include or [], exclude or [])
        return {**(made or {}), "text/plain": repr(self)}


def statistics(
    events: Any,
    pattern: Pattern | Draft | str,
    bucket: Any = "1 hour",
    *,
    sample: int = 2000,
    seed: int = 0,
    **reading: Any,
) -> Measured:
    """Measures what planners want to know about a pattern's stream, for each bucket of time.

    Rates are counted: events of a type in one window of the pattern, on average. Selectivities
    are of samples: from each bucket about `sample` events that follow each other are taken, and a
    worker tries the conditions on them and on pairs of them that lie in one window. Both come with
    the standard error of the sampling, and the same seed takes the same samples.
    """
    query = as_pattern(pattern)
    stream = read(events, **reading)
    resolved = resolve(query, stream.schema)
    window = window_size(resolved, stream.schema)
    if window is None:
        raise CepError("rates are counted by the window: give the pattern a WITHIN")
    by_count = query.within is not None and query.within.in_events
    width = stream.schema.duration(bucket) / stream.tick
    low, high = stream.span
    if not width > 0 or (high - low) / width > MOST_BUCKETS:
        raise CepError(
            f"bucket={bucket!r} cuts the stream into more than {MOST_BUCKETS:,} buckets: widen it"
        )
    grid = Grid.over(low, high, width)
    counts = _counted(stream, grid)
    totals = [sum(found.values()) for found in counts]
    types = sorted({variable.type for variable in query.variables.values()})
    length = [min(width, high - low - number * width) or width for number in range(grid.count)]
    rates = [
        {
            type: found.get(type, 0)
            * (window / max(total, 1) if by_count else window / stream.tick / span)
            for type in types
        }
        for found, total, span in zip(counts, totals, length, strict=True)
    ]
    everything = (
        window / max(sum(totals), 1) if by_count else window / stream.tick / (high - low or 1)
    )
    whole = {type: sum(found.get(type, 0) for found in counts) * everything for type in types}
    shares = _sampled(stream, query, grid, totals, sample, seed)
    starts = [(low + number * width) * stream.tick for number in range(grid.count)]
    return Measured(stream, starts, rates, shares, whole)


def _counted(stream: Events, grid: Grid) -> list[dict[str, int]]:
    """How many events of each type are in each bucket."""
    kind = F.lit(stream.every) if stream.every is not None else col(stream.roles["type"])
    found: list[dict[str, int]] = [{} for _ in range(grid.count)]
    grouped = stream.frame.groupBy(grid.cell(stream.moment).alias("cell"), kind.alias("kind"))
    for row in grouped.count().collect():
        found[row["cell"]][row["kind"]] = row["count"]
    return found


def _sampled(
    stream: Events, query: Pattern, grid: Grid, totals: list[int], sample: int, seed: int
) -> list[dict[str, Share]]:
    """The conditions tried in each bucket, on about so many events in a row."""
    shares: list[dict[str, Share]] = [{} for _ in range(grid.count)]
    conditions = any(branch.conjuncts for branch in query.branches)
    if not conditions or not stream.report.kept:
        return shares
    # A part of each bucket's time, as long as holds so many events, begins somewhere in it.
    rows = []
    for number, total in enumerate(totals):
        part = min(1.0, sample / max(total, 1))
        begin = (1 - part) * (hash((seed, number)) % 1009 / 1009)
        rows.append((number, float(begin), float(begin + part)))
    spark = stream.spark
    parts = spark.createDataFrame(rows, "_cep_bucket int, _cep_from double, _cep_to double")
    frame = stream.frame.withColumn("_cep_bucket", grid.cell(stream.moment))
    place = (stream.moment - F.lit(grid.origin)) / F.lit(grid.width) - F.col("_cep_bucket")
    frame = frame.join(F.broadcast(parts), "_cep_bucket")
    frame = frame.where((place >= F.col("_cep_from")) & (place <= F.col("_cep_to")))
    frame = frame.drop("_cep_from", "_cep_to")
    needs = Needs((), False, None, 0, None)
    task = made_task(
        query, stream.schema, stream.roles, stream.every, stream.arrival, needs, "naive"
    )
    kinds = "bucket int, shares string"
    for row in frame.groupBy("_cep_bucket").applyInArrow(_trying(task, seed), kinds).collect():
        found = json.loads(row["shares"])
        tried = {text: Share(*counts) for text, counts in found.items() if counts[0]}
        shares[row["bucket"]] = tried
    return shares


def _trying(task: Task, seed: int) -> Callable[[Any], Any]:
    """What a worker does with the sample of a bucket: the estimator of one machine, on it."""

    def tried(table: Any) -> Any:
        task.register()
        number = table.column("_cep_bucket")[0].as_py()
        table = ordered(table, [task.end, *task.arrival])
        ours = {"_cep_bucket", *task.arrival} - set(task.schema.attributes)
        table = table.drop_columns([name for name in table.column_names if name in ours])
        stream = to_stream(table, task.roles, task.every, task.unit, task.schema)
        estimator = Estimator(task.pattern, task.schema, windows=math.inf, exact=True, seed=seed)
        for event in stream:
            estimator.push(event)
        found = {
            text: (int(trial.tried.count(estimator.now)), int(trial.passed.count(estimator.now)))
            for text, trial in estimator._trials.items()
        }
        made = {"bucket": pa.array([number], pa.int32()), "shares": [json.dumps(found)]}
        return pa.table(made)

    return tried


def _pooled(shares: list[dict[str, Share]]) -> dict[str, float]:
    """The selectivities of all buckets together."""
    texts = dict.fromkeys(text for found in shares for text in found)
    pooled = {}
    for text in texts:
        tried = sum(found[text].tried for found in shares if text in found)
        passed = sum(found[text].passed for found in shares if text in found)
        if tried:
            pooled[text] = Share(tried, passed).value
    return pooled
