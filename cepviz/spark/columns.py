"""The columns of matches on Spark: what workers return, and what a person sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cepviz.engines.base import Budget
from cepviz.events import Schema
from cepviz.language.expressions import Call
from cepviz.language.functions import find_function
from cepviz.language.pattern import Pattern
from cepviz.spark.cutting import OWNED, PIECE, POSITION, Needs
from cepviz.spark.reading import col
from cepviz.spark.worker import Task

#: The column in which a worker reports on its piece; null in the rows of matches.
TALLY = "_cep_tally"


@dataclass(frozen=True)
class Names:
    """What the columns of matches are called: as `Matches` says, with a _ where two are alike."""

    match: str
    key: str
    ids: Mapping[str, str]
    times: Mapping[str, str]
    first: str
    last: str

    @classmethod
    def of(cls, variables: tuple[tuple[str, bool], ...]) -> Names:
        taken: set[str] = set()

        def free(name: str) -> str:
            while name.lower() in taken:  # Spark does not tell capitals apart
                name += "_"
            taken.add(name.lower())
            return name

        ids = {name: free(name) for name, _ in variables}  # variables keep their names
        match, key, first, last = (free(name) for name in ("match", "key", "first", "last"))
        times = {name: free(f"{name}_time") for name, _ in variables}
        return cls(match, key, ids, times, first, last)

    @property
    def all(self) -> list[str]:
        """In the order of the columns."""
        bound = [column for name in self.ids for column in (self.ids[name], self.times[name])]
        return [self.match, self.key, *bound, self.first, self.last]


def made_task(
    query: Pattern,
    schema: Schema,
    roles: Mapping[str, str],
    every: str | None,
    arrival: tuple[str, ...],
    needs: Needs,
    engine: str,
    *,
    plan: Any = None,
    budget: Budget | Mapping[str, int] | None = None,
    on_error: str = "keep",
) -> Task:
    """What workers are told about a pattern and its stream."""
    variables = tuple((v.name, v.kleene) for v in query.variables.values() if not v.negated)
    columns = [f"_k_{name}" for name in query.same]
    columns += [f"{kind}{name}" for name, _ in variables for kind in ("_v_", "_t_")]
    calls = {n.function for e in query._expressions() for n in e.walk() if isinstance(n, Call)}
    return Task(
        pattern=query,
        roles=dict(roles),
        every=every,
        unit=None if schema.zone is not None else schema.unit,
        schema=schema,
        arrival=arrival,
        end=roles.get("end", roles["time"]),
        keys=needs.keys,
        engine=engine,
        plan=plan,
        budget=Budget.of(budget),
        on_error=on_error,
        position=POSITION,
        owned=OWNED,
        piece=PIECE,
        counts_positions=needs.positions,
        variables=variables,
        columns=(*columns, "_first", "_last", TALLY),
        functions=tuple(find_function(name) for name in sorted(calls)),
    )


def returned_schema(task: Task, given: T.StructType) -> T.StructType:
    """The types of what workers return, given those of the events."""
    kinds = {f.name: f.dataType for f in given.fields}
    id, time = kinds[task.roles.get("id", POSITION)], kinds[task.end]
    fields = [T.StructField(f"_k_{name}", kinds[name]) for name in task.pattern.same]
    for name, kleene in task.variables:
        for prefix, kind in (("_v_", id), ("_t_", time)):
            fields.append(T.StructField(f"{prefix}{name}", T.ArrayType(kind) if kleene else kind))
    fields += [T.StructField("_first", kinds[task.roles["time"]]), T.StructField("_last", time)]
    return T.StructType([*fields, T.StructField(TALLY, T.StringType())])


def shaped(task: Task, names: Names) -> dict[str, Column]:
    """The columns as they are shown, by name, out of those that workers return."""
    bindings = F.struct(*(col(f"_v_{name}").alias(name) for name, _ in task.variables))
    keys = [col(f"_k_{name}").alias(name) for name in task.pattern.same]
    key: Column = F.lit(None).cast("string")
    if keys:
        key = keys[0] if len(keys) == 1 else F.struct(*keys)
    shown = {names.match: F.md5(F.to_json(bindings)), names.key: key}
    for name, _ in task.variables:
        shown[names.ids[name]] = col(f"_v_{name}")
        shown[names.times[name]] = col(f"_t_{name}")
    return shown | {names.first: col("_first"), names.last: col("_last")}
