"""Which line of the user's own program makes an operator."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from braces.builder.builder import current_program
from braces.define.core.attribute_kinds import KINDS, coerce_argument
from braces.errors import BracesError
from braces.ir.records import Source

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = str(Path(__file__).resolve().parents[1])
_DEMO = str(Path(_PACKAGE, "demo"))
_OURS: dict[str, bool] = {contextlib.__file__: True}
"""Whether a file of code is of this package, for those that were met.

Functions of ours that are context managers are entered by `contextlib`.
"""


def user_source() -> Source | None:
    """The line that a pass says, else the innermost line that is not in this package."""
    said = current_program().source
    return innermost_line() if said is None else said


def innermost_line() -> Source | None:
    """The innermost line that is not in this package."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        ours = _OURS.get(file)
        if ours is None:
            ours = file.startswith(_PACKAGE) and not file.startswith(_DEMO)
            _OURS[file] = ours
        if not ours:
            return _source(file, frame.f_lineno)
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def _source(file: str, line: int) -> Source:
    return Source(file, line)


def user_line() -> str | None:
    """That line as errors say it, where there is one."""
    source = user_source()
    return None if source is None else str(source)


def says_where(function: Callable[P, R]) -> Callable[P, R]:
    """A public function that checks its arguments, and whose errors say the user's line.

    An argument is coerced to its annotation where that is a kind that attributes have: `int`,
    `str | None` and the like. Errors that say a place already keep it.
    """
    kinds: dict[str, str] = {
        name: kind
        for name, kind in function.__annotations__.items()
        if kind.removesuffix(" | None") in KINDS and name != "return"
    }
    call: Callable[..., R] = function
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def hold(name: str, value: Any) -> Any:
        return (
            coerce_argument(function.__name__, name, kinds[name], value)
            if name in kinds
            else value
        )

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> R:
        try:
            given = [*map(hold, names, args), *args[len(names) :]]
            return call(*given, **{name: hold(name, kwargs[name]) for name in kwargs})
        except BracesError as error:
            source = user_source()
            error.located(function.__name__ + (f", at {source}" if source else ""))
            raise

    return guarded
