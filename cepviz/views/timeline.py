"""Timeline: the events of a trace or a stream on a time axis, and what one run makes of them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from cepviz.errors import CepError
from cepviz.events import Stream
from cepviz.steps import Matched
from cepviz.trace import Trace
from cepviz.views.axis import LETTER
from cepviz.views.marks import LONGEST_TITLE, circle, diamond
from cepviz.views.scene import Number, Scene, shortened
from cepviz.views.timeline_letters import in_letters
from cepviz.views.timeline_moment import (
    Moment,
    candidate_of,
    gaps_of,
    limits_of,
    moment_of,
    state_of,
)
from cepviz.views.timeline_page import (
    LEFT,
    MOST_EVENTS,
    RIGHT,
    Facts,
    Spot,
    facts_of,
    finite,
    page_of,
)


def timeline(
    source: Trace | Stream,
    index: int | None = None,
    *,
    run: str | None = None,
    match: int | None = None,
    lanes: str = "type",
    width: int = 960,
    candidate: Mapping[str, Iterable[str]] | None = None,
    culprits: Mapping[str, tuple[str, str]] | None = None,
) -> Scene:
    """Draws the events in lanes over time: which were read, and what one run did with them.

    The run is `run`, that of match number `match`, or the one the step at `index` (by default the
    last) is about. A stream is drawn without a run; `index` is then the place of an event. Lanes
    are the types of events or, with `lanes="variable"`, the variables of the pattern.

    A `candidate`, as `{"a": ["e1"], "b": ["e3"]}`, marks events of a trace that nobody found;
    `culprits` are the events in its way, each with the reason in a word and in a sentence.
    """
    facts = facts_of(source, lanes)
    if candidate is not None and facts.trace is not None:
        moment = candidate_of(facts, candidate, culprits or {})
    elif candidate is not None:
        raise CepError("a stream has no variables: give the trace of a pattern on it")
    else:
        moment = moment_of(facts, index, run, match)
    return _Drawing(facts, moment, width).scene()


def timeline_text(
    source: Trace | Stream,
    index: int | None = None,
    *,
    run: str | None = None,
    match: int | None = None,
    lanes: str = "type",
    width: int = 100,
) -> str:
    """The same picture in letters, for a terminal: a line for each lane.

    >>> from cepviz.steps import Arrive
    >>> trace = Trace(pattern="PATTERN SEQ(A a, B b) WITHIN 9")
    >>> for n, letter in enumerate("AAB"):
    ...     trace(Arrive(f"e{n}", letter, str(n), {}, n, n))
    >>> trace(Matched(1, "", "e2", (("a", ("e0",)), ("b", ("e2",))), "2 of 9"))
    >>> print(timeline_text(trace, width=32))
    window ├─────────────────────┤
    A      ●          ·
    B                            ◆
                                 ▲ e2
           0                     2
    Match #1: a = e0, b = e2, 2 of 9.
    ● in the match  ◆ its end  · read
    """
    facts = facts_of(source, lanes)
    return in_letters(facts, moment_of(facts, index, run, match), width)


# ---- drawing ----


class _Drawing:
    def __init__(self, facts: Facts, moment: Moment, width: int):
        self.facts = facts
        self.moment = moment
        self.width = width
        self.page = page_of(facts, max(moment.current if moment.now else 0, 0), width)
        self.foot = self.page.bottom + (52 if facts.count > MOST_EVENTS else 40)
        self.picture = Scene(width, self.foot + 10, moment.say)

    def scene(self) -> Scene:
        self.caption()
        self.still(self.rails)
        self.gaps()
        self.still(self.axis)
        self.brackets()
        self.current()
        self.join()
        for spot in self.page.spots:
            self.event(spot)
        self.verdict()
        self.matches()
        self.still(self.legend)
        return self.picture

    def still(self, draw: Callable[[], None]) -> None:
        """Draws what is the same in every step of the page: once."""
        drawn, name = self.page.drawn, (draw.__name__, self.moment.candidate)
        if name not in drawn:
            whole, self.picture = self.picture, Scene(0, 0)
            draw()
            drawn[name], self.picture = self.picture.shapes, whole
        self.picture.shapes.update(drawn[name])

    def caption(self) -> None:
        moment = self.moment
        order = list(self.facts.pattern.variables) if self.facts.pattern else []
        held = sorted(moment.bindings, key=lambda pair: (*order, pair[0]).index(pair[0]))
        said = ", ".join(f"{name} = {' '.join(labels)}" for name, labels in held)
        who = f"run {moment.run}" if moment.run else ""
        if moment.matched is not None:
            who = f"match #{moment.matched.number}" + (f" of {who}" if who else "")
        if moment.candidate:
            who = "candidate"
        if moment.dropped is not None:
            who += f", dropped ({moment.dropped.reason})"
        text = ": ".join(filter(None, [who, said]))
        self.picture.label("caption", 8, 15, text, "text", most=int((self.width - 16) / 7.2))

    def rails(self) -> None:
        page, picture = self.page, self.picture
        for number, (lane, y) in enumerate(page.rails):
            right = self.width - RIGHT + 12
            picture.add(f"lane:{number}", "line", "grid", x1=LEFT, y1=y, x2=right, y2=y)
            picture.label(f"lane:{number}:name", LEFT - 10, y + 4, lane.name, "text end", most=16)
        text = f"◀ {page.low:,} earlier" if page.low else ""
        picture.label("earlier", LEFT - 10, page.bottom + 32, text, "small end")
        later = self.facts.count - page.high
        text = f"{later:,} later ▶" if later else ""
        picture.label("later", self.width - 6, page.bottom + 32, text, "small end")

    def gaps(self) -> None:
        page, scale = self.page, self.page.scale
        parts, words = [], []
        for low, high, word in gaps_of(self.facts, self.moment):
            x1, x2 = scale(low) if low > -math.inf else scale.low, scale(min(high, scale.last))
            parts.append(f"M{x1},{page.top}H{x2}V{page.bottom}H{x1}Z")
            words.append(((x1 + x2) / 2, word))
        self.picture.add("gap", "path", "gap", d=" ".join(parts))
        x = words[0][0] if words else LEFT
        foot = page.bottom - (27 if page.matches_at is not None else 0) - 5
        text = ", ".join(dict.fromkeys(word for _, word in words))
        half = min(len(text), 28) * LETTER / 2
        x = min(max(x, LEFT + half), self.width - half - 4)
        self.picture.label("gap:text", round(x, 1), foot, text, "said-drop middle")

    def axis(self) -> None:
        page, picture = self.page, self.picture
        y = page.bottom
        right = self.width - RIGHT + 12
        picture.add("axis", "line", "edge", x1=LEFT, y1=y, x2=right, y2=y)
        ticks, caption = page.scale.ticks(self.facts.clock)
        for number, (x, text) in enumerate(ticks):
            picture.add(f"tick:{number}", "line", "edge", x1=x, y1=y, x2=x, y2=y + 4)
            picture.label(f"tick:{number}:text", x, y + 16, text, "small middle")
        picture.label("axis:name", self.width - 6, self.foot, caption, "small end", most=40)

    def brackets(self) -> None:
        page, moment, scale = self.page, self.moment, self.page.scale
        limits = limits_of(self.facts, moment) if self.facts.window else None
        if "window" in page.brackets:
            self.bracket("window", limits, "window", "small")
        if "scope" in page.brackets:
            scope, found = moment.scope, None
            if scope is not None:
                low, high = self.end_of(scope.start, -1), self.end_of(scope.end, 1)
                low = scale.first if low is None else low
                high = scale.last + 1 if high is None else high
                count = len(scope.events)
                found = (low, high, f"scope of {scope.buffer} ({scope.start}, {scope.end}): "
                         f"{count} found")  # fmt: skip
            self.bracket("scope", found, "scope", "said-store")

    def end_of(self, label: str, side: int) -> Number | None:
        place = self.facts.ordinal.get(label)
        if place is None:
            return None
        event = self.facts.events[place]
        return finite(event.end if side < 0 else event.start)

    def bracket(
        self, key: str, limits: tuple[Number, Number, str] | None, classes: str, words: str
    ) -> None:
        scale, y = self.page.scale, self.page.brackets[key]
        path, text, x = "", "", float(LEFT)
        if limits is not None:
            low, high, text = limits
            x1, x2 = scale(low), scale(high)
            # An end that lies outside of the picture is open, and points there.
            left, right = f"M{x1},{y + 6}V{y}", f"V{y + 6}"
            if low < scale.first:
                left = f"M{x1 - 4},{y - 4}l-5,4l5,4m-5,-4"
            if high > scale.last:
                right = "h9m-5,-4l5,4l-5,4"
            path = f"{left}H{x2}{right}"
            x = min(x1, self.width - 6 - min(len(text), 60) * LETTER)
        self.picture.add(key, "path", classes, d=path, title=text or None)
        self.picture.label(f"{key}:text", round(x, 1), y - 5, text, words, most=60)

    def spot(self, label: str) -> Spot | None:
        spots = self.page.by_label.get(label, [])
        variable = self.moment.bound.get(label)
        return next((s for s in spots if s.lane.variable == variable), spots[0] if spots else None)

    def current(self) -> None:
        page, moment = self.page, self.moment
        spot = self.spot(moment.now) if moment.now else None
        path = "" if spot is None else f"M{spot.x},{page.top}V{page.bottom}"
        self.picture.add("now", "path", "now", d=path)
        text = "" if spot is None else shortened(moment.now, 16)
        x = LEFT if spot is None else min(spot.x, self.width - len(text) * 4 - 4)
        self.picture.label("now:text", x, page.top - 3, text, "text middle bold")

    def join(self) -> None:
        path = ""
        if self.moment.matched is not None or self.moment.candidate:
            spots = [spot for label in self.moment.bound if (spot := self.spot(label))]
            spots.sort(key=lambda spot: (finite(spot.event.end), spot.x))
            path = " ".join(f"{'L' if n else 'M'}{s.x},{s.y}" for n, s in enumerate(spots))
        classes = "tried" if self.moment.candidate else "join"
        self.picture.add("join", "path", classes, d=path)

    @cached_property
    def last(self) -> str:
        """The event at which the match that is shown ends."""
        labels = [e for e in self.moment.bound if e in self.facts.ordinal]
        if self.moment.matched is None or not labels:
            return ""
        return max(labels, key=lambda e: self.facts.ordinal[e])

    def event(self, spot: Spot) -> None:
        page, moment, label = self.page, self.moment, spot.event.event
        state = state_of(moment, spot.event, spot.place)
        if state == "bound" and spot.lane.variable not in ("", moment.bound[label]):
            state = "read"
        marked = label == moment.now
        if moment.tested is not None and moment.tested.event == label:
            marked = True
        role = moment.bound[label] if state == "bound" else ""
        ending = state == "bound" and label == self.last
        reason = moment.culprits.get(label, ("", ""))
        look = (spot.key, state, role, ending, marked, label == moment.now, reason)
        if look not in page.drawn:
            part = Scene(0, 0)
            self.draw_event(part, spot, state, role, ending, marked, reason)
            page.drawn[look] = part.shapes
        self.picture.shapes.update(page.drawn[look])

    def draw_event(
        self,
        part: Scene,
        spot: Spot,
        state: str,
        role: str,
        ending: bool,
        marked: bool,
        reason: tuple[str, str],
    ) -> None:
        page, event = self.page, spot.event
        title = event.say()
        if role:
            title += f" It is {role}."
        elif state in WORDS and not reason[1]:
            title += f" It is {WORDS[state]}."
        title += f" {reason[1]}" if reason[1] else ""
        title = shortened(title, LONGEST_TITLE)
        classes = CLASS_OF[state]
        r = page.big if state not in ("read", "later") else page.small
        # All marks are paths, so that one event changes by its shape, not by its place.
        x, y = spot.x, spot.y
        if spot.start != x:
            h = r * 0.75
            path = f"M{spot.start},{y - h}H{x}V{y + h}H{spot.start}Z"
            if ending:
                path, classes = f"{path} {diamond(x, y, r + 2)}", "match"
        elif ending:
            path, classes = diamond(x, y, r + 2), "match"
        elif state in ("stored", "found"):
            s = round(r * 0.85, 1)
            path = f"M{x - s:g},{y - s:g}h{2 * s:g}v{2 * s:g}h{-2 * s:g}Z"
        else:
            path = circle(x, y, r)
        part.add(spot.key, "path", classes, d=path, title=title)
        if state == "culprit" or reason[0]:
            s = r + 3
            cross = f"M{x - s},{y - s}l{2 * s},{2 * s}m0,{-2 * s}l{-2 * s},{2 * s}"
            part.add(f"{spot.key}:cross", "path", "drop", d=cross)
        if reason[0]:
            left = x > self.width - RIGHT - 120
            side = " end" if left else ""
            place = round(x - s - 5 if left else x + s + 5, 1)
            part.label(f"{spot.key}:why", place, y + 4, reason[0], f"said-drop halo{side}")
        if marked:
            part.add(f"{spot.key}:ring", "path", "ring", d=circle(x, y, page.big + 4))
        text = spot.label or (shortened(event.event, 9) if state == "culprit" else "")
        if text and event.event != self.moment.now:  # that one is named above
            faint = " dim" if state == "later" else ""
            y = spot.y - page.big - 5 - (2 if marked else 0)
            part.label(f"{spot.key}:text", x, round(y, 1), text, f"small middle halo{faint}")

    def verdict(self) -> None:
        """Whether the event just tried fits: a tick or a cross beside it."""
        tested = self.moment.tested
        spot = self.spot(tested.event) if tested else None
        x, y = (spot.x + self.page.big + 6, spot.y + 4) if spot else (LEFT, self.page.top)
        text = "" if tested is None or spot is None else "✓" if tested.passed else "✗"
        classes = "text yes" if text == "✓" else "text no"
        self.picture.label("verdict", round(x, 1), y, text, classes)

    def matches(self) -> None:
        page = self.page
        if page.matches_at is None:
            return
        y = page.matches_at
        self.picture.label("matches:name", LEFT - 10, y + 4, "matches", "said-match end")
        index = -1 if self.moment.index is None else self.moment.index
        for label, (places, steps) in page.matches.items():
            found = bisect_right(places, index)
            look = ("matches", label, found)
            if found and look not in page.drawn:
                page.drawn[look] = self.ended(label, steps[:found], y).shapes
            if found:
                self.picture.shapes.update(page.drawn[look])

    def ended(self, label: str, found: list[Matched], y: float) -> Scene:
        """The matches that an event has completed so far: a diamond with their numbers."""
        page, part = self.page, Scene(0, 0)
        # Of all matches, so that a label never covers one to come.
        stops = [-math.inf, *sorted({page.by_label[e][0].x for e in page.matches}), math.inf]
        numbers = [step.number for step in found]
        text = f"#{numbers[0]}" + (f"–{numbers[-1]}" if len(numbers) > 1 else "")
        x = page.by_label[label][0].x
        said = " ".join(step.say() for step in found[:8])
        more = f" And {len(found) - 8} more." if len(found) > 8 else ""
        title = shortened(said, LONGEST_TITLE) + more
        key = f"matches:{label}"
        part.add(key, "path", "match", d=diamond(x, y, page.big + 0.5), title=title)
        room = len(text) * 7.6 + 9
        at = stops.index(x)
        if x + room < min(stops[at + 1] - 8, self.width):
            part.label(f"{key}:text", x + 9, y + 4, text, "said-match")
        elif stops[at + 1] == math.inf and x - room > stops[at - 1] + 6:
            part.label(f"{key}:text", x - 9, y + 4, text, "said-match end")
        return part

    def legend(self) -> None:
        facts, picture, y = self.facts, self.picture, self.foot
        items = [("read", "read"), ("later", "to come")]
        if facts.trace is not None:
            who = "candidate" if self.moment.candidate else "in the run"
            items = [("bound", who), ("ignored", "ignored"), *items]
            if facts.stores:
                items[2:2] = [("found", "stored")]
                if facts.scopes:
                    items[3:3] = [("stored", "stored, out of scope")]
            if self.page.matches_at is not None:
                items.append(("end", "match"))
            if self.moment.candidate:
                items = [items[0], ("culprit", "in the way"), ("read", "not in it")]
            elif facts.negations:
                items.append(("culprit", "must not be"))
        x = float(LEFT)
        for name, words in items:
            key = f"legend:{name}"
            if name == "end":
                path, classes = diamond(x, y - 4, 6), "match"
            elif name == "culprit":
                path, classes = f"M{x - 5},{y - 9}l10,10m0,-10l-10,10", "drop"
            elif name in ("stored", "found"):
                path, classes = f"M{x - 4},{y - 8}h8v8h-8Z", CLASS_OF[name]
            else:
                r = 3 if name in ("read", "later") else 5
                path, classes = circle(x, y - 4, r), CLASS_OF[name]
            picture.add(key, "path", classes, d=path)
            picture.label(f"{key}:text", x + 10, y, words, "small")
            x = round(x + 28 + len(words) * LETTER, 1)


CLASS_OF = {
    "later": "read dim", "read": "read", "ignored": "hollow", "stored": "hollow-square",
    "found": "square", "bound": "dot", "culprit": "hollow",
}  # fmt: skip
WORDS = {
    "later": "still to come", "ignored": "ignored", "stored": "stored, outside of the scope",
    "found": "stored", "culprit": "what must not be there",
}  # fmt: skip
