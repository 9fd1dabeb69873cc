"""Writes of a training: errors of the file system as errors of Braces, and log files.

A row is added to a log file as a whole or not at all, also on a full disk.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from braces.errors import BracesError
from braces.ir.files.atomic_write import write_atomically
from braces.lower.interrupt.ctrl_c import DeferredCtrlC
from braces.runtime.devices.process_agreement import agree, process_index
from braces.storage.checkpoint import (
    Checkpoint,
    checkpoints_of_training,
    remove_checkpoints,
)


class CheckpointWriteError(BracesError, OSError):
    """A checkpoint that could not be written, as on a full disk; earlier ones are intact."""


class LogWriteError(BracesError, OSError):
    """A log file that could not be written, as on a full disk; its earlier rows are intact."""


def open_folder(
    folder: str | os.PathLike[str] | None, keep: int | None, fresh: bool
) -> Checkpoint | None:
    """Return the checkpoints of a folder, emptied if the run is a fresh one."""
    if folder is None:
        return None
    checkpoints = checkpoints_of_training(folder, keep)
    if fresh:
        if process_index() == 0:
            remove_checkpoints(Path(folder))
        agree("fresh folder", os.fspath(folder))
    return checkpoints


@contextmanager
def checkpoint_errors(folder: str | os.PathLike[str] | None) -> Generator[None]:
    """Convert errors of the file system in the write of a checkpoint."""
    with _converted(CheckpointWriteError, "checkpoint", f"folder {folder}"):
        yield


def append(path: Path, content: bytes) -> None:
    """Append to a file; on failure it has its earlier length.

    Raises:
        LogWriteError: If the content cannot be written.
    """
    with _log_errors(path), open(path, "ab", buffering=0) as file:
        size, written = file.seek(0, os.SEEK_END), 0
        try:
            while written < len(content):
                written += file.write(content[written:]) or 0
        except OSError:
            file.truncate(size)
            raise


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically; on failure it is unchanged.

    Raises:
        LogWriteError: If the content cannot be written.
    """
    with _log_errors(path):
        write_atomically(path, content)


@contextmanager
def _log_errors(path: Path) -> Generator[None]:
    with _converted(LogWriteError, "log file", f"file {path}"):
        yield


@contextmanager
def _converted(
    kind: type[CheckpointWriteError | LogWriteError], what: str, place: str
) -> Generator[None]:
    try:
        yield
    except BracesError:
        raise
    except OSError as error:
        raise kind(
            f"the {what} could not be written.",
            given=f"{place}: {error}",
            fix="Free space or correct the permissions, and run again: training resumes from "
            "the last checkpoint.",
        ) from error


class StepEnd(DeferredCtrlC):
    """Section that defers Ctrl-C to the end of a step; a second Ctrl-C is not deferred."""

    __slots__ = ()

    def _later(self, number: int, frame: FrameType | None) -> None:
        if self.pending is not None:
            self.deliver()
        super()._later(number, frame)
