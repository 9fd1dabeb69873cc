"""Pages of the gallery: their code is that of the modules, and their pictures are small SVG."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from examples.gallery.pictures import image_grid, line_chart

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "docs/gallery").glob("[!i]*.md"))
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def sources(name: str) -> list[Path]:
    """The module of an example, or the modules of its package."""
    place = ROOT / "examples/gallery" / name
    return sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def definitions(text: str) -> dict[str, str]:
    """The top-level functions and classes of a source, without docstrings and comments."""
    found = dict[str, str]()
    for node in ast.parse(text).body:
        if isinstance(node, DEFINITIONS):
            for inner in ast.walk(node):
                if isinstance(inner, DEFINITIONS) and ast.get_docstring(inner) is not None:
                    del inner.body[0]
            found[node.name] = ast.dump(node)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_is_that_of_its_module(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    shown = definitions("\n".join(blocks))
    written: dict[str, str] = {}
    for path in sources(page.stem):
        written |= definitions(path.read_text(encoding="utf-8"))
    assert shown, "no function of the example is shown"
    assert {name: shown[name] for name in shown} == {name: written.get(name) for name in shown}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_pictures_of_a_page_are_small_svg(page: Path) -> None:
    names = re.findall(r"!\[.+?\]\((\S+?\.svg)\)", page.read_text(encoding="utf-8"))
    assert names
    for name in names:
        content = (page.parent / name).read_bytes()
        assert len(content) < 60_000
        assert ElementTree.fromstring(content).tag.endswith("}svg")


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs/gallery/index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"]({page.name})" not in index] == []


def test_charts_leave_gaps_at_values_that_are_not_finite() -> None:
    svg = line_chart({"a": [1.0, 2.0, float("nan"), 3.0], "b": ([0, 9], [1, 2])}, x="t", y="v")
    paths = [e.get("d") for e in ElementTree.fromstring(svg).iter() if e.get("stroke-width")]
    assert [(path or "").count("M") for path in paths] == [2, 1]


def test_grids_have_all_images() -> None:
    svg = image_grid(np.zeros((7, 8, 8)), columns=3, scale=2)
    assert ElementTree.fromstring(svg).get("viewBox") == "0 0 52 52"


def test_measured_points_have_the_colour_of_their_curve() -> None:
    curves = {"a": [1, 2], "b": [2, 1], "b, measured": [2, 2], "c, measured": [1, 1]}
    svg = line_chart(curves, x="t", y="v", points=("b, measured", "c, measured"))
    root = ElementTree.fromstring(svg)
    lines = [e.get("stroke") for e in root.iter() if e.get("stroke-width")]
    dots = [e.get("fill") for e in root.iter() if e.tag.endswith("}g")]
    assert len({*lines, *dots}) == 3
    assert dots[0] == lines[1]
