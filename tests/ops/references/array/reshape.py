"""References of `braces.ops.array.reshape`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def flatten(x: Array, axis: int) -> Array:
    rest = int(np.prod(x.shape[axis:]))
    return x.reshape((*x.shape[:axis], rest))


def reshape(x: Array, shape: tuple[int, ...]) -> Array:
    """As NumPy, but what is left beside a 0 is what the other axes of `x` hold."""
    if -1 in shape and 0 in shape:
        shape = tuple(int(np.prod(x.shape[1:])) if size == -1 else size for size in shape)
    return x.reshape(shape)


REFERENCES = {
    "reshape": Reference(reshape),
    "flatten": Reference(flatten),
    "expand_dims": Reference(np.expand_dims),
    "squeeze": Reference(np.squeeze),
    "broadcast_to": Reference(np.broadcast_to),
}
