"""Valid names of variables, and the errors for invalid, unknown and duplicate names."""

from __future__ import annotations

from collections.abc import Iterable

from braces.errors import (
    BracesError,
    DuplicateNameError,
    ScopeClosedError,
    UnknownNameError,
    suggest,
    visible,
)
from braces.scope.values import short_repr


class InvalidNameError(BracesError, ValueError):
    """The name is not valid for a variable."""


def text_of(name: object) -> str:
    """Return a name if it is a string.

    Raises:
        InvalidNameError: If the name is not a string.
    """
    if isinstance(name, str):
        return name
    message = f"expected a string as name, got {type(name).__name__}."
    raise InvalidNameError(message, given=short_repr(name), fix="Pass a name, such as `'w'`.")


def check_name(name: object) -> None:
    """Refuse an invalid name.

    Raises:
        InvalidNameError: If the name is not a string, is empty, or has control characters.
    """
    text = text_of(name)
    if not text:
        raise InvalidNameError("a name cannot be empty.", fix="Use a word, such as `w`.")
    if visible(text) != text:
        message = "a name cannot contain control characters."
        raise InvalidNameError(message, given=short_repr(text), fix="Use printable text.")


def unknown_name_error(name: str, at: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for an unknown name, with suggestions from `known`."""
    return UnknownNameError(f"unknown variable `{name}`.", at=at, fix=suggest(name, known))


def duplicate_name_error(name: str, path: str, given: str) -> DuplicateNameError:
    """Build the error for a name that exists already."""
    fix = "Use another name, or `scope.var(name)` to get or create."
    message = f"duplicate variable `{name}`."
    return DuplicateNameError(message, at=f"scope {path}", given=given, fix=fix)


def closed_scope_error(path: str) -> ScopeClosedError:
    """Build the error for the use of a closed scope."""
    fix = "Use the scope inside its `with` block, or create another: `br.Scope()`."
    return ScopeClosedError(f"scope {path} is closed.", fix=fix)
