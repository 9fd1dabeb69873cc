"""One browser for all tests, and pages in folders of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser.chromium import Browser, chromium

import braces as br
from braces.viewer import html


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    folder = tmp_path_factory.mktemp("chromium")
    with chromium(folder) as browser:
        yield browser, folder


@pytest.fixture
def browser(running: tuple[Browser, Path]) -> Iterator[Browser]:
    """The browser; no page may complain of anything in it."""
    yield running[0]
    assert running[0].complaints == []


@pytest.fixture
def saved(running: tuple[Browser, Path]) -> Path:
    """The folder in which the browser saves what pages give it."""
    return running[1]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path):
    """Write the page of a program, and open it from disk."""

    def open_page(program: br.Program, title: str = "Program") -> Browser:
        page = tmp_path / "page.html"
        page.write_text(html.program_html(program, title=title), encoding="utf-8")
        browser.open(page)
        return browser

    return open_page
