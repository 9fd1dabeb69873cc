"""Lines and tables for people: as text, in terminal colours, and in HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from braces.errors import visible
from braces.ir.text_table import columns
from braces.lazy import console, rich_table, rich_text

ROWS = 20
LONG = 56


@dataclass(frozen=True)
class Table:
    """Rows under a header.

    Attributes:
        title: The title above the table.
        head: The names of the columns.
        rows: Their cells.
        numbers: The right-aligned columns.
        more: The note about omitted rows.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    more: str = ""

    def limit_rows(self, limit: int | None) -> Table:
        """Return the first rows, with a note about the omitted ones."""
        most = ROWS if limit is None else max(0, limit)
        left = len(self.rows) - most
        rows = [[_short(visible(cell)) for cell in row] for row in self.rows[:most]]
        more = f"and {left} more" if left > 0 else ""
        return Table(self.title, self.head, rows, self.numbers, more)

    def text(self) -> Iterator[str]:
        """Yield the table as lines."""
        yield f"{self.title}:"
        yield from (f"  {line}" for line in columns([self.head, *self.rows], self.numbers))
        if self.more:
            yield f"  {self.more}"

    def renderable(self) -> Any:
        """Return the table as a rich renderable."""
        table = rich_table.Table(
            title=self.title, title_justify="left", box=None, header_style="bold",
            pad_edge=False, caption=self.more or None, caption_justify="left",
        )  # fmt: skip
        for index, name in enumerate(self.head):
            number = index in self.numbers
            table.add_column(name, justify="right" if number else "left", no_wrap=number)
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
        caption = f"<h3>{html.escape(self.title)}</h3>"
        return f"{caption}<table>{lines}</table><p>{html.escape(self.more)}</p>"


@dataclass(frozen=True)
class PlanSheet:
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


def _short(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"
