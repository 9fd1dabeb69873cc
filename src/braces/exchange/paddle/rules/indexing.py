"""Rules of gathers and scatters."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.along_axis import scatter_along, scatter_nd
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.paddle.graph.node import PaddleOp, Rule
from braces.extend import data_dependent, functions as ops
from braces.extend.building import Var
from braces.extend.types import INT64

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


INDEXING: Mapping[str, Rule] = {
    "gather": gather,
    "gather_nd": gather_nd,
    "index_select": index_select,
    "put_along_axis": put_along,
    "scatter": scatter,
    "scatter_nd_add": scatter_nd_add,
    "take_along_axis": along,
    "where_index": where_index,
}
