"""References of `braces.ops.indexing.symbolic_slice`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def positions(x: Array, start: int, size: int, axis: int, from_end: bool) -> list[int]:
    """One by one."""
    first = x.shape[axis] - start if from_end else start
    return [first + i for i in range(size)]


def window(x: Array, start: int, size: int, axis: int, from_end: bool) -> Array:
    return np.take(x, np.array(positions(x, start, size, axis, from_end), int), axis)


def window_add(x: Array, update: Array, start: int, axis: int, from_end: bool) -> Array:
    out = np.moveaxis(x.copy(), axis, 0)
    for i, at in enumerate(positions(x, start, update.shape[axis], axis, from_end)):
        out[at] += np.moveaxis(update, axis, 0)[i]
    return np.moveaxis(out, 0, axis)


REFERENCES = {
    "window": Reference(window),
    "window_add": Reference(window_add),
}
