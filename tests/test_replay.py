"""The page that plays a trace, in a real browser: keys, buttons, both themes, hostile values."""

from __future__ import annotations

import re

import pytest

import cepviz as cep
from cepviz import demo
from cepviz.data.stocks import stock_ticks
from cepviz.views.replay import replay

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")

BUSY = """PATTERN SEQ(STOCK+ a[], STOCK b)
WHERE skip_till_next_match { [symbol] and a[1].price % 20 = 0
    and a[i].price > a[i-1].price and b.volume < 150 }
WITHIN 40 events"""
HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">&'"


@pytest.fixture(scope="module")
def trace():
    return demo.story()[-1].trace


@pytest.fixture
def opened(trace, tmp_path, page, watch):
    """The page of SASE+ Query 3, open in the browser."""
    page.goto(trace.to_html(tmp_path / "replay.html").as_uri())
    page.wait_for_function("window.player !== undefined")
    yield page
    assert (watch.errors, watch.outside) == ([], [])


def said(page):
    return page.locator(".say").inner_text()


def test_a_page_asks_nobody_for_anything(trace):
    text = replay(trace)
    text = text.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\(", text)


def test_a_long_page_shows_a_bar_while_it_is_made(trace, monkeypatch):
    bars = []

    def bar(steps, **options):
        bars.append((len(steps), options["unit"], options["disable"]))
        return steps

    monkeypatch.setattr("tqdm.auto.tqdm", bar)
    page = replay(trace, progress=True)
    assert bars == [(len(trace), " steps", False)]
    assert replay(trace, progress=False) == replay(trace) == page
    assert len(bars) == 1, "a short page needs none"
    monkeypatch.setattr("cepviz.views.film.LONG", 10)
    replay(trace)
    assert bars[1:] == [(len(trace), " steps", None)], "None leaves it out where no terminal is"


def test_arrow_keys_step_on_and_back(opened, trace):
    assert said(opened) == trace[0].say()
    opened.keyboard.press("ArrowRight")
    assert said(opened) == trace[1].say()
    opened.keyboard.press("ArrowLeft")
    assert said(opened) == trace[0].say()
    opened.keyboard.press("End")
    assert said(opened) == trace[-1].say()
    opened.keyboard.press("Home")
    assert said(opened) == trace[0].say()


def test_shift_steps_by_events(opened, trace):
    opened.keyboard.press("Shift+ArrowRight")
    assert said(opened) == trace[trace.next(0, "arrive")].say()


def test_letters_jump_to_matches_and_splits(opened, trace):
    opened.keyboard.press("m")
    first = trace.next(0, "match")
    assert said(opened) == trace[first].say()
    opened.keyboard.press("m")
    opened.keyboard.press("Shift+M")
    assert said(opened) == trace[first].say()
    opened.keyboard.press("Home")
    opened.keyboard.press("s")
    assert said(opened) == trace[trace.next(0, "spawn")].say()
    assert opened.locator(".next-replan").is_disabled()


def test_a_digit_follows_a_run(opened, trace):
    opened.keyboard.press("End")
    opened.keyboard.press("1")
    assert "following run" in opened.locator(".where").inner_text()
    run = opened.evaluate("player.run")
    opened.keyboard.press("ArrowLeft")
    assert opened.evaluate("player.data.runs[player.step]") == run
    opened.keyboard.press("Escape")
    assert "following" not in opened.locator(".where").inner_text()


def test_play_goes_on_by_itself_and_stops_at_the_end(opened, trace):
    opened.select_option(".speed", "40")
    opened.keyboard.press("Space")
    opened.wait_for_function(f"player.step === {len(trace) - 1}")
    assert opened.locator(".play").inner_text() == "play"


def test_the_slider_shows_any_step_as_stepping_does(opened, trace):
    index = trace.next(0, "match")
    by_steps = _shapes(opened, index, stepping=True)
    opened.evaluate("player.go(0)")
    assert _shapes(opened, index, stepping=False) == by_steps


def _shapes(page, index, stepping):
    if stepping:
        for _ in range(index):
            page.keyboard.press("ArrowRight")
    else:
        page.evaluate(f"player.go({index})")
    return page.evaluate("[...document.querySelectorAll('svg')].map(svg => svg.innerHTML)")


def test_help_opens_and_closes(opened):
    opened.keyboard.press("?")
    assert opened.locator("dialog").is_visible()
    opened.keyboard.press("Escape")
    assert not opened.locator("dialog").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_reads_in_light_and_dark(opened, trace, screenshot, scheme):
    opened.emulate_media(color_scheme=scheme)
    opened.keyboard.press("m")
    ink, paper = (
        opened.evaluate(f"getComputedStyle(document.body).{name}")
        for name in ("color", "backgroundColor")
    )
    bright = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
    assert (bright[0] < bright[1]) == (scheme == "light")
    assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert screenshot(f"replay-{scheme}").stat().st_size > 10_000


def test_hostile_values_stay_text(tmp_path, page, watch):
    rows = [{"type": HOSTILE, "time": 1, HOSTILE: HOSTILE}, {"type": "B", "time": 2}]
    trace = cep.trace(f"PATTERN SEQ(`{HOSTILE}` a, B b) WITHIN 9", rows, engine="sase")
    page.goto(trace.to_html(tmp_path / "hostile.html").as_uri())
    page.wait_for_function("window.player !== undefined")
    for _ in range(len(trace)):
        page.keyboard.press("ArrowRight")
    assert page.title().startswith("cepviz: sase")
    assert page.locator("img").count() == 0
    assert (watch.errors, watch.outside) == ([], [])


def test_five_hundred_events_fit_into_two_megabytes(tmp_path, page, watch):
    trace = cep.trace(BUSY, stock_ticks(500, seed=3), engine="sase")
    assert len(trace) > 2000 and len(trace.matches) > 20
    path = trace.to_html(tmp_path / "large.html")
    assert path.stat().st_size < 2_000_000
    page.goto(path.as_uri())
    page.wait_for_function("window.player !== undefined")
    page.keyboard.press("End")
    assert said(page) == trace[-1].say()
    assert (watch.errors, watch.outside) == ([], [])
