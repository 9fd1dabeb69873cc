"""Boxes that are chosen by their scores, without those that overlap them."""

from __future__ import annotations

from typing import Any

from braces.define.axes.axis_map import Attrs, AxisError, Types, shape_of
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Size, product
from braces.dtypes import INT64, DType, is_float, is_integer
from braces.errors import DTypeError
from braces.lazy import jnp, lax
from braces.ops.common.rules import promoted


def choosing(types: Types, attrs: Attrs) -> str:
    """Boxes are compared with each other, apart in each row of what leads."""
    del attrs
    boxes = shape_of(types["boxes"][0])
    if boxes[-1:] != (4,):
        raise AxisError(
            f"needs boxes with four corners in their last axis, not {types['boxes'][0]}.",
            fix="Give y and x of two opposite corners.",
        )
    return "... n! corner!, ... n!, -> ... n!"


def of_boxes(
    what: str, boxes: DType, scores: DType, limit: DType | None = None, **attrs: Any
) -> DType:
    """A rule for dtypes: places.

    Raises:
        DTypeError: Boxes or scores are no floats, or the limit is no integer.
    """
    del attrs
    if not (is_float(boxes) and is_float(scores)):
        raise DTypeError(
            f"{what} needs boxes and scores of floats, not {boxes} and {scores}.",
            fix="Use br.cast(x, 'float32').",
        )
    if limit is not None and not is_integer(limit):
        raise DTypeError(f"{what} needs an integer as a limit, not {limit}.")
    return INT64


def of_all_pairs(types: Types, attrs: Attrs) -> Size:
    """About sixteen operations for each pair of boxes, where none overlap."""
    del attrs
    shape = shape_of(types["scores"][0])
    return 16 * product((*shape, shape[-1]))


@op(
    axes=choosing,
    dtypes=of_boxes,
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
    """The boxes with the highest scores that do not overlap one with a higher score.

        while any is left: choose the highest score; drop all boxes whose intersection with
        that box is more than iou_threshold of their union

    Inputs:
        boxes: float[..., n, 4]. Two opposite corners, as y1, x1, y2, x2 or x1, y1, x2, y2.
        scores: float[..., n]; leading axes broadcast with those of the boxes. NaN is not
            chosen.
        max_output_size: int[]. At most so many are chosen; all where it is absent.

    Attributes:
        iou_threshold: How much of their union two boxes may have in common, from 0 to 1.
        score_threshold: Only boxes with a higher score are chosen; `None` for all.

    Outputs:
        out: i64[..., n]. The numbers of the boxes in the order in which they are chosen, the
            rest -1; `br.nonzero(out >= 0)` tells where there are any.

    Raises:
        ShapeError: Boxes have no four numbers, or there are more or fewer than scores.
        DTypeError: They are no floats, or the limit is no integer.
    """
    boxes, scores = promoted(boxes, scores)
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
    left = jnp.broadcast_to(jnp.where(good, scores, lowest), (*lead, count))
    limit = count if max_output_size is None else max_output_size.astype(INT64)
    share = jnp.asarray(iou_threshold, boxes.dtype)

    def goes_on(state: tuple[Any, ...]) -> Any:
        trip, left, _ = state
        return (trip < limit) & jnp.any(left > lowest)

    def choose(state: tuple[Any, ...]) -> tuple[Any, ...]:
        trip, left, chosen = state
        best = jnp.argmax(left, -1, keepdims=True)
        found = jnp.take_along_axis(left, best, -1) > lowest
        overlapping = _overlap(low, high, best, share) | (jnp.arange(count) == best)
        place = jnp.where(found, best.astype(INT64), -1)
        chosen = lax.dynamic_update_slice_in_dim(chosen, place, trip, -1)
        return trip + 1, jnp.where(found & overlapping, lowest, left), chosen

    return lax.while_loop(goes_on, choose, (jnp.asarray(0, INT64), left, chosen))[2]


def _overlap(low: Tensor, high: Tensor, best: Tensor, share: Tensor) -> Tensor:
    """Which boxes have more than a share of their union in common with one of them."""
    shape = (*best.shape[:-1], *low.shape[-2:])
    low, high = jnp.broadcast_to(low, shape), jnp.broadcast_to(high, shape)
    own = [jnp.take_along_axis(side, best[..., None], -2) for side in (low, high)]
    sides = jnp.minimum(high, own[1]) - jnp.maximum(low, own[0])
    common = jnp.prod(jnp.maximum(sides, jnp.zeros_like(sides)), -1)
    union = jnp.prod(high - low, -1) + jnp.prod(own[1] - own[0], -1) - common
    return common > share * union
