"""Rules of tables whose rows are joined, of distances, and of transforms into frequencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, pi
from typing import Any

import numpy as np

from braces import dims
from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import INT64
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.torch.rules.nn.im2col_grid import constant, numbers
from braces.exchange.torch.rules.tensor.arithmetic import operand
from braces.exchange.torch.rules.tensor.creation_random import filled
from braces.exchange.torch.rules.tensor.reductions import norm
from braces.frontend.core import functions as ops

SUM, MEAN = 0, 1


def embedding_bag(
    table: Var, ids: Var, starts: Var, by_count: bool = False, mode: int = SUM,
    sparse: bool = False, weights: Var | None = None, ends: bool = False,
    padding: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Rows of a table joined in bags, which begin at places; padding does not count."""
    ids, starts = in_dtype(ids, INT64), in_dtype(starts, INT64)
    starts = starts[:-1] if ends else starts
    each = ops.expand_dims(one("arange", stop=ids.shape[0]), axis=1)
    bags = ops.sum(in_dtype(ops.less_equal(starts, each), INT64), axis=1) - 1
    kept = ops.not_equal(ids, -1 if padding is None else padding)
    rows = ops.take(table, ids, axis=0)
    shape = (starts.shape[0], table.shape[1])
    count = ops.scatter_add(
        filled((shape[0],), 0, dtype=INT64), bags, in_dtype(kept, INT64), axis=0
    )
    if mode not in (SUM, MEAN):
        return _largest(rows, bags, kept, shape), None, None, None
    factor = in_dtype(kept, table.dtype)
    factor = ops.expand_dims(factor if weights is None else factor * weights, axis=1)
    zeros = filled(shape, 0, dtype=table.dtype)
    total = ops.scatter_add(zeros, bags, rows * factor, axis=0)
    if mode == MEAN:
        total = total / ops.expand_dims(in_dtype(ops.maximum(count, 1), total.dtype), axis=1)
    return total, None, None, None


def _largest(rows: Var, bags: Var, kept: Var, shape: Sequence[Size]) -> Var:
    """The largest number of each column of a bag; zeros where it is empty."""
    start = filled(shape, -inf, dtype=rows.dtype)
    seen = ops.where(ops.expand_dims(kept, axis=1), rows, -inf)
    found = ops.scatter_nd(start, seen, [bags], reduction="max")
    return ops.where(ops.equal(found, -inf), 0.0, found)


# ---- distances -------------------------------------------------------------------------------


def distances(x: Var, y: Var, p: float, mode: int | None = None) -> Var:
    """The p-norm of the difference of each row and each other row."""
    apart = ops.expand_dims(x, axis=-2) - ops.expand_dims(y, axis=-3)
    return norm(apart, p, -1)


def distance(x: Var, y: Var, p: float = 2.0) -> Var:
    """The p-norm of a difference."""
    return norm(x - y, p)


def distances_within(x: Var, p: float = 2.0) -> Var:
    """The p-norm of the difference of each row and each later one."""
    (count,) = numbers(x.shape[:1], "Distances of rows")
    first, second = (ops.take(x, constant(at), axis=0) for at in np.triu_indices(count, 1))
    return norm(first - second, p, -1)


# ---- frequencies -----------------------------------------------------------------------------


def _scaled(made: Var, sizes: Sequence[Size], how: int) -> Var:
    """What a transform without a factor gives, by root or whole of the numbers in it."""
    if not how:
        return made
    count = in_dtype(number_of(dims.product(sizes)), made.dtype)
    return made / (ops.sqrt(count) if how == 1 else count)


def _sizes(x: Var, axes: Sequence[int]) -> list[Size]:
    return [x.shape[axis] for axis in axes]


def real_to_complex(x: Var, axes: Sequence[int], how: int, half: bool) -> Var:
    """Frequencies of real numbers, the first half of the last axis or all of them."""
    made = ops.rfft(x, axis=axes[-1]) if half else ops.fft(x, axis=axes[-1])
    for axis in axes[:-1]:
        made = ops.fft(made, axis=axis)
    return _scaled(made, _sizes(x, axes), how)


def complex_to_real(x: Var, axes: Sequence[int], how: int, last: Size) -> Var:
    """Real numbers of the first half of their frequencies."""
    for axis in axes[:-1]:
        x = ops.ifft(x, axis=axis, norm="forward")
    made = ops.irfft(x, n=last, axis=axes[-1], norm="forward")
    return _scaled(made, _sizes(made, axes), how)


def complex_to_complex(x: Var, axes: Sequence[int], how: int, forward: bool) -> Var:
    """Frequencies of complex numbers, or these of their frequencies."""
    for axis in axes:
        x = ops.fft(x, axis=axis) if forward else ops.ifft(x, axis=axis, norm="forward")
    return _scaled(x, _sizes(x, axes), how)


def as_real(x: Var) -> Var:
    """Real and imaginary parts as a last axis."""
    return ops.stack([ops.real(x), ops.imag(x)], axis=-1)


def size_of(x: Var) -> Var:
    """How far a number is from zero."""
    return ops.hypot(ops.real(x), ops.imag(x)) if x.dtype.kind == "c" else ops.abs(x)


def angle(x: Var) -> Var:
    """The angle of complex numbers; pi where a real one is negative."""
    if x.dtype.kind == "c":
        return ops.atan2(ops.imag(x), ops.real(x))
    return ops.where(x < 0, operand(pi, x.dtype), ops.zeros_like(x))


def polar(size: Var, at: Var) -> Var:
    """Complex numbers by their distance from zero and their angle."""
    return ops.complex(size * ops.cos(at), size * ops.sin(at))


def as_complex(x: Var) -> Var:
    """A last axis of real and imaginary parts as numbers."""
    real, imag = ops.unstack(x, axis=-1)
    return ops.complex(real, imag)


BAGS: Mapping[str, Callable[..., Any]] = {
    "_cdist_forward": distances,
    "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "_fft_c2c": complex_to_complex,
    "_fft_c2r": complex_to_real,
    "_fft_r2c": real_to_complex,
    "_pdist_forward": distances_within,
    "abs": size_of,
    "angle": angle,
    "complex": ops.complex,
    "dist": distance,
    "embedding_bag.padding_idx": embedding_bag,
    "polar": polar,
    "view_as_complex": as_complex,
    "view_as_real": as_real,
}
