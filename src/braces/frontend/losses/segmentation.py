"""Losses of regions, which are given by probabilities."""

from __future__ import annotations

from braces.builder.var import Operand, Var
from braces.define.decorator import Axes
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.losses.reduction import Reduction, alike, of_operators
from braces.ops.common.rules import axis_indices

__all__ = ["dice_loss", "tversky_loss"]


@building
def dice_loss(
    prediction: Operand,
    target: Operand,
    *,
    axis: Axes = (),
    smooth: float = 1.0,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """How little two regions overlap, which are given by probabilities.

        out = 1 - (2 * sum(prediction * target) + smooth)
                  / (sum(prediction) + sum(target) + smooth)

    Source: Milletari, Navab, Ahmadi, V-Net, 2016; here with sums of probabilities.

    Args:
        prediction: number[*shape], between 0 and 1.
        target: number[*shape], between 0 and 1.
        axis: The axes that sums are over; `None` is all of them, and where none is named all
            but the first, so that there is a loss for each example.
        smooth: Keeps the quotient finite where nothing is predicted and nothing there.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    x, y = alike("dice_loss", prediction=prediction, target=target)
    over = _summed("dice_loss", x, axis)

    def losses() -> Var:
        shared = ops.sum(x * y, axis=over)
        whole = ops.sum(x, axis=over) + ops.sum(y, axis=over)
        return 1.0 - (2.0 * shared + smooth) / (whole + smooth)

    return of_operators("dice_loss", reduction, name, losses)


@building
def tversky_loss(
    prediction: Operand,
    target: Operand,
    alpha: float = 0.5,
    beta: float = 0.5,
    *,
    axis: Axes = (),
    smooth: float = 1.0,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """As `dice_loss`, with weights for what is predicted alone and for what is there alone.

        both = sum(prediction * target)
        out = 1 - (both + smooth) / (both + alpha * sum(prediction * (1 - target))
                                     + beta * sum((1 - prediction) * target) + smooth)

    Source: Salehi, Erdogmus, Gholipour, Tversky Loss Function for Image Segmentation, 2017.

    Args:
        prediction: number[*shape], between 0 and 1.
        target: number[*shape], between 0 and 1.
        alpha: How much counts what is predicted and not there.
        beta: How much counts what is there and not predicted.
        axis: As that of `dice_loss`.
        smooth: Keeps the quotient finite where nothing is predicted and nothing there.
        reduction: `"none"`, `"mean"` or `"sum"`.
        name: For the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
    """
    x, y = alike("tversky_loss", prediction=prediction, target=target)
    over = _summed("tversky_loss", x, axis)

    def losses() -> Var:
        both = ops.sum(x * y, axis=over)
        said = ops.sum(x * (1.0 - y), axis=over)
        missed = ops.sum((1.0 - x) * y, axis=over)
        return 1.0 - (both + smooth) / (both + alpha * said + beta * missed + smooth)

    return of_operators("tversky_loss", reduction, name, losses)


def _summed(what: str, x: Var, axis: Axes) -> tuple[int, ...]:
    """The axes that sums are over."""
    return axis_indices(axis if axis != () else tuple(range(1, x.ndim)), x.ndim, what)
