"""Rendering of a profile: as text, in terminal colours, and in a notebook."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from braces.errors import visible
from braces.ir.text_table import columns, in_bytes, in_time
from braces.lazy import console, rich_table, rich_text
from braces.runtime.profiling.compile_phases import Phase
from braces.runtime.profiling.table_rows import (
    BLOCK,
    LINE,
    NO_OPERATOR,
    OP,
    TYPE,
    ProfileRow,
    join_first_two,
)

_ROWS, _NAME, _LONG, _MUCH, _LITTLE = 25, 20, 48, 0.1, 0.005
_FIRST = {OP: "operator", TYPE: "type", BLOCK: "block", LINE: "line"}
_TOLD = {OP: ("type", "block", "line"), TYPE: ("operators",), BLOCK: (), LINE: ("operators",)}
_FOLDERS = re.compile(r"[^\s]*[/\\]")
_NAMELESS = {OP: NO_OPERATOR, TYPE: NO_OPERATOR, BLOCK: "block 0", LINE: "(no line)"}
_MODES = {"compile": "compiled", "interpret": "interpreted"}


@dataclass(frozen=True)
class RunFacts:
    """Facts of a profile about runs as a whole.

    Attributes:
        mode: `compile` or `interpret`.
        device: The platform that computed, as `cpu`.
        runs_s: The duration of each measured run, in seconds.
        parts: The average duration of each part of a run, in seconds: the conversion of
            `feeds`, the start of the run (`begin`), the computation of `operators`, the commit
            and return of `results`.
        phases: The phases before the runs: the plan with each of its passes, the code with each
            of its steps, warm-up runs.
        memory: Bytes by use.
        notes: Caveats for the reader.
    """

    mode: str
    device: str
    runs_s: tuple[float, ...]
    parts: Mapping[str, float]
    phases: tuple[Phase, ...]
    memory: Mapping[str, int]
    notes: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield all but the notes."""
        several = "1 run" if len(self.runs_s) == 1 else f"{len(self.runs_s)} runs"
        mean = sum(self.runs_s) / len(self.runs_s)
        each = f"{in_time(mean)} each; the rows below are totals" if several != "1 run" else ""
        yield f"{several}, {_MODES[self.mode]} ({self.device}), {each or in_time(mean)}"
        parts = (f"{name} {in_time(seconds)}" for name, seconds in self.parts.items())
        yield f"  of a run: {', '.join(parts)}"
        yield f"  before: {', '.join(map(str, self.phases))}"
        sizes = (f"{name} {in_bytes(size)}" for name, size in self.memory.items())
        yield f"  memory: {', '.join(sizes)}"


@dataclass(frozen=True)
class ProfileReport:
    """Report of a profile.

    Attributes:
        facts: The lines above the table, and the notes below.
        by: The grouping of the rows.
        rows: All of them.
        limit: The number of rows that are shown.
    """

    facts: RunFacts
    by: str
    rows: Sequence[ProfileRow]
    limit: int | None

    def text(self) -> str:
        """Return the report as text."""
        numbers = range(1, 6)
        table = columns([self._head(), *map(self._cells, self._listed_rows)], right=numbers)
        return "\n".join([*self.facts.lines(), "", *table, *self._after()])

    def print(self, file: TextIO) -> None:
        """Print the report to a stream."""
        if file.isatty():
            console.Console(file=file, highlight=False).print(self.renderable())
        else:
            print(self.text(), file=file)

    def renderable(self) -> Any:
        """Return the report as a renderable of rich."""
        table = rich_table.Table(box=None, header_style="bold", pad_edge=False)
        for at, name in enumerate(self._head()):
            width = _NAME if at == 0 else None
            number = 1 <= at <= 5
            justify = "right" if number else "left"
            table.add_column(name, justify=justify, no_wrap=number, min_width=width)
        for row in self._listed_rows:
            style = "bold" if row.share >= _MUCH else "dim" if row.share < _LITTLE else ""
            cells = (
                rich_text.Text(cell, no_wrap=True, overflow="ellipsis")
                for cell in self._cells(row)
            )
            table.add_row(*cells, style=style)
        before, after = ("\n".join(lines) for lines in (self.facts.lines(), self._after()))
        return console.Group(
            rich_text.Text(before + "\n"), table, rich_text.Text(after, style="dim")
        )

    def html(self) -> str:
        """Return the report as HTML, for a notebook."""
        lines = [
            "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
            for tag, cells in (
                ("th", self._head()),
                *(("td", self._cells(row)) for row in self._listed_rows),
            )
        ]
        before, after = (html.escape("\n".join(x)) for x in (self.facts.lines(), self._after()))
        return f"<pre>{before}</pre><table>{''.join(lines)}</table><pre>{after}</pre>"

    # ---- parts -------------------------------------------------------------------------------

    @property
    def _listed_rows(self) -> Sequence[ProfileRow]:
        return self.rows[: _ROWS if self.limit is None else max(0, self.limit)]

    def _head(self) -> list[str]:
        return [_FIRST[self.by], "share", "self", "total", "calls", "a call", *_TOLD[self.by]]

    def _cells(self, row: ProfileRow) -> list[str]:
        cells_by_column = {
            "type": row.type,
            "block": row.block or "0" if row.paths else "",
            "line": _FOLDERS.sub("", row.source),
            "operators": join_first_two(row.paths),
        }
        name = row.name or _NAMELESS[self.by]
        cells = [
            name,
            f"{row.share:.1%}",
            in_time(row.self_s),
            in_time(row.total_s),
            str(row.calls),
            in_time(row.total_s / row.calls) if row.calls else "",
            *(_shorten(cells_by_column[column]) for column in _TOLD[self.by]),
        ]
        return list(map(visible, cells))

    def _after(self) -> Iterator[str]:
        hidden = self.rows[len(self._listed_rows) :]
        if hidden:
            share = sum(row.share for row in hidden)
            yield f"and {len(hidden)} more, {share:.1%} together"
        yield from (f"note: {note}" for note in map(visible, self.facts.notes))


def _shorten(text: str) -> str:
    """Return the end of a long text, as `…/loop_1_grad_0/body`."""
    return text if len(text) <= _LONG else f"…{text[1 - _LONG :]}"
