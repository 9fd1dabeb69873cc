"""Which line of the user's own program makes an operator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from braces.errors import BracesError
from braces.ir.program import default_program
from braces.ir.records import Source

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = str(Path(__file__).resolve().parents[1])
_DEMO = str(Path(_PACKAGE, "demo"))


def user_source() -> Source | None:
    """The line that a pass says, else the innermost line that is not in this package."""
    said = default_program().source
    if said is not None:
        return said
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) or file.startswith(_DEMO):
            return Source(file, frame.f_lineno)
        frame = frame.f_back
    return None


def says_where(function: Callable[P, R]) -> Callable[P, R]:
    """A public function whose errors say the user's line, where they say no place yet."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BracesError as error:
            source = user_source()
            error.located(function.__name__ + (f", at {source}" if source else ""))
            raise

    return guarded
