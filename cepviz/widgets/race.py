"""Engines on one stream, live: how far each is, and what it has counted until then."""

from __future__ import annotations

import asyncio
import html
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import traitlets

from cepviz.engines.base import Engine, Match
from cepviz.engines.registry import ENGINES, engine_class, refusal
from cepviz.errors import BudgetError, CepError
from cepviz.events import Stream
from cepviz.language.build import as_pattern
from cepviz.language.highlight import classified
from cepviz.matching import as_stream
from cepviz.views.replay import script
from cepviz.widgets.shown import Shown, pattern_page, table_page

#: How long each engine works before the next has its turn, and before the notebook has its.
TURN, REST = 0.015, 0.02

COLUMNS = ("evaluations", "peak_runs", "peak_buffered", "matches")


class Runner:
    """One engine in the race: its place in the stream, its matches and the time it took."""

    def __init__(self, name: str, pattern: Any, stream: Stream, budget: Any):
        self.name = name
        self.stream = stream
        chosen = engine_class(name, pattern, bool((stream.starts != stream.ends).any()))
        plan = chosen.planned(pattern, stream.counts())
        self.engine: Engine = chosen(pattern, plan, schema=stream.schema, budget=budget)
        self.matches: list[Match] = []
        self.seconds = 0.0
        self.place = 0
        self.state = "ready"
        self._events = iter(stream)

    def work(self, seconds: float) -> None:
        """Reads events until the time is over, at least one."""
        started = time.perf_counter()
        self.state = "running"
        try:
            while self.state == "running":
                event = next(self._events, None)
                if event is None:
                    self.matches += self.engine.flush()
                    self.state = "done"
                else:
                    self.matches += self.engine.push(event)
                    self.place += 1
                if time.perf_counter() - started > seconds:
                    break
        except BudgetError as error:
            self.matches += self.engine.out
            self.state = f"stopped: {error}"
        self.seconds += time.perf_counter() - started

    @property
    def over(self) -> bool:
        return self.state not in ("ready", "running")

    def row(self) -> dict[str, Any]:
        """How it stands, as plain data."""
        counted = self.engine.counters.as_dict()
        return {
            "name": self.name,
            "state": self.state,
            "events": self.place,
            "seconds": round(self.seconds, 3),
            **{column: counted[column] for column in COLUMNS},
        }


class Race(Shown):
    """Engines race on the same pattern and stream, each with the same share of the processor.

    `engines` are names from `cep.engines()`; by default all that take the pattern, but for the
    brute force `naive`. Press start, or call `run()` to have it over at once. `rows` is how they
    stand.

    >>> import cepviz as cep
    >>> rows = [{"type": t, "time": n} for n, t in enumerate("AABC" * 5)]
    >>> race = cep.Race("PATTERN SEQ(A a, B b, C c) WITHIN 8", rows, ["eager", "lazy_chain"])
    >>> race.run()
    >>> [(row["name"], row["matches"]) for row in race.rows]
    [('eager', 26), ('lazy_chain', 26)]
    >>> race.verdict
    'All found the same 26 matches.'
    """

    _esm = script("panel.js") + Path(__file__).with_name("race.js").read_text(encoding="utf-8")
    rows: Any = traitlets.List().tag(sync=True)
    total = traitlets.Int(0).tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    verdict = traitlets.Unicode("").tag(sync=True)
    pattern_words: Any = traitlets.List().tag(sync=True)

    def __init__(
        self, pattern: Any, stream: Any, engines: Sequence[str] | None = None, *, budget: Any = None
    ):
        self.pattern, self.stream = as_pattern(pattern), as_stream(stream)
        intervals = bool((self.stream.starts != self.stream.ends).any())
        if engines is None:
            engines = [
                name
                for name, engine in ENGINES.items()
                if name != "naive" and refusal(engine, self.pattern, intervals, watch=True) is None
            ] or ["naive"]
        self.names = list(engines)
        self.budget = budget
        self._task: asyncio.Task[None] | None = None
        words = [[kind, word] for kind, word in classified(str(self.pattern))]
        super().__init__(total=len(self.stream), pattern_words=words)
        self.on_msg(self._told)
        self.again()

    def again(self) -> None:
        """Back to the start."""
        self.pause()
        self._runners = [
            Runner(name, self.pattern, self.stream, self.budget) for name in self.names
        ]
        self.verdict = ""
        self._show()

    def start(self) -> None:
        """Lets them run, while the notebook goes on."""
        if all(runner.over for runner in self._runners):
            self.again()
        if self.running:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise CepError("there is no notebook to run in: race.run() runs to the end") from None
        self.running = True
        self._task = loop.create_task(self._go())

    def pause(self) -> None:
        """Stops them where they are."""
        self.running = False

    def run(self) -> None:
        """Runs to the end."""
        self.pause()
        while not all(runner.over for runner in self._runners):
            self._turn()
        self._show()

    async def _go(self) -> None:
        while self.running and not all(runner.over for runner in self._runners):
            self._turn()
            self._show()
            await asyncio.sleep(REST)
        self.running = False

    def _turn(self) -> None:
        for runner in self._runners:
            if not runner.over:
                runner.work(TURN)

    def _show(self) -> None:
        self.rows = [runner.row() for runner in self._runners]
        if all(runner.over for runner in self._runners):
            self.verdict = self._judged()

    def _judged(self) -> str:
        """Whether all found the same."""
        done = [runner for runner in self._runners if runner.state == "done"]
        if len(done) < len(self._runners):
            stopped = [runner.name for runner in self._runners if runner.state != "done"]
            return f"{', '.join(stopped)} did not come to the end."
        found = [
            Counter(match.key for match in runner.engine.collected(runner.matches))
            for runner in done
        ]
        if any(keys != found[0] for keys in found):
            return "They did not find the same matches: one of these engines is wrong."
        return f"All found the same {sum(found[0].values()):,} matches."

    def _told(self, _: Any, content: Any, buffers: Any) -> None:
        acts = {"start": self.start, "pause": self.pause, "again": self.again}
        act = content.get("do") if isinstance(content, dict) else None
        if act in acts:
            acts[act]()

    # ---- without a kernel ----

    def _cells(self) -> list[list[str]]:
        return [
            [row["name"], f"{row['events']:,} of {self.total:,}", f"{row['seconds']:.2f} s",
             *(f"{row[column]:,}" for column in COLUMNS), row["state"]]
            for row in self.rows
        ]  # fmt: skip

    def text(self) -> str:
        heads = ["engine", "events", "time", *(c.replace("_", " ") for c in COLUMNS), "state"]
        lines = [heads, *self._cells()]
        widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
        told = ["  ".join(f"{cell:{w}}" for cell, w in zip(line, widths, strict=True)).rstrip()
                for line in lines]  # fmt: skip
        return "\n".join([*told, *([self.verdict] if self.verdict else [])])

    def still(self) -> str:
        heads = ["engine", "events", "time", *(c.replace("_", " ") for c in COLUMNS), "state"]
        told = f"<p>{html.escape(self.verdict)}</p>" if self.verdict else ""
        return pattern_page(str(self.pattern)) + table_page(heads, self._cells()) + told
