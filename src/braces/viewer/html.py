"""A program as one self-contained HTML page, or as a fragment for notebooks.

Names and attributes may come from an untrusted file. The page contains them as JSON in which no
tag can end, and the script only creates text nodes from them. A content security policy allows
only that script and its own worker, and no loads.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from braces.builder.builder import Builder
from braces.viewer.histogram import histogram_figures
from braces.viewer.layout_library import HINT, layout_library
from braces.viewer.notebook_fragment import fragment
from braces.viewer.payload import NO_MARKS, Marks, payload
from braces.viewer.training_curve import Curve, curve_figures
from braces.web.assets import policy_hash, read_asset

asset = partial(read_asset, "braces.viewer")
STYLES = ("page.css", "picture.css")
SCRIPTS = (
    "dom.js",
    "program.js",
    "graph.js",
    "layout.js",
    "engine.js",
    "picture.js",
    "view.js",
    "panel.js",
    "search.js",
    "main.js",
)
"""The scripts in the order of their concatenation; each uses those before it."""


Groups: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""Values by name, in groups by kind, as `Parameters`."""
NOTHING: Groups = {}


def program_html(
    program: Builder,
    embed: bool = False,
    curve: Curve | None = None,
    title: str = "Program",
    values: Groups = NOTHING,
    marks: Marks = NO_MARKS,
) -> str:
    """Return the nested blocks of a program as nested boxes.

    Args:
        program: The program, shown with its startup program.
        embed: Whether to return a fragment without scripts, at most 200 kB, instead of a page.
        curve: Measures by epoch, as `{"loss": [2.3, 0.4]}`; drawn above the program.
        title: The heading of the page.
        values: Arrays by name, in groups by kind; their histograms are above the program, in a
            collapsible box for each group.
        marks: The marks of operators and variables: `highlighted` ones are open at first, and
            the panel lists them.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.tanh(br.data("x", ["batch", 4]))
        >>> program_html(prog).startswith("<!doctype html>")
        True
    """
    return fragment(program) if embed else page(payload(program, title, marks), curve, values)


def page(
    content: dict[str, Any],
    curve: Curve | None = None,
    values: Groups = NOTHING,
    above: str = "",
    more_styles: Sequence[str] = (),
    more_scripts: Sequence[str] = (),
    connects: bool = False,
) -> str:
    """Return the whole page around its content.

    Args:
        content: The data of the page.
        curve: Measures by epoch.
        values: Arrays by name, in groups.
        above: HTML that precedes the program.
        more_styles: Style sheets that follow those of the page.
        more_scripts: Scripts that follow those of the page.
        connects: Whether scripts may connect to the server of the page.
    """
    style = "".join((*map(asset, STYLES), *more_styles))
    script = "".join((*map(asset, SCRIPTS), *more_scripts))
    connect = "; connect-src 'self'" if connects else ""
    policy = (
        f"default-src 'none'; style-src {policy_hash(style)}; "
        f"script-src {policy_hash(script)}; worker-src blob:{connect}"
    )
    parts = {
        "{{title}}": html.escape(content["title"]),
        "{{policy}}": policy,
        "{{style}}": style,
        "{{above}}": above,
        "{{curves}}": curve_figures(curve),
        "{{values}}": "".join(histogram_figures(*group) for group in values.items()),
        "{{content}}": inert_json({**content, "hint": HINT}),
        "{{library}}": layout_library(),
        "{{script}}": script,
    }
    pieces = asset("page.html").split("\n")
    return "\n".join(_fill_template(piece, parts) for piece in pieces)


def _fill_template(line: str, parts: dict[str, str]) -> str:
    """Fill the placeholder in a line of the template; inserted text is not scanned."""
    for mark, text in parts.items():
        if mark in line:
            before, _, after = line.partition(mark)
            return before + text + after
    return line


def inert_json(content: Any) -> str:
    r"""Return JSON in which no tag, comment or entity can begin or end.

    Example:
        >>> print(inert_json("</script>&"))
        "\u003c/script\u003e\u0026"
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
