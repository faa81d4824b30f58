"""Time axes: from a time to a place in the picture, and a few round times to mark."""

from __future__ import annotations

import math
from bisect import bisect_left

from cepviz.events import Schema
from cepviz.views.scene import Number

LETTER = 6.7  # the width of a letter of 11 px


class Scale:
    """From time to place: in proportion or, where events crowd, evenly from one to the next."""

    def __init__(self, times: list[Number], low: float, high: float, even: bool):
        self.even = even
        self.times = sorted(set(times)) or [0]
        self.low, self.high = low, high
        first, last = self.times[0], self.times[-1]
        self.first, self.last = (first - 1, last + 1) if first == last else (first, last)

    def __call__(self, time: Number) -> float:
        room = self.high - self.low
        if not self.even or len(self.times) < 2:
            share = (time - self.first) / (self.last - self.first)
            return round(self.low + min(1.0, max(0.0, share)) * room, 1)
        place = bisect_left(self.times, time)
        if place == len(self.times):
            return self.high
        share = float(place)
        if time < self.times[place] and place:
            before = self.times[place - 1]
            share += (time - before) / (self.times[place] - before) - 1
        return round(self.low + share / (len(self.times) - 1) * room, 1)

    def holds(self, time: Number) -> bool:
        return self.first <= time <= self.last

    def ticks(self, clock: Schema) -> tuple[list[tuple[float, str]], str]:
        """The marks of the axis, and what is common to them."""
        if self.even:
            step = max(1, math.ceil(len(self.times) / 7))
            chosen = self.times[::step]
        else:
            chosen = nice_times(self.first, self.last, clock)
        texts, common = _without_common([clock.format_time(time) for time in chosen])
        unit = "" if clock.zone else f"time in {clock.unit}"
        caption = " ".join(filter(None, [common, unit]))
        caption += ", not to scale" if self.even else ""
        placed = [(self(time), text) for time, text in zip(chosen, texts, strict=True)]
        kept: list[tuple[float, str]] = []
        edge = -math.inf
        for x, text in placed:
            if x - len(text) * LETTER / 2 > edge:
                kept.append((x, text))
                edge = x + len(text) * LETTER / 2 + 8
        return kept, caption


def nice_times(first: Number, last: Number, clock: Schema, most: int = 7) -> list[Number]:
    """A few round times between two.

    >>> nice_times(0, 10, Schema())
    [0, 2, 4, 6, 8, 10]
    """
    span = last - first
    if clock.zone is None:
        rough = span / most
        size = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
        step: Number = next(s * size for s in (1, 2, 5, 10) if s * size >= rough * 0.999)
        offset: Number = 0
        if float(step).is_integer() and isinstance(first, int):
            step = int(step)
    else:
        units = [("ns", 1), ("us", 1), ("ms", 1), ("s", 1), ("min", 1), ("h", 1), ("day", 1)]
        counts = {"min": (1, 2, 5, 10, 15, 30), "h": (1, 2, 3, 6, 12), "s": (1, 2, 5, 10, 15, 30)}
        days = (1, 2, 7, 14, 30, 90, 180, 365, 730, 1825, 3650, 36500)
        fine = (1, 2, 5, 10, 20, 50, 100, 200, 500)
        steps = [
            clock.duration(n, unit)
            for unit, _ in units
            for n in (days if unit == "day" else counts.get(unit, fine))
        ]
        step = next((s for s in steps if s and s >= span / most), steps[-1])
        offset = _offset(clock, first)
    start = math.ceil((first + offset) / step) * step - offset
    count = int((last - start) // step) + 1 if last >= start else 0
    return [start + n * step for n in range(count)] or [first]


def _offset(clock: Schema, time: Number) -> Number:
    """How far the clock's zone is ahead, so that marks fall on its full hours and days."""
    text = clock.format_time(time)
    if len(text) > 6 and text[-6] in "+-" and text[-3] == ":":
        minutes = int(text[-5:-3]) * 60 + int(text[-2:])
        return clock.duration(minutes if text[-6] == "+" else -minutes, "minutes")
    return 0


def _without_common(texts: list[str]) -> tuple[list[str], str]:
    """Dates and zones that all texts share are said once."""
    dated = all(len(text) > 18 and text[10] == " " for text in texts)
    if not dated or not texts:
        return texts, ""
    day = texts[0][:10] if len({text[:10] for text in texts}) == 1 else ""
    zone = texts[0][-6:] if texts[0][-6] in "+-" else ""
    if not all(text.endswith(zone) for text in texts):
        zone = ""
    cut = [text[11 if day else 5 : len(text) - len(zone)] for text in texts]
    if all(text.endswith(":00") for text in cut):
        cut = [text[:-3] for text in cut]
    return cut, " ".join(filter(None, [day or texts[0][:4], f"UTC{zone}" if zone else ""]))
