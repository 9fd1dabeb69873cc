"""Two programs side by side: a table of their lines, and a page with both pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from braces.builder.builder import Builder
from braces.notebook import escape_html, join_pieces, shorten_text
from braces.viewer.html import page
from braces.viewer.payload import Marks, pair_payload

CONTEXT = 2
"""The number of equal lines shown before and after a difference."""

_CELL = "white-space:pre-wrap;overflow-wrap:anywhere;padding:0 8px;vertical-align:top"
_STYLES = {
    "pair": "table-layout:fixed;width:100%;border-collapse:collapse;text-align:left",
    "block": "opacity:.6",
    "added": "background:#2d7d5a33",
    "removed": "background:#b3541e33",
    "changed": "background:#d8a80033",
    "replaced": "background:#d8a80033",
}
"""The inline styles of a notebook; a page has them in its style sheet."""


@dataclass(frozen=True)
class Row:
    """A line of two programs.

    Attributes:
        block: The path of its block.
        left: The text in the left program; empty for none.
        right: The text in the right program; empty for none.
        how: The kind of the change; empty for equal ones.
    """

    block: str
    left: str
    right: str
    how: str = ""


def comparison_table(rows: Sequence[Row]) -> str:
    """Return two programs side by side as an HTML fragment for notebooks, at most 200 kB."""
    pieces = ((row, 0) for row in _table_rows(rows, inline=True))
    table = join_pieces(pieces, "… and more; to_html(path) shows all.")
    return (
        table.replace(">", f"><table {_look('pair', True)}>", 1).removesuffix("</div>")
        + "</table></div>"
    )


def comparison_page(
    programs: tuple[Builder, Builder], marks: Sequence[Marks], rows: Sequence[Row]
) -> str:
    """Return a page with the lines of two programs and their pictures side by side."""
    table = f'<table class="pair">{"".join(_table_rows(rows, inline=False))}</table>'
    return page(pair_payload(programs, marks, "Comparison"), above=table)


def _table_rows(rows: Sequence[Row], inline: bool) -> Iterator[str]:
    for block, in_block in groupby(rows, lambda row: row.block):
        yield _table_row(Row(block, f"block {block or '0'}", "", "block"), inline)
        for equal, run in groupby(in_block, lambda row: not row.how):
            lines = list(run)
            hidden = len(lines) - 2 * CONTEXT if equal else 0
            if hidden <= 1:
                yield from (_table_row(row, inline) for row in lines)
                continue
            note = f"… {hidden} equal lines"
            yield from (_table_row(row, inline) for row in lines[:CONTEXT])
            yield _table_row(Row(block, note, note, "block"), inline)
            yield from (_table_row(row, inline) for row in lines[-CONTEXT:])


def _table_row(row: Row, inline: bool) -> str:
    cell = f' style="{_CELL}"' if inline else ""
    cells = "".join(
        f"<td{cell}>{escape_html(shorten_text(text))}</td>" for text in (row.left, row.right)
    )
    return f"<tr {_look(row.how, inline)}>{cells}</tr>" if row.how else f"<tr>{cells}</tr>"


def _look(how: str, inline: bool, styles: Mapping[str, str] = _STYLES) -> str:
    return f'style="{styles.get(how, "")}"' if inline else f'class="{how}"'
