"""Fixtures for all tests: a real browser, a fresh page of it, and a watch on what the page does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

SCREENSHOTS = Path(__file__).parent.parent / "build" / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",  # Chromium refuses to run as root with one.
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def find_browser() -> str | None:
    """The Chromium to use: $CEPVIZ_BROWSER, or the first on PATH."""
    chosen = os.environ.get("CEPVIZ_BROWSER")
    return shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium for the whole run.

    Without one, a browser test is skipped on a person's machine and fails in CI, where a skip
    would go unseen.
    """
    path = find_browser()
    if path is None:
        message = f"no browser: install chromium, or set CEPVIZ_BROWSER (looked for {NAMES})"
        pytest.fail(message) if in_ci() else pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh page, which shares no cookies or storage with any other test's."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


class Watch:
    """What a page did and should not have: errors it logged, requests to other machines."""

    def __init__(self, page: Page):
        self.errors: list[str] = []
        self.outside: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._note(request.url))
        page.on("websocket", lambda socket: self._note(socket.url))

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.errors.append(said.text)

    def _note(self, url: str) -> None:
        # file:, data: and blob: addresses have no host at all.
        if urlsplit(url).hostname not in (None, "localhost", "127.0.0.1", "::1"):
            self.outside.append(url)


@pytest.fixture
def watch(page: Page) -> Watch:
    """Watches this test's page: `assert watch.errors == [] and watch.outside == []`."""
    return Watch(page)


@pytest.fixture
def screenshot(page: Page) -> Callable[[str], Path]:
    """Saves a picture of this test's page as build/screenshots/NAME.png."""

    def save(name: str) -> Path:
        path = SCREENSHOTS / f"{name}.png"
        page.screenshot(path=path, full_page=True)
        return path

    return save
