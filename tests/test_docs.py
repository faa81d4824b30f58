"""README and docs are true: their examples run, and print what the page says they print.

On a page, the python blocks run in order in one namespace, in an empty folder. A block of `>>>`
lines is a doctest. A `text` block right behind a plain one is what it prints. In a `console` block,
each line after `$ cepviz` runs the command line. `...` stands for any text, as in doctests.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from cepviz import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CHECKER = doctest.OutputChecker()


class Block(NamedTuple):
    """A fenced block; `printed` is the text block right behind it, if there is one."""

    kind: str
    code: str
    line: int
    printed: str | None


def blocks(text: str) -> list[Block]:
    found = list(FENCE.finditer(text))
    made = []
    for fence, after in pairwise([*found, None]):
        behind = after is not None and not text[fence.end() : after.start()].strip()
        printed = after[2] if behind and after[1] == "text" else None
        line = text.count("\n", 0, fence.start()) + 2
        made.append(Block(fence[1], fence[2], line, printed))
    return made


def check(page: Path) -> None:
    space: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.name}, line {block.line}"
        if block.kind == "python" and block.code.lstrip().startswith(">>>"):
            check_session(block, space, where)
        elif block.kind == "python":
            # The blank lines put the page's own line number into a traceback.
            code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, space)
            if block.printed is not None:
                compare(block.printed, out.getvalue(), where)
        elif block.kind == "console":
            check_console(block, where)


def check_session(block: Block, space: dict[str, object], where: str) -> None:
    example = doctest.DocTestParser().get_doctest(block.code, space, where, where, block.line - 1)
    example.globs = space  # the names of one block are there in the next
    report = io.StringIO()
    runner = doctest.DocTestRunner(CHECKER, verbose=False, optionflags=doctest.ELLIPSIS)
    assert runner.run(example, out=report.write, clear_globs=False).failed == 0, report.getvalue()


def check_console(block: Block, where: str) -> None:
    pieces = re.split(r"^\$ cepviz (.*)\n", block.code, flags=re.M)
    assert not pieces[0].strip(), f"{where}: a console block starts with $ cepviz"
    for command, printed in zip(pieces[1::2], pieces[2::2], strict=True):
        both = io.StringIO()
        with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both):
            cli.main(shlex.split(command))
        compare(printed, both.getvalue(), f"{where}: $ cepviz {command}")


def compare(said: str, printed: str, where: str) -> None:
    sides = ("\n".join(line.rstrip() for line in text.splitlines()) for text in (said, printed))
    same = CHECKER.check_output(*(f"{side.rstrip()}\n" for side in sides), doctest.ELLIPSIS)
    assert same, f"{where} says\n{said}\nand it prints\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.filterwarnings("ignore::cepviz.CepWarning")
def test_the_examples_of_a_page_hold(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        there = page.parent / path if path else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M)
            anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in anchors, f"{page.name} links to {target}; there is {anchors}"


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\n>>> 1 + 1\n3\n\n```\n",
        "```python\nraise ValueError\n```\n",
        "```console\n$ cepviz engines\nnone\n```\n",
    ],
)
def test_a_wrong_example_is_seen(page, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(page)
    with pytest.raises((AssertionError, ValueError)):
        check(path)
