"""The demo: the story in the terminal, and a page that steps without help from anywhere."""

from __future__ import annotations

import re

import pytest

import cepviz as cep
from cepviz import demo

HOSTILE = "</script><img src=x onerror=\"document.title='broken'\">&'"


@pytest.fixture(scope="module")
def chapters():
    return demo.story()


def test_the_story_is_told_and_the_page_written(tmp_path, capsys):
    out = tmp_path / "new" / "page.html"
    assert demo.main(["--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith(f"{out}\n")
    for said in (
        "a = e1, c = e4",  # the item that was not paid for
        "a = e3 e4, b = e6",  # R2 of SASE+ Figure 3
        "Run 1 takes e0 and is at q2.",
        "Match #2: a = e1, c = e4",
        "is dropped (window, at e6)",
    ):
        assert said in printed
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_story_finds_what_the_paper_does(chapters):
    assert [match.ids for match in chapters[0].result] == [{"a": 1, "c": 4}]
    found = {(tuple(match.ids["a"]), match.ids["b"]) for match in chapters[1].result}
    assert found == {((1, 2, 3, 4, 5), 6), ((3, 4), 6), ((1, 2, 3, 4, 5, 6, 7), 8)}


def test_a_page_that_cannot_be_written_is_told_of(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert demo.main(["--out", str(tmp_path / "file" / "page.html")]) == 1
    assert "cannot write the page" in capsys.readouterr().err


def test_the_page_asks_nobody_for_anything(chapters):
    text = demo.page(chapters)
    assert not re.search(r"https?:|//\w|\bsrc=|\bhref=|@import|url\(", text)


def hostile() -> demo.Chapter:
    rows = [{"type": HOSTILE, "time": 1, HOSTILE: HOSTILE}, {"type": "B", "time": 2}]
    text = f"PATTERN SEQ(`{HOSTILE}` a, B b) WITHIN 9"
    stream = cep.Stream.from_records(rows)
    return demo.Chapter.of(HOSTILE, HOSTILE, text, stream, watched="eager")


def test_values_are_escaped():
    text = demo.page([hostile()])
    assert "<img" not in text
    assert text.count("</script>") == 2  # the page's own: the steps and the stepper


def test_the_page_steps(chapters, tmp_path, page, watch):
    path = tmp_path / "page.html"
    path.write_text(demo.page(chapters), encoding="utf-8")
    page.goto(path.as_uri())
    now, place = page.locator("p.now"), page.locator(".place")
    steps = chapters[2].trace
    assert now.inner_text() == steps[0].say()
    page.keyboard.press("ArrowRight")
    assert now.inner_text() == steps[1].say()
    page.get_by_label("Next step").click()
    page.get_by_label("Next step").click()
    assert place.inner_text() == f"step 3 of {len(steps) - 1}"
    assert page.locator("[data-state=q2] .runs").inner_text() == "run 1"
    page.keyboard.press("ArrowLeft")
    assert now.inner_text() == steps[2].say()
    page.get_by_label("Last step").click()
    assert now.inner_text() == steps[-1].say()
    assert page.get_by_label("Next step").is_disabled()
    assert page.locator("tr.now").count() == 1
    assert "e6" in page.locator("tr.now").inner_text()
    page.get_by_label("First step").click()
    assert place.inner_text() == f"step 0 of {len(steps) - 1}"
    assert (watch.errors, watch.outside) == ([], [])


def test_a_hostile_value_stays_text(tmp_path, page, watch):
    path = tmp_path / "page.html"
    path.write_text(demo.page([hostile()]), encoding="utf-8")
    page.goto(path.as_uri())
    assert page.title() == "cepviz: start here"
    assert page.locator("img").count() == 0
    assert page.locator("tbody td", has_text=HOSTILE).count() == 2
    assert (watch.errors, watch.outside) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_reads_in_light_and_dark(chapters, tmp_path, page, screenshot, scheme):
    path = tmp_path / "page.html"
    path.write_text(demo.page(chapters), encoding="utf-8")
    page.emulate_media(color_scheme=scheme)
    page.goto(path.as_uri())
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    ink, paper = (
        page.evaluate(f"getComputedStyle(document.body).{name}")
        for name in ("color", "backgroundColor")
    )
    bright = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
    assert (bright[0] < bright[1]) == (scheme == "light")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    assert screenshot(f"demo-{scheme}").stat().st_size > 10_000
