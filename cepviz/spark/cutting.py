"""How a stream is cut for a pattern so that pieces can be matched apart, and nothing is lost.

A piece is what one worker matches at a time: some partitions of `[attr]` with all their events, or
a slice of time. Slices overlap, because a match that begins near the end of one goes on in the
next; a match belongs to the piece that owns its first event, and only there it is kept. This is
exact: a match, and whether it is one, depends on nothing outside its window.

| what the pattern asks | why it still is |
|---|---|
| events of the same time | slices end between two times, never within one |
| `WITHIN n events` | each event has its position in the whole stream, and slices are of these |
| strict_contiguity | a slice holds every event between two times, so neighbours stay neighbours |
| a NOT at the beginning | the slice reaches back by a window, too |
| non_overlap, no window | a whole partition is one piece; without `[attr]` it is refused |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cepviz.errors import UnsupportedError
from cepviz.events import Schema
from cepviz.language.pattern import ANY, NEXT, STRICT, Pattern
from cepviz.language.resolve import window_size
from cepviz.spark.reading import Events, col

#: Columns of our own: an event's place in the whole stream, its piece, whether the piece owns it.
POSITION, PIECE, OWNED = "_cep_position", "_cep_piece", "_cep_owned"

#: How finely time is divided to find slices of the same number of events.
CELLS = 2048
CELLS_OF_A_KEY = 512

#: How many events are sorted at a time to find their positions.
RANKED = 500_000


@dataclass(frozen=True)
class Needs:
    """What a pattern asks of the pieces: by which attributes, and how far they overlap.

    `ahead` and `back` are in events or in the stream's unit; None where a partition must stay in
    one piece. `types` are those that matter, None where all do.
    """

    keys: tuple[str, ...]
    positions: bool
    ahead: int | float | None
    back: int | float
    types: tuple[str, ...] | None

    @classmethod
    def of(cls, pattern: Pattern, schema: Schema) -> Needs:
        window = window_size(pattern, schema)
        keyed = pattern.strategy != STRICT and bool(pattern.same)
        kinds = ("number", "string", "bool", "time")
        plain = all(schema.attributes.get(name) in kinds for name in pattern.same)
        keys = pattern.same if keyed and plain else ()
        whole = None
        if window is None:
            whole = "it has no WITHIN, so its matches may reach over the whole stream"
        elif pattern.output != "all":
            whole = "OUTPUT non_overlap lets one match depend on all before it"
        if whole is not None and not keys:
            fix = "a WITHIN" if window is None else "OUTPUT all"
            by = "" if pattern.strategy == STRICT else ", or an equivalence such as [user]"
            raise UnsupportedError(
                f"this pattern cannot be matched in pieces: {whole}. Give it {fix}{by}; "
                "or use cepviz.match on one machine"
            )
        leading = any(not n.after for branch in pattern.branches for n in branch.negations)
        some = pattern.strategy in (ANY, NEXT)
        types = {variable.type for variable in pattern.variables.values()}
        return cls(
            keys,
            pattern.within is not None and pattern.within.in_events,
            None if whole is not None else window,
            window if leading and window is not None else 0,
            tuple(sorted(types)) if some else None,
        )


@dataclass(frozen=True)
class Grid:
    """A line of numbers divided into cells of one width."""

    origin: int | float
    width: int | float
    count: int

    @classmethod
    def over(cls, low: Any, high: Any, width: int | float | None, most: int = CELLS) -> Grid:
        """Cells from low to high: of that width, or as many as there may be."""
        length = high - low
        if width is None:
            width = math.ceil(length / most) if isinstance(length, int) else length / most
        width = width or 1
        return cls(low, width, int(length // width) + 1)

    def cell(self, x: Column) -> Column:
        """The cell of a number; what lies outside is in the first or the last.

        It never falls as the number grows, whatever is rounded on the way: all that is needed.
        """
        place = F.floor((x - F.lit(self.origin)) / F.lit(self.width))
        return F.least(F.greatest(place, F.lit(0)), F.lit(self.count - 1)).cast("int")

    def counts(self, frame: DataFrame, x: Column) -> list[int]:
        """How many rows are in each cell."""
        found = [0] * self.count
        for row in frame.groupBy(self.cell(x).alias("cell")).count().collect():
            found[row["cell"]] = row["count"]
        return found

    def joined(self, counts: Sequence[int], rows: int, width: int | float) -> list[int]:
        """Neighbouring cells put together into slices of about so many rows, none narrower than a
        width: the number of each cell's slice."""
        slices, number, held, wide = [], 0, 0, 0.0
        for count in counts:
            if held and held + count > rows and wide >= width:
                number, held, wide = number + 1, 0, 0.0
            slices.append(number)
            held, wide = held + count, wide + self.width
        return slices


def _table(values: Sequence[int], kind: str = "int") -> Column:
    """Numbers as one constant: as text, which takes one call to Java instead of thousands."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast(f"array<{kind}>")


def positioned(events: Events) -> DataFrame:
    """The events with their place in the whole stream, by (end time, arrival): a rank that is
    computed slice by slice of time, from how many events come before each slice."""
    grid = Grid.over(*events.span, None)
    counts = grid.counts(events.frame, events.moment)
    slices = grid.joined(counts, RANKED, 0)
    before = [0] * (slices[-1] + 2)
    for number, count in zip(slices, counts, strict=True):
        before[number + 1] += count
    for number in range(1, len(before)):
        before[number] += before[number - 1]
    of_cell = F.element_at(_table(slices), grid.cell(events.moment) + 1)
    frame = events.frame.withColumn("_cep_slice", of_cell).repartition(slices[-1] + 1, "_cep_slice")
    order = Window.partitionBy("_cep_slice").orderBy(events.moment, *map(col, events.arrival))
    rank = (
        F.row_number().over(order)
        - 1
        + F.element_at(_table(before, "bigint"), F.col("_cep_slice") + 1)
    )
    return frame.withColumn(POSITION, rank.cast("long")).drop("_cep_slice")


@dataclass(frozen=True)
class Pieces:
    """Events dealt out: rows with their piece, each row as often as pieces need it."""

    frame: DataFrame
    count: int
    said: str


def cut(events: Events, needs: Needs, size: int, width: int | float | None) -> Pieces:
    """Deals events out to pieces of about `size` events, or to slices of a width."""
    numbered = needs.positions or "id" not in events.roles
    frame = positioned(events) if numbered else events.frame
    low, high = (0, max(events.report.kept - 1, 0)) if needs.positions else events.span
    moment = col(POSITION) if needs.positions else events.moment
    # Counting needs no positions, unless it is positions that are counted.
    counted = frame if needs.positions else events.frame
    if needs.types is not None and events.every is None:
        some = col(events.roles["type"]).isin(list(needs.types))
        frame, counted = frame.where(some), counted.where(some)
    ruler = _Ruler(moment, low, high, 1 if needs.positions else events.tick, needs)
    if needs.keys:
        return _by_key(events, frame, counted, ruler, size, width)
    grid, slices = ruler.slices(counted, size, width)
    frame = ruler.dealt(frame, F.lit(0), grid, _table(slices))
    count = slices[-1] + 1
    of = "events" if needs.positions else "time"
    return Pieces(frame, count, f"{count} slice{'s' * (count > 1)} of {of}")


@dataclass(frozen=True)
class _Ruler:
    """What slices are measured on: positions or times, and how far they overlap on it."""

    moment: Column
    low: int | float
    high: int | float
    tick: int
    needs: Needs

    def _on(self, amount: int | float) -> int | float:
        """A length in the stream's unit as one on this ruler, never shorter than it."""
        if self.tick > 1:
            return math.ceil(amount / self.tick)
        floats = isinstance(self.low, float) or isinstance(amount, float)
        if not floats or not amount:
            return amount
        # Floats are rounded when they are added up: a little more overlap costs nothing.
        return amount + 1e-12 * max(abs(self.low), abs(self.high), amount)

    def slices(
        self, frame: DataFrame, size: int, width: int | float | None
    ) -> tuple[Grid, list[int]]:
        if width is None and self.needs.positions:  # as many events in each as we like
            width = max(size, 2 * math.ceil((self.needs.ahead or 0) + self.needs.back))
        if width is not None:
            grid = Grid.over(self.low, self.high, self._on(width))
            return grid, list(range(grid.count))
        grid = Grid.over(self.low, self.high, None)
        return grid, self.joined(grid, grid.counts(frame, self.moment), size)

    def joined(self, grid: Grid, counts: Sequence[int], size: int) -> list[int]:
        # Slices much shorter than their overlap would mostly match what others own.
        overlap = self._on(self.needs.ahead or 0) + self._on(self.needs.back)
        return grid.joined(counts, size, 2 * overlap)

    def dealt(self, frame: DataFrame, base: Column, grid: Grid, table: Column) -> DataFrame:
        """Each row for its own slice, and for those that reach over to it."""

        def slice_of(x: Column) -> Column:
            return F.element_at(table, grid.cell(x) + 1)

        ahead, back = self._on(self.needs.ahead or 0), self._on(self.needs.back)
        first = slice_of(self.moment - F.lit(ahead))
        last = slice_of(self.moment + F.lit(back)) if back else slice_of(self.moment)
        frame = frame.withColumn("_cep_own", slice_of(self.moment))
        frame = frame.withColumn("_cep_slice", F.explode(F.sequence(first, last)))
        owned = F.col("_cep_slice") == F.col("_cep_own")
        frame = frame.withColumns({PIECE: (base + F.col("_cep_slice")).cast("int"), OWNED: owned})
        return frame.drop("_cep_own", "_cep_slice")


def _by_key(
    events: Events,
    frame: DataFrame,
    counted: DataFrame,
    ruler: _Ruler,
    size: int,
    width: int | float | None,
) -> Pieces:
    """Partitions by the hash of their key; one with too many events is cut in time as well."""
    needs = ruler.needs
    keys = [key_of(name, events.frame) for name in needs.keys]
    present = keys[0].isNotNull()
    for key in keys[1:]:
        present = present & key.isNotNull()
    frame, counted = frame.where(present), counted.where(present)
    kept = events.report.kept
    groups = max(math.ceil(kept / size), min(2 * _cores(events), kept), 1)
    hashed = F.pmod(F.xxhash64(*keys), F.lit(groups)).cast("int")
    said = f"{groups} piece{'s' * (groups > 1)} of partitions by {', '.join(needs.keys)}"
    whole = frame.withColumns({PIECE: hashed, OWNED: F.lit(True)})
    if needs.ahead is None:
        return Pieces(whole, groups, said)
    names = [f"_cep_key_{place}" for place in range(len(keys))]
    named = dict(zip(names, keys, strict=True))
    frame, counted = frame.withColumns(named), counted.withColumns(named)
    sizes = counted.groupBy(*names).count()
    large = [row[:-1] for row in sizes.where(F.col("count") > 2 * size).collect()]
    if not large:
        return Pieces(whole, groups, said)
    spark = events.spark
    kinds = T.StructType([T.StructField(n, frame.schema[n].dataType) for n in names])
    heavy = F.broadcast(spark.createDataFrame([tuple(row) for row in large], kinds))
    if width is not None:
        grid = Grid.over(ruler.low, ruler.high, ruler._on(width))
    else:
        grid = Grid.over(ruler.low, ruler.high, None, CELLS_OF_A_KEY)
    cell = grid.cell(ruler.moment).alias("cell")
    cells = counted.join(heavy, names).groupBy(*names, cell).count()
    counts: dict[tuple[Any, ...], list[int]] = {tuple(row): [0] * grid.count for row in large}
    for row in cells.collect():
        counts[tuple(row[name] for name in names)][row["cell"]] = row["count"]
    tables, base = [], groups
    for values, found in counts.items():
        slices = list(range(grid.count)) if width is not None else ruler.joined(grid, found, size)
        tables.append((*values, base, slices))
        base += slices[-1] + 1
    extra = [T.StructField("_cep_base", T.IntegerType())]
    extra += [T.StructField("_cep_table", T.ArrayType(T.IntegerType()))]
    dealer = F.broadcast(spark.createDataFrame(tables, T.StructType([*kinds.fields, *extra])))
    cut_up = ruler.dealt(frame.join(dealer, names), F.col("_cep_base"), grid, F.col("_cep_table"))
    rest = frame.join(heavy, names, "left_anti")
    rest = rest.withColumns({PIECE: hashed, OWNED: F.lit(True)})
    both = rest.unionByName(cut_up.drop("_cep_base", "_cep_table")).drop(*names)
    slices_said = f"{len(large)} of them cut into {base - groups} slices"
    return Pieces(both, base, f"{said}, {slices_said}")


def key_of(name: str, frame: DataFrame) -> Column:
    """An attribute as a key: what engines take for equal is equal, what is missing is null."""
    column = col(name)
    if isinstance(frame.schema[name].dataType, (T.FloatType, T.DoubleType)):
        # NaN is a missing value, and -0.0 is 0.0.
        return F.when(~F.isnan(column), column.cast("double") + F.lit(0.0))
    return column


def _cores(events: Events) -> int:
    return events.spark.sparkContext.defaultParallelism
