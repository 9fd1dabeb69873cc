"""Pooling: the largest element or the mean of windows that slide along two spatial axes.

Layouts, padding and sizes are those of `braces.ops.layouts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from braces.define.axes import Attrs, AxisMap, Types, mapped, tuple_of
from braces.define.counting import for_each
from braces.define.decorator import Padding, Tensor, op
from braces.define.inference import Context
from braces.dtypes import TensorType, is_float
from braces.errors import DTypeError, ShapeError
from braces.lazy import jax, jnp, lax
from braces.ops.layouts import (
    Pads,
    check_layout,
    check_rank,
    pads_of,
    per_axis,
    spatial_axes,
    windowed_sizes,
)
from braces.ops.precision import in_float32
from braces.ops.rules import float_dtype, floating
from braces.ops.windows import Windows, number_of_first, put_at_first

MOST_PLACES = 32
"""Windows of up to so many elements are compared place by place, each written out."""


def pooling_type(
    context: Context,
    x: TensorType,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None,
    padding: Padding,
    layout: str,
    **attrs: Any,
) -> TensorType:
    """Inference for pooling along two axes."""
    del attrs
    check_rank(x, 4, f"x of {context.type}")
    check_layout(layout, 4)
    windows = per_axis(window, 2, "window")
    _check_pool_padding(context, windows, pads_of(padding, 2))
    shape = dict(enumerate(x.shape)) | windowed_sizes(
        x, windows, windows if stride is None else stride, (1,), padding, layout, context.type
    )
    return x.with_shape(tuple(shape[axis] for axis in range(4)))


def _check_pool_padding(context: Context, window: Sequence[int], pads: Pads) -> None:
    if isinstance(pads, str):
        return
    for size, edges in zip(window, pads, strict=True):
        if max(edges) >= size:
            raise ShapeError(
                f"{context.type} has a padding of {max(edges)} for a window of {size}.",
                fix="Padding must be smaller than the window.",
            )


def _windows(
    x: Any, window: Sequence[int], stride: Any, padding: Any, layout: str
) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """Sizes, steps and padding for all axes, as `lax.reduce_window` takes them."""
    axes = spatial_axes(layout)
    sizes, strides = [1] * x.ndim, [1] * x.ndim
    pads, edges = pads_of(padding, 2), [(0, 0)] * x.ndim
    windows = per_axis(window, 2, "window")
    steps = windows if stride is None else per_axis(stride, 2, "stride")
    for i, axis in enumerate(axes):
        sizes[axis], strides[axis] = windows[i], steps[i]
        if not isinstance(pads, str):
            edges[axis] = pads[i]
    return tuple(sizes), tuple(strides), pads if isinstance(pads, str) else edges


def _pool(x: Any, start: Any, reduce: Any, *sliding: Any) -> Any:
    return lax.reduce_window(x, start, reduce, *_windows(x, *sliding))


def pooled(types: Types, attrs: Attrs) -> AxisMap:
    """Windows mix what they slide over."""
    layout = tuple(str(attrs["layout"]))
    mixed = [layout[axis] for axis in spatial_axes("".join(layout))]
    return mapped(types, {"x": (layout,)}, {"out": (layout,)}, mixed)


def numbers_in_window(types: Types, attrs: Attrs) -> int:
    """How many numbers a result is made of."""
    del types
    return math.prod(per_axis(tuple_of(attrs["window"]), 2, "window"))


@op(
    axes=pooled,
    operations=for_each("out", numbers_in_window),
    examples=(
        "x=f32[2,3,4,6] window=2",
        "x=f64[b,2,h,w] window=(3,2) stride=2 padding=1",
        "x=f32[b,5,5,2] window=3 stride=2 padding=same layout=NHWC",
        "x=i32[1,1,4,4] window=2 stride=1",
        "x=f32[0,2,4,4] window=2",
    ),
)
def max_pool2d(
    x: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    layout: str = "NCHW",
) -> Tensor:
    """The largest element of each window along two spatial axes.

        out[n, c, i, j] = max_{k, l} x[n, c, i * stride + k, j * stride + l]

    Padding is never the largest. Where several are, the gradient goes to the first. NaN is
    larger than all numbers.

    Inputs:
        x: number[n, c, h, w], or in the order of `layout`.

    Attributes:
        window: Its size; one number for both axes, or one for each.
        stride: How far windows lie apart; `None` is `window`, so that they do not overlap.
        padding: "valid", "same", or numbers, as for `conv2d`; smaller than the window.
        layout: `NCHW` or `NHWC`.

    Outputs:
        out: The dtype of `x`; number[n, c, windows, windows], in the order of `layout`.

    Raises:
        ShapeError: The window does not fit, or an attribute has too many numbers.
        DTypeError: `x` is complex.
    """
    return _pool(x, _smallest(x.dtype), lax.max, window, stride, padding, layout)


@max_pool2d.vjp
@in_float32
def max_pool2d_vjp(
    x: Tensor,
    out: Tensor,
    out_grad: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    layout: str = "NCHW",
) -> Tensor:
    """Each cotangent goes to the first of the largest of its window."""
    if not out.size:
        return jnp.zeros(x.shape, out_grad.dtype)
    sliding = window, stride, padding, layout
    windows = Windows.of(x.shape, *_windows(x, *sliding))
    if windows.places > MOST_PLACES:
        _, pull = jax.vjp(lambda x: _pool(x, _smallest(x.dtype), lax.max, *sliding), x)
        return pull(out_grad)[0]
    first = number_of_first(x, out, windows)
    return put_at_first(first, out_grad, windows, x.shape)


@max_pool2d.infer
def infer_max_pool2d(context: Context, x: TensorType, **attrs: Any) -> TensorType:
    """As pooling; of numbers that have an order."""
    if x.dtype.kind == "c":
        raise DTypeError("max_pool2d cannot order complex numbers.", fix="Use br.abs first.")
    return pooling_type(context, x, **attrs)


def _smallest(dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.asarray(False)
    return np.asarray(-np.inf if is_float(dtype) else np.iinfo(dtype).min, dtype)


@op(
    axes=pooled,
    operations=for_each("out", numbers_in_window),
    examples=(
        "x=f32[2,3,4,6] window=2",
        "x=f64[b,2,h,w] window=(3,2) stride=2 padding=1",
        "x=f64[2,2,5,4] window=3 stride=1 padding=1 count_include_pad=True",
        "x=f32[b,5,5,2] window=3 stride=2 padding=same layout=NHWC",
        "x=f32[0,2,4,4] window=2",
    ),
)
@in_float32
def avg_pool2d(
    x: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    count_include_pad: bool = False,
    layout: str = "NCHW",
) -> Tensor:
    """The mean of each window along two spatial axes.

        out[n, c, i, j] = sum_{k, l} x[n, c, i * stride + k, j * stride + l] / count

    Inputs:
        x: number[n, c, h, w], or in the order of `layout`.

    Attributes:
        window: Its size; one number for both axes, or one for each.
        stride: How far windows lie apart; `None` is `window`, so that they do not overlap.
        padding: "valid", "same", or numbers, as for `conv2d`; smaller than the window.
        count_include_pad: Whether `count` is the size of the window, so that padding counts as
            zeros, or only the elements of `x` in it.
        layout: `NCHW` or `NHWC`.

    Outputs:
        out: float[n, c, windows, windows], in the order of `layout`; integers give float32.

    Raises:
        ShapeError: The window does not fit, or an attribute has too many numbers.
    """
    x = floating(x)
    zero = np.zeros((), x.dtype)
    total = _pool(x, zero, lax.add, window, stride, padding, layout)
    if count_include_pad or padding == "valid":
        return total / np.prod(per_axis(window, 2, "window")).astype(x.dtype)
    shape = [n if a in spatial_axes(layout) else 1 for a, n in enumerate(x.shape)]
    ones = jnp.ones(shape, x.dtype)
    return total / _pool(ones, zero, lax.add, window, stride, padding, layout)


@avg_pool2d.infer
def infer_avg_pool2d(context: Context, x: TensorType, **attrs: Any) -> TensorType:
    """As pooling; integers give float32."""
    found = pooling_type(context, x, **attrs)
    return found.with_dtype(float_dtype(x.dtype))
