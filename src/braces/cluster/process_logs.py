"""Logs of the processes of a job: bounded in size, and never a cause of failure.

A process writes to a pipe, and a thread copies the data to its log. So a log that cannot be
written, because its disk is full, neither blocks nor ends the process. A log that grows too
long loses its oldest part.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

_COPY_BYTES, _TAIL_BYTES = 1 << 16, 1 << 14


class ProcessLog:
    """Copies the output of a process to a file, and optionally to the standard output.

    The file is `process-0.log`; older output is in `process-0.log.1`. Each takes at most half
    of the size limit.

    Args:
        path: The file, which is created or truncated.
        limit_bytes: The size of both files together.
        shown: Whether to copy to the standard output too.
        report: Called once with a sentence if the file cannot be written.

    Attributes:
        path: The file.
        write_end: The pipe that the process writes to; close it once the process has inherited
            it.
        failure: The reason why the file is incomplete; empty if it is complete.
        shown_failure: The error of the standard output, after which copying to it stops.

    Raises:
        OSError: If the file cannot be created.
    """

    def __init__(
        self, path: Path, limit_bytes: int, shown: bool, report: Callable[[str], None]
    ) -> None:
        self.path = path
        self.failure = ""
        self.shown_failure: OSError | ValueError | None = None
        self._half = max(limit_bytes // 2, 1)
        self._shown, self._report = shown, report
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._tail, self._size = b"", 0
        self._file: IO[bytes] = path.open("wb", buffering=0)
        self._read_end, self.write_end = os.pipe()
        self._thread = Thread(target=self._copy, name=f"braces-log-{path.name}", daemon=True)
        self._thread.start()

    def finish(self, timeout_s: float) -> None:
        """Wait until all output is copied; a surviving child may keep the pipe open."""
        self._thread.join(timeout_s)

    def last_lines(self, count: int) -> list[str]:
        """Return the last lines, also of a file that could not be written."""
        return self._tail.decode(errors="replace").splitlines()[-count:]

    def _copy(self) -> None:
        try:
            while data := os.read(self._read_end, _COPY_BYTES):
                self._tail = (self._tail + data)[-_TAIL_BYTES:]
                self._keep(data)
                self._show(data)
        finally:
            os.close(self._read_end)
            self._file.close()

    def _keep(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), self._half):
                self._write(data[start : start + self._half])
        except OSError as error:
            if not self.failure:
                self.failure = error.strerror or str(error)
                self._report(
                    f"The log {self.path} cannot be written: {self.failure}. "
                    "The processes continue; their output is lost."
                )

    def _write(self, data: bytes) -> None:
        if self._size + len(data) > self._half:
            self._size = self._half  # if opening fails, the next write tries again
            self._file.close()
            with suppress(FileNotFoundError):
                os.replace(self.path, f"{self.path}.1")
            self._file, self._size = self.path.open("wb", buffering=0), 0
        while data:
            count = self._file.write(data)
            data, self._size = data[count:], self._size + count

    def _show(self, data: bytes) -> None:
        if self._shown and self.shown_failure is None:
            try:
                sys.stdout.write(self._decode(data))
                sys.stdout.flush()
            except (OSError, ValueError) as error:  # its reader is gone, or it is closed
                self.shown_failure = error
