"""Counts of Python calls: a measure of cost that is independent of load."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def calls_of(function: Callable[[], object], within: str = "") -> int:
    """The calls that are made in a call of a function, of what is written in a folder."""
    return sum(file.startswith(within) for file in files_of(function))


def files_of(function: Callable[[], object]) -> list[str]:
    """Where the functions of Python are that a call of a function calls, one for each call.

    No garbage is collected meanwhile: what other tests left behind has functions to call, too.
    """
    found, collecting = list[str](), gc.isenabled()

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_filename)

    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        if collecting:
            gc.enable()
    return found
