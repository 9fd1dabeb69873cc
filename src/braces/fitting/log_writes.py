"""Writes to log files: a row is added as a whole or not at all, also on a full disk."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from braces.errors import BracesError


class LogWriteError(BracesError, OSError):
    """A log file that could not be written, as on a full disk; its earlier rows are intact."""


def append(path: Path, content: bytes) -> None:
    """Append to a file; on failure it has its earlier length.

    Raises:
        LogWriteError: If the content cannot be written.
    """
    with _naming(path), open(path, "ab", buffering=0) as file:
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
    new = path.with_name(path.name + ".new")
    with _naming(path):
        try:
            new.write_bytes(content)
            os.replace(new, path)
        except OSError:
            new.unlink(missing_ok=True)
            raise


@contextmanager
def _naming(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise LogWriteError(
            "the log file could not be written.",
            given=f"file {path}: {error}",
            fix="Free space or correct the permissions, and run again: training resumes from "
            "the last checkpoint.",
        ) from error
