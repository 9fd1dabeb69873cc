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
"""Replacements for what commands draw and write themselves; anything else is escaped."""


def replace_unencodable() -> None:
    """Let standard output and error replace what they cannot encode.

    What the user chose, as by `PYTHONIOENCODING=ascii:ignore`, stays.
    """
    codecs.register_error(_ERRORS, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _DEFAULTS:
            stream.reconfigure(errors=_ERRORS)


_DEFAULTS = ("strict", "surrogateescape", "backslashreplace")
"""The handlers that Python itself gives to standard streams."""


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_in_ascii, text)), error.end


def _in_ascii(character: str) -> str:
    return _ASCII.get(character) or character.encode("ascii", "backslashreplace").decode()
