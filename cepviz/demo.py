"""The start-here story without a notebook: told in the terminal, then played by a page."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cepviz.engines.base import Match
from cepviz.events import Event, Stream
from cepviz.language.parser import parse
from cepviz.language.pattern import Pattern
from cepviz.matching import Result, match, trace
from cepviz.trace import Trace


@dataclass(frozen=True)
class Chapter:
    """A pattern, a stream, what was found in it, and, where it is told step by step, the trace."""

    title: str
    about: str
    pattern: Pattern
    stream: Stream
    result: Result
    trace: Trace | None = None

    @classmethod
    def of(cls, title: str, about: str, text: str, stream: Stream, watched: str = "") -> Chapter:
        """A chapter; `watched` names the engine whose every step is told."""
        pattern = parse(text)
        steps = trace(pattern, stream, engine=watched) if watched else None
        result = match(pattern, stream, engine=watched or None)
        return cls(title, about, pattern, stream, result, steps)


def shop() -> Stream:
    """Readings of the tags on three items: 7 is paid for, 8 is not, 9 leaves in the night."""
    readings = [
        ("09:00", "Shelf", 7),
        ("09:05", "Shelf", 8),
        ("09:20", "Register", 7),
        ("09:25", "Exit", 7),
        ("09:30", "Exit", 8),
        ("10:00", "Shelf", 9),
        ("22:30", "Exit", 9),
    ]
    return Stream.from_records(
        {"type": type, "time": f"2024-01-02 {time}", "tag_id": tag} for time, type, tag in readings
    )


def stocks() -> Stream:
    """The eight events of SASE+ Figure 3."""
    prices = (100, 120, 120, 121, 120, 125, 120, 120)
    volumes = (1010, 990, 1005, 999, 999, 750, 950, 700)
    rows = [
        {
            "id": number,
            "type": "Stock",
            "time": f"2024-01-02 10:{number * 5:02}",
            "symbol": "GOOG",
            "price": price,
            "volume": volume,
        }
        for number, (price, volume) in enumerate(zip(prices, volumes, strict=True), 1)
    ]
    return Stream.from_records(rows, id="id")


def story() -> list[Chapter]:
    """The chapters: a query of SASE+ Figure 1, how the eager NFA gets there, and a larger one."""
    return [
        Chapter.of(
            "Shoplifting",
            "Query 1 of SASE+: an item was taken from a shelf and left the shop, and nobody saw it "
            "at a register in between. Item 7 was paid for. Item 9 took longer than the window.",
            """PATTERN SEQ(Shelf a, ~(Register b), Exit c)
            WHERE skip_till_next_match(a, b, c) { [tag_id] }
            WITHIN 12 hours""",
            shop(),
        ),
        Chapter.of(
            "How an automaton gets there",
            "The two positive parts of the first query, by the eager NFA of LAZY. A run waits in "
            "q2 with a shelf reading in its buffer. An exit with the same tag splits it: one copy "
            "takes the event and is a match, the other waits on until the window has passed.",
            "PATTERN SEQ(Shelf a, Exit c) WHERE [tag_id] WITHIN 12 hours",
            shop(),
            watched="eager",
        ),
        Chapter.of(
            "A price that rises until the volume drops",
            "Query 3 of SASE+: a[] is a run of events, each priced above the average of those "
            "before it; b is the event whose volume is less than 80% of the last one's. The three "
            "matches overlap: an event may be in any number of them.",
            """PATTERN SEQ(Stock+ a[], Stock b)
            WHERE skip_till_next_match(a[], b) {
                [symbol]
                and a[1].volume > 1000
                and a[i].price > avg(a[..i-1].price)
                and b.volume < 80% * a[a.LEN].volume }
            WITHIN 1 hour""",
            stocks(),
            watched="sase",
        ),
    ]


# In the terminal


def told(chapters: Iterable[Chapter]) -> str:
    """The story as plain text."""
    lines = []
    for number, chapter in enumerate(chapters, 1):
        title = f"{number}. {chapter.title}"
        lines += [title, "=" * len(title), "", *textwrap.wrap(chapter.about, 96), ""]
        lines += _indented(str(chapter.pattern).splitlines())
        lines += ["", *_indented(repr(event) for event in chapter.stream), ""]
        if chapter.trace is not None:
            lines += [*_indented(chapter.trace.text().splitlines()), ""]
        lines += [_count(chapter.result), *_indented(map(_bound, chapter.result)), ""]
    return "\n".join(lines)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _count(result: Result) -> str:
    return f"{len(result)} match{'' if len(result) == 1 else 'es'} by {result.engine}:"


def _bound(found: Match) -> str:
    bound = {name: (b,) if isinstance(b, Event) else b for name, b in found.bindings.items()}
    return ", ".join(f"{n} = {' '.join(e.label for e in events)}" for n, events in bound.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Tells the story, writes the page that plays its last chapter, and says where it is."""
    parser = argparse.ArgumentParser(prog="python -m cepviz.demo", description=__doc__)
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("build/demo.html"))
    path: Path = parser.parse_args(arguments).out
    chapters = story()
    print(told(chapters))
    played = chapters[-1].trace
    assert played is not None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        played.to_html(path)
    except OSError as error:
        print(f"cannot write the page: {error}", file=sys.stderr)
        return 1
    print(f"The last chapter as a page that plays it, step by step: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
