"""A real JupyterLab for the tests: its server, and what a person does in it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent

QUIET = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
SETTINGS = {"notification": QUIET, "themes": {"theme": "JupyterLab Light"}}


class Lab:
    """A server with a folder of its own, which knows no settings of whoever runs the tests."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        plugin = folder / "settings" / "@jupyterlab" / "apputils-extension"
        plugin.mkdir(parents=True)
        for name, values in SETTINGS.items():
            (plugin / f"{name}.jupyterlab-settings").write_text(json.dumps(values))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = secrets.token_hex(8)
        places = {
            "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython",
        }  # fmt: skip
        known = {name: str(folder / place) for name, place in places.items()}
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.log = (folder / "lab.log").open("wb")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
                f"--port={self.port}", "--ServerApp.port_retries=0", "--ip=127.0.0.1",
                f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={self.work}",
                "--LabApp.expose_app_in_browser=True",
            ],
            env={**os.environ, **known, "PYTHONPATH": path},
            stdout=self.log, stderr=self.log,
        )  # fmt: skip
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api", timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        self.close()
        raise RuntimeError((self.folder / "lab.log").read_text()[-2000:])

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()

    def add(self, name: str, cells: list[str]) -> None:
        """Puts a notebook of code cells into the folder."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, self.work / name)

    def open(self, page, name: str) -> None:
        """Opens a notebook in a page and runs all of it."""
        page.goto(f"http://127.0.0.1:{self.port}/lab/tree/{name}?token={self.token}&reset")
        page.wait_for_function("window.jupyterapp !== undefined", timeout=60_000)
        page.evaluate("jupyterapp.restored")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        page.wait_for_function(
            """() => { const panel = jupyterapp.shell.currentWidget;
            return panel && panel.sessionContext && panel.sessionContext.session
              && panel.sessionContext.session.kernel
              && panel.sessionContext.session.kernel.status === 'idle'; }""",
            timeout=60_000,
        )
        page.evaluate(
            """() => { const left = document.querySelector('.jp-SideBar .lm-mod-current');
            if (left) jupyterapp.commands.execute('application:toggle-left-area'); }"""
        )
        page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")

    def theme(self, page, dark: bool) -> None:
        """Switches between the light and the dark theme, as the menu does."""
        name = "JupyterLab Dark" if dark else "JupyterLab Light"
        page.evaluate(f"jupyterapp.commands.execute('apputils:change-theme', {{theme: '{name}'}})")
        page.wait_for_selector(
            f"body[data-jp-theme-light={str(not dark).lower()}]", state="attached"
        )
