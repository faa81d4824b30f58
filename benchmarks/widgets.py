"""How quickly the player answers: from an event in the browser to the paint after it.

On a real JupyterLab with its kernel, in headless Chromium. The bars: a step is painted in under
50 ms, a move of the slider in under 150 ms, also where the pictures have yet to come from the
kernel. A frame of the browser is 16.7 ms, and what is painted is counted with the frame it is in.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from _measure import Report, main, progress

ROOT = Path(__file__).parent.parent

BUSY = """PATTERN SEQ(STOCK+ a[], STOCK b)
WHERE skip_till_next_match { [symbol] and a[1].price % 20 = 0
    and a[i].price > a[i-1].price and b.volume < 150 }
WITHIN 40 events"""

CELLS = [
    "import cepviz as cep\nfrom cepviz import demo\nfrom cepviz.data.stocks import stock_ticks",
    "cep.Player(demo.story()[-1].trace)",
    "cep.play({busy!r}, stock_ticks({events}, seed=3), engine='sase',"
    " views=['automaton', 'buffer', 'timeline', 'runs'])",
    "cep.AdaptLab()",
]

#: Sends an event to a player and waits until what it changed is on the screen.
TIMED = """async ([box, act, value]) => {
    const frame = () => new Promise(done => requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => done();
        channel.port2.postMessage(0); }));
    await frame();
    const slider = box.querySelector('.slider');
    const started = performance.now();
    if (act === 'slide') {
        slider.value = value;
        slider.dispatchEvent(new Event('input', { bubbles: true }));
    } else {
        box.dispatchEvent(new KeyboardEvent('keydown', { key: act, bubbles: true }));
    }
    while (box.classList.contains('waiting')) await frame();
    await frame();
    return performance.now() - started; }"""


#: Moves a slider of the lab and waits until its invariants say so on the screen.
DRAGGED = """async ([box, value]) => {
    const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    await frame();
    const slider = box.querySelector("input[aria-label='rate(C)']");
    const sides = () => box.querySelector('.preview + .panels').textContent;
    const before = sides();
    const started = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    while (sides() === before) await frame();
    await frame();
    return performance.now() - started; }"""


def timed(page: Any, box: Any, act: str, value: int = 0) -> float:
    """Milliseconds from an event to the paint after it."""
    return float(page.evaluate(TIMED, [box, act, value]))


def measure(report: Report, events: int, steps: int, page: Any) -> None:
    """Steps and slides in the two players of the page."""
    with report.table(
        "milliseconds from event to paint",
        ("player", "what", "times", "median", "95%", "most"),
        "new: the slider jumps to where the player was not before; the kernel has to draw",
    ) as rows:
        for number, name in enumerate(("Query 3, 85 steps", f"{events} events")):
            box = page.locator(".cep-player").nth(number).element_handle()
            count = int(box.eval_on_selector(".slider", "slider => slider.max"))
            places = [(place * 7919) % count for place in range(1, steps + 1)]
            new = [timed(page, box, "slide", place) for place in places]
            page.wait_for_timeout(500)
            again = [timed(page, box, "slide", place) for place in places]
            timed(page, box, "Home")
            page.wait_for_timeout(500)
            on = [timed(page, box, "ArrowRight") for _ in range(min(steps, count))]
            jumps = [timed(page, box, "m") for _ in range(min(10, steps))]
            for what, times in (
                ("slide, new", new), ("slide, again", again), ("step", on), ("next match", jumps),
            ):  # fmt: skip
                times = sorted(times)
                rows.append(
                    [
                        name,
                        what,
                        len(times),
                        median(times),
                        times[int(len(times) * 0.95)],
                        times[-1],
                    ]
                )
            report.bar(
                f"{name}: a step under 50 ms", f"median {median(on):.0f} ms", median(on) < 50
            )
            worst = max(median(new), median(again))
            report.bar(f"{name}: a slide under 150 ms", f"median {worst:.0f} ms", worst < 150)
        box = page.locator(".lab").element_handle()
        times = sorted(float(page.evaluate(DRAGGED, [box, 2 + n % 60])) for n in range(steps))
        rows.append(["lab", "drag of a rate", len(times), median(times),
                     times[int(len(times) * 0.95)], times[-1]])  # fmt: skip
        least = median(times)
        report.bar("the lab: a drag under 150 ms", f"median {least:.0f} ms", least < 150)


def run(report: Report, quick: bool) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from conftest import FLAGS, find_browser
    from labserver import Lab
    from playwright.sync_api import sync_playwright

    events, steps = (120, 20) if quick else (500, 100)
    lab = Lab(Path(tempfile.mkdtemp()))
    try:
        lab.add("players.ipynb", [c.format(busy=BUSY, events=events) for c in CELLS])
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            progress("JupyterLab starts")
            lab.open(page, "players.ipynb")
            page.wait_for_function("document.querySelectorAll('.cep-player svg').length > 6")
            measure(report, events, steps, page)
            browser.close()
    finally:
        lab.close()


if __name__ == "__main__":
    main("How quickly the player answers", "widgets.html", run)
