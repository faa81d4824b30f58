"""The documentation's site: it builds without a warning, asks no other machine, lacks nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

import cepviz as cep

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, with notebooks that were not run: that is for `test_notebooks`."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "CEPVIZ_RUN_NOTEBOOKS": "false", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def building():
    spec = importlib.util.spec_from_file_location("building", DOCS / "building.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_and_notebook_is_there(site):
    pages = {path.stem for path in DOCS.glob("*.md")}
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert pages <= {path.stem for path in site.glob("*.html")}
    assert notebooks == {path.stem for path in (site / "notebooks").glob("*.html")}


def test_a_page_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link)\b[^>]*?(?:src|href)="(.*?)"', page.read_text())
        assert [a for a in loaded if a.startswith(("http:", "https:", "//"))] == [], page.name


def test_the_reference_has_every_public_name():
    text = "\n".join(path.read_text() for path in DOCS.glob("reference*.md"))
    named = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)", text, re.M)}
    assert {*cep.__all__, *cep.WIDGETS} - named == set()


def test_the_reference_says_what_the_docstrings_say(site):
    page = (site / "reference.html").read_text()
    said = re.sub(r"<[^>]*>", "", page)
    for name in ("match", "trace", "Stream"):
        first = getattr(cep, name).__doc__.split("\n")[0]
        assert first.replace("`", "") in said, name
    assert "&gt;&gt;&gt;" in page and "<blockquote>" not in page


def test_each_block_of_the_gallery_has_its_picture(site):
    blocks = (DOCS / "gallery.md").read_text().count("```python picture")
    page = (site / "gallery.html").read_text()
    assert page.count('class="shown"') == blocks > 10
    assert page.count("data-key=") > 100


def test_pictures_follow_the_theme_of_the_site(site, page, watch):
    page.emulate_media(color_scheme="dark")
    page.goto((site / "gallery.html").as_uri())
    ink = "getComputedStyle(document.querySelector('svg.cep')).getPropertyValue('--ink')"
    dark = page.evaluate(ink)
    page.locator("label[for^=__palette]:visible").click()
    page.wait_for_function(f"{ink} !== '{dark}'", timeout=5_000)
    assert (watch.errors, watch.outside) == ([], [])


def test_a_block_that_fails_stops_the_build(building):
    with pytest.raises(ZeroDivisionError):
        building.with_pictures("```python picture\n1 / 0\n```\n")


def test_a_notebook_is_a_page_of_its_cells_and_what_they_show(building):
    cell = v4.new_code_cell("print(1)")
    cell.outputs = [
        v4.new_output("stream", text="1 < 2\n\nthree\n"),
        v4.new_output("execute_result", {"text/html": "<p>\n\nx</p>", "text/plain": "x"}),
    ]
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("[next](02_b.ipynb)"), cell])
    text = building.page_of(notebook)
    assert "[next](02_b.md)" in text
    assert "```python\nprint(1)\n```" in text
    assert "1 &lt; 2&#10;&#10;three" in text
    assert '<div class="shown"><p> x</p></div>' in text


def test_a_notebook_is_run_for_its_page(building, tmp_path):
    path = tmp_path / "a.ipynb"
    made = v4.new_notebook(cells=[v4.new_code_cell("print(6 * 7)")])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(made, path)
    assert "42" in building.page_of(building.executed(path))
