"""Elements and positions that depend on data: masks, unique runs, counts, running extremes."""

from __future__ import annotations

from typing import Any

from braces.errors import ProgramError
from braces.exchange.common.rules.along_axis import indices_along
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import fill_shape, number_of
from braces.extend import data_dependent, dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import INT64, Size, is_float


def mask_indices(mask: Var) -> list[Var]:
    """Return the indices of true elements, an array for each axis.

    Raises:
        ProgramError: If the mask is a scalar.
    """
    if not mask.ndim:
        raise ProgramError(
            "expected a mask of rank 1 or more, got rank 0.", fix="Use a selection (`where`)."
        )
    return list(data_dependent.nonzero(mask))


def selected_by_mask(x: Var, mask: Var) -> Var:
    """Return the elements where a mask of the same shape is true, in a vector."""
    if not x.ndim:
        x, mask = ops.reshape(x, (1,)), ops.reshape(mask, (1,))
    return ops.gather_nd(x, mask_indices(mask))


def unique_consecutive(
    x: Var, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> tuple[Var, Var | None, Var | None]:
    """Return the numbers or slices that differ from the previous one."""
    values_ = ops.reshape(x, (dims.product(x.shape),)) if dim is None else x
    axis = 0 if dim is None else dim % x.ndim
    differs = ops.not_equal(values_, ops.roll(values_, 1, axis=axis))
    others = tuple(at for at in range(values_.ndim) if at != axis)
    differs = ops.any(differs, axis=others) if others else differs
    first = ops.logical_or(differs, ops.equal(emit("arange", stop=values_.shape[axis]), 0))
    (first_positions,) = data_dependent.nonzero(first)
    inverse_indices = ops.cumsum(cast_to_dtype(first, INT64), axis=0) - 1
    zeros_ = ops.zeros_like(first_positions)
    occurrences = (
        ops.scatter_add(zeros_, inverse_indices, ops.ones_like(inverse_indices), axis=0)
        if counts
        else None
    )
    shaped_inverse = ops.reshape(inverse_indices, x.shape) if dim is None else inverse_indices
    return (
        ops.take(values_, first_positions, axis=axis),
        shaped_inverse if inverse else None,
        occurrences,
    )


def bincount(x: Var, weights: Var | None = None, least: Size = 0) -> Var:
    """Return the number of occurrences of each number, or the sum of its weights."""
    minus_one = fill_shape((1,), -1, INT64)
    highest = ops.max(ops.concat([cast_to_dtype(x, INT64), minus_one], axis=0))
    count = data_dependent.as_size(ops.maximum(highest + 1, number_of(least)))
    increments = ops.ones_like(x, dtype=INT64) if weights is None else weights
    start = fill_shape((count,), 0, increments.dtype)
    return ops.scatter_add(start, cast_to_dtype(x, INT64), increments, axis=0)


def count_below(ordered: Var, values: Var, *, right: bool) -> Var:
    """Return the number of elements of ordered rows below each number, or not above it."""
    compared = ops.less_equal if right else ops.less
    found_below = compared(ordered, ops.expand_dims(values, axis=-1))
    return ops.sum(cast_to_dtype(found_below, INT64), axis=-1)


def repeat_by_counts(repeats: Var, *, output_size: Size | None = None) -> Var:
    """Return the indices, each repeated by its number."""
    times = cast_to_dtype(repeats, INT64)
    total = data_dependent.as_size(ops.sum(times)) if output_size is None else output_size
    starts = ops.cumsum(times, axis=0) - times
    marks = fill_shape((dims.sum_of([total, 1]),), 0, INT64)
    marks = ops.scatter_add(marks, starts, ops.ones_like(starts), axis=0)
    return emit("window", ops.cumsum(marks, axis=0) - 1, start=0, size=total, axis=0)


def cumulative_extreme(op_type: str, x: Var, axis: int) -> tuple[Var, Var]:
    """Return a cumulative maximum or minimum, with the last index of each.

    The last of ties receives the gradient.
    """
    if not x.ndim:
        return x, ops.zeros_like(x, dtype=INT64)
    best = ops.function_of(op_type)(x, axis=axis)
    count = indices_along(x.shape[axis], axis % x.ndim, x.ndim)
    is_best: Any = ops.equal(x, best)
    is_best = is_best | ops.isnan(x) if is_float(x.dtype) else is_best
    last_positions = ops.cummax(ops.where(is_best, count, ops.zeros_like(count)), axis=axis)
    return ops.take_along_axis(x, last_positions, axis=axis), last_positions
