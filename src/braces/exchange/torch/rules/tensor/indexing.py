"""Rules of gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import inf
from operator import add
from typing import Any

import numpy as np

from braces.errors import ProgramError
from braces.exchange.common.rules.along_axis import (
    gather_along,
    norm,
    scatter_along,
    scatter_nd,
)
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.torch.rules.tensor.arithmetic import operand
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.exchange.torch.rules.tensor.nonzero_unique import mask_indices, mask_ranks
from braces.exchange.torch.rules.tensor.shape import common_shape
from braces.extend import dims, functions as ops
from braces.extend.building import Var
from braces.extend.constructs import custom_gradient
from braces.extend.types import BOOL, INT64, Shape, Size, is_float, is_integer

REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""The reductions of scatters, by torch's names."""
Places = Sequence["Var | None"]


def expand_masks(indices: Places) -> list[Var | None]:
    """Replace masks in indices by the indices of their true elements."""
    result = list[Var | None]()
    for at in indices:
        result.extend(mask_indices(at) if at is not None and _is_mask(at) else [at])
    return result


def _is_mask(at: Var) -> bool:
    return at.dtype in (BOOL, "uint8")


def index(x: Var, indices: Places) -> Var:
    """Indexing by arrays or masks along one axis or several."""
    indices = expand_masks(indices)
    indexed_axes = [axis for axis, at in enumerate(indices) if at is not None]
    if len(indexed_axes) == 1:
        return ops.take(x, *_index_arrays(indices), axis=indexed_axes[0])
    gathered = ops.gather_nd(_in_front(x, indexed_axes), _index_arrays(indices))
    is_contiguous = indexed_axes == list(range(indexed_axes[0], indexed_axes[-1] + 1))
    if not is_contiguous or not indexed_axes[0]:
        return gathered
    count = gathered.ndim - (x.ndim - len(indexed_axes))
    return ops.moveaxis(
        gathered, tuple(range(count)), tuple(range(indexed_axes[0], indexed_axes[0] + count))
    )


def _in_front(x: Var, places: Sequence[int]) -> Var:
    """Move the indexed axes to the front."""
    return ops.moveaxis(x, tuple(places), tuple(range(len(places))))


def _index_arrays(indices: Places) -> list[Var]:
    return [cast_to_dtype(at, INT64) for at in indices if at is not None]


def index_put(x: Var, indices: Places, values: Var, accumulate: bool = False) -> Var:
    """Put or add values at indices, or at the true elements of masks."""
    values = cast_to_dtype(values, x.dtype)
    first, *others = [axis for axis, at in enumerate(indices) if at is not None]
    only = indices[first]
    if not others and only is not None and _is_mask(only):
        return _put_where(x, only, first, values, accumulate)
    indices = expand_masks(indices)
    indexed_axes = [axis for axis, at in enumerate(indices) if at is not None]
    front, index_arrays = _in_front(x, indexed_axes), _index_arrays(indices)
    index_shape = reduce(add, index_arrays).shape  # the broadcast shape of all indices
    updates = _updates(x, values, indexed_axes, index_shape)
    scattered = scatter_nd(front, updates, index_arrays, "add" if accumulate else "set")
    return ops.moveaxis(scattered, tuple(range(len(indexed_axes))), tuple(indexed_axes))


def _updates(x: Var, values: Var, places: Sequence[int], chosen: Shape) -> Var:
    """Broadcast values to all indices, with the index axes first."""
    other_sizes = [size for axis, size in enumerate(x.shape) if axis not in places]
    first = places[0] if list(places) == list(range(places[0], places[-1] + 1)) else 0
    broadcast_values = ops.broadcast_to(
        values, (*other_sizes[:first], *chosen, *other_sizes[first:])
    )
    index_axes = tuple(range(first, first + len(chosen)))
    return (
        ops.moveaxis(broadcast_values, index_axes, tuple(range(len(chosen))))
        if first and index_axes
        else broadcast_values
    )


def _put_where(x: Var, mask: Var, first: int, values: Var, accumulate: bool) -> Var:
    """Put values in order at the true elements of a mask; the number of these is not needed."""
    mask = cast_to_dtype(mask, BOOL)
    rank = x.ndim - mask.ndim + 1
    values = ops.reshape(values, (*[1] * (rank - values.ndim), *values.shape))
    selected = ops.take(values, _ranks(mask, values.shape[first]), axis=first)
    trailing_rank = x.ndim - first - mask.ndim
    aligned_mask = ops.reshape(mask, (*mask.shape, *[1] * trailing_rank))
    return ops.where(aligned_mask, x + selected if accumulate else selected, x)


def _ranks(mask: Var, count: Size) -> Var:
    alone = isinstance(count, int) and count == 1
    return ops.zeros_like(mask, dtype=INT64) if alone else mask_ranks(mask)


# ---- along one axis --------------------------------------------------------------------------


def gather(x: Var, axis: int, at: Var, **options: Any) -> Var:
    """A gather with an index per element along an axis."""
    if 0 in at.shape:
        return fill_shape(at.shape, 0, dtype=x.dtype)
    if not x.ndim:
        return ops.reshape(x, at.shape)
    return gather_along(x, cast_to_dtype(at, INT64), axis)


def scatter(x: Var, axis: int, at: Var, source: Any, *, reduce: str = "") -> Var:
    """A scatter with an index per element along an axis."""
    reductions = {"": "set", "add": "add", "multiply": "mul"}
    return _scatter_along(x, axis, at, source, reductions[reduce])


def scatter_reduce(
    x: Var, axis: int, at: Var, source: Var, reduce: str, *, include_self: bool = True
) -> Var:
    """A scatter with a reduction, which includes the old values or not."""
    start = x if include_self else _reset_targets(x, axis, at, reduce)
    if reduce != "mean":
        return _scatter_along(start, axis, at, source, REDUCTIONS[reduce])
    total = _scatter_along(start, axis, at, source, "add")
    base = ops.ones_like(x, dtype=INT64) if include_self else ops.zeros_like(x, dtype=INT64)
    counts = cast_to_dtype(ops.maximum(_scatter_along(base, axis, at, 1, "add"), 1), x.dtype)
    return total / counts if is_float(x.dtype) else ops.floor_divide(total, counts)


def _reset_targets(x: Var, axis: int, at: Var, reduce: str) -> Var:
    """Replace the targets of a scatter by the identity element of the reduction."""
    is_target = _scatter_along(ops.zeros_like(x, dtype=INT64), axis, at, 1, "add") > 0
    info: Any = np.iinfo(x.dtype) if is_integer(x.dtype) else None
    least, most = (-inf, inf) if info is None else (info.min, info.max)
    identity = {"sum": 0, "mean": 0, "prod": 1, "amax": least, "amin": most}[reduce]
    return ops.where(is_target, operand(identity, x.dtype), x)


def index_reduce(
    x: Var, axis: int, at: Var, source: Var, reduce: str, *, include_self: bool = True
) -> Var:
    """A scatter of slices with a reduction."""
    shape: list[Size] = [1] * x.ndim
    if x.ndim:
        shape[axis % x.ndim] = as_index_vector(at).shape[0]
    broadcast_index = ops.broadcast_to(ops.reshape(at, shape), source.shape)
    return scatter_reduce(x, axis, broadcast_index, source, reduce, include_self=include_self)


def _scatter_along(x: Var, axis: int, at: Var, source: Any, way: str) -> Var:
    if not x.ndim:
        source_vector = ops.reshape(source, (1,)) if isinstance(source, Var) else source
        result_ = _scatter_along(
            ops.reshape(x, (1,)), 0, ops.reshape(at, (1,)), source_vector, way
        )
        return ops.reshape(result_, ())
    at = cast_to_dtype(at, INT64)
    if not isinstance(source, Var):
        source = fill_shape(at.shape, source, dtype=x.dtype)
    source = cast_to_dtype(_crop_to(source, at), x.dtype)
    return scatter_along(x, at, source, axis, way)


def _crop_to(source: Var, at: Var) -> Var:
    """Crop updates to the shape of the indices."""
    bounds = (slice(n) if isinstance(n, int) else slice(None) for n in at.shape)
    return source if source.shape == at.shape else source[tuple(bounds)]


def index_add(x: Var, axis: int, at: Var, source: Var, *, alpha: Any = 1) -> Var:
    """A scatter-add of slices."""
    scaled = source if alpha == 1 else source * alpha
    return ops.scatter_add(x, as_index_vector(at), scaled, axis=axis) if x.ndim else x + scaled


def masked_fill(x: Var, mask: Var, value: Any) -> Var:
    """Fill the true elements of a mask."""
    return ops.where(cast_to_dtype(mask, BOOL), operand(value, x.dtype), x)


def embedding(
    table: Var, ids: Var, padding: int = -1, by_count: bool = False, sparse: bool = False
) -> Var:
    """Rows of a table; the padding row has no gradient."""
    rows = _scaled_by_counts(table, ids) if by_count else ops.take(table, ids, axis=0)
    if padding < 0:
        return rows
    padded = ops.expand_dims(ops.equal(ids, padding), axis=-1)
    return ops.where(padded, ops.stop_gradient(rows), rows)


def embedding_renorm(table: Var, ids: Var, most: float, p: float = 2.0) -> Var:
    """A table whose used rows are scaled down to a norm; the gradient passes through."""
    flat = cast_to_dtype(ops.reshape(ids, (dims.product(ids.shape),)), INT64)
    zeros = fill_shape((table.shape[0],), 0, dtype=INT64)
    used = ops.scatter_add(zeros, flat, ops.ones_like(flat), axis=0) > 0

    @custom_gradient
    def scaled(table: Var) -> tuple[Var, Callable[[Var], Var]]:
        norms = norm(table, p, 1)
        factors = ops.where(used & (norms > most), most / (norms + 1e-7), 1.0)
        return table * ops.expand_dims(factors, axis=1), lambda grad: grad

    return scaled(table)


def _scaled_by_counts(table: Var, ids: Var) -> Var:
    """Rows of a table, with gradients divided by the number of occurrences."""
    rows = ops.take(table, ids, axis=0)
    zero_counts = fill_shape((table.shape[0],), 0, dtype=INT64)
    flat = cast_to_dtype(ops.reshape(ids, (dims.product(ids.shape),)), INT64)
    counts = ops.scatter_add(zero_counts, flat, ops.ones_like(flat), axis=0)
    inverse_counts = 1.0 / cast_to_dtype(
        ops.expand_dims(ops.take(counts, ids, axis=0), axis=-1), rows.dtype
    )
    return rows * inverse_counts + ops.stop_gradient(rows - rows * inverse_counts)


def one_hot(ids: Var, classes: int = -1) -> Var:
    """One-hot encoding."""
    if classes < 0:
        raise ProgramError("one_hot: missing num_classes.", fix="Pass num_classes=10.")
    return ops.one_hot(ids, num_classes=classes, dtype=INT64)


def index_select(x: Var, axis: int, at: Var) -> Var:
    """Slices along an axis."""
    return ops.take(x, as_index_vector(at), axis=axis) if x.ndim else ops.identity(x)


def as_index_vector(at: Var) -> Var:
    """Return an index vector; torch also allows a scalar."""
    at = cast_to_dtype(at, INT64)
    return at if at.ndim else ops.reshape(at, (1,))


def scatter_add(x: Var, axis: int, at: Var, source: Var) -> Var:
    """A scatter-add with an index per element along an axis."""
    return _scatter_along(x, axis, at, source, "add")


def take_along_dim(x: Var, at: Var, axis: int | None = None) -> Var:
    """A gather with an index per element along an axis, where all other axes broadcast."""
    if axis is None:
        flat, indices = (ops.reshape(v, (dims.product(v.shape),)) for v in (x, at))
        return gather(flat, 0, indices)
    moved = [ops.moveaxis(v, axis, -1) for v in (x, at)]
    batch = common_shape(*(v.shape[:-1] for v in moved))
    x, at = (ops.broadcast_to(v, (*batch, v.shape[-1])) for v in moved)
    return ops.moveaxis(gather(x, -1, at), -1, axis)


def put(x: Var, at: Var, source: Var, accumulate: bool = False) -> Var:
    """Put values at indices of the flattened array."""
    flat = ops.reshape(x, (dims.product(x.shape),))
    return ops.reshape(index_put(flat, [at], source, accumulate), x.shape)


INDEXING: Mapping[str, Callable[..., Any]] = {
    "embedding": embedding,
    "embedding_renorm": embedding_renorm,
    "gather": gather,
    "index": index,
    "index_add": index_add,
    "index_put": index_put,
    "index_reduce": index_reduce,
    "index_select": index_select,
    "masked_fill": masked_fill,
    "one_hot": one_hot,
    "put": put,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
    "take_along_dim": take_along_dim,
}
