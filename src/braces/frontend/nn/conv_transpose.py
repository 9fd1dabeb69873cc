"""Transposed convolution layers: each input element is spread over a window of the output.

`br.layers.conv_transpose2d(x, 16, 3)` creates weights and a bias;
`br.layers.conv_transpose2d(x, weight, bias=b)` uses given ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.var import Operand, Var
from braces.define.decorator import Padding
from braces.dtypes import Extent
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Activation, Weight
from braces.frontend.nn.conv import append_convolution


@transactional
def conv_transpose1d(
    x: Any,
    filters: Extent | Operand,
    window: int | Sequence[int] | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: str = "NCW",
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """A transposed convolution along one axis, like `conv_transpose2d`; `NCW` or `NWC`."""
    return append_convolution(
        "conv_transpose1d", x, filters, window, stride=stride, padding=padding,
        output_padding=output_padding, dilation=dilation, groups=groups, layout=layout, act=act,
        name=name, params=params, bias=bias, init=init, bias_init=bias_init, transposed=True,
    )  # fmt: skip


@transactional
def conv_transpose2d(
    x: Any,
    filters: Extent | Operand,
    window: int | Sequence[int] | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: str = "NCHW",
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """A transposed convolution along two axes; the formula is that of the operator.

    Args:
        x: The input, with axes in the order of `layout`.
        filters: The number of output channels, for created weights; optionally with a name,
            `("channels", 64)`, see `parameter`. Or the weights themselves: [channels of x,
            channels / groups, *window], for `NHWC` [*window, channels / groups, channels of x].
        window: The window sizes, or one for all axes, for created weights.
        stride: Distance between the windows of adjacent input elements.
        padding: `"valid"`, `"same"`, or numbers: the width cropped at the edges.
        output_padding: Extra size of the result at the end of each axis.
        dilation: Distance between adjacent elements of the window.
        groups: Number of groups of channels.
        layout: `"NCHW"` or `"NHWC"`.
        act: The activation: the name of an operator, as "relu", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names of the created parameters, `[w, b]` or `[w]`; existing ones are shared.
        bias: The bias itself, [channels]; or whether to create one, by default if the weights
            are created.
        init: Initializer of w; Glorot uniform by default.
        bias_init: Initializer of b, [channels].

    Raises:
        ProgramError: Weights are given together with a window or options of created weights.
        ShapeError: `groups` does not divide the channels, or the result is empty.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 8, 7, 7])
        ...     up = br.layers.conv_transpose2d(x, 4, 3, stride=2, padding="same", name="up")
        ...     print(up.type)
        ...     print(br.get_variable("up.w").type)
        f32[batch,4,14,14]
        f32[8,4,3,3]
    """
    return append_convolution(
        "conv_transpose2d", x, filters, window, stride=stride, padding=padding,
        output_padding=output_padding, dilation=dilation, groups=groups, layout=layout, act=act,
        name=name, params=params, bias=bias, init=init, bias_init=bias_init, transposed=True,
    )  # fmt: skip


@transactional
def conv_transpose3d(
    x: Any,
    filters: Extent | Operand,
    window: int | Sequence[int] | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: str = "NCDHW",
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """A 3D transposed convolution, like `conv_transpose2d`; `NCDHW` or `NDHWC`."""
    return append_convolution(
        "conv_transpose3d", x, filters, window, stride=stride, padding=padding,
        output_padding=output_padding, dilation=dilation, groups=groups, layout=layout, act=act,
        name=name, params=params, bias=bias, init=init, bias_init=bias_init, transposed=True,
    )  # fmt: skip
