"""Text and tables for people, as text, in terminal colours and in HTML; readable numbers."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from braces.dims import amount
from braces.errors import visible
from braces.lazy import console, rich_table, rich_text

ROWS = 20
LONG = 56
_NAME, _MANY = 20, 2
_FOLDERS = re.compile(r"[^\s]*[/\\]")


@dataclass(frozen=True)
class Table:
    """Rows under a header.

    Attributes:
        title: The title above the table; empty for none.
        head: The names of the columns.
        rows: Their cells.
        numbers: The right-aligned columns.
        more: The note about omitted rows.
        styles: The style of each row in a terminal, as `bold`; empty for none.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    more: str = ""
    styles: Sequence[str] = ()

    def limit_rows(self, limit: int | None) -> Table:
        """Return the first rows, with a note about the omitted ones."""
        most = ROWS if limit is None else max(0, limit)
        left = len(self.rows) - most
        rows = [[_short(visible(cell)) for cell in row] for row in self.rows[:most]]
        more = f"and {left} more" if left > 0 else ""
        return Table(self.title, self.head, rows, self.numbers, more)

    def text(self) -> Iterator[str]:
        """Yield the table as lines; a title indents the others."""
        indent = "  " if self.title else ""
        if self.title:
            yield f"{self.title}:"
        yield from (
            f"{indent}{line}" for line in columns([self.head, *self.rows], self.numbers)
        )
        if self.more:
            yield f"{indent}{self.more}"

    def renderable(self) -> Any:
        """Return the table as a rich renderable."""
        table = rich_table.Table(
            title=self.title or None, title_justify="left", box=None, header_style="bold",
            pad_edge=False, caption=self.more or None, caption_justify="left",
            row_styles=self.styles,
        )  # fmt: skip
        least = min(_NAME, max(len(row[0]) for row in (self.head, *self.rows)))
        for index, name in enumerate(self.head):
            number = index in self.numbers
            table.add_column(
                name, justify="right" if number else "left", no_wrap=number,
                min_width=None if index else least,
            )  # fmt: skip
        for row in self.rows:
            cells = (rich_text.Text(c, no_wrap=True, overflow="ellipsis") for c in row)
            table.add_row(*cells)
        return table

    def html(self) -> str:
        """Return the table as HTML."""
        lines = "".join(
            "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
            for tag, cells in (("th", self.head), *(("td", row) for row in self.rows))
        )
        caption = f"<h3>{html.escape(self.title)}</h3>" if self.title else ""
        return f"{caption}<table>{lines}</table><p>{html.escape(self.more)}</p>"


@dataclass(frozen=True)
class Sheet:
    """Lines, tables and notes to show.

    Attributes:
        lines: The lines above the tables.
        tables: The tables.
        notes: The notes below the tables.
    """

    lines: Sequence[str]
    tables: Sequence[Table]
    notes: Sequence[str]

    def text(self) -> str:
        """Return everything as text."""
        tables = (line for table in self.tables for line in ("", *table.text()))
        return "\n".join([*map(visible, self.lines), *tables, "", *self._after()])

    def print(self, file: TextIO) -> None:
        """Print everything to a stream, in colours if it is a terminal."""
        if file.isatty():
            console.Console(file=file, highlight=False).print(self.renderable())
        else:
            print(self.text(), file=file)

    def renderable(self) -> Any:
        """Return everything as a rich renderable."""
        parts = [
            piece for table in self.tables for piece in (rich_text.Text(), table.renderable())
        ]
        before = rich_text.Text("\n".join(map(visible, self.lines)))
        after = rich_text.Text("\n" + "\n".join(self._after()), style="dim")
        return console.Group(before, *parts, after)

    def html(self) -> str:
        """Return everything as HTML for a page or a notebook."""
        before, after = (
            html.escape("\n".join(x)) for x in (map(visible, self.lines), self._after())
        )
        tables = "".join(table.html() for table in self.tables)
        return f"<pre>{before}</pre>{tables}<pre>{after}</pre>"

    def _after(self) -> Iterator[str]:
        yield from (f"note: {note}" for note in map(visible, self.notes))


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    r"""Yield rows as lines with aligned cells.

    Args:
        rows: Cells; all rows have the same number.
        right: Right-aligned columns.

    Example:
        >>> print(*columns([["w", "12"], ["bias", "3"]], right=[1]), sep="\n")
        w     12
        bias   3
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


# ---- cells -----------------------------------------------------------------------------------


def count_text(count: int, noun: str) -> str:
    """Format a count with its noun: `1 block`, `2 blocks`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def in_bytes(count: int) -> str:
    """Format a number of bytes.

    Example:
        >>> in_bytes(999), in_bytes(43_512), in_bytes(2_000_000_000)
        ('999 B', '43.5 kB', '2.0 GB')
    """
    return amount(count, "B")


def in_time(seconds: float) -> str:
    """Format a time with three digits.

    Example:
        >>> in_time(0.0000021), in_time(0.01234), in_time(75.0)
        ('2.10 us', '12.3 ms', '75.0 s')
    """
    for unit, least in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= least:
            number = seconds / least
            return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def first_names(names: Sequence[str], separator: str = ", ") -> str:
    """Return the first two names, and the number of the others.

    Example:
        >>> first_names(["a", "b", "c"])
        'a, b (+1)'
    """
    more = f" (+{len(names) - _MANY})" if len(names) > _MANY else ""
    return separator.join(names[:_MANY]) + more


def shorten_start(text: str, most: int) -> str:
    """Return the end of a long text.

    Example:
        >>> shorten_start("layer0/attention/body/matmul", 22)
        '…attention/body/matmul'
    """
    return text if len(text) <= most else f"…{text[1 - most :]}"


def without_folders(text: str) -> str:
    """Return a text of paths with their file names only.

    Example:
        >>> without_folders("/home/a/train.py:41 (+1)")
        'train.py:41 (+1)'
    """
    return _FOLDERS.sub("", text)


def _short(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
