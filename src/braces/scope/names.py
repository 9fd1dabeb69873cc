"""Names that variables can have, and what is said of those that are not there."""

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
from braces.scope.values import shown


class InvalidNameError(BracesError, ValueError):
    """A name that no variable can have."""


def text_of(name: object) -> str:
    """A name, if it is a text.

    Raises:
        InvalidNameError: It is none.
    """
    if isinstance(name, str):
        return name
    what = f"A name is a text, not {type(name).__name__}."
    raise InvalidNameError(what, given=shown(name), fix="Give the name, as `'w'`.")


def check_name(name: object) -> None:
    """Refuse a name that no variable can have.

    Raises:
        InvalidNameError: It is no text, empty, or has control characters.
    """
    text = text_of(name)
    if not text:
        raise InvalidNameError("A name cannot be empty.", fix="Use a word, as `w`.")
    if visible(text) != text:
        what = "A name cannot have control characters in it."
        raise InvalidNameError(what, given=shown(text), fix="Use printable text.")


def unknown(name: str, at: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not there."""
    return UnknownNameError(f"There is no variable `{name}`.", at=at, fix=suggest(name, known))


def duplicate(name: str, path: str, given: str) -> DuplicateNameError:
    """The error for a name that is there already."""
    fix = "Use another name, or `scope.var(name)` to get or create."
    what = f"There is a variable `{name}` already."
    return DuplicateNameError(what, at=f"scope {path}", given=given, fix=fix)


def closed(path: str) -> ScopeClosedError:
    """The error for a use of a closed scope."""
    fix = "Work inside its `with` block, or make another scope: `br.Scope()`."
    return ScopeClosedError(f"Scope {path} is closed.", fix=fix)
