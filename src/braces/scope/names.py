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
        InvalidNameError: The name is not a string.
    """
    if isinstance(name, str):
        return name
    message = f"A name is a text, not {type(name).__name__}."
    raise InvalidNameError(message, given=short_repr(name), fix="Give the name, as `'w'`.")


def check_name(name: object) -> None:
    """Refuse an invalid name.

    Raises:
        InvalidNameError: The name is not a string, is empty, or has control characters.
    """
    text = text_of(name)
    if not text:
        raise InvalidNameError("A name cannot be empty.", fix="Use a word, as `w`.")
    if visible(text) != text:
        message = "A name cannot have control characters in it."
        raise InvalidNameError(message, given=short_repr(text), fix="Use printable text.")


def unknown_name_error(name: str, at: str, known: Iterable[str]) -> UnknownNameError:
    """Build the error for an unknown name, with suggestions from `known`."""
    return UnknownNameError(f"There is no variable `{name}`.", at=at, fix=suggest(name, known))


def duplicate_name_error(name: str, path: str, given: str) -> DuplicateNameError:
    """Build the error for a name that exists already."""
    fix = "Use another name, or `scope.var(name)` to get or create."
    message = f"There is a variable `{name}` already."
    return DuplicateNameError(message, at=f"scope {path}", given=given, fix=fix)


def closed_scope_error(path: str) -> ScopeClosedError:
    """Build the error for the use of a closed scope."""
    fix = "Work inside its `with` block, or make another scope: `br.Scope()`."
    return ScopeClosedError(f"Scope {path} is closed.", fix=fix)
