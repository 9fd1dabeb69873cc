"""Ctrl-C waits for the end of what must not be left half done."""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

_signals: Any = vars(signal)["_signal"]
"""What `signal` wraps, which gives names to numbers, and that takes longer than all else."""


class Uninterrupted:
    """A block at whose end the handler of Ctrl-C runs, not within it; in the main thread."""

    __slots__ = ("before", "pending")

    def __enter__(self) -> Uninterrupted:
        self.pending: tuple[int, FrameType | None] | None = None
        here = current_thread() is main_thread()
        self.before = _signals.getsignal(_signals.SIGINT) if here else None
        if callable(self.before):
            _signals.signal(_signals.SIGINT, self._later)
        return self

    def deliver(self) -> None:
        """Run the handler now, if Ctrl-C came."""
        pending, self.pending = self.pending, None
        if pending is not None and callable(self.before):
            self.before(*pending)

    def _later(self, number: int, frame: FrameType | None) -> None:
        self.pending = number, frame

    def __exit__(self, *error: object) -> None:
        if callable(self.before):
            _signals.signal(_signals.SIGINT, self.before)
            self.deliver()
