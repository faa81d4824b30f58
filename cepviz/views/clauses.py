"""Which part of a pattern's text a step is about: what a player lights."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cepviz.language.highlight import classified
from cepviz.steps import Arrive, Drop, Move, Prune, Put, Spawn, Step, Test
from cepviz.trace import Trace

Span = tuple[int, int]

#: What `[symbol]` stands for on an edge: `b.symbol = a[1].symbol`.
SAME = re.compile(r"\S+\.(`[^`]+`|\w+) = \S+\.(`[^`]+`|\w+)$")


class Clauses:
    """The places in the text of a pattern: its components, conditions, strategy and window.

    >>> trace = Trace(pattern="PATTERN SEQ(A a, B b)\\nWHERE [x]\\n  and a.y > 1\\nWITHIN 9")
    >>> trace(Arrive("e0", "A", "1"))
    >>> trace(Test("1", "e1", "q", "take b", "take", (), True))
    >>> [trace.pattern[start:end] for start, end in Clauses(trace).of(trace[0])]
    ['A a']
    >>> [trace.pattern[start:end] for start, end in Clauses(trace).of(trace[1])]
    ['B b']
    """

    def __init__(self, trace: Trace):
        self.text = trace.pattern
        self.variables = {edge.name: edge.variable for edge in trace.graph.edges}
        self.components: dict[str, Span] = {}
        self.types: dict[str, list[Span]] = {}
        self.strategy: list[Span] = []
        self.window: list[Span] = []
        self._read()

    def _read(self) -> None:
        at = 0
        opened: tuple[str, int] | None = None  # a type whose variable has not come yet
        clause = "pattern"
        for kind, word in classified(self.text):
            end = at + len(word)
            low = word.lower()
            if kind == "keyword" and low in ("where", "within", "return", "output"):
                clause = low
                if low == "within":
                    stop = self.text.find("\n", at)
                    self.window = [(at, stop if stop >= 0 else len(self.text))]
            elif kind == "keyword" and ("contiguity" in low or low.startswith("skip")):
                self.strategy = [(at, end)]
            elif clause == "pattern" and kind == "type":
                opened = (word.strip("`"), at)
            elif clause == "pattern" and kind == "variable" and opened:
                end += 2 if self.text.startswith("[]", end) else 0
                span = (opened[1], end)
                self.components[word.strip("`")] = span
                self.types.setdefault(opened[0], []).append(span)
                opened, end = None, at + len(word)
            at = end

    def of(self, step: Step) -> list[Span]:
        """The spans of the text that a step is about."""
        match step:
            case Arrive():
                return self.types.get(step.type, [])
            case Test():
                found = [span for test in step.tests for span in self._condition(test.text)]
                return sorted(set(found)) or self._component(step.edge)
            case Move():
                return self._component(step.edge)
            case Put() | Prune():
                name = step.buffer.partition("[")[0]
                return [self.components[name]] if name in self.components else []
            case Spawn():
                return self.strategy
            case Drop(reason="window"):
                return self.window
            case Drop(reason="contiguity"):
                return self.strategy
            case Drop(reason="negation"):
                return list(self._negated(step))
        return []

    def _component(self, edge: str) -> list[Span]:
        names = self.variables.get(edge, "").split(", ")
        words = names if any(names) else re.split(r"[ (),]|\[.*?\]", edge)[1:]
        return [self.components[name] for name in words if name in self.components]

    def _condition(self, text: str) -> Iterator[Span]:
        found = SAME.match(text)
        wanted = text if text in self.text else f"[{found[1]}]" if found else text
        at = self.text.find(wanted)
        if at >= 0:
            yield at, at + len(wanted)

    def _negated(self, step: Drop) -> Iterator[Span]:
        for name, (start, end) in self.components.items():
            if self.text[:start].endswith(("~(", "NOT(")) and f" is a {name} " in step.detail:
                yield start, end
