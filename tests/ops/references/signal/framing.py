"""References of `braces.ops.signal.framing`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference


def frame(x: Array, length: int, step: int, axis: int) -> Array:
    moved = np.moveaxis(x, axis, -1)
    starts = range(0, moved.shape[-1] - length + 1, step)
    shape = (*moved.shape[:-1], len(starts), length)
    out = np.zeros(shape, x.dtype)
    for i, start in enumerate(starts):
        out[..., i, :] = moved[..., start : start + length]
    at = axis % x.ndim
    return np.moveaxis(out, [-2, -1], [at, at + 1])


REFERENCES = {"frame": Reference(frame)}
