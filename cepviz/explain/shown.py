"""What every explanation has: a text for the terminal, a page for the notebook, a table."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cepviz.engines.base import labels_of
from cepviz.events import Event
from cepviz.language.evaluate import Bindings

Table = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]  # title, heads, rows


class Explanation:
    """An answer that reads as text, shows as HTML and can be a DataFrame.

    A subclass gives its first `lines` and its `tables`; both forms are made of them. It may have
    a `picture`, which the HTML shows between them.
    """

    def lines(self) -> list[str]:
        """The answer in sentences, one a line."""
        raise NotImplementedError

    def tables(self) -> list[Table]:
        """What stands below the sentences: each table with a title, heads and rows."""
        return []

    def picture(self) -> Any:
        """The answer as a picture (a `Scene`); None where it has none."""
        return None

    def text(self) -> str:
        """The whole answer as plain text, as a terminal prints it."""
        parts = list(self.lines())
        for title, heads, rows in self.tables():
            parts += ["", *([title] if title else []), *_aligned([heads, *rows])]
        return "\n".join(map(printable, parts))

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        # No colours of its own: the tables take the notebook's, light or dark.
        style = "style='background:inherit;color:inherit;text-align:left;padding:2px 8px'"
        said = "".join(f"<div dir='auto'>{_escaped(line)}</div>" for line in self.lines())
        picture = self.picture()
        if picture is not None:
            said += picture._repr_mimebundle_()["text/html"]
        for title, heads, rows in self.tables():
            head = "".join(f"<th {style}>{_escaped(name)}</th>" for name in heads)
            body = "".join(
                "<tr style='background:inherit'>"
                + "".join(f"<td dir='auto' {style}>{_escaped(cell)}</td>" for cell in row)
                + "</tr>"
                for row in rows
            )
            said += f"<div><b>{_escaped(title)}</b></div>" if title else ""
            said += f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return {"text/plain": self.text(), "text/html": f"<div class='cepviz-explain'>{said}</div>"}


def view(module: str, name: str) -> Any:
    """A view by name: views stand above explanations, so they are looked up when asked for."""
    return getattr(importlib.import_module(f"cepviz.views.{module}"), name)


def printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    widths[-1] = 0
    return [
        "  "
        + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def count(number: int, word: str, many: str = "") -> str:
    """`1 match`, `3 matches`."""
    return f"{number:,} {word if number == 1 else many or f'{word}s'}"


def told(bindings: Bindings) -> str:
    """`a = e1 e2, b = e5`."""
    return ", ".join(
        f"{name} = {' '.join(labels) or 'nothing'}" for name, labels in labels_of(bindings)
    )


def events_in(bound: Event | tuple[Event, ...]) -> tuple[Event, ...]:
    """The events of a variable, whether it is one or a list."""
    return (bound,) if isinstance(bound, Event) else bound


def role(bindings: Bindings, event: Event) -> str:
    """What an event stands for: `b`, or `a[2]` for the second of a list."""
    for name, bound in bindings.items():
        if isinstance(bound, Event):
            if bound == event:
                return name
        elif event in bound:
            return f"{name}[{list(bound).index(event) + 1}]"
    return ""


def cut(items: Iterable[str], most: int = 5) -> str:
    """The first few of many: `e1 e2 e3 and 7 more`."""
    listed = list(items)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return " ".join(listed[:most]) + more


def frame(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """A DataFrame of these columns."""
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns))
