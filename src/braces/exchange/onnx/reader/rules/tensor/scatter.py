"""Rules of gathers and scatters by several indices."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.rules.tensor.arithmetic import as_computable
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import INT64

REDUCTIONS = {"none": "set", "mul": "mul", "min": "min", "max": "max"}
"""The reductions of updates; sums have operators of their own."""


def gather_nd(node: OnnxNode) -> Var:
    """A gather by index vectors, with batch axes."""
    x, indices = node.var(0), node.var(1)
    batches = range(node.attr("batch_dims", 0))
    rows = [axis_indices(x, axis, axis, indices.ndim - 1) for axis in batches]
    return ops.gather_nd(x, [*rows, *ops.unstack(indices, axis=-1)])


def axis_indices(x: Var, axis: int, at: int, rank: int) -> Var:
    """Return the indices along an axis, shaped to broadcast with other indices."""
    shape = [1] * rank
    return ops.reshape(
        emit("arange", stop=x.shape[axis]), (*shape[:at], x.shape[axis], *shape[at + 1 :])
    )


def scatter_nd(node: OnnxNode) -> Var:
    """A scatter by index vectors."""
    x, indices, updates = node.vars()
    return _scatter(node, x, updates, ops.unstack(indices, axis=-1))


def _scatter(node: OnnxNode, x: Var, updates: Var, indices: list[Var]) -> Var:
    if _adds(node):
        return ops.scatter_nd_add(x, updates, indices)
    return ops.scatter_nd(x, updates, indices, reduction=_reduction(node))


def gather_elements(node: OnnxNode) -> Var:
    """A gather with an index for each element along an axis."""
    x, indices = node.var(0), node.var(1)
    axis = node.axis("axis", 0, x.ndim)
    if _covers_other_axes(x, indices, axis):
        return ops.take_along_axis(x, indices, axis=axis)
    return ops.gather_nd(x, _index_arrays(indices, axis))


def scatter_elements(node: OnnxNode) -> Var:
    """A scatter with an index for each element along an axis."""
    x, indices, updates = node.vars()
    axis = node.axis("axis", 0, x.ndim)
    if not _covers_other_axes(x, indices, axis):
        return _scatter(node, x, updates, _index_arrays(indices, axis))
    if _adds(node):
        return emit("put_along_axis_add", x, indices, updates, axis=axis)
    return ops.put_along_axis(x, indices, updates, axis=axis, reduction=_reduction(node))


def _covers_other_axes(x: Var, indices: Var, axis: int) -> bool:
    """Return whether the indices cover all other axes; they may cover leading parts only."""
    pairs = enumerate(zip(x.shape, indices.shape, strict=False))
    return all(i == axis or size == index_size for i, (size, index_size) in pairs)


def _index_arrays(indices: Var, axis: int) -> list[Var]:
    """Return an index array for each axis, from one for a single axis."""
    rank = indices.ndim
    return [indices if i == axis else axis_indices(indices, i, i, rank) for i in range(rank)]


def _adds(node: OnnxNode) -> bool:
    return node.attr("reduction", "none") == "add"


def _reduction(node: OnnxNode) -> str:
    reduction = REDUCTIONS.get(node.attr("reduction", "none"))
    if reduction is None:
        node.refuse(f"unknown reduction {node.attr('reduction')!r:.20}")
    return reduction


def tensor_scatter(node: OnnxNode) -> Var:
    """Write new entries to a cache, from a position that differs per batch element."""
    cache, updates = as_computable(node.var(0)), as_computable(node.var(1))
    axis = node.axis("axis", -2, cache.ndim)
    at = axis_indices(updates, axis, axis, cache.ndim)
    if node.has(2):
        first = cast_to_dtype(node.var(2), INT64)
        at = at + ops.expand_dims(first, axis=tuple(range(1, cache.ndim)))
    if node.attr("mode", "linear") == "circular":
        at = ops.remainder(at, emit("size", value=cache.shape[axis], dtype=INT64))
    positions = ops.broadcast_to(at, updates.shape)
    return ops.put_along_axis(cache, positions, updates, axis=axis)


def reverse_sequence(node: OnnxNode) -> Var:
    """Reverse the first entries of each row, as many as its length."""
    x, lengths = node.var(0), cast_to_dtype(node.var(1), INT64)
    time, batch = node.axis("time_axis", 0, x.ndim), node.axis("batch_axis", 1, x.ndim)
    length = ops.expand_dims(lengths, axis=[i for i in range(x.ndim) if i != batch])
    return reverse_prefix(x, length, time)


def reverse_prefix(x: Var, length: Var, axis: int) -> Var:
    """Reverse the first entries along an axis, as many as a broadcastable length gives."""
    steps = axis_indices(x, axis, axis, x.ndim)
    at = ops.where(steps < length, length - 1 - steps, steps)
    return ops.take_along_axis(x, ops.broadcast_to(at, x.shape), axis=axis)


SCATTERING: Mapping[str, Rule] = {
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ReverseSequence": reverse_sequence,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
}
