"""The widgets on a real JupyterLab in a real browser: keys, sliders, clicks, both themes."""

from __future__ import annotations

import pytest
from conftest import Watch
from labserver import Lab

from cepviz import demo

pytestmark = pytest.mark.filterwarnings("ignore::cepviz.CepWarning")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    server = Lab(tmp_path_factory.mktemp("lab"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def page(browser):
    """One page for all tests of this file: JupyterLab takes seconds to start."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.watch = Watch(page)
    yield page
    context.close()


@pytest.fixture(autouse=True)
def nothing_went_wrong(page):
    yield
    assert (page.watch.errors, page.watch.outside) == ([], [])


@pytest.fixture(scope="module")
def trace():
    return demo.story()[-1].trace


@pytest.fixture(scope="module")
def widgets(lab, page):
    """A page of all widgets, run."""
    lab.add("widgets.ipynb", ALL)
    lab.open(page, "widgets.ipynb")
    page.wait_for_selector(".cep-player svg", timeout=30_000)
    return page


ALL = [
    "import cepviz as cep\nfrom cepviz import demo\ncep.Player(demo.story()[-1].trace)",
]


class On:
    """A player on the page: what a person sees of it and does with it."""

    def __init__(self, page, number=0):
        self.page = page
        self.box = page.locator(".cep-player").nth(number)

    def focus(self):
        self.box.locator(".title").click()
        return self

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def said(self):
        return self.box.locator(".say").inner_text()

    def where(self):
        return self.box.locator(".where").inner_text()

    def drawn(self):
        """Waits until the pictures are those of the step."""
        self.page.wait_for_function(
            "box => !box.classList.contains('waiting')", arg=self.box.element_handle()
        )


@pytest.fixture
def player(widgets):
    on = On(widgets).focus()
    on.press("Escape", "Home")
    return on


def test_keys_step_and_jump(player, trace):
    assert player.said() == trace[0].say()
    player.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert player.said() == trace[1].say()
    player.press("m")
    assert player.said() == trace[trace.next(0, "match")].say()
    player.press("End")
    assert player.said() == trace[-1].say()


def test_keys_of_the_player_are_not_those_of_the_notebook(player, widgets):
    """Outside a player, d d and x delete a cell, b adds one and m makes it text."""
    cells = widgets.locator(".jp-Cell").count()
    player.press("d", "d", "m", "b", "x", "1", "Escape")
    assert widgets.locator(".jp-Cell").count() == cells
    assert widgets.locator(".jp-MarkdownCell").count() == 0
