"""Errors of a worker as records, and back: the same class with the same text.

Only classes of `braces.errors` come back, by name; what else goes wrong in a worker arrives as
a `RemoteError` that says what it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces import errors
from braces.errors import BracesError, RemoteError

_TEXTS = ("what", "at", "given", "fix", "code")
_LONGEST = 20_000


def as_record(error: Exception) -> dict[str, Any]:
    """What an error says."""
    if not isinstance(error, BracesError):
        what = f"The worker failed: {type(error).__name__}: {error}"
        return {"error": RemoteError.__name__, "what": what[:_LONGEST]}
    texts = {name: getattr(error, name, None) for name in _TEXTS}
    said = {name: text[:_LONGEST] for name, text in texts.items() if isinstance(text, str)}
    return {"error": type(error).__name__, **said}


def as_error(record: Mapping[str, Any]) -> BracesError:
    """The error that a record says."""
    texts = {name: record.get(name) for name in _TEXTS}
    what, at, given, fix, code = (t if isinstance(t, str) else None for t in texts.values())
    kind = record.get("error")
    known = getattr(errors, kind) if kind in errors.__all__ else RemoteError
    error: BracesError = known.__new__(known)
    BracesError.__init__(error, what or "The worker failed.", at=at, given=given, fix=fix)
    if code is not None:
        vars(error)["code"] = code
    return error
