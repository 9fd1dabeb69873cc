"""Ctrl-C at any line that one chooses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


def interrupted(action: Callable[[], Any], count: int, *places: str | CodeType) -> bool:
    """Whether an action that is interrupted at its `count`-th line in these places had so many.

    A place is a file, or one function.

    Only this thread is interrupted, as Ctrl-C interrupts only the main one.
    """
    lines = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code not in places and frame.f_code.co_filename not in places:
            return None
        if event == "line":
            lines += 1
            if lines == count:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines >= count
