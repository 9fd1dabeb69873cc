"""References of `braces.ops.elementwise.bitwise`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, between
from tests.ops.references.elementwise.arithmetic import binary


def bitcast(x: Array, dtype: Any) -> Array:
    """The memory of an array, read anew; a last axis has the parts of a number."""
    target = np.dtype(dtype)
    if target.kind == "b":
        return x != 0
    narrower = target.itemsize < x.itemsize
    read = np.ascontiguousarray(x[..., None] if narrower else x).view(target)
    return (
        read[..., 0]
        if target.itemsize > x.itemsize
        else read.reshape((*x.shape, x.itemsize // target.itemsize) if narrower else x.shape)
    )


REFERENCES = {
    **{
        name: Reference(binary(getattr(np, name)))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    },
    "bitwise_invert": Reference(np.invert),
    "bitwise_left_shift": Reference(binary(np.left_shift), inputs={"y": between(0, 7)}),
    "bitwise_right_shift": Reference(binary(np.right_shift), inputs={"y": between(0, 7)}),
    "bitcast": Reference(bitcast),
}
