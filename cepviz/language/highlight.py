"""Pattern text as safe HTML: keywords, types, variables, strings, numbers and comments marked."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from cepviz.language.expressions import KEYWORDS, UNITS

#: Each kind reads on white and on #111 (at least 3:1), and none is told by its colour alone.
STYLES = {
    "keyword": "font-weight:bold;color:#0072B2",
    "type": "text-decoration:underline dotted;color:#009E73",
    "variable": "font-style:italic",
    "string": "color:#D55E00;unicode-bidi:isolate",
    "number": "color:#CC79A7",
    "comment": "font-style:italic;opacity:.75;unicode-bidi:isolate",
}
LIT = "outline:2px solid currentColor;outline-offset:1px;border-radius:2px"
PAGE = "white-space:pre-wrap;overflow-wrap:anywhere;background:none;color:inherit;margin:0"

CLAUSES = ("where", "within", "return", "output")
CONTEXT_KEYWORDS = {
    *("context", "select", "as", "from", "window", "temporal", "count", "restrict", "sequence"),
    *("klnclose", "publish", "and", "or", "not", "in", "between", "like", "true", "false"),
}
STRATEGY = r"(?:(?:strict|partition)[_-]contiguity|skip[_-]till[_-](?:next|any)[_-]match)\b"

TOKEN = re.compile(
    rf"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<string>'[^']*(?:'|\Z)|"[^"]*(?:"|\Z))
    |(?P<keyword>{STRATEGY}|non[_-]overlap\b)
    |(?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:e[+-]?\d+)?)
    |(?P<name>\$?[A-Za-z_]\w*|`[^`]*(?:`|\Z))
    |(?P<blank>\s+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")

Token = tuple[str, str]  # kind and text


def highlighted(text: str, lit: Iterable[tuple[int, int]] = ()) -> str:
    """The text of a pattern as HTML; the spans in `lit`, (start, end) in characters, outlined.

    >>> highlighted("seq")
    '<pre class="cepviz-pattern" dir="ltr" style="...">...<span ...>seq</span></pre>'
    """
    edges = _merged(lit, len(text))
    pieces = []
    at = 0
    for kind, word in classified(text):
        for part, mark in _cut(word, at, edges):
            pieces.append((kind, part, mark))
        at += len(word)
    body = []
    inside = None
    for kind, part, mark in pieces:
        if mark != inside:
            body.append("</span>" if inside is not None else "")
            body.append(f'<span class="cepviz-lit" style="{LIT}">' if mark is not None else "")
            inside = mark
        body.append(_span(kind, part))
    body.append("</span>" if inside is not None else "")
    return f'<pre class="cepviz-pattern" dir="ltr" style="{PAGE}">{"".join(body)}</pre>'


def _span(kind: str, text: str) -> str:
    shown = html.escape(HIDDEN.sub("\ufffd", text))
    if kind not in STYLES:
        return shown
    return f'<span class="cepviz-{kind}" style="{STYLES[kind]}">{shown}</span>'


def _merged(lit: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The spans in order, inside the text, overlapping ones as one."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in lit):
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        elif start < end:
            spans.append((start, end))
    return spans


def _cut(word: str, at: int, spans: list[tuple[int, int]]) -> Iterator[tuple[str, int | None]]:
    """The word in parts, each inside one lit span (its number) or outside all (None)."""
    done = at
    end = at + len(word)
    for number, (start, stop) in enumerate(spans):
        if stop <= done or start >= end:
            continue
        if start > done:
            yield word[done - at : start - at], None
            done = start
        inner = min(stop, end)
        yield word[done - at : inner - at], number
        done = inner
    if done < end:
        yield word[done - at :], None


def _tokens(text: str) -> Iterator[Token]:
    for found in TOKEN.finditer(text):
        yield str(found.lastgroup), found[0]


def classified(text: str) -> Iterator[Token]:
    """The tokens with names told apart: keywords, types and variables."""
    tokens = list(_tokens(text))
    words = [token for token in tokens if token[0] not in ("blank", "comment")]
    if words and words[0][1].lower() == "context":
        kinds = _kinds_of_context(words)
    else:
        kinds = _kinds_of_pattern(words)
    for kind, word in tokens:
        yield (kind, word) if kind in ("blank", "comment") else (next(kinds), word)


def _kinds_of_pattern(words: list[Token]) -> Iterator[str]:
    clause = ""
    declared: set[str] = set()
    before = ""  # the word before, in lower case
    depth = 0  # inside A(attr1, attr2), which only announces attributes
    previous = ""  # the kind of the word before
    for place, (kind, word) in enumerate(words):
        low = word.lower()
        after = words[place + 1][1] if place + 1 < len(words) else ""
        if kind != "name":
            if clause == "pattern" and word == "(" and previous == "type":
                depth = 1
            elif word == ")":
                depth = 0
        elif before == ".":
            kind = "attribute"
        elif _is_keyword(low, clause, before, after):
            kind = "keyword"
            clause = low if low in ("pattern", *CLAUSES) else clause
        elif clause == "pattern" and not depth:
            kind = "variable" if previous == "type" or before in ("+", "*") else "type"
            declared.add(word)
        elif clause == "return" and before == "return":
            kind = "type"
        elif word in declared and after[:1] in (".", "[", ",", ")"):
            kind = "variable"
        yield kind
        before, previous = low, kind


def _is_keyword(word: str, clause: str, before: str, after: str) -> bool:
    if word in UNITS or word in ("event", "events"):
        return bool(before) and before[-1].isdigit()
    if word == "unbounded":
        return before == "within"
    if word == "all":
        return before == "output"
    if clause == "pattern" and word in ("seq", "and", "or"):
        return after == "("
    return word in KEYWORDS


def _kinds_of_context(words: list[Token]) -> Iterator[str]:
    clause = before = ""
    for kind, word in words:
        low = word.lower()
        if kind == "name":
            if word.startswith("$"):
                kind = "variable"
            elif before == ".":
                kind = "attribute"
            elif low in CONTEXT_KEYWORDS or before == "context":
                kind = "keyword"
                clause = clause if low in KEYWORDS else low
            elif low in UNITS and before[-1:].isdigit():
                kind = "keyword"
            elif before == "<" and clause not in ("select", "as", "restrict"):
                kind = "type"
        elif word == "}":
            clause = ""
        yield kind
        before = low
