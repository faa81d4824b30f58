"""A trace as one page that plays it: no network, no kernel, from a mail attachment.

Every step is drawn in Python. The page holds, for each shape of each panel, the steps at which it
changes, so any step can be shown at once; equal shapes are kept once.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from cepviz.language.highlight import highlighted
from cepviz.trace import Trace
from cepviz.views.scene import Scene, Shape
from cepviz.views.style import stylesheet

View = Callable[..., Scene]

#: A page of more steps than this takes long to make and to read; it shows the first ones.
MOST_STEPS = 20_000
#: With fewer steps than this no progress bar is thought of.
LONG = 500

PAGE_STYLE = """
html{color-scheme:light dark}
html[data-theme=light]{color-scheme:light} html[data-theme=dark]{color-scheme:dark}
body{margin:0;background:var(--paper);color:var(--ink)}
main{max-width:1760px;margin:0 auto;padding:12px 16px 24px}
h1{font-size:15px;margin:0 0 8px;font-weight:600} h2{font-size:12px;margin:0;color:var(--faint);
font-weight:600}
main>pre{margin:0 0 12px!important}
#panels{display:flex;flex-wrap:wrap;gap:14px}
section{border:1px solid var(--line);border-radius:6px;padding:8px 10px;max-width:100%;
box-sizing:border-box}
.scroll{overflow:auto;max-height:70vh} svg{display:block;max-width:none}
#bar{position:sticky;bottom:0;background:var(--paper);border-top:1px solid var(--line);
padding:8px 0;margin-top:12px}
#say{font-size:15px;line-height:1.4;min-height:2.9em;padding-left:10px;
border-left:4px solid var(--line)}
#say[data-kind=match]{border-color:var(--green)} #say[data-kind=drop]{border-color:var(--vermilion)}
#say[data-kind=spawn]{border-color:var(--purple)} #say[data-kind=arrive]{border-color:var(--ink)}
#controls{display:flex;flex-wrap:wrap;gap:6px;align-items:center;margin-top:6px;font-size:13px}
button,select{font:inherit;color:inherit;background:var(--wash);border:1px solid var(--line);
border-radius:5px;padding:3px 9px;min-height:28px} button:disabled{opacity:.4}
button:focus-visible,input:focus-visible{outline:2px solid var(--ink);outline-offset:1px}
#slider{flex:1 1 220px;min-width:140px} #where{min-width:11em}
dialog{background:var(--paper);color:var(--ink);border:1px solid var(--line);border-radius:8px}
kbd{border:1px solid var(--line);border-radius:3px;padding:0 4px;font-size:12px}
td{padding:2px 10px 2px 0}
"""

KEYS = [
    ("→ ←", "one step on, one back"),
    ("shift → ←", "one event on, one back"),
    ("space", "play, pause"),
    ("m d s r", "next match, drop, split, replan; with shift the previous"),
    ("home end", "first, last step"),
    ("1 … 9", "follow one of the runs seen last; again or esc to stop"),
    ("?", "this help"),
]


def replay(
    trace: Trace,
    views: Sequence[tuple[str, View]] | None = None,
    *,
    progress: bool | None = None,
) -> str:
    """The page that plays a trace, as text.

    Making a long one takes a while: on a terminal a progress bar shows after two seconds, with
    `progress=True` anywhere, with False nowhere.
    """
    if views is None:
        from cepviz.views.automaton import automaton
        from cepviz.views.buffer import buffer
        from cepviz.views.timeline import timeline

        views = [("Automaton", automaton), ("Buffer", buffer), ("Timeline", timeline)]
    count = min(len(trace), MOST_STEPS)
    panels = [_Panel(title, view) for title, view in views]
    for index in _watched(count, progress):
        for panel in panels:
            panel.add(trace, index)
    shapes: list[Any] = []
    listed = []
    for panel in panels:
        listed.append(panel.to_plain(len(shapes)))
        shapes += map(json.loads, panel.shapes)
    data = {
        "panels": listed,
        "shapes": shapes,
        "say": [trace[index].say() for index in range(count)] or ["Nothing happened."],
        "kinds": [trace[index].kind for index in range(count)] or ["arrive"],
        "runs": [getattr(trace[index], "run", "") for index in range(count)] or [""],
    }
    return _page(trace, data, count)


def _watched(count: int, progress: bool | None) -> Iterable[int]:
    """The steps with a progress bar: on request, or after two seconds on a terminal."""
    if progress is False or (progress is None and count < LONG):
        return range(count)
    from tqdm.auto import tqdm

    off = None if progress is None else False
    return tqdm(range(count), unit=" steps", delay=2, leave=False, disable=off)


class _Panel:
    """One view of all steps: for each shape, the steps at which it changes."""

    def __init__(self, title: str, view: View):
        self.title, self.view = title, view
        self.shapes: dict[str, int] = {}  # each once, with its number
        self.history: dict[str, list[int]] = {}
        self.order: list[str] = []
        self.before: Scene | None = None
        self.width = self.height = 0.0

    def add(self, trace: Trace, index: int) -> None:
        scene = self.view(trace, index)
        self.width, self.height = max(self.width, scene.width), max(self.height, scene.height)
        known = self.before.shapes if self.before is not None else {}
        changed = [
            (key, shape)
            for key, shape in scene.shapes.items()
            if (old := known.get(key)) is not shape and old != shape
        ]
        if any(key not in self.history for key, _ in changed):
            _merge(self.order, list(scene.shapes), self.history)
        for key, shape in changed:
            self.history[key] += [index, self.number(shape)]
        for key in known:
            if key not in scene.shapes:
                self.history[key] += [index, -1]
        self.before = scene

    def number(self, shape: Shape) -> int:
        packed = json.dumps(shape.to_plain(), separators=(",", ":"))
        return self.shapes.setdefault(packed, len(self.shapes))

    def to_plain(self, offset: int) -> dict[str, Any]:
        """The panel as JSON; its shapes are numbered on from those of the panels before."""
        for listed in self.history.values():
            listed[1::2] = [n if n < 0 else n + offset for n in listed[1::2]]
        return {
            "title": self.title,
            "width": round(self.width),
            "height": round(self.height),
            "keys": self.order,
            "history": [self.history[key] for key in self.order],
        }


def _merge(order: list[str], keys: list[str], history: dict[str, list[int]]) -> None:
    """Puts keys that are new into the drawing order, each behind the one drawn before it."""
    previous: str | None = None
    for key in keys:
        if key not in history:
            history[key] = []
            order.insert(0 if previous is None else order.index(previous) + 1, key)
        previous = key


def _page(trace: Trace, data: dict[str, Any], count: int) -> str:
    packed = base64.b64encode(gzip.compress(json.dumps(data).encode(), mtime=0)).decode()
    script = Path(__file__).with_name("replay.js").read_text(encoding="utf-8")
    cut = f", the first {count:,} shown" if count < len(trace) else ""
    title = f"{trace.engine}: {len(trace):,} steps{cut}, {len(trace.matches):,} matches"
    keys = "".join(
        f"<tr><td><kbd>{html.escape(key)}</kbd></td><td>{html.escape(what)}</td></tr>"
        for key, what in KEYS
    )
    jumps = "".join(
        f'<button id="next-{kind}">{name}</button>'
        for kind, name in (
            ("match", "match ◆"), ("drop", "drop ✕"), ("spawn", "split"), ("replan", "replan"),
        )
    )  # fmt: skip
    note = f"<p>{html.escape(trace.note)}</p>" if trace.note else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cepviz: {html.escape(title)}</title>
<style>{stylesheet()}{PAGE_STYLE}</style></head>
<body class="cep"><main>
<h1>{html.escape(title)}</h1>{note}
{highlighted(trace.pattern)}
<div id="panels"></div>
<div id="bar">
<div id="say" role="status" aria-live="polite"></div>
<div id="controls">
<button id="first" title="first step (home)">|◀</button>
<button id="back" title="one step back (left)">◀</button>
<button id="on" title="one step on (right)">▶</button>
<button id="last" title="last step (end)">▶|</button>
<button id="play" title="space">play</button>
<label>speed <select id="speed"><option value="1">slow</option><option value="3" selected>medium
</option><option value="10">fast</option><option value="40">very fast</option></select></label>
<input id="slider" type="range" min="0" value="0" aria-label="step">
<span id="where"></span> <span>next:</span> {jumps}
<button id="theme" title="light or dark">◐</button><button id="help" title="keys">?</button>
</div></div>
<dialog id="keys"><table>{keys}</table><form method="dialog"><button>close</button></form></dialog>
</main>
<script type="text/plain" id="data">{packed}</script>
<script>{script}</script>
</body></html>
"""
