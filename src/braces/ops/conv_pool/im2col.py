"""im2col and col2im: the windows of an array as columns, and the adjoint.

    x   1 2 3   im2col   1 2        col2im   1 2+2 3
                         2 3

Layouts with channels first, padding and sizes are those of `braces.ops.conv_pool.data_layouts`.
Each operator is the gradient of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
    require_tuple,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Padding, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, product
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jax, jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import Backward, as_floating, float_dtype
from braces.ops.conv_pool.argmax_windows import PoolWindows, pad_zeros
from braces.ops.conv_pool.cpu_algorithms import dilated_span
from braces.ops.conv_pool.data_layouts import LAYOUTS, per_axis, windowed_sizes
from braces.ops.conv_pool.max_pool import windows_over


def channels_first(rank: int, what: str) -> str:
    """Return the channels-first layout of arrays of this rank.

    Raises:
        ShapeError: If no layout has this rank.
    """
    layouts = [layout for layout in LAYOUTS if len(layout) == rank and layout[1] == "C"]
    if not layouts:
        raise ShapeError(
            f"{what}: expected rank 3, 4 or 5, got rank {rank}.",
            fix="Pass batch, channel, and one to three spatial axes.",
        )
    return layouts[0]


def im2col_type(
    context: InferenceContext,
    x: TensorType,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: Padding,
    dilation: tuple[int, ...],
) -> TensorType:
    """Infer the type of im2col: (batch, elements of a window, windows)."""
    layout = channels_first(x.rank, f"x of {context.type}")
    sizes = per_axis(window, x.rank - 2, "window")
    places = windowed_sizes(x, sizes, stride, dilation, padding, layout, context.type)
    inside = x.shape[1] * math.prod(sizes)
    return x.with_shape((x.shape[0], inside, product(tuple(places.values()))))


def im2col_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of im2col: pointwise on the batch."""
    del attrs
    space = numbered_indices(first_rank(types) - 1)
    out = ("batch", "inside", "places")
    return make_axis_map(
        types, {"x": (("batch", *space),)}, {"out": (out,)}, [*space, *out[1:]]
    )


def col2im_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of col2im: pointwise on the batch."""
    space = numbered_indices(len(require_tuple(attrs["shape"])) - 1)
    x = ("batch", "inside", "places")
    return make_axis_map(types, {"x": (x,)}, {"out": (("batch", *space),)}, [*space, *x[1:]])


@op(
    infer=im2col_type,
    axes=im2col_axis_map,
    operations=0,
    examples=(
        "x=f32[2,3,5] window=3",
        "x=f64[b,2,h,w] window=(3,2) stride=2 padding=1",
        "x=f32[2,1,4,5] window=2 dilation=(2,1) padding=same",
        "x=f64[b,1,3,4,2] window=(2,3,1) padding=(0,1,1,0,0,0)",
        "x=i32[1,2,4] window=2 stride=2",
        "x=f32[0,2,4,4] window=2",
    ),
)
def im2col(
    x: Tensor,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
) -> Tensor:
    """The elements of each window as one column; windows may overlap.

        out[n, (c, k), i] = x[n, c, i * stride + k * dilation]

    where the positions `k` in a window and the windows `i` are flattened in row-major order. A
    convolution is the matrix product of its weights with the columns.

    Inputs:
        x: number[n, c, *space], with one to three spatial axes.

    Attributes:
        window: The window size; one number for all axes, or one for each.
        stride: The step between windows.
        padding: "valid", "same", or numbers, as for a convolution.
        dilation: The distance between the elements of a window.

    Outputs:
        out: number[n, c * elements of a window, windows].

    Raises:
        ShapeError: If the window does not fit the input, or an attribute has too many numbers.
    """
    layout = channels_first(x.ndim, "x")
    return extract_columns(
        x, windows_over(x.shape, window, stride, padding, dilation, False, layout)
    )


def extract_columns(x: Any, windows: PoolWindows) -> Any:
    """Compute im2col axis by axis: one strided slice for each element of the window."""
    slices, rank = pad_zeros(x, windows.pads), x.ndim
    for axis in range(2, rank):
        step, dilation = windows.steps[axis], windows.dilations[axis]
        spanned = dilated_span(windows.sizes[axis], dilation)
        count = max((slices.shape[axis] - spanned) // step + 1, 0)
        span = max(dilated_span(count, step), 0)
        starts = [at * dilation for at in range(windows.sizes[axis])]
        parts = [lax.slice_in_dim(slices, s, s + span, step, axis) for s in starts]
        slices = jnp.stack(parts, -1)
    order = (0, 1, *range(rank, 2 * rank - 2), *range(2, rank))
    inside = x.shape[1] * windows.places
    places = math.prod(slices.shape[2:rank])
    return jnp.transpose(slices, order).reshape(x.shape[0], inside, places)


@op(
    axes=col2im_axis_map,
    additive=True,
    operations=count_per_element("x"),
    examples=(
        "x=f32[2,9,3] shape=(2,3,5) window=3",
        "x=f64[b,12,6] shape=(b,2,4,5) window=(3,2) stride=2 padding=1",
        "x=f32[2,4,20] shape=(2,1,4,5) window=2 dilation=(2,1) padding=same",
        "x=f64[b,6,18] shape=(b,1,3,4,2) window=(2,3,1) padding=(0,1,1,0,0,0)",
        "x=f32[0,8,9] shape=(0,2,4,4) window=2",
    ),
)
@in_float32
def col2im(
    x: Tensor,
    *,
    shape: Shape,
    window: tuple[int, ...],
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
) -> Tensor:
    """Columns scattered back to the windows of an array, summed where windows overlap.

        out[n, c, i * stride + k * dilation] += x[n, (c, k), i]

    with the columns of `im2col`; elements in padding are dropped. The adjoint of `im2col`.

    Inputs:
        x: float[n, c * elements of a window, windows]. Integers give float32.

    Attributes:
        shape: The shape of the result, [n, c, *space], with one to three spatial axes.
        window: The window size; one number for all axes, or one for each.
        stride: The step between windows.
        padding: "valid", "same", or numbers, as for a convolution.
        dilation: The distance between the elements of a window.

    Outputs:
        out: float[*shape].

    Raises:
        ShapeError: If the columns do not match the shape, or an attribute has too many numbers.
    """
    x = as_floating(x)
    layout = channels_first(len(shape), "shape")
    sizes = numbers_of(shape)
    windows = windows_over(sizes, window, stride, padding, dilation, False, layout)
    like = jax.ShapeDtypeStruct(sizes, x.dtype)
    (out,) = jax.linear_transpose(lambda image: extract_columns(image, windows), like)(x)
    return out


def numbers_of(shape: Any) -> Sequence[int]:
    """Return a shape as numbers (kernel helper)."""
    return tuple(shape)


@col2im.infer
def infer_col2im(
    context: InferenceContext, x: TensorType, *, shape: Shape, **attrs: Any
) -> TensorType:
    """Infer the type: the attribute `shape`, checked against the columns."""
    out = TensorType(float_dtype(x.dtype), tuple(map(context.unifier.resolve, shape)))
    column_type = im2col_type(context, out, **attrs)
    problem = f"{context.type}: expected {column_type} for an output of this shape, got {x}."
    if x.rank != 3:
        raise ShapeError(problem)
    for got, size in zip(x.shape, column_type.shape, strict=True):
        context.unify(got, size, problem)
    return out


@im2col.gradient
def im2col_gradient(g: Backward) -> dict[str, Var]:
    """Gradient of im2col: col2im."""
    return {"x": emit("col2im", g.out_grad, shape=g["x"].shape, **g.attrs)}


@col2im.gradient
def col2im_gradient(g: Backward) -> dict[str, Var]:
    """Gradient of col2im: im2col."""
    attrs = {name: value for name, value in g.attrs.items() if name != "shape"}
    return {"x": emit("im2col", g.out_grad, **attrs)}


register_linear(im2col, col2im)
