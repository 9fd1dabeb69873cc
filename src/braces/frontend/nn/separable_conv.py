"""Depthwise and separable convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braces.builder.var import Operand, Var
from braces.define.decorator import Padding
from braces.dtypes import Extent
from braces.errors import ShapeError
from braces.frontend.control.block import compose_block, mark_layer_block
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Activation, Weight, feature_count, fixed_size
from braces.frontend.nn.conv import conv1d, conv2d

Layer = Callable[..., Var]

# ---- depthwise -------------------------------------------------------------------------------


@transactional
def depthwise_conv1d(
    x: Any,
    window: int | Sequence[int],
    *,
    multiplier: int = 1,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    layout: str = "NCW",
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """Depthwise convolution along one axis, like `depthwise_conv2d`; `NCW` or `NWC`."""
    return _depthwise(
        conv1d, x, window, multiplier, layout, stride=stride, padding=padding,
        dilation=dilation, act=act, name=name, params=params, bias=bias, init=init,
        bias_init=bias_init,
    )  # fmt: skip


@transactional
def depthwise_conv2d(
    x: Any,
    window: int | Sequence[int],
    *,
    multiplier: int = 1,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    layout: str = "NCHW",
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """Depthwise convolution: each channel has its own filters.

    It is `conv2d` with one group per channel and `multiplier` filters for each.

    Args:
        x: The input, with axes in the order of `layout`; the number of channels is not
            symbolic.
        window: The window sizes, or one for all axes.
        multiplier: Number of output channels per input channel; they are adjacent.
        stride: As for `conv2d`, like all further arguments.
        padding: `"valid"`, `"same"`, or numbers.
        dilation: Distance between adjacent elements of the window.
        layout: `"NCHW"` or `"NHWC"`.
        act: The activation: the name of an operator, as "relu", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names of the parameters, `[w, b]` or `[w]`; existing ones are shared.
        bias: The bias itself, [channels * multiplier]; or whether to create one.
        init: Initializer of w; Glorot uniform by default.
        bias_init: Initializer of b.

    Raises:
        ShapeError: The number of channels is symbolic, or the multiplier is below 1.
    """
    return _depthwise(
        conv2d, x, window, multiplier, layout, stride=stride, padding=padding,
        dilation=dilation, act=act, name=name, params=params, bias=bias, init=init,
        bias_init=bias_init,
    )  # fmt: skip


def _depthwise(
    convolve: Layer, x: Any, window: Any, multiplier: Any, layout: str, **options: Any
) -> Var:
    what = f"depthwise_{convolve.__name__}"
    x = operand(x, what)
    if layout.count("C") != 1 or len(layout) != x.ndim:
        raise ShapeError(
            f"layout {layout!r:.40} does not match `{x.name}` in {what}.",
            given=f"{x.name}: {x.type}",
        )
    channels, times = fixed_size(x, layout.index("C"), what), feature_count(multiplier)
    if times is None or times < 1:
        raise ShapeError(f"{what} expects a multiplier of at least 1, got {multiplier!r:.40}.")
    return convolve(x, channels * times, window, groups=channels, layout=layout, **options)


# ---- separable -------------------------------------------------------------------------------


@transactional
@mark_layer_block
def separable_conv1d(
    x: Any,
    filters: Extent,
    window: int | Sequence[int],
    *,
    multiplier: int = 1,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    layout: str = "NCW",
    act: Activation = None,
    name: str | None = None,
    bias: bool | Operand = True,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """Separable convolution along one axis, like `separable_conv2d`; `NCW` or `NWC`."""
    sliding = {"stride": stride, "padding": padding, "dilation": dilation}
    end = {"act": act, "bias": bias, "bias_init": bias_init}
    first = depthwise_conv1d, conv1d
    return _separable(*first, x, filters, window, multiplier, layout, init, name, sliding, end)


@transactional
@mark_layer_block
def separable_conv2d(
    x: Any,
    filters: Extent,
    window: int | Sequence[int],
    *,
    multiplier: int = 1,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    layout: str = "NCHW",
    act: Activation = None,
    name: str | None = None,
    bias: bool | Operand = True,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """Separable convolution: depthwise, then pointwise over the channels.

    A plain block of `depthwise_conv2d` without a bias and `conv2d` with a window of 1; its
    parameters are `depthwise.w`, `pointwise.w` and `pointwise.b`. Source: Chollet, Xception,
    2017.

    Args:
        x: The input, with axes in the order of `layout`; the number of channels is not
            symbolic.
        filters: Number of output channels.
        window: The window sizes, or one for all axes.
        multiplier: Number of intermediate channels per input channel.
        stride: As for `conv2d`, like all further arguments.
        padding: `"valid"`, `"same"`, or numbers.
        dilation: Distance between adjacent elements of the window.
        layout: `"NCHW"` or `"NHWC"`.
        act: The activation: the name of an operator, as "relu", or a function.
        name: The layer's name.
        bias: The bias itself, [filters]; or whether to create one.
        init: Initializer of both weights; Glorot uniform by default.
        bias_init: Initializer of the bias.

    Raises:
        ShapeError: The number of channels is symbolic, or the multiplier is below 1.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["b", 8, 28, 28])
        ...     y = br.layers.separable_conv2d(x, 16, 3, padding="same", bias=False, name="s")
        >>> y.type, [one.name for one in prog.parameters]
        (f32[b,16,28,28], ['s/depthwise.w', 's/pointwise.w'])
    """
    sliding = {"stride": stride, "padding": padding, "dilation": dilation}
    end = {"act": act, "bias": bias, "bias_init": bias_init}
    first = depthwise_conv2d, conv2d
    return _separable(*first, x, filters, window, multiplier, layout, init, name, sliding, end)


def _separable(
    depthwise: Layer, pointwise: Layer, x: Any, filters: Any, window: Any, multiplier: int,
    layout: str, init: Any, name: str | None, sliding: dict[str, Any], end: dict[str, Any],
) -> Var:  # fmt: skip
    what = f"separable_{pointwise.__name__}"
    x, shared = operand(x, what), {"layout": layout, "init": init}
    if feature_count(filters) is None:
        raise ShapeError(f"{what} creates its weights and expects a number of filters.")

    def build() -> Var:
        hidden = depthwise(
            x, window, multiplier=multiplier, bias=False, name="depthwise", **sliding, **shared
        )
        return pointwise(hidden, filters, 1, name="pointwise", **end, **shared)

    return compose_block(name or what, build)
