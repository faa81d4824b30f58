"""The adaptivity lab: turn a rate or a selectivity, and see the plan adapt."""

from __future__ import annotations

import asyncio
import html
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import traitlets

from cepviz.adapting import POLICIES
from cepviz.engines.adaptive import Adaptive, Decision
from cepviz.engines.registry import refusal
from cepviz.errors import CepError, UnsupportedError, did_you_mean
from cepviz.events import Event, Schema
from cepviz.explain.shown import count
from cepviz.language.build import as_pattern
from cepviz.language.highlight import classified
from cepviz.language.pattern import Pattern
from cepviz.language.resolve import window_size
from cepviz.plans.cost import Memo, expected
from cepviz.plans.policies import Invariant
from cepviz.plans.statistics import Statistics
from cepviz.steps import Check, Replan, estimate
from cepviz.trace import Trace
from cepviz.views.costs import costs
from cepviz.views.film import still_part
from cepviz.views.invariants import invariants
from cepviz.views.plan import plan as plan_picture
from cepviz.views.replay import script
from cepviz.views.scene import Scene
from cepviz.widgets.shown import Shown, pattern_page, table_page
from cepviz.widgets.sources import placed, source_of

DEFAULT = """PATTERN SEQ(A a, B b, C c)
WHERE a.x < b.x and b.y < c.y
WITHIN 10 minutes"""

#: How long the engines work before the notebook has its turn, and how long that is.
TURN, REST = 0.04, 0.01

#: How many values of a slider are tried to find where an invariant breaks.
TRIED = 80

HEADS = ("policy", "matches", "evaluations per event", "checks", "replans", "for nothing",
         "time on decisions")  # fmt: skip


class Lane:
    """One policy at work: its engine, and what it cost in each part of the stream."""

    def __init__(self, policy: str, pattern: Pattern, keywords: Mapping[str, Any]):
        self.engine = Adaptive(pattern, policy=policy, **keywords)
        self.name = str(self.engine.policy)
        self.found: Counter[Any] = Counter()
        self.costs: list[tuple[float, float]] = []
        self.replans: list[float] = []
        self.seconds = 0.0
        self._before = (0, 0, 0)

    def push(self, event: Event) -> None:
        started = time.perf_counter()
        found = self.engine.push(event)
        self.seconds += time.perf_counter() - started
        self.found.update(match.key for match in found)

    def close(self) -> tuple[float, float]:
        """Ends a part of the stream: evaluations and new partial matches per event in it."""
        counters = self.engine.counters
        now = (counters.events, counters.evaluations, counters.runs)
        events, evaluations, runs = (b - a for a, b in zip(self._before, now, strict=True))
        self._before = now
        each = evaluations / max(1, events)
        if not self.costs:
            self.costs.append((0, each))
        self.costs.append((counters.events, each))
        self.replans = [float(d.position + 1) for d in self.engine.decisions if _changed(d)]
        return each, runs / max(1, events)

    def row(self) -> list[str]:
        engine = self.engine
        overhead = (engine.deciding + engine.planning) / self.seconds if self.seconds else 0.0
        each = engine.counters.evaluations / max(1, engine.counters.events)
        return [
            self.name, f"{sum(self.found.values()):,}", estimate(each), f"{engine.checks:,}",
            f"{engine.outcomes['replanned']:,}", f"{engine.outcomes['same']:,}", f"{overhead:.1%}",
        ]  # fmt: skip


def _changed(decision: Decision) -> bool:
    return decision.before != decision.after


class AdaptLab(Shown):
    """A lab for plans that adapt: a slider for each rate and selectivity, policies side by side.

    While a slider is dragged, the invariants of the plan in use show what would become of them, and
    a red notch marks the value at which one breaks. When it is released, events are drawn at these
    rates, all policies read them, and the plan may be replaced. The source is a generator that
    suits the pattern, a stream or DataFrame, a Spark DataFrame, or a function of rates,
    selectivities and a seed. From Python: `set(**{...})` or `set({"rate(C)": 30})`, `play(script)`.

    >>> lab = AdaptLab()
    >>> print(lab.plan)
    c, b, a
    >>> lab.set({"rate(C)": 60})
    >>> print(lab.plan)
    b, a, c
    >>> lab.same_matches
    True
    """

    _esm = script("panel.js") + Path(__file__).with_name("adaptlab.js").read_text(encoding="utf-8")
    _state: Any = traitlets.Dict().tag(sync=True)
    _live: Any = traitlets.Dict().tag(sync=True)
    values: Any = traitlets.Dict().tag(sync=True)
    busy = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        pattern: Any = DEFAULT,
        source: Any = None,
        *,
        rates: Mapping[str, float] | None = None,
        planner: str = "greedy",
        policies: Sequence[str] = POLICIES,
        every: int = 32,
        windows: float = 8,
    ):
        self.pattern = as_pattern(pattern)
        reason = refusal(Adaptive, self.pattern)
        if reason is not None:
            raise UnsupportedError(f"plans cannot adapt here: {reason}.")
        self.windows = windows
        self.source = source_of(source, self.pattern, rates, windows)
        first = Statistics(self.source.rates, self.source.selectivities)
        self._names = [name for name, _ in first.values()]
        self._tops = {name: _top(name, value, first) for name, value in first.values()}
        self._options = {"planner": planner, "every": every, "windows": windows}
        self._policies = list(policies)
        self._first = first
        self._task: asyncio.Task[None] | None = None
        self._next: list[dict[str, float]] = []
        super().__init__(values=dict(first.values()))
        self.on_msg(self._told)
        self.again()

    def again(self) -> None:
        """Back to the start: the values it began with, and nothing read yet."""
        self._next.clear()
        self._clock, self._number, self._drawn = 0.0, 0, 0
        self._actual = 0.0
        self._schema: Schema | None = None
        self.lanes: list[Lane] = []
        self._begin(Schema())
        self.values = dict(self._first.values())
        self._show()

    def _begin(self, schema: Schema) -> None:
        keywords = {**self._options, "statistics": self._first, "schema": schema}
        self.lanes = [Lane(policy, self.pattern, keywords) for policy in self._policies]

    # ---- what is known ----

    @property
    def watched(self) -> Lane:
        """The lane whose plan and invariants are shown: the first that watches invariants."""
        for lane in self.lanes:
            if isinstance(lane.engine.policy, Invariant):
                return lane
        return self.lanes[0]

    @property
    def plan(self) -> Any:
        """The plan in use."""
        return self.watched.engine.current

    @property
    def statistics(self) -> Statistics:
        """The estimates of now; before anything was read, the values it began with."""
        estimator = self.watched.engine.estimator
        return estimator.statistics() if estimator.ready else self._first

    @property
    def same_matches(self) -> bool:
        """Whether all policies found the same matches."""
        return all(lane.found == self.lanes[0].found for lane in self.lanes)

    def checks(self, statistics: Statistics) -> list[Check]:
        """The invariants of the plan in use, verified with these statistics."""
        policy, memo = self.watched.engine.policy, Memo()
        made = []
        for watched in policy.watched if isinstance(policy, Invariant) else ():
            left, right = watched.values(statistics, memo)
            sides = watched.condition
            holds = watched.holds(left, right)
            made.append(Check(watched.name, sides.left.text, sides.right.text, left, right, holds))
        return made

    def notches(self, name: str, statistics: Statistics) -> list[float]:
        """The values of one statistic at which an invariant breaks, or holds again."""
        tried = [self._tops[name] * step / TRIED for step in range(TRIED + 1)]
        holds = [
            all(check.holds for check in self.checks(statistics.with_values({name: value})))
            for value in tried
        ]
        return [
            round((tried[n] + tried[n + 1]) / 2, 4)
            for n in range(TRIED)
            if holds[n] != holds[n + 1]
        ]

    # ---- what one can do ----

    def set(self, values: Mapping[str, float] | None = None, **more: float) -> None:
        """Turns sliders, and runs the next part of the stream to its end."""
        for _ in self._part(self._checked({**(values or {}), **more})):
            pass

    def play(self, script: Sequence[Mapping[str, float]] | None = None) -> None:
        """Plays a drift: one part of the stream for each entry. In a notebook it runs beside it."""
        self._next += [self._checked(entry) for entry in script or self.script()]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            while self._next:
                self.set(self._next.pop(0))
            return
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._go())

    def script(self) -> list[dict[str, float]]:
        """A drift to play: rates go from type to type, in three steps each."""
        rates = [name for name in self._names if name.startswith("rate(")]
        start = [float(dict(self._first.values())[name]) for name in rates]
        made = []
        turns = [start[turn:] + start[:turn] for turn in range(len(start))]
        for before, after in zip(turns, [*turns[1:], turns[0]], strict=True):
            for step in (1, 2, 3):
                made.append(
                    {
                        n: b + (a - b) * step / 3
                        for n, b, a in zip(rates, before, after, strict=True)
                    }
                )
        return made

    def _checked(self, values: Mapping[str, float]) -> dict[str, float]:
        for name, value in values.items():
            if name not in self._names:
                near = did_you_mean(name, self._names)
                raise CepError(f"there is no slider {name!r}{near} (must be one of {self._names})")
            if name.startswith("sel(") and not 0 <= value <= 1:
                raise CepError(f"{name} lies between 0 and 1, not {value}")
            if not value >= 0:
                raise CepError(f"{name} is a number from 0, not {value}")
        return {name: float(value) for name, value in values.items()}

    async def _go(self) -> None:
        """Runs the parts that wait, in slices, so that the notebook goes on."""
        while self._next:
            values = self._next.pop(0)
            try:
                self.values = {**self.values, **values}
                self.busy = "drawing events …"
                drawn = await asyncio.to_thread(self._draw)
                for done in self._part(values, drawn):
                    self.busy = f"reading events, {done:.0%} …"
                    await asyncio.sleep(REST)
            except CepError as error:
                self.busy = str(error)
                return
            await asyncio.sleep(0.2 if self._next else 0)
        self.busy = ""

    def _draw(self) -> list[Event]:
        """The next events, behind those that were."""
        rates = {name[5:-1]: v for name, v in self.values.items() if name.startswith("rate(")}
        shares = {name[4:-1]: v for name, v in self.values.items() if name.startswith("sel(")}
        stream = self.source.draw(rates, shares, self._drawn)
        self._drawn += 1
        if self._schema is None:
            self._schema = stream.schema
            self._begin(stream.schema)
        by = self._clock - stream[0].start
        window = float(window_size(self.pattern, stream.schema) or 0)
        self._parts_windows = (stream[-1].end - stream[0].start) / window
        events = [placed(e, self._number + n, by, stream.schema) for n, e in enumerate(stream)]
        self._number += len(events)
        self._clock = events[-1].end
        return events

    def _part(self, values: Mapping[str, float], drawn: list[Event] | None = None) -> Any:
        """Reads a part of the stream with all policies; yields how far it is from time to time."""
        self.values = {**self.values, **values}
        events = self._draw() if drawn is None else drawn
        started = time.perf_counter()
        for number, event in enumerate(events):
            for lane in self.lanes:
                lane.push(event)
            if time.perf_counter() - started > TURN:
                yield number / len(events)
                started = time.perf_counter()
        made = {lane.name: lane.close()[1] for lane in self.lanes}
        self._actual = made[self.watched.name] * len(events) / max(self._parts_windows, 1e-9)
        self._show()

    def _told(self, _: Any, content: Any, buffers: Any) -> None:
        act = content.get("do") if isinstance(content, dict) else None
        try:
            if act in ("drag", "release"):
                wanted = {str(n): float(v) for n, v in content["values"].items()}
                values = self._checked(wanted)
            if act == "drag":
                self._preview({**self.values, **values})
            elif act == "release":
                self._next.clear()
                self.play([values])
            elif act == "script":
                self.play()
            elif act == "stop":
                self._next.clear()
            elif act == "again":
                self.again()
        except (CepError, ValueError) as error:
            self.busy = str(error)

    # ---- pictures ----

    def _preview(self, values: Mapping[str, float]) -> None:
        """The invariants, and the notches, as they would be with these values."""
        statistics = self.statistics.with_values(values)
        checked = self.checks(statistics)
        broken = [check for check in checked if not check.holds]
        said = "All invariants hold with these values."
        if broken:
            sides = (
                (broken[0].left, broken[0].left_value),
                (broken[0].right, broken[0].right_value),
            )
            told = " < ".join(f"{text} {estimate(value)}" for text, value in sides)
            said = f"Invariant {broken[0].invariant} breaks with these values: {told} is false."
        self._live = {
            "invariants": still_part([("Invariants", self._invariants(checked))]),
            "notches": {name: self.notches(name, statistics) for name in self._names},
            "said": said if checked else "This policy watches no invariants.",
            "broken": bool(broken),
        }

    def _invariants(self, checked: Sequence[Check]) -> Scene:
        trace = Trace(plan=str(self.plan))
        last = self._last_change()
        if last is not None:
            trace(Replan(str(last.before), str(last.after), last.because))
        for check in checked:
            trace(check)
        return invariants(trace)

    def _last_change(self) -> Decision | None:
        changes = [d for d in self.watched.engine.decisions if _changed(d)]
        return changes[-1] if changes else None

    def _plans(self) -> list[tuple[str, Scene]]:
        """The plan in use, and the one before it, with what was expected of each."""
        statistics = self.statistics
        made = [("Plan in use", self._plan_scene(self.plan, statistics))]
        last = self._last_change()
        if last is not None:
            made.append(("Plan before", self._plan_scene(last.before, last.statistics)))
        return made

    def _plan_scene(self, chosen: Any, statistics: Statistics) -> Scene:
        awaited = expected(chosen, self.pattern, statistics)
        return plan_picture(chosen, pattern=self.pattern, expected=awaited)

    def _costs(self) -> Scene:
        return costs(
            {lane.name: lane.costs for lane in self.lanes},
            {lane.name: lane.replans for lane in self.lanes},
        )

    def _told_plan(self) -> list[str]:
        statistics = self.statistics
        now = sum(expected(self.plan, self.pattern, statistics).values())
        lines = [f"Plan {self.plan}: {estimate(now)} new partial matches a window expected"]
        lines[0] += f", {estimate(self._actual)} counted." if self._actual else "."
        last = self._last_change()
        if last is not None:
            lines.append(
                f"At {last.event}, {last.because}: {last.after} instead of {last.before}, "
                f"expected cost {estimate(last.cost_before)} to {estimate(last.cost_after)}."
            )
        return lines

    def _verdict(self) -> str:
        if not self._number:
            return "Turn a slider, or play the drift."
        total = sum(self.lanes[0].found.values())
        same = "the same for all" if self.same_matches else "NOT the same for all: report this"
        return f"{count(self._number, 'event')}, {count(total, 'match', 'matches')}, {same}."

    def _show(self) -> None:
        known = dict(self.statistics.values())
        plans = self._plans()
        self._state = {
            "pattern": [[kind, word] for kind, word in classified(str(self.pattern))],
            "sliders": [
                {"name": name, "top": self._tops[name], "estimate": known.get(name)}
                for name in self._names
            ],
            "plans": still_part(plans),
            "told": self._told_plan(),
            "costs": still_part([("Cost of each policy", self._costs())]),
            "heads": list(HEADS),
            "rows": [lane.row() for lane in self.lanes],
            "verdict": self._verdict(),
            "replanned": len(self.watched.replans),
        }
        self._preview(self.values)

    # ---- without a kernel ----

    def text(self) -> str:
        lines = [str(self.pattern), "", str(self.statistics), *self._told_plan()]
        lines += [check.say() for check in self.checks(self.statistics)]
        lines.append("")
        rows = [list(HEADS), *(lane.row() for lane in self.lanes)]
        widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS))]
        for row in rows:
            cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, self._verdict()])

    def still(self) -> str:
        scenes = [scene for _, scene in self._plans()]
        scenes += [self._invariants(self.checks(self.statistics)), self._costs()]
        pictures = "".join(f'<div style="overflow-x:auto">{scene.svg()}</div>' for scene in scenes)
        told = "".join(f"<p>{html.escape(line)}</p>" for line in self._told_plan())
        rows = [lane.row() for lane in self.lanes]
        table = table_page(list(HEADS), rows, self._verdict())
        return pattern_page(str(self.pattern)) + told + pictures + table


def _top(name: str, value: float, first: Statistics) -> float:
    """The highest value of a slider."""
    return 1.0 if name.startswith("sel(") else round(3 * max(value, *first.rates.values()), 1)
