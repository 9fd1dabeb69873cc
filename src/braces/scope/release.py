"""Release of references one after the other, for chains that are longer than the stack."""

from __future__ import annotations

import threading
from typing import Any


class _Pending(threading.local):
    """References to release, of one thread.

    Attributes:
        references: The references.
        busy: True while an outer call of `release` releases them.
    """

    def __init__(self) -> None:
        self.references: list[Any] = []
        self.busy = False


_PENDING = _Pending()


def release(references: list[Any]) -> None:
    """Empty a list of references without recursion.

    If an object is destroyed with its last reference, and its `__del__` calls this function
    with the next object of a chain, the outermost call releases that, too. So a chain of any
    length is destroyed at a constant depth of the stack, which Python 3.12 and later require.

    Example:
        >>> class Link:
        ...     def __init__(self, link): self.link = link
        ...     def __del__(self): release([self.__dict__.pop("link")])
        >>> chain = None
        >>> for _ in range(100_000):
        ...     chain = Link(chain)
        >>> del chain
    """
    pending = _PENDING
    pending.references += references
    references.clear()
    if pending.busy:
        return
    pending.busy = True
    try:
        while pending.references:
            pending.references.pop()
    finally:
        pending.busy = False
