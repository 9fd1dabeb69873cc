"""Layers over channels: learned slopes, maxout groups, and channel order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var, emit
from braces.builder.var import Var
from braces.dims import Size, divide_exactly
from braces.errors import ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import check_floats
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.parameters import (
    LayerParameters,
    Weight,
    fixed_size,
    is_given,
    roles_to_create,
)
from braces.frontend.losses.reduction import broadcast_along
from braces.ops.common.rules import axis_index


@transactional
def prelu(
    x: Any,
    slope: Weight = None,
    *,
    axis: int | None = 1,
    init: Any = 0.25,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """Parametric ReLU: a rectifier with a learned slope below zero.

        out = x where x > 0, slope * x elsewhere

    Source: He, Zhang, Ren, Sun, Delving Deep into Rectifiers, 2015.

    Args:
        x: float[*shape].
        slope: The slope itself, [size of `axis`]; created by default.
        axis: The channel axis, each of which has a slope; its size is not symbolic. `None` is
            one slope for all.
        init: Initializer of the slope.
        name: The layer's name; its parameter is `name.slope`.
        params: Name of the parameter, `[slope]`; an existing one is shared.

    Raises:
        ShapeError: If the axis is out of range, its size is symbolic, or the size of the slope
            differs.
        DTypeError: If `x` is not of a floating dtype.
    """
    x = check_floats("prelu", x)
    index = None if axis is None else axis_index(axis, x.ndim, "prelu")
    parameters = LayerParameters(
        "prelu", name, params, roles_to_create({"slope": slope is False or slope})
    )
    sizes = [] if index is None or is_given(slope) else [fixed_size(x, index, "prelu")]
    created = parameters.get("slope", sizes, x.dtype, init)
    slope_var = as_var(slope if created is None else created)

    def build() -> Var:
        slopes = slope_var if index is None else broadcast_along(slope_var, index, x.ndim)
        return ops.where(x > 0.0, x, slopes * x)

    return compose_block(name or "prelu", build)


@transactional
def maxout(x: Any, pieces: int, *, axis: int = 1, name: str = "") -> Var:
    """Maxout: the maximum over groups of adjacent channels.

        out[..., c, ...] = max_k x[..., c * pieces + k, ...]

    After `br.fc` or `br.conv2d` it is a piecewise linear layer. Source: Goodfellow,
    Warde-Farley, Mirza, Courville, Bengio, Maxout Networks, 2013.

    Args:
        x: number[*shape].
        pieces: Number of channels per group.
        axis: The channel axis.
        name: The name of the result.

    Raises:
        ShapeError: If the axis is out of range, or the number of channels is not divisible by
            `pieces`.
    """
    x = operand(x, "maxout")
    index = axis_index(axis, x.ndim, "maxout")
    count = _divide_channels("maxout", x, index, pieces)
    grouped = ops.reshape(x, (*x.shape[:index], count, pieces, *x.shape[index + 1 :]))
    return emit("max", grouped, axis=index + 1, name=name)


@transactional
def channel_shuffle(x: Any, groups: int, *, axis: int = 1, name: str = "") -> Var:
    """Shuffle channels: the first of each group, the second of each, and so on.

        out[..., c * groups + g, ...] = x[..., g * size + c, ...]      size = channels / groups

    Source: Zhang, Zhou, Lin, Sun, ShuffleNet, 2018.

    Args:
        x: any[*shape].
        groups: Number of groups of channels.
        axis: The channel axis.
        name: The name of the result.

    Raises:
        ShapeError: If the axis is out of range, or the number of channels is not divisible by
            `groups`.
    """
    x = operand(x, "channel_shuffle")
    index = axis_index(axis, x.ndim, "channel_shuffle")
    size = _divide_channels("channel_shuffle", x, index, groups)
    grouped = ops.reshape(x, (*x.shape[:index], groups, size, *x.shape[index + 1 :]))
    return emit("reshape", ops.swapaxes(grouped, index, index + 1), shape=x.shape, name=name)


def _divide_channels(what: str, x: Var, axis: int, count: Any) -> Size:
    """Return the number of channels divided by a count, which must divide it."""
    is_valid = isinstance(count, int) and count > 0
    part = divide_exactly(x.shape[axis], count) if is_valid else None
    if part is None:
        raise ShapeError(
            f"{what} cannot divide {x.shape[axis]} channels by {count!r:.40}.",
            given=f"{x.name}: {x.type}",
        )
    return part
