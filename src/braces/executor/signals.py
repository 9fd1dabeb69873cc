"""Ctrl-C waits for the end of what must not be left half done."""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

_get: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
_set: Any = getattr(signal.signal, "__wrapped__", signal.signal)
"""Without the names that the module gives to numbers, which take longer than the rest."""


class Uninterrupted:
    """A block at whose end the handler of Ctrl-C runs, not within it; in the main thread."""

    __slots__ = ("before", "pending")

    def __enter__(self) -> None:
        self.pending: tuple[int, FrameType | None] | None = None
        self.before = _get(signal.SIGINT) if current_thread() is main_thread() else None
        if callable(self.before):
            _set(signal.SIGINT, self._later)

    def _later(self, number: int, frame: FrameType | None) -> None:
        self.pending = number, frame

    def __exit__(self, *error: object) -> None:
        if callable(self.before):
            _set(signal.SIGINT, self.before)
            if self.pending is not None:
                self.before(*self.pending)
