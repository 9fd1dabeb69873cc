"""References of `braces.ops.image.non_max_suppression`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, fixed


def overlap(one: Array, other: Array) -> float:
    """The intersection of two boxes by their union."""
    low = np.maximum(np.minimum(one[:2], one[2:]), np.minimum(other[:2], other[2:]))
    high = np.minimum(np.maximum(one[:2], one[2:]), np.maximum(other[:2], other[2:]))
    common = np.prod(np.maximum(high - low, 0))
    areas = [np.prod(np.abs(box[:2] - box[2:])) for box in (one, other)]
    return common / (sum(areas) - common)


def non_max_suppression(
    boxes: Array, scores: Array, limit: Any, iou_threshold: float, score_threshold: float | None
) -> Array:
    """One row after another, one box after another."""
    lead = np.broadcast_shapes(boxes.shape[:-2], scores.shape[:-1])
    boxes = np.broadcast_to(boxes, (*lead, *boxes.shape[-2:]))
    scores = np.broadcast_to(scores, (*lead, scores.shape[-1]))
    out = np.full(scores.shape, -1, "int64")
    for row in np.ndindex(lead):
        kept = list[int]()
        for i in np.argsort(-scores[row], kind="stable"):
            low = score_threshold is not None and scores[row][i] <= score_threshold
            full = limit is not None and len(kept) >= limit
            if low or full:
                continue
            if all(overlap(boxes[row][i], boxes[row][j]) <= iou_threshold for j in kept):
                kept.append(int(i))
        out[row][: len(kept)] = kept
    return out


REFERENCES = {
    "non_max_suppression": Reference(
        non_max_suppression, inputs={"max_output_size": fixed(2)}, smooth=False
    )
}
