"""Functions of users that Braces calls: their names and lines in the errors that they raise."""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from braces.define.core.tracer_guard import is_package_file
from braces.errors import BracesError, ProgramError
from braces.ir.records import Source


def function_text(function: Any) -> str:
    """Return the name of a function, and the line of one of the user, for messages."""
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or is_package_file(code.co_filename):
        return f"`{name}`"
    return f"`{name}` ({Source(code.co_filename, code.co_firstlineno)})"


@contextmanager
def located(place: str) -> Generator[None]:
    """Put a place in front of the location of errors."""
    try:
        yield
    except BracesError as error:
        error.at = f"{place}: {error.at}" if error.at else place
        raise


@contextmanager
def calling(function: Any, place: str) -> Generator[None]:
    """Name a function of a user, and the place of its call, in the errors that it raises.

    Args:
        function: The function.
        place: The place, as "insert_after `loop_0/body/act`".
    """
    try:
        yield
    except Exception as error:
        add_function(error, function, place)
        raise


def add_function(error: Exception, function: Any, place: str) -> None:
    """Add a function of a user, and the place of its call, to an error.

    An error of Braces is located; any other one gets a note.
    """
    if isinstance(error, BracesError):
        where = f"{place}, in {function_text(function)}"
        error.at = f"{where}: {error.at}" if error.at else where
    else:
        error.add_note(f"Raised in {function_text(function)}, called for {place}.")


def signature_of(function: Any, noun: str) -> inspect.Signature:
    """Return the signature of a function.

    Raises:
        ProgramError: If the function has no signature, as `int`.
    """
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise ProgramError(
            f"the parameters of {function!r:.80} are unknown, so it cannot be {noun}.",
            fix="Pass a function of variables: lambda x: br.tanh(x).",
        ) from None


def check_takes(function: Any, count: int, noun: str, at: str | None = None) -> None:
    """Refuse a function that does not take a number of positional arguments.

    Args:
        function: The function; one without a signature is not checked.
        count: The number of arguments.
        noun: The function, for messages.
        at: The place, for messages.

    Raises:
        ProgramError: If the function takes other arguments.
    """
    try:
        inspect.signature(function).bind(*range(count))
    except ValueError:
        return
    except TypeError as error:
        arguments = f"{count} argument{'s' * (count != 1)}"
        raise ProgramError(
            f"{noun} does not take {arguments}: {error}.", at=at, given=function_text(function)
        ) from None
