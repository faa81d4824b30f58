"""The smallest change of a pattern that makes a candidate match: edits, tried and checked."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_UP, Decimal
from fractions import Fraction
from typing import Any

from cepviz.engines.naive import Held
from cepviz.errors import CepError, PatternError
from cepviz.events import Schema, Stream
from cepviz.explain.blockers import Blocker, blockers
from cepviz.explain.candidate import Ground, contains
from cepviz.explain.closest import applicable
from cepviz.explain.running import quietly
from cepviz.language.expressions import (
    Arithmetic,
    Between,
    Compare,
    Either,
    Expression,
    Literal,
)
from cepviz.language.pattern import ANY, NEXT, PARTITION, STRICT, Pattern, Window
from cepviz.language.structure import Atom, Kleene, Not, Structure

#: How many sets of edits are tried before giving up, and how many edits a fix has at most.
MOST_SETS, MOST_EDITS = 100, 5

UNITS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds",
         "nanoseconds")  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """One change of a pattern, in words and as a function of it."""

    text: str
    change: Callable[[Pattern], Pattern]


@dataclass(frozen=True)
class Fix:
    """A changed pattern under which the candidate was found to match, and what was changed."""

    text: str
    pattern: Pattern
    edits: tuple[str, ...]


def fixes(pattern: Pattern, stream: Stream, held: Held, found: list[Blocker]) -> list[Fix]:
    """The smallest sets of changes that make the candidate match, each checked by `naive`.

    The one with the fewest changes comes first; an empty list says that no small change helps.
    """
    ways = [edits(pattern, stream.schema, blocker) for blocker in found]
    if not all(ways):
        return []
    options = list({edit.text: edit for listed in ways for edit in listed}.values())
    sets = (
        chosen
        for size in range(1, min(len(options), MOST_EDITS) + 1)
        for chosen in itertools.combinations(options, size)
    )
    good: list[Fix] = []
    for chosen in itertools.islice(sets, MOST_SETS):
        if good and len(chosen) > len(good[0].edits):
            break
        fix = checked(pattern, stream, held, chosen)
        good += [fix] if fix is not None else []
    if good:
        return sorted(good, key=lambda fix: len(fix.edits))
    first = checked(pattern, stream, held, tuple(listed[0] for listed in ways))
    return [first] if first else list(_step_by_step(pattern, stream, held, found))


def _step_by_step(
    pattern: Pattern, stream: Stream, held: Held, found: list[Blocker]
) -> Iterator[Fix]:
    """A change can bring a new blocker (a wider window, another C in it): change that, too."""
    chosen: list[Edit] = []
    changed = pattern
    while found and len(chosen) < MOST_EDITS:
        new = edits(changed, stream.schema, found[0])
        if not new:
            return
        # The last is the one that changes most: it cannot fail for the same reason again.
        edit = new[-1]
        try:
            changed = edit.change(changed)
        except PatternError:
            return
        chosen.append(edit)
        ground = Ground(changed, stream)
        judged = [blockers(ground, branch, held) for branch in _whole(ground, held)]
        if not judged:
            return
        found = min(judged, key=len)
    fix = checked(pattern, stream, held, tuple(chosen))
    if fix is not None:
        yield fix


def _whole(ground: Ground, held: Held) -> list[Any]:
    there = {name for name, bound in held.items() if bound}
    return [branch for branch in applicable(ground, held) if set(branch.by_name) == there]


def checked(pattern: Pattern, stream: Stream, held: Held, chosen: tuple[Edit, ...]) -> Fix | None:
    """The fix that these edits make, if the candidate is then really found."""
    changed = pattern
    texts = [edit.text for edit in chosen]
    try:
        for edit in chosen:
            changed = edit.change(changed)
        if Ground(changed, stream).found(held) is None:
            return None
        if not reported(changed, stream, held):
            changed = replace(changed, output="all")
            texts.append("OUTPUT all")
    except (CepError, ValueError, OverflowError):  # the change makes no legal pattern
        return None
    texts = list(dict.fromkeys(texts))
    return Fix(" and ".join(texts), changed, tuple(texts))


def reported(pattern: Pattern, stream: Stream, held: Held) -> bool:
    """Whether a match is also told where matches must not overlap, which a run must show."""
    if pattern.output == "all":
        return True
    result, _ = quietly(pattern, stream)
    return any(contains(match.bindings, held) for match in result)


# ---- the edits for each kind of blocker, the smallest first ----


def edits(pattern: Pattern, schema: Schema, blocker: Blocker) -> list[Edit]:
    """What could be changed so that this blocker goes away."""
    if blocker.kind == "window" and blocker.short_by is not None:
        window = wider(pattern.within, blocker.short_by, schema)
        return [Edit(f"WITHIN {window}", _changed(within=window))]
    if blocker.kind in ("strategy", "contiguity"):
        looser = (PARTITION, NEXT, ANY) if pattern.strategy == STRICT else (NEXT, ANY)
        return [
            _strategy(name)
            for name in looser
            if name != pattern.strategy and (name != PARTITION or pattern.same)
        ]
    if blocker.kind == "partition":
        return _without_partition(pattern, blocker.attribute)
    if blocker.kind == "negation" and blocker.negation is not None:
        variable = blocker.negation.variable
        return [
            Edit(
                f"without ~({variable.type} {variable.name})",
                lambda p: without_negation(p, variable.name),
            )
        ]
    if blocker.kind == "predicate" and blocker.conjunct is not None:
        return _relaxed(pattern, blocker)
    if blocker.kind == "overlap":
        return [Edit("OUTPUT all", _changed(output="all"))]
    return []


def _strategy(name: str) -> Edit:
    return Edit(name, _changed(strategy=name))


def _without_partition(pattern: Pattern, name: str) -> list[Edit]:
    left = tuple(attribute for attribute in pattern.same if attribute != name)
    if pattern.strategy == PARTITION and not left:
        return [
            Edit(f"without [{name}], {strategy}", _changed(same=(), strategy=strategy))
            for strategy in (NEXT, ANY)
        ]
    return [Edit(f"without [{name}]", lambda p: _without(p, name))]


def _changed(**changes: Any) -> Callable[[Pattern], Pattern]:
    return lambda pattern: replace(pattern, **changes)


def _without(pattern: Pattern, name: str) -> Pattern:
    return replace(pattern, same=tuple(known for known in pattern.same if known != name))


def _relaxed(pattern: Pattern, blocker: Blocker) -> list[Edit]:
    conjunct = blocker.conjunct
    assert conjunct is not None
    made = []
    written = _written(pattern, conjunct)
    if written is None:
        return []
    looser = relaxed(conjunct, blocker.short_by) if written == conjunct else None
    if looser is not None:
        made.append(Edit(str(looser), lambda p: _swapped(p, written, looser)))
    made.append(Edit(f"without {_bracketed(written)}", lambda p: _swapped(p, written, None)))
    return made


def _bracketed(condition: Expression) -> str:
    return f"({condition})" if isinstance(condition, Either) else str(condition)


def _written(pattern: Pattern, conjunct: Expression) -> Expression | None:
    """The condition of the pattern that a conjunct of a branch comes from: itself, or an `or` of
    which this branch has only some parts."""
    if conjunct in pattern.where:
        return conjunct
    parts = set(conjunct.parts) if isinstance(conjunct, Either) else {conjunct}
    return next((c for c in pattern.where if isinstance(c, Either) and parts <= set(c.parts)), None)


def _swapped(pattern: Pattern, old: Expression, new: Expression | None) -> Pattern:
    where = [new if condition == old else condition for condition in pattern.where]
    return replace(pattern, where=tuple(c for c in where if c is not None))


def relaxed(conjunct: Expression, gap: Any) -> Expression | None:
    """`b.price > a.price`, short by 3, as `b.price >= a.price - 3`; None where it has no such
    form."""
    if gap is None or not isinstance(conjunct, Compare) or not math.isfinite(gap):
        return None
    gap = _rounded(gap)
    if conjunct.operator in ("<", "<=", ">", ">="):
        side = ">=" if conjunct.operator[0] == ">" else "<="
        return Compare(side, conjunct.left, _shifted(conjunct.right, -gap))
    if conjunct.operator == "=" and gap:
        low, high = (_shifted(conjunct.right, by) for by in (-abs(gap), abs(gap)))
        return Between(conjunct.left, low, high)
    return None


def _rounded(gap: Any) -> Any:
    """A fraction with six digits, away from zero: 150.79999999999995 is 150.8."""
    if not isinstance(gap, float) or gap.is_integer():
        return int(gap) if abs(gap) < 2**53 else gap
    exact = Decimal(gap)
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted() - 5)), ROUND_UP))


def _shifted(node: Expression, by: Any) -> Expression:
    if not by:
        return node
    number = isinstance(node, Literal) and type(node.value) in (int, float)
    if isinstance(node, Literal) and number and node.text is None:
        return Literal(node.value + by)
    return Arithmetic("+" if by > 0 else "-", node, Literal(abs(by)))


def wider(window: Window | None, length: Any, schema: Schema) -> Window:
    """The smallest window in round words that is longer than `length`; in events, `length` is how
    many it must hold."""
    assert window is not None
    if window.in_events:
        return Window(int(length), "events")
    if not window.unit:
        if isinstance(length, int):
            return Window(length + 1)
        whole = math.floor(length) + 1
        return Window(whole if whole <= 1.02 * length else _above(length))
    known = window.unit if window.unit in UNITS else "seconds"
    for unit in UNITS[UNITS.index(known) :]:
        size = Fraction(schema.duration(1, unit))
        amount = Fraction(length) // size + 1
        if amount * size <= Fraction(length) * Fraction(51, 50) or unit == UNITS[-1]:
            return Window(int(amount), unit)
    raise AssertionError("nanoseconds are the last unit")


def _above(length: float) -> float:
    for digits in range(3, 18):
        rounded = float(f"{length * 1.005:.{digits}g}")
        if rounded > length:
            return rounded
    return math.nextafter(length, math.inf)


def without_negation(pattern: Pattern, name: str) -> Pattern:
    """The pattern without `~(T name)` and the conditions on it."""
    where = tuple(c for c in pattern.where if name not in c.variables)
    structure = _pruned(pattern.structure, name)
    if structure is None:
        raise PatternError("nothing would be left")
    return replace(pattern, structure=structure, where=where)


def _pruned(node: Structure, name: str) -> Structure | None:
    if isinstance(node, Not):
        return None if node.atom.variable == name else node
    if isinstance(node, Atom | Kleene):
        return node
    parts = tuple(part for inner in node.parts if (part := _pruned(inner, name)) is not None)
    return replace(node, parts=parts) if parts else None
