"""Layers that look at channels: slopes of their own, groups of them, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import as_var, one
from braces.builder.var import Var
from braces.dims import Size, divide_exactly
from braces.errors import ShapeError
from braces.frontend.control.block import composed
from braces.frontend.control.sequence_lengths import check_floats
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.parameters import Parameters, Weight, fixed_size, is_given, to_make
from braces.frontend.losses.reduction import along_axis
from braces.ops.common.rules import axis_index


@building
def prelu(
    x: Any,
    slope: Weight = None,
    *,
    axis: int | None = 1,
    init: Any = 0.25,
    name: str | None = None,
    params: Sequence[str] | None = None,
) -> Var:
    """A rectifier whose slope below zero is learned.

        out = x where x > 0, slope * x elsewhere

    Source: He, Zhang, Ren, Sun, Delving Deep into Rectifiers, 2015.

    Args:
        x: float[*shape].
        slope: The slope itself, [size of `axis`]; one is made where nothing is said.
        axis: The axis of channels, each of which has a slope; of known size. `None` is one
            slope for all.
        init: The first value.
        name: The layer's name; its parameter is `name.slope`.
        params: A name for the parameter, `[slope]`; it is shared where it exists.

    Raises:
        ShapeError: There is no such axis, its size is symbolic, or the slope has another.
        DTypeError: `x` is not made of floats.
    """
    x = check_floats("prelu", x)
    at = None if axis is None else axis_index(axis, x.ndim, "prelu")
    made = Parameters("prelu", name, params, to_make({"slope": slope is False or slope}))
    sizes = [] if at is None or is_given(slope) else [fixed_size(x, at, "prelu")]
    own = made.get("slope", sizes, x.dtype, init)
    given = as_var(slope if own is None else own)

    def built() -> Var:
        along = given if at is None else along_axis(given, at, x.ndim)
        return ops.where(x > 0.0, x, along * x)

    return composed(name or "prelu", built)


@building
def maxout(x: Any, pieces: int, *, axis: int = 1, name: str = "") -> Var:
    """The largest of each few channels that follow one another.

        out[..., c, ...] = max_k x[..., c * pieces + k, ...]

    After `br.fc` or `br.conv2d` it is a layer that is linear in pieces. Source: Goodfellow,
    Warde-Farley, Mirza, Courville, Bengio, Maxout Networks, 2013.

    Args:
        x: number[*shape].
        pieces: How many channels become one.
        axis: The axis of channels.
        name: For the result.

    Raises:
        ShapeError: There is no such axis, or channels are no multiple of `pieces`.
    """
    x = operand(x, "maxout")
    at = axis_index(axis, x.ndim, "maxout")
    count = _share("maxout", x, at, pieces)
    apart = ops.reshape(x, (*x.shape[:at], count, pieces, *x.shape[at + 1 :]))
    return one("max", apart, axis=at + 1, name=name)


@building
def channel_shuffle(x: Any, groups: int, *, axis: int = 1, name: str = "") -> Var:
    """Channels in another order: the first of each group, the second of each, and so on.

        out[..., c * groups + g, ...] = x[..., g * size + c, ...]      size = channels / groups

    Source: Zhang, Zhou, Lin, Sun, ShuffleNet, 2018.

    Args:
        x: any[*shape].
        groups: How many groups of channels there are.
        axis: The axis of channels.
        name: For the result.

    Raises:
        ShapeError: There is no such axis, or groups do not divide the channels.
    """
    x = operand(x, "channel_shuffle")
    at = axis_index(axis, x.ndim, "channel_shuffle")
    size = _share("channel_shuffle", x, at, groups)
    apart = ops.reshape(x, (*x.shape[:at], groups, size, *x.shape[at + 1 :]))
    return one("reshape", ops.swapaxes(apart, at, at + 1), shape=x.shape, name=name)


def _share(what: str, x: Var, axis: int, count: Any) -> Size:
    """A part of the channels, of which there are so many equal ones."""
    whole = isinstance(count, int) and count > 0
    part = divide_exactly(x.shape[axis], count) if whole else None
    if part is None:
        raise ShapeError(
            f"{what} cannot divide {x.shape[axis]} channels by {count!r:.40}.",
            given=f"{x.name}: {x.type}",
        )
    return part
