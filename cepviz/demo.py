"""The start-here story without a notebook: told in the terminal, written as one HTML page."""

from __future__ import annotations

import argparse
import html
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cepviz.engines.base import Match
from cepviz.events import Event, Stream
from cepviz.language.parser import parse
from cepviz.language.pattern import Pattern
from cepviz.matching import Result, match, trace
from cepviz.steps import Move, Step
from cepviz.trace import Trace

#: The marks of a step, the same in every picture: kind or action to sign and class.
MARKS = {
    "arrive": ("▸", "arrive"),
    "test": ("?", "test"),
    "begin": ("●", "take"),
    "take": ("●", "take"),
    "ignore": ("○", "ignore"),
    "spawn": ("⇉", "spawn"),
    "match": ("◆", "match"),
    "drop": ("✕", "drop"),
}


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
    """The chapters: two queries of SASE+ Figure 1, and a trace of the eager NFA."""
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
    ]


# In the terminal


def told(chapters: Iterable[Chapter]) -> str:
    """The story as plain text."""
    lines = []
    for number, chapter in enumerate(chapters, 1):
        title = f"{number}. {chapter.title}"
        lines += [title, "=" * len(title), "", *_wrapped(chapter.about), ""]
        lines += _indented(str(chapter.pattern).splitlines())
        lines += ["", *_indented(repr(event) for event in chapter.stream), ""]
        if chapter.trace is not None:
            lines += [*_indented(chapter.trace.text().splitlines()), ""]
        lines += [_count(chapter.result), *_indented(map(_bound, chapter.result)), ""]
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 96)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _count(result: Result) -> str:
    return f"{len(result)} match{'' if len(result) == 1 else 'es'} by {result.engine}:"


def _bound(found: Match) -> str:
    bound = {name: (b,) if isinstance(b, Event) else b for name, b in found.bindings.items()}
    return ", ".join(f"{n} = {' '.join(e.label for e in events)}" for n, events in bound.items())


# As a page


def page(chapters: Sequence[Chapter]) -> str:
    """The story as one HTML page that needs nothing beside it and asks no other machine."""
    parts = [_section(number, chapter) for number, chapter in enumerate(chapters, 1)]
    return (
        PAGE.replace("@STYLE@", STYLE)
        .replace("@SCRIPT@", SCRIPT)
        .replace("@BODY@", "\n".join(parts))
    )


def _section(number: int, chapter: Chapter) -> str:
    pattern: str = chapter.pattern._repr_mimebundle_()["text/html"]
    if "<pre" not in pattern:
        pattern = f"<pre>{pattern}</pre>"
    stepper = "" if chapter.trace is None else _stepper(chapter.trace)
    return (
        f"<section><h2>{number}. {_safe(chapter.title)}</h2>\n<p>{_safe(chapter.about)}</p>\n"
        f"<div class='pattern'>{pattern}</div>\n{stepper}{_table(chapter)}\n</section>"
    )


def _table(chapter: Chapter) -> str:
    """The stream, an event a row, with a column for each match that says which are its own."""
    stream, result = chapter.stream, chapter.result
    told = stream.schema.roles.values()
    names = [name for name in stream.schema.attributes if name not in told]
    matches = list(enumerate(result, 1))
    heads = ["event", "time", "type", *names]
    head = "".join(f"<th>{_safe(text)}</th>" for text in heads)
    head += "".join(f"<th class='mark'>match {number}</th>" for number, _ in matches)
    rows = []
    for event in stream:
        values = [event.label, stream.schema.format_time(event.end), event.type]
        values += ["" if event.get(name) is None else event.get(name) for name in names]
        cells = "".join(f"<td>{_safe(value)}</td>" for value in values)
        for _, found in matches:
            variable = _variable(found, event)
            sign = f"<span class='in'>◆ {_safe(variable)}</span>" if variable else ""
            cells += f"<td class='mark'>{sign}</td>"
        rows.append(f"<tr data-event='{_safe(event.label)}'>{cells}</tr>")
    caption = f"{_count(result)[:-1]}, each marked in its column"
    return (
        f"<div class='wide'><table><caption>{_safe(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _variable(found: Match, event: Event) -> str:
    for name, bound in found.bindings.items():
        if event == bound if isinstance(bound, Event) else event in bound:
            return name if isinstance(bound, Event) else f"{name}[{bound.index(event) + 1}]"
    return ""


def _stepper(steps: Trace) -> str:
    states = "".join(
        f"<li data-state='{_safe(state.name)}'><b>{_safe(state.name)}</b>"
        f"<span>{_safe(_role(state.kind, state.label))}</span><span class='runs'></span></li>"
        for state in steps.graph.states
    )
    sentences, data = [], []
    for index, step in enumerate(steps):
        sign, kind = MARKS.get(_kind(step), ("·", "other"))
        sentence = _safe(step.say())
        sentences.append(f"<li class='{kind}'><i aria-hidden='true'>{sign}</i>{sentence}</li>")
        data.append([steps.event_of(index), steps.at(index).by_state()])
    # In a script element only `<` could end it, and JSON may write it otherwise.
    packed = json.dumps(data).replace("<", "\\u003c")
    return (
        "<div class='stepper'>"
        f"<ol class='states' aria-label='States and the runs in them'>{states}</ol>"
        "<p class='now' aria-live='polite'></p>"
        "<div class='buttons' hidden>"
        "<button data-go='first' aria-label='First step'>|◀</button>"
        "<button data-go='previous' aria-label='Previous step'>◀</button>"
        "<button data-go='next' aria-label='Next step'>▶</button>"
        "<button data-go='last' aria-label='Last step'>▶|</button>"
        "<span class='place'></span><span class='keys'>also with the keys ← →</span></div>"
        f"<ol class='steps' start='0'>{''.join(sentences)}</ol>"
        f"<script type='application/json'>{packed}</script></div>\n"
    )


def _kind(step: Step) -> str:
    return step.action if isinstance(step, Move) else step.kind


def _role(kind: str, variable: str) -> str:
    if kind == "final":
        return "a match"
    return f"waits for {variable}{'; run 0 is always here' if kind == 'start' else ''}"


def _safe(value: Any) -> str:
    return html.escape(str(value))


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>cepviz: start here</title>
<style>@STYLE@</style>
</head>
<body>
<header><h1>cepviz</h1><p>Complex event processing, step by step.</p></header>
<main>
@BODY@
</main>
<script>@SCRIPT@</script>
</body>
</html>
"""

STYLE = """
:root { --paper: #fff; --card: #f7f7f5; --ink: #1c1c1a; --soft: #5f5f5a; --line: #d9d9d4;
  --take: #0072b2; --match: #007a59; --drop: #c04f00; --now: #fff3d6; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #161616; --card: #202020; --ink: #ececea; --soft: #a6a6a0; --line: #3a3a38;
    --take: #56b4e9; --match: #2cc79d; --drop: #ff8a3d; --now: #3a3120; }
  .pattern { filter: brightness(1.45); } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
header p { color: var(--soft); margin: 0; }
h1 { margin: 0; }
h2 { margin: 0 0 .3rem; font-size: 1.25rem; }
section { margin: 2rem 0; padding: 1.2rem 1.4rem; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; }
section > p { margin: 0 0 1rem; max-width: 46rem; }
.pattern { margin-bottom: 1rem; overflow-x: auto; }
.pattern pre { margin: 0; font: 14px/1.5 ui-monospace, monospace; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line);
  white-space: nowrap; unicode-bidi: isolate; }
th { font-weight: 600; }
.in { color: var(--match); font-weight: 600; }
tr.now td { background: var(--now); }
.stepper { margin-bottom: 1.2rem; }
.states { display: flex; flex-wrap: wrap; gap: 1.6rem; margin: 0 0 1rem; padding: 0;
  list-style: none; }
.states li { min-width: 9rem; min-height: 5.6rem; padding: .4rem .7rem;
  border: 1px solid var(--line); border-radius: 8px; background: var(--paper); position: relative; }
.states li + li::before { content: "→"; position: absolute; left: -1.35rem; top: 2rem;
  color: var(--take); }
.states span { display: block; font-size: 13px; color: var(--soft); }
.states .runs { color: var(--take); font-weight: 600; }
p.now { min-height: 1.5em; margin: 0 0 .6rem; font-weight: 600; }
p.now:empty { display: none; }
.buttons { display: flex; gap: .4rem; align-items: center; margin-bottom: .8rem; }
.buttons[hidden] { display: none; }
button { font: inherit; min-width: 2.6rem; padding: .2rem .6rem; color: var(--ink);
  background: var(--paper); border: 1px solid var(--soft); border-radius: 6px; cursor: pointer; }
button:disabled { opacity: .4; cursor: default; }
button:focus-visible { outline: 2px solid var(--take); outline-offset: 1px; }
.place { margin-left: .6rem; font-variant-numeric: tabular-nums; }
.keys { margin-left: auto; color: var(--soft); font-size: 14px; }
.steps { max-height: 15rem; overflow-y: auto; margin: 0; padding: .4rem .4rem .4rem 2.8rem;
  font-size: 14px; border: 1px solid var(--line); border-radius: 8px; background: var(--paper);
  position: relative; }
.steps li { padding: 0 .3rem; }
.steps li::marker { color: var(--soft); font-variant-numeric: tabular-nums; }
.steps i { display: inline-block; width: 1.4rem; font-style: normal; color: var(--soft); }
.steps .arrive { margin-top: .4rem; font-weight: 600; }
.steps .take i, .steps .spawn i { color: var(--take); }
.steps .match, .steps .match i { color: var(--match); font-weight: 600; }
.steps .drop, .steps .drop i { color: var(--drop); }
.steps .now { background: var(--now); }
"""

SCRIPT = """
for (const stepper of document.querySelectorAll('.stepper')) {
  const one = selector => stepper.querySelector(selector);
  const steps = [...stepper.querySelectorAll('.steps li')];
  const data = JSON.parse(one('script').textContent);
  const rows = [...stepper.parentElement.querySelectorAll('tr[data-event]')];
  const list = one('.steps');
  let place = 0;
  function go(to) {
    place = Math.max(0, Math.min(steps.length - 1, to));
    const [event, runs] = data[place];
    one('p.now').textContent = steps[place].lastChild.textContent;
    one('.place').textContent = `step ${place} of ${steps.length - 1}`;
    steps.forEach((step, index) => step.classList.toggle('now', index === place));
    rows.forEach(row => row.classList.toggle('now', row.dataset.event === event));
    for (const state of stepper.querySelectorAll('.states li')) {
      const there = runs[state.dataset.state] || [];
      const word = there.length > 1 ? 'runs' : 'run';
      state.lastChild.textContent = there.length ? `${word} ${there.join(', ')}` : '';
    }
    list.scrollTop = steps[place].offsetTop - list.clientHeight / 2;
    one('[data-go=first]').disabled = one('[data-go=previous]').disabled = place === 0;
    one('[data-go=last]').disabled = one('[data-go=next]').disabled = place === steps.length - 1;
  }
  const moves = {first: () => go(0), previous: () => go(place - 1), next: () => go(place + 1),
    last: () => go(steps.length - 1)};
  for (const button of stepper.querySelectorAll('button')) {
    button.addEventListener('click', moves[button.dataset.go]);
  }
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const move = {ArrowRight: moves.next, ArrowLeft: moves.previous}[event.key];
    if (move) { move(); event.preventDefault(); }
  });
  one('.buttons').hidden = false;
  go(0);
}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Tells the story, writes the page, and says where it is."""
    parser = argparse.ArgumentParser(prog="python -m cepviz.demo", description=__doc__)
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("build/demo.html"))
    path: Path = parser.parse_args(arguments).out
    chapters = story()
    print(told(chapters))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(chapters), encoding="utf-8")
    except OSError as error:
        print(f"cannot write the page: {error}", file=sys.stderr)
        return 1
    print(f"The same as a page to step through: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
