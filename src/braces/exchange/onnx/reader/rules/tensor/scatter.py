"""Rules of operators that take from places that several indices say, and put to places."""

from __future__ import annotations

from collections.abc import Mapping

from braces.builder.append import one
from braces.builder.var import Var
from braces.dtypes import INT64
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.exchange.onnx.reader.rules.tensor.arithmetic import computed
from braces.frontend.core import functions as ops

REDUCTIONS = {"none": "set", "mul": "mul", "min": "min", "max": "max"}
"""What becomes of a place; sums have operators of their own."""


def gather_nd(node: Node) -> Var:
    """What stands at places that several indices say, in each row of batches."""
    x, indices = node.var(0), node.var(1)
    batches = range(node.attr("batch_dims", 0))
    rows = [counted(x, axis, axis, indices.ndim - 1) for axis in batches]
    return ops.gather_nd(x, [*rows, *ops.unstack(indices, axis=-1)])


def counted(x: Var, axis: int, at: int, rank: int) -> Var:
    """The places on an axis of an array, along one of so many axes."""
    shape = [1] * rank
    return ops.reshape(
        one("arange", stop=x.shape[axis]), (*shape[:at], x.shape[axis], *shape[at + 1 :])
    )


def scatter_nd(node: Node) -> Var:
    """Updates at places that several indices say."""
    x, indices, updates = node.vars()
    return _scattered(node, x, updates, ops.unstack(indices, axis=-1))


def _scattered(node: Node, x: Var, updates: Var, indices: list[Var]) -> Var:
    if _adds(node):
        return ops.scatter_nd_add(x, updates, indices)
    return ops.scatter_nd(x, updates, indices, reduction=_reduction(node))


def gather_elements(node: Node) -> Var:
    """What stands at a place of its own for each number."""
    x, indices = node.var(0), node.var(1)
    axis = node.axis("axis", 0, x.ndim)
    if _in_lines(x, indices, axis):
        return ops.take_along_axis(x, indices, axis=axis)
    return ops.gather_nd(x, _places(indices, axis))


def scatter_elements(node: Node) -> Var:
    """Updates at a place of its own for each number."""
    x, indices, updates = node.vars()
    axis = node.axis("axis", 0, x.ndim)
    if not _in_lines(x, indices, axis):
        return _scattered(node, x, updates, _places(indices, axis))
    if _adds(node):
        return one("put_along_axis_add", x, indices, updates, axis=axis)
    return ops.put_along_axis(x, indices, updates, axis=axis, reduction=_reduction(node))


def _in_lines(x: Var, indices: Var, axis: int) -> bool:
    """Whether there are indices for all lines of an axis; there may be for the first ones."""
    pairs = enumerate(zip(x.shape, indices.shape, strict=False))
    return all(i == axis or whole == part for i, (whole, part) in pairs)


def _places(indices: Var, axis: int) -> list[Var]:
    """An index for each axis, where one says that of one axis for each number."""
    rank = indices.ndim
    return [indices if i == axis else counted(indices, i, i, rank) for i in range(rank)]


def _adds(node: Node) -> bool:
    return node.attr("reduction", "none") == "add"


def _reduction(node: Node) -> str:
    found = REDUCTIONS.get(node.attr("reduction", "none"))
    if found is None:
        node.refuse(f"has the reduction {node.attr('reduction')!r:.20}")
    return found


def tensor_scatter(node: Node) -> Var:
    """New entries of a cache, from a place on that each row of the batch has for itself."""
    cache, updates = computed(node.var(0)), computed(node.var(1))
    axis = node.axis("axis", -2, cache.ndim)
    at = counted(updates, axis, axis, cache.ndim)
    if node.has(2):
        first = in_dtype(node.var(2), INT64)
        at = at + ops.expand_dims(first, axis=tuple(range(1, cache.ndim)))
    if node.attr("mode", "linear") == "circular":
        at = ops.remainder(at, one("size", value=cache.shape[axis], dtype=INT64))
    places = ops.broadcast_to(at, updates.shape)
    return ops.put_along_axis(cache, places, updates, axis=axis)


def reverse_sequence(node: Node) -> Var:
    """The first entries of each row backwards, as many as its length says."""
    x, lengths = node.var(0), in_dtype(node.var(1), INT64)
    time, batch = node.axis("time_axis", 0, x.ndim), node.axis("batch_axis", 1, x.ndim)
    length = ops.expand_dims(lengths, axis=[i for i in range(x.ndim) if i != batch])
    return first_backwards(x, length, time)


def first_backwards(x: Var, length: Var, axis: int) -> Var:
    """The first entries along an axis backwards, as many as a length beside the array says."""
    steps = counted(x, axis, axis, x.ndim)
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
