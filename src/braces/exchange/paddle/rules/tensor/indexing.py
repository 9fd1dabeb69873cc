"""Rules of gathers and scatters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from operator import add
from typing import Any

from braces.exchange.common.rules.along_axis import indices_along, scatter_along, scatter_nd
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.rules.selection import mask_indices
from braces.exchange.paddle.graph.constant_folding import attribute_array
from braces.exchange.paddle.graph.node import PaddleOp, Rule
from braces.extend import data_dependent, functions as ops
from braces.extend.building import Var
from braces.extend.types import BOOL, INT64, Dim

REDUCTIONS = {"assign": "set", "add": "add", "mul": "mul", "multiply": "mul"}
"""The reductions of a scatter along an axis."""


def gather(node: PaddleOp) -> Var:
    """Slices of an axis."""
    index = node.var("Index")
    index = ops.squeeze(index, axis=1) if index.ndim == 2 else index
    axis = int(node.number("axis", "Axis", 0))
    return ops.take(node.var("X"), index, axis=axis)


def index_select(node: PaddleOp) -> Var:
    """Slices of an axis."""
    return ops.take(node.var("X"), node.var("Index"), axis=node.attr("dim", 0))


def gather_nd(node: PaddleOp) -> Var:
    """A gather by index vectors."""
    x, index = node.var("X"), node.var("Index")
    return ops.gather_nd(x, list(ops.unstack(index, axis=-1)))


def along(node: PaddleOp) -> Var:
    """A gather with an index per element along an axis."""
    index = cast_to_dtype(node.var("Index"), INT64)
    return ops.take_along_axis(node.var("Input"), index, axis=node.attr("Axis", 0))


def scatter(node: PaddleOp) -> Var:
    """A scatter of rows, which overwrites or adds."""
    x, index, updates = node.var("X"), node.var("Ids"), node.var("Updates")
    index = ops.reshape(index, (index.shape[0],)) if index.ndim else ops.reshape(index, (1,))
    if node.attr("overwrite", True):
        return scatter_nd(x, updates, [index], "set")
    cleared = scatter_nd(x, ops.zeros_like(updates), [index], "set")
    return scatter_nd(cleared, updates, [index], "add")


def scatter_nd_add(node: PaddleOp) -> Var:
    """A scatter-add by index vectors."""
    index = list(ops.unstack(node.var("Index"), axis=-1))
    return ops.scatter_nd_add(node.var("X"), node.var("Updates"), index)


def put_along(node: PaddleOp) -> Var:
    """A scatter with an index per element along an axis."""
    x, index = node.var("Input"), cast_to_dtype(node.var("Index"), INT64)
    values = ops.broadcast_to(node.var("Value"), index.shape)
    reduction = REDUCTIONS[node.attr("Reduce", "assign")]
    return scatter_along(x, index, values, node.attr("Axis", 0), reduction)


def where_index(node: PaddleOp) -> Var:
    """The indices of nonzero elements, one row for each."""
    return ops.stack(list(data_dependent.nonzero(node.var("Condition"))), axis=1)


def index_sample(node: PaddleOp) -> Var:
    """The elements of each row at its own indices."""
    return ops.take_along_axis(node.x(), cast_to_dtype(node.var("Index"), INT64), axis=1)


def index_add(node: PaddleOp) -> Var:
    """A scatter-add of slices."""
    x = node.x()
    axis = node.axis("axis", x.ndim, 0)
    return ops.scatter_add(x, node.var("Index"), node.var("AddValue"), axis=axis)


def index_put(node: PaddleOp) -> Var:
    """Put or add values at index arrays or masks of the leading axes."""
    x, arrays = node.x(), list[Var]()
    for at in node.vars("indices"):
        arrays.extend(mask_indices(at) if at.dtype == BOOL else [cast_to_dtype(at, INT64)])
    index_shape = reduce(add, arrays).shape
    shape = (*index_shape, *x.shape[len(arrays) :])
    values = ops.broadcast_to(cast_to_dtype(node.var("value"), x.dtype), shape)
    arrays = [ops.broadcast_to(at, index_shape) for at in arrays]
    return scatter_nd(x, values, arrays, "add" if node.attr("accumulate", False) else "set")


# ---- assignment to slices --------------------------------------------------------------------


def set_value(node: PaddleOp) -> Var:
    """An array with a slice replaced, whose bounds may be known at run time only."""
    x = node.var("Input")
    if node.many("none_axes"):
        node.refuse("unsupported new axes in an assignment", "Reshape the value instead.")
    axes = [axis % x.ndim for axis in node.many("axes")]
    single = {axis % x.ndim for axis in node.many("decrease_axes")}
    value = _new_value(node, x, single)
    bounds = [node.places(name, stem) for name, stem in
              (("starts", "Starts"), ("ends", "Ends"), ("steps", "Steps"))]  # fmt: skip
    replaced: Var | None = None
    for axis, start, end, step in zip(axes, *bounds, strict=True):
        inside, at = _positions(x, axis, start, end if axis not in single else None, step)
        replaced = inside if replaced is None else replaced & inside
        if value.shape[axis] != 1:
            value = ops.take(value, ops.reshape(at, (-1,)), axis=axis)
    value = ops.broadcast_to(value, x.shape)
    return value if replaced is None else ops.where(replaced, value, x)


def _new_value(node: PaddleOp, x: Var, single: Collection[int]) -> Var:
    """Return the value with the rank of the array, of size 1 along single indices."""
    value = (
        node.var("ValueTensor")
        if node.has("ValueTensor")
        else node.runner.lift(attribute_array(node))
    )
    value = cast_to_dtype(value, x.dtype)
    kept, rank = x.ndim - len(single), value.ndim
    shape = [1] * (kept - rank) + list(value.shape)[max(rank - kept, 0) :]
    for axis in sorted(single):
        shape.insert(axis, 1)
    return ops.reshape(value, shape)


def _positions(x: Var, axis: int, start: Any, end: Any, step: Any) -> tuple[Var, Var]:
    """Return whether each index of an axis is in a slice, and its position in the slice.

    Both broadcast with the array. A single index has no end.
    """
    size: Any = x.shape[axis]
    size = number_of(size) if isinstance(size, Dim) else size
    steps = indices_along(x.shape[axis], axis, x.ndim)
    first = _in_axis(start, size, 0, size)
    if end is None:
        return ops.equal(steps, first), ops.zeros_like(steps)
    if step == -1 or (isinstance(step, int) and step < 0):
        first = _smaller(first, size - 1)
        whole = isinstance(end, int) and (end == -1 or end < -(10**8))
        last = -1 if whole else _in_axis(end, size, 0, size)
        inside = (steps <= first) & (steps > last)
    else:
        inside = (steps >= first) & (steps < _in_axis(end, size, 0, size))
    offset = steps - first
    inside = inside & ops.equal(offset % step, 0)
    return inside, ops.where(inside, offset // step, ops.zeros_like(offset))


def _in_axis(bound: Any, size: Any, low: int, high: Any) -> Any:
    """Return a bound counted from the front, between two limits."""
    if isinstance(bound, int) and isinstance(size, int):
        return min(max(bound + size if bound < 0 else bound, low), high)
    bound = cast_to_dtype(bound, INT64) if isinstance(bound, Var) else number_of(bound)
    bound = ops.where(bound < 0, bound + size, bound)
    return ops.minimum(ops.maximum(bound, low), high)


def _smaller(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else ops.minimum(a, b)


INDEXING: Mapping[str, Rule] = {
    "gather": gather,
    "gather_nd": gather_nd,
    "index_add": index_add,
    "index_put": index_put,
    "index_sample": index_sample,
    "index_select": index_select,
    "put_along_axis": put_along,
    "scatter": scatter,
    "scatter_nd_add": scatter_nd_add,
    "set_value": set_value,
    "take_along_axis": along,
    "where_index": where_index,
}
