"""Layers that convolve the other way: what each element gives is spread over a window.

`br.conv_transpose2d(x, 16, 3)` makes weights and a bias;
`br.conv_transpose2d(x, weight, bias=b)` is given both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.var import Operand, Var
from braces.define.decorator import Padding
from braces.dtypes import Extent
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Activation, Weight
from braces.frontend.nn.conv import convolved


@building
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
    """A transposed convolution along one axis, as `conv_transpose2d`; `NCW` or `NWC`."""
    return convolved(
        "conv_transpose1d", x, filters, window, stride=stride, padding=padding,
        output_padding=output_padding, dilation=dilation, groups=groups, layout=layout, act=act,
        name=name, params=params, bias=bias, init=init, bias_init=bias_init, transposed=True,
    )  # fmt: skip


@building
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
        x: The input, in the order of axes that `layout` says.
        filters: The number of output channels, for weights that are made; a name may stand
            beside it, `("channels", 64)`, see `parameter`. Or the weights
            themselves: [channels of x, channels / groups, *window], for `NHWC` [*window,
            channels / groups, channels of x].
        window: The sizes of the window, or one for all axes, for weights that are made.
        stride: How far what elements give lies apart.
        padding: `"valid"`, `"same"`, or numbers: what is cut off at the edges.
        output_padding: How much longer the result is at the end of each axis.
        dilation: How far apart the elements of the window lie.
        groups: Into how many groups the channels are cut.
        layout: `"NCHW"` or `"NHWC"`.
        act: The name of an operator, as "relu", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names for the parameters that are made, `[w, b]` or `[w]`; those that exist are
            shared.
        bias: The bias itself, [channels]; or whether one is made, which it is beside weights
            that are made where nothing is said.
        init: The first value of w; Glorot's uniform where nothing is said.
        bias_init: The first value of b, [channels].

    Raises:
        ProgramError: Weights are given and a window, or options of those that are made.
        ShapeError: Groups do not divide the channels, or nothing is left.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 8, 7, 7])
        ...     print(br.conv_transpose2d(x, 4, 3, stride=2, padding="same", name="up").type)
        ...     print(br.get_variable("up.w").type)
        f32[batch,4,14,14]
        f32[8,4,3,3]
    """
    return convolved(
        "conv_transpose2d", x, filters, window, stride=stride, padding=padding,
        output_padding=output_padding, dilation=dilation, groups=groups, layout=layout, act=act,
        name=name, params=params, bias=bias, init=init, bias_init=bias_init, transposed=True,
    )  # fmt: skip


@building
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
    """A transposed convolution along three axes, as `conv_transpose2d`; `NCDHW` or `NDHWC`."""
    return convolved(
        "conv_transpose3d", x, filters, window, stride=stride, padding=padding,
        output_padding=output_padding, dilation=dilation, groups=groups, layout=layout, act=act,
        name=name, params=params, bias=bias, init=init, bias_init=bias_init, transposed=True,
    )  # fmt: skip
