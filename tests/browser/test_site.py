"""The built pages of the documentation in a browser, from disk; `make docs` builds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Browser

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
NARROW, WIDE = {"width": 390, "height": 844}, {"width": 1400, "height": 900}
PAGES = (
    "index",
    "concepts",
    "guides/training",
    "guides/features",
    "guides/scale_out",
    "tables/layers",
    "reference/layers",
    "reference/programs",
    "gallery/index",
    "files/ARCHITECTURE",
)

pytestmark = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="run `make docs`")


def show(browser: Browser, page: str) -> None:
    """Open a page."""
    browser.requests.clear()
    path, mark, query = page.partition("?")
    browser.page.goto(f"{(SITE / f'{path}.html').as_uri()}{mark}{query}")
    browser.wait("document.readyState === 'complete'")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_a_page_fits_its_window_and_loads_from_disk_alone(
    browser: Browser, page: str, size: dict[str, int]
) -> None:
    browser.page.set_viewport_size(size)
    show(browser, page)
    assert browser.js("document.documentElement.scrollWidth") <= size["width"]
    assert all(url.startswith(("file:", "data:")) for url in browser.requests)


@pytest.mark.parametrize(
    ("query", "first"),
    [("Linear", "torch.nn.Linear"), ("gradient clipping", "gradient clipping")],
)
def test_the_search_lists_results_from_disk(browser: Browser, query: str, first: str) -> None:
    browser.page.set_viewport_size(WIDE)
    show(browser, f"search?q={query.replace(' ', '+')}")
    browser.wait("document.querySelectorAll('#search-results li').length > 3")
    assert browser.js("document.querySelector('#search-results li a').textContent") == first


def test_cards_of_the_first_page_lead_to_pages(browser: Browser) -> None:
    browser.page.set_viewport_size(WIDE)
    show(browser, "index")
    assert browser.js("document.querySelectorAll('.sd-card').length") == 5
    with browser.page.expect_navigation():
        browser.js("document.querySelector('.sd-card a').click()")
    assert "hour" in browser.page.title()
