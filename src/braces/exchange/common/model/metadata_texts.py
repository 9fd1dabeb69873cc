"""Metadata of a model as texts by key, as in `metadata_props` of ONNX.

Texts are written as they are, other values as JSON. A text that is JSON itself is written as a
JSON text, so that reading gives the same values. Of models by other producers, only lists and
objects are read as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from braces.errors import FileFormatError
from braces.extend.programs import read_metadata

_OPENING = ("[", "{")


def write_texts(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the entries of metadata as texts.

    Example:
        >>> dict(write_texts({"license": "MIT", "classes": ["cat"], "year": "2026"}))
        {'license': 'MIT', 'classes': '["cat"]', 'year': '"2026"'}
    """
    for key, value in metadata.items():
        is_plain = isinstance(value, str) and _parsed(value) is None
        yield key, value if is_plain else json.dumps(value, ensure_ascii=False)


def read_texts(texts: Iterable[tuple[str, str]], is_own: bool) -> dict[str, Any]:
    """Return metadata from texts; entries that exceed a limit are left out.

    Args:
        texts: The texts by key.
        is_own: Whether Braces wrote them.
    """
    metadata: dict[str, Any] = {}
    for key, text in texts:
        metadata |= _within_limits({key: _value(text, is_own)})
    return _within_limits(metadata)


def _within_limits(metadata: dict[str, Any]) -> dict[str, Any]:
    try:
        return read_metadata(metadata)
    except FileFormatError:
        return {}


def _value(text: str, is_own: bool) -> Any:
    parsed = _parsed(text) if is_own or text.startswith(_OPENING) else None
    return text if parsed is None else parsed[0]


def _parsed(text: str) -> tuple[Any] | None:
    """Return the value of a text that is JSON; `None` for other texts."""
    try:
        return (json.loads(text),)
    except (ValueError, RecursionError):
        return None
