"""Rules of operators that take from places, and put there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import inf
from operator import add
from typing import Any

import numpy as np

from braces import dims
from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Shape, Size
from braces.dtypes import BOOL, INT64, is_float, is_integer
from braces.errors import ProgramError
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.torch.rules.tensor.arithmetic import operand
from braces.exchange.torch.rules.tensor.creation_random import filled
from braces.exchange.torch.rules.tensor.nonzero_unique import places_of, ranks_in
from braces.frontend.core import functions as ops

REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""What torch calls the ways in which several updates of one place become one."""
Places = Sequence["Var | None"]


def expanded(indices: Places) -> list[Var | None]:
    """Indices with the places where masks hold in place of the masks."""
    made = list[Var | None]()
    for at in indices:
        made.extend(places_of(at) if at is not None and _is_mask(at) else [at])
    return made


def _is_mask(at: Var) -> bool:
    return at.dtype in (BOOL, "uint8")


def index(x: Var, indices: Places) -> Var:
    """What stands at places that arrays say, of one axis or several; or where masks hold."""
    indices = expanded(indices)
    places = [axis for axis, at in enumerate(indices) if at is not None]
    if len(places) == 1:
        return ops.take(x, *_whole(indices), axis=places[0])
    made = ops.gather_nd(_in_front(x, places), _whole(indices))
    together = places == list(range(places[0], places[-1] + 1))
    if not together or not places[0]:
        return made
    count = made.ndim - (x.ndim - len(places))
    return ops.moveaxis(made, tuple(range(count)), tuple(range(places[0], places[0] + count)))


def _in_front(x: Var, places: Sequence[int]) -> Var:
    """An array with the axes that are indexed first."""
    return ops.moveaxis(x, tuple(places), tuple(range(len(places))))


def _whole(indices: Places) -> list[Var]:
    return [in_dtype(at, INT64) for at in indices if at is not None]


def index_put(x: Var, indices: Places, values: Var, accumulate: bool = False) -> Var:
    """An array with values put at places, or added to them; or where masks hold."""
    values = in_dtype(values, x.dtype)
    first, *others = [axis for axis, at in enumerate(indices) if at is not None]
    only = indices[first]
    if not others and only is not None and _is_mask(only):
        return _put_where(x, only, first, values, accumulate)
    indices = expanded(indices)
    places = [axis for axis, at in enumerate(indices) if at is not None]
    front, given = _in_front(x, places), _whole(indices)
    chosen = reduce(add, given).shape  # what all indices have together
    updates = _updates(x, values, places, chosen)
    made = one("scatter_nd_add" if accumulate else "scatter_nd", front, updates, *given)
    return ops.moveaxis(made, tuple(range(len(places))), tuple(places))


def _updates(x: Var, values: Var, places: Sequence[int], chosen: Shape) -> Var:
    """Values for all places, with the axes of the indices first, as `index` would give them."""
    rest = [size for axis, size in enumerate(x.shape) if axis not in places]
    first = places[0] if list(places) == list(range(places[0], places[-1] + 1)) else 0
    spread = ops.broadcast_to(values, (*rest[:first], *chosen, *rest[first:]))
    moved = tuple(range(first, first + len(chosen)))
    return ops.moveaxis(spread, moved, tuple(range(len(chosen)))) if first and moved else spread


def _put_where(x: Var, mask: Var, first: int, values: Var, accumulate: bool) -> Var:
    """Values in order wherever a mask holds, or one everywhere: nothing asks how many."""
    mask = in_dtype(mask, BOOL)
    rank = x.ndim - mask.ndim + 1
    values = ops.reshape(values, (*[1] * (rank - values.ndim), *values.shape))
    spread = ops.take(values, _ranks(mask, values.shape[first]), axis=first)
    rest = x.ndim - first - mask.ndim
    here = ops.reshape(mask, (*mask.shape, *[1] * rest))
    return ops.where(here, x + spread if accumulate else spread, x)


def _ranks(mask: Var, count: Size) -> Var:
    alone = isinstance(count, int) and count == 1
    return ops.zeros_like(mask, dtype=INT64) if alone else ranks_in(mask)


# ---- along one axis --------------------------------------------------------------------------


def gather(x: Var, axis: int, at: Var, **options: Any) -> Var:
    """For each place, the element of its line that an index says."""
    if not x.ndim:
        return ops.reshape(x, at.shape)
    at = in_dtype(at, INT64)
    if _in_lines(x, at, axis):
        return ops.take_along_axis(x, at, axis=axis)
    return ops.gather_nd(x, _each_place(at, axis))


def _in_lines(x: Var, at: Var, axis: int) -> bool:
    """Whether there are indices for all lines of an axis; there may be for the first ones."""
    pairs = enumerate(zip(x.shape, at.shape, strict=True))
    return all(place == axis % x.ndim or own == other for place, (own, other) in pairs)


def _each_place(at: Var, axis: int) -> list[Var]:
    """An index for each axis, where one says that of one axis for each number."""

    def counted(place: int) -> Var:
        shape = [1] * at.ndim
        count = one("arange", stop=at.shape[place])
        return ops.reshape(count, (*shape[:place], at.shape[place], *shape[place + 1 :]))

    return [at if place == axis % at.ndim else counted(place) for place in range(at.ndim)]


def scatter(x: Var, axis: int, at: Var, source: Any, *, reduce: str = "") -> Var:
    """An array with an update for each place along an axis, that an index says."""
    ways = {"": "set", "add": "add", "multiply": "mul"}
    return _scattered(x, axis, at, source, ways[reduce])


def scatter_reduce(
    x: Var, axis: int, at: Var, source: Var, reduce: str, *, include_self: bool = True
) -> Var:
    """An array with updates joined to what stands at each place, or put in its place."""
    start = x if include_self else _emptied(x, axis, at, reduce)
    if reduce != "mean":
        return _scattered(start, axis, at, source, REDUCTIONS[reduce])
    total = _scattered(start, axis, at, source, "add")
    base = ops.ones_like(x, dtype=INT64) if include_self else ops.zeros_like(x, dtype=INT64)
    counts = in_dtype(ops.maximum(_scattered(base, axis, at, 1, "add"), 1), x.dtype)
    return total / counts if is_float(x.dtype) else ops.floor_divide(total, counts)


def _emptied(x: Var, axis: int, at: Var, reduce: str) -> Var:
    """An array that holds, where updates come, what changes no result."""
    touched = _scattered(ops.zeros_like(x, dtype=INT64), axis, at, 1, "add") > 0
    info: Any = np.iinfo(x.dtype) if is_integer(x.dtype) else None
    least, most = (-inf, inf) if info is None else (info.min, info.max)
    empty = {"sum": 0, "mean": 0, "prod": 1, "amax": least, "amin": most}[reduce]
    return ops.where(touched, operand(empty, x.dtype), x)


def index_reduce(
    x: Var, axis: int, at: Var, source: Var, reduce: str, *, include_self: bool = True
) -> Var:
    """An array with slices joined to those that an index says."""
    shape: list[Size] = [1] * x.ndim
    if x.ndim:
        shape[axis % x.ndim] = in_a_row(at).shape[0]
    spread = ops.broadcast_to(ops.reshape(at, shape), source.shape)
    return scatter_reduce(x, axis, spread, source, reduce, include_self=include_self)


def _scattered(x: Var, axis: int, at: Var, source: Any, way: str) -> Var:
    if not x.ndim:
        wide = ops.reshape(source, (1,)) if isinstance(source, Var) else source
        made = _scattered(ops.reshape(x, (1,)), 0, ops.reshape(at, (1,)), wide, way)
        return ops.reshape(made, ())
    at = in_dtype(at, INT64)
    if not isinstance(source, Var):
        source = filled(at.shape, source, dtype=x.dtype)
    source = in_dtype(_cut_like(source, at), x.dtype)
    if not _in_lines(x, at, axis):
        places = _each_place(at, axis)
        if way == "add":
            return ops.scatter_nd_add(x, source, places)
        return ops.scatter_nd(x, source, places, reduction=way)
    if way == "add":
        return one("put_along_axis_add", x, at, source, axis=axis)
    return ops.put_along_axis(x, at, source, axis=axis, reduction=way)


def _cut_like(source: Var, at: Var) -> Var:
    """The part of updates for which there are indices."""
    bounds = (slice(n) if isinstance(n, int) else slice(None) for n in at.shape)
    return source if source.shape == at.shape else source[tuple(bounds)]


def index_add(x: Var, axis: int, at: Var, source: Var, *, alpha: Any = 1) -> Var:
    """An array with slices added to those that an index says."""
    scaled = source if alpha == 1 else source * alpha
    return ops.scatter_add(x, in_a_row(at), scaled, axis=axis) if x.ndim else x + scaled


def masked_fill(x: Var, mask: Var, value: Any) -> Var:
    """One number where a mask holds."""
    return ops.where(in_dtype(mask, BOOL), operand(value, x.dtype), x)


def embedding(
    table: Var, ids: Var, padding: int = -1, by_count: bool = False, sparse: bool = False
) -> Var:
    """Rows of a table; no gradient reaches the row of padding."""
    rows = _scaled_by_counts(table, ids) if by_count else ops.take(table, ids, axis=0)
    if padding < 0:
        return rows
    padded = ops.expand_dims(ops.equal(ids, padding), axis=-1)
    return ops.where(padded, ops.stop_gradient(rows), rows)


def _scaled_by_counts(table: Var, ids: Var) -> Var:
    """Rows of a table, whose gradients are divided by how often they occur."""
    rows = ops.take(table, ids, axis=0)
    once = filled((table.shape[0],), 0, dtype=INT64)
    flat = in_dtype(ops.reshape(ids, (dims.product(ids.shape),)), INT64)
    counts = ops.scatter_add(once, flat, ops.ones_like(flat), axis=0)
    share = 1.0 / in_dtype(ops.expand_dims(ops.take(counts, ids, axis=0), axis=-1), rows.dtype)
    return rows * share + ops.stop_gradient(rows - rows * share)


def one_hot(ids: Var, classes: int = -1) -> Var:
    """A one in the place of each id."""
    if classes < 0:
        raise ProgramError("one_hot needs the number of classes.", fix="num_classes=10")
    return ops.one_hot(ids, num_classes=classes, dtype=INT64)


def index_select(x: Var, axis: int, at: Var) -> Var:
    """Slices of an array along one axis."""
    return ops.take(x, in_a_row(at), axis=axis) if x.ndim else ops.identity(x)


def in_a_row(at: Var) -> Var:
    """Indices along one axis; torch takes one index without an axis for it, too."""
    at = in_dtype(at, INT64)
    return at if at.ndim else ops.reshape(at, (1,))


def scatter_add(x: Var, axis: int, at: Var, source: Var) -> Var:
    """An array with an update added for each place along an axis."""
    return _scattered(x, axis, at, source, "add")


def take_along_dim(x: Var, at: Var, axis: int) -> Var:
    """For each place, the element of its line that an index says."""
    return gather(x, axis, at)


def put(x: Var, at: Var, source: Var, accumulate: bool = False) -> Var:
    """An array with values put at places of it taken as flat."""
    flat = ops.reshape(x, (dims.product(x.shape),))
    return ops.reshape(index_put(flat, [at], source, accumulate), x.shape)


INDEXING: Mapping[str, Callable[..., Any]] = {
    "embedding": embedding,
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
