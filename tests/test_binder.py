"""The image that binder would build, as repo2docker plans it: nothing is built, without Docker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "binder"


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """The Dockerfile, from a copy of what decides it."""
    copy = tmp_path_factory.mktemp("repository")
    subprocess.run(["cp", "-r", FOLDER, ROOT / "pyproject.toml", copy], check=True)
    code = "import sys; from repo2docker.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-build", "--debug", "--user-id=1000",
         "--user-name=jovyan", str(copy)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_the_image_has_python_java_and_our_package_with_all_that_a_notebook_needs(plan):
    assert "python=3.11" in plan
    assert re.search(r"apt-get install .*graphviz openjdk-17-jre-headless", plan)
    assert (FOLDER / "requirements.txt").read_text() == "-e .[lab]\n"
    # The package is installed from the repository, so only after that was copied.
    assert plan.index("COPY --chown=1000:1000 src/ ${REPO_DIR}/") < plan.index("pip install")
    assert plan.index("pip install") < plan.index("RUN ./binder/postBuild")
    assert 'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in plan


def test_post_build_writes_settings_that_jupyterlab_reads(tmp_path):
    """With a python that answers for the image's own."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/bash\n[[ "$2" == *sys.prefix* ]] && echo {tmp_path}\nexit 0\n')
    python.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run([FOLDER / "postBuild"], env={"PATH": path}, check=True)
    settings = json.loads((tmp_path / "share/jupyter/lab/settings/overrides.json").read_text())
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_start_ends_in_the_command_it_was_given():
    command = [FOLDER / "start", "bash", "-c", "echo $SPARK_LOCAL_IP $0", "lab"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "127.0.0.1 lab\n"
