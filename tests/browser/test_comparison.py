"""The page of `br.diff` in a real browser: table, marks, both pictures, large programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

import braces as br
from tests.browser.chromium import Browser
from tests.surgery.programs import swapped
from tests.viewer.programs import HOSTILE, nested, strange

Compared: TypeAlias = Callable[[br.Program, br.Program], Browser]


@pytest.fixture
def compared(browser: Browser, tmp_path: Path) -> Compared:
    """Write the page of two programs, and open it from disk."""

    def open_page(a: br.Program, b: br.Program) -> Browser:
        page = tmp_path / "comparison.html"
        br.diff(a, b).to_html(page)
        browser.open(page)
        return browser

    return open_page


def cells(browser: Browser, how: str) -> list[str]:
    rows = f"[...document.querySelectorAll({json.dumps(f'.pair tr.{how}')})]"
    return browser.js(f"{rows}.map(row => [...row.cells].map(c => c.textContent).join(' | '))")


def test_lines_of_both_programs_are_beside_each_other(compared: Compared) -> None:
    program = nested()
    browser = compared(program, swapped(program, "tanh", "sin"))
    (row,) = cells(browser, "replaced")
    left, right = row.split(" | ")
    assert "= tanh(" in left
    assert "= sin(" in right
    row = "[...document.querySelector('.pair tr.replaced').cells]"
    left_x, right_x = browser.js(f"{row}.map(cell => cell.getBoundingClientRect().x)")
    assert left_x < right_x
    assert any("equal lines" in text for text in cells(browser, "block"))


def test_operators_that_differ_are_marked_in_both_pictures(compared: Compared) -> None:
    program = nested()
    browser = compared(program, swapped(program, "tanh", "sin"))
    browser.click(".open")
    browser.settle()
    marked = browser.js(
        "[...document.querySelectorAll('.box')].filter(b => b.matches('[class*=replaced]'))"
        ".map(b => b.textContent)"
    )
    assert any("tanh" in text for text in marked)
    assert any("sin" in text for text in marked)


def test_added_and_removed_lines_have_an_empty_side(compared: Compared) -> None:
    a = br.parse(
        "program { data x: f32[n]  y: f32[n] = exp(x=x)  z: f32[n] = tanh(x=y) return z }"
    )
    b = br.parse("program { data x: f32[n]  y: f32[n] = exp(x=x)  return y }")
    assert any(row.endswith(" | ") for row in cells(compared(a, b), "removed"))
    assert any(row.startswith(" | ") for row in cells(compared(b, a), "added"))


def test_names_of_untrusted_files_are_text(compared: Compared) -> None:
    browser = compared(strange(), nested())
    assert browser.js("document.querySelectorAll('.pair img, .pair script').length") == 0
    assert HOSTILE[:12] in browser.js("document.querySelector('.pair').textContent")
    assert all(url.startswith(("file:", "blob:", "about:")) for url in browser.requests)


def chain(ops: int, middle: str) -> br.Program:
    """Return a program of many operators, of which one has another type."""
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        for at in range(ops):
            x = getattr(br, middle)(x, name="middle") if at == ops // 2 else br.exp(x)
        prog.give(x.name)
    return prog


def test_large_programs_are_usable(compared: Compared) -> None:
    program, changed = chain(3000, "tanh"), chain(3000, "sin")
    browser = compared(program, changed)
    assert len(cells(browser, "replaced")) == 1
    assert browser.js("document.querySelectorAll('.pair tr').length") < 100
    browser.click('[aria-expanded="false"]')
    browser.settle()


def test_the_table_of_a_notebook_is_a_page_of_its_own(browser: Browser, tmp_path: Path) -> None:
    program = nested()
    shown = br.diff(program, swapped(program, "tanh", "sin"))._repr_html_()  # pyright: ignore[reportPrivateUsage]
    page = tmp_path / "cell.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{shown}", encoding="utf-8")
    browser.complaints.clear()
    browser.page.goto(page.resolve().as_uri())
    colours = browser.js(
        "[...document.querySelectorAll('tr')].map(r => getComputedStyle(r).backgroundColor)"
    )
    assert any(colour != "rgba(0, 0, 0, 0)" for colour in colours)
