"""Runs: one row for each run from its birth to its end, and the family they form."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from cepviz.steps import Arrive, Drop, Matched, Merge, Move, Spawn
from cepviz.trace import Trace
from cepviz.views.axis import LETTER
from cepviz.views.marks import LONGEST_TITLE, circle, diamond
from cepviz.views.scene import Scene, remembered, shortened

LEFT, RIGHT, TOP, ROW = 96, 120, 44, 21
#: Over more events than this a page is shown at a time; a new page begins every HOP events.
MOST_EVENTS, PAGE, HOP = 80, 60, 20
SIGNS = {
    "begin": "●", "take": "●", "ignore": "○", "proceed": "▷", "store": "■", "split": "⑂",
    "match": "◆", "drop": "✕", "merge": "⤶",
}  # fmt: skip


@dataclass(eq=False)
class Life:
    """A run from its birth to its end, in steps of the trace."""

    id: str
    key: str
    birth: int
    parent: Life | None = None
    end: int | None = None
    how: str = ""  # drop, merge or match
    why: str = ""  # the reason, the run it went into, the number of the match
    into: Life | None = None
    marks: list[tuple[int, str]] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)
    children: list[Life] = field(default_factory=list)

    @property
    def moved(self) -> bool:
        return any(action != "split" for _, action in self.marks)

    def alive(self, index: int) -> bool:
        return self.end is None or self.end > index

    def state(self, index: int) -> str:
        return next((state for step, state in reversed(self.states) if step <= index), "")


def lives(trace: Trace) -> list[Life]:
    """Every run of a trace, in the order of birth.

    A run is born by a split or by its first move; a candidate that fails before it moves is none.
    """
    return remembered(trace, "lives", partial(_lives, trace))


def _lives(trace: Trace) -> list[Life]:
    found: list[Life] = []
    live: dict[str, Life] = {}
    names = Counter[str]()
    final = {state.name for state in trace.graph.states if state.kind == "final"}

    def born(name: str, index: int, state: str, parent: Life | None = None) -> Life:
        names[name] += 1
        key = f"run:{name}" + (f"~{names[name]}" if names[name] > 1 else "")
        life = Life(name, key, index, parent, states=[(index, state)])
        if parent is not None:
            parent.children.append(life)
        found.append(life)
        live[name] = life
        return life

    def ended(name: str, index: int, how: str, why: str) -> Life | None:
        life = live.pop(name, None)
        if life is not None:
            life.end, life.how, life.why = index, how, why
            life.marks.append((index, how))
        return life

    for index, step in enumerate(trace):
        match step:
            case Spawn():
                parent = live.get(step.run) or born(step.run, index, step.state)
                parent.marks.append((index, "split"))
                born(step.child, index, parent.states[-1][1], parent)
            case Move():
                life = live.get(step.run) or born(step.run, index, step.source)
                life.marks.append((index, step.action))
                if step.action != "ignore":
                    life.states.append((index, step.target))
            case Drop():
                ended(step.run, index, "drop", step.reason)
            case Merge():
                gone = ended(step.run, index, "merge", step.into)
                if gone is not None:
                    gone.into = live.get(step.into)
            case Matched():
                winner = live.get(step.run)
                if winner is not None and winner.states[-1][1] in final:
                    ended(step.run, index, "match", f"#{step.number}")
                elif winner is not None:
                    winner.marks.append((index, "match"))
    return found


# ---- which runs are shown, and where ----


@dataclass
class Rows:
    """The row of every run that is shown at some step; several may share one, in turn."""

    slots: list[list[Life]]

    def at(self, index: int) -> dict[Life, int]:
        shown = {}
        for row, held in enumerate(self.slots):
            born = [life for life in held if life.birth <= index]
            if born:
                shown[born[-1]] = row
        return shown


def _rows(trace: Trace, most: int) -> Rows:
    every = lives(trace)
    if len(every) <= most:
        return Rows([[life] for life in _by_family(every)])
    slots: list[list[Life]] = []
    for life in every:
        if len(slots) < most:
            slots.append([life])
            continue

        # A row is given to a newer run when its own has ended; else the shortest life gives way.
        def worth(held: list[Life], now: int = life.birth) -> tuple[bool, int]:
            last = held[-1]
            over = last.end is not None and last.end < now
            moves = bisect_right(last.marks, (now, ""))
            return not over, (last.end or 0) if over else moves

        min(slots, key=worth).append(life)
    return Rows(slots)


def _by_family(every: list[Life]) -> list[Life]:
    """Children directly below their parent, the eldest first."""
    ordered: list[Life] = []
    waiting = [life for life in reversed(every) if life.parent is None]
    while waiting:
        life = waiting.pop()
        ordered.append(life)
        waiting += reversed(life.children)
    return ordered


# ---- drawing ----


def runs(trace: Trace, index: int | None = None, *, most: int = 40, width: int = 960) -> Scene:
    """Draws each run as a row over the events: born, moved, split, merged, dropped or matched.

    At most `most` runs are shown, long-lived and new ones first; the others are counted below.
    """
    if len(trace) == 0:
        return _empty("Nothing happened.", width)
    index = range(len(trace))[-1 if index is None else index]
    return _Drawing(trace, index, most, width).scene()


def _empty(words: str, width: int) -> Scene:
    picture = Scene(width, 40, words)
    picture.label("empty", 8, 24, words, "small")
    return picture


class Axis:
    """From step to place: every event has the same width, its steps share it."""

    def __init__(self, arrivals: list[int], steps: int, page: int, low: float, high: float):
        self.arrivals = arrivals
        self.ends = [*arrivals[1:], steps]
        self.first, self.last = 0, len(arrivals)
        if self.last > MOST_EVENTS:
            self.first = max(0, min((page - 1) * HOP, self.last - PAGE))
            self.last = self.first + PAGE
        self.low, self.high = low, high
        self.band = (high - low) / (self.last - self.first)

    def event(self, step: int) -> int:
        return bisect_right(self.arrivals, step) - 1

    def __call__(self, step: int) -> float:
        event = max(self.event(step), 0)
        start, end = self.arrivals[event], self.ends[event]
        inside = 0.08 + 0.84 * max(0, step - start) / max(1, end - start)
        x = self.low + (event - self.first + inside) * self.band
        return round(min(max(x, self.low), self.high), 1)


def _axis(trace: Trace, index: int, width: int) -> Axis:
    arrivals = remembered(
        trace,
        "arrival steps",
        lambda: [i for i, s in enumerate(trace) if isinstance(s, Arrive)] or [0],
    )
    page = max(bisect_right(arrivals, index) - 1, 0) // HOP if len(arrivals) > MOST_EVENTS else 0
    return remembered(
        trace,
        ("axis", page, width),
        lambda: Axis(arrivals, len(trace), page, LEFT, width - RIGHT),
    )


class _Drawing:
    def __init__(self, trace: Trace, index: int, most: int, width: int):
        self.trace, self.index, self.width = trace, index, width
        self.axis = _axis(trace, index, width)
        self.rows = remembered(trace, ("rows", most), lambda: _rows(trace, most))
        first = self.axis.arrivals[self.axis.first]
        self.shown = {
            life: row
            for life, row in self.rows.at(index).items()
            if life.end is None or life.end >= first or not self.axis.first
        }
        self.count = len(self.rows.slots)
        self.crowded = len(lives(trace)) > most
        self.bottom = TOP + self.count * ROW
        self.picture = Scene(width, self.bottom + 54, trace[index].say())

    def scene(self) -> Scene:
        self.bands()
        if not self.rows.slots:
            words = "No runs: this engine keeps none, it only reports matches."
            self.picture.label("empty", LEFT, TOP + 2, words, "small")
        self.now()
        for life, row in self.shown.items():
            self.kin(life, row)
        for life, row in self.shown.items():
            self.row(life, row)
        self.others()
        self.legend()
        return self.picture

    def y(self, row: int) -> float:
        return TOP + (row + 0.5) * ROW

    def bands(self) -> None:
        axis, picture = self.axis, self.picture
        events = self.trace.events
        widest = max((min(len(e.event), 9) for e in events[axis.first : axis.last]), default=1)
        every = max(1, -(-int(widest * LETTER + 6) // max(1, int(axis.band))))
        picture.label("axis:name", 8, TOP - 8, "run", "small")
        for place in range(axis.first, min(axis.last, len(events))):
            x = round(axis.low + (place - axis.first) * axis.band, 1)
            number = place - axis.first
            if axis.band >= 6 and number % 2 == 0:
                picture.add(
                    f"band:{number}", "rect", "band",
                    x=x, y=TOP - 4, width=round(axis.band, 1), height=self.bottom - TOP + 4,
                )  # fmt: skip
            if number % every == 0:
                middle = round(x + axis.band / 2, 1)
                picture.label(
                    f"band:{number}:text", middle, TOP - 8, shortened(events[place].event, 9),
                    "small middle",
                )  # fmt: skip
        if axis.first:
            picture.label("earlier", LEFT, 14, f"◀ {axis.first:,} events earlier", "small")
        later = len(events) - axis.last
        if later > 0:
            picture.label("later", axis.high, 14, f"{later:,} events later ▶", "small end")

    def kin(self, life: Life, row: int) -> None:
        """The line from the parent, and the line into the run it merged with."""
        # A run older than the page was not born at its left end.
        if life.parent is not None and life.birth >= self.axis.arrivals[self.axis.first]:
            x, y = self.axis(life.birth), self.y(row)
            above = self.shown.get(life.parent)
            if self.crowded and life.parent.parent is None and not life.parent.moved:
                above = None  # lines from the root of all runs would cross everything
            start = self.y(above) if above is not None else y - 8
            title = f"Run {life.id} comes from run {life.parent.id}."
            self.picture.add(f"{life.key}:kin", "path", "kin", d=f"M{x},{start}V{y}", title=title)
        if life.into is not None and life.end is not None and life.end <= self.index:
            below = self.shown.get(life.into)
            if below is not None:
                x, y = self.axis(life.end), self.y(below)
                up = 1 if y < self.y(row) else -1
                path = f"M{x},{self.y(row)}V{y}m-4,{6 * up}l4,{-6 * up}l4,{6 * up}"
                self.picture.add(f"{life.key}:into", "path", "edge", d=path)

    def row(self, life: Life, row: int) -> None:
        picture, axis, index, y = self.picture, self.axis, self.index, self.y(row)
        step = self.trace[index]
        about = {getattr(step, role, None) for role in ("run", "child")}
        bold = " bold" if life.id in about and life.alive(index - 1) else ""
        picture.label(f"{life.key}:name", LEFT - 10, y + 4, life.id, f"text end{bold}", most=12)
        until = index if life.alive(index) else life.end
        assert until is not None
        x1, x2 = axis(life.birth), axis(until)
        over = not life.alive(index)
        line = "kin" if over else "run"
        title = shortened(self.story(life), LONGEST_TITLE)
        picture.add(life.key, "path", line, d=f"M{x1},{y}H{max(x2, x1 + 1)}", title=title)
        for place, action in self.marks(life):
            if place <= index and axis.first <= axis.event(place) < axis.last:
                self.mark(place, action, y)
        words, classes = f"at {life.state(index)}", "small"
        if over:
            words = {"drop": life.why, "merge": f"into {life.why}", "match": life.why}[life.how]
            classes = {"drop": "said-drop", "match": "said-match"}.get(life.how, "small")
        elif axis.event(index) >= axis.last:
            words = ""
        picture.label(f"{life.key}:word", x2 + 10, y + 4, words, f"{classes} halo", most=15)

    def marks(self, life: Life) -> list[tuple[int, str]]:
        """The moves to draw: of several at one place the most telling."""

        def chosen() -> list[tuple[int, str]]:
            kept: list[tuple[int, str]] = []
            for place, action in life.marks:
                if action == "split":
                    continue
                x = self.axis(place)
                near = x - self.axis(kept[-1][0]) if kept else 99.0
                if near < 9 and action == "ignore":
                    continue
                if near < 9 and kept[-1][1] not in ("match", "drop"):
                    kept.pop()
                kept.append((place, action))
            return kept

        return remembered(self.trace, ("marks", life, self.axis.first, self.width), chosen)

    def mark(self, place: int, action: str, y: float) -> None:
        x, title = self.axis(place), shortened(self.trace[place].say(), LONGEST_TITLE)
        path, classes = _mark(action, x, y)
        self.picture.add(f"mark:{place}", "path", classes, d=path, title=title)

    def story(self, life: Life) -> str:
        said = f"Run {life.id} is born at step {life.birth}"
        said += f" from run {life.parent.id}" if life.parent else ""
        if life.alive(self.index):
            return f"{said} and is at {life.state(self.index)}."
        ends = {"drop": "is dropped", "merge": "merges into run", "match": "ends with match"}
        why = f"({life.why})" if life.how == "drop" else life.why
        return f"{said} and {ends[life.how]} {why} at step {life.end}."

    def now(self) -> None:
        x = self.axis(self.index)
        path = f"M{x},{TOP - 4}V{self.bottom}"
        self.picture.add("now", "path", "now", d=path)

    def others(self) -> None:
        text = hidden_text(lives(self.trace), self.shown, self.index)
        self.picture.label("others", 8, self.bottom + 18, text, "text", most=130)

    def legend(self) -> None:
        x, y = float(LEFT), self.bottom + 42
        names = {"take": "begins, takes", "ignore": "ignores", "proceed": "proceeds"}
        names |= {"store": "stores", "merge": "merges", "match": "matches", "drop": "is dropped"}
        used = remembered(
            self.trace,
            "actions",
            lambda: {action for life in lives(self.trace) for _, action in life.marks},
        )
        for action, words in names.items():
            if action not in used and not (action == "take" and "begin" in used):
                continue
            path, classes = _mark(action, x, y - 4)
            self.picture.add(f"legend:{action}", "path", classes, d=path)
            self.picture.label(f"legend:{action}:text", x + 11, y, words, "small")
            x = round(x + 32 + len(words) * LETTER, 1)


def _mark(action: str, x: float, y: float) -> tuple[str, str]:
    """The shape of an action, and its class."""
    if action == "ignore":
        return circle(x, y, 3.5), "hollow"
    if action == "proceed":
        return f"M{x - 4:g},{y - 5:g}l8,5l-8,5Z", "proceed"
    if action == "store":
        return f"M{x - 4:g},{y - 4:g}h8v8h-8Z", "square"
    if action == "match":
        return diamond(x, y, 6.5), "match"
    if action == "drop":
        return f"M{x - 5:g},{y - 5:g}l10,10m0,-10l-10,10", "drop"
    if action == "merge":
        return f"M{x:g},{y - 5:g}v10", "edge"
    return circle(x, y, 4.5), "dot"


def hidden_text(every: list[Life], shown: dict[Life, int], index: int) -> str:
    """The runs that are not in the picture, counted by what became of them."""
    counts = Counter[str]()
    for life in every:
        if life.birth > index or life in shown:
            continue
        if life.alive(index):
            counts["live"] += 1
        elif life.how == "drop":
            counts[f"dropped by {life.why}"] += 1
        else:
            counts["matched" if life.how == "match" else "merged"] += 1
    if not counts:
        return ""
    told = ", ".join(f"{n:,} {what}" for what, n in counts.most_common())
    total = sum(counts.values())
    return f"+{total:,} more run{'' if total == 1 else 's'}: {told}"


def runs_text(trace: Trace, index: int | None = None, *, most: int = 40) -> str:
    """The runs in letters: one line each, children indented below their parent.

    >>> trace = Trace()
    >>> trace(Arrive("e1", "A", "1"))
    >>> trace(Move("1", "e1", "begin", "begin a", "a", "b"))
    >>> trace(Arrive("e2", "B", "2"))
    >>> trace(Spawn("1", "1.1", "e2", "b", "begin-ignore"))
    >>> trace(Drop("1.1", "window", "e2"))
    >>> print(runs_text(trace))
    1      from e1  ●⑂  at b
      1.1  from e2  ✕   dropped by window
    """
    if len(trace) == 0:
        return "Nothing happened."
    index = range(len(trace))[-1 if index is None else index]
    every = lives(trace)
    shown = remembered(trace, ("rows", most), lambda: _rows(trace, most)).at(index)
    table = []
    for life in _by_family(every):
        if life not in shown:
            continue
        depth, above = 0, life.parent
        while above is not None:
            depth, above = depth + (above in shown), above.parent
        signs = "".join(SIGNS.get(action, "·") for step, action in life.marks if step <= index)
        if life.alive(index):
            words = f"at {life.state(index)}"
        else:
            words = {
                "drop": f"dropped by {life.why}",
                "merge": f"merged into {life.why}",
                "match": f"match {life.why}",
            }[life.how]
        name = "  " * min(depth, 12) + shortened(life.id, 24)
        table.append((name, trace.event_of(life.birth), shortened(signs, 48), words))
    if not table:
        return "No runs."
    wide = [max(len(row[column]) for row in table) for column in range(3)]
    lines = [
        f"{name:{wide[0]}}  from {event:{wide[1]}}  {signs:{wide[2]}}  {shortened(words, 60)}"
        for name, event, signs, words in table
    ]
    return "\n".join(filter(None, [*lines, hidden_text(every, shown, index)]))
