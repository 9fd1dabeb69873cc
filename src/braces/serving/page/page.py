"""The page at `/`, its content security policy, and its other headers.

The page is the same for all models. Its scripts request models, inputs and outputs, and create
only text nodes from their names. The policy allows these scripts and this style
alone, and connections to this server alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from braces.web.assets import policy_hash, read_asset

HTML = "text/html; charset=utf-8"
page_asset = partial(read_asset, "braces.serving.page")
SCRIPTS = (
    "shapes.js",
    "texts.js",
    "notes.js",
    "outputs.js",
    "dom.js",
    "drawing.js",
    "forms.js",
    "results.js",
    "main.js",
)
"""The scripts in the order of their concatenation; each uses those before it."""


@dataclass(frozen=True)
class Page:
    """A page as the server sends it.

    Attributes:
        body: The HTML.
        headers: The headers, without content type.
    """

    body: bytes
    headers: dict[str, str]


@cache
def make_page() -> Page:
    """Return the page.

    Example:
        >>> page = make_page()
        >>> page.body.startswith(b"<!doctype html>"), page.headers["Referrer-Policy"]
        (True, 'no-referrer')
    """
    style, script = page_asset("page.css"), "".join(map(page_asset, SCRIPTS))
    before, after = page_asset("page.html").split("{{style}}")
    middle, end = after.split("{{script}}")
    text = "".join((before, style, middle, script, end))
    return Page(text.encode(), _headers(style, script))


def _headers(style: str, script: str) -> dict[str, str]:
    policy = {
        "default-src": "'none'",
        "style-src": policy_hash(style),
        "script-src": policy_hash(script),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(map(" ".join, policy.items())),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-cache",
    }
