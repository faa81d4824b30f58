"""The import order of the architecture, and that the check of it sees a breach."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def check(root: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )


def test_imports_go_down_only() -> None:
    done = check(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "imported", "allowed"),
    [
        ("events", "errors", True),
        ("data", "events", True),
        ("errors", "events", False),
        ("data", "language", False),
        ("steps", "data", False),
        ("engines", "views", False),
        ("views", "widgets", False),
        ("matching", "cli", False),
    ],
)
def test_a_breach_is_seen(tmp_path: Path, module: str, imported: str, allowed: bool) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "cepviz"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("errors", module, imported):
        (package / f"{name}.py").touch()
    (package / f"{module}.py").write_text(f"import cepviz.{imported}\n")
    done = check(tmp_path)
    assert (done.returncode == 0) is allowed, done.stdout + done.stderr


def test_every_folder_of_the_package_is_a_package() -> None:
    # The check above does not look into a folder without an __init__.py.
    folders = {file.parent for file in (ROOT / "cepviz").rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
