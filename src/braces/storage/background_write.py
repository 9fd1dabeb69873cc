"""Background writes that survive interrupts, and report their failure."""

from __future__ import annotations

import atexit
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO, cast, final

_THREAD, _CALLER = "thread", "caller"


@final
class BackgroundWrite:
    """A write in the background; the interpreter waits for it before it exits.

    The first to claim it does the work: the thread, or the caller of `finish`. So a failed or
    interrupted start of the thread does not matter.

    Args:
        work: The write; if the caller is interrupted in it, `finish` repeats it.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._owner: dict[str, str] = {}
        self._done = threading.Event()
        self._error: Exception | None = None

    def start(self) -> None:
        """Start a thread for the work; without a thread, do it at once."""
        thread = threading.Thread(target=self._in_thread, name="braces-checkpoint")
        thread.daemon = False
        try:
            thread.start()
        except RuntimeError:  # too many threads, or interpreter shutdown
            error = self.finish()
            if error is not None:
                raise error from None

    def finish(self) -> Exception | None:
        """Wait until the work is done, and return its error, which then counts as reported."""
        if self._owned_by(_CALLER):
            self._do()
        else:
            self._done.wait()
        atexit.unregister(self._tell)
        error, self._error = self._error, None
        return error

    def _in_thread(self) -> None:
        if self._owned_by(_THREAD):
            self._do()

    def _owned_by(self, who: str) -> bool:
        """Claim the work atomically."""
        return self._owner.setdefault("who", who) == who

    def _do(self) -> None:
        if self._work is None:
            return
        try:
            self._work()
        except Exception as error:
            error.add_note("The error occurred during the background write of a checkpoint.")
            self._error = error
            atexit.register(self._tell)
        self._work = None  # release copies as large as the scope
        self._done.set()

    def _tell(self) -> None:
        """Report an error at exit that no caller received."""
        error = self._error
        if error is not None and sys.stderr is not None:
            description = f"{type(error).__name__}: {error}"
            print(f"failed to write the last checkpoint: {description}", file=sys.stderr)
            sys.stderr = cast("TextIO", _Unflushed(sys.stderr))


class _Unflushed:
    """A standard error stream whose last flush fails, which makes the exit status 120.

    The last flush is the interpreter's own, after all exit handlers, and has no calling frame;
    other exit handlers write and flush as before.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> None:
        self._stream.flush()
        frame = inspect.currentframe()
        if frame is not None and frame.f_back is None:
            raise OSError("failed to write the last checkpoint")
