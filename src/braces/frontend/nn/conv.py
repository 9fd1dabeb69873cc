"""Convolution layers, with created or given weights.

`br.conv2d(x, 16, 3)` creates weights and bias; `br.conv2d(x, weight, bias=b)` uses given ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import call
from braces.builder.var import Operand, Var
from braces.define.decorator import Padding
from braces.dtypes import Extent
from braces.errors import ShapeError
from braces.frontend.core import init as initializers
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.argument_docs import describe_arguments
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import (
    Activation,
    LayerParameters,
    Weight,
    apply_activation,
    feature_count,
    fixed_size,
    is_given,
    pre_activation_name,
    refuse_options,
    roles_to_create,
)
from braces.homes import public_path
from braces.ops.common.rules import float_dtype
from braces.ops.conv_pool.data_layouts import CHANNELS_FIRST, LAYOUTS, spatial_axes
from braces.ops.conv_pool.spatial_ranks import name_for_rank

ARGUMENTS = {
    "x": "The input, with axes in the order of `layout`.",
    "window": "The window sizes, or one for all axes, for created weights.",
    "dilation": "Distance between adjacent elements of the window.",
    "groups": "Number of groups of channels.",
    "layout": '`"$first"` or `"$last"`.',
    "act": 'The activation: the name of an operator, as "relu", or a function.',
    "name": "The layer's name; its parameters are `name.w` and `name.b`.",
    "params": "Names of the created parameters, `[w, b]` or `[w]`; existing ones are shared.",
    "bias": "The bias itself, [channels]; or whether to create one, by default if the weights "
    "are created.",
    "init": "Initializer of w; Glorot uniform by default.",
    "bias_init": "Initializer of b, [channels].",
}
"""Descriptions of arguments that convolutions share; see `name_for_rank`."""
FILTERS = (
    "The number of output channels, for created weights; optionally with a name, "
    '`("channels", 64)`, see `parameter`. Or the weights themselves:'
)


def _conv(rank: int):
    @transactional
    @name_for_rank(rank)
    @describe_arguments(
        ARGUMENTS,
        filters=f"{FILTERS} [channels, channels of x / groups, *window], for `$last` [*window, "
        "channels of x / groups, channels].",
        stride="Step of the window.",
        padding='`"valid"`, `"same"`, or numbers.',
    )
    def conv(
        x: Any,
        filters: Extent | Operand,
        window: int | Sequence[int] | None = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: Padding = "valid",
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        layout: str = CHANNELS_FIRST[rank],
        act: Activation = None,
        name: str | None = None,
        params: Sequence[str] | None = None,
        bias: Weight = None,
        init: Initializer | Any = None,
        bias_init: Initializer | Any = 0.0,
    ) -> Var:
        """A convolution along $axes; the formula is that of the operator `conv${rank}d`.

        Raises:
            ProgramError: If weights are given together with a window or options of created
                weights.

        Example:
            >>> import braces as br
            >>> with br.Program():
            ...     images = br.data("images", ["batch", 3, 28, 28])
            ...     x = br.conv2d(images, 16, 3, padding="same", act="relu", name="edges")
            ...     w, b = br.get_variable("edges.w"), br.get_variable("edges.b")
            ...     print(x.type, br.conv2d(images, w, bias=b).type)
            f32[batch,16,28,28] f32[batch,16,26,26]
        """
        return append_convolution(
            f"conv{rank}d", x, filters, window, stride=stride, padding=padding,
            dilation=dilation, groups=groups, layout=layout, act=act, name=name, params=params,
            bias=bias, init=init, bias_init=bias_init,
        )  # fmt: skip

    return conv


conv1d = _conv(1)
conv2d = _conv(2)
conv3d = _conv(3)


def append_convolution(
    layer: str,
    x: Any,
    filters: Any,
    window: Any,
    *,
    layout: str,
    act: Activation,
    name: str | None,
    params: Sequence[str] | None,
    bias: Weight,
    init: Any,
    bias_init: Any,
    transposed: bool = False,
    **sliding: Any,
) -> Var:
    """Append a convolution layer over any number of axes, optionally transposed."""
    x = operand(x, layer)
    count, groups = feature_count(filters), sliding["groups"]
    roles = roles_to_create({"w": filters if count is None else True, "b": bias})
    parameters = LayerParameters(layer, name, params, roles)
    if count is not None:
        letters, dtype = _weight_layout(layout, x, layer), float_dtype(x.dtype)
        if transposed:
            letters = letters.translate(SWAPPED)
            _check_filters(layer, count, groups)
        shape = _weight_shape(letters, x, count, window, layout, groups, layer, transposed)
        w = parameters.get("w", shape, dtype, _weight_initializer(init, letters))
        b = parameters.get("b", [count], dtype, bias_init)
    else:
        path = public_path(layer)
        ways = f"{path}(x, 16, 3), or {path}(x, weight, bias=b)"
        options = {"window": window, "init": init, "bias=True": bias is True or None}
        refuse_options(layer, ways, options)
        w, b = filters, None
    weights = w, bias if is_given(bias) else b
    out = call(
        layer,
        x,
        *weights,
        name=pre_activation_name(act, parameters.name),
        layout=layout,
        **sliding,
    )
    return out if act is None else apply_activation(out, act, parameters.name)


SWAPPED = str.maketrans("OI", "IO")
"""Input and output channels are swapped in transposed weights."""


def _check_filters(layer: str, filters: int, groups: int) -> None:
    if groups > 0 and filters % groups:
        raise ShapeError(
            f"{layer} cannot divide {filters} filters into {groups} groups.",
            fix="Use a multiple of groups as the number of filters.",
        )


def _weight_initializer(init: Any, letters: str) -> Any:
    axes = {"in_axis": letters.index("I"), "out_axis": letters.index("O")}
    return init if init is not None else initializers.glorot_uniform(**axes)


def _weight_layout(layout: str, x: Var, layer: str) -> str:
    if layout not in LAYOUTS or len(layout) != len(x.shape):
        raise ShapeError(
            f"layout {layout!r} does not match `{x.name}` in {layer}.",
            given=f"{x.name}: {x.type}",
            fix=_layout_fix(layout, x, layer),
        )
    return LAYOUTS[layout]


def _layout_fix(layout: str, x: Var, layer: str) -> str:
    """Return the fix for an input whose axes do not match the layout."""
    candidates = [name for name in LAYOUTS if len(name) == len(x.shape)]
    if layout not in LAYOUTS:
        return f"Use {' or '.join(candidates or LAYOUTS)}."
    if len(x.shape) + 1 == len(layout):
        return (
            f"{layout} has {len(layout)} axes: br.expand_dims(x, axis=0) adds the batch axis, "
            f"br.expand_dims(x, axis={layout.index('C')}) the channel axis."
        )
    spatial = len(x.shape) - 2
    if 1 <= spatial <= 3:
        other = layer.replace(f"{len(layout) - 2}d", f"{spatial}d")
        return f"x has {spatial} spatial axes; use {public_path(other)}."
    return "Pass x with a batch axis, a channel axis, and one to three spatial axes."


def _weight_shape(
    letters: str,
    x: Var,
    filters: int,
    window: Any,
    layout: str,
    groups: int,
    layer: str,
    transposed: bool,
) -> list[int]:
    spatial = spatial_axes(letters)
    if window is None:
        path = public_path(layer)
        raise ShapeError(
            f"{layer} needs a window size to create {filters} filters.",
            fix=f"Write {path}(x, {filters}, 3), or {path}(x, weight, bias=b).",
        )
    sizes = [window] * len(spatial) if isinstance(window, int) else list(window)
    if len(sizes) != len(spatial):
        raise ShapeError(f"{layer}: expected a window of {len(spatial)} sizes, got {sizes}.")
    channels = fixed_size(x, layout.index("C"), layer)
    shape = dict(zip(spatial, sizes, strict=True))
    in_channels, out_channels = channels, filters
    if transposed and groups > 1:
        out_channels //= groups
    elif groups > 1:
        in_channels //= groups
    shape |= {letters.index("O"): out_channels, letters.index("I"): in_channels}
    return [shape[axis] for axis in range(len(letters))]
