"""One browser for all tests, and pages in folders of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import braces as br
from braces.viewer import html
from tests.browser.chromium import Browser, chromium


@pytest.fixture(scope="session")
def running() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(running: Browser) -> Iterator[Browser]:
    """The browser; no page may complain of anything in it."""
    yield running
    assert running.complaints == []


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Callable[..., Browser]:
    """Write the page of a program, and open it from disk."""

    def open_page(program: br.Program, title: str = "Program") -> Browser:
        page = tmp_path / "page.html"
        page.write_text(html.program_html(program, title=title), encoding="utf-8")
        browser.open(page)
        return browser

    return open_page
