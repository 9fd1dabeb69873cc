"""References of `braces.ops.random.key_bits`: Threefry for each key, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference
from tests.ops.references.random.stateless import bits, fold_in, threefry


def in_each_key(draw: Callable[..., Array]) -> Callable[..., Array]:
    """A reference for many keys, as one for one key after the other."""

    def drawn(key: Array, *given: Array, shape: tuple[int, ...], **attrs: Any) -> Array:
        if key.ndim == 1:
            return draw(key, *given, shape=shape, **attrs)
        whole = [np.broadcast_to(x, shape) for x in given]
        each = (
            drawn(key[n], *(x[n] for x in whole), shape=shape[1:], **attrs)
            for n in range(shape[0])
        )
        return np.stack([*each]) if shape[0] else drawn(
            np.zeros((2,), np.uint32), *(np.zeros(shape[1:], x.dtype) for x in given),
            shape=shape[1:], **attrs,
        )[None][:0]  # fmt: skip

    return drawn


def bits_of_key(key: Array, *, shape: tuple[int, ...], width: int) -> Array:
    return bits(key, width, shape)


def split_key(key: Array, *, shape: tuple[int, ...]) -> Array:
    count = np.arange(int(np.prod(shape))).reshape(shape)
    return np.stack(threefry(key, np.zeros_like(count), count), -1)


def fold_in_key(key: Array, data: Array) -> Array:
    shape = np.broadcast_shapes(key.shape[:-1], data.shape)
    keys, numbers = np.broadcast_to(key, (*shape, 2)), np.broadcast_to(data, shape)
    folded = [fold_in(k, n) for k, n in zip(keys.reshape(-1, 2), numbers.flat, strict=True)]
    return np.asarray(folded, np.uint32).reshape((*shape, 2))


REFERENCES = {
    "bits_of_key": Reference(in_each_key(bits_of_key), smooth=False),
    "split_key": Reference(in_each_key(split_key), smooth=False),
    "fold_in_key": Reference(fold_in_key, smooth=False),
}
