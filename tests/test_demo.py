"""The demo: the story in the terminal, and a page that plays its last chapter."""

from __future__ import annotations

import pytest

from cepviz import demo


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
        "e6 in b points to e4 in a[i], version 2.0.0.",
    ):
        assert said in printed
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_story_finds_what_the_paper_does(chapters):
    assert [match.ids for match in chapters[0].result] == [{"a": 1, "c": 4}]
    found = {(tuple(match.ids["a"]), match.ids["b"]) for match in chapters[-1].result}
    assert found == {((1, 2, 3, 4, 5), 6), ((3, 4), 6), ((1, 2, 3, 4, 5, 6, 7), 8)}


def test_a_page_that_cannot_be_written_is_told_of(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert demo.main(["--out", str(tmp_path / "file" / "page.html")]) == 1
    assert "cannot write the page" in capsys.readouterr().err
