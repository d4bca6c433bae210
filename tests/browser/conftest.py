"""Headless Chromium against the app on a real socket. Nothing may leave the machine or upset the console."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.twins.running_app import RunningApp, running_app

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), "")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
]
OpenPage = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here as a browser test; without a browser they are skipped with the reason."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not CHROMIUM:
                item.add_marker(pytest.mark.skip(reason="no Chromium: install the package `chromium`"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser per file: its event loop must end before other folders' asynchronous tests begin."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as running:
        yield running


@pytest.fixture
def open_page(app: RunningApp, browser: Browser) -> Iterator[OpenPage]:
    """Open the page as a person; afterwards assert that it asked no one else and logged no error."""
    foreign: list[str] = []
    complaints: list[str] = []
    pages: list[Page] = []

    def heard(message: ConsoleMessage) -> None:
        # The browser itself logs refused requests; whether the page shows them is what the tests look at.
        if message.type in ("error", "warning") and "status of" not in message.text:
            complaints.append(message.text)

    def asked(request: Request) -> None:
        if not request.url.startswith((app.url, "data:")):
            foreign.append(request.url)

    def make(user: str = "", path: str = "/", **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})  # type: ignore[arg-type]
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", asked)
        page.goto(app.url + path)
        pages.append(page)
        if user:
            page.get_by_label("One-time code").fill(app.code(user))
            page.keyboard.press("Enter")
            page.locator("#question").wait_for()
        return page

    yield make
    for page in pages:
        page.context.close()
    assert foreign == []
    assert complaints == []
