"""Linear and bilinear layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Operand, Var
from braces.dtypes import Extent
from braces.errors import ShapeError
from braces.frontend.core import init as initializers
from braces.frontend.core.all_or_nothing import operand, transactional
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
from braces.frontend.core.public_names import einsum
from braces.ops.common.rules import float_dtype, promote


@transactional
def fc(
    x: Any,
    size: Extent | Operand | None = None,
    *,
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """A fully connected layer.

        out = act(x @ w + b)

    Args:
        x: [..., taken]. The last axis is contracted.
        size: The size of the last axis of the result; by default that of the shared parameter,
            else that of `x`. Or w itself, [taken, size]. The number may have a name,
            `("mlp", 32)`, which becomes the axis name of the parameters and of the result for
            further layers; see `parameter`.
        act: The activation: the name of an operator, as "tanh", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names of the created parameters, `[w, b]` or `[w]`; existing ones are shared.
        bias: b itself, [size]; or whether to create one, by default if w is created.
        init: Initializer of w, [taken, size]; Glorot uniform by default.
        bias_init: Initializer of b, [size].

    Returns:
        [..., size], named `name`.

    Raises:
        ShapeError: If the size of the last axis is symbolic, or the shape of a shared parameter
            differs.
        DuplicateNameError: If a layer of this name exists already.
        ProgramError: If `w` is given together with options of created weights.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 8])
        ...     print(br.fc(x, 32, act="tanh", name="fc1"))
        ...     print([p.name for p in prog.parameters])
        ...     print(br.fc(x, br.get_variable("fc1.w") * 2.0, name="twice"))
        <Var fc1: f32[batch,32]>
        ['fc1.w', 'fc1.b']
        <Var twice: f32[batch,32]>
    """
    x, count = operand(x, "fc"), feature_count(size)
    creates = size is None or count is not None
    layer_params = LayerParameters(
        "fc", name, params, roles_to_create({"w": True if creates else size, "b": bias})
    )
    if creates:
        w, b = _create_weights(layer_params, x, count, init, bias_init)
    else:
        ways = "br.fc(x, 32), or br.fc(x, w, bias=b)"
        refuse_options("fc", ways, {"init": init, "bias=True": bias is True or None})
        w, b = size, None
    b = bias if is_given(bias) else b
    if b is None:
        out = emit("matmul", x, w, name=pre_activation_name(act, layer_params.name))
    else:
        out = emit(
            "add", emit("matmul", x, w), b, name=pre_activation_name(act, layer_params.name)
        )
    return out if act is None else apply_activation(out, act, layer_params.name)


def _create_weights(
    parameters: LayerParameters, x: Var, size: int | None, init: Any, bias_init: Any
) -> tuple[Var, Var | None]:
    """Return the weight matrix, created or shared, and the bias if there is one."""
    dtype = float_dtype(x.dtype)
    w = parameters.find("w")
    if w is None:
        in_size = fixed_size(x, -1, "fc")
        w = parameters.new("w", [in_size, in_size if size is None else size], dtype, init)
    return w, parameters.get("b", [_output_size(w, size)], dtype, bias_init)


def _output_size(w: Var, size: int | None) -> int:
    """Return the output size of `w`, checked against the requested one."""
    shape = w.shape
    if len(shape) != 2 or not isinstance(shape[1], int):
        raise ShapeError(f"fc: expected a matrix, got {w.type}.", given=f"{w.name}: {w.type}")
    if size is not None and shape[1] != size:
        raise ShapeError(
            f"fc: expected {size} output features, got {shape[1]} of `{w.name}`.",
            given=f"{w.name}: {w.type}   size={size}",
            fix="Omit size=, or use another parameter.",
        )
    return fixed_size(w, 1, "fc")


@transactional
def bilinear(
    x: Any,
    y: Any,
    size: Extent | Operand,
    *,
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """Bilinear layer: a product of two inputs and weights.

        out[..., o] = act(sum_ij x[..., i] * w[o, i, j] * y[..., j] + b[o])

    Args:
        x: [..., left].
        y: [..., right], with the other axes of `x`.
        size: The size of the last axis of the result; or w itself, [size, left, right].
        act: The activation: the name of an operator, as "tanh", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names of the created parameters, `[w, b]` or `[w]`; existing ones are shared.
        bias: b itself, [size]; or whether to create one, by default if w is created.
        init: Initializer of w; Glorot uniform by default.
        bias_init: Initializer of b.

    Returns:
        [..., size], named `name`.

    Raises:
        ShapeError: If the size of a last axis is symbolic, or the shapes do not match.
        ProgramError: If `w` is given together with options of created weights.
    """
    what = "bilinear"
    x, y, count = operand(x, what), operand(y, what), feature_count(size)
    layer_params = LayerParameters(
        what, name, params, roles_to_create({"w": count is not None or size, "b": bias})
    )
    w, b = size, None
    if count is None:
        ways = "br.layers.bilinear(x, y, 32), or br.layers.bilinear(x, y, w, bias=b)"
        refuse_options(what, ways, {"init": init, "bias=True": bias is True or None})
    else:
        dtype = float_dtype(promote(x.dtype, y.dtype))
        first = initializers.glorot_uniform(in_axis=1, out_axis=0) if init is None else init
        shape = [count, fixed_size(x, -1, what), fixed_size(y, -1, what)]
        w = layer_params.get("w", shape, dtype, first)
        b = layer_params.get("b", [count], dtype, bias_init)
    b = bias if is_given(bias) else b
    last = pre_activation_name(act, layer_params.name)
    out = einsum("...i,oij,...j->...o", x, w, y, name=last if b is None else "")
    out = out if b is None else emit("add", out, b, name=last)
    return out if act is None else apply_activation(out, act, layer_params.name)
