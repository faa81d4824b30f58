"""The errors cepviz raises: each says what is wrong, where, and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class CepError(Exception):
    """Anything cepviz refuses or cannot do; catch this to catch them all."""


class CepWarning(UserWarning):
    """Something legal that is probably not what was meant."""


class PatternError(CepError, ValueError):
    """A pattern that cannot be read or does not make sense, with the place in its text.

    `place` is (line, column, width), counted from 1; `expected` lists what would have been right.
    """

    def __init__(
        self,
        message: str,
        *,
        place: tuple[int, int, int] | None = None,
        text: str | None = None,
        expected: Iterable[str] = (),
    ):
        self.message = message
        self.place = place
        self.text = text
        self.expected = tuple(expected)
        super().__init__(self._render())

    @property
    def line(self) -> int | None:
        return self.place[0] if self.place else None

    @property
    def column(self) -> int | None:
        return self.place[1] if self.place else None

    def within(self, text: str) -> PatternError:
        """The same error, shown with a caret in the text it is about."""
        if self.text is not None or self.place is None:
            return self
        return PatternError(self.message, place=self.place, text=text, expected=self.expected)

    def _render(self) -> str:
        expected = f"\nexpected {one_of(self.expected)}" if self.expected else ""
        if self.text is None or self.place is None:
            return self.message + expected
        line, column, width = self.place
        lines = self.text.split("\n")
        # A caret only lines up if tabs above it are as wide as the blanks below them.
        shown = lines[min(line, len(lines)) - 1].replace("\t", " ")
        start = max(0, column - 1 - 60)  # of a very long line, the part around the place
        piece = shown[start : column - 1 + 60]
        carets = "^" * max(1, min(width, len(piece) - (column - 1 - start)))
        return (
            f"line {line}, column {column}: {self.message}\n"
            f"  {piece}\n  {' ' * (column - 1 - start)}{carets}{expected}"
        )


class StreamError(CepError, ValueError):
    """Events that cannot be read, with the row, the column and the fix."""

    def __init__(self, message: str, *, row: int | None = None, column: str | None = None):
        self.row = row
        self.column = column
        super().__init__(message)


class UnsupportedError(CepError, ValueError):
    """A pattern or stream that this engine does not take; the message names one that does."""


class PlanError(CepError, ValueError):
    """A plan that does not fit its pattern."""


class TraceError(CepError, ValueError):
    """A trace file that cannot be read."""


class SetupError(CepError, RuntimeError):
    """Something the machine lacks (Java, a layout engine), with the ways to get it."""


class PredicateError(CepError, ArithmeticError):
    """A predicate that could not be computed for an event: a division by zero, a wrong type."""


class BudgetError(CepError, RuntimeError):
    """A run that reached a limit; `result` holds every match found until then."""

    def __init__(self, message: str, *, limit: str = "", result: Any = None, trace: Any = None):
        self.limit = limit
        self.result = result
        self.trace = trace
        super().__init__(message)


def one_of(names: Iterable[str]) -> str:
    """`a, b or c`, for error messages."""
    listed = list(names)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'price'?)` where a known name is near, otherwise nothing."""
    options = {option.lower(): option for option in known}
    near = difflib.get_close_matches(name.lower(), options, n=1, cutoff=0.6)
    return f" (did you mean '{options[near[0]]}'?)" if near else ""
