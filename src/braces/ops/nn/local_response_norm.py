"""Local response normalisation across adjacent channels."""

from __future__ import annotations

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Tensor, op
from braces.lazy import lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real_numbers
from braces.ops.conv_pool.argmax_windows import PoolWindows


def beside_channels(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: the channel axis, the second one, is non-pointwise."""
    indices = numbered_indices(first_rank(types))
    if len(indices) < 2:
        raise AxisError("expected channels on axis 1.", fix="Pass x as [n, c, *space].")
    if not isinstance(attrs["size"], int) or attrs["size"] < 1:
        raise AxisError(
            "expected a window of at least one channel.", given=f"size={attrs['size']}"
        )
    return make_axis_map(types, {"x": (indices,)}, {"out": (indices,)}, [indices[1]])


def squares_beside(types: Types, attrs: Attrs) -> int:
    """Cost per element: the sum of squares, and its power."""
    del types
    size = attrs["size"]
    assert isinstance(size, int)
    return size + 6


@op(
    axes=beside_channels,
    dtypes=real_numbers,
    operations=count_per_element("x", squares_beside),
    examples=(
        "x=f32[2,5,4] size=3",
        "x=f64[b,6,h] size=4 alpha=0.5 beta=0.5 k=2.0",
        "x=f64[2,3] size=7 alpha=1.0",
        "x=f32[0,3,2,2] size=2",
    ),
)
@in_float32
def local_response_norm(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Local response normalisation: divide by a power of the squares in adjacent channels.

        out[n, c] = x[n, c] / (k + alpha / size * sum_j x[n, j] ** 2) ** beta

    with `j` from `c - size // 2` to `c + (size - 1) // 2`, within the existing channels.

    Inputs:
        x: float[n, c, *space]. Integers give float32.

    Attributes:
        size: The number of channels in the sum.
        alpha: The factor of the mean of the squares.
        beta: The exponent.
        k: The summand that prevents division by zero.

    Outputs:
        out: float[n, c, *space].

    Raises:
        ShapeError: If the channel axis is missing, or `size` is below 1.
        DTypeError: If `x` is complex.
    """
    x = as_floating(x)
    ones, no_padding = (1,) * x.ndim, ((0, 0),) * x.ndim
    sizes = (1, size, *ones[2:])
    pads = (*no_padding[:1], (size // 2, (size - 1) // 2), *no_padding[2:])
    squares = PoolWindows(sizes, ones, pads, ones).reduced(
        lax.square(x), np.zeros((), x.dtype), lax.add
    )
    return x / (k + alpha / size * squares) ** beta
