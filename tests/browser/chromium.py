"""A headless Chromium of the system, without a network, driven by Playwright."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Dialog, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SIZE: Any = {"width": 1400, "height": 900}
WITHIN_S = 30


def executable() -> str:
    """The browser that `CHROMIUM` names, or that is on the path."""
    named = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, [named] if named else NAMES)), None)
    if found is None:
        asked = f"{named!r}, which CHROMIUM names," if named else ", ".join(NAMES)
        raise RuntimeError(
            f"No Chromium: {asked} is not on the path. Install one, as with "
            "`apt-get install chromium`, or name it: CHROMIUM=/path/to/chrome make browser"
        )
    return found


class Browser:
    """One tab, which keeps what its page asked for and what it complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self.hear)
        page.on("dialog", self.dismiss)

    def hear(self, message: ConsoleMessage) -> None:
        """Keep what the page, or the browser about it, warns of."""
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def dismiss(self, dialog: Dialog) -> None:
        """Keep what a dialog says; no page of ours has one."""
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    # ---- what tests do ----

    def open(self, page: Path) -> None:
        """Open a page from disk, and wait until its picture is drawn."""
        self.complaints.clear()
        self.requests.clear()
        self.page.goto(page.resolve().as_uri())
        self.settle()

    def js(self, expression: str) -> Any:
        """The value of an expression; a promise is waited for."""
        return self.page.evaluate(expression)

    def wait(self, condition: str) -> None:
        """Wait until an expression is true; the page's policy lets it compute none itself."""
        until = time.monotonic() + WITHIN_S
        while not self.js(condition):
            assert time.monotonic() < until, f"never true: {condition}; {self.complaints}"
            self.page.wait_for_timeout(50)

    def settle(self) -> None:
        """Wait until nothing is being arranged any more."""
        ready = "document.readyState === 'complete' && !!document.querySelector('.box')"
        self.wait(f"{ready} && document.querySelector('main').ariaBusy === 'false'")

    def click(self, selector: str, nth: int = 0) -> None:
        """Bring an element into sight and click near its upper left corner, as a mouse does."""
        element = self.page.locator(selector).nth(nth)
        element.evaluate("e => e.scrollIntoView({block: 'center', inline: 'center'})")
        box = element.bounding_box()
        assert box is not None, f"nothing to click: {selector}"
        x, y = min(box["width"] / 2, 60), min(box["height"] / 2, 12)
        element.click(position={"x": x, "y": y})

    def sees(self, box: str) -> bool:
        """Return whether a box is drawn, and its upper left corner is in sight."""
        found = f"document.querySelector({json.dumps(f'.box[data-id={json.dumps(box)}]')})"
        inside = "r.x >= s.x && r.y >= s.y && r.x < s.right && r.y < s.bottom"
        rects = f"{found}.getBoundingClientRect(), stage.getBoundingClientRect()"
        return self.js(f"{found} !== null && ((r, s) => {inside})({rects})")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.page.keyboard.type(text)

    def press(self, key: str) -> None:
        """Press and release a key that `KeyboardEvent.key` calls so."""
        self.page.keyboard.press(key)

    def saves(self, selector: str, folder: Path) -> Path:
        """Click, and wait for the file that the page gives to be saved."""
        with self.page.expect_download() as given:
            self.click(selector)
        file = folder / given.value.suggested_filename
        given.value.save_as(file)
        return file


@contextmanager
def chromium(online: bool = False, size: Any = SIZE) -> Iterator[Browser]:
    """A browser with a fresh profile: cut off from any network, or `online`."""
    closed = [] if online else ["--host-resolver-rules=MAP * ~NOTFOUND"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=["--no-sandbox", *closed]
        )
        with browser, browser.new_context(viewport=size, offline=not online) as context:
            context.set_default_timeout(WITHIN_S * 1000)
            yield Browser(context.new_page())
