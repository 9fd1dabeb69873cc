"""Convolution along one to three spatial axes.

Layouts, padding and sizes are those of `braces.ops.conv_pool.data_layouts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.define.axes.axis_map import Attrs, AxisMap, Names, Types, make_axis_map, shape_of
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Padding, Tensor
from braces.define.type_inference import InferenceContext
from braces.dims import Size, product
from braces.dtypes import TensorType, Type
from braces.errors import ShapeError
from braces.lazy import jnp, lax
from braces.ops.common.rules import as_floating, float_dtype, promote, promote_arrays
from braces.ops.conv_pool.cpu_algorithms import ConvGeometry, dilated_span
from braces.ops.conv_pool.data_layouts import (
    LAYOUTS,
    check_layout,
    check_rank,
    check_windows,
    pads_of,
    per_axis,
    spatial_axes,
    windowed_sizes,
)
from braces.ops.conv_pool.lax_conv import convolution
from braces.ops.conv_pool.spatial_ranks import define_for_ranks

# ---- convolution -----------------------------------------------------------------------------


def convolution_type(
    rank: int,
    context: InferenceContext,
    x: TensorType,
    weight: TensorType,
    bias: TensorType | None,
    *,
    stride: tuple[int, ...],
    padding: Padding,
    dilation: tuple[int, ...],
    groups: int,
    layout: str,
) -> TensorType:
    """Infer the type of a convolution of arrays of this rank."""
    check_rank(x, rank, f"x of {context.type}")
    check_rank(weight, rank, f"weight of {context.type}")
    kernel_layout = LAYOUTS[check_layout(layout, rank)]
    window = window_of(weight, kernel_layout)
    shape = dict(enumerate(x.shape))
    shape |= windowed_sizes(x, window, stride, dilation, padding, layout, context.type)
    shape[layout.index("C")] = _output_channels(
        context, x.shape[layout.index("C")], weight, kernel_layout, groups
    )
    dtypes = [x.dtype, weight.dtype]
    if bias is not None:
        check_bias(context, bias, shape[layout.index("C")])
        dtypes.append(bias.dtype)
    return TensorType(float_dtype(promote(*dtypes)), tuple(shape[a] for a in range(rank)))


def window_of(weight: TensorType, kernel_layout: str) -> list[int]:
    """Return the window sizes of a weight, which must be known.

    Raises:
        ShapeError: If a size is symbolic or 0.
    """
    sizes = [weight.shape[axis] for axis in spatial_axes(kernel_layout)]
    window = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(window) < len(sizes):
        raise ShapeError(
            "the window of a convolution must have known sizes of at least 1.",
            fix=f"Pass `weight` with the axes {kernel_layout}.",
        )
    return window


def _output_channels(
    context: InferenceContext,
    channels: Size,
    weight: TensorType,
    kernel_layout: str,
    groups: int,
) -> Size:
    inputs, outputs = (weight.shape[kernel_layout.index(letter)] for letter in "IO")
    if groups < 1:
        raise ShapeError(f"{context.type}: invalid groups={groups}.", fix="Use 1 or more.")
    if (outputs % groups) != 0:
        raise ShapeError(
            f"{context.type}: {outputs} output channels are not divisible by groups={groups}.",
            fix="Use a multiple of groups as the number of output channels.",
        )
    problem = (
        f"{context.type}: expected {inputs * groups} input channels"
        + (f" ({inputs} in each of {groups} groups)" if groups > 1 else "")
        + f", got {channels}."
    )
    context.unify(channels, inputs * groups, problem)
    return outputs


def check_bias(context: InferenceContext, bias: TensorType, channels: Size) -> None:
    """Check the shape of a bias against the output channels.

    Raises:
        ShapeError: If the size or the rank of the bias differs.
    """
    if bias.rank != 1:
        raise ShapeError(f"bias of {context.type}: expected rank 1, got {bias}.")
    problem = f"{context.type}: expected a bias of size {channels}, got {bias.shape[0]}."
    context.unify(bias.shape[0], channels, problem)


def convolve(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    groups: int,
    layout: str,
) -> Any:
    """Compute a convolution of any rank (kernel)."""
    operands = (x, weight) if bias is None else (x, weight, bias)
    x, weight, *biases = map(as_floating, promote_arrays(*operands))
    order, kernel_order = kernel_permutations(layout)
    x, kernel = jnp.transpose(x, order), jnp.transpose(weight, kernel_order)
    windows = windows_of(x.shape, kernel.shape, stride, padding, dilation, groups)
    check_fit(x.shape, kernel.shape, windows)
    out = jnp.transpose(convolution(x, kernel, windows), inverse_permutation(order))
    return out + expand_bias(biases[0], layout) if biases else out


def kernel_permutations(layout: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the permutations of array and weight axes to the order of the kernels."""
    weights = LAYOUTS[layout]
    order = (layout.index("N"), *spatial_axes(layout), layout.index("C"))
    return order, (*spatial_axes(weights), *map(weights.index, "IO"))


def inverse_permutation(order: Sequence[int]) -> list[int]:
    """Return the inverse permutation."""
    return [order.index(axis) for axis in range(len(order))]


def windows_of(
    x: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    groups: int,
) -> ConvGeometry:
    """Build the window geometry from the shapes of input and weight in kernel order."""
    count = len(x) - 2
    strides = per_axis(stride, count, "stride")
    dilations = per_axis(dilation, count, "dilation")
    pads = pads_of(padding, count)
    if isinstance(pads, str):
        reaches = list(map(dilated_span, kernel[:-2], dilations))
        pads = lax.padtype_to_pads(x[1:-1], reaches, strides, pads)
    return ConvGeometry(strides, tuple(pads), (1,) * count, dilations, groups)


def check_fit(x: Sequence[int], kernel: Sequence[int], windows: ConvGeometry) -> None:
    """Check that windows fit into an input in kernel order (kernel).

    Raises:
        ShapeError: If an axis, with its padding, is smaller than the window.
    """
    reaches = list(map(dilated_span, kernel[:-2], windows.dilations))
    check_windows(x[1:-1], reaches, windows.strides, windows.pads)


def expand_bias(bias: Any, layout: str) -> Any:
    """Expand a bias to broadcast along the channels of a layout."""
    return jnp.expand_dims(bias, [axis for axis, letter in enumerate(layout) if letter != "C"])


def conv_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: pointwise on the batch; spatial axes are mixed, with groups channels too."""
    axes, mixed = axes_of_three(attrs)
    inputs = {"x": (axes["x"],), "weight": (axes["weight"],), "bias": (("O",),)}
    input_axes = {slot: names for slot, names in inputs.items() if slot in types}
    return make_axis_map(types, input_axes, {"out": (axes["out"],)}, mixed)


def axes_of_three(attrs: Attrs) -> tuple[dict[str, Names], set[str]]:
    """Return the axis names of input, weight and result, and the set of mixed axes."""
    layout, groups = str(attrs["layout"]), attrs["groups"]
    channel = "C" if groups == 1 else "I"
    names = {"I": channel, "O": "O"}
    weight = tuple(names.get(letter, f"window {letter}") for letter in LAYOUTS[layout])
    out = tuple("O" if letter == "C" else letter for letter in layout)
    mixed = {*layout, *weight} - ({"N", "C", "O"} if groups == 1 else {"N"})
    return {"x": tuple(layout), "weight": weight, "out": out}, mixed


def products_per_output(weight: Type, attrs: Attrs) -> Size:
    """Return the number of operations (products and sums) per output element."""
    channels = LAYOUTS[str(attrs["layout"])].index("O")
    sizes = (size for axis, size in enumerate(shape_of(weight)) if axis != channels)
    return 2 * product(tuple(sizes))


def conv_flops_per_output(types: Types, attrs: Attrs) -> Size:
    """Return the operations of `products_per_output`, plus one if there is a bias."""
    return products_per_output(types["weight"][0], attrs) + ("bias" in types)


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    groups: int = 1,
    layout: str = "",
) -> Tensor:
    """Convolution along $axes.

        out[n, o, i] = bias[o] + sum_{c, k} weight[o, c, k] * x[n, c, i * stride + k * dilation]

    With several spatial axes, `i` and `k` are multi-indices. This is the cross-correlation that
    neural networks call convolution.

    Inputs:
        x: float[n, c, *space], or in the order of `layout`. Integers give float32.
        weight: float[o, c / groups, *window]; float[*window, c / groups, o] for `$last`.
        bias: float[o]; may be absent.

    Attributes:
        stride: The step between windows; one number for all axes, or one for each.
        padding: "valid" (none), "same" (`ceil(size / stride)` windows), or numbers: one for all
            edges, one for each axis, or (low, high) for each axis in turn. Padding is zeros.
        dilation: The distance between the elements of a window; as `stride`.
        groups: The number of groups of channels; each output channel reads one group. As many
            groups as channels make a depthwise convolution.
        layout: `$first` or `$last`.

    Outputs:
        out: float[n, o, *windows], in the order of `layout`.

    Raises:
        ShapeError: If channels differ, the window does not fit the input, or an attribute has
            too many numbers.
    """
    return convolve(x, weight, bias, stride, padding, dilation, groups, layout)


conv1d, conv2d, conv3d = define_for_ranks(
    conv,
    infer=convolution_type,
    axes=conv_axis_map,
    costly=True,
    function=False,
    operations=count_per_element("out", conv_flops_per_output),
    examples={
        1: (
            "x=f32[2,3,5] weight=f32[4,3,3] bias=f32[4]",
            "x=f64[b,2,t] weight=f64[3,2,2] stride=2 padding=1",
            "x=f32[2,t,3] weight=f32[3,3,4] bias=f32[4] padding=same layout=NWC",
            "x=f32[0,2,4] weight=f32[4,1,2] groups=2 dilation=2",
        ),
        2: (
            "x=f32[2,3,5,4] weight=f32[4,3,3,2] bias=f32[4]",
            "x=f64[b,2,h,w] weight=f64[3,2,3,3] stride=2 padding=1",
            "x=f32[b,h,w,2] weight=f32[2,3,2,4] bias=f32[4] padding=same layout=NHWC",
            "x=f32[2,4,5,6] weight=f32[4,1,2,2] groups=4 dilation=(2,1) padding=(0,1)",
            "x=f32[1,1,4,4] weight=f32[1,1,2,2] stride=(2,1) padding=(0,1,2,0)",
            "x=f32[0,1,4,4] weight=f32[2,1,3,3]",
        ),
        3: (
            "x=f32[2,2,3,4,3] weight=f32[3,2,2,3,2] bias=f32[3]",
            "x=f64[b,2,3,h,w] weight=f64[3,2,2,2,2] stride=(1,2,2) padding=(0,0,0,1,0,0)",
            "x=f32[b,3,4,5,2] weight=f32[1,2,2,2,3] bias=f32[3] padding=same layout=NDHWC",
            "x=f32[2,4,3,5,4] weight=f32[4,1,2,2,2] groups=4 dilation=(1,2,1)",
        ),
    },
)
