"""Every notebook runs from top to bottom, is stored without what a run leaves behind, and its
exercises take a right answer and refuse a wrong one."""

from __future__ import annotations

import ast
import re
import time
from pathlib import Path

import nbformat
import pytest
from answers import ANSWERS
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: Seconds. Alone each takes less than a minute; here others may run beside it.
LONGEST = 300


def test_there_is_a_notebook_to_start_with():
    assert FOLDER / "00_start_here.ipynb" in NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    wanted = with_answers(notebook, ANSWERS.get(path.stem, {}))
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(
        notebook, timeout=LONGEST, kernel_name="python3", resources=resources, allow_errors=True
    )
    started = time.perf_counter()
    client.execute()
    assert time.perf_counter() - started < LONGEST
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    assert outputs, "a notebook that shows nothing teaches nothing"
    errors = [
        "\n".join(output.get("traceback", [])) or output.get("text", "")
        for output in outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]
    assert errors == []
    for cell, sign in wanted:
        said = cell.outputs[-1].data["text/plain"]
        assert said.startswith(sign), f"{cell.metadata['exercise']}: {said}\n{cell.source}"


def with_answers(notebook, answers):
    """Behind every exercise, puts it again with a right and with a wrong answer.

    All run in the one kernel of the notebook. Gives the cells with what each must say.
    """
    cells, wanted, seen = [], [], []
    for cell in notebook.cells:
        cells.append(cell)
        if "exercise" not in cell.metadata:
            continue
        name = cell.metadata["exercise"]
        seen.append(name)
        wanted.append((cell, "✎"))
        for answer, sign in zip(answers[name], "✔✘", strict=True):
            again = nbformat.v4.new_code_cell(answered(cell.source, answer), metadata=cell.metadata)
            cells.append(again)
            wanted.append((again, sign))
    notebook.cells = cells
    assert seen == list(answers)
    return wanted


def answered(source, answer):
    """The source of an exercise with another value for `answer`."""
    (given,) = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "answer"
    ]
    lines = source.splitlines()
    lines[given.lineno - 1 : given.end_lineno] = [f"answer = {answer!r}"]
    return "\n".join(lines)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_clean(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None, cell.id
        assert cell.source.strip(), f"{cell.id} is empty"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_between_notebooks_lead_somewhere(path):
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#]+\.ipynb)\)", text):
        assert (FOLDER / target).exists(), target
