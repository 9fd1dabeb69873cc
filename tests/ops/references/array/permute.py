"""References of `braces.ops.array.permute`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def roll(x: Array, shift: tuple[int, ...], axis: int | tuple[int, ...] | None) -> Array:
    return np.roll(x, shift[0] if axis is None else shift, axis)


REFERENCES = {
    "moveaxis": Reference(np.moveaxis),
    "swapaxes": Reference(np.swapaxes),
    "flip": Reference(np.flip),
    "roll": Reference(roll),
}
