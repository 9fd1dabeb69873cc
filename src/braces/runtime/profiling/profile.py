"""Profile of runs: rows, memory and phases; prints as a table and is saved as a trace."""

from __future__ import annotations

import gzip
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

from braces.ir.files.atomic_write import write_atomically
from braces.lower.interpret.operator_timing import Span
from braces.report import Sheet
from braces.runtime.profiling.chrome_trace import build_trace
from braces.runtime.profiling.rendering import RunFacts, build_sheet
from braces.runtime.profiling.table_rows import OP, OpCosts, ProfileRow


@dataclass(frozen=True)
class Profile(RunFacts):
    """Profile of some runs; `print` shows it as a table.

    Besides facts about the runs as a whole (`mode`, `device`, `runs_s`, `parts`, `phases`,
    `memory`, `notes`), it has rows.

    Attributes:
        fetches: The results of the last run, as `run` returns them.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["steps", 2])
        ...     rnn = br.create_rnn()
        ...     with rnn.stepnet() as step:
        ...         total = step.add_memory(shape=[2])
        ...         total.update(br.add(total, step.add_input(x), name="more"))
        ...     out = br.tanh(rnn.final(total), name="squash")
        >>> exe = br.Executor(mode="interpret")
        >>> prof = exe.profile(prog, br.Scope(), {"x": [[1.0, 2.0]] * 5}, fetch=out, runs=1)
        >>> sorted((row.name, row.block, row.calls) for row in prof.rows() if row.calls > 1)
        [('more', 'loop_0/body', 5)]
        >>> sorted((row.name, row.calls) for row in prof.rows(by="block"))
        [('', 1), ('loop_0/body', 5)]
        >>> print(prof.text(by="type", limit=3))
        1 run, interpreted (cpu), ...
          of a run: feeds ...
        type ...
        and ... more, ...% together
        note: Each operator is synchronized; ...
    """

    fetches: Any
    _works: OpCosts = field(repr=False)
    _spans: tuple[Span, ...] = field(repr=False)
    _levels: tuple[tuple[int, int], ...] = field(repr=False)

    def rows(self, by: str = OP) -> tuple[ProfileRow, ...]:
        """Return the cost of each item in all runs together, the largest own time first.

        Args:
            by: `op`, operators by the names of the program; `type`, `block`; or `line`, those
                of the user's program.

        Raises:
            ProgramError: If the grouping is unknown.
        """
        return self._works.rows(by)

    def text(self, by: str = OP, limit: int | None = None) -> str:
        """Return the table, of at most `limit` rows.

        Raises:
            ProgramError: If the grouping is unknown.
        """
        return self._sheet(by, limit).text()

    def show(self, by: str = OP, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print the table, in colours on a terminal.

        Raises:
            ProgramError: If the grouping is unknown.
        """
        self._sheet(by, limit).print(sys.stdout if file is None else file)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for Perfetto (https://ui.perfetto.dev), atomically.

        It has the time spans of the phases before, of each run with its parts, and of operators
        within the loops and branches that ran them. The file is compressed if the name ends in
        `.gz`.

        Raises:
            OSError: If the folder is missing, full, or not writable.
        """
        trace = build_trace(self.mode, self.device, self._spans, self._levels)
        data = json.dumps(trace, ensure_ascii=False).encode()
        ready = gzip.compress(data, mtime=0) if os.fspath(path).endswith(".gz") else data
        write_atomically(path, ready)

    def _sheet(self, by: str, limit: int | None) -> Sheet:
        return build_sheet(self, by, self.rows(by), limit)

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Any:
        return self._sheet(OP, None).renderable()

    def _repr_html_(self) -> str:
        return self._sheet(OP, None).html()
