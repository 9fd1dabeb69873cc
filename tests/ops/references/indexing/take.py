"""References of `braces.ops.indexing.take`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, Values


def in_range(indices: Array, size: int, negative: bool = True) -> Array:
    """Indices brought into the range of an axis; every second one counts from the end."""
    if not size:
        return indices
    found = indices % np.asarray(size, indices.dtype)
    if negative and indices.dtype.kind == "i":
        found = np.where(np.arange(found.size).reshape(found.shape) % 2, found - size, found)
    return found.astype(indices.dtype)


def along(x: str, indices: str, negative: bool = True) -> Any:
    """For `adjust`: the indices in range of the axis of `x` that an attribute says."""

    def adjust(values: Values, attrs: Mapping[str, Any]) -> Values:
        (array,), axis = values[x], attrs.get("axis", 0)
        size = array.size if axis is None else array.shape[axis]
        found = tuple(in_range(one, size, negative) for one in values[indices])
        return {**values, indices: found}

    return adjust


def ids_below(values: Values, attrs: Mapping[str, Any]) -> Values:
    return {"ids": tuple(in_range(i, attrs["num_classes"], False) for i in values["ids"])}


def scatter_add(x: Array, indices: Array, updates: Array, axis: int | None) -> Array:
    """One index after another."""
    if axis is None:
        return scatter_add(x.ravel(), indices, updates, 0).reshape(x.shape)
    axis %= x.ndim
    out = x.copy()
    before = (slice(None),) * axis
    for at in np.ndindex(indices.shape):
        out[(*before, indices[at])] += updates[(*before, *at)]
    return out


def one_hot(ids: Array, num_classes: int, dtype: Any) -> Array:
    out = np.zeros((*ids.shape, num_classes), dtype)
    for at in np.ndindex(ids.shape):
        out[(*at, ids[at])] = 1
    return out


REFERENCES = {
    "take": Reference(np.take, adjust=along("x", "indices")),
    "scatter_add": Reference(scatter_add, adjust=along("x", "indices")),
    "embedding": Reference(
        lambda table, ids: table[ids], adjust=along("table", "ids", negative=False)
    ),
    "one_hot": Reference(one_hot, adjust=ids_below),
}
