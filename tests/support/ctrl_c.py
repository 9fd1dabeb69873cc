"""Ctrl-C at any line that one chooses."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


def interrupted(action: Callable[[], Any], count: int, *places: str | CodeType) -> bool:
    """Return whether an action interrupted at its `count`-th line in these places had so many.

    A place is a file, or one function.

    Only this thread is interrupted, as Ctrl-C interrupts only the main one. The end of a `with`
    is no such line: Ctrl-C comes after what it calls, and a lock that is held is released.
    """
    lines, begun = 0, set[tuple[FrameType, int]]()

    def ends_with(frame: FrameType) -> bool:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        here = frame, frame.f_lineno
        before = here in begun
        begun.add(here)
        return before and line.lstrip().startswith("with ")

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code not in places and frame.f_code.co_filename not in places:
            return None
        if event == "line" and not ends_with(frame):
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
        begun.clear()  # frames in a cycle would close later, in the midst of another test
    return lines >= count
