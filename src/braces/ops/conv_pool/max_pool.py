"""Max pooling along spatial axes, with and without indices.

Layouts, padding and sizes are those of `braces.ops.conv_pool.data_layouts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from braces.define.axes.axis_map import Attrs, AxisMap, Types, make_axis_map, require_tuple
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Padding, Tensor
from braces.define.type_inference import InferenceContext
from braces.dims import Size
from braces.dtypes import INT64, TensorType
from braces.errors import DTypeError, ShapeError
from braces.lazy import jax, jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.conv_pool.argmax_windows import (
    MOST_PLACES,
    PoolWindows,
    argmax_of_windows,
    first_match,
    max_of_windows,
    scatter_to_first,
)
from braces.ops.conv_pool.cpu_algorithms import dilated_span
from braces.ops.conv_pool.data_layouts import (
    Pads,
    check_layout,
    check_rank,
    check_windows,
    pads_of,
    per_axis,
    room_for,
    spatial_axes,
    windowed_sizes,
)
from braces.ops.conv_pool.spatial_ranks import define_for_ranks
from braces.ops.indexing.symbolic_slice import as_number


def pooling_type(
    rank: int,
    context: InferenceContext,
    x: TensorType,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None,
    padding: Padding,
    dilation: tuple[int, ...],
    ceil_mode: bool,
    layout: str,
    **attrs: Any,
) -> TensorType:
    """Infer the type of pooling for arrays of this rank."""
    del attrs
    check_rank(x, rank, f"x of {context.type}")
    check_layout(layout, rank)
    windows = per_axis(window, rank - 2, "window")
    reaches = list(map(dilated_span, windows, per_axis(dilation, rank - 2, "dilation")))
    _check_pool_padding(context, reaches, pads_of(padding, rank - 2))
    shape = dict[int, Size](enumerate(x.shape)) | windowed_sizes(
        x, windows, windows if stride is None else stride, dilation, padding, layout,
        context.type, ceil_mode,
    )  # fmt: skip
    return x.with_shape(tuple(shape[axis] for axis in range(rank)))


def _check_pool_padding(context: InferenceContext, reaches: Sequence[int], pads: Pads) -> None:
    if isinstance(pads, str):
        return
    for size, edges in zip(reaches, pads, strict=True):
        if max(edges) >= size:
            raise ShapeError(
                f"{context.type}: padding {max(edges)} is too large for a window of {size}.",
                fix="Use padding smaller than the window.",
            )


def ordered_type(
    rank: int, context: InferenceContext, x: TensorType, **attrs: Any
) -> TensorType:
    """Infer the type of max pooling; complex numbers are refused."""
    if x.dtype.kind == "c":
        raise DTypeError(
            f"{context.type} is not defined for complex numbers.", fix="Use br.abs first."
        )
    return pooling_type(rank, context, x, **attrs)


def ordered_and_places(
    rank: int, context: InferenceContext, x: TensorType, **attrs: Any
) -> tuple[TensorType, TensorType]:
    """Infer the types of max pooling with indices; the indices are int64."""
    out = ordered_type(rank, context, x, **attrs)
    return out, out.with_dtype(INT64)


SLIDING = """window: Its size; one number for all axes, or one for each.
stride: How far windows lie apart; `None` is `window`, so that they do not overlap.
padding: "valid", "same", or numbers, as for a convolution; smaller than the window.
dilation: How far the elements of a window lie apart.
ceil_mode: Whether elements at the end that fill no window have one all the same.
layout: `$first` or `$last`."""
"""Documentation of the attributes that all pooling operators share."""

# ---- windows ---------------------------------------------------------------------------------


def windows_over(
    shape: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int] | None,
    padding: Padding,
    dilation: Sequence[int],
    ceil_mode: bool,
    layout: str,
) -> PoolWindows:
    """Build the window geometry over an array, with the padding that `ceil_mode` adds.

    Raises:
        ShapeError: If the window does not fit into the array.
    """
    axes = spatial_axes(layout)
    window = per_axis(window, len(axes), "window")
    strides = window if stride is None else per_axis(stride, len(axes), "stride")
    dilations = per_axis(dilation, len(axes), "dilation")
    reaches, sizes = list(map(dilated_span, window, dilations)), [shape[axis] for axis in axes]
    pads = pads_of(padding, len(axes))
    check_windows(sizes, reaches, strides, pads, ceil_mode)
    if isinstance(pads, str):
        pads = lax.padtype_to_pads(sizes, reaches, strides, pads)
    elif ceil_mode:
        pads = list(map(_ceil_padding, sizes, reaches, strides, pads))
    by_axis = dict(zip(axes, zip(window, strides, pads, dilations, strict=True), strict=True))
    entries = [by_axis.get(axis, (1, 1, (0, 0), 1)) for axis in range(len(shape))]
    window_sizes, steps, edges, spacings = zip(*entries, strict=True)
    return PoolWindows(window_sizes, steps, tuple(map(tuple, edges)), spacings)


def _ceil_padding(
    size: int, reach: int, stride: int, edges: tuple[int, int]
) -> tuple[int, int]:
    """Return the padding that the last window needs in `ceil_mode`."""
    low, high = edges
    first_of_last = as_number(room_for(size, reach, stride, edges, True)) // stride * stride
    return low, max(first_of_last + reach - size - low, high)


def pool_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of pooling: spatial axes are mixed, the others pointwise."""
    layout = tuple(str(attrs["layout"]))
    mixed = [layout[axis] for axis in spatial_axes("".join(layout))]
    outputs = {"out": (layout,), "indices": (layout,)}
    return make_axis_map(types, {"x": (layout,)}, outputs, mixed)


def numbers_in_window(types: Types, attrs: Attrs) -> int:
    """Return the number of elements of a window."""
    del types
    count = len(spatial_axes(str(attrs["layout"])))
    return math.prod(per_axis(require_tuple(attrs["window"]), count, "window"))


def pairs_in_window(types: Types, attrs: Attrs) -> int:
    """Return the operations per result for comparing pairs of values and positions."""
    return 8 * numbers_in_window(types, attrs) + 7


# ---- max pooling -----------------------------------------------------------------------------


def max_pool(
    x: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    ceil_mode: bool = False,
    layout: str = "",
) -> Tensor:
    """The maximum of each window along $axes.

        out[n, c, i] = max_k x[n, c, i * stride + k * dilation]

    Padding is never the maximum, not even if all elements are -inf. On ties the gradient goes
    to the first maximum. NaN is larger than all numbers; on ties of NaN, too, the first counts.

    Inputs:
        x: number[n, c, *space], or in the order of `layout`.

    Attributes:
        $sliding

    Outputs:
        out: The dtype of `x`; number[n, c, *windows], in the order of `layout`.

    Raises:
        ShapeError: If the window does not fit the input, or an attribute has too many numbers.
        DTypeError: If `x` is complex.
    """
    return max_of_windows(
        x, windows_over(x.shape, window, stride, padding, dilation, ceil_mode, layout)
    )


MAX_EXAMPLES = {
    1: (
        "x=f32[2,3,6] window=2",
        "x=f64[b,2,t] window=3 stride=2 padding=1 ceil_mode=True",
        "x=f32[2,9,2] window=3 dilation=2 stride=1 layout=NWC",
    ),
    2: (
        "x=f32[2,3,4,6] window=2",
        "x=f64[b,2,h,w] window=(3,2) stride=2 padding=1",
        "x=f32[b,5,5,2] window=3 stride=2 padding=same layout=NHWC",
        "x=f64[b,2,h,6] window=2 stride=(2,3) dilation=(2,1) ceil_mode=True",
        "x=i32[1,1,4,4] window=2 stride=1",
        "x=f32[0,2,4,4] window=2",
    ),
    3: (
        "x=f32[2,1,4,2,4] window=2",
        "x=f64[b,1,3,h,4] window=2 stride=1 padding=(0,1,1) dilation=(1,2,1)",
        "x=f64[1,5,4,6,1] window=(3,4,3) stride=2 padding=same layout=NDHWC",
    ),
}

max_pool1d, max_pool2d, max_pool3d = define_for_ranks(
    max_pool,
    infer=ordered_type,
    axes=pool_axis_map,
    operations=count_per_element("out", numbers_in_window),
    examples=MAX_EXAMPLES,
    sliding=SLIDING,
)


@in_float32
def max_pool_vjp(
    x: Tensor,
    out: Tensor,
    out_grad: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    ceil_mode: bool = False,
    layout: str = "",
) -> Tensor:
    """Gradient: each cotangent goes to the first maximum of its window."""
    if not out.size:
        return jnp.zeros(x.shape, out_grad.dtype)
    windows = windows_over(x.shape, window, stride, padding, dilation, ceil_mode, layout)
    if windows.places > MOST_PLACES:
        _, pull = jax.vjp(lambda x: max_of_windows(x, windows), x)
        return pull(out_grad)[0]
    return scatter_to_first(first_match(x, out, windows), out_grad, windows, x.shape)


for definition in (max_pool1d, max_pool2d, max_pool3d):
    definition.vjp(max_pool_vjp)


def max_pool_with_indices(
    x: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] | None = None,
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    ceil_mode: bool = False,
    layout: str = "",
) -> tuple[Tensor, Tensor]:
    """The maximum of each window along $axes, and its index.

        out[n, c, i] = max_k x[n, c, i * stride + k * dilation]
        indices[n, c, i] = the index of that element in x[n, c], flattened

    Padding is never the maximum. On ties the first maximum counts, for the gradient too. NaN is
    larger than all numbers.

    Inputs:
        x: number[n, c, *space], or in the order of `layout`.

    Attributes:
        $sliding

    Outputs:
        out: The dtype of `x`; number[n, c, *windows], in the order of `layout`.
        indices: int64, as `out`.

    Raises:
        ShapeError: If the window does not fit the input, or an attribute has too many numbers.
        DTypeError: If `x` is complex.
    """
    windows = windows_over(x.shape, window, stride, padding, dilation, ceil_mode, layout)
    at, place = argmax_of_windows(x, windows), jnp.zeros((), "int64")
    coordinates = jnp.unravel_index(at.astype("int64"), x.shape)
    for axis in spatial_axes(layout):
        place = place * x.shape[axis] + coordinates[axis]
    return max_of_windows(x, windows), place


define_for_ranks(
    max_pool_with_indices,
    infer=ordered_and_places,
    outputs=("out", "indices"),
    axes=pool_axis_map,
    operations=count_per_element("out", pairs_in_window),
    examples=MAX_EXAMPLES,
    sliding=SLIDING,
)
