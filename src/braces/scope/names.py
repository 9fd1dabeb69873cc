"""Names that variables can have."""

from __future__ import annotations

from braces.errors import BracesError, visible
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
