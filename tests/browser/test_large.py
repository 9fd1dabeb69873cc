"""Programs of 3,000 operators: loading time of the page, and its response while it loads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

import braces as br
from tests.browser.chromium import Browser
from tests.viewer.programs import deep, many

Opened: TypeAlias = Callable[..., Browser]

OPEN_S, ANSWER_S, FROZEN_MS = 8.0, 5.0, 1500.0
"""Bounds for a slow machine with one free core; what is measured is printed."""

WATCH = """
    longest = 0;
    (function watch(last) {
        const now = performance.now();
        longest = Math.max(longest, now - last);
        setTimeout(watch, 5, now);
    })(performance.now());
"""


@contextmanager
def within(limit_s: float, what: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    print(f"{what}: {took:.2f} s")
    assert took < limit_s, what


@pytest.fixture(params=["flat", "nested"])
def program(request: pytest.FixtureRequest) -> br.Program:
    """One block of 3,000 operators, or fifteen loops that have 200 each."""
    return many(3000) if request.param == "flat" else deep(15, 100)


def test_a_page_of_3000_operators_is_usable(opened: Opened, program: br.Program) -> None:
    ops = sum(len(block.ops) for block in program.blocks)
    assert ops >= 3000
    with within(OPEN_S, f"to write and open {ops} operators"):
        browser = opened(program)
    browser.js(WATCH)
    with within(ANSWER_S, "to open a part or block"):
        browser.click('[aria-expanded="false"]')
        browser.settle()
    with within(ANSWER_S, "to find and reveal an operator in the last block"):
        block = list(program.blocks)[-1]
        browser.press("/")
        browser.type(block.ops[-2].name)
        browser.press("Enter")
        browser.settle()
        browser.wait("!!document.querySelector('.box.chosen')")
    assert block.ops[-2].name in browser.js("document.querySelector('aside').innerText")
    assert browser.sees(f"o{len(program.blocks) - 1}.{len(block.ops) - 2}")
    with within(OPEN_S, "to open as much as fits one picture"):
        browser.click(".open")
        browser.settle()
    assert browser.js("document.querySelectorAll('.edge').length") > 100
    assert "stay closed" in browser.js("document.querySelector('.note').textContent")
    frozen = browser.js("longest")
    print(f"longest time without an answer: {frozen:.0f} ms")
    assert frozen < FROZEN_MS


def test_a_layout_that_takes_too_long_is_given_up_and_the_page_goes_on(opened: Opened) -> None:
    browser = opened(many(3000))
    browser.js("limits.layout = 1")
    browser.click('[aria-expanded="false"]')
    browser.settle()
    assert "without edges" in browser.js("document.querySelector('.note').textContent")
    assert browser.js("document.querySelectorAll('.box').length") > 100
    browser.js("limits.layout = 20_000")
    browser.click('[aria-expanded="true"]', nth=1)
    browser.settle()
    assert browser.js("document.querySelectorAll('.edge').length") > 10
    assert browser.js("document.querySelector('.note').textContent") == ""
