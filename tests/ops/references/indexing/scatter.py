"""References of `braces.ops.indexing.scatter`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference
from tests.ops.references.indexing.gather_nd import on_first_axes
from tests.ops.references.indexing.take import along

PUT = {"set": lambda old, new: new, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def put(out: Array, place: Any, update: Any, reduction: str) -> None:
    """One update."""
    out[place] = PUT[reduction](out[place], update)


def put_along_axis(
    x: Array, indices: Array, updates: Array, axis: int, reduction: str
) -> Array:
    """One place after another."""
    out = x.copy()
    for at in np.ndindex(indices.shape):
        place = list(at)
        place[axis] = indices[at]
        put(out, tuple(place), updates[at], reduction)
    return out


def scatter_nd(x: Array, updates: Array, *indices: Array, reduction: str) -> Array:
    """One place after another."""
    out = x.copy()
    indices = np.broadcast_arrays(*indices)
    for at in np.ndindex(indices[0].shape):
        put(out, tuple(index[at] for index in indices), updates[at], reduction)
    return out


REFERENCES = {
    "put_along_axis": Reference(put_along_axis, adjust=along("x", "indices")),
    "scatter_nd": Reference(scatter_nd, adjust=on_first_axes),
}
