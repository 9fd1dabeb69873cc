"""Transposed convolution: the input gradient of a convolution.

Where `conv` reads a window for each output element, a transposed convolution adds a window for
each input element. Along a spatial axis of size `n`, the size of the result is

    padding            result
    "valid"            (n - 1) * stride + reach + output_padding
    "same"             n * stride
    (p, …)             (n - 1) * stride + reach + output_padding - low - high
"""

from __future__ import annotations

from collections.abc import Sequence

from braces.define.axes.axis_map import Attrs, AxisMap, Types, make_axis_map
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Padding, Tensor
from braces.define.type_inference import InferenceContext
from braces.dims import Size, call
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp
from braces.ops.common.rules import as_floating, float_dtype, promote, promote_arrays
from braces.ops.conv_pool.conv import (
    axes_of_three,
    check_bias,
    expand_bias,
    inverse_permutation,
    kernel_permutations,
    products_per_output,
    window_of,
)
from braces.ops.conv_pool.cpu_algorithms import ConvGeometry, dilated_span
from braces.ops.conv_pool.data_layouts import (
    LAYOUTS,
    check_layout,
    check_rank,
    pads_of,
    per_axis,
    spatial_axes,
)
from braces.ops.conv_pool.lax_conv import bind_convolution
from braces.ops.conv_pool.spatial_ranks import define_for_ranks


def spread_windows(
    window: Sequence[int],
    stride: Sequence[int],
    padding: Padding,
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> ConvGeometry:
    """Build the window geometry over the result; `output_padding` is negative padding.

    Raises:
        ShapeError: If an attribute has too many or too few numbers, or `output_padding` is set
            together with `padding="same"`.
    """
    count = len(window)
    strides = per_axis(stride, count, "stride")
    dilations = per_axis(dilation, count, "dilation")
    extra = per_axis(output_padding, count, "output_padding", least=0)
    pads = pads_of(padding, count)
    if isinstance(pads, str):
        if any(extra):
            raise ShapeError(
                "output_padding is not supported with padding='same'.",
                given=f"output_padding={tuple(output_padding)}",
                fix="Omit output_padding; the output size is stride times the input size.",
            )
        pads = list(map(_same_padding, map(dilated_span, window, dilations), strides))
    edges = ((low, high - more) for (low, high), more in zip(pads, extra, strict=True))
    return ConvGeometry(strides, tuple(edges), (1,) * count, dilations, groups)


def _same_padding(reach: int, stride: int) -> tuple[int, int]:
    """Return the cropping (low, high) for a result that is `stride` times as long."""
    low = max(reach - stride, 0) // 2
    return low, reach - stride - low


def spread_size(size: Size, window: int, axis: int, windows: ConvGeometry, what: str) -> Size:
    """Return the size of the result along a spatial axis.

    Raises:
        ShapeError: If the size is known and below 1.
    """
    spanned = dilated_span(window, windows.dilations[axis])
    length = (size - 1) * windows.strides[axis] + spanned - sum(windows.pads[axis])
    if isinstance(length, int) and length < 1:
        raise ShapeError(
            f"{what}: output size is less than 1 for an axis of size {size}.",
            given=f"window span {spanned}   stride {windows.strides[axis]}",
            fix="Use less padding.",
        )
    return call("max", length, 0)


def transposed_type(
    rank: int,
    context: InferenceContext,
    x: TensorType,
    weight: TensorType,
    bias: TensorType | None,
    *,
    stride: tuple[int, ...],
    padding: Padding,
    output_padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    layout: str,
) -> TensorType:
    """Infer the type of a transposed convolution of arrays of this rank."""
    check_rank(x, rank, f"x of {context.type}")
    check_rank(weight, rank, f"weight of {context.type}")
    weights = LAYOUTS[check_layout(layout, rank)]
    window = window_of(weight, weights)
    windows = spread_windows(window, stride, padding, output_padding, dilation, groups)
    shape, channel = list(x.shape), layout.index("C")
    for i, axis in enumerate(spatial_axes(layout)):
        shape[axis] = spread_size(shape[axis], window[i], i, windows, context.type)
    inputs, group_outputs = (weight.shape[weights.index(letter)] for letter in "OI")
    _check_groups(context, inputs, groups)
    problem = f"{context.type}: expected {inputs} input channels, got {shape[channel]}."
    context.unify(shape[channel], inputs, problem)
    shape[channel] = group_outputs * groups
    dtypes = [x.dtype, weight.dtype]
    if bias is not None:
        check_bias(context, bias, shape[channel])
        dtypes.append(bias.dtype)
    return TensorType(float_dtype(promote(*dtypes)), tuple(shape))


def _check_groups(context: InferenceContext, inputs: Size, groups: int) -> None:
    if groups < 1:
        raise ShapeError(f"{context.type}: invalid groups={groups}.", fix="Use 1 or more.")
    if (inputs % groups) != 0:
        raise ShapeError(
            f"{context.type}: {inputs} input channels are not divisible by groups={groups}.",
            fix="Use a multiple of groups as the number of input channels.",
        )


def conv_transpose_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: pointwise on the batch; spatial axes are mixed, with groups channels too."""
    axes, mixed = axes_of_three(attrs)
    inputs = {"x": (axes["out"],), "weight": (axes["weight"],), "bias": (("C",),)}
    input_axes = {slot: names for slot, names in inputs.items() if slot in types}
    return make_axis_map(types, input_axes, {"out": (axes["x"],)}, mixed)


def products_of_element(types: Types, attrs: Attrs) -> Size:
    """Return the number of operations per input element."""
    return products_per_output(types["weight"][0], attrs)


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    output_padding: tuple[int, ...] = (0,),
    dilation: tuple[int, ...] = (1,),
    groups: int = 1,
    layout: str = "",
) -> Tensor:
    """Transposed convolution along $axes.

        out[n, o, i * stride + k * dilation - low] += x[n, c, i] * weight[c, o, k]

    for all `c`, `i` and `k`, starting from `bias[o]`. With several spatial axes, `i` and `k`
    are multi-indices. This is the input gradient of a convolution with the same weight, where
    `o` and `c` are exchanged; it upsamples where the convolution downsamples.

    Inputs:
        x: float[n, c, *space], or in the order of `layout`. Integers give float32.
        weight: float[c, o / groups, *window]; float[*window, o / groups, c] for `$last`.
        bias: float[o]; may be absent.

    Attributes:
        stride: The step between the windows that are added; one number for all axes, or one for
            each.
        padding: The cropping at the edges: "valid" (none), "same" (to `stride` times the size
            of the input), or numbers, as for a convolution.
        output_padding: Extra size of the result at the end of each axis; as `stride`.
        dilation: The distance between the elements of a window; as `stride`.
        groups: The number of groups of channels; each output channel reads one group.
        layout: `$first` or `$last`.

    Outputs:
        out: float[n, o, *space], in the order of `layout`; along each spatial axis
            `(size - 1) * stride + (window - 1) * dilation + 1 + output_padding - low - high`.

    Raises:
        ShapeError: If channels differ, the result is empty, or an attribute has too many
            numbers.
    """
    operands = (x, weight) if bias is None else (x, weight, bias)
    x, weight, *biases = map(as_floating, promote_arrays(*operands))
    order, kernel_order = kernel_permutations(layout)
    x, kernel = jnp.transpose(x, order), jnp.transpose(weight, kernel_order)
    window = kernel.shape[:-2]
    windows = spread_windows(window, stride, padding, output_padding, dilation, groups)
    spans = [
        max((size - 1) * step + dilated_span(length, distance) - low - high, 0)
        for size, step, length, distance, (low, high) in zip(
            x.shape[1:-1], windows.strides, window, windows.dilations, windows.pads, strict=True
        )
    ]
    shape = (x.shape[0], *spans, kernel.shape[-2] * groups)
    if x.size:
        result = bind_convolution("x", {"kernel": kernel, "out": x}, windows, shape)
    else:  # the convolution may still have non-empty windows
        result = jnp.zeros(shape, x.dtype)
    out = jnp.transpose(result, inverse_permutation(order))
    return out + expand_bias(biases[0], layout) if biases else out


conv_transpose1d, conv_transpose2d, conv_transpose3d = define_for_ranks(
    conv_transpose,
    infer=transposed_type,
    axes=conv_transpose_axis_map,
    function=False,
    costly=True,
    operations=count_per_element("x", products_of_element),
    examples={
        1: (
            "x=f32[2,3,5] weight=f32[3,4,3] bias=f32[4]",
            "x=f64[b,2,t] weight=f64[2,3,4] stride=2 padding=1",
            "x=f32[2,t,4] weight=f32[3,1,4] bias=f32[2] padding=same stride=2 groups=2 "
            "layout=NWC",
            "x=f64[2,2,4] weight=f64[2,1,2] stride=3 output_padding=2 dilation=2",
            "x=f32[0,2,4] weight=f32[2,1,2]",
        ),
        2: (
            "x=f32[2,3,4,5] weight=f32[3,2,3,2] bias=f32[2]",
            "x=f64[b,2,h,w] weight=f64[2,3,3,3] stride=2 padding=1 output_padding=1",
            "x=f32[b,4,3,4] weight=f32[4,1,2,3] bias=f32[2] groups=2 dilation=(2,1)",
            "x=f32[b,3,4,2] weight=f32[2,2,3,2] padding=same stride=3 layout=NHWC",
            "x=f32[1,1,4,4] weight=f32[1,1,2,2] stride=(2,1) padding=(0,1,1,0)",
        ),
        3: (
            "x=f32[2,2,3,2,3] weight=f32[2,3,2,1,3] bias=f32[3]",
            "x=f64[b,2,2,h,3] weight=f64[2,1,2,2,2] stride=(1,2,2) padding=(0,1,0)",
            "x=f32[2,2,3,2,4] weight=f32[2,2,2,2,4] bias=f32[4] groups=2 layout=NDHWC",
        ),
    },
)
