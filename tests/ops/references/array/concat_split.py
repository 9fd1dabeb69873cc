"""References of `braces.ops.array.concat_split`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, is_float


def promoted(xs: tuple[Array, ...]) -> list[Array]:
    """One dtype for all; a float wins over integers."""
    floats = [x.dtype for x in xs if is_float(x.dtype)]
    dtype = np.result_type(*(floats or [x.dtype for x in xs]))
    return [x.astype(dtype) for x in xs]


def concat(*xs: Array, axis: int) -> Array:
    return np.concatenate(promoted(xs), axis)


def stack(*xs: Array, axis: int) -> Array:
    return np.stack(promoted(xs), axis)


def unstack(x: Array, axis: int) -> list[Array]:
    return list(np.moveaxis(x, axis, 0))


def split(x: Array, sections: int | tuple[int, ...], axis: int) -> list[Array]:
    """NumPy wants the places of the cuts rather than the sizes of the pieces."""
    if isinstance(sections, int):
        return np.split(x, sections, axis)
    return np.split(x, np.cumsum(sections)[:-1], axis)


REFERENCES = {
    "concat": Reference(concat),
    "stack": Reference(stack),
    "unstack": Reference(unstack),
    "split": Reference(split),
}
