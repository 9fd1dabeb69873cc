"""Metadata of a model: names of classes, a vocabulary, a licence, as JSON within limits.

    metadata := {key: value, …}
    key      := text of 1 to 200 characters that does not begin with "braces."
    value    := null | bool | number | text | [value, …] | {text: value, …}

Metadata is for people and programs around a model; it has no effect on a run. All of it has at
most 8 MiB as JSON, and 16 levels. It may come from strangers: readers treat it as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from braces.errors import FileFormatError, ProgramError

MOST_BYTES = 1 << 23
"""The largest size of all metadata of a model, as JSON in UTF-8."""
DEEPEST = 16
"""Nesting depth of lists and objects."""
LONGEST_KEY = 200
RESERVED_PREFIX = "braces."
"""The prefix of keys that Braces writes into files of other formats."""
Metadata: TypeAlias = "dict[str, Any]"

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
_FIX = (
    "Use a dict of texts, numbers, bools, None, lists and dicts with texts as keys, as in "
    'metadata={"classes": ["cat", "dog"]}.'
)


class _InvalidError(Exception):
    """A value that is not metadata: the place, and the reason."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason


def check_metadata(value: Any) -> Metadata:
    """Return metadata as plain JSON data; tuples and NumPy arrays become lists.

    Raises:
        ProgramError: If the value is not JSON data, or exceeds a limit.

    Example:
        >>> check_metadata({"classes": ("cat", "dog"), "scale": np.float32(0.5)})
        {'classes': ['cat', 'dog'], 'scale': 0.5}
    """
    try:
        return _checked({} if value is None else value)
    except _InvalidError as error:
        raise ProgramError(
            f"invalid metadata: {error.reason}.", given=error.place, fix=_FIX
        ) from None


def read_metadata(value: Any) -> Metadata:
    """Return metadata of a file after checking it.

    Raises:
        FileFormatError: If the value is not a JSON object, or exceeds a limit.
    """
    try:
        return _checked(value)
    except _InvalidError as error:
        raise FileFormatError(
            f"invalid metadata of the model: {error.reason}.", given=error.place
        ) from None


def _checked(value: Any) -> Metadata:
    if not isinstance(value, Mapping):
        raise _InvalidError("metadata", f"expected a dict, got {type(value).__name__}")
    items = cast("Mapping[Any, Any]", value)
    for key in items:
        _check_key(key)
    plain = cast("Metadata", _plain(items, "metadata", DEEPEST))
    count = len(json.dumps(plain, ensure_ascii=False).encode())
    if count > MOST_BYTES:
        raise _InvalidError("metadata", f"{count} bytes exceed the limit of {MOST_BYTES}")
    return plain


def _check_key(key: Any) -> None:
    place = f"key {key!r:.80}"
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
        raise _InvalidError(place, f"expected a text of 1 to {LONGEST_KEY} characters as key")
    if key.startswith(RESERVED_PREFIX):
        raise _InvalidError(place, f"keys that begin with `{RESERVED_PREFIX}` are reserved")


def _plain(value: Any, place: str, levels: int) -> Any:
    """Return a value as JSON data; `levels` is the remaining depth."""
    if isinstance(value, np.ndarray | np.generic):
        value = cast("Any", value).tolist()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, int | float):
        return _number(value, place)
    if not isinstance(value, Mapping | list | tuple):
        raise _InvalidError(place, f"expected JSON data, got {type(value).__name__}")
    if levels == 0:
        raise _InvalidError(place, f"lists and dicts are nested deeper than {DEEPEST} levels")
    if isinstance(value, Mapping):
        return _object(cast("Mapping[Any, Any]", value), place, levels - 1)
    elements = enumerate(cast("list[Any]", value))
    return [_plain(each, f"{place:.160}[{i}]", levels - 1) for i, each in elements]


def _object(items: Mapping[Any, Any], place: str, levels: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, each in items.items():
        inner = f"{place:.160}[{key!r:.80}]"
        if not isinstance(key, str):
            raise _InvalidError(inner, f"expected a text as key, got {type(key).__name__}")
        plain[_text(key, inner)] = _plain(each, inner, levels)
    return plain


def _text(text: str, place: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _InvalidError(place, "the text has a lone surrogate") from None
    return str(text)


def _number(number: float, place: str) -> float:
    if isinstance(number, int) and not _LOWEST <= number <= _HIGHEST:
        raise _InvalidError(place, "the integer exceeds 64 bits")
    if not math.isfinite(number):
        raise _InvalidError(place, "the number is not finite")
    return number
