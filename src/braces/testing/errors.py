"""Expected errors of Braces, with the user's line."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from braces.builder.source_line import innermost_line
from braces.define.core.tracer_guard import innermost_user_place
from braces.errors import BracesError
from braces.ir.records import Source
from braces.program import Program


@dataclass
class Caught:
    """An expected error, once it was raised.

    Attributes:
        error: The error.
        raised_at: The innermost line of the traceback outside Braces.
    """

    error: BracesError | None = None
    raised_at: Source | None = None

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self.error)

    @property
    def names_line(self) -> bool:
        """Return whether the message has the line that raised the error."""
        return str(self.raised_at) in self.message


@contextmanager
def raises(
    error: type[Exception], match: str = "", *, unchanged: Program | None = None
) -> Generator[Caught]:
    """Expect an error of Braces whose message names a line of the calling file.

    Args:
        error: The class of the error, or a builtin that it is a subclass of.
        match: A regular expression that occurs in the message.
        unchanged: A program that must be the same after the error as before it.

    Yields:
        The caught error, to look at after the block.

    Raises:
        AssertionError: If no error is raised; it is not an error of Braces; its message does
            not match or names no line of the file; or the program changed.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [2, 3])
        >>> with prog, br.testing.raises(br.ShapeError, r"3 with 2", unchanged=prog) as caught:
        ...     br.matmul(x, x)
        >>> caught.names_line
        True
    """
    caller = innermost_line()
    before = _snapshot(unchanged)
    caught = Caught()
    try:
        yield caught
    except error as problem:
        place = innermost_user_place(problem)
        caught.raised_at = None if place is None else Source(*place)
        caught.error = _checked(problem, match, caught.raised_at or caller)
    else:
        raise AssertionError(f"{error.__name__} was not raised.")
    if _snapshot(unchanged) != before:
        raise AssertionError(f"the program was changed before the error: {caught.message}")


def _snapshot(program: Program | None) -> tuple[object, ...]:
    if program is None:
        return ()
    return program.definition, program.startup.definition, str(program)


def _checked(error: Exception, match: str, line: Source | None) -> BracesError:
    """Return an error of Braces that matches and names the file of a line."""
    text = str(error)
    if not isinstance(error, BracesError):
        raise AssertionError(
            f"expected an error of Braces, got {type(error).__name__}: {text}"
        ) from error
    if not re.search(match, text):
        raise AssertionError(f"the message does not match {match!r}: {text}") from error
    if line is not None and not re.search(re.escape(line.file) + r":\d+", text):
        raise AssertionError(
            f"the message does not name a line of {line.file}: {text}"
        ) from error
    return error
