"""A trace as one page that plays it: no network, no kernel, from a mail attachment."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from cepviz.language.highlight import STYLES
from cepviz.trace import Trace
from cepviz.views.film import Film, View, head, packed
from cepviz.views.style import stylesheet

#: A page of more steps than this takes long to make and to read; it shows the first ones.
MOST_STEPS = 20_000

#: How a player looks, in a page and in a notebook. The pattern has its usual marks, but colours
#: that follow the theme.
PLAYER_STYLE = "".join(f".cep-player .cepviz-{k}{{{style}}}" for k, style in STYLES.items())
PLAYER_STYLE += """
.cep-player{background:var(--paper);color:var(--ink);font-size:13px;line-height:1.35;padding:10px;
box-sizing:border-box;border:1px solid var(--line);border-radius:6px;outline-offset:-1px}
.cep-player:focus,.cep-player:focus-within{border-color:var(--sky)}
.cep-player:focus{outline:1px solid var(--sky)}
.cep-player .title{font-weight:600;margin-bottom:6px}
.cep-player .note{margin:0 0 6px;color:var(--vermilion)}
.cep-player h4{font-size:13px;margin:0 0 4px;color:var(--ink)}
.cep-player pre.cepviz-pattern{white-space:pre-wrap;overflow-wrap:anywhere;background:none;
color:inherit;margin:0 0 8px;padding:2px;border:0;font-size:12px;line-height:1.45}
.cep-player .lit{background:var(--wash);box-shadow:0 1.5px var(--ink),0 -1.5px var(--ink)}
.cep-player .lit.opens{box-shadow:0 1.5px var(--ink),0 -1.5px var(--ink),-1.5px 0 var(--ink),
-1.5px 1.5px var(--ink),-1.5px -1.5px var(--ink)}
.cep-player .lit.closes{box-shadow:0 1.5px var(--ink),0 -1.5px var(--ink),1.5px 0 var(--ink),
1.5px 1.5px var(--ink),1.5px -1.5px var(--ink)}
.cep-player .lit.opens.closes{box-shadow:0 0 0 1.5px var(--ink)}
.cep-player .films.many{display:flex;flex-wrap:wrap;gap:12px;align-items:flex-start}
.cep-player .films.many .film{flex:1 1 420px;min-width:0;border:1px solid var(--line);
border-radius:6px;padding:8px;box-sizing:border-box}
.cep-player .film-say{min-height:2.7em;margin-bottom:4px}
.cep-player .panels{display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start}
.cep-player details{border:1px solid var(--line);border-radius:6px;padding:4px 8px;max-width:100%;
box-sizing:border-box}
.cep-player summary{font-size:12px;color:var(--faint);font-weight:600;cursor:pointer}
.cep-player .scroll{overflow:auto;max-height:70vh}
.cep-player svg{display:block;max-width:none}
.cep-player [data-about]{cursor:pointer}
.cep-player .chosen>*:not(text){stroke:var(--ink);stroke-width:2.8}
.cep-player .chosen>text{text-decoration:underline}
.cep-player.waiting .panels{opacity:.55}
.cep-player .bar{position:sticky;bottom:0;background:var(--paper);border-top:1px solid var(--line);
padding-top:8px;margin-top:8px;z-index:1}
/* In JupyterLab the output's own boxes would hold the bar at the end of a tall player. */
.jp-OutputArea:has(.cep-player),.jp-OutputArea-child:has(.cep-player),.jp-OutputArea-output:has(.cep-player),
.jp-OutputArea-output:has(.cep-player) *:has(>.cep-player){overflow:visible}
.cep-player .say{font-size:15px;line-height:1.4;min-height:2.8em;padding-left:10px;
border-left:4px solid var(--line);overflow-wrap:anywhere}
.cep-player .say[data-kind=match]{border-color:var(--green)}
.cep-player .say[data-kind=drop]{border-color:var(--vermilion)}
.cep-player .say[data-kind=spawn]{border-color:var(--purple)}
.cep-player .say[data-kind=arrive]{border-color:var(--ink)}
.cep-player .values{padding-left:14px;color:var(--faint);overflow-wrap:anywhere}
.cep-player .asking{display:flex;flex-wrap:wrap;gap:6px;align-items:center;padding:4px 0 0 14px}
.cep-player .asking:empty{display:none}
.cep-player .question,.cep-player .verdict{font-weight:600}
.cep-player .controls{display:flex;flex-wrap:wrap;gap:5px;align-items:center;margin-top:6px}
.cep-player button,.cep-player select{font:inherit;color:inherit;background:var(--wash);
border:1px solid var(--line);border-radius:5px;padding:3px 8px;min-height:28px;cursor:pointer}
.cep-player button:disabled{opacity:.4;cursor:default}
.cep-player button[aria-pressed=true]{box-shadow:inset 0 0 0 2px var(--ink)}
.cep-player button:focus-visible,.cep-player input:focus-visible{outline:2px solid var(--ink);
outline-offset:1px}
.cep-player .slider{flex:1 1 200px;min-width:120px;accent-color:var(--sky)}
.cep-player .where{min-width:9em}
.cep-player dialog{background:var(--paper);color:var(--ink);border:1px solid var(--line);
border-radius:8px}
.cep-player kbd{border:1px solid var(--line);border-radius:3px;padding:0 4px;font-size:12px;
background:none;color:inherit;white-space:nowrap}
.cep-player table{border-collapse:collapse;margin:8px 0 0;background:none;color:inherit;
font-size:12px}
.cep-player caption{text-align:left;white-space:nowrap;font-weight:600;padding:2px 0;color:inherit}
.cep-player td,.cep-player th{padding:2px 12px 2px 0;text-align:left;background:none;
vertical-align:top}
.cep-player .tables tbody tr{cursor:pointer}
.cep-player .tables tbody tr:hover{background:var(--wash)}
.cep-player .later{opacity:.35}
.cep-player .three{display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start}
.cep-player .three .left{flex:1 1 240px;max-width:320px} .cep-player .three .right{flex:3 1 560px;
min-width:0}
.cep-player .slide label{display:flex;flex-wrap:wrap;justify-content:space-between;gap:4px}
.cep-player .slide input{width:100%;margin:2px 0 0;accent-color:var(--sky)}
.cep-player .marks{position:relative;height:12px;margin:0 8px 8px}
.cep-player .marks span{position:absolute;top:0;width:0;height:0;transform:translateX(-50%)}
.cep-player .estimate{border:5px solid transparent;border-bottom:8px solid var(--ink);border-top:0}
.cep-player .notch{border-left:2.5px solid var(--vermilion);height:12px!important}
.cep-player .preview{margin:6px 0;font-weight:600} .cep-player .preview.broken{
color:var(--vermilion)}
.cep-player .preview.broken::before{content:"✕ "}
.cep-player .flash{animation:cep-flash .4s 4 alternate}
@keyframes cep-flash{to{background:var(--vermilion);color:var(--paper)}}
.cep-player.lab>.panels{margin-top:8px} .cep-player.lab .plans details+details{opacity:.5}
.cep-player.form{margin-bottom:6px}
.cep-player .picked{box-shadow:inset 0 0 0 2px var(--ink)}
.cep-player .picked td:first-child{padding-left:4px}
.cep-player tr[tabindex]{cursor:pointer}
.cep-player.form .scroll{max-height:300px;margin-bottom:6px}
.cep-player input[type=text]{font:inherit;color:inherit;background:var(--paper);
border:1px solid var(--line);border-radius:4px;padding:2px 5px;box-sizing:content-box}
.cep-player .events td{vertical-align:middle}
.cep-player .events button{min-height:22px;padding:0 6px;margin-right:3px;font-size:11px}
.cep-player .answer{margin:6px 0;font-family:ui-monospace,'DejaVu Sans Mono',monospace;
font-size:12px;white-space:pre-wrap;overflow-x:auto}
.cep-player .answer .panels{margin:6px 0;font-family:system-ui,'DejaVu Sans',sans-serif}
.cep-player .answer td{white-space:pre-wrap}
.cep-player .came{border-left:4px solid var(--green);margin-top:4px}
.cep-player .gone{border-left:4px solid var(--vermilion);margin-top:4px}
.cep-player .came>summary,.cep-player .gone>summary{color:var(--ink)}
.cep-player .bars{width:100%}
.cep-player .bar-cell{position:relative;min-width:7em;padding:3px 14px 3px 6px}
.cep-player .bar-cell .fill{position:absolute;left:0;top:3px;bottom:3px;background:var(--sky);
opacity:.35;border-radius:3px;max-width:calc(100% - 10px)}
.cep-player .bar-cell.far .fill{background:var(--green)}
.cep-player .bar-cell .number{position:relative}
.cep-player .differs td:first-child{font-weight:600}
.cep-player .differs td:first-child::before{content:"≠ "}
.cep-player .cepviz-keyword{color:var(--blue)} .cep-player .cepviz-type{color:var(--green)}
.cep-player .cepviz-string{color:var(--vermilion)} .cep-player .cepviz-number{color:var(--purple)}
"""

PAGE_STYLE = """
html{color-scheme:light dark}
html[data-theme=light]{color-scheme:light} html[data-theme=dark]{color-scheme:dark}
body{margin:0;background:var(--paper)}
body>.cep-player{max-width:1760px;margin:0 auto;padding:12px 16px 24px;border:0}
body>.cep-player:focus{outline:0}
"""

START = """
const box = document.getElementById("data").textContent.trim();
const say = document.getElementById("player");
unpacked(Uint8Array.from(atob(box), (c) => c.charCodeAt(0))).then(({ head, part }) => {
  say.textContent = "";
  window.player = new Player(say, head, { page: true });
  window.player.receive(part);
}, (error) => { say.textContent = `This page cannot be read: ${error}`; });
"""


def script(*names: str) -> str:
    """JavaScript of the views: `panel.js` shows pictures, `replay.js` plays them."""
    here = Path(__file__)
    return "".join(here.with_name(name).read_text(encoding="utf-8") for name in names)


def replay(
    trace: Trace,
    views: Sequence[str | View | tuple[str, View]] | None = None,
    *,
    progress: bool | None = None,
) -> str:
    """The page that plays a trace, as text.

    Making a long one takes a while: on a terminal a progress bar shows after two seconds, with
    `progress=True` anywhere, with False nowhere.
    """
    film = Film(trace, views, range(min(len(trace), MOST_STEPS)))
    count = max(1, len(film.at))
    drawn = film.part(0, len(film.at), progress=progress)
    part = {"run": "", "start": 0, "stop": count, "whole": True, "films": [drawn]}
    words = head(film)
    data = base64.b64encode(packed({"head": words, "part": part})).decode()
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cepviz: {html.escape(words["title"])}</title>
<style>{stylesheet()}{PLAYER_STYLE}{PAGE_STYLE}</style></head>
<body class="cep"><div id="player"></div>
<script type="text/plain" id="data">{data}</script>
<script>{script("panel.js", "replay.js")}{START}</script>
</body></html>
"""
