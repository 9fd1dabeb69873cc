"""How many calls of Python something takes: what it costs, on a busy machine too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls_of(function: Callable[[], object], within: str = "") -> int:
    """The calls that are made in a call of a function, of what is written in a folder."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(within)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count
