"""The timeline in letters, for a terminal: a line for each lane."""

from __future__ import annotations

from typing import Any

from cepviz.views.axis import Scale
from cepviz.views.marks import LONGEST_TITLE
from cepviz.views.scene import Number, shortened
from cepviz.views.timeline_moment import Moment, limits_of, state_of
from cepviz.views.timeline_page import Facts, finite, page_of

SIGNS = {
    "later": "˙", "read": "·", "ignored": "○", "stored": "□", "found": "■", "bound": "●",
    "end": "◆", "culprit": "✕",
}  # fmt: skip


def in_letters(facts: Facts, moment: Moment, width: int) -> str:
    page = page_of(facts, max(moment.current if moment.now else 0, 0), 960)
    names = [shortened(lane.name, 20) for lane in facts.lanes]
    left = max(map(len, [*names, "window" if facts.window else ""]), default=0) + 1
    room = max(width - left - 1, 10)
    scale = page.scale

    def column(time: Number) -> int:
        share = (scale(time) - scale.low) / (scale.high - scale.low)
        return round(share * (room - 2))

    lines = []
    limits = limits_of(facts, moment) if facts.window else None
    if limits:
        lines.append(f"{'window':{left}}{_span(column, scale, *limits[:2])}")
    if moment.scope is not None:
        ends = []
        for label, side, other in ((moment.scope.start, -1, scale.first - 1),
                                   (moment.scope.end, 1, scale.last + 1)):  # fmt: skip
            place = facts.ordinal.get(label)
            event = facts.events[place] if place is not None else None
            ends.append(other if event is None else event.end if side < 0 else event.start)
        lines.append(f"{'scope':{left}}{_span(column, scale, ends[0], ends[1])}")
    last = max(
        (e for e in moment.bound if e in facts.ordinal), key=facts.ordinal.__getitem__, default=""
    )
    rank = list(SIGNS.values())
    seen = set()
    for lane, name in zip(facts.lanes, names, strict=True):
        cells = [" "] * room
        for spot in page.spots:
            if spot.lane is not lane:
                continue
            state = state_of(moment, spot.event, spot.place)
            bound_as = moment.bound.get(spot.event.event)
            if state == "bound" and lane.variable not in ("", bound_as):
                state = "read"
            if state == "bound" and moment.matched is not None and spot.event.event == last:
                state = "end"
            end = column(finite(spot.event.end))
            for at in range(column(finite(spot.event.start)), end):
                cells[at] = "━" if cells[at] == " " else cells[at]
            if cells[end] not in rank or rank.index(cells[end]) < rank.index(SIGNS[state]):
                cells[end] = SIGNS[state]
            seen.add(state)
        lines.append(f"{name:{left}}{''.join(cells)}".rstrip())
    if moment.now:
        spots = page.by_label.get(moment.now, [])
        at = column(finite(spots[0].event.end)) if spots else 0
        lines.append(f"{' ' * (left + at)}▲ {shortened(moment.now, 20)}")
    first, final = (shortened(facts.clock.format_time(t), 40) for t in (scale.first, scale.last))
    lines.append(f"{'':{left}}{first}{final:>{max(room - 1 - len(first), len(final) + 1)}}")
    outside = [f"{page.low:,} events earlier"] if page.low else []
    outside += [f"{facts.count - page.high:,} events later"] if page.high < facts.count else []
    lines += [f"{'':{left}}{', '.join(outside)}"] if outside else []
    lines.append(shortened(moment.say, LONGEST_TITLE))
    holder = "in the match" if moment.matched is not None else "in the run"
    told = {"bound": holder, "end": "its end", "ignored": "ignored", "found": "stored",
            "stored": "stored, out of scope", "read": "read", "later": "to come",
            "culprit": "must not be"}  # fmt: skip
    lines.append("  ".join(f"{SIGNS[state]} {words}" for state, words in told.items()
                           if state in seen))  # fmt: skip
    return "\n".join(lines)


def _span(column: Any, scale: Scale, low: Number, high: Number) -> str:
    start, end = column(max(low, scale.first)), column(min(high, scale.last))
    left, right = ("├" if low >= scale.first else "◂"), ("┤" if high <= scale.last else "▸")
    return f"{' ' * start}{left}{'─' * max(end - start - 1, 0)}{right}"
