"""Serialize errors of a worker, and restore them with the same class and text.

Only classes of `braces.errors` are restored, by name; other errors become a `RemoteError` with
their text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces import errors
from braces.errors import BracesError, RemoteError

_TEXTS = ("what", "at", "given", "fix", "code")
_LONGEST = 20_000


def as_record(error: Exception) -> dict[str, Any]:
    """Return an error as a record."""
    if not isinstance(error, BracesError):
        what = f"The worker failed: {type(error).__name__}: {error}"
        return {"error": RemoteError.__name__, "what": what[:_LONGEST]}
    texts = {name: getattr(error, name, None) for name in _TEXTS}
    fields_ = {name: text[:_LONGEST] for name, text in texts.items() if isinstance(text, str)}
    return {"error": type(error).__name__, **fields_}


def as_error(record: Mapping[str, Any]) -> BracesError:
    """Return the error of a record."""
    texts = {name: record.get(name) for name in _TEXTS}
    what, at, given, fix, code = (t if isinstance(t, str) else None for t in texts.values())
    kind = record.get("error")
    error_class = getattr(errors, kind) if kind in errors.__all__ else RemoteError
    error: BracesError = error_class.__new__(error_class)
    BracesError.__init__(error, what or "The worker failed.", at=at, given=given, fix=fix)
    if code is not None:
        vars(error)["code"] = code
    return error
