"""Rules of embedding bags, distances and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, pi
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.rules.windows import checked_numbers, constant
from braces.exchange.torch.rules.tensor.arithmetic import operand
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.exchange.torch.rules.tensor.reductions import norm
from braces.extend import dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import INT64, Size

SUM, MEAN = 0, 1


def embedding_bag(
    table: Var, ids: Var, starts: Var, by_count: bool = False, mode: int = SUM,
    sparse: bool = False, weights: Var | None = None, ends: bool = False,
    padding: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Sum, mean or maximum of table rows per bag; padding does not count."""
    ids, starts = cast_to_dtype(ids, INT64), cast_to_dtype(starts, INT64)
    starts = starts[:-1] if ends else starts
    positions_ = ops.expand_dims(emit("arange", stop=ids.shape[0]), axis=1)
    bags = ops.sum(cast_to_dtype(ops.less_equal(starts, positions_), INT64), axis=1) - 1
    counted = ops.not_equal(ids, -1 if padding is None else padding)
    rows = ops.take(table, ids, axis=0)
    shape = (starts.shape[0], table.shape[1])
    count = ops.scatter_add(
        fill_shape((shape[0],), 0, dtype=INT64), bags, cast_to_dtype(counted, INT64), axis=0
    )
    if mode not in (SUM, MEAN):
        return _bag_maxima(rows, bags, counted, shape), None, None, None
    factor = cast_to_dtype(counted, table.dtype)
    factor = ops.expand_dims(factor if weights is None else factor * weights, axis=1)
    zeros = fill_shape(shape, 0, dtype=table.dtype)
    total = ops.scatter_add(zeros, bags, rows * factor, axis=0)
    if mode == MEAN:
        total = total / ops.expand_dims(
            cast_to_dtype(ops.maximum(count, 1), total.dtype), axis=1
        )
    return total, None, None, None


def _bag_maxima(rows: Var, bags: Var, counted: Var, shape: Sequence[Size]) -> Var:
    """Return the maximum of each column of a bag; zeros for an empty one."""
    start = fill_shape(shape, -inf, dtype=rows.dtype)
    masked_rows = ops.where(ops.expand_dims(counted, axis=1), rows, -inf)
    maxima = ops.scatter_nd(start, masked_rows, [bags], reduction="max")
    return ops.where(ops.equal(maxima, -inf), 0.0, maxima)


# ---- distances -------------------------------------------------------------------------------


def distances(x: Var, y: Var, p: float, mode: int | None = None) -> Var:
    """The p-norms of the differences of all pairs of rows."""
    differences = ops.expand_dims(x, axis=-2) - ops.expand_dims(y, axis=-3)
    return norm(differences, p, -1)


def distance(x: Var, y: Var, p: float = 2.0) -> Var:
    """The p-norm of a difference."""
    return norm(x - y, p)


def distances_within(x: Var, p: float = 2.0) -> Var:
    """The p-norm of the differences of each row to the later ones."""
    (count,) = checked_numbers(x.shape[:1], "pdist")
    first, second = (ops.take(x, constant(at), axis=0) for at in np.triu_indices(count, 1))
    return norm(first - second, p, -1)


# ---- frequencies -----------------------------------------------------------------------------


def _normalize(spectrum: Var, sizes: Sequence[Size], how: int) -> Var:
    """Normalize a transform: not at all, by the root of its size, or by its size."""
    if not how:
        return spectrum
    count = cast_to_dtype(number_of(dims.product(sizes)), spectrum.dtype)
    return spectrum / (ops.sqrt(count) if how == 1 else count)


def _sizes(x: Var, axes: Sequence[int]) -> list[Size]:
    return [x.shape[axis] for axis in axes]


def real_to_complex(x: Var, axes: Sequence[int], how: int, half: bool) -> Var:
    """A Fourier transform of real numbers, one- or two-sided in the last axis."""
    spectrum = ops.rfft(x, axis=axes[-1]) if half else ops.fft(x, axis=axes[-1])
    for axis in axes[:-1]:
        spectrum = ops.fft(spectrum, axis=axis)
    return _normalize(spectrum, _sizes(x, axes), how)


def complex_to_real(x: Var, axes: Sequence[int], how: int, last: Size) -> Var:
    """An inverse transform of a one-sided spectrum to real numbers."""
    for axis in axes[:-1]:
        x = ops.ifft(x, axis=axis, norm="forward")
    signal = ops.irfft(x, n=last, axis=axes[-1], norm="forward")
    return _normalize(signal, _sizes(signal, axes), how)


def complex_to_complex(x: Var, axes: Sequence[int], how: int, forward: bool) -> Var:
    """A Fourier transform of complex numbers, or its inverse."""
    for axis in axes:
        x = ops.fft(x, axis=axis) if forward else ops.ifft(x, axis=axis, norm="forward")
    return _normalize(x, _sizes(x, axes), how)


def as_real(x: Var) -> Var:
    """Real and imaginary parts as a last axis."""
    return ops.stack([ops.real(x), ops.imag(x)], axis=-1)


def angle(x: Var) -> Var:
    """The phase of complex numbers; pi for negative real numbers."""
    if x.dtype.kind == "c":
        return ops.atan2(ops.imag(x), ops.real(x))
    return ops.where(x < 0, operand(pi, x.dtype), ops.zeros_like(x))


def polar(size: Var, at: Var) -> Var:
    """Complex numbers from absolute value and phase."""
    return ops.complex(size * ops.cos(at), size * ops.sin(at))


def as_complex(x: Var) -> Var:
    """Complex numbers from a last axis of real and imaginary parts."""
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
    "angle": angle,
    "dist": distance,
    "embedding_bag.padding_idx": embedding_bag,
    "polar": polar,
    "view_as_complex": as_complex,
    "view_as_real": as_real,
}
