"""References of `braces.ops.array.pad_tile`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference


def pad(x: Array, widths: Any, mode: str, value: float) -> Array:
    if mode != "constant" and x.size:
        return np.pad(x, widths, mode)
    return np.pad(x, widths, constant_values=x.dtype.type(value))


def repeat(x: Array, repeats: int, axis: int | None) -> Array:
    return np.repeat(x, repeats, axis)


REFERENCES = {
    "pad": Reference(pad),
    "tile": Reference(np.tile),
    "repeat": Reference(repeat),
}
