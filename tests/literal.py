"""Small streams and matches written out: `a1 b1@7(x=3)` and `a1 a2|b1`."""

from __future__ import annotations

import re
from collections import Counter

import cepviz as cep
from cepviz.engines.base import bag
from cepviz.engines.registry import ENGINES, refusal

#: The engines that show their steps.
WATCHED = [name for name, engine in ENGINES.items() if not engine.whole]

TOKEN = re.compile(r"([a-z])(\w*)(?:@([\d.]+)(?:-([\d.]+))?)?(?:\(([^)]*)\))?")


def stream(text: str) -> cep.Stream:
    """`a1 b1@7(x=3) c1@2-9`: the id, its type (the letter in capitals), its time (by default its
    place), for an interval start-end, and attributes; `x=` is a missing value."""
    records = []
    for place, token in enumerate(text.split()):
        letter, number, start, end, attributes = TOKEN.fullmatch(token).groups()
        record = {"id": letter + number, "type": letter.upper()}
        record["start"] = _value(start) if start else place
        record["end"] = _value(end) if end else record["start"]
        for pair in filter(None, (attributes or "").split(",")):
            name, value = pair.split("=")
            record[name] = _value(value)
        records.append(record)
    return cep.Stream.from_records(records, time="start", end="end", id="id")


def _value(text: str):
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    return text or None


def written(match) -> str:
    """`a1 a2|b1`: the ids of each variable, in the order of the pattern."""
    groups = (ids if isinstance(ids, list) else [ids] for ids in match.ids.values())
    return "|".join(" ".join(map(str, group)) for group in groups)


def check(pattern: str, events: str, *expected: str) -> None:
    """Every engine that takes the pattern finds exactly these matches."""
    pattern, events = cep.parse(pattern), stream(events)
    for name, engine in ENGINES.items():
        if refusal(engine, pattern, _intervals(events)) is None:
            result = cep.match(pattern, events, engine=name)
            assert Counter(map(written, result)) == Counter(expected), name


def same_matches(left, right) -> None:
    """Two results hold the same matches, as multisets of bindings."""
    assert bag(left) == bag(right)


def _intervals(events: cep.Stream) -> bool:
    return bool((events.starts != events.ends).any())
