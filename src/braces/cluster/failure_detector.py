"""How the processes of a job end: all together, and at once if one of them fails.

A computation over several processes waits for each of them, without end if one is gone. So
whoever fails says so to process 0, which tells the others; whoever is killed is missed at once,
for its connection ends. Whoever is done waits until all are.
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

from braces.cluster.json_connection import Line, Record, number_in
from braces.errors import visible, visible_lines

ENDED_WITH_ANOTHER = 75
"""The exit status of a process that ended because another one of its job failed."""

_FAILED, _INTERRUPTED = 1, 130
_LAST_WORDS_S, _REACTION_S, _PATIENCE_S = 0.5, 0.3, 10.0
_LONGEST_REASON = 400


class Watch:
    """Ends this process with the others.

    Args:
        index: The number of this process.
        lines: Its lines, by the number of the process at the other end.
    """

    def __init__(self, index: int, lines: dict[int, Line]) -> None:
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
        """Look after the others from now on, and let what is not caught here end them."""
        threading.Thread(target=self._look, name="braces.cluster", daemon=True).start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._leave)
        sys.excepthook = partial(self._uncaught, sys.excepthook)
        threading.excepthook = partial(self._uncaught_in_thread, threading.excepthook)
        sys.exit = partial(self._exit, sys.exit)

    def fail(self, reason: str, status: int = _FAILED) -> NoReturn:
        """Tell the others that this process failed, and end it."""
        self._send({"failed": self.index, "why": visible(reason)[:_LONGEST_REASON]})
        _end_now(status)

    # ---- what the others say -----------------------------------------------------------------

    def _look(self) -> None:
        while self._lines:
            for key, _ in self._selector.select():
                self._hear(key.data)

    def _hear(self, other: int) -> None:
        try:
            record = self._lines[other].receive(_PATIENCE_S)
            if "failed" in record:
                self._end_with(number_in(record, "failed"), str(record.get("why")))
        except (OSError, ValueError):
            if not self._others_left.is_set():
                self._end_with(other, "it was killed, or lost")
            self._selector.unregister(self._lines.pop(other))
            return
        self._left.add(other)
        if len(self._left) == len(self._lines):
            self._others_left.set()

    def _end_with(self, who: int, reason: str) -> NoReturn:
        """End, for another process failed; process 0 tells those that only know it."""
        if self.index == 0:
            self._send({"failed": who, "why": reason})
        self._other_failed.set()
        time.sleep(_LAST_WORDS_S)  # this one may have an error of its own to tell
        said = f"Process {who} failed: {reason}\n  Process {self.index} ends with it."
        print(visible_lines(said), file=sys.stderr)
        _end_now(ENDED_WITH_ANOTHER)

    def _send(self, record: Record) -> None:
        with self._turn:
            for line in list(self._lines.values()):
                try:
                    line.send(record)
                except OSError:
                    continue  # the watch misses it

    # ---- the end of this one -----------------------------------------------------------------

    def _leave(self) -> None:
        """Wait until all are done; process 0 knows it first."""
        if not self._lines:
            return
        if self._status:
            self.fail(f"it left with status {self._status}", self._status)
        if self.index:
            self._send({"left": self.index})
        if not self._others_left.wait(_PATIENCE_S):
            print(f"Process {self.index} is done and waits for the others.", file=sys.stderr)
            self._others_left.wait()
        if not self.index:
            self._send({"left": 0})

    def _uncaught(
        self,
        before: Callable[..., Any],
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        before(kind, error, trace)
        self._failed(error)

    def _uncaught_in_thread(self, before: Callable[..., Any], given: Any) -> None:
        before(given)
        if given.exc_value is not None and not issubclass(given.exc_type, SystemExit):
            self._failed(given.exc_value)

    def _failed(self, error: BaseException) -> None:
        if not self._lines:
            return
        if self._other_failed.wait(_REACTION_S):  # which this may come of; the watch tells
            time.sleep(_PATIENCE_S)
        said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        self.fail(said, _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _FAILED)

    def _exit(self, before: Callable[..., NoReturn], code: Any = None, /) -> NoReturn:
        """`sys.exit`, which no hook sees."""
        if threading.current_thread() is threading.main_thread():
            self._status = code & 255 if isinstance(code, int) else int(code is not None)
        before(code)

    def _forget(self) -> None:
        """In a process that was forked from this one: it is none of the job."""
        lines, self._lines = self._lines, dict[int, Line]()
        for line in lines.values():
            line.close()


def _end_now(status: int) -> NoReturn:
    """End the process: what Python does at its end would wait for the others."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # nobody reads it any more
    os._exit(status)
