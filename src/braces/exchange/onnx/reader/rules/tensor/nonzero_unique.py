"""Rules of operators with data-dependent output sizes."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import data_dependent, functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import INT64


def nonzero(node: OnnxNode) -> Var:
    """The indices of nonzero elements, one row per axis."""
    x = node.var(0)
    if not x.ndim:
        x = ops.expand_dims(x, axis=0)
    return ops.stack(data_dependent.nonzero(x), axis=0)


def compress(node: OnnxNode) -> Var:
    """The slices where a condition holds."""
    x, axis = node.var(0), node.attr("axis")
    at = None if axis is None else node.axis("axis", 0, x.ndim)
    return data_dependent.compress(node.var(1), x, axis=at)


def unique(node: OnnxNode) -> tuple[Var, ...]:
    """Unique slices, with their first indices, the inverse, and the counts."""
    x = node.var(0)
    axis = None if node.attr("axis") is None else node.axis("axis", 0, x.ndim)
    return tuple(data_dependent.unique(x, axis, node.flag("sorted", default=True)))


def non_max_suppression(node: OnnxNode) -> Var:
    """Batch, class and index of boxes that overlap none with a higher score."""
    boxes, scores = node.var(0), node.var(1)
    if node.flag("center_point_box"):
        boxes = _corners(boxes)
    limit = ops.reshape(cast_to_dtype(node.var(2), INT64), ()) if node.has(2) else 0
    chosen = ops.non_max_suppression(
        ops.expand_dims(boxes, axis=1),
        scores,
        limit,
        iou_threshold=node.number(3, "The threshold", 0.0),
        score_threshold=node.number(4, "The threshold of scores"),
    )
    chosen_indices = data_dependent.nonzero(ops.greater_equal(chosen, 0))
    return ops.stack([*chosen_indices[:2], ops.gather_nd(chosen, chosen_indices)], axis=1)


def _corners(boxes: Var) -> Var:
    """Return opposite corners of boxes given by center and size."""
    center, size = (
        emit("window", boxes, start=start, size=2, axis=boxes.ndim - 1) for start in (0, 2)
    )
    half = size * 0.5
    return ops.concat([center - half, center + half], axis=-1)


FINDING: Mapping[str, Rule] = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": nonzero,
    "Unique": unique,
}
