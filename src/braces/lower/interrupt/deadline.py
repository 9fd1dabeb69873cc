"""The ends of a run from outside: its time, Ctrl-C, and the cancellation by another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic

from braces.errors import ProgramError, RunError
from braces.lower.interrupt.ctrl_c import Uninterrupted


class Watch:
    """Looks at the time that a run may take, and at Ctrl-C while it computes.

    Attributes:
        cancelled: Set by another thread to end the run; `None` where no thread does.
        limited: Whether something besides Ctrl-C may end the run.
        timeout_s: How long the run may take, in seconds; `None` for ever.
        deadline: When that is over, by the clock that only goes on.
        held: What holds Ctrl-C back meanwhile.
        error: Why the run was ended, where it was.
        loop: The number of the loop in which it was.
    """

    timeout_s: float | None = None
    deadline: float | None = None
    held: Uninterrupted | None = None
    error: BaseException | None = None
    loop: int = 0
    cancelled: threading.Event | None = None
    limited: bool = False

    @staticmethod
    def lasting(timeout_s: float) -> Watch:
        """A watch over a run that may take so many seconds from now.

        Raises:
            ProgramError: That is no number of seconds.
        """
        made = CALLING.watch()
        made.timeout_s, made.deadline = timeout_s, monotonic() + checked_seconds(timeout_s)
        made.limited = True
        return made

    def check(self) -> None:
        """Raise where the run was cancelled, or its time is over.

        Raises:
            RunError: It is.
        """
        if self.cancelled is not None and self.cancelled.is_set():
            raise RunError("The run was cancelled.", fix="Run it again.")
        if self.over():
            raise RunError(
                f"The run took longer than timeout_s={self.timeout_s}.",
                fix="Allow more time, or limit the trips of its loops with max_trips.",
            )

    def over(self) -> bool:
        """Return whether the time is over, or the run was cancelled."""
        if self.cancelled is not None and self.cancelled.is_set():
            return True
        return self.deadline is not None and monotonic() > self.deadline

    def goes_on(self) -> bool:
        """Whether the run goes on; where not, `error` says why."""
        try:
            if self.held is not None:
                self.held.deliver()
            self.check()
        except BaseException as error:  # whatever a handler of the user's raises ends the run
            self.error = error
        return self.error is None

    def turn(self, lock: threading.RLock) -> AbstractContextManager[object]:
        """Hold a lock, waiting for it no longer than the run may take."""
        return lock if self.deadline is None else self._turn_until(self.deadline, lock)

    @contextmanager
    def _turn_until(self, deadline: float, lock: threading.RLock) -> Generator[None]:
        left = min(max(deadline - monotonic(), 0.0), threading.TIMEOUT_MAX)
        if not lock.acquire(timeout=left):
            raise RunError(
                f"Other runs with this scope took longer than timeout_s={self.timeout_s}.",
                fix="Allow more time, or give each thread a scope of its own.",
            )
        try:
            yield
        finally:
            lock.release()


def checked_seconds(timeout_s: object) -> float:
    """A number of seconds from 0.

    Raises:
        ProgramError: It is none.
    """
    number = timeout_s if isinstance(timeout_s, int | float) else -1
    if number >= 0 and timeout_s is not True and timeout_s is not False:  # nor NaN
        return float(number)
    raise ProgramError(
        f"timeout_s={timeout_s!r:.40} is no time.", fix="Give seconds, as 10.0, or None."
    )


class _Calling(threading.local):
    """The watch of the next run of each thread.

    Attributes:
        watch: Makes it.
    """

    watch: Callable[[], Watch] = Watch


CALLING = _Calling()


@contextmanager
def cancelled_by(event: threading.Event) -> Generator[None]:
    """Let the runs that this thread begins in the block end once an event is set.

    A run looks at it between operators where it is interpreted; compiled, on a CPU, in loops
    that ask: those without a known number of trips, and all where the run has `timeout_s`.
    """

    def cancellable() -> Watch:
        made = Watch()
        made.cancelled, made.limited = event, True
        return made

    before, CALLING.watch = CALLING.watch, cancellable
    try:
        yield
    finally:
        CALLING.watch = before
