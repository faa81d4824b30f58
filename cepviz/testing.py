"""For tests of patterns: `assert_matches`, whose failure says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cepviz.engines.base import labels_of
from cepviz.errors import CepError
from cepviz.events import Event, Stream
from cepviz.explain import why, why_not
from cepviz.explain.candidate import bound_events
from cepviz.explain.shown import count, told
from cepviz.language.build import as_pattern
from cepviz.language.chain import Chain
from cepviz.language.evaluate import Bindings
from cepviz.language.pattern import Pattern
from cepviz.matching import as_stream, match

#: Of so many missing matches, and of so many too much, it is told why.
MOST_TOLD = 3


def assert_matches(
    pattern: Any,
    stream: Any,
    expected: Iterable[Mapping[str, Any]],
    engine: str | None = None,
    **options: Any,
) -> None:
    """Fails unless a pattern has exactly these matches in a stream, in any order.

    A match is written as its variables with the ids (or labels) of their events, a list for a
    Kleene variable. The failure tells of each match that is missing why it is not one, and of
    each that is too much why it is.

    >>> rows = [{"type": "A", "time": 1, "x": 5}, {"type": "B", "time": 2, "x": 4}]
    >>> assert_matches("PATTERN SEQ(A a, B b) WITHIN 9", rows, [{"a": 0, "b": 1}])
    >>> assert_matches("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 9", rows, [{"a": 0, "b": 1}])
    Traceback (most recent call last):
    AssertionError: 1 match expected, 0 found: 1 missing.
    <BLANKLINE>
    Missing: a = e0, b = e1
      Not a match: 1 reason.
      1  predicate  b.x > a.x: 4 > 5 is false, short by 1.
      Closest: b.x >= a.x - 1 would match (checked).
           or: without b.x > a.x (checked).
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    if isinstance(pattern, Chain):
        raise CepError(
            "assert_matches takes one query: give it a query of the chain and its stream"
        )
    query, events = as_pattern(pattern), as_stream(stream)
    # Ids are looked up, so that one that is not in the stream is an error and not a difference.
    wanted = [bound_events(query, events, dict(bound))[0] for bound in expected]
    found = list(match(query, events, engine, progress=False, **options))
    bindings = [one.bindings for one in found]
    missing = [wanted[place] for place in _without(wanted, bindings)]
    extra = [found[place] for place in _without(bindings, wanted)]
    if missing or extra:
        wrong = [f"{len(missing)} missing"] if missing else []
        wrong += [f"{len(extra)} too much"] if extra else []
        lines = [f"{count(len(wanted), 'match', 'matches')} expected, {len(found):,} found: "]
        lines[0] += f"{', '.join(wrong)}."
        for number, held in enumerate(missing):
            answer = _why_missing(query, events, held) if number < MOST_TOLD else ""
            lines += ["", f"Missing: {told(held)}", *_indented(answer)]
        for number, one in enumerate(extra):
            answer = str(why(one)) if number < MOST_TOLD else ""
            lines += ["", f"Too much: {told(one.bindings)}", *_indented(answer)]
        raise AssertionError("\n".join(lines))


def _key(held: Bindings) -> tuple[Any, ...]:
    """Bindings as a value; whether a variable that is empty is named makes no difference."""
    labels = sorted((name, labels) for name, labels in labels_of(held) if labels)
    return tuple(labels)


def _without(these: Sequence[Bindings], others: Sequence[Bindings]) -> list[int]:
    """The places of those that the others do not have, as often as they do not have them."""
    left = Counter(map(_key, others))
    rest = []
    for place, one in enumerate(these):
        if left[_key(one)]:
            left[_key(one)] -= 1
        else:
            rest.append(place)
    return rest


def _why_missing(query: Pattern, events: Stream, held: Bindings) -> str:
    ids = {
        name: bound if isinstance(bound, Event) else list(bound)
        for name, bound in held.items()
        if bound != ()
    }
    return str(why_not(query, events, **ids))


def _indented(text: str) -> list[str]:
    # The line that leads on into the trace is for who has the explanation at hand.
    lines = [line for line in text.splitlines() if not line.startswith("Show:")]
    return [f"  {line}".rstrip() for line in lines]
