"""The lines and the table of a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from braces.errors import visible
from braces.report import (
    Sheet,
    Table,
    count_text,
    in_bytes,
    in_time,
    shorten_start,
    without_folders,
)
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

_ROWS, _LONG, _MUCH, _LITTLE = 25, 48, 0.1, 0.005
_FIRST = {OP: "operator", TYPE: "type", BLOCK: "block", LINE: "line"}
_TOLD = {OP: ("type", "block", "line"), TYPE: ("operators",), BLOCK: (), LINE: ("operators",)}
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
        several = count_text(len(self.runs_s), "run")
        mean = sum(self.runs_s) / len(self.runs_s)
        each = f"{in_time(mean)} each; the rows below are totals" if several != "1 run" else ""
        yield f"{several}, {_MODES[self.mode]} ({self.device}), {each or in_time(mean)}"
        parts = (f"{name} {in_time(seconds)}" for name, seconds in self.parts.items())
        yield f"  of a run: {', '.join(parts)}"
        yield f"  before: {', '.join(map(str, self.phases))}"
        sizes = (f"{name} {in_bytes(size)}" for name, size in self.memory.items())
        yield f"  memory: {', '.join(sizes)}"


def build_sheet(
    facts: RunFacts, by: str, rows: Sequence[ProfileRow], limit: int | None
) -> Sheet:
    """Return the sheet of a profile.

    Args:
        facts: The lines above the table, and the notes below.
        by: The grouping of the rows.
        rows: All of them.
        limit: The number of rows that are shown; `None` for the default.
    """
    most = _ROWS if limit is None else max(0, limit)
    listed, hidden = rows[:most], rows[most:]
    head = [_FIRST[by], "share", "self", "total", "calls", "a call", *_TOLD[by]]
    share = sum(row.share for row in hidden)
    more = f"and {len(hidden)} more, {share:.1%} together" if hidden else ""
    cells = [_cells(row, by) for row in listed]
    table = Table("", head, cells, range(1, 6), more, [_style(row) for row in listed])
    return Sheet(list(facts.lines()), [table], facts.notes)


def _cells(row: ProfileRow, by: str) -> list[str]:
    cells_by_column = {
        "type": row.type,
        "block": row.block or "0" if row.paths else "",
        "line": without_folders(row.source),
        "operators": join_first_two(row.paths),
    }
    cells = [
        row.name or _NAMELESS[by],
        f"{row.share:.1%}",
        in_time(row.self_s),
        in_time(row.total_s),
        str(row.calls),
        in_time(row.total_s / row.calls) if row.calls else "",
        *(shorten_start(cells_by_column[column], _LONG) for column in _TOLD[by]),
    ]
    return list(map(visible, cells))


def _style(row: ProfileRow) -> str:
    return "bold" if row.share >= _MUCH else "dim" if row.share < _LITTLE else ""
