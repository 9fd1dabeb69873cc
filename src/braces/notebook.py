"""HTML for notebooks: escaped text in rows and boxes, without scripts, bounded in size.

Also completion, and the names of cells in source lines: `cell 2` in place of the temporary file
of a kernel, whose path differs in each session.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Sequence
from typing import ClassVar, TypeAlias

MAX_CHARACTERS = 150_000
"""The maximum number of characters; later rows are replaced by a notice."""
MAX_ROW_LENGTH = 600
OPEN_UP_TO = 40
"""Boxes with more content are initially closed."""

_BOX = (
    "border:1px solid #8885;border-left:3px solid #8a4fbf99;border-radius:6px;"
    "padding:2px 8px;margin:2px 0 2px 18px"
)
_ROW = "white-space:pre-wrap;overflow-wrap:anywhere"
_FONT = "font:12px/1.5 ui-monospace,'DejaVu Sans Mono',monospace"


_NUMBERED = re.compile(r"<ipython-input-(\d+)-")
CELL = re.compile(r"cell \d+")


def cell_of(file: str) -> str | None:
    """Return the cell of a file of IPython code, as `cell 2`; `None` for other files.

    Example:
        >>> cell_of("<ipython-input-2-0123456789ab>"), cell_of("train.py")
        ('cell 2', None)
    """
    if "ipython-input" not in file and "ipykernel_" not in file:
        return None
    match = _NUMBERED.match(file) or re.search(r"In\s*\[(\d+)\]", _title_of_cell(file))
    return f"cell {match[1]}" if match else None


def _title_of_cell(file: str) -> str:
    """Return IPython's title of the code of a file, such as `In[2]`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    find_title = getattr(getattr(shell, "compile", None), "format_code_name", None)
    return str(find_title(file)) if find_title else ""


def line_text(file: str, line: int) -> str:
    """Return a file and a line as text.

    Example:
        >>> line_text("train.py", 7), line_text("cell 2", 7)
        ('train.py:7', 'cell 2, line 7')
    """
    file = cell_of(file) or file
    return f"{file}, line {line}" if CELL.fullmatch(file) else f"{file}:{line}"


Piece: TypeAlias = tuple[str, int]
"""HTML, and its change of the number of open boxes: 1, 0 or -1."""
END_OF_BOX: Piece = ("</details>", -1)


def join_pieces(pieces: Iterable[Piece], more: str) -> str:
    """Join rows and boxes, at most 200 kB; `more` is the notice for omitted rows."""
    room, hidden, parts = MAX_CHARACTERS, 0, list[str]()
    for piece, boxes in pieces:
        room -= len(piece)
        if hidden or (room < 0 and boxes >= 0):
            hidden += boxes
        else:
            parts.append(piece)
    if room < 0:
        parts.append(f"<div>{escape_html(more)}</div>")
    return f'<div style="{_FONT}">{"".join(parts)}</div>'


def text_row(text: str) -> Piece:
    """Return a line of text.

    Example:
        >>> text_row("a < b")[0].endswith(">a &lt; b</div>")
        True
    """
    return f'<div style="{_ROW}">{escape_html(shorten_text(text))}</div>', 0


def open_box(title: str, count: int, is_folded: bool = False) -> Piece:
    """Return the start of a collapsible box with `count` items."""
    state = " open" if count <= OPEN_UP_TO and not is_folded else ""
    return (
        f'<details{state} style="{_BOX}"><summary>{escape_html(shorten_text(title))}</summary>',
        1,
    )


def escape_html(text: str) -> str:
    """Escape a text for HTML, with `?` for characters that cannot be encoded."""
    return html.escape(text.encode(errors="replace").decode())


def shorten_text(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= MAX_ROW_LENGTH else f"{text[:MAX_ROW_LENGTH]}…"


class TextView:
    """Base class of values that a notebook shows by the lines of their `repr`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = (text_row(line) for line in repr(self).splitlines() or [""])
        return join_pieces(rows, "The rest is left out.")


# ---- completion ---------------------------------------------------------------------------


class Offering:
    """Base class whose completion offers the members that users write, and no others."""

    __slots__ = ()
    _offered: ClassVar[Sequence[str]] = ()

    def __dir__(self) -> list[str]:
        special = (name for name in super().__dir__() if name.startswith("_"))
        return [*special, *self._offered]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._offered)}>"
