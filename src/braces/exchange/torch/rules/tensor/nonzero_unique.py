"""Rules of operators that find something in numbers, of which only a run knows how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces import dims
from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import BOOL, INT64
from braces.errors import ProgramError
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.torch.rules.tensor.creation_random import filled
from braces.exchange.torch.rules.tensor.shape import broadcast_tensors
from braces.frontend.array_api import data_dependent as found
from braces.frontend.core import functions as ops


def places_of(mask: Var) -> list[Var]:
    """Where a mask holds, one index for each of its axes.

    Raises:
        ProgramError: It has no axes.
    """
    if not mask.ndim:
        raise ProgramError("A mask without axes is not read.", fix="Use torch.where.")
    return list(found.nonzero(mask))


def nonzero(x: Var) -> Var:
    """The places of what is not zero, one row for each."""
    return ops.stack(places_of(x), axis=1)


def nonzero_numpy(x: Var) -> list[Var]:
    """The places of what is not zero, one array for each axis."""
    return places_of(x)


def nonzero_static(x: Var, *, size: int, fill_value: int = -1) -> Var:
    """The first places of what is not zero, so many; a number where there are no more."""
    places = ops.stack(list(found.nonzero(x, size)), axis=1)
    count = ops.sum(in_dtype(ops.not_equal(x, ops.zeros_like(x)), INT64))
    real = ops.expand_dims(one("arange", stop=size), axis=1) < count
    return ops.where(real, places, fill_value)


def masked_select(x: Var, mask: Var) -> Var:
    """The numbers at which a mask holds."""
    x, mask = broadcast_tensors([x, in_dtype(mask, BOOL)])
    return ops.gather_nd(x, places_of(mask))


def ranks_in(mask: Var) -> Var:
    """How many places before each one hold, in its shape; 0 before the first."""
    flat = in_dtype(ops.reshape(mask, (dims.product(mask.shape),)), INT64)
    before = ops.maximum(ops.cumsum(flat, axis=0) - 1, 0)
    return ops.reshape(before, mask.shape)


def masked_scatter(x: Var, mask: Var, source: Var) -> Var:
    """The numbers of an array, in order, where a mask holds."""
    x, mask = broadcast_tensors([x, in_dtype(mask, BOOL)])
    flat = ops.reshape(source, (dims.product(source.shape),))
    return ops.where(mask, ops.take(flat, ranks_in(mask), axis=0), x)


# ---- what occurs -----------------------------------------------------------------------------


def unique(
    x: Var, in_order: bool = True, inverse: bool = False, counts: bool = False
) -> tuple[Var, Var | None, Var | None]:
    """The numbers that occur, in order; which each one is; how often they occur."""
    values, _, which, times = found.unique(x)
    return (
        values, ops.reshape(which, x.shape) if inverse else None, times if counts else None
    )  # fmt: skip


def unique_dim(
    x: Var, axis: int, in_order: bool = True, inverse: bool = False, counts: bool = False
) -> tuple[Var, Var | None, Var | None]:
    """The slices that occur."""
    values, _, which, times = found.unique(x, axis)
    return values, which if inverse else None, times if counts else None


def unique_consecutive(
    x: Var, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> tuple[Var, Var | None, Var | None]:
    """The numbers or slices that differ from the one before."""
    whole = ops.reshape(x, (dims.product(x.shape),)) if dim is None else x
    axis = 0 if dim is None else dim % x.ndim
    changed = ops.not_equal(whole, ops.roll(whole, 1, axis=axis))
    others = tuple(at for at in range(whole.ndim) if at != axis)
    changed = ops.any(changed, axis=others) if others else changed
    first = ops.logical_or(changed, ops.equal(one("arange", stop=whole.shape[axis]), 0))
    (places,) = found.nonzero(first)
    which = ops.cumsum(in_dtype(first, INT64), axis=0) - 1
    none = ops.zeros_like(places)
    times = ops.scatter_add(none, which, ops.ones_like(which), axis=0) if counts else None
    shaped = ops.reshape(which, x.shape) if dim is None else which
    return ops.take(whole, places, axis=axis), shaped if inverse else None, times


def bincount(x: Var, weights: Var | None = None, least: Size = 0) -> Var:
    """How often each number occurs, or the sum of its weights."""
    none = filled((1,), -1, dtype=INT64)
    highest = ops.max(ops.concat([in_dtype(x, INT64), none], axis=0))
    count = found.as_size(ops.maximum(highest + 1, number_of(least)))
    added = ops.ones_like(x, dtype=INT64) if weights is None else weights
    start = filled((count,), 0, dtype=added.dtype)
    return ops.scatter_add(start, in_dtype(x, INT64), added, axis=0)


def interleaved(repeats: Var, *, output_size: Size | None = None) -> Var:
    """Each place as often as its number says."""
    times = in_dtype(repeats, INT64)
    total = found.as_size(ops.sum(times)) if output_size is None else output_size
    starts = ops.cumsum(times, axis=0) - times
    marks = filled((sizes.plus(total, 1),), 0, dtype=INT64)
    marks = ops.scatter_add(marks, starts, ops.ones_like(starts), axis=0)
    return one("window", ops.cumsum(marks, axis=0) - 1, start=0, size=total, axis=0)


# ---- where something would stand -------------------------------------------------------------


def bucketize(x: Any, bounds: Var, *, out_int32: bool = False, right: bool = False) -> Var:
    """How many bounds are below each number, or not above it."""
    values = x if isinstance(x, Var) else filled((), x, dtype=bounds.dtype)
    return _below(bounds, values, right=right)


def searchsorted(
    ordered: Var, x: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Var | None = None,
) -> Var:  # fmt: skip
    """Where numbers would stand in rows that are in order."""
    if sorter is not None:
        ordered = ops.take_along_axis(ordered, in_dtype(sorter, INT64), axis=-1)
    values = x if isinstance(x, Var) else filled((), x, dtype=ordered.dtype)
    if ordered.ndim > 1:
        ordered = ops.expand_dims(ordered, axis=-2)
    return _below(ordered, values, right=right or side == "right")


def _below(ordered: Var, values: Var, *, right: bool) -> Var:
    compared = ops.less_equal if right else ops.less
    found_below = compared(ordered, ops.expand_dims(values, axis=-1))
    return ops.sum(in_dtype(found_below, INT64), axis=-1)


def whole_number(x: Any) -> Any:
    """The only number of an array."""
    return ops.reshape(x, ()) if isinstance(x, Var) and x.ndim else x


def stepped(x: Var, axis: int, size: int, step: int) -> Var:
    """Windows of an axis, as a new last axis."""
    at, whole = axis % x.ndim, x.shape[axis]
    if isinstance(whole, Dim):
        count = sizes.plus(sizes.over(sizes.minus(whole, size), step), 1)
    else:
        count = (whole - size) // step + 1
    starts = one("arange", stop=count) * step
    places = ops.expand_dims(starts, axis=1) + one("arange", stop=size)
    return ops.moveaxis(ops.take(x, places, axis=at), at + 1, -1)


def diagonal_embedded(x: Var, offset: int = 0, first: int = -2, second: int = -1) -> Var:
    """Matrices with the last axis as a diagonal, of zeros elsewhere."""
    size = x.shape[-1]
    rows = ops.expand_dims(one("arange", stop=sizes.plus(size, abs(offset))), axis=1)
    columns = one("arange", stop=sizes.plus(size, abs(offset)))
    padding = [(0, 0)] * (x.ndim - 1) + [(max(-offset, 0), max(offset, 0))]
    spread = ops.expand_dims(ops.pad(x, padding), axis=-1)
    made = ops.where(ops.equal(columns - rows, offset), spread, ops.zeros_like(spread))
    return ops.moveaxis(made, (-2, -1), (first, second))


def put_diagonal(x: Var, source: Var, offset: int = 0, first: int = 0, second: int = 1) -> Var:
    """An array with the diagonal of two axes replaced."""
    moved = ops.moveaxis(x, (first, second), (-2, -1))
    rows, columns = (one("arange", stop=size) for size in moved.shape[-2:])
    here = ops.equal(columns - ops.expand_dims(rows, axis=1), offset)
    at = ops.maximum(rows - max(-offset, 0), 0)
    size = number_of(source.shape[-1])
    taken = ops.take(source, ops.minimum(at, size - 1), axis=-1)
    made = ops.where(here, ops.expand_dims(in_dtype(taken, x.dtype), axis=-1), moved)
    return ops.moveaxis(made, (-2, -1), (first, second))


FINDING: Mapping[str, Callable[..., Any]] = {
    "_unique2": unique,
    "bincount": bincount,
    "bucketize": bucketize,
    "diag_embed": diagonal_embedded,
    "diagonal_scatter": put_diagonal,
    "item": whole_number,
    "_local_scalar_dense": whole_number,
    "masked_scatter": masked_scatter,
    "masked_select": masked_select,
    "nonzero": nonzero,
    "nonzero_numpy": nonzero_numpy,
    "nonzero_static": nonzero_static,
    "repeat_interleave.Tensor": interleaved,
    "searchsorted": searchsorted,
    "unfold": stepped,
    "unique_consecutive": unique_consecutive,
    "unique_dim": unique_dim,
    "where.default": nonzero_numpy,
}
