"""Every notebook runs from top to bottom, and is stored without what a run leaves behind."""

from __future__ import annotations

import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST = 60  # seconds


def test_there_is_a_notebook_to_start_with():
    assert FOLDER / "00_start_here.ipynb" in NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_clean(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None, cell.id
        assert cell.source.strip(), f"{cell.id} is empty"
