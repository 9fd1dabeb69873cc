"""Deferral of Ctrl-C until an uninterruptible section ends."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

_signals: Any = vars(signal)["_signal"]
_get, _set, _CTRL_C = _signals.getsignal, _signals.signal, int(signal.SIGINT)
"""The functions that `signal` wraps; its conversion to enums takes most of the time."""


class DeferredCtrlC:
    """Section that defers the handler of Ctrl-C to its end; effective in the main thread."""

    __slots__ = ("before", "pending")

    def __enter__(self) -> DeferredCtrlC:
        self.pending: tuple[int, FrameType | None] | None = None
        before = _get(_CTRL_C)
        self.before = before if callable(before) else None
        if self.before is not None:
            try:
                _set(_CTRL_C, self._later)
            except ValueError:  # only the main thread handles signals
                self.before = None
        return self

    def deliver(self) -> None:
        """Run the handler now, if Ctrl-C is pending."""
        pending, self.pending = self.pending, None
        if pending is not None and self.before is not None:
            self.before(*pending)

    def _later(self, number: int, frame: FrameType | None) -> None:
        self.pending = number, frame

    def __exit__(self, *error: object) -> None:
        if self.before is not None:
            _set(_CTRL_C, self.before)
            if self.pending is not None:
                self.deliver()
