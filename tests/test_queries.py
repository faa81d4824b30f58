"""Every query printed in the five papers parses, and to what is written beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cepviz.language.parser import parse

QUERIES = sorted((Path(__file__).parent / "queries").glob("*.sase"))


def test_no_query_is_missing() -> None:
    assert [path.stem for path in QUERIES] == [
        "apam_figure2a",
        "apam_figure3b",
        "contexts_stock",
        "invariants_example1",
        "lazy_correlation",
        "lazy_figure1",
        "sase_p1",
        "sase_p2",
        "sase_p3_avg",
        "sase_p3_max",
        "sase_p3_min",
        "sase_p3_star",
        "sase_query1",
        "sase_query2",
        "sase_query3",
    ]


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_a_printed_query_parses_to_its_canonical_text(path: Path) -> None:
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    assert f"{parse(path.read_text(encoding='utf-8'))}\n" == expected


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_the_canonical_text_of_a_query_is_the_same_query(path: Path) -> None:
    query = parse(path.read_text(encoding="utf-8"))
    assert parse(str(query)) == query
    assert str(parse(str(query))) == str(query)
