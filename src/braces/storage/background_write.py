"""Work in the background that is done whatever interrupts whom, and whose failure is told."""

from __future__ import annotations

import atexit
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO, cast, final

_THREAD, _CALLER = "thread", "caller"


@final
class Writing:
    """A write in the background; the interpreter waits for it before it ends.

    The work belongs to whoever comes first: the thread, or the caller of `finish`. So it does
    not matter whether the thread could be started, or what was interrupted while it was.

    Args:
        work: What is done; where the caller was interrupted in it, `finish` does it again.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._owner: dict[str, str] = {}
        self._done = threading.Event()
        self._error: Exception | None = None

    def start(self) -> None:
        """Let a thread do the work; where none is to be had, it is done at once."""
        thread = threading.Thread(target=self._in_thread, name="braces-checkpoint")
        thread.daemon = False
        try:
            thread.start()
        except RuntimeError:  # there are too many, or the interpreter ends
            error = self.finish()
            if error is not None:
                raise error from None

    def finish(self) -> Exception | None:
        """Wait until the work is done; its error, which is told by that."""
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
        """Take the work, where nobody has it; nothing can come in between."""
        return self._owner.setdefault("who", who) == who

    def _do(self) -> None:
        if self._work is None:
            return
        try:
            self._work()
        except Exception as error:
            error.add_note("This happened while a checkpoint was written in the background.")
            self._error = error
            atexit.register(self._tell)
        self._work = None  # it holds as much as the scope does
        self._done.set()

    def _tell(self) -> None:
        """Say at exit what nobody asked for."""
        error = self._error
        if error is not None and sys.stderr is not None:
            said = f"{type(error).__name__}: {error}"
            print(f"The last checkpoint was not written: {said}", file=sys.stderr)
            sys.stderr = cast("TextIO", _Unflushed(sys.stderr))


class _Unflushed:
    """Standard error whose last flush fails, which makes the exit status 120.

    That one is the interpreter's own, after all that runs at exit, and is called from no code;
    whatever else runs at exit writes and flushes as before.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> None:
        self._stream.flush()
        here = inspect.currentframe()
        if here is not None and here.f_back is None:
            raise OSError("The last checkpoint was not written.")
