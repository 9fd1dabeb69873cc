"""Rules of gather, one-hot and top-k."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.along_axis import topk
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.graph.run_time_sizes import sizes_at
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import INT64


def gather(node: OnnxNode) -> Var:
    """A gather along an axis."""
    return ops.take(node.var(0), node.var(1), axis=node.attr("axis", 0))


def one_hot(node: OnnxNode) -> Var:
    """One value at the class of each index, another one elsewhere."""
    (depth,) = sizes_at(node, 1) or [0]
    classes, values = cast_to_dtype(node.var(0), INT64), node.var(2)
    class_indices = emit("arange", stop=depth)
    at = ops.where(classes < 0, classes + node_size(depth), classes)
    chosen = ops.equal(ops.expand_dims(at, axis=-1), class_indices)
    encoded = ops.where(chosen, values[1], values[0])
    axis = node.attr("axis", -1)
    return encoded if axis == -1 else ops.moveaxis(encoded, -1, axis)


def node_size(size: object) -> Var:
    """Return a size as a number of the program."""
    return emit("size", value=size, dtype=INT64)


def top_k(node: OnnxNode) -> tuple[Var, Var]:
    """The k largest or smallest numbers of an axis in order, and their indices."""
    x = node.var(0)
    (k,) = sizes_at(node, 1) or [0] if node.version >= 10 else [node.attr("k")]
    return topk(x, k, node.axis("axis", -1, x.ndim), node.flag("largest", default=True))


GATHERING: Mapping[str, Rule] = {
    "Gather": gather,
    "OneHot": one_hot,
    "TopK": top_k,
}
