"""A profile as a value: rows, memory, phases; it prints as a table and is saved as a trace."""

from __future__ import annotations

import gzip
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

from braces.ir.files.atomic_write import write_atomically
from braces.lower.interpret.operator_timing import Span
from braces.runtime.profiling.chrome_trace import trace_of
from braces.runtime.profiling.rendering import Facts, Sheet
from braces.runtime.profiling.table_rows import OP, Row, Works


@dataclass(frozen=True)
class Profile(Facts):
    """Where the time of some runs went; `print` shows it as a table.

    Beside what is said of the runs as a whole (`mode`, `device`, `runs_s`, `parts`, `phases`,
    `memory`, `notes`), it has rows.

    Attributes:
        fetches: What the last run gave, as `run` gives it.

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
        note: Each operator is waited for, ...
    """

    fetches: Any
    _works: Works = field(repr=False)
    _spans: tuple[Span, ...] = field(repr=False)
    _levels: tuple[tuple[int, int], ...] = field(repr=False)

    def rows(self, by: str = OP) -> tuple[Row, ...]:
        """What each thing took in all runs together, what took most itself first.

        Args:
            by: `op`, operators by the names of the program; `type`, `block`; or `line`, those
                of the user's program.

        Raises:
            ProgramError: There is no such grouping.
        """
        return self._works.rows(by)

    def text(self, by: str = OP, limit: int | None = None) -> str:
        """The table, of so many rows at most.

        Raises:
            ProgramError: There is no such grouping.
        """
        return self._sheet(by, limit).text()

    def show(self, by: str = OP, limit: int | None = None, file: TextIO | None = None) -> None:
        """Print the table, in colours where that is a terminal.

        Raises:
            ProgramError: There is no such grouping.
        """
        self._sheet(by, limit).print(sys.stdout if file is None else file)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace that Perfetto (https://ui.perfetto.dev) opens, at once or not at all.

        It has what ran when: the phases before, each run with its parts, and operators within
        the loops and branches that ran them. A name that ends in `.gz` has it compressed.

        Raises:
            OSError: The folder is missing, full, or must not be written to.
        """
        made = trace_of(self.mode, self.device, self._spans, self._levels)
        data = json.dumps(made, ensure_ascii=False).encode()
        ready = gzip.compress(data, mtime=0) if os.fspath(path).endswith(".gz") else data
        write_atomically(path, ready)

    def _sheet(self, by: str, limit: int | None) -> Sheet:
        return Sheet(self, by, self.rows(by), limit)

    def __str__(self) -> str:
        return self.text()

    def __rich__(self) -> Any:
        return self._sheet(OP, None).drawn()

    def _repr_html_(self) -> str:
        return self._sheet(OP, None).html()
