"""Source locations: the line of user code that builds an operator."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from braces.builder.builder import current_program
from braces.builder.program_argument import ProgramParameters
from braces.define.core.attribute_kinds import KINDS, coerce_argument
from braces.define.core.tracer_guard import is_package_file, shorten_traceback
from braces.errors import BracesError, BracesWarning, visible_lines
from braces.ir.records import Source
from braces.keywords import HINTING, add_call_hint

P = ParamSpec("P")
R = TypeVar("R")


def user_source() -> Source | None:
    """Return the line set by a pass, else the innermost line outside this package."""
    explicit = current_program().source
    return innermost_line() if explicit is None else explicit


def innermost_line() -> Source | None:
    """Return the innermost line of the call stack outside this package."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_package_file(file):
            return _source(file, frame.f_lineno)
        frame = frame.f_back
    return None


@functools.lru_cache(maxsize=4096)
def _source(file: str, line: int) -> Source:
    return Source(file, line)


def user_line() -> str | None:
    """Return the user's line as text for error messages, if there is one."""
    source = user_source()
    return None if source is None else str(source)


def warn_user(message: str) -> None:
    """Emit a `BracesWarning` at the innermost line of the call stack outside this package."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and is_package_file(frame.f_code.co_filename):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(visible_lines(message), BracesWarning, stacklevel=depth)


def add_user_line(error: BracesError, call: str = "") -> None:
    """Add the user's line, and a call, to an error that has no location."""
    source = user_source()
    line = f"at {source}" if source and call else str(source or "")
    place = ", ".join(filter(None, (call, line)))
    if place:
        error.located(place)


def _wraps_no_function(function: Any) -> bool:
    """Return whether a decorated object is an operator, or another object without code."""
    return not isinstance(function.__wrapped__, FunctionType)


def with_user_line(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: coerce its arguments, and add the user's line to errors.

    An argument is coerced to its annotation if that is an attribute kind, such as `int` or
    `str | None`. An argument annotated as a program must be one. Errors with a location keep
    it.
    """
    kinds: dict[str, str] = {
        name: kind
        for name, kind in function.__annotations__.items()
        if kind.removesuffix(" | None") in KINDS and name != "return"
    }
    call: Callable[..., R] = function
    programs = ProgramParameters(function)
    code = inspect.unwrap(function, stop=_wraps_no_function).__code__
    names = code.co_varnames[: code.co_argcount]

    def coerce(name: str, value: Any) -> Any:
        if name in programs.held:
            programs.check(name, value)
        return (
            coerce_argument(function.__name__, name, kinds[name], value)
            if name in kinds
            else value
        )

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> R:
        try:
            positional = [*map(coerce, names, args), *args[len(names) :]]
            return call(*positional, **{name: coerce(name, kwargs[name]) for name in kwargs})
        except BracesError as error:
            add_user_line(error, function.__name__)
            shorten_traceback(error)
            raise
        except TypeError as error:
            add_call_hint(error, function, args, kwargs)
            raise

    setattr(guarded, HINTING, True)
    return guarded
