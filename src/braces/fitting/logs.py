"""Log files of a training: JSON lines, CSV and event files of TensorBoard.

After a resume, rows beyond the restored checkpoint are removed, so that no step occurs twice,
and rows of epochs that could not be written, as on a full disk, are added.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

from braces.errors import ProgramError
from braces.fitting.callbacks import Callback
from braces.fitting.evaluation import plain_number
from braces.fitting.fit_run import Fit
from braces.fitting.steps.position import Row
from braces.fitting.steps.step import TrainingStep
from braces.fitting.steps.writes import append, replace
from braces.fitting.tensorboard import EventFile
from braces.storage.checkpoint_arguments import optional_count

_COUNTS = ("epoch", "step")
_STEP_TAG = "step/"


class LogFile(Callback):
    """A log file of rows: one of each epoch, and of every `every` steps."""

    def __init__(self, path: Path, every: int | None = None) -> None:
        self.path, self.every = path, every or 0

    @property
    def takes_steps(self) -> bool:
        """True if rows of single steps are written."""
        return self.every > 0

    def on_start(self, run: Fit) -> None:  # noqa: D102 - inherited
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.truncate(len(run.history), run.step)
        for row in run.history.rows:
            if row["step"] not in written:
                self.write_epoch(row)

    def on_step(self, run: Fit, step: TrainingStep) -> None:  # noqa: D102 - inherited
        if step.number % self.every == 0:
            values = zip(run.step_names, step.results, strict=True)
            row = {name: plain_number(value) for name, value in values if not value.ndim}
            self.write_step({"step": step.number, **row})

    def on_epoch(self, run: Fit, row: Row) -> None:  # noqa: D102 - inherited
        self.write_epoch(row)

    def truncate(self, epochs: int, step: int) -> set[int]:
        """Remove the rows after an epoch and after a step; return the last steps of epochs."""
        raise NotImplementedError

    def write_epoch(self, row: Row) -> None:
        """Write the row of an epoch."""
        raise NotImplementedError

    def write_step(self, row: Row) -> None:
        """Write the row of a step."""
        raise NotImplementedError


class JsonLines(LogFile):
    """JSON lines: rows of epochs have `epoch`, rows of steps do not."""

    def truncate(self, epochs: int, step: int) -> set[int]:  # noqa: D102 - inherited
        kept = [
            (line, row)
            for line, row in _json_rows(self.path)
            if (row["epoch"] <= epochs if "epoch" in row else row.get("step", 0) <= step)
        ]
        replace(self.path, "".join(line for line, _ in kept).encode())
        return {row.get("step", 0) for _, row in kept if "epoch" in row}

    def write_epoch(self, row: Row) -> None:  # noqa: D102 - inherited
        append(self.path, f"{json.dumps(row)}\n".encode())

    write_step = write_epoch


def _json_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the complete rows of a file; a killed process may leave a part of one."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and line.endswith("\n"):
                yield line, row


class CsvFile(LogFile):
    """CSV with one row for each epoch; arrays are left out."""

    def on_start(self, run: Fit) -> None:  # noqa: D102 - inherited
        self._columns = [*_COUNTS, *run.names]
        super().on_start(run)

    def truncate(self, epochs: int, step: int) -> set[int]:  # noqa: D102 - inherited
        rows = list[dict[str, str]]()
        if self.path.exists() and epochs:
            with open(self.path, encoding="utf-8", newline="") as file:
                rows = [r for r in csv.DictReader(file) if _epoch_of(r) <= epochs]
        lines = [",".join(self._columns) + "\n", *map(self._line, rows)]
        replace(self.path, "".join(lines).encode())
        return {int(row["step"]) for row in rows}

    def write_epoch(self, row: Row) -> None:  # noqa: D102 - inherited
        append(self.path, self._line(row).encode())

    def write_step(self, row: Row) -> None:
        """Rows of single steps are not written."""

    def _line(self, row: Row) -> str:
        values = (row.get(name, "") for name in self._columns)
        return ",".join("" if isinstance(v, list) else str(v) for v in values) + "\n"


def _epoch_of(row: dict[str, str]) -> float:
    """Return the epoch of a row, infinity for a part of a row."""
    try:
        int(row["step"])
        return float(row["epoch"])
    except (KeyError, TypeError, ValueError):
        return float("inf")


class TensorBoard(LogFile):
    """Scalars for TensorBoard in a folder; those of single steps have the prefix `step/`."""

    def on_start(self, run: Fit) -> None:  # noqa: D102 - inherited
        self.path.mkdir(parents=True, exist_ok=True)
        self._file = EventFile(self.path)
        super().on_start(run)

    def truncate(self, epochs: int, step: int) -> set[int]:  # noqa: D102 - inherited
        kept = self._file.truncate(step)
        return {number for number, event in kept if _STEP_TAG.encode() not in event}

    def write_epoch(self, row: Row) -> None:  # noqa: D102 - inherited
        self._add("", row)

    def write_step(self, row: Row) -> None:  # noqa: D102 - inherited
        self._add(_STEP_TAG, row)

    def _add(self, prefix: str, row: Row) -> None:
        numbers = {
            prefix + name: float(value)
            for name, value in row.items()
            if name not in _COUNTS and not isinstance(value, list)
        }
        self._file.add(row["step"], numbers)


def log_file(path: str | os.PathLike[str], every: int | None = None) -> LogFile:
    """Return the log file of a path: by its suffix `.jsonl` or `.csv`; a folder otherwise.

    Raises:
        ProgramError: If the suffix is another one, or `every` is not a positive integer.
    """
    optional_count(every, "log_every")
    kinds: dict[str, type[LogFile]] = {".jsonl": JsonLines, ".csv": CsvFile, "": TensorBoard}
    kind = kinds.get(Path(path).suffix) or (TensorBoard if Path(path).is_dir() else None)
    if kind is None:
        raise ProgramError(
            f"unknown kind of log file {os.fspath(path)!r:.80}.",
            fix="Use a suffix .jsonl or .csv, or the name of a folder for TensorBoard.",
        )
    return kind(Path(path), every)
