"""Run times by batch size: sizes that run faster than a hand-over to a thread takes."""

from __future__ import annotations

QUICK_S = 0.00015
"""The longest run in the event loop; meanwhile no other request is read."""
_GROWTH = 2.0


class QuickSizes:
    """The shortest recent run time of each batch size.

    A single slow run is often another process on the same core, so it at most doubles the
    estimate. Two of them in a row move a size back to the thread.

    Example:
        >>> times = QuickSizes()
        >>> times.is_quick(4)
        False
        >>> times.add(4, 0.0001)
        >>> times.is_quick(4)
        True
    """

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def add(self, size: int, seconds: float) -> None:
        """Record a run."""
        self._seconds[size] = min(seconds, _GROWTH * self._seconds.get(size, seconds))

    def is_quick(self, size: int) -> bool:
        """Return whether the run of a size is quick; false before its first run."""
        return self._seconds.get(size, QUICK_S) < QUICK_S
