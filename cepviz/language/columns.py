"""Predicates on whole columns: the same meaning as `evaluate.holds`, for all rows at once.

Where Python's numbers and numpy's differ (whole numbers beyond 64 bits, sums of truth values,
division by zero) the result is Python's: those columns are computed as Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from cepviz.errors import UnsupportedError
from cepviz.events import Stream
from cepviz.language.evaluate import ARITHMETIC, COMPARE, number
from cepviz.language.expressions import (
    Aggregate,
    All,
    Arithmetic,
    Attribute,
    Between,
    Call,
    Compare,
    Either,
    Expression,
    In,
    Length,
    Like,
    Literal,
    Negative,
    Opposite,
    Percent,
    Relation,
    Symbol,
)
from cepviz.language.functions import find_function

Array: TypeAlias = np.ndarray[Any, Any]

#: Called with a part that could not be computed, the rows, and the error in the first of them.
FailedRows = Callable[[Expression, Array, Exception], None]

#: Whole numbers up to here are exact as floats, so numpy may mix them.
EXACT = 2**53
LARGEST = 2**63 - 1


class Columns(Protocol):
    """The events a variable stands for: `columns["price"]` is (values, where it is missing)."""

    def __len__(self) -> int: ...

    def __getitem__(self, name: str, /) -> tuple[Array, Array]: ...


class StreamColumns:
    """The columns of a stream, or of some of its rows, for `mask`."""

    def __init__(self, stream: Stream, rows: Array | slice | None = None):
        self.stream = stream
        self.rows = slice(None) if rows is None else rows
        self.size = len(stream) if rows is None else len(stream.ends[rows])

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, name: str) -> tuple[Array, Array]:
        if name not in self.stream.schema.attributes and name not in BUILT_IN:
            return np.zeros(self.size), np.ones(self.size, dtype=bool)
        return self.stream.column(name)[self.rows], self.stream.mask(name)[self.rows]


BUILT_IN = ("type", "id", "time", "start", "end")


class Cells(NamedTuple):
    """The values of an expression in each row, where it is missing, and where it failed."""

    values: Array
    nulls: Array
    failures: Array
    error: Exception | None = None

    @property
    def known(self) -> Array:
        return ~(self.nulls | self.failures)


def mask(
    conjunct: Expression, columns: Mapping[str, Columns], failed: FailedRows | None = None
) -> Array:
    """The rows in which a conjunct is true: an array of truth values.

    `columns` gives each variable its columns, row by row beside each other. A Kleene variable
    stands for one candidate element, `a[i]`; a conjunct that needs other elements is refused.
    A row whose value is missing or cannot be computed is not true; `failed` is told the latter.
    """
    _refuse_other_elements(conjunct)
    size = len(next(iter(columns.values())))
    true, _ = _truth(conjunct, columns, np.ones(size, dtype=bool), failed)
    return true


def _refuse_other_elements(conjunct: Expression) -> None:
    for node in conjunct.walk():
        beyond = isinstance(node, Attribute) and node.index not in ("", "i")
        if beyond or isinstance(node, Length | Aggregate):
            raise UnsupportedError(
                f"{conjunct} speaks of {node}, and columns hold one element at a time: "
                "use language.compile.predicate for it"
            )


def _truth(
    node: Expression, columns: Mapping[str, Columns], asked: Array, failed: FailedRows | None
) -> tuple[Array, Array]:
    """Where it is true and where it is false; `asked` are the rows that are not decided yet."""
    if isinstance(node, All | Either):
        either = isinstance(node, Either)
        decided = np.zeros(len(asked), dtype=bool)
        others = np.ones(len(asked), dtype=bool)  # where every part says the opposite
        for part in node.parts:
            true, false = _truth(part, columns, asked & ~decided, failed)
            decided |= true if either else false
            others &= false if either else true
        return (decided, others & ~decided) if either else (others & ~decided, decided)
    cells = _cells(node, columns, len(asked))
    told = np.flatnonzero(cells.failures & asked)
    if failed is not None and len(told):
        failed(node, told, cells.error or ValueError("cannot be computed"))
    known = cells.known
    if known.all():
        true = _as_truth(cells.values)
        return true, ~true
    true = np.zeros(len(asked), dtype=bool)
    true[known] = _as_truth(cells.values[known])
    return true, known & ~true


def _as_truth(values: Array) -> Array:
    return values if values.dtype == bool else np.array([bool(v) for v in values.tolist()], bool)


def _cells(node: Expression, columns: Mapping[str, Columns], size: int) -> Cells:
    if isinstance(node, Literal | Percent | Symbol):
        return _constant(node, size)
    if isinstance(node, Attribute):
        values, nulls = columns[node.variable][node.name]
        return Cells(_plain(values), nulls, np.zeros(size, dtype=bool))
    if isinstance(node, Relation):
        return _cells(Opposite(node.meaning) if node.negated else node.meaning, columns, size)
    if isinstance(node, All | Either):
        true, false = _truth(node, columns, np.ones(size, dtype=bool), None)
        return Cells(true, ~(true | false), np.zeros(size, dtype=bool))
    parts = [_cells(child, columns, size) for child in node.children()]
    nulls = np.zeros(size, dtype=bool)
    failures = np.zeros(size, dtype=bool)
    error = None
    for part in parts:
        nulls |= part.nulls
        failures |= part.failures
        error = error or part.error
    if not (nulls.any() or failures.any()):
        computed = _computed(node, [part.values for part in parts], size)
        return computed if error is None else computed._replace(error=error)
    rows = np.flatnonzero(~(nulls | failures))
    computed = _computed(node, [part.values[rows] for part in parts], len(rows))
    values = np.zeros(size, dtype=computed.values.dtype)
    values[rows] = computed.values
    nulls[rows] = computed.nulls
    failures[rows] = computed.failures
    return Cells(values, nulls & ~failures, failures, error or computed.error)


def _constant(node: Literal | Percent | Symbol, size: int) -> Cells:
    value: Any = node.name if isinstance(node, Symbol) else None
    if isinstance(node, Literal):
        value = node.value
    elif isinstance(node, Percent):
        value = node.amount / 100
    none = np.zeros(size, dtype=bool)
    return Cells(np.broadcast_to(_typed([value]), (size,)), none, none)


def _computed(node: Expression, values: list[Array], size: int) -> Cells:
    """The expression where none of its parts is missing or failed."""
    with np.errstate(all="ignore"):
        if isinstance(node, Arithmetic):
            return _arithmetic(node.operator, *values)
        if isinstance(node, Compare):
            return _compared(COMPARE[node.operator], *values)
        if isinstance(node, Between):
            return _between(node, *values)
        if isinstance(node, In):
            return _among(node, values)
        if isinstance(node, Call):
            return _called(node, values, size)
    if isinstance(node, Negative) and values[0].dtype.kind in "if":
        return _arithmetic("-", np.zeros(size, dtype="int64"), values[0])
    if isinstance(node, Opposite):
        return _sound(~_as_truth(values[0]))
    return _each(_scalar(node), values, size)


def _scalar(node: Expression) -> Callable[..., Any]:
    if isinstance(node, Negative):
        return lambda value: -number(value)
    if isinstance(node, Like):
        fits = node.regex.fullmatch
        return lambda value: (fits(value) is not None) != node.negated

    def refuse(*values: Any) -> Any:
        raise TypeError(f"{node} has no value before the pattern meets a stream")

    return refuse


def _sound(values: Array) -> Cells:
    none = np.zeros(len(values), dtype=bool)
    return Cells(values, none, none)


def _each(function: Callable[..., Any], values: list[Array], size: int) -> Cells:
    """The function on each row by itself."""
    found: list[Any] = [None] * size
    failures = np.zeros(size, dtype=bool)
    first = None
    rows = zip(*(column.tolist() for column in values), strict=True) if values else [()] * size
    for row, arguments in enumerate(rows):
        try:
            found[row] = function(*arguments)
        except Exception as error:
            failures[row] = True
            first = first or error
    return Cells(_typed(found), np.array([v is None for v in found], bool), failures, first)


def _typed(values: list[Any]) -> Array:
    """The values as bool, int64 or float64 where all are of that kind, otherwise as objects."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return np.array(values, dtype=bool)
    if kinds == {float}:
        return np.array(values, dtype=float)
    if kinds == {int} and all(-LARGEST <= value <= LARGEST for value in values):
        return np.array(values, dtype="int64")
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _plain(values: Array) -> Array:
    """The values as bool, int64, float64 or objects."""
    kind = values.dtype.kind
    if kind == "i" or (kind == "u" and values.dtype.itemsize < 8):
        return values.astype("int64", copy=False)
    if kind == "f":
        return values.astype("float64", copy=False)
    return values if kind == "b" else values.astype(object, copy=False)


def _counted(values: Array) -> Array:
    """Truth values as 0 and 1, which is what they are in arithmetic."""
    return values.astype("int64") if values.dtype == bool else values


def _magnitude(values: Array) -> int:
    if values.dtype.kind != "i" or not len(values):
        return 0
    return max(-int(values.min()), int(values.max()))


def _arithmetic(operator: str, left: Array, right: Array) -> Cells:
    left, right = _counted(left), _counted(right)
    function = ARITHMETIC[operator]
    kinds = left.dtype.kind + right.dtype.kind
    sizes = _magnitude(left), _magnitude(right)
    if kinds == "ii":
        bound = EXACT if operator == "/" else LARGEST
        reached = sizes[0] * sizes[1] if operator == "*" else max(*sizes, sum(sizes))
        simple = reached <= bound
    else:
        simple = kinds in ("ff", "if", "fi")
    if not simple:
        return _each(lambda x, y: function(number(x), number(y)), [left, right], len(left))
    if operator in "+-*":
        return _sound(function(left, right))
    zero = right == 0
    divided = function(left, np.where(zero, 1, right).astype(right.dtype))
    none = np.zeros(len(left), dtype=bool)
    error = ZeroDivisionError("division by zero") if zero.any() else None
    return Cells(divided, none, zero, error)


def _compared(function: Callable[[Any, Any], Any], left: Array, right: Array) -> Cells:
    if _comparable(left, right):
        return _sound(function(left, right))
    if left.dtype == right.dtype == object:
        try:
            return _sound(function(left, right).astype(bool))
        except Exception:
            pass  # row by row says which rows it cannot do
    return _each(lambda x, y: bool(function(x, y)), [left, right], len(left))


def _comparable(left: Array, right: Array) -> bool:
    """Whether numpy compares these as Python does: numbers, exact ones where both kinds meet."""
    kinds = {left.dtype.kind, right.dtype.kind}
    if kinds == {"i", "f"}:
        return max(_magnitude(left), _magnitude(right)) <= EXACT
    return kinds <= {"b", "i"} or kinds <= {"b", "f"}


def _between(node: Between, operand: Array, low: Array, high: Array) -> Cells:
    if _comparable(low, operand) and _comparable(operand, high):
        return _sound(((low <= operand) & (operand <= high)) != node.negated)
    return _each(lambda x, a, b: (a <= x <= b) != node.negated, [operand, low, high], len(low))


def _among(node: In, values: list[Array]) -> Cells:
    operand, *options = values
    found = np.zeros(len(operand), dtype=bool)
    for option in options:
        equal = _compared(COMPARE["="], operand, option)
        if equal.failures.any():
            return _each(lambda x, *among: (x in among) != node.negated, values, len(operand))
        found |= equal.values.astype(bool)
    return _sound(found != node.negated)


def _called(node: Call, values: list[Array], size: int) -> Cells:
    function = find_function(node.function)
    if function.columns is None or not values:
        return _each(function.scalar, values, size)
    try:
        found = _plain(np.asarray(function.columns(*values)))
        if found.shape != (size,):
            raise ValueError(f"{node.function} gave {found.shape} for {size} rows")
    except Exception:  # row by row says which rows it cannot do
        return _each(function.scalar, values, size)
    cells = _sound(found)
    if found.dtype == object:
        cells = cells._replace(nulls=np.array([value is None for value in found], dtype=bool))
    return cells
