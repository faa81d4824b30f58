"""Exercises that grade themselves: a check computes the right answer, it is written nowhere.

An answer that is still `...` is nobody's: the check then says what to do and nothing fails.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepviz.errors import CepError
from cepviz.testing import assert_matches

SIGNS = {"open": "✎ Your turn.", "right": "✔ Right.", "wrong": "✘ Not yet."}


@dataclass(frozen=True)
class Grade:
    """What a check says of an answer: `open`, `right` or `wrong`, and why."""

    state: str
    text: str = ""

    def __bool__(self) -> bool:
        return self.state == "right"

    def __repr__(self) -> str:
        return f"{SIGNS[self.state]} {self.text}".rstrip()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        said = f"<b>{SIGNS[self.state]}</b> {html.escape(self.text)}"
        page = f'<div style="white-space:pre-wrap;font-family:inherit">{said}</div>'
        return {"text/plain": repr(self), "text/html": page}


def check(answer: Any, compute: Callable[[], Any], why: Callable[[Any], str] | str = "") -> Grade:
    """Grades a value: right if it is what `compute` gives.

    `why` is said with a right answer: a sentence, or a function that makes one of the value.

    >>> check(..., lambda: 3)
    ✎ Your turn. Replace the ... and run the cell again.
    >>> check(3, lambda: 1 + 2, "One and two make three.")
    ✔ Right. One and two make three.
    >>> check(4, lambda: 1 + 2)
    ✘ Not yet. 4 is not it.
    """
    if _unanswered(answer):
        return Grade("open", "Replace the ... and run the cell again.")
    right = compute()
    if _plain(answer) == _plain(right):
        return Grade("right", why(right) if callable(why) else why)
    return Grade("wrong", f"{answer!r} is not it.")


def check_pattern(
    pattern: Any,
    wanted: Callable[[Any], Iterable[Mapping[str, Any]]],
    streams: Sequence[Any],
) -> Grade:
    """Grades a pattern: right if on every stream it has exactly the matches that are `wanted`.

    `wanted` computes them from the stream in another way, each as variables with event ids. What
    is missing or too much is explained.

    >>> import cepviz as cep
    >>> rows = [{"type": t, "time": n} for n, t in enumerate("ABCB")]
    >>> def wanted(stream):
    ...     return [{"a": a.id, "b": b.id} for a in stream for b in stream
    ...             if a.type == "A" and b.type == "B" and a.time < b.time]
    >>> check_pattern("PATTERN SEQ(A a, B b) WITHIN 9", wanted, [cep.Stream.from_records(rows)])
    ✔ Right. It finds what it should on 1 stream: 2 matches.
    >>> check_pattern("PATTERN SEQ(A a, B b) WITHIN 2", wanted, [cep.Stream.from_records(rows)])
    ✘ Not yet. 2 matches expected, 1 found: 1 missing.
    ...
    """
    if _unanswered(pattern):
        return Grade("open", "Write the pattern where the ... is and run the cell again.")
    total = 0
    for stream in streams:
        expected = list(wanted(stream))
        total += len(expected)
        try:
            assert_matches(pattern, stream, expected)
        except (AssertionError, CepError) as error:
            return Grade("wrong", str(error))
    many = "" if len(streams) == 1 else "s"
    matches = f"{total:,} match{'' if total == 1 else 'es'}"
    return Grade("right", f"It finds what it should on {len(streams):,} stream{many}: {matches}.")


def _unanswered(answer: Any) -> bool:
    if isinstance(answer, list | tuple):
        return any(part is ... for part in answer)
    return answer is ... or (isinstance(answer, str) and not answer.strip(" .\n"))


def _plain(value: Any) -> Any:
    """Lists and tuples compare by what they hold."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value
