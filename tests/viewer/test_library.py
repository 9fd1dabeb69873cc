"""The source of the layout library, and its form in a page."""

from __future__ import annotations

import base64
import gzip
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from braces.viewer import html, layout_library
from tests.viewer.programs import nested


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    layout_library.layout_library.cache_clear()
    yield
    layout_library.layout_library.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Hide what is installed, then install packages of one file each."""

    def found(name: str) -> object:
        if not (tmp_path / f"{name}-1.dist-info").is_dir():
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(layout_library, "distribution", found)
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(name: str, file: str, text: str | None) -> None:
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "RECORD").write_text(f"{file},,\n")
        if text is not None:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(text)

    return put


def unpacked(letters: str) -> str:
    return gzip.decompress(base64.b64decode(letters)).decode()


def test_the_library_that_development_installs_is_elkjs() -> None:
    text = unpacked(layout_library.layout_library())
    assert len(text) > 1_000_000
    assert "org.eclipse.elk.layered" in text
    assert "longeron" not in sys.modules


def test_a_package_that_ships_the_library_is_enough(install) -> None:
    assert layout_library.layout_library() == ""
    layout_library.layout_library.cache_clear()
    install("ipyelk", "share/static/elk-worker.0f.worker.js", "self.onmessage = 1")
    assert unpacked(layout_library.layout_library()) == "self.onmessage = 1"


def test_the_lighter_package_comes_first_wherever_its_file_lies(install) -> None:
    install("ipyelk", "share/elk-worker.0f.worker.js", "worker")
    install("longeron", "longeron/some/where/elk.bundled.js", "bundle")
    assert unpacked(layout_library.layout_library()) == "bundle"


def test_a_file_that_was_removed_is_not_missed(install) -> None:
    install("longeron", "longeron/elk.bundled.js", None)
    install("ipyelk", "share/elk-worker.0f.worker.js", "worker")
    assert unpacked(layout_library.layout_library()) == "worker"


def test_a_page_carries_the_library_as_letters_without_meaning() -> None:
    page = html.program_html(nested())
    carried = re.search(r'<template id="library">(.*?)</template>', page, re.S)
    assert carried is not None
    assert carried.group(1) == layout_library.layout_library()
    assert re.fullmatch(r"[A-Za-z0-9+/=]{100000,}", carried.group(1))
    assert html.program_html(nested()) == page


def test_a_page_without_the_library_is_small_and_knows_what_to_install(install) -> None:
    page = html.program_html(nested())
    assert '<template id="library"></template>' in page
    assert "braces[pictures]" in page
    assert len(page) < 100_000


def test_every_script_and_style_is_part_of_the_page() -> None:
    listed = {*html.SCRIPTS, *html.STYLES, "page.html"}
    assert listed == {path.name for path in (Path(html.__file__).parent / "assets").iterdir()}
