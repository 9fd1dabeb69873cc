"""A headless Chromium without a network, spoken to over pipes: it is all that is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
    "about:blank",
)
LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
SIZE = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}


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
    """One tab: sends DevTools commands, and keeps what the page complained of."""

    def __init__(self, to: int, back: int) -> None:
        self.to, self.back = to, back
        self.rest = b""
        self.sent = 0
        self.session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def send(self, method: str, within_s: float = 60.0, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + within_s
        while True:
            answer = self.next(until - time.monotonic(), method)
            if answer.get("id") == self.sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def next(self, within_s: float, waiting_for: str) -> dict[str, Any]:
        """The next message; events are noted on the way."""
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(within_s, 0))[0]:
                raise TimeoutError(f"The browser did not answer in time: {waiting_for}")
            read = os.read(self.back, 1 << 20)
            if not read:
                raise RuntimeError(f"The browser ended while it was asked: {waiting_for}")
            self.rest += read
        text, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(text)
        self.note(message.get("method", ""), message.get("params", {}))
        return message

    def note(self, event: str, params: dict[str, Any]) -> None:
        """Keep errors, and addresses that the page asked for."""
        if event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(
                details.get("exception", {}).get("description") or details["text"]
            )
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str([one.get("value") for one in params["args"]]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {params['message']}")

    # ---- what tests do ----

    def open(self, page: Path, dark: bool = False) -> None:
        """Open a page from disk, and wait until its picture is drawn."""
        self.complaints.clear()
        self.requests.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=page.resolve().as_uri())
        self.settle()

    def js(self, expression: str, within_s: float = 60.0) -> Any:
        """The value of an expression; a promise is waited for."""
        options = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self.send("Runtime.evaluate", within_s, expression=expression, **options)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details))
        return answer["result"].get("value")

    def wait(self, condition: str, within_s: float = 30.0) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + within_s
        while not self.js(condition):
            assert time.monotonic() < until, f"never true: {condition}; {self.complaints}"
            time.sleep(0.05)

    def settle(self, within_s: float = 30.0) -> None:
        """Wait until nothing is being arranged any more."""
        ready = "document.readyState === 'complete' && !!document.querySelector('.box')"
        self.wait(f"{ready} && document.querySelector('main').ariaBusy === 'false'", within_s)

    def click(self, selector: str, nth: int = 0) -> None:
        """Bring an element into sight and click in its middle, as a mouse does."""
        found = f"document.querySelectorAll({json.dumps(selector)})[{nth}]"
        assert self.js(f"!!{found}"), f"nothing to click: {selector}"
        self.js(f"{found}.scrollIntoView({{block: 'center', inline: 'center'}})")
        middle = "(r => [r.x + Math.min(r.width / 2, 60), r.y + Math.min(r.height / 2, 12)])"
        x, y = self.js(f"{middle}({found}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )
        self.js("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def sees(self, box: str) -> bool:
        """Whether a box is drawn, and its upper left corner is in sight."""
        found = f"document.querySelector({json.dumps(f'.box[data-id={json.dumps(box)}]')})"
        inside = "r.x >= s.x && r.y >= s.y && r.x < s.right && r.y < s.bottom"
        rects = f"{found}.getBoundingClientRect(), stage.getBoundingClientRect()"
        return self.js(f"{found} !== null && ((r, s) => {inside})({rects})")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press and release a key that `KeyboardEvent.key` calls so."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self, path: Path) -> None:
        """Save what is seen as PNG."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with a fresh profile in `folder`; it saves what pages give it there, too."""
    (read_by_it, to), (back, written_by_it) = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (read_by_it, written_by_it)]
    command = [executable(), *FLAGS[:-1], f"--user-data-dir={folder / 'profile'}", FLAGS[-1]]
    launcher = [sys.executable, "-c", LAUNCHER, *map(str, theirs)]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [*launcher, *command], pass_fds=theirs, stdout=log, stderr=log
        )
    for fd in (read_by_it, written_by_it, *theirs):
        os.close(fd)
    try:
        yield _tab(Browser(to, back), folder)
    finally:
        process.kill()
        process.wait()
        os.close(to)
        os.close(back)


def _tab(browser: Browser, folder: Path) -> Browser:
    """Attach to a tab, cut it off from any network, and listen to what it says."""
    browser.send(
        "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder.resolve())
    )
    target = browser.send("Target.createTarget", url="about:blank")["targetId"]
    answer = browser.send("Target.attachToTarget", targetId=target, flatten=True)
    browser.session = answer["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        browser.send(f"{domain}.enable")
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.send("Network.emulateNetworkConditions", **offline)
    browser.send("Emulation.setDeviceMetricsOverride", **SIZE)
    return browser
