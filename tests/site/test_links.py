"""Links, anchors and pictures of the built pages exist; nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.site.conftest import SITE

_ADDRESS = re.compile(r'\s(?:href|src)="([^"]*)"')
_LOADED = re.compile(r'<(?:link[^>]*\shref|script[^>]*\ssrc|img[^>]*\ssrc)="(\w+:[^"]*)"')
_ID = re.compile(r'\s(?:id|name)="([^"]*)"')


def pages() -> list[Path]:
    """All built pages."""
    return sorted(SITE.rglob("*.html"))


@cache
def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The targets of a page."""
    return frozenset(html.unescape(found) for found in _ID.findall(text(page)))


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    links = {html.unescape(link) for link in _ADDRESS.findall(text(page))}
    return sorted(
        link for link in links if not re.match(r"\w+:|#?$", link) and missing(page, link)
    )


def missing(page: Path, link: str) -> bool:
    """Whether a link of a page has no file, or no anchor in it."""
    path, anchor = urldefrag(link)
    file = (page.parent / unquote(path.partition("?")[0])).resolve() if path else page
    if not file.is_file() or not file.is_relative_to(SITE):
        return True
    return bool(anchor) and file.suffix == ".html" and unquote(anchor) not in anchors(file)


def test_every_link_of_a_built_page_leads_somewhere(site: Path) -> None:
    found = {page.relative_to(site).as_posix(): broken(page) for page in pages()}
    assert {page: links for page, links in found.items() if links} == {}


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    assert len(pages()) > 100
    found = {page.relative_to(site).as_posix(): _LOADED.findall(text(page)) for page in pages()}
    assert {page: links for page, links in found.items() if links} == {}
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import )[\"']?https?:", styles)


def test_a_static_host_serves_all_folders(site: Path) -> None:
    assert (site / ".nojekyll").exists()


def test_a_damaged_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.site.test_links.SITE", tmp_path)
    page = tmp_path / "a.html"
    page.write_text('<a href="b.html">b</a> <a href="#there"> <a href="#x"> <p id="there">')
    assert broken(page) == ["#x", "b.html"]
