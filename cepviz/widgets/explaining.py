"""The matches of a result: why each is one, why others are not, and the fix as a button."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import traitlets

from cepviz.engines.base import labels_of
from cepviz.errors import CepError
from cepviz.explain import why, why_not
from cepviz.explain.running import quietly
from cepviz.explain.shown import Explanation, count
from cepviz.language.highlight import classified
from cepviz.matching import Result
from cepviz.trace import Trace
from cepviz.views.film import Film, head, still_part
from cepviz.widgets.player import SCRIPT, Films
from cepviz.widgets.shown import pattern_page, table_page

HERE = Path(__file__)
FORM = SCRIPT + HERE.with_name("form.js").read_text(encoding="utf-8")

#: How many matches the table lists, and how many events a field proposes.
MOST_ROWS, MOST_LABELS = 200, 300


def answer_data(answer: Explanation) -> dict[str, Any]:
    """An explanation as plain data, without the line that leads on: the player is below it."""
    tables = [
        {"title": title, "heads": list(heads), "rows": [list(row) for row in rows]}
        for title, heads, rows in answer.tables()
    ]
    lines = [line for line in answer.lines() if not line.startswith("Show:")]
    picture = answer.picture()
    drawn = None if picture is None else still_part([("", picture)])
    return {"lines": lines, "tables": tables, "picture": drawn}


class Explain(Films):
    """Explains a result: click a match for its why and its player, pick events for a why-not.

    Fixes that `why_not` has checked are buttons; applying one matches again with the changed
    pattern. The same from Python: `why(number)`, `why_not(a=..., b=...)`, `apply()`, `back()`;
    `answer` is the last explanation, `result` the result of the pattern as it is now.

    >>> import cepviz as cep
    >>> rows = [{"type": "A", "time": 0, "x": 5}, {"type": "B", "time": 9, "x": 4}]
    >>> explain = cep.Explain(cep.match("PATTERN SEQ(A a, B b) WHERE b.x > a.x WITHIN 20", rows))
    >>> print(explain.why_not(a=0, b=1).lines()[1])
    1  predicate  b.x > a.x: 4 > 5 is false, short by 1.
    >>> explain.apply()
    >>> [match.ids for match in explain.result]
    [{'a': 0, 'b': 1}]
    """

    _esm = FORM + HERE.with_name("explaining.js").read_text(encoding="utf-8")
    _state = traitlets.Dict().tag(sync=True)

    def __init__(self, result: Result):
        if not isinstance(result, Result):
            raise CepError(f"Explain takes a result of cep.match, not a {type(result).__name__}")
        self.first = self.result = result
        self.answer: Explanation
        self._said = ""
        self._chosen: int | None = None
        self._picked: dict[str, str] = {}
        empty = Film(Trace())
        super().__init__([empty], head(empty))
        self.on_msg(self._told)
        self._begin()

    def _begin(self) -> None:
        if len(self.result):
            self.why(0)
        else:
            self.why_not()

    # ---- what one can ask ----

    def why(self, number: int) -> Explanation:
        """Why match `number`, counted from 0, is one."""
        self._chosen = number
        self.answer = story = why(self.result[number])
        self._watch(story.trace, story.step)
        return story

    def why_not(self, **bindings: Any) -> Explanation:
        """Why these events are not a match; without any, where the candidates get lost."""
        self._chosen = None
        self.answer = verdict = why_not(self.result.pattern, self.result.stream, **bindings)
        self._watch(verdict.trace, getattr(verdict, "step", 0) or 0)
        return verdict

    def apply(self, number: int = 0) -> None:
        """Changes the pattern as a fix of the last why-not says, and matches again."""
        fixes = getattr(self.answer, "fixes", [])
        if not 0 <= number < len(fixes):
            raise CepError("there is no fix to apply: ask why_not for events that do not match")
        before, fix = len(self.result), fixes[number]
        self.result, stopped = quietly(fix.pattern, self.result.stream)
        self._said = f"Applied: {fix.text}. {count(len(self.result), 'match', 'matches')} now, "
        self._said += f"{before:,} before.{' A budget ended it early.' if stopped else ''}"
        known = {match.key for match in self.first}
        new = [n for n, match in enumerate(self.result) if match.key not in known]
        self.why(new[0]) if new else self._begin()

    def back(self) -> None:
        """Back to the pattern it began with."""
        self.result, self._said = self.first, ""
        self._begin()

    def _watch(self, trace: Trace, step: int) -> None:
        film = Film(trace)
        self._play([film], head(film), step)
        self._show()

    # ---- the form ----

    def _show(self) -> None:
        pattern, stream = self.result.pattern, self.result.stream
        known: dict[str, list[list[str]]] = {}
        for event in stream[: MOST_LABELS * 10]:
            listed = known.setdefault(event.type, [])
            if len(listed) < MOST_LABELS:
                listed.append([event.label, repr(event)])
        names = [v for v in pattern.variables.values() if not v.negated]
        before = {match.key for match in self.first} if self.result is not self.first else set()
        heads, rows = self._rows()
        self._state = {
            "id": self.model_id,
            "pattern": [[kind, word] for kind, word in classified(str(pattern))],
            "summary": self._summary(),
            "heads": heads,
            "matches": [
                {"cells": cells, "isNew": bool(before) and match.key not in before}
                for cells, match in zip(rows, self.result[:MOST_ROWS], strict=True)
            ],
            "chosen": self._chosen,
            "variables": [
                {
                    "name": variable.name,
                    "kleene": variable.kleene,
                    "labels": known.get(variable.type, []),
                    "value": self._picked.get(variable.name, ""),
                }
                for variable in names
            ],
            "answer": answer_data(self.answer),
            "fixes": [fix.text for fix in getattr(self.answer, "fixes", [])[:3]],
            "changed": self.result is not self.first,
            "said": self._said,
        }

    def _summary(self) -> str:
        found = len(self.result)
        more = f", the first {MOST_ROWS} listed" if found > MOST_ROWS else ""
        return (
            f"{count(found, 'match', 'matches')} in {count(len(self.result.stream), 'event')}{more}"
        )

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        names = [v.name for v in self.result.pattern.variables.values() if not v.negated]
        time = self.result.stream.schema.format_time
        rows = []
        for number, match in enumerate(self.result[:MOST_ROWS], 1):
            labels = dict(labels_of(match.bindings))
            bound = [" ".join(labels.get(name, ())) for name in names]
            rows.append([f"#{number}", *bound, time(match.first), time(match.last)])
        return ["match", *names, "from", "to"], rows

    def _told(self, _: Any, content: Any, buffers: Any) -> None:
        act = content.get("do") if isinstance(content, dict) else None
        try:
            if act == "match":
                self.why(int(content["number"]))
            elif act == "why_not":
                self._picked = {str(n): str(v) for n, v in content["picks"].items()}
                self.why_not(**self._bound(self._picked))
            elif act == "fix":
                self.apply(int(content["number"]))
            elif act == "back":
                self.back()
        except (CepError, KeyError, IndexError, ValueError) as error:
            self._said = str(error)
            self._show()
            self._said = ""

    def _bound(self, picks: dict[str, str]) -> dict[str, Any]:
        bound: dict[str, Any] = {}
        for name, text in picks.items():
            variable = self.result.pattern.variables[name]
            if text.strip():
                words = text.replace(",", " ").split()
                bound[name] = words if variable.kleene else text.strip()
        return bound

    # ---- without a kernel ----

    def text(self) -> str:
        heads, rows = self._rows()
        told = [self._summary(), str(self.result.pattern), ""]
        told += ["  ".join(cells) for cells in [heads, *rows]]
        return "\n".join([*told, "", self.answer.text()])

    def still(self) -> str:
        heads, rows = self._rows()
        answer = self.answer._repr_mimebundle_()["text/html"]
        said = f"<p>{html.escape(self._said)}</p>" if self._said else ""
        return (
            pattern_page(str(self.result.pattern))
            + table_page(heads, rows, self._summary())
            + said
            + answer
        )
