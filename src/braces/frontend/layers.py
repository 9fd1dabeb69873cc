"""Layers: functions that make their own parameters.

An operator computes from variables: `br.conv2d(x, weight)`. A layer of the same name makes the
parameters as well: `br.layers.conv2d(x, 16, 3)`. Parameters live in the main block, wherever
the layer is called, so that a layer in a step block is one layer for all steps.

Parameters are called after the layer: `name="fc1"` makes `fc1.w` and `fc1.b`. `params=` gives
the parameters' names instead and shares those that are there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from braces.errors import ProgramError, ShapeError
from braces.frontend import init as initializers
from braces.frontend.guard import building, missing_from, operand
from braces.frontend.init import Initializer
from braces.frontend.norm_layers import batch_norm, group_norm, layer_norm, rms_norm
from braces.frontend.parameters import Activation, Parameters, activated, fixed_size, named
from braces.frontend.random import dropout
from braces.ops.build import Var, call, one
from braces.ops.conv import LAYOUTS, spatial_axes
from braces.ops.define import Padding
from braces.ops.rules import float_dtype

__all__ = [
    "batch_norm",
    "conv1d",
    "conv2d",
    "dropout",
    "embedding",
    "fc",
    "group_norm",
    "layer_norm",
    "rms_norm",
]


# ---- products --------------------------------------------------------------------------------


@building
def fc(
    x: Any,
    size: int | None = None,
    *,
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: bool = True,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """A fully connected layer.

        out = act(x @ w + b)

    Args:
        x: [..., taken]. The last axis is contracted.
        size: The size of the last axis of the result; where it is not said, that of the shared
            parameter, else that of `x`.
        act: The name of an operator, as "tanh", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names for the parameters, `[w, b]` or `[w]`; those that exist are shared.
        bias: Whether there is a `b`.
        init: The first value of w, [taken, size]; Glorot's uniform where nothing is said.
        bias_init: The first value of b, [size].

    Returns:
        [..., size], named `name`.

    Raises:
        ShapeError: The last axis has a symbolic size, or a shared parameter has other sizes.
        DuplicateNameError: There is a layer of this name already.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 8])
        ...     print(br.fc(x, 32, act="tanh", name="fc1"))
        ...     print([p.name for p in prog.parameters])
        <Var fc1: f32[batch,32]>
        ['fc1.w', 'fc1.b']
    """
    x = operand(x, "fc")
    made = Parameters("fc", name, params, ("w", "b") if bias else ("w",))
    dtype = float_dtype(x.dtype)
    w = made.find("w")
    if w is None:
        taken = fixed_size(x, -1, "fc")
        w = made.new("w", [taken, taken if size is None else size], dtype, init)
    given = _size_of(w, size)
    b = made.get("b", [given], dtype, bias_init)
    if b is None:
        out = one("matmul", x, w, name=named(act, made.name))
    else:
        out = one("add", one("matmul", x, w), b, name=named(act, made.name))
    return out if act is None else activated(out, act, made.name)


def _size_of(w: Var, size: int | None) -> int:
    """The size of the result of a product with `w`, which must be the one asked for."""
    shape = w.shape
    if len(shape) != 2 or not isinstance(shape[1], int):
        raise ShapeError(f"fc needs a matrix, and `{w.name}` is {w.type}.")
    if size is not None and shape[1] != size:
        raise ShapeError(
            f"fc is to give {size} numbers, but the shared `{w.name}` gives {shape[1]}.",
            given=f"{w.name}: {w.type}   size={size}",
            fix="Leave size= away, or use another parameter.",
        )
    return shape[1]


@building
def embedding(
    ids: Any,
    size: Sequence[int],
    *,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    dtype: object = "float32",
) -> Var:
    """A table of vectors, looked up by number.

        out[..., :] = w[ids[...], :]

    Args:
        ids: integer[...]. Out of range is an error in the run.
        size: How many vectors, and the size of each.
        name: The layer's name; its parameter is `name.w`.
        params: A name for the parameter, `[w]`; it is shared where it exists.
        init: The first value; normal with variance 1 / size[1] where nothing is said.
        dtype: Of the table.

    Returns:
        [..., size[1]], named `name`.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     words = br.data("words", ["batch", "t"], dtype="int32")
        ...     print(br.layers.embedding(words, [1000, 64]).type)
        f32[batch,t,64]
    """
    if isinstance(size, Var):
        raise ProgramError(
            f"embedding makes a table; `{size.name}` is a variable.",
            given=f"size = {size.name}: {size.type}",
            fix="Write br.embedding(table, ids) to look up in a table that is there.",
        )
    if not _is_table(size):
        raise ShapeError(
            f"embedding cannot take size={size!r}.",
            fix="Give how many vectors and the size of each: size=[1000, 64].",
        )
    made = Parameters("embedding", name, params, ("w",))
    start = init if init is not None else initializers.normal(max(size[1], 1) ** -0.5)
    table = made.find("w")
    if table is None:
        table = made.new("w", size, dtype, start)
    elif table.shape != tuple(size):
        raise ShapeError(
            f"embedding needs a table of {list(size)}, and `{table.name}` is {table.type}.",
            fix="Share tables of one size only.",
        )
    return one("embedding", table, operand(ids, "embedding"), name=made.name)


def _is_table(size: Any) -> bool:
    return isinstance(size, list | tuple) and [
        type(one) for one in cast("Sequence[Any]", size)
    ] == [int, int]


# ---- convolution -----------------------------------------------------------------------------


@building
def conv1d(x: Any, filters: int, window: int | Sequence[int], **options: Any) -> Var:
    """A convolution along one axis; options are those of `conv2d`, the layout `"NCW"`."""
    return _conv("conv1d", x, filters, window, layout=options.pop("layout", "NCW"), **options)


@building
def conv2d(
    x: Any,
    filters: int,
    window: int | Sequence[int],
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: str = "NCHW",
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: bool = True,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """A convolution along two axes; see the operator `br.conv2d`.

    Args:
        x: The input, in the order of axes that `layout` says.
        filters: The number of output channels.
        window: The sizes of the window, or one for all axes.
        stride: How far the window moves at a time.
        padding: `"valid"`, `"same"`, or numbers.
        dilation: How far apart the elements of the window lie.
        groups: Into how many groups the channels are cut.
        layout: `"NCHW"` or `"NHWC"`.
        act: The name of an operator, as "relu", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names for the parameters, `[w, b]` or `[w]`; those that exist are shared.
        bias: Whether there is a `b`.
        init: The first value of w; Glorot's uniform where nothing is said.
        bias_init: The first value of b, [filters].

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     images = br.data("images", ["batch", 3, 28, 28])
        ...     print(br.layers.conv2d(images, 16, 3, padding="same", act="relu").type)
        f32[batch,16,28,28]
    """
    return _conv(
        "conv2d", x, filters, window, stride=stride, padding=padding, dilation=dilation,
        groups=groups, layout=layout, act=act, name=name, params=params, bias=bias, init=init,
        bias_init=bias_init,
    )  # fmt: skip


def _conv(
    layer: str,
    x: Any,
    filters: int,
    window: int | Sequence[int],
    *,
    layout: str,
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: bool = True,
    init: Any = None,
    bias_init: Any = 0.0,
    **options: Any,
) -> Var:
    x = operand(x, layer)
    made = Parameters(layer, name, params, ("w", "b") if bias else ("w",))
    letters = _weight_layout(layout, x, layer)
    axes = {"in_axis": letters.index("I"), "out_axis": letters.index("O")}
    start = init if init is not None else initializers.glorot_uniform(**axes)
    shape = _weight_shape(letters, x, filters, window, layout, options.get("groups", 1), layer)
    dtype = float_dtype(x.dtype)
    weights = made.get("w", shape, dtype, start), made.get("b", [filters], dtype, bias_init)
    out = call(layer, x, *weights, name=named(act, made.name), layout=layout, **options)
    return out if act is None else activated(out, act, made.name)


def _weight_layout(layout: str, x: Var, layer: str) -> str:
    if layout not in LAYOUTS or len(layout) != len(x.shape):
        known = [one for one in LAYOUTS if len(one) == len(x.shape)]
        raise ShapeError(
            f"{layer} cannot read `{x.name}` in the layout {layout!r}.",
            given=f"{x.name}: {x.type}",
            fix=f"Use {' or '.join(known)}." if known else "x has a batch and a channel axis.",
        )
    return LAYOUTS[layout]


def _weight_shape(
    letters: str,
    x: Var,
    filters: int,
    window: int | Sequence[int],
    layout: str,
    groups: int,
    layer: str,
) -> list[int]:
    spatial = spatial_axes(letters)
    sizes = [window] * len(spatial) if isinstance(window, int) else list(window)
    if len(sizes) != len(spatial):
        raise ShapeError(f"{layer} needs a window of {len(spatial)} sizes, not {sizes}.")
    channels = fixed_size(x, layout.index("C"), layer)
    shape = dict(zip(spatial, sizes, strict=True))
    shape |= {letters.index("O"): filters, letters.index("I"): channels // max(groups, 1)}
    return [shape[axis] for axis in range(len(letters))]


__getattr__ = missing_from("br.layers", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
