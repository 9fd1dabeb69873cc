"""References of `braces.ops.indexing.static_slice`: NumPy's own indexing."""

from __future__ import annotations

from typing import Any

from tests.ops.reference import Array, Reference


def spelled(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index as NumPy wants it."""
    words = {":": slice(None), "new": None}
    return tuple(
        slice(*entry) if isinstance(entry, tuple) else words.get(entry, entry)
        for entry in index
    )


def getitem(x: Array, index: tuple[Any, ...]) -> Array:
    return x[spelled(index)]


def setitem_add(x: Array, update: Array, index: tuple[Any, ...]) -> Array:
    out = x.copy()
    out[spelled(index)] += update
    return out


REFERENCES = {
    "getitem": Reference(getitem),
    "setitem_add": Reference(setitem_add),
}
