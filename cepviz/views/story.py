"""The story of a match as a picture: a row for each event, its place in time, and why it fits.

On the left the events lie on one time axis, joined as the match joins them, under the bracket of
the window. On the right, in the same row: what the run did, each condition with the values it saw,
where the run could have gone another way, and the pointer it was read by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cepviz.explain.story import Part, Why
from cepviz.steps import Arrive, Matched, Move, Test
from cepviz.views.axis import LETTER, Scale
from cepviz.views.layout import Point
from cepviz.views.marks import LONGEST_TITLE, circle, diamond, fork, head, tick, tip
from cepviz.views.scene import Number, Scene, shortened
from cepviz.views.timeline_moment import Moment, gaps_of, limits_of, moment_of
from cepviz.views.timeline_page import Facts, facts_of, finite

#: A match of more events has its middle ones in one row: this many rows before, and after.
BEFORE, AFTER = 9, 4
#: The marks of one row, and of the row of the events that are not in the match.
MOST_SAID = 6
AXIS_LEFT, AXIS_RIGHT, WORDS = 124, 420, 452
LINE = 17


@dataclass
class _Row:
    """One event of the match, or several of the middle: its words, each with a kind of mark."""

    name: str
    below: str
    events: list[Arrive]
    head: str = ""
    step: str = ""
    rest: bool = False  # the events in between that are not in the match
    said: list[tuple[str, str]] = field(default_factory=list)

    @property
    def height(self) -> float:
        return max(2, len(self.said) + bool(self.head)) * LINE + 12


def story(why: Why, *, width: int = 960) -> Scene:
    """Draws why a match is one: `why(match)` as a picture.

    Marks: a tick is a condition that holds, a fork a point where the run could have gone another
    way, an arrow the pointer by which the buffer led on from this event, a cross an event that was
    tried and did not fit.
    """
    return _Drawing(why, width).scene()


class _Drawing:
    def __init__(self, why: Why, width: int):
        self.why, self.width = why, width
        self.facts: Facts = facts_of(why.trace, "type")
        matched = why.trace[why.step]
        assert isinstance(matched, Matched)
        self.moment: Moment = moment_of(self.facts, why.step, None, matched.number)
        self.matched = matched
        self.events = {event.event: event for event in self.facts.events}
        places = [self.facts.ordinal[label] for label in self.moment.bound]
        self.between = self.facts.events[min(places) : max(places) + 1]
        self.rows = [*self.parts(), *self.others()]
        times = [t for event in self.between for t in (finite(event.start), finite(event.end))]
        self.limits = limits_of(self.facts, self.moment)
        self.scale = Scale(times, AXIS_LEFT + 10, AXIS_RIGHT - 10, even=False)
        self.top = 74.0 if self.facts.window else 40.0
        self.bottom = self.top + sum(row.height for row in self.rows)
        self.picture = Scene(width, self.bottom + 44, self.said())

    def said(self) -> str:
        return " ".join([self.why.lines()[0], *self.why.absent])

    # ---- what is told ----

    def parts(self) -> Iterator[_Row]:
        parts = self.why.parts
        if len(parts) <= BEFORE + AFTER + 1:
            yield from map(self.part, parts)
            return
        yield from map(self.part, parts[:BEFORE])
        middle = parts[BEFORE:-AFTER]
        first, last = (f"{p.role} = {p.event.label}" for p in (middle[0], middle[-1]))
        tests = sum(len(part.tests) for part in middle)
        row = _Row(f"{len(middle)} more", "", [self.events[p.event.label] for p in middle])
        row.head = f"{first} to {last}"
        row.said = [("yes", f"{tests} conditions hold")] if tests else []
        yield row
        yield from map(self.part, parts[-AFTER:])

    def part(self, part: Part) -> _Row:
        label = part.event.label
        row = _Row(part.role, f"{label} {part.event.type}", [self.events[label]])
        row.head, row.step = part.said, self.step_of(part)
        row.said = [(_mark(test.truth), test.said) for test in part.tests]
        for choice in self.why.choices:
            if choice.event == label:
                row.said.append(("fork", f"run {choice.other} {choice.instead}"))
        for link in self.why.pointers:
            if link.event == label:
                end = (
                    f"to {link.to_event} in {link.to_buffer}"
                    if link.to_event
                    else "the first event"
                )
                row.said.append(("pointer", f"version {link.version}: {end}"))
        row.said = _few(row.said)
        return row

    def step_of(self, part: Part) -> str:
        if part.step is None:
            return ""
        taken = sorted(p.step for p in self.why.parts if p.step is not None)
        in_order = [p.step for p in self.why.parts if p.step is not None]
        rank = "" if taken == in_order else f", taken as number {taken.index(part.step) + 1}"
        return f"step {part.step}{rank}"

    def others(self) -> Iterator[_Row]:
        """The events in between that are not in the match, and what the run thought of them."""
        bound = self.moment.bound
        rest = [event for event in self.between if event.event not in bound]
        row = _Row("others", f"{len(rest):,} event{'' if len(rest) == 1 else 's'}", rest, rest=True)
        names = {event.event for event in rest}
        row.said = [("no", f"{event}: {said}") for event, said in self.refused(names)]
        for choice in self.why.choices:
            if choice.event in names:
                row.said.append(("fork", f"{choice.event}: run {choice.other} {choice.instead}"))
        row.said = _few(row.said) + [("gap", said) for said in self.why.absent]
        if rest or row.said:
            yield row

    def refused(self, names: set[str]) -> list[tuple[str, str]]:
        """Events that the match's run tried and could not take, each with what failed."""
        found: dict[str, str] = {}
        for index in self.why.steps:
            step = self.why.trace[index]
            if isinstance(step, Test) and not step.passed and step.event in names:
                failed = [test.said for test in step.tests if test.truth is not True]
                if failed and step.action in ("begin", "take"):
                    found.setdefault(step.event, failed[0])
        return list(found.items())

    # ---- drawing ----

    def scene(self) -> Scene:
        self.title()
        self.gaps()
        self.window()
        y = self.top
        spots: list[tuple[Arrive, Point]] = []
        for number, row in enumerate(self.rows):
            at = y + 16
            self.rail(number, row, y, at)
            if row.rest:
                self.skipped(row, at)
            else:
                spots += [(event, Point(self.scale(finite(event.end)), at)) for event in row.events]
            self.words(number, row, at)
            y += row.height
        self.join(spots)
        self.axis()
        return self.picture

    def title(self) -> None:
        most = int((self.width - 24) / 8.6)
        text = self.why.lines()[0]
        self.picture.label("title", 12, 20, text, "label", most)

    def rail(self, number: int, row: _Row, y: float, at: float) -> None:
        picture = self.picture
        if number:
            picture.add(f"row:{number}:line", "line", "grid", x1=12, y1=y, x2=self.width - 12, y2=y)
        picture.label(f"row:{number}:name", 12, at + 4, row.name, "label", 13)
        picture.label(f"row:{number}:event", 12, at + 4 + LINE, row.below, "small", 16)
        picture.add(f"row:{number}:rail", "line", "grid", x1=AXIS_LEFT, y1=at, x2=AXIS_RIGHT, y2=at)

    def join(self, spots: list[tuple[Arrive, Point]]) -> None:
        ordered = sorted(spots, key=lambda spot: (finite(spot[0].end), spot[1].y))
        path = " ".join(f"{'L' if n else 'M'}{p.x:g},{p.y:g}" for n, (_, p) in enumerate(ordered))
        self.picture.add("join", "path", "join", d=path)
        for number, (event, at) in enumerate(ordered):
            start = self.scale(finite(event.start))
            if number == len(ordered) - 1:
                shape, classes = diamond(at.x, at.y, 7.5), "match"
            else:
                shape, classes = circle(at.x, at.y, 5.5), "dot"
            if start != at.x:
                shape += f"M{start:g},{at.y - 4:g}H{at.x:g}V{at.y + 4:g}H{start:g}Z"
            title = f"{event.say()} It is {self.moment.bound[event.event]}."
            title = shortened(title, LONGEST_TITLE)
            self.picture.add(f"event:{number}", "path", classes, d=shape, title=title)

    def skipped(self, row: _Row, y: float) -> None:
        """Hollow what the run ignored or refused, a small dot for the rest; one for each place."""
        tried = {event for event, _ in self.refused({e.event for e in row.events})}
        tried |= self.moment.ignored | {c.event for c in self.why.choices}
        for index in self.why.steps:
            step = self.why.trace[index]
            if isinstance(step, Move) and step.action == "ignore":
                tried.add(step.event)
        places: dict[float, list[Arrive]] = {}
        for event in row.events:
            places.setdefault(round(self.scale(finite(event.end))), []).append(event)
        for number, (x, events) in enumerate(places.items()):
            hollow = any(event.event in tried for event in events)
            title = tip("\n".join(event.say() for event in events[:MOST_SAID]))
            path = circle(x, y, 4.5 if hollow else 3)
            classes = "hollow" if hollow else "read"
            self.picture.add(f"other:{number}", "path", classes, d=path, title=title)

    def words(self, number: int, row: _Row, at: float) -> None:
        picture, y = self.picture, at + 4
        most = int((self.width - WORDS - 12) / 6.4)
        if row.head:
            room = most - (len(row.step) + 3 if row.step else 0)
            picture.label(f"row:{number}:did", WORDS, y, row.head, "text", room)
            picture.label(f"row:{number}:step", self.width - 12, y, row.step, "small end", 40)
            y += LINE
        for place, (mark, text) in enumerate(row.said):
            key = f"row:{number}:said:{place}"
            self.mark(f"{key}:mark", mark, WORDS + 6, y - 4)
            classes = "said-drop" if mark in ("no", "gap") else "small"
            picture.label(key, WORDS + 18, y, text, classes, most - 3)
            y += LINE

    def mark(self, key: str, kind: str, x: float, y: float) -> None:
        picture = self.picture
        if kind == "fork":
            fork(picture, key, x, y)
        elif kind == "pointer":
            picture.add(key, "path", "pointer", d=f"M{x + 5:g},{y + 4:g}V{y - 1:g}H{x:g}")
            head(picture, f"{key}:head", "pointer-head", Point(x - 6, y - 1), Point(x, y - 1), 7)
        elif kind == "gap":
            picture.add(key, "rect", "gap", x=x - 5, y=y - 5, width=10, height=10)
        elif kind != "more":
            tick(picture, key, x, y, {"yes": True, "no": False}.get(kind))

    def gaps(self) -> None:
        for number, (low, high, word) in enumerate(gaps_of(self.facts, self.moment)):
            x1, x2 = self.place(low, AXIS_LEFT), self.place(high, AXIS_RIGHT)
            self.picture.add(
                f"gap:{number}", "rect", "gap", title=tip(word),
                x=x1, y=self.top, width=max(1.0, round(x2 - x1, 1)), height=self.bottom - self.top,
            )  # fmt: skip

    def place(self, time: Number, beyond: float) -> float:
        return self.scale(time) if self.scale.holds(time) else beyond

    def window(self) -> None:
        if self.limits is None or not self.facts.window:
            return
        low, high, text = self.limits
        x1, x2, y = self.scale(low), self.scale(high), self.top - 16
        path = f"M{x1:g},{y + 6:g}V{y:g}H{x2:g}V{y + 6:g}"
        title = f"WITHIN {self.facts.window}"
        self.picture.add("window", "path", "window", d=path, title=title)
        x = min(x1, AXIS_RIGHT - min(len(text), 44) * LETTER)
        self.picture.label("window:text", max(12, round(x, 1)), y - 6, text, "small", 44)

    def axis(self) -> None:
        picture, y = self.picture, self.bottom + 4
        picture.add("axis", "line", "edge", x1=AXIS_LEFT, y1=y, x2=AXIS_RIGHT, y2=y)
        ticks, caption = self.scale.ticks(self.facts.clock)
        room = (AXIS_RIGHT - AXIS_LEFT) / max(1, len(ticks))
        widest = max((len(text) for _, text in ticks), default=0) * LETTER + 10
        every = max(1, -int(-widest // room))
        for number, (x, text) in enumerate(ticks[::every]):
            picture.add(f"tick:{number}", "line", "edge", x1=x, y1=y, x2=x, y2=y + 4)
            picture.label(f"tick:{number}:text", x, y + 17, text, "small middle")
        picture.label("axis:name", AXIS_LEFT, y + 34, caption, "small", 48)


def _mark(truth: bool | None) -> str:
    return {True: "yes", False: "no", None: "unknown"}[truth]


def _few(said: list[tuple[str, str]]) -> list[tuple[str, str]]:
    if len(said) <= MOST_SAID:
        return said
    return [*said[: MOST_SAID - 1], ("more", f"and {len(said) - MOST_SAID + 1} more")]
