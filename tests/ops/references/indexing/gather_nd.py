"""References of `braces.ops.indexing.gather_nd`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, Values
from tests.ops.references.indexing.take import along, in_range


def put_along_axis_add(x: Array, indices: Array, updates: Array, axis: int) -> Array:
    """One place after another."""
    out = x.copy()
    for at in np.ndindex(indices.shape):
        place = list(at)
        place[axis] = indices[at]
        out[tuple(place)] += updates[at]
    return out


def scatter_nd_add(x: Array, updates: Array, *indices: Array) -> Array:
    """One place after another."""
    out = x.copy()
    indices = np.broadcast_arrays(*indices)
    for at in np.ndindex(indices[0].shape):
        out[tuple(index[at] for index in indices)] += updates[at]
    return out


def on_first_axes(values: Values, attrs: Mapping[str, Any]) -> Values:
    """The indices in range of the first axes."""
    del attrs
    pairs = zip(values["indices"], values["x"][0].shape, strict=False)
    return {**values, "indices": tuple(in_range(index, size) for index, size in pairs)}


REFERENCES = {
    "take_along_axis": Reference(np.take_along_axis, adjust=along("x", "indices")),
    "put_along_axis_add": Reference(put_along_axis_add, adjust=along("x", "indices")),
    "gather_nd": Reference(lambda x, *indices: x[indices], adjust=on_first_axes),
    "scatter_nd_add": Reference(scatter_nd_add, adjust=on_first_axes),
}
