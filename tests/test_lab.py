"""The widgets on a real JupyterLab in a real browser: keys, sliders, clicks, both themes."""

from __future__ import annotations

import re
import shutil

import pytest
from conftest import SCREENSHOTS, Watch
from labserver import ROOT, Lab

from cepviz import demo
from cepviz.views.film import Film
from cepviz.views.quiz import question

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


@pytest.fixture
def kernel(page):
    """Runs code in the kernel of the notebook on the page, and gives what it prints."""

    def run(code):
        return page.evaluate(
            """async code => {
            const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            let said = "";
            const future = kernel.requestExecute({ code, store_history: false });
            future.onIOPub = (message) => { said += message.content.text || ""; };
            await future.done;
            return said.trim(); }""",
            code,
        )

    return run


@pytest.fixture(scope="module")
def trace():
    return demo.story()[-1].trace


QUERY = "PATTERN SEQ(Stock a, Stock b) WHERE [symbol] and b.price > a.price WITHIN 12 minutes"
LONG = """PATTERN SEQ(STOCK+ a[], STOCK b)
WHERE skip_till_next_match { [symbol] and a[1].price % 20 = 0
    and a[i].price > a[i-1].price and b.volume < 150 }
WITHIN 40 events"""

ALL = [
    "import cepviz as cep\nfrom cepviz import demo\nfrom cepviz.data.stocks import stock_ticks\n"
    f"query = {QUERY!r}\nstocks = demo.stocks()",
    "player = cep.Player(demo.story()[-1].trace)\nplayer",
    "cep.compare(query, stocks)",
    f"cep.play({LONG!r}, stock_ticks(120, seed=3), engine='sase', views=['buffer', 'timeline'])",
    "race = cep.Race('PATTERN SEQ(STOCK a, STOCK b, STOCK c) WHERE [symbol] and b.price > a.price "
    "and c.price > b.price WITHIN 30 events', stock_ticks(300, seed=3))\nrace",
    "cep.Explain(cep.match(query, stocks))",
    "cep.StreamEditor(query, stocks)",
    "lab = cep.AdaptLab()\nlab",
    "contexts = cep.ContextLab()\ncontexts",
]


@pytest.fixture(scope="module")
def widgets(lab, page):
    """A page of all widgets, run."""
    lab.add("widgets.ipynb", ALL)
    lab.open(page, "widgets.ipynb")
    page.wait_for_function(
        "document.querySelectorAll('.cep-player svg').length > 15", timeout=40_000
    )
    return page


class Shown:
    """A widget on the page: what a person sees of it and does with it."""

    def __init__(self, page, box):
        self.page = page
        self.box = box
        self.box.locator(".title").first.click()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def text(self, what):
        return self.box.locator(what).first.inner_text()

    def soon(self, condition, what=""):
        """Waits until something is so in the widget: an expression of `box`."""
        self.page.wait_for_function(f"box => {condition}", arg=self.box.element_handle())


def cell(page, number):
    """The widgets of a cell of the page."""
    return page.locator(".jp-Cell").nth(number).locator(".cep-player")


@pytest.fixture
def player(widgets):
    shown = Shown(widgets, cell(widgets, 1).first)
    shown.press("Escape", "Home")
    return shown


# ---- the player ----


def test_keys_step_and_jump(player, trace):
    assert player.text(".say") == trace[0].say()
    player.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert player.text(".say") == trace[1].say()
    player.press("m")
    assert player.text(".say") == trace[trace.next(0, "match")].say()
    player.press("End")
    assert player.text(".say") == trace[-1].say()


def test_keys_of_the_player_are_not_those_of_the_notebook(player, widgets):
    """Outside a player, d d and x delete a cell, b adds one and m makes it text."""
    cells = widgets.locator(".jp-Cell").count()
    player.press("d", "d", "m", "b", "x", "1", "Escape")
    assert widgets.locator(".jp-Cell").count() == cells
    assert widgets.locator(".jp-MarkdownCell").count() == 0


def test_only_the_player_with_the_focus_takes_keys(player, widgets, trace):
    other = Shown(widgets, cell(widgets, 2).first)
    other.press("Home", "ArrowRight")
    assert other.text(".where").startswith("event 2 of 8")
    assert player.text(".say") == trace[0].say()


def test_the_kernel_draws_every_step(player, widgets, trace):
    """What is on the screen is what the views draw for the step."""
    index = trace.next(0, "match")
    player.press("m")
    player.soon("!box.classList.contains('waiting')")
    shown = widgets.evaluate(
        "box => [...box.querySelectorAll('svg text')].map(t => t.lastChild.textContent)",
        arg=player.box.element_handle(),
    )
    drawn = [
        shape.text
        for scene in Film(trace).scenes(index)
        for shape in scene.shapes.values()
        if shape.text is not None
    ]
    assert sorted(shown) == sorted(drawn)


def test_the_clause_that_is_tested_is_lit(player, trace):
    index = next(i for i, step in enumerate(trace) if step.kind == "test" and step.state == "a[i]")
    for _ in range(index):
        player.press("ArrowRight")
    lit = player.box.locator(".cepviz-pattern .lit").all_inner_texts()
    assert "".join(lit) == "[symbol]a[i].price > avg(a[..i-1].price)"


def test_the_slider_moves_with_the_mouse_and_the_keys(player, trace):
    slider = player.box.locator(".slider")
    box = slider.bounding_box()
    player.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    middle = int(slider.input_value())
    assert abs(middle - len(trace) / 2) < 4
    player.press("ArrowRight")
    assert player.text(".say") == trace[middle + 1].say()


def test_the_step_is_known_to_python_and_can_be_set_there(player, widgets, trace, kernel):
    player.press("m")
    index = trace.next(0, "match")
    for _ in range(20):
        if kernel("print(player.step)") == str(index):
            break
    assert kernel("print(player.step)") == str(index)
    kernel("player.step = 3")
    player.soon("box.querySelector('.where').textContent.startsWith('step 4 of')")
    assert player.text(".say") == trace[3].say()


def test_a_digit_follows_a_run_in_all_pictures(player, kernel):
    player.press("m", "1")
    player.soon("!box.classList.contains('waiting')")
    assert "following run 2" in player.text(".where")
    player.soon("box.querySelector('svg .dim') !== null")
    player.press("Escape")
    assert "following" not in player.text(".where")


def test_a_click_selects_an_event_everywhere(player):
    player.press("m")
    player.soon("!box.classList.contains('waiting')")
    player.box.locator('[data-about=\'["event","e2"]\']').first.click(force=True)
    assert player.text(".values").startswith("Selected: e2 Stock symbol GOOG price 120")
    panels = player.box.locator("details:has(.chosen)").count()
    assert panels == 2  # the buffer and the timeline
    player.press("Escape")
    assert player.box.locator(".chosen").count() == 0


def test_a_click_on_a_match_goes_to_it(player, trace):
    player.press("End")
    player.soon("!box.classList.contains('waiting')")
    player.box.locator('[data-about=\'["match","e6"]\']').first.click(force=True)
    assert player.text(".say") == trace[trace.next(0, "match")].say()
    assert player.box.locator(".chosen").count() > 5


def test_play_and_pause(player):
    player.box.locator(".speed").select_option("40")
    player.box.locator(".title").click()
    player.press("Space")
    player.soon("box.querySelector('.slider').value > 5")
    player.press("Space")
    assert player.text(".play") == "play"


def test_help_opens_and_closes(player):
    player.press("?")
    assert player.box.locator("dialog").is_visible()
    player.press("Escape")
    assert not player.box.locator("dialog").is_visible()


def test_the_quiz_asks_before_it_shows_and_keeps_the_score(player, trace, kernel):
    player.press("q")
    index = next(i for i in range(1, len(trace)) if question(trace, i))
    player.press(*["ArrowRight"] * index)
    asking = question(trace, index)
    assert player.text(".question") == asking.text
    assert player.text(".say") == trace[index - 1].say()
    player.press(str(asking.right + 1))
    assert player.text(".say") == trace[index].say()
    assert player.text(".verdict") == "✓ Right. 1 of 1 right."
    while not player.box.locator(".question").count():
        player.press("ArrowRight")
    step = int(player.box.locator(".slider").input_value()) + 1
    asking = question(trace, step)
    player.press(str((asking.right + 1) % len(asking.answers) + 1))
    assert f"✕ No: {asking.answers[asking.right]} 1 of 2 right." == player.text(".verdict")
    player.press("q")
    for _ in range(20):
        if kernel("print(player.score)") == "[1, 2]":
            break
    assert kernel("print(player.score)") == "[1, 2]"


def test_a_long_trace_comes_part_by_part(widgets):
    long = Shown(widgets, cell(widgets, 3).first)
    count = int(long.box.locator(".slider").get_attribute("max")) + 1
    assert count > 400
    long.press("End")
    long.soon("!box.classList.contains('waiting')")
    last = long.box.locator("svg").last.inner_html()
    long.press("Home")
    long.soon("!box.classList.contains('waiting')")
    assert long.box.locator("svg").last.inner_html() != last
    long.press("End")
    assert long.box.locator("svg").last.inner_html() == last


# ---- the others ----


def test_compare_shows_strategies_side_by_side(widgets):
    both = Shown(widgets, cell(widgets, 2).first)
    both.press("End")
    both.soon("!box.classList.contains('waiting')")
    assert both.box.locator(".film").count() == 4
    rows = both.box.locator(".tables tbody tr")
    assert both.text("caption").startswith("6 matches, 3 of them in all, 3 not")
    assert rows.locator("nth=1").inner_text().split() == [
        *("a", "=", "e1,", "b", "=", "e3"), "–", "–", "–", "◆",
    ]  # fmt: skip
    rows.locator("nth=1").click()
    assert both.text(".where") == "event 3 of 8"


def test_engines_race_to_the_same_matches(widgets):
    race = Shown(widgets, cell(widgets, 4).first)
    race.box.locator(".start").click()
    race.soon("box.querySelector('.say').textContent.startsWith('All found the same')")
    assert race.box.locator("tbody tr").count() >= 5
    counts = set(race.box.locator(".bar-cell.matches").all_inner_texts())
    assert len(counts) == 1 and counts != {"0"}


def test_explain_answers_and_applies_a_fix(widgets):
    form = Shown(widgets, cell(widgets, 5).first)
    form.box.locator("tbody tr").nth(2).click()
    form.soon("box.querySelector('.answer').textContent.startsWith('Match #3: a = e2, b = e4')")
    below = cell(widgets, 5).nth(1)
    Shown(widgets, below).soon("box.querySelector('.say').textContent.startsWith('Match #')")
    fields = form.box.locator("input")
    fields.nth(0).fill("e1")
    fields.nth(1).fill("e4")
    form.box.get_by_text("why not?").click()
    form.soon("box.textContent.includes('WITHIN 12 minutes needs less')")
    form.box.get_by_text("apply:").first.click()
    form.soon("box.textContent.includes('8 matches now, 6 before.')")
    assert form.box.locator("tr.picked").inner_text().split()[:3] == ["#3", "e1", "e4"]
    form.box.get_by_text("back to the first pattern").click()
    form.soon("box.textContent.includes('6 matches in 8 events')")


def test_the_editor_changes_the_stream(widgets):
    form = Shown(widgets, cell(widgets, 6).first)
    price = form.box.locator("input[aria-label='price of e2']")
    price.fill("99")
    price.press("Tab")
    form.soon("box.querySelector('.gone, .came') !== null")
    assert form.text(".gone summary") == "− gone: a = e1, b = e2"
    form.box.locator(".gone summary").first.click()
    assert "99 > 100 is false, short by 1." in form.text(".gone .answer")
    form.box.get_by_text("start over").click()
    form.soon("box.querySelector('.gone, .came') === null")


def test_the_lab_adapts_when_a_slider_is_turned(widgets, kernel):
    lab = Shown(widgets, cell(widgets, 7).first)
    assert lab.text(".say").startswith("Plan c, b, a:")
    assert lab.box.locator(".notch").count() > 0
    slider = lab.box.locator("input[aria-label='rate(C)']")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    height = box["y"] + box["height"] / 2
    widgets.mouse.move(box["x"] + 0.09 * box["width"], height)
    widgets.mouse.down()
    widgets.mouse.move(box["x"] + 0.8 * box["width"], height, steps=4)
    lab.soon("box.querySelector('.preview.broken') !== null")  # while it is still held
    assert "rate(C)" in lab.text(".preview")
    assert lab.text("caption") == "Turn a slider, or play the drift."
    widgets.mouse.up()
    lab.soon("box.querySelector('.say').textContent.includes('b, a, c instead of')")
    assert lab.text("caption").endswith("the same for all.")
    assert kernel("print(lab.plan)") == "b, a, c"
    assert lab.box.locator(".plans details").count() == 2
    replans = [row.split("\t")[4] for row in lab.box.locator("tbody tr").all_inner_texts()]
    assert replans[0] == "0" and int(replans[-1]) >= 1


def test_the_ends_of_intervals_are_dragged(widgets, kernel):
    lab = Shown(widgets, cell(widgets, 8).first)
    assert lab.text(".say") == "Outputs: compact 3, expanded 3, complete 4, traceable 4."
    end = lab.box.locator("[aria-label='end of a3']")
    end.scroll_into_view_if_needed()
    box = end.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = lab.box.locator("[aria-label='end of a4']").bounding_box()["x"] - box["x"]
    widgets.mouse.move(x, y)
    widgets.mouse.down()
    widgets.mouse.move(x - 1.5 * unit, y, steps=5)  # a4 ends 2 later: to 9
    widgets.mouse.up()
    now = "box.querySelector(`[aria-label='end of a3']`).getAttribute('aria-valuenow')"
    lab.soon(f"{now} === '9'")
    assert "compact 4" in lab.text(".say")
    assert kernel("print(contexts.events[4].end)") == "9"
    end.focus()
    lab.press("ArrowRight", "ArrowRight")
    lab.soon(f"{now} === '11'")
    assert "compact 3" in lab.text(".say")
    assert kernel("print(contexts.events[4].end)") == "11"
    lab.box.locator("[data-menu=window]").select_option("COUNT 1, COUNT 1")
    lab.soon("box.textContent.includes('after')")
    assert kernel("print(contexts.window)") == "COUNT 1, COUNT 1"


# ---- how it looks ----


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_widgets_in_both_themes(lab, widgets, player, dark):
    lab.theme(widgets, dark)
    name = "dark" if dark else "light"
    widgets.set_viewport_size({"width": 1400, "height": 1900})
    player.press("m")
    player.soon("!box.classList.contains('waiting')")
    names = ("player", "compare", "long", "race", "explain", "editor", "adaptlab", "contextlab")
    for number, widget in enumerate(names, 1):
        for place, box in enumerate(cell(widgets, number).all()):
            box.scroll_into_view_if_needed()
            box.screenshot(path=SCREENSHOTS / f"lab-{widget}{place or ''}-{name}.png")
            ink, paper = (
                box.evaluate(f"box => getComputedStyle(box).{style}")
                for style in ("color", "backgroundColor")
            )
            assert (brightness(ink) < brightness(paper)) == (not dark)
            # Nothing reaches beyond the widget.
            assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 1
    widgets.set_viewport_size({"width": 1400, "height": 1000})


def brightness(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def test_notebook_00_plays(lab, page):
    shutil.copy(ROOT / "notebooks" / "00_start_here.ipynb", lab.work)
    lab.open(page, "00_start_here.ipynb")
    page.wait_for_selector(".cep-player svg", timeout=40_000)
    page.wait_for_function(
        """[...document.querySelectorAll('.jp-InputPrompt')]
        .every(prompt => !prompt.textContent.includes('*'))""",
        timeout=40_000,
    )
    assert (
        page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").count()
        == 0
    )
    shown = Shown(page, page.locator(".cep-player").first)
    shown.press("Home", "m")
    assert shown.text(".say").startswith("Match #1")
