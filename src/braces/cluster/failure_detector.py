"""Failure detection: the processes of a job end together, and at once if one of them fails.

A collective computation waits for all processes, without end if one is gone. So a failing
process reports to process 0, which notifies the others. A killed process is detected at once,
because its connection closes. A finished process waits until all are.
"""

from __future__ import annotations

import atexit
import os
import selectors
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, NoReturn

from braces.cluster.json_connection import JsonConnection, Record, read_number
from braces.errors import visible, visible_lines

PEER_FAILED_STATUS = 75
"""The exit status of a process that ended because another process of its job failed."""

_FAILED, _INTERRUPTED = 1, 130
_LAST_WORDS_S, _REACTION_S, _PATIENCE_S = 0.5, 0.3, 10.0
_LONGEST_REASON = 400


class FailureDetector:
    """Failure detector that ends this process with the others.

    Args:
        index: The number of this process.
        lines: Its connections, by the number of the process at the other end.
    """

    def __init__(self, index: int, lines: dict[int, JsonConnection]) -> None:
        self.index = index
        self._lines = lines
        self._left = set[int]()
        self._others_left = threading.Event()
        self._other_failed = threading.Event()
        self._turn = threading.Lock()
        self._status = 0
        self._selector = selectors.DefaultSelector()
        for other, line in lines.items():
            self._selector.register(line, selectors.EVENT_READ, other)

    def begin(self) -> None:
        """Start monitoring the others, and report uncaught exceptions to them."""
        threading.Thread(target=self._look, name="braces.cluster", daemon=True).start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._leave)
        sys.excepthook = partial(self._uncaught, sys.excepthook)
        threading.excepthook = partial(self._uncaught_in_thread, threading.excepthook)
        sys.exit = partial(self._exit, sys.exit)

    def fail(self, reason: str, status: int = _FAILED) -> NoReturn:
        """Report to the others that this process failed, and end it."""
        self._send({"failed": self.index, "why": visible(reason)[:_LONGEST_REASON]})
        _end_now(status)

    # ---- messages of the others --------------------------------------------------------------

    def _look(self) -> None:
        while self._lines:
            for key, _ in self._selector.select():
                self._hear(key.data)

    def _hear(self, other: int) -> None:
        try:
            record = self._lines[other].receive(_PATIENCE_S)
            if "failed" in record:
                self._end_with(read_number(record, "failed"), str(record.get("why")))
        except (OSError, ValueError):
            if not self._others_left.is_set():
                self._end_with(other, "it was killed, or its connection was lost")
            self._selector.unregister(self._lines.pop(other))
            return
        self._left.add(other)
        if len(self._left) == len(self._lines):
            self._others_left.set()

    def _end_with(self, who: int, reason: str) -> NoReturn:
        """End because another process failed; process 0 first notifies the others."""
        if self.index == 0:
            self._send({"failed": who, "why": reason})
        self._other_failed.set()
        time.sleep(_LAST_WORDS_S)  # this process may have an error of its own to report
        message = f"Process {who} failed: {reason}\n  Process {self.index} ends as well."
        print(visible_lines(message), file=sys.stderr)
        _end_now(PEER_FAILED_STATUS)

    def _send(self, record: Record) -> None:
        with self._turn:
            for line in list(self._lines.values()):
                try:
                    line.send(record)
                except OSError:
                    continue  # the failure detector notices it

    # ---- exit of this process ----------------------------------------------------------------

    def _leave(self) -> None:
        """Wait until all processes are done; process 0 collects their messages."""
        if not self._lines:
            return
        if self._status:
            self.fail(f"it exited with status {self._status}", self._status)
        if self.index:
            self._send({"left": self.index})
        if not self._others_left.wait(_PATIENCE_S):
            print(f"Process {self.index} is done and waits for the others.", file=sys.stderr)
            self._others_left.wait()
        if not self.index:
            self._send({"left": 0})

    def _uncaught(
        self,
        previous_hook: Callable[..., Any],
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        previous_hook(kind, error, trace)
        self._failed(error)

    def _uncaught_in_thread(self, previous_hook: Callable[..., Any], args: Any) -> None:
        previous_hook(args)
        if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
            self._failed(args.exc_value)

    def _failed(self, error: BaseException) -> None:
        if not self._lines:
            return
        if self._other_failed.wait(_REACTION_S):  # this error may be a consequence of it
            time.sleep(_PATIENCE_S)
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        self.fail(reason, _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _FAILED)

    def _exit(self, previous_exit: Callable[..., NoReturn], code: Any = None, /) -> NoReturn:
        """Record the status passed to `sys.exit`, which no hook observes."""
        if threading.current_thread() is threading.main_thread():
            self._status = code & 255 if isinstance(code, int) else int(code is not None)
        previous_exit(code)

    def _forget(self) -> None:
        """Close the connections in a forked child, which is not part of the job."""
        lines, self._lines = self._lines, dict[int, JsonConnection]()
        for line in lines.values():
            line.close()


def _end_now(status: int) -> NoReturn:
    """End the process at once: Python's normal shutdown would wait for the others."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # its reader is gone
    os._exit(status)
