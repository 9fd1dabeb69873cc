"""Depthwise and separable convolutions."""

from __future__ import annotations

from collections.abc import Sequence
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
from braces.ops.conv_pool.data_layouts import CHANNELS_FIRST
from braces.ops.conv_pool.spatial_ranks import name_for_rank

CONVOLUTIONS = {1: conv1d, 2: conv2d}
"""The convolution by the number of spatial axes."""

# ---- depthwise -------------------------------------------------------------------------------


def _depthwise_conv(rank: int):
    @transactional
    @name_for_rank(rank)
    def depthwise_conv(
        x: Any,
        window: int | Sequence[int],
        *,
        multiplier: int = 1,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        dilation: int | Sequence[int] = 1,
        layout: str = CHANNELS_FIRST[rank],
        act: Activation = None,
        name: str | None = None,
        params: Sequence[str] | None = None,
        bias: Weight = None,
        init: Initializer | Any = None,
        bias_init: Initializer | Any = 0.0,
    ) -> Var:
        """Depthwise convolution: each channel has its own filters.

        It is `conv${rank}d` with one group per channel and `multiplier` filters for each.

        Args:
            x: The input, with axes in the order of `layout`; the number of channels is not
                symbolic.
            window: The window sizes, or one for all axes.
            multiplier: Number of output channels per input channel; they are adjacent.
            stride: As for `conv${rank}d`, like all further arguments.
            padding: `"valid"`, `"same"`, or numbers.
            dilation: Distance between adjacent elements of the window.
            layout: `"$first"` or `"$last"`.
            act: The activation: the name of an operator, as "relu", or a function.
            name: The layer's name; its parameters are `name.w` and `name.b`.
            params: Names of the parameters, `[w, b]` or `[w]`; existing ones are shared.
            bias: The bias itself, [channels * multiplier]; or whether to create one.
            init: Initializer of w; Glorot uniform by default.
            bias_init: Initializer of b.

        Raises:
            ShapeError: If the number of channels is symbolic, or the multiplier is below 1.
        """
        return _depthwise(
            rank, x, window, multiplier, layout, stride=stride, padding=padding,
            dilation=dilation, act=act, name=name, params=params, bias=bias, init=init,
            bias_init=bias_init,
        )  # fmt: skip

    return depthwise_conv


depthwise_conv1d = _depthwise_conv(1)
depthwise_conv2d = _depthwise_conv(2)


def _depthwise(
    rank: int, x: Any, window: Any, multiplier: Any, layout: str, **options: Any
) -> Var:
    what = f"depthwise_conv{rank}d"
    x = operand(x, what)
    if layout.count("C") != 1 or len(layout) != x.ndim:
        raise ShapeError(
            f"layout {layout!r:.40} does not match `{x.name}` in {what}.",
            given=f"{x.name}: {x.type}",
        )
    channels, times = fixed_size(x, layout.index("C"), what), feature_count(multiplier)
    if times is None or times < 1:
        raise ShapeError(f"{what}: expected a positive multiplier, got {multiplier!r:.40}.")
    convolve = CONVOLUTIONS[rank]
    return convolve(x, channels * times, window, groups=channels, layout=layout, **options)


# ---- separable -------------------------------------------------------------------------------


def _separable_conv(rank: int):
    @transactional
    @mark_layer_block
    @name_for_rank(rank)
    def separable_conv(
        x: Any,
        filters: Extent,
        window: int | Sequence[int],
        *,
        multiplier: int = 1,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        dilation: int | Sequence[int] = 1,
        layout: str = CHANNELS_FIRST[rank],
        act: Activation = None,
        name: str | None = None,
        bias: bool | Operand = True,
        init: Initializer | Any = None,
        bias_init: Initializer | Any = 0.0,
    ) -> Var:
        """Separable convolution: depthwise, then pointwise over the channels.

        A plain block of `depthwise_conv${rank}d` without a bias and `conv${rank}d` with a
        window of 1; its parameters are `depthwise.w`, `pointwise.w` and `pointwise.b`. Source:
        Chollet, Xception, 2017.

        Args:
            x: The input, with axes in the order of `layout`; the number of channels is not
                symbolic.
            filters: Number of output channels.
            window: The window sizes, or one for all axes.
            multiplier: Number of intermediate channels per input channel.
            stride: As for `conv${rank}d`, like all further arguments.
            padding: `"valid"`, `"same"`, or numbers.
            dilation: Distance between adjacent elements of the window.
            layout: `"$first"` or `"$last"`.
            act: The activation: the name of an operator, as "relu", or a function.
            name: The layer's name.
            bias: The bias itself, [filters]; or whether to create one.
            init: Initializer of both weights; Glorot uniform by default.
            bias_init: Initializer of the bias.

        Raises:
            ShapeError: If the number of channels is symbolic, or the multiplier is below 1.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["b", 8, 28, 28])
            ...     y = br.layers.separable_conv2d(x, 16, 3, bias=False, name="s")
            >>> y.type, [one.name for one in prog.parameters]
            (f32[b,16,26,26], ['s/depthwise.w', 's/pointwise.w'])
        """
        shared = {"layout": layout, "init": init}
        sliding = {"stride": stride, "padding": padding, "dilation": dilation, **shared}
        end = {"act": act, "bias": bias, "bias_init": bias_init, **shared}
        return _separable(rank, x, filters, window, multiplier, name, sliding, end)

    return separable_conv


separable_conv1d = _separable_conv(1)
separable_conv2d = _separable_conv(2)


def _separable(
    rank: int, x: Any, filters: Any, window: Any, multiplier: int, name: str | None,
    sliding: dict[str, Any], end: dict[str, Any],
) -> Var:  # fmt: skip
    what = f"separable_conv{rank}d"
    x = operand(x, what)
    if feature_count(filters) is None:
        raise ShapeError(f"{what}: expected a number of filters, because weights are created.")

    def build() -> Var:
        depthwise = {1: depthwise_conv1d, 2: depthwise_conv2d}[rank]
        hidden = depthwise(
            x, window, multiplier=multiplier, bias=False, name="depthwise", **sliding
        )
        return CONVOLUTIONS[rank](hidden, filters, 1, name="pointwise", **end)

    return compose_block(name or what, build)
