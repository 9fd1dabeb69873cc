"""Convolution: windows that slide along the spatial axes.

A layout names the axes of `x` in order: `N` the batch, `C` the channels, the other letters the
spatial axes. Weights follow it: output channels, input channels, window where channels come
first (`NCHW`: `OIHW`); window, input channels, output channels where they come last (`NHWC`:
`HWIO`).

Along a spatial axis of size `n`, a window of `k` elements that lie `dilation` apart spans
`reach = (k - 1) * dilation + 1`, and the size of the result is

    padding            result
    "valid"            max((n - reach) // stride + 1, 0)
    "same"             (n + stride - 1) // stride; an odd padding has one more at the end
    (p, …)             max((n + low + high - reach) // stride + 1, 0)

Numbers of `padding` are one for all edges, one for each spatial axis, or (low, high) for each
spatial axis in turn. Where sizes are known, a window that does not fit is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from braces.define.axes import Attrs, AxisMap, Types, mapped, shape_of
from braces.define.counting import for_each
from braces.define.decorator import Padding, Tensor, op
from braces.define.inference import Context
from braces.dims import Size, call, product
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp, lax
from braces.ops.convolution import convolution
from braces.ops.convolution_ways import Windows, reach
from braces.ops.rules import float_dtype, floating, promote, promoted

Pads: TypeAlias = "str | list[tuple[int, int]]"

LAYOUTS: dict[str, str] = {"NCW": "OIW", "NWC": "WIO", "NCHW": "OIHW", "NHWC": "HWIO"}
"""Layout of the input to layout of the weight."""


# ---- windows ---------------------------------------------------------------------------------


def check_layout(layout: str, rank: int) -> str:
    """The layout, which must be one for arrays of this rank.

    Raises:
        ShapeError: There is no such layout.
    """
    known = [name for name in LAYOUTS if len(name) == rank]
    if layout not in known:
        raise ShapeError(f"There is no layout {layout!r}.", fix=f"Use {' or '.join(known)}.")
    return layout


def spatial_axes(layout: str) -> tuple[int, ...]:
    """The axes along which windows slide."""
    return tuple(axis for axis, letter in enumerate(layout) if letter not in "NCOI")


def per_axis(values: Sequence[int], count: int, what: str, least: int = 1) -> tuple[int, ...]:
    """One number for each spatial axis, where one stands for all.

    Raises:
        ShapeError: There are too many or too few, or one is too small.
    """
    if len(values) not in (1, count):
        raise ShapeError(
            f"{what} has {len(values)} numbers for {count} spatial axes.",
            given=f"{what}={tuple(values)}",
            fix="Give one number for all, or one for each.",
        )
    if min(values) < least:
        raise ShapeError(f"{what} must be at least {least}.", given=f"{what}={tuple(values)}")
    return tuple(values) * (count // len(values))


def pads_of(padding: Padding, count: int) -> Pads:
    """`"SAME"`, or (low, high) for each spatial axis; the form that `jax.lax` takes.

    Raises:
        ShapeError: It is neither a known word nor a number for each axis or edge.
    """
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ShapeError(
                f"There is no padding {padding!r}.", fix="Use 'same', 'valid' or numbers."
            )
        return "SAME" if padding == "same" else [(0, 0)] * count
    if len(padding) == 2 * count:
        edges = per_axis(padding, 2 * count, "padding", least=0)
        return list(zip(edges[::2], edges[1::2], strict=True))
    return [(n, n) for n in per_axis(padding, count, "padding", least=0)]


def windowed_size(
    size: Size, reach: int, stride: int, pads: tuple[int, int] | None, what: str
) -> Size:
    """How many windows fit along an axis; `pads` is `None` for "same".

    Raises:
        ShapeError: The size is known and not even one window fits.
    """
    if pads is None:
        return (size + stride - 1) // stride
    room = size + sum(pads) - reach
    if isinstance(room, int) and room < 0:
        raise ShapeError(
            f"The window of {what} spans {reach} elements and does not fit into {size}"
            + (f" + {sum(pads)} of padding." if sum(pads) else "."),
            fix="Use padding='same', more padding, or a smaller window.",
        )
    return call("max", room // stride + 1, 0)


def windowed_sizes(
    x: TensorType,
    window: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Padding,
    layout: str,
    what: str,
) -> dict[int, Size]:
    """The sizes of the result by spatial axis."""
    axes = spatial_axes(layout)
    strides = per_axis(stride, len(axes), "stride")
    dilations = per_axis(dilation, len(axes), "dilation")
    pads = pads_of(padding, len(axes))
    return {
        axis: windowed_size(
            x.shape[axis],
            reach(window[i], dilations[i]),
            strides[i],
            None if isinstance(pads, str) else pads[i],
            what,
        )
        for i, axis in enumerate(axes)
    }


def check_rank(x: TensorType, rank: int, what: str) -> None:
    """Refuse arrays of another rank.

    Raises:
        ShapeError: The rank differs.
    """
    if x.rank != rank:
        raise ShapeError(
            f"{what} has {x.rank} axes, not {rank}.",
            fix="Axes are batch, channels and space; br.expand_dims adds one.",
        )


# ---- convolution -----------------------------------------------------------------------------


def convolving(rank: int) -> Callable[..., TensorType]:
    """Inference for convolutions of arrays of this rank."""
    return functools.partial(_convolution_type, rank)


def _convolution_type(
    rank: int,
    context: Context,
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
    check_rank(x, rank, f"x of {context.type}")
    check_rank(weight, rank, f"weight of {context.type}")
    kernel_layout = LAYOUTS[check_layout(layout, rank)]
    window = _window_of(weight, kernel_layout)
    shape = dict(enumerate(x.shape))
    shape |= windowed_sizes(x, window, stride, dilation, padding, layout, context.type)
    shape[layout.index("C")] = _output_channels(
        context, x.shape[layout.index("C")], weight, kernel_layout, groups
    )
    dtypes = [x.dtype, weight.dtype]
    if bias is not None:
        _check_bias(context, bias, shape[layout.index("C")])
        dtypes.append(bias.dtype)
    return TensorType(float_dtype(promote(*dtypes)), tuple(shape[a] for a in range(rank)))


def _window_of(weight: TensorType, kernel_layout: str) -> list[int]:
    sizes = [weight.shape[axis] for axis in spatial_axes(kernel_layout)]
    window = [size for size in sizes if isinstance(size, int) and size > 0]
    if len(window) < len(sizes):
        raise ShapeError(
            "The window of a convolution must have known sizes, of at least 1.",
            fix=f"The axes of weight are {kernel_layout}.",
        )
    return window


def _output_channels(
    context: Context, channels: Size, weight: TensorType, kernel_layout: str, groups: int
) -> Size:
    taken, given = (weight.shape[kernel_layout.index(letter)] for letter in "IO")
    if groups < 1:
        raise ShapeError(f"{context.type} cannot have {groups} groups.", fix="Use 1 or more.")
    if (given % groups) != 0:
        raise ShapeError(
            f"{context.type} cannot divide {given} output channels into {groups} groups.",
            fix="Output channels must be a multiple of groups.",
        )
    problem = (
        f"{context.type} has {channels} input channels, but weight takes {taken * groups}"
        + (f" ({taken} in each of {groups} groups)." if groups > 1 else ".")
    )
    context.unify(channels, taken * groups, problem)
    return given


def _check_bias(context: Context, bias: TensorType, channels: Size) -> None:
    if bias.rank != 1:
        raise ShapeError(f"bias of {context.type} has {bias.rank} axes, not 1.")
    problem = f"{context.type} has {channels} output channels, but bias has {bias.shape[0]}."
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
    """The kernel of convolutions of any rank."""
    given = (x, weight) if bias is None else (x, weight, bias)
    x, weight, *rest = map(floating, promoted(*given))
    kernel_layout = LAYOUTS[layout]
    order = (layout.index("N"), *spatial_axes(layout), layout.index("C"))
    kernel_order = (*spatial_axes(kernel_layout), *map(kernel_layout.index, "IO"))
    x, kernel = jnp.transpose(x, order), jnp.transpose(weight, kernel_order)
    out = convolution(x, kernel, _windows(x, kernel, stride, padding, dilation, groups))
    out = jnp.transpose(out, [order.index(axis) for axis in range(x.ndim)])
    return out + _along_channels(rest[0], layout) if rest else out


def _windows(
    x: Any,
    kernel: Any,
    stride: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    groups: int,
) -> Windows:
    count = x.ndim - 2
    strides = per_axis(stride, count, "stride")
    dilations = per_axis(dilation, count, "dilation")
    pads = pads_of(padding, count)
    if isinstance(pads, str):
        reaches = list(map(reach, kernel.shape[:-2], dilations))
        pads = lax.padtype_to_pads(x.shape[1:-1], reaches, strides, pads)
    return Windows(strides, tuple(pads), (1,) * count, dilations, groups)


def _along_channels(bias: Any, layout: str) -> Any:
    return jnp.expand_dims(bias, [axis for axis, letter in enumerate(layout) if letter != "C"])


def convolved(types: Types, attrs: Attrs) -> AxisMap:
    """The batch is kept, windows mix what they slide over, and groups mix channels."""
    layout, groups = str(attrs["layout"]), attrs["groups"]
    channel = "C" if groups == 1 else "I"
    weight = [{"I": channel, "O": "O"}.get(one, f"window {one}") for one in LAYOUTS[layout]]
    out = tuple("O" if one == "C" else one for one in layout)
    inputs = {"x": (tuple(layout),), "weight": (tuple(weight),), "bias": (("O",),)}
    mixed = {*layout, *weight} - ({"N", "C", "O"} if groups == 1 else {"N"})
    given = {slot: found for slot, found in inputs.items() if slot in types}
    return mapped(types, given, {"out": (out,)}, mixed)


def products_in_window(types: Types, attrs: Attrs) -> Size:
    """The products and sums of one result, padding among them."""
    shape = shape_of(types["weight"][0])
    channels = LAYOUTS[str(attrs["layout"])].index("O")
    window = product(tuple(size for axis, size in enumerate(shape) if axis != channels))
    return 2 * window + ("bias" in types)


@op(
    infer=convolving(3),
    axes=convolved,
    costly=True,
    function=False,
    operations=for_each("out", products_in_window),
    examples=(
        "x=f32[2,3,5] weight=f32[4,3,3] bias=f32[4]",
        "x=f64[b,2,t] weight=f64[3,2,2] stride=2 padding=1",
        "x=f32[2,t,3] weight=f32[3,3,4] bias=f32[4] padding=same layout=NWC",
        "x=f32[0,2,4] weight=f32[4,1,2] groups=2 dilation=2",
    ),
)
def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    groups: int = 1,
    layout: str = "NCW",
) -> Tensor:
    """Convolution along one spatial axis.

        out[n, o, i] = bias[o] + sum_{c, k} weight[o, c, k] * x[n, c, i * stride + k * dilation]

    Inputs:
        x: float[n, c, w], or in the order of `layout`. Integers give float32.
        weight: float[o, c / groups, k]; float[k, c / groups, o] for `NWC`.
        bias: float[o]; may be absent.

    Attributes:
        stride: How far windows lie apart.
        padding: "valid" (none), "same" (as many windows as `ceil(w / stride)`), or numbers: one
            for both ends, or (low, high). Padding is zeros.
        dilation: How far the elements of a window lie apart.
        groups: Channels are cut into so many groups; each output channel sees one of them.
        layout: `NCW` or `NWC`.

    Outputs:
        out: float[n, o, windows], in the order of `layout`.

    Raises:
        ShapeError: Channels differ, the window does not fit, or an attribute has too many
            numbers.
    """
    return convolve(x, weight, bias, stride, padding, dilation, groups, layout)


@op(
    infer=convolving(4),
    axes=convolved,
    costly=True,
    function=False,
    operations=for_each("out", products_in_window),
    examples=(
        "x=f32[2,3,5,4] weight=f32[4,3,3,2] bias=f32[4]",
        "x=f64[b,2,h,w] weight=f64[3,2,3,3] stride=2 padding=1",
        "x=f32[b,h,w,2] weight=f32[2,3,2,4] bias=f32[4] padding=same layout=NHWC",
        "x=f32[2,4,5,6] weight=f32[4,1,2,2] groups=4 dilation=(2,1) padding=(0,1)",
        "x=f32[1,1,4,4] weight=f32[1,1,2,2] stride=(2,1) padding=(0,1,2,0)",
        "x=f32[0,1,4,4] weight=f32[2,1,3,3]",
    ),
)
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    groups: int = 1,
    layout: str = "NCHW",
) -> Tensor:
    """Convolution along two spatial axes.

        out[n, o, i, j] = bias[o]
            + sum_{c, k, l} weight[o, c, k, l] * x[n, c, i * stride + k, j * stride + l]

    with `k` and `l` times `dilation`; this is the cross-correlation that neural networks call
    convolution.

    Inputs:
        x: float[n, c, h, w], or in the order of `layout`. Integers give float32.
        weight: float[o, c / groups, k, l]; float[k, l, c / groups, o] for `NHWC`.
        bias: float[o]; may be absent.

    Attributes:
        stride: How far windows lie apart; one number for both axes, or one for each.
        padding: "valid" (none), "same" (as many windows as `ceil(size / stride)`), or numbers:
            one for all edges, one for each axis, or (top, bottom, left, right). Padding is
            zeros.
        dilation: How far the elements of a window lie apart; as `stride`.
        groups: Channels are cut into so many groups; each output channel sees one of them. As
            many groups as channels make a depthwise convolution.
        layout: `NCHW` or `NHWC`.

    Outputs:
        out: float[n, o, windows, windows], in the order of `layout`.

    Raises:
        ShapeError: Channels differ, the window does not fit, or an attribute has too many
            numbers.
    """
    return convolve(x, weight, bias, stride, padding, dilation, groups, layout)
