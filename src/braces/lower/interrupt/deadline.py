"""Cancellation of a run from outside: time limit, Ctrl-C, and other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from time import monotonic

from braces.errors import ProgramError, RunError
from braces.lower.interrupt.ctrl_c import DeferredCtrlC


class CancellationToken:
    """Cancellation token of a run: its time limit, Ctrl-C and a cancelling thread.

    Attributes:
        cancelled: Set by another thread to end the run; `None` if no thread does.
        limited: Whether something besides Ctrl-C may end the run.
        timeout_s: The time limit of the run, in seconds; `None` for none.
        deadline: The end of the time limit, on the monotonic clock.
        held: The section that defers Ctrl-C meanwhile.
        error: The reason why the run was ended, if it was.
        loop: The number of the loop that was interrupted.
    """

    timeout_s: float | None = None
    deadline: float | None = None
    held: DeferredCtrlC | None = None
    error: BaseException | None = None
    loop: int = 0
    cancelled: threading.Event | None = None
    limited: bool = False

    @staticmethod
    def lasting(timeout_s: float) -> CancellationToken:
        """Return the token of a run with a time limit that starts now.

        Raises:
            ProgramError: If the argument is not a number of seconds.
        """
        token = TOKEN_FACTORY.watch()
        token.timeout_s, token.deadline = timeout_s, monotonic() + validate_seconds(timeout_s)
        token.limited = True
        return token

    def check(self) -> None:
        """Raise an error if the run was cancelled, or its time is over.

        Raises:
            RunError: If the run is cancelled, or exceeds its time limit.
        """
        if self.cancelled is not None and self.cancelled.is_set():
            raise RunError("the run was cancelled.", fix="Run it again.")
        if self.over():
            raise RunError(
                f"the run took longer than timeout_s={self.timeout_s}.",
                fix="Raise timeout_s, or limit the iterations of loops with max_trips.",
            )

    def over(self) -> bool:
        """Return whether the time is over, or the run was cancelled."""
        if self.cancelled is not None and self.cancelled.is_set():
            return True
        return self.deadline is not None and monotonic() > self.deadline

    def goes_on(self) -> bool:
        """Return whether the run continues; otherwise `error` has the reason."""
        try:
            if self.held is not None:
                self.held.deliver()
            self.check()
        except BaseException as error:  # any exception of a user's signal handler ends the run
            self.error = error
        return self.error is None

    def turn(self, lock: threading.RLock) -> AbstractContextManager[object]:
        """Acquire a lock, within the time limit of the run."""
        return lock if self.deadline is None else self._turn_until(self.deadline, lock)

    @contextmanager
    def _turn_until(self, deadline: float, lock: threading.RLock) -> Generator[None]:
        left = min(max(deadline - monotonic(), 0.0), threading.TIMEOUT_MAX)
        if not lock.acquire(timeout=left):
            raise RunError(
                f"other runs with this scope took longer than timeout_s={self.timeout_s}.",
                fix="Raise timeout_s, or use one scope per thread.",
            )
        try:
            yield
        finally:
            lock.release()


def validate_seconds(timeout_s: object) -> float:
    """Return a validated number of seconds, at least 0.

    Raises:
        ProgramError: If the argument is not a number of seconds.
    """
    number = timeout_s if isinstance(timeout_s, int | float) else -1
    if number >= 0 and timeout_s is not True and timeout_s is not False:  # nor NaN
        return float(number)
    raise ProgramError(
        f"invalid timeout_s={timeout_s!r:.40}.", fix="Pass seconds, such as 10.0, or None."
    )


def join_threads(threads: Iterable[threading.Thread], within_s: float) -> None:
    """Wait for the end of threads, at most this many seconds for all of them together."""
    end = monotonic() + within_s
    for thread in threads:
        thread.join(max(0.0, end - monotonic()))


class _Calling(threading.local):
    """Factory of the cancellation token for the next run of each thread.

    Attributes:
        watch: Returns the token.
    """

    watch: Callable[[], CancellationToken] = CancellationToken


TOKEN_FACTORY = _Calling()


@contextmanager
def cancelled_by(event: threading.Event) -> Generator[None]:
    """End the runs that this thread starts in the block, once an event is set.

    An interpreted run checks the event between operators. A compiled run on a CPU checks it in
    interruptible loops: those without a known trip count, and all loops if the run has
    `timeout_s`.
    """

    def cancellable() -> CancellationToken:
        token = CancellationToken()
        token.cancelled, token.limited = event, True
        return token

    before, TOKEN_FACTORY.watch = TOKEN_FACTORY.watch, cancellable
    try:
        yield
    finally:
        TOKEN_FACTORY.watch = before
