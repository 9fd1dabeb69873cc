"""Average pooling and Lp pooling along spatial axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braces.define.axes.axis_map import Attrs, Types
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Padding, Tensor
from braces.define.type_inference import InferenceContext
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, float_dtype
from braces.ops.conv_pool.argmax_windows import PoolWindows
from braces.ops.conv_pool.data_layouts import spatial_axes
from braces.ops.conv_pool.max_pool import (
    SLIDING,
    numbers_in_window,
    pool_axis_map,
    pooling_type,
    windows_over,
)
from braces.ops.conv_pool.spatial_ranks import define_for_ranks


def mean_type(rank: int, context: InferenceContext, x: TensorType, **attrs: Any) -> TensorType:
    """Infer the type of average pooling; integers give float32."""
    return pooling_type(rank, context, x, **attrs).with_dtype(float_dtype(x.dtype))


def norm_type(
    rank: int, context: InferenceContext, x: TensorType, *, p: float, **attrs: Any
) -> TensorType:
    """Infer the type of Lp pooling; integers give float32."""
    if not 1 <= p < math.inf:
        raise ShapeError(
            f"{context.type}: invalid norm p={p}.", fix="Use a finite p of 1 or more."
        )
    return mean_type(rank, context, x, **attrs)


@in_float32
def avg_pool(
    x: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    layout: str = "",
) -> Tensor:
    """The mean of each window along $axes.

        out[n, c, i] = sum_k x[n, c, i * stride + k * dilation] / count

    Inputs:
        x: number[n, c, *space], or in the order of `layout`.

    Attributes:
        count_include_pad: Whether padding counts as zeros, so that `count` is the size of the
            window, or only the elements of `x` in it. Elements of a window beyond the padding,
            which `ceil_mode` allows, never count.
        $sliding

    Outputs:
        out: float[n, c, *windows], in the order of `layout`; integers give float32.

    Raises:
        ShapeError: If the window does not fit the input, or an attribute has too many numbers.
    """
    x = as_floating(x)
    windows = windows_over(x.shape, window, stride, padding, dilation, ceil_mode, layout)
    zero = np.zeros((), x.dtype)
    total = windows.reduced(x, zero, lax.add)
    counted = windows_over(x.shape, window, stride, padding, dilation, False, layout).pads
    if not count_include_pad:
        counted = ((0, 0),) * x.ndim
    if counted == windows.pads:
        return total / np.asarray(windows.places, x.dtype)
    spatial = spatial_axes(layout)
    ones = np.ones([n if axis in spatial else 1 for axis, n in enumerate(x.shape)], x.dtype)
    ones = np.pad(ones, counted, constant_values=1)
    uncounted = [
        (low - less, high - more)
        for (low, high), (less, more) in zip(windows.pads, counted, strict=True)
    ]
    pad_windows = PoolWindows(windows.sizes, windows.steps, tuple(uncounted), windows.dilations)
    return total / pad_windows.reduced(ones, zero, lax.add)


avg_pool1d, avg_pool2d, avg_pool3d = define_for_ranks(
    avg_pool,
    infer=mean_type,
    axes=pool_axis_map,
    operations=count_per_element("out", numbers_in_window),
    examples={
        1: (
            "x=f32[2,3,6] window=2",
            "x=f64[b,2,t] window=3 stride=2 padding=1 ceil_mode=True",
            "x=f32[2,9,2] window=3 dilation=2 stride=1 layout=NWC",
        ),
        2: (
            "x=f32[2,3,4,6] window=2",
            "x=f64[b,2,h,w] window=(3,2) stride=2 padding=1",
            "x=f64[2,2,5,4] window=3 stride=1 padding=1 count_include_pad=True",
            "x=f64[b,2,h,6] window=3 stride=2 padding=1 count_include_pad=True ceil_mode=True",
            "x=f32[b,5,5,2] window=3 stride=2 padding=same layout=NHWC",
            "x=f32[0,2,4,4] window=2",
        ),
        3: (
            "x=f32[2,1,4,2,4] window=2",
            "x=f64[b,1,3,h,4] window=2 stride=1 padding=(0,1,1) dilation=(1,2,1)",
            "x=f64[1,5,4,3,2] window=(3,2,2) stride=2 padding=same layout=NDHWC",
        ),
    },
    sliding=SLIDING,
)


def powers_in_window(types: Types, attrs: Attrs) -> int:
    """Return the operations of a result: absolute value, power and sum per element, a root."""
    return 4 * numbers_in_window(types, attrs) + 4


@in_float32
def lp_pool(
    x: Tensor,
    *,
    window: tuple[int, ...],
    p: float = 2.0,
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    ceil_mode: bool = False,
    layout: str = "",
) -> Tensor:
    """The p-norm of each window along $axes.

        out[n, c, i] = (sum_k |x[n, c, i * stride + k * dilation]| ** p) ** (1 / p)

    The gradient of a window of zeros is zero.

    Inputs:
        x: number[n, c, *space], or in the order of `layout`.

    Attributes:
        p: The exponent, 1 or more.
        $sliding

    Outputs:
        out: float[n, c, *windows], in the order of `layout`; integers give float32.

    Raises:
        ShapeError: If the window does not fit the input, an attribute has too many numbers, or
            `p` is below 1.
    """
    sizes = jnp.abs(as_floating(x))
    exponent = int(p) if float(p).is_integer() else p
    powers = sizes**exponent
    windows = windows_over(x.shape, window, stride, padding, dilation, ceil_mode, layout)
    total = windows.reduced(powers, np.zeros((), powers.dtype), lax.add)
    empty = total == 0
    return jnp.where(empty, 0, jnp.where(empty, 1, total) ** (1 / p))


lp_pool1d, lp_pool2d, lp_pool3d = define_for_ranks(
    lp_pool,
    infer=norm_type,
    axes=pool_axis_map,
    operations=count_per_element("out", powers_in_window),
    examples={
        1: ("x=f32[2,3,6] window=2", "x=f64[b,2,t] window=3 p=3 stride=2 padding=1"),
        2: (
            "x=f32[2,3,4,6] window=2",
            "x=f64[b,2,h,w] window=(3,2) p=1 stride=2 padding=1 ceil_mode=True",
            "x=f32[b,5,5,2] window=2 p=2.5 stride=1 padding=same dilation=2 layout=NHWC",
        ),
        3: ("x=f32[2,1,4,2,4] window=2", "x=f64[b,1,3,h,4] window=2 p=4 stride=1"),
    },
    sliding=SLIDING,
)
