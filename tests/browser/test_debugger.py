"""The debugger's page in a real browser: a served session, and a recording opened from disk."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import braces as br
from tests.browser.chromium import WITHIN_S, Browser, chromium
from tests.debugger.programs import (
    NAN_FEED,
    NESTED_FEED,
    branches,
    branches_feed,
    nan_in_loop,
    nested,
)
from tests.viewer.programs import HOSTILE

READY = "document.body?.dataset.ready === 'true'"
PANEL = "document.querySelector('aside').innerText"
BAR = "document.querySelector('.debugger').innerText"


@pytest.fixture(scope="module")
def online() -> Iterator[Browser]:
    """A browser that reaches this machine."""
    with chromium(online=True) as browser:
        yield browser


@pytest.fixture
def served(online: Browser) -> Iterator[Any]:
    """Start a session, and open its page; the page may complain of nothing."""
    sessions = list[Any]()

    def serve(prog: br.Program, feed: dict[str, Any], **options: Any) -> Any:
        scope = br.Executor().init(prog, br.Scope())
        session = prog.debug(scope, feed, **options)
        sessions.append(session)
        online.complaints.clear()
        online.page.goto(session.url)
        online.page.wait_for_url(lambda url: url.endswith("/"))
        online.wait(READY)
        online.settle()
        return session

    yield serve
    online.page.goto("about:blank")
    for session in sessions:
        session.close()
    assert online.complaints == []


def stopped(browser: Browser, session: Any, position: str) -> None:
    """Wait until the run, and then the page, are at an operator."""
    until = time.monotonic() + WITHIN_S
    while (session.status.state, session.position) != ("paused", position):
        assert time.monotonic() < until, (session.status, session.position)
        browser.page.wait_for_timeout(50)
    path = re.sub(r"(body|cond)\[\d+\]", r"\1", position)
    browser.wait(f"document.querySelector('aside p.sub')?.textContent === '{path}'")
    browser.wait("stateText.textContent.startsWith('paused')")


def finished(browser: Browser, session: Any) -> Any:
    """Wait until the run has ended, and the page shows its last event."""
    session.finish()
    browser.wait("['finished', 'failed'].includes(state.state) && time >= 0")
    browser.wait(
        "recording.events.count === state.events && stateText.textContent !== 'running'"
    )
    browser.settle()
    return session


# ---- a served session ----


def test_a_run_is_stepped_on_the_page(served: Any, online: Browser) -> None:
    session = served(nested(), NESTED_FEED)
    assert "before the first operator" in online.js(BAR)
    online.click(".step")
    stopped(online, session, "full_0")
    online.press("s")
    stopped(online, session, "loop_1/body[0]/loop_0/body[0]/constant_0")
    online.press("o")
    stopped(online, session, "loop_1/body[0]/loop_0")
    assert online.js("document.querySelectorAll('.box.current').length") == 1
    online.press("c")
    online.wait(f"{BAR}.includes('finished')")
    assert session.results["y"] == 57.0


def test_breakpoints_are_set_and_removed_on_the_page(served: Any, online: Browser) -> None:
    session = served(nested(), NESTED_FEED)
    online.click(".overview")
    online.click(".everywhere")
    online.type("loop_1/body/h if max > 10")
    online.press("Enter")
    online.wait(f"{PANEL}.includes('1: loop_1/body/h if max > 10')")
    online.click(".go")
    stopped(online, session, "loop_1/body[1]/h")
    assert online.js("document.querySelectorAll('.box.breakpoint').length") == 1
    online.click(".unbreak")
    online.wait("!document.querySelector('.box.breakpoint')")
    assert session.breakpoints.all() == []
    online.click("aside input.condition")
    online.type("max >")
    online.press("Enter")
    online.wait("document.querySelector('.note').textContent.includes('invalid condition')")


def test_the_slider_shows_the_value_of_each_iteration(served: Any, online: Browser) -> None:
    session = finished(online, served(nested(), NESTED_FEED, paused=False))
    site = session.sites.operator("loop_1/body/loop_0/body/s")
    online.js(f"go({site.block}, {site.op})")
    online.wait(f"{PANEL}.includes('6 of 6')")
    assert "loop_1 [1] \u203a loop_0 [2]" in online.js(PANEL)
    online.js(
        "(one => { one.value = '3'; one.dispatchEvent(new Event('change')); })"
        "(document.querySelector('aside input.iteration'))"
    )
    online.wait(f"{PANEL}.includes('4 of 6')")
    assert "loop_1 [1] \u203a loop_0 [0]" in online.js(PANEL)
    online.wait("document.querySelector('aside .numbers td:last-child')?.textContent === '11'")
    assert online.js("document.querySelectorAll('aside .chart').length") >= 1


def test_values_have_histograms_and_cases_their_batch_elements(
    served: Any, online: Browser
) -> None:
    session = finished(online, served(branches(), branches_feed(), paused=False))
    site = session.sites.operator("loop_0/body/partition_0/cases[1]/warm")
    online.js(f"go({site.block}, {site.op})")
    online.wait(f"{PANEL}.includes('batch elements of this case: 0, 2')")
    assert online.js("document.querySelectorAll('aside .chart .bar').length") == 24
    assert "block.add_output(br.tanh" in online.js(
        "document.querySelector('.code').textContent"
    )
    online.click("aside .backward")
    online.settle()
    assert online.js("document.querySelectorAll('.box.slice').length") > 2
    online.click("aside .clear")
    assert online.js("document.querySelectorAll('.box.slice').length") == 0


def test_the_origin_of_a_carried_value_is_the_preceding_iteration(
    served: Any, online: Browser
) -> None:
    session = finished(online, served(branches(), branches_feed(), paused=False))
    (memory,) = (
        edge.target
        for edge in session.flow.edges
        if edge.kind == 3
        and edge.source == session.sites.variable("loop_0/body/total")
        and edge.target.block == 1
    )
    online.js(f"chooseVar('{memory.block}:{memory.name}')")
    online.wait(f"{PANEL}.includes('preceding iteration')")
    online.click("aside .origin")
    online.wait(f"{PANEL}.includes('loop_0/body/total') && {PANEL}.includes('1 of 2')")


def test_the_first_nan_is_one_click_away(served: Any, online: Browser) -> None:
    finished(online, served(nan_in_loop(), NAN_FEED, paused=False))
    online.wait("!document.querySelector('.first-nan').disabled")
    online.click(".first-nan")
    online.wait(f"{PANEL}.includes('1 NaN, 0 infinite')")
    assert "loop_0 [2]" in online.js(BAR)
    assert online.js("document.querySelectorAll('.box.nan').length") == 1


def test_an_error_is_shown_with_the_values_before_it(served: Any, online: Browser) -> None:
    with br.Program() as prog:
        x = br.data("x", [])
        br.while_loop(lambda v: v < 10.0, lambda v: v + 1.0, x, max_trips=2)
    session = finished(online, served(prog, {"x": 0.0}, paused=False))
    online.wait("document.querySelector('.failure').textContent.includes('TripLimitError')")
    assert session.status.state == "failed"
    assert online.js("document.querySelectorAll('.box.failed').length") == 1
    online.click(".restart")
    online.wait(f"{BAR}.includes('before the first operator')")


def test_texts_of_strangers_stay_text(served: Any, online: Browser) -> None:
    served(nested(), NESTED_FEED)
    online.click(".overview")
    online.click(".everywhere")
    online.type(HOSTILE.replace("\u2028", ""))
    online.press("Enter")
    online.wait("document.querySelector('.note').textContent.includes('<img src=x')")
    assert online.js("document.querySelector('img')") is None


def test_a_page_whose_session_has_ended_says_so(served: Any, online: Browser) -> None:
    session = served(nested(), NESTED_FEED)
    session.close()
    online.wait(f"{BAR}.includes('the session has ended')")
    online.complaints.clear()  # the browser reports that the server is gone


# ---- a recording from disk ----


@pytest.fixture
def saved(online: Browser, tmp_path: Path) -> Iterator[Any]:
    """Write the recording of a program, and open it from disk."""

    def save(prog: br.Program, feed: dict[str, Any]) -> Any:
        scope = br.Executor().init(prog, br.Scope())
        page = tmp_path / "run.html"
        with prog.debug(scope, feed, serve=False, paused=False) as session:
            session.finish().to_html(page)
        online.open(page)
        online.wait(READY)
        online.settle()
        return session

    yield save
    assert online.complaints == []


def test_a_recording_opens_from_disk_without_requests(saved: Any, online: Browser) -> None:
    session = saved(nested(), NESTED_FEED)
    site = session.sites.operator("loop_1/body/loop_0/body/s")
    online.js(f"go({site.block}, {site.op})")
    online.wait(f"{PANEL}.includes('6 of 6')")
    online.wait("document.querySelector('aside .numbers td:last-child')?.textContent === '57'")
    assert all(url.startswith(("file:", "blob:", "about:")) for url in online.requests)
    assert online.js("document.querySelector('.step')") is None
    online.click(".back")
    online.wait(f"{PANEL}.includes('loop_1')")


def test_a_recording_opens_at_its_first_nan(saved: Any, online: Browser) -> None:
    saved(nan_in_loop(), NAN_FEED)
    online.wait(f"{PANEL}.includes('1 NaN, 0 infinite')")
    assert online.js("document.querySelectorAll('.box.nan').length") == 1
