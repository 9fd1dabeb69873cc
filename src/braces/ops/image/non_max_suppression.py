"""Non-maximum suppression of boxes."""

from __future__ import annotations

from typing import Any

from braces.define.axes.axis_map import Attrs, AxisError, Types, shape_of
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Size, product
from braces.dtypes import INT64, DType, is_float, is_integer
from braces.errors import DTypeError
from braces.lazy import jnp, lax
from braces.ops.common.rules import promote_arrays


def nms_axis_map(types: Types, attrs: Attrs) -> str:
    """Axis map: boxes are compared within each batch element."""
    del attrs
    boxes = shape_of(types["boxes"][0])
    if boxes[-1:] != (4,):
        raise AxisError(
            f"expected boxes with 4 coordinates on the last axis, got {types['boxes'][0]}.",
            fix="Pass y and x of two opposite corners.",
        )
    return "... n! corner!, ... n!, -> ... n!"


def nms_dtype(
    what: str, boxes: DType, scores: DType, limit: DType | None = None, **attrs: Any
) -> DType:
    """Dtype rule: int64 indices.

    Raises:
        DTypeError: If boxes or scores are not floats, or the limit is not an integer.
    """
    del attrs
    if not (is_float(boxes) and is_float(scores)):
        raise DTypeError(
            f"{what}: expected floating-point boxes and scores, got {boxes} and {scores}.",
            fix="Use br.cast(x, 'float32').",
        )
    if limit is not None and not is_integer(limit):
        raise DTypeError(f"{what}: expected an integer limit, got {limit}.")
    return INT64


def of_all_pairs(types: Types, attrs: Attrs) -> Size:
    """Return the operations: about sixteen for each pair of boxes, if none overlap."""
    del attrs
    shape = shape_of(types["scores"][0])
    return 16 * product((*shape, shape[-1]))


@op(
    axes=nms_axis_map,
    dtypes=nms_dtype,
    differentiable=False,
    operations=of_all_pairs,
    examples=(
        "boxes=f32[6,4] scores=f32[6]",
        "boxes=f32[b,1,5,4] scores=f32[b,2,5] iou_threshold=0.3 score_threshold=0.1",
        "boxes=f64[b,5,4] scores=f64[b,5] max_output_size=i64[]",
        "boxes=f32[0,4] scores=f32[0]",
    ),
)
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_size: Indices | None = None,
    *,
    iou_threshold: float = 0.5,
    score_threshold: float | None = None,
) -> Tensor:
    """Non-maximum suppression: boxes that do not overlap a box with a higher score.

        while boxes remain: select the highest score; remove all boxes whose intersection over
        union with that box is above iou_threshold

    Inputs:
        boxes: float[..., n, 4]. Two opposite corners, as y1, x1, y2, x2 or x1, y1, x2, y2.
        scores: float[..., n]; leading axes broadcast with those of the boxes. Boxes with a
            score of NaN are not selected.
        max_output_size: int[]. The maximum number of selected boxes; no limit if absent.

    Attributes:
        iou_threshold: The largest allowed intersection over union of two boxes, from 0 to 1.
        score_threshold: Only boxes with a higher score are selected; `None` for all.

    Outputs:
        out: i64[..., n]. The indices of the boxes in the order of selection, padded with -1;
            `br.nonzero(out >= 0)` gives the positions of the selected ones.

    Raises:
        ShapeError: If the boxes do not consist of four numbers, or the numbers of boxes and
            scores differ.
        DTypeError: If boxes or scores are not floats, or the limit is not an integer.
    """
    boxes, scores = promote_arrays(boxes, scores)
    count, lead = scores.shape[-1], jnp.broadcast_shapes(boxes.shape[:-2], scores.shape[:-1])
    chosen = jnp.full((*lead, count), -1, INT64)
    if not chosen.size:
        return chosen
    low = jnp.minimum(boxes[..., :2], boxes[..., 2:])
    high = jnp.maximum(boxes[..., :2], boxes[..., 2:])
    lowest = jnp.asarray(-jnp.inf, scores.dtype)
    good = scores > lowest
    if score_threshold is not None:
        good &= scores > jnp.asarray(score_threshold, scores.dtype)
    remaining = jnp.broadcast_to(jnp.where(good, scores, lowest), (*lead, count))
    limit = count if max_output_size is None else max_output_size.astype(INT64)
    share = jnp.asarray(iou_threshold, boxes.dtype)

    def has_remaining(state: tuple[Any, ...]) -> Any:
        iteration, remaining, _ = state
        return (iteration < limit) & jnp.any(remaining > lowest)

    def select_next(state: tuple[Any, ...]) -> tuple[Any, ...]:
        iteration, remaining, chosen = state
        best = jnp.argmax(remaining, -1, keepdims=True)
        is_valid = jnp.take_along_axis(remaining, best, -1) > lowest
        overlapping = _overlaps_best(low, high, best, share) | (jnp.arange(count) == best)
        place = jnp.where(is_valid, best.astype(INT64), -1)
        chosen = lax.dynamic_update_slice_in_dim(chosen, place, iteration, -1)
        return iteration + 1, jnp.where(is_valid & overlapping, lowest, remaining), chosen

    return lax.while_loop(
        has_remaining, select_next, (jnp.asarray(0, INT64), remaining, chosen)
    )[2]


def _overlaps_best(low: Tensor, high: Tensor, best: Tensor, share: Tensor) -> Tensor:
    """Return a mask of the boxes whose IoU with the best box is above a threshold."""
    shape = (*best.shape[:-1], *low.shape[-2:])
    low, high = jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape)
    best_box = [jnp.take_along_axis(side, best[..., None], -2) for side in (low, high)]
    sides = jnp.minimum(high, best_box[1]) - jnp.maximum(low, best_box[0])
    intersection = jnp.prod(jnp.maximum(sides, jnp.zeros_like(sides)), -1)
    union = jnp.prod(high - low, -1) + jnp.prod(best_box[1] - best_box[0], -1) - intersection
    return intersection > share * union
