"""Rules of operators with data-dependent output sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.rules.selection import (
    bincount,
    count_below,
    mask_indices,
    repeat_by_counts,
    selected_by_mask,
    unique_consecutive,
)
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.exchange.torch.rules.tensor.shape import broadcast_tensors
from braces.extend import data_dependent, dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import BOOL, INT64, Dim


def nonzero(x: Var) -> Var:
    """The indices of nonzero elements, one row for each."""
    if not x.ndim:
        return ops.stack(mask_indices(ops.reshape(x, (1,))), axis=1)[:, :0]
    return ops.stack(mask_indices(x), axis=1)


def nonzero_numpy(x: Var) -> list[Var]:
    """The indices of nonzero elements, one array for each axis."""
    return mask_indices(x if x.ndim else ops.reshape(x, (1,)))


def nonzero_static(x: Var, *, size: int, fill_value: int = -1) -> Var:
    """The first indices of nonzero elements, padded to a fixed number."""
    indices_ = ops.stack(list(data_dependent.nonzero(x, size)), axis=1)
    count = ops.sum(cast_to_dtype(ops.not_equal(x, ops.zeros_like(x)), INT64))
    is_valid = ops.expand_dims(emit("arange", stop=size), axis=1) < count
    return ops.where(is_valid, indices_, fill_value)


def masked_select(x: Var, mask: Var) -> Var:
    """The elements where a mask is true."""
    return selected_by_mask(*broadcast_tensors([x, cast_to_dtype(mask, BOOL)]))


def mask_ranks(mask: Var) -> Var:
    """Return the number of true elements before each one; 0 before the first."""
    flat = cast_to_dtype(ops.reshape(mask, (dims.product(mask.shape),)), INT64)
    rank = ops.maximum(ops.cumsum(flat, axis=0) - 1, 0)
    return ops.reshape(rank, mask.shape)


def masked_scatter(x: Var, mask: Var, source: Var) -> Var:
    """Put the elements of an array, in order, where a mask is true."""
    x, mask = broadcast_tensors([x, cast_to_dtype(mask, BOOL)])
    flat = ops.reshape(source, (dims.product(source.shape),))
    return ops.where(mask, ops.take(flat, mask_ranks(mask), axis=0), x)


# ---- unique ----------------------------------------------------------------------------------


def unique(
    x: Var, in_order: bool = True, inverse: bool = False, counts: bool = False
) -> tuple[Var, Var | None, Var | None]:
    """Sorted unique numbers, with optional inverse indices and counts."""
    values, _, inverse_indices, occurrences = data_dependent.unique(x)
    return (
        values, ops.reshape(inverse_indices, x.shape) if inverse else None,
        occurrences if counts else None,
    )  # fmt: skip


def unique_dim(
    x: Var, axis: int, in_order: bool = True, inverse: bool = False, counts: bool = False
) -> tuple[Var, Var | None, Var | None]:
    """Unique slices, with optional inverse indices and counts."""
    values, _, inverse_indices, occurrences = data_dependent.unique(x, axis)
    return values, inverse_indices if inverse else None, occurrences if counts else None


# ---- sorted search ---------------------------------------------------------------------------


def bucketize(x: Any, bounds: Var, *, out_int32: bool = False, right: bool = False) -> Var:
    """The number of bounds below each number, or not above it."""
    values = x if isinstance(x, Var) else fill_shape((), x, dtype=bounds.dtype)
    return count_below(bounds, values, right=right)


def searchsorted(
    ordered: Var, x: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Var | None = None,
) -> Var:  # fmt: skip
    """The insertion positions of numbers in sorted rows."""
    if sorter is not None:
        ordered = ops.take_along_axis(ordered, cast_to_dtype(sorter, INT64), axis=-1)
    values = x if isinstance(x, Var) else fill_shape((), x, dtype=ordered.dtype)
    if ordered.ndim > 1:
        ordered = ops.expand_dims(ordered, axis=-2)
    return count_below(ordered, values, right=right or side == "right")


def only_element(x: Any) -> Any:
    """The only element of an array."""
    return ops.reshape(x, ()) if isinstance(x, Var) and x.ndim else x


def unfold(x: Var, axis: int, size: int, step: int) -> Var:
    """Sliding windows of an axis, as a new last axis."""
    at, axis_size = axis % x.ndim, x.shape[axis]
    if isinstance(axis_size, Dim):
        count = sizes.plus(sizes.truncated_quotient(sizes.minus(axis_size, size), step), 1)
    else:
        count = (axis_size - size) // step + 1
    starts = emit("arange", stop=count) * step
    positions = ops.expand_dims(starts, axis=1) + emit("arange", stop=size)
    return ops.moveaxis(ops.take(x, positions, axis=at), at + 1, -1)


def diag_embed(x: Var, offset: int = 0, first: int = -2, second: int = -1) -> Var:
    """Matrices with the last axis as a diagonal."""
    size = x.shape[-1]
    rows = ops.expand_dims(emit("arange", stop=sizes.plus(size, abs(offset))), axis=1)
    columns = emit("arange", stop=sizes.plus(size, abs(offset)))
    padding = [(0, 0)] * (x.ndim - 1) + [(max(-offset, 0), max(offset, 0))]
    spread = ops.expand_dims(ops.pad(x, padding), axis=-1)
    matrices = ops.where(ops.equal(columns - rows, offset), spread, ops.zeros_like(spread))
    return ops.moveaxis(matrices, (-2, -1), (first, second))


def diagonal_scatter(
    x: Var, source: Var, offset: int = 0, first: int = 0, second: int = 1
) -> Var:
    """An array with the diagonal of two axes replaced."""
    matrices = ops.moveaxis(x, (first, second), (-2, -1))
    rows, columns = (emit("arange", stop=size) for size in matrices.shape[-2:])
    on_diagonal = ops.equal(columns - ops.expand_dims(rows, axis=1), offset)
    at = ops.maximum(rows - max(-offset, 0), 0)
    size = number_of(source.shape[-1])
    aligned_source = ops.take(source, ops.minimum(at, size - 1), axis=-1)
    replaced = ops.where(
        on_diagonal, ops.expand_dims(cast_to_dtype(aligned_source, x.dtype), axis=-1), matrices
    )
    return ops.moveaxis(replaced, (-2, -1), (first, second))


FINDING: Mapping[str, Callable[..., Any]] = {
    "_unique2": unique,
    "bincount": bincount,
    "bucketize": bucketize,
    "diag_embed": diag_embed,
    "diagonal_scatter": diagonal_scatter,
    "item": only_element,
    "_local_scalar_dense": only_element,
    "masked_scatter": masked_scatter,
    "masked_select": masked_select,
    "nonzero": nonzero,
    "nonzero_numpy": nonzero_numpy,
    "nonzero_static": nonzero_static,
    "repeat_interleave.Tensor": repeat_by_counts,
    "searchsorted": searchsorted,
    "unfold": unfold,
    "unique_consecutive": unique_consecutive,
    "unique_dim": unique_dim,
    "where.default": nonzero_numpy,
}
