"""Rules of operators that take from places, and put there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

from braces.builder.append import one
from braces.builder.var import Var
from braces.dtypes import BOOL, INT64
from braces.errors import ProgramError
from braces.exchange.torch_in.convert import in_dtype
from braces.exchange.torch_in.rules.arithmetic import operand
from braces.exchange.torch_in.rules.making import filled
from braces.frontend import functions as ops

REDUCTIONS = {"sum": "add", "prod": "multiply", "amax": "max", "amin": "min"}
"""What torch calls the ways in which several updates of one place become one."""


def index(x: Var, indices: Sequence[Var | None]) -> Var:
    """What stands at places that arrays say, of one axis or several."""
    places = [axis for axis, at in enumerate(indices) if at is not None]
    if len(places) == 1:
        return ops.take(x, _whole(indices[places[0]]), axis=places[0])
    front, given = _gathered(x, indices, places)
    made = ops.gather_nd(front, given)
    together = places == list(range(places[0], places[-1] + 1))
    if not together or not places[0]:
        return made
    count = made.ndim - (x.ndim - len(places))
    return ops.moveaxis(made, tuple(range(count)), tuple(range(places[0], places[0] + count)))


def _gathered(
    x: Var, indices: Sequence[Var | None], places: Sequence[int]
) -> tuple[Var, list[Var]]:
    """An array with the axes that are indexed first, and an index for each of them."""
    given = [_whole(at) for at in indices if at is not None]
    return ops.moveaxis(x, tuple(places), tuple(range(len(places)))), given


def _whole(at: Var | None) -> Var:
    if at is None or at.dtype == BOOL:
        raise ProgramError(
            "An index of truth values is not read: how many are true is known only in a run.",
            fix="Use torch.where, or masks that numbers are multiplied with.",
        )
    return in_dtype(at, INT64)


def index_put(
    x: Var, indices: Sequence[Var | None], values: Var, accumulate: bool = False
) -> Var:
    """An array with values put at places, or added to them."""
    places = [axis for axis, at in enumerate(indices) if at is not None]
    values = in_dtype(values, x.dtype)
    only = indices[places[0]]
    if len(places) == 1 and only is not None and only.dtype == BOOL:
        return _put_where(x, only, places[0], values, accumulate)
    front, given = _gathered(x, indices, places)
    chosen = reduce(add, given).shape  # the shape that all indices have together
    updates = ops.broadcast_to(values, (*chosen, *front.shape[len(places) :]))
    made = one("scatter_nd_add" if accumulate else "scatter_nd", front, updates, *given)
    return ops.moveaxis(made, tuple(range(len(places))), tuple(places))


def _put_where(x: Var, mask: Var, first: int, values: Var, accumulate: bool) -> Var:
    """One value wherever a mask holds."""
    if values.ndim:
        raise ProgramError("Several values cannot be put where a mask holds.")
    rest = x.ndim - first - mask.ndim
    mask = ops.reshape(mask, (*mask.shape, *[1] * rest))
    return ops.where(mask, x + values if accumulate else values, x)


def gather(x: Var, axis: int, at: Var, **options: Any) -> Var:
    """For each place, the element of its line that an index says."""
    at = in_dtype(at, INT64)
    return ops.take_along_axis(_cut_like(x, at, axis), at, axis=axis)


def _cut_like(x: Var, at: Var, axis: int) -> Var:
    """The part of an array that an index of a smaller shape reads."""
    for place, (own, other) in enumerate(zip(x.shape, at.shape, strict=True)):
        if place != axis % x.ndim and own != other and isinstance(other, int):
            x = x[(*[slice(None)] * place, slice(other))]
    return x


def scatter(x: Var, axis: int, at: Var, source: Any, *, reduce: str = "") -> Var:
    """An array with an update for each place along an axis, that an index says."""
    ways = {"": "set", "add": "add", "multiply": "multiply"}
    return _scattered(x, axis, at, source, ways[reduce])


def scatter_reduce(
    x: Var, axis: int, at: Var, source: Var, reduce: str, *, include_self: bool = True
) -> Var:
    """An array with updates joined to what stands at each place."""
    if not include_self or reduce not in REDUCTIONS:
        raise ProgramError(f"A scatter by {reduce} without what stands there is not read.")
    return _scattered(x, axis, at, source, REDUCTIONS[reduce])


def _scattered(x: Var, axis: int, at: Var, source: Any, way: str) -> Var:
    at = in_dtype(at, INT64)
    if not isinstance(source, Var):
        source = filled(at.shape, source, dtype=x.dtype)
    source = in_dtype(_cut_like(source, at, -1), x.dtype)
    if way == "add":
        return one("put_along_axis_add", x, at, source, axis=axis)
    return ops.put_along_axis(x, at, source, axis=axis, reduction=way)


def index_add(x: Var, axis: int, at: Var, source: Var, *, alpha: Any = 1) -> Var:
    """An array with slices added to those that an index says."""
    scaled = source if alpha == 1 else source * alpha
    return ops.scatter_add(x, in_dtype(at, INT64), scaled, axis=axis)


def masked_fill(x: Var, mask: Var, value: Any) -> Var:
    """One number where a mask holds."""
    return ops.where(in_dtype(mask, BOOL), operand(value, x.dtype), x)


def embedding(
    table: Var, ids: Var, padding: int = -1, by_count: bool = False, sparse: bool = False
) -> Var:
    """Rows of a table; no gradient reaches the row of padding."""
    if by_count:
        raise ProgramError("An embedding whose gradient is scaled by counts is not read.")
    rows = ops.take(table, ids, axis=0)
    if padding < 0:
        return rows
    padded = ops.expand_dims(ops.equal(ids, padding), axis=-1)
    return ops.where(padded, ops.stop_gradient(rows), rows)


def one_hot(ids: Var, classes: int = -1) -> Var:
    """A one in the place of each id."""
    if classes < 0:
        raise ProgramError("one_hot needs the number of classes.", fix="num_classes=10")
    return ops.one_hot(ids, num_classes=classes, dtype=INT64)


def index_select(x: Var, axis: int, at: Var) -> Var:
    """Slices of an array along one axis."""
    return ops.take(x, in_dtype(at, INT64), axis=axis)


def scatter_add(x: Var, axis: int, at: Var, source: Var) -> Var:
    """An array with an update added for each place along an axis."""
    return _scattered(x, axis, at, source, "add")


def take_along_dim(x: Var, at: Var, axis: int) -> Var:
    """For each place, the element of its line that an index says."""
    return gather(x, axis, at)


INDEXING: Mapping[str, Callable[..., Any]] = {
    "embedding": embedding,
    "gather": gather,
    "index": index,
    "index_add": index_add,
    "index_put": index_put,
    "index_select": index_select,
    "masked_fill": masked_fill,
    "one_hot": one_hot,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_reduce": scatter_reduce,
    "take_along_dim": take_along_dim,
}
