"""What every widget has: a text for the terminal, and a still page for where no kernel runs."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any

import anywidget

from cepviz.language.highlight import highlighted
from cepviz.views.replay import PLAYER_STYLE
from cepviz.views.style import stylesheet

#: The looks that all widgets share.
STYLE = stylesheet() + PLAYER_STYLE


class Shown(anywidget.AnyWidget):
    """A widget that also reads as text and as a still page.

    A notebook that was saved without its kernel, GitHub and nbconvert show the page; a terminal
    shows the text. Nothing of a widget's state needs to be stored for either.
    """

    _css = STYLE

    def text(self) -> str:
        """What the widget shows, as plain text."""
        raise NotImplementedError

    def still(self) -> str:
        """What the widget shows, as HTML that needs no script and no kernel."""
        return f"<pre>{html.escape(self.text())}</pre>"

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **keywords: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        made = super()._repr_mimebundle_(**keywords)
        data, metadata = made if isinstance(made, tuple) else (made or {}, {})
        page = f'<div class="cep cep-player">{self.still()}</div>'
        return {**data, "text/plain": self.text(), "text/html": page}, metadata


def pattern_page(text: str, lit: Iterable[tuple[int, int]] = ()) -> str:
    """The text of a pattern as a still page has it."""
    return highlighted(text, lit)


def table_page(heads: list[str], rows: list[list[str]], title: str = "") -> str:
    """A table as a still page has it."""
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    top = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table>{caption}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def counters_text(counters: Mapping[str, Any]) -> str:
    """Counters in one line."""
    return ", ".join(f"{name} {value:,}" for name, value in counters.items())
