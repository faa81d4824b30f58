"""The `%%sase` cell magic: a cell of pattern text becomes a pattern with a name.

%load_ext cepviz

%%sase rising T=0.8 h="20 minutes"
PATTERN SEQ(Stock a, Stock b) WHERE a.price < T * b.price WITHIN h
"""

from __future__ import annotations

import ast
import html
import keyword
import re
from collections.abc import Mapping
from typing import Any

from cepviz.errors import CepError, PatternError
from cepviz.language.parser import parse

DEFAULT_NAME = "pattern"

#: One word of the line: `name`, `key=value`; a value may be quoted or a list with blanks.
WORD = re.compile(
    r"""\s*(?:(?P<key>\w+)\s*=\s*)?
        (?P<value>"[^"]*"|'[^']*'|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|[^\s"'\[({=]+)(?=\s|$)""",
    re.VERBOSE,
)


def read_line(line: str, known: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the parameters of a line like `q T=0.8 h="20 minutes" tickers=chosen`.

    A parameter is a Python value, or the name of one in `known`.
    """
    name = DEFAULT_NAME
    values: dict[str, Any] = {}
    line = line.strip()
    at = 0
    while at < len(line):
        found = WORD.match(line, at)
        if found is None:
            raise PatternError(_usage(line[at:].strip()))
        key, value = found["key"], found["value"]
        if key is not None:
            values[key] = _value(key, value, known)
        elif at == 0 and value.isidentifier() and not keyword.iskeyword(value):
            name = value
        else:
            raise PatternError(_usage(value))
        at = found.end()
    return name, values


def _usage(word: str) -> str:
    return (
        f"%%sase does not understand {word!r}: its line is a name and parameters, "
        'as in %%sase rising T=0.8 h="20 minutes"'
    )


def _value(key: str, text: str, known: Mapping[str, Any]) -> Any:
    if text.isidentifier() and text in known:
        return known[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise PatternError(
            f"{key}={text}: {text} is neither a Python value nor a variable of the notebook; "
            f"write {key}='{text}' if it is text"
        ) from None


def _shown(pattern: Any, warnings: list[str]) -> dict[str, str]:
    """The pattern and its warnings, as a notebook and a terminal show them."""
    bundle: dict[str, str] = dict(pattern._repr_mimebundle_())
    for warning in warnings:
        bundle["text/plain"] += f"\nwarning: {warning}"
        bundle["text/html"] += f"<div><b>warning:</b> {html.escape(warning)}</div>"
    return bundle


def load_ipython_extension(ipython: Any) -> None:
    """Makes `%%sase` known to a notebook; `%load_ext cepviz` calls this."""

    def sase(line: str, cell: str) -> None:
        """Reads the cell as a pattern, shows it, and assigns it to the name in the line.

        Parameters follow the name: `%%sase rising T=0.8 h="20 minutes"`.
        """
        try:
            name, values = read_line(line, ipython.user_ns)
            pattern = parse(cell.rstrip(), **values)
        except CepError as error:
            # The cell fails, so that what follows it does not run with an older pattern; and
            # what it says is the error alone, without the traceback of our parser.
            said = f"{type(error).__name__}: {error}".split("\n")
            error._render_traceback_ = lambda: said  # type: ignore[attr-defined]
            raise
        ipython.user_ns[name] = pattern
        ipython.display_pub.publish(_shown(pattern, pattern.warnings()))

    ipython.register_magic_function(sase, "cell", "sase")
