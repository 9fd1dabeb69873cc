"""References of `braces.ops.signal.fft`: the sums, as matrices of exponentials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference

DOUBLE = (np.float64, np.complex128)


def sized(x: Array, n: int) -> Array:
    """The last axis cut, or filled up with zeros."""
    more = max(n - x.shape[-1], 0)
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, more)])[..., :n]


def divided(x: Array, n: int, norm: str, *, inverse: bool) -> Array:
    wanted = {"ortho": 0.5, "forward": float(not inverse), "backward": float(inverse)}[norm]
    return x / float(n) ** wanted if n else x


def waves(rows: int, columns: int, n: int, sign: int) -> Array:
    turns = np.outer(np.arange(rows), np.arange(columns)) % max(n, 1)
    return np.exp(sign * 2j * np.pi * turns / max(n, 1))


def as_complex(x: Array) -> Any:
    return np.complex128 if x.dtype in DOUBLE else np.complex64


def along(x: Array, n: int | None, axis: int, norm: str, sign: int) -> Array:
    moved = np.moveaxis(x.astype(np.complex128), axis, -1)
    count = moved.shape[-1] if n is None else n
    made = sized(moved, count) @ waves(count, count, count, sign)
    made = divided(made, count, norm, inverse=sign > 0)
    return np.moveaxis(made, -1, axis).astype(as_complex(x))


def fft(x: Array, n: int | None, axis: int, norm: str) -> Array:
    return along(x, n, axis, norm, -1)


def ifft(x: Array, n: int | None, axis: int, norm: str) -> Array:
    return along(x, n, axis, norm, 1)


def rfft(x: Array, n: int | None, axis: int, norm: str) -> Array:
    count = x.shape[axis] if n is None else n
    whole = np.moveaxis(along(x, n, axis, norm, -1), axis, -1)
    half = whole[..., : count // 2 + 1]
    return np.moveaxis(sized(half, count // 2 + 1), -1, axis)


def irfft(x: Array, n: int | None, axis: int, norm: str) -> Array:
    count = max(2 * (x.shape[axis] - 1), 0) if n is None else n
    half = sized(np.moveaxis(x.astype(np.complex128), axis, -1), count // 2 + 1)
    alone = [k == 0 or 2 * k == count for k in range(count // 2 + 1)]
    twice = np.where(alone, 1.0, 2.0)
    made = np.real((half * twice) @ waves(count // 2 + 1, count, count, 1))
    made = divided(made, count, norm, inverse=True)
    return np.moveaxis(made, -1, axis).astype(as_complex(x)(0).real.dtype)


def along_all(x: Array, axes: int | Sequence[int] | None, norm: str, sign: int) -> Array:
    found = range(x.ndim) if axes is None else np.atleast_1d(axes).tolist()
    x = x.astype(as_complex(x))
    for axis in found:
        x = along(x, None, axis, norm, sign)
    return x


REFERENCES = {
    "fft": Reference(fft),
    "ifft": Reference(ifft),
    "rfft": Reference(rfft),
    "irfft": Reference(irfft),
    "fftn": Reference(lambda x, axes, norm: along_all(x, axes, norm, -1)),
    "ifftn": Reference(lambda x, axes, norm: along_all(x, axes, norm, 1)),
}
