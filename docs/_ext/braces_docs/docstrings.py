"""Docstrings, which are written like Markdown, as reStructuredText.

Code is in single backticks. A type such as real[*shape] is code without them. Bars and stars
are text. Indented text before the first section is a literal block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from braces_docs import equivalents

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_SECTION = re.compile(r"^(Args|Attributes|Inputs|Outputs|Returns|Yields|Raises|Examples?):$")
_RETURNS = re.compile(r"^((?:Returns|Yields):\n +)", re.MULTILINE)
"""Before the text of a section in which napoleon takes the words before a colon as a type."""
_CODE = re.compile(r"(`+)[^`]+?\1")
_TYPE = re.compile(r"(?<![\w\\])\w*\[[^\]`]*\*[^\]`]*\]")  # perhaps over two lines
_MARKUP = re.compile(r"([*|])")


def shielded(text: str) -> str:
    """A text with code as literals, and without markup by stars and bars."""
    out, end = "", 0
    for hit in _CODE.finditer(text):
        code = hit[0] if hit[1] != "`" else f"`{hit[0]}`"  # napoleon splits `a:b` at the colon
        out, end = out + _types(text[end : hit.start()]) + code, hit.end()
        out += "\\ " if text[end : end + 1].isalnum() else ""  # `Dim`s
    return out + _types(text[end:])


def _types(text: str) -> str:
    """Text without code: types become code."""
    out, end = "", 0
    for hit in _TYPE.finditer(text):
        out += _MARKUP.sub(r"\\\1", text[end : hit.start()]) + f"``{hit[0]}``"
        end = hit.end()
    return out + _MARKUP.sub(r"\\\1", text[end:])


def kinds(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Each line with its kind: `literal`, `doctest` or `text`."""
    head, kind, blank = True, "text", True
    for line in lines:
        head = head and not _SECTION.match(line)
        if line.strip():
            starts = head and line.startswith("    ") and (kind == "literal" or blank)
            doctest = line.lstrip().startswith((">>>", "... ")) or kind == "doctest"
            kind = "literal" if starts else "doctest" if doctest else "text"
        elif kind == "doctest":
            kind = "text"
        blank = not line.strip()
        yield kind, line


def converted(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    blocks: list[tuple[str, list[str]]] = []
    for kind, line in kinds(lines):
        if not blocks or blocks[-1][0] != kind:
            blocks.append((kind, ["::", ""] if kind == "literal" else []))
        blocks[-1][1].append(line)
    texts = ("\n".join(part) for _, part in blocks)
    whole = (t if k != "text" else shielded(t) for t, (k, _) in zip(texts, blocks, strict=True))
    return _RETURNS.sub(r"\1: ", "\n".join(whole)).split("\n")


def process(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Convert a docstring, and name the equivalents in other libraries."""
    del app, what, obj, options
    others = equivalents.line(name.removeprefix("braces."))
    lines[:] = converted(lines)
    if others:
        at = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
        lines[at:at] = ["", others, ""]


def setup(app: Sphinx) -> None:
    """Convert docstrings before napoleon (priority 500) reads their sections."""
    app.connect("autodoc-process-docstring", process, priority=400)
