"""Rules of gathers and scatters by several indices."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.along_axis import (
    gather_along,
    indices_along,
    scatter_along,
    scatter_nd,
)
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.rules.tensor.arithmetic import as_computable
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import INT64

REDUCTIONS = {"none": "set", **{name: name for name in ("add", "mul", "min", "max")}}
"""The reductions of updates."""


def gather_nd(node: OnnxNode) -> Var:
    """A gather by index vectors, with batch axes."""
    x, indices = node.var(0), node.var(1)
    batches = range(node.attr("batch_dims", 0))
    rows = [indices_along(x.shape[axis], axis, indices.ndim - 1) for axis in batches]
    return ops.gather_nd(x, [*rows, *ops.unstack(indices, axis=-1)])


def scatter_vectors(node: OnnxNode) -> Var:
    """A scatter by index vectors."""
    x, indices, updates = node.vars()
    return scatter_nd(x, updates, ops.unstack(indices, axis=-1), _reduction(node))


def gather_elements(node: OnnxNode) -> Var:
    """A gather with an index for each element along an axis."""
    x, indices = node.var(0), node.var(1)
    return gather_along(x, indices, node.axis("axis", 0, x.ndim))


def scatter_elements(node: OnnxNode) -> Var:
    """A scatter with an index for each element along an axis."""
    x, indices, updates = node.vars()
    axis = node.axis("axis", 0, x.ndim)
    return scatter_along(x, indices, updates, axis, _reduction(node))


def _reduction(node: OnnxNode) -> str:
    reduction = REDUCTIONS.get(node.attr("reduction", "none"))
    if reduction is None:
        node.refuse(f"unknown reduction {node.attr('reduction')!r:.20}")
    return reduction


def tensor_scatter(node: OnnxNode) -> Var:
    """Write new entries to a cache, from a position that differs per batch element."""
    cache, updates = as_computable(node.var(0)), as_computable(node.var(1))
    axis = node.axis("axis", -2, cache.ndim)
    at = indices_along(updates.shape[axis], axis, cache.ndim)
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
    steps = indices_along(x.shape[axis], axis, x.ndim)
    at = ops.where(steps < length, length - 1 - steps, steps)
    return ops.take_along_axis(x, ops.broadcast_to(at, x.shape), axis=axis)


SCATTERING: Mapping[str, Rule] = {
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ReverseSequence": reverse_sequence,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_vectors,
    "TensorScatter": tensor_scatter,
}
