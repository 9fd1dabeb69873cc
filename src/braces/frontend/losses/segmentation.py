"""Segmentation losses: overlaps of regions given by probabilities."""

from __future__ import annotations

from braces.builder.var import Operand, Var
from braces.define.decorator import Axes
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import Reduction, compose_loss, to_equal_shapes
from braces.ops.common.rules import axis_indices

__all__ = ["dice_loss", "tversky_loss"]


@transactional
def dice_loss(
    prediction: Operand,
    target: Operand,
    *,
    axis: Axes = (),
    smooth: float = 1.0,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Dice loss: 1 minus the Dice overlap of two regions given by probabilities.

        out = 1 - (2 * sum(prediction * target) + smooth)
                  / (sum(prediction) + sum(target) + smooth)

    Source: Milletari, Navab, Ahmadi, V-Net, 2016; here with sums of probabilities.

    Args:
        prediction: number[*shape], between 0 and 1.
        target: number[*shape], between 0 and 1.
        axis: The axes of the sums; `None` means all axes. The default `()` means all but the
            first, which gives a loss for each example.
        smooth: Keeps the quotient finite if prediction and target are empty.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    x, y = to_equal_shapes("dice_loss", prediction=prediction, target=target)
    over = _sum_axes("dice_loss", x, axis)

    def losses() -> Var:
        overlap = ops.sum(x * y, axis=over)
        total = ops.sum(x, axis=over) + ops.sum(y, axis=over)
        return 1.0 - (2.0 * overlap + smooth) / (total + smooth)

    return compose_loss("dice_loss", reduction, name, losses)


@transactional
def tversky_loss(
    prediction: Operand,
    target: Operand,
    alpha: float = 0.5,
    beta: float = 0.5,
    *,
    axis: Axes = (),
    smooth: float = 1.0,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Tversky loss: `dice_loss` with weights for false positives and false negatives.

        both = sum(prediction * target)
        out = 1 - (both + smooth) / (both + alpha * sum(prediction * (1 - target))
                                     + beta * sum((1 - prediction) * target) + smooth)

    Source: Salehi, Erdogmus, Gholipour, Tversky Loss Function for Image Segmentation, 2017.

    Args:
        prediction: number[*shape], between 0 and 1.
        target: number[*shape], between 0 and 1.
        alpha: The weight of false positives.
        beta: The weight of false negatives.
        axis: As for `dice_loss`.
        smooth: Keeps the quotient finite if prediction and target are empty.
        reduction: `"mean"`, `"sum"` or `"none"`.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
    """
    x, y = to_equal_shapes("tversky_loss", prediction=prediction, target=target)
    over = _sum_axes("tversky_loss", x, axis)

    def losses() -> Var:
        overlap = ops.sum(x * y, axis=over)
        false_positives = ops.sum(x * (1.0 - y), axis=over)
        false_negatives = ops.sum((1.0 - x) * y, axis=over)
        return 1.0 - (overlap + smooth) / (
            overlap + alpha * false_positives + beta * false_negatives + smooth
        )

    return compose_loss("tversky_loss", reduction, name, losses)


def _sum_axes(what: str, x: Var, axis: Axes) -> tuple[int, ...]:
    """Return the axes of the sums."""
    return axis_indices(axis if axis != () else tuple(range(1, x.ndim)), x.ndim, what)
