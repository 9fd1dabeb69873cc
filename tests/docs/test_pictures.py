"""Pictures of guides: small SVG files, readable on light and on dark pages, and used."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
PICTURES = sorted(GUIDES.glob("pictures/*.svg"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_a_picture_is_small_and_has_a_title(picture: Path) -> None:
    root = ElementTree.fromstring(picture.read_bytes())
    assert root.findtext("{http://www.w3.org/2000/svg}title")
    assert picture.stat().st_size < 20_000


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_a_picture_has_the_colour_of_the_text_and_no_black_or_white(picture: Path) -> None:
    text = picture.read_text("utf-8")
    assert "currentColor" in text
    assert not re.search(r"\"(black|white|#000|#fff|#000000|#ffffff)\"", text, re.IGNORECASE)


def test_each_picture_is_shown_with_a_description() -> None:
    pages = "\n".join(page.read_text("utf-8") for page in GUIDES.glob("*.md"))
    shown = re.findall(r"!\[.{20,}?\]\(pictures/(\S+\.svg)\)", pages)
    assert sorted(shown) == [picture.name for picture in PICTURES]
