"""Standard streams that cannot encode all characters, as in the locale C or on Windows."""

from __future__ import annotations

import codecs
import io
import sys

_ERRORS = "braces.ascii"
_ASCII = {
    "…": "...", "─": "-", "│": "|", "├": "+", "└": "`", "→": "->", "·": "*", "–": "-", "—": "-",
    "≈": "~", "µ": "u", "²": "^2", "³": "^3", "⚠": "!",
}  # fmt: skip
"""Replacements for characters in the output of commands; all others are escaped."""


def replace_unencodable() -> None:
    """Make standard output and error replace characters that they cannot encode.

    An error handler chosen by the user, as by `PYTHONIOENCODING=ascii:ignore`, stays.
    """
    codecs.register_error(_ERRORS, _replace_error)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _DEFAULTS:
            stream.reconfigure(errors=_ERRORS)


_DEFAULTS = ("strict", "surrogateescape", "backslashreplace")
"""Python's default error handlers of standard streams."""


def _replace_error(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_to_ascii, text)), error.end


def _to_ascii(character: str) -> str:
    return _ASCII.get(character) or character.encode("ascii", "backslashreplace").decode()
