"""Gradients of convolutions: input gradient and weight gradient as operators.

    sum(result * conv(x, weight)) = sum(x * conv_to_input(weight, result))
                                  = sum(weight * conv_to_weight(x, result))

Each of the three operators has the two others as its gradients, so the set is closed under
differentiation of any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import Attrs, AxisMap, Types, make_axis_map
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Padding, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape, Size
from braces.dtypes import DType, TensorType
from braces.lazy import jnp
from braces.ops.common.rules import Backward, as_floating, promote_arrays
from braces.ops.conv_pool.conv import (
    axes_of_three,
    conv1d,
    conv2d,
    conv3d,
    convolution_type,
    inverse_permutation,
    kernel_permutations,
    products_per_output,
    windows_of,
)
from braces.ops.conv_pool.data_layouts import check_rank
from braces.ops.conv_pool.lax_conv import bind_convolution
from braces.ops.elementwise.arithmetic import cast_like

FORWARD = {3: "conv1d", 4: "conv2d", 5: "conv3d"}
"""Rank of the arrays to the type of their convolution."""


def input_gradient_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of the input gradient: from weight and result to input."""
    axes, mixed = axes_of_three(attrs)
    inputs = {"weight": (axes["weight"],), "result": (axes["out"],)}
    return make_axis_map(types, inputs, {"out": (axes["x"],)}, mixed)


def weight_gradient_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of the weight gradient: from input and result to weight."""
    axes, mixed = axes_of_three(attrs)
    inputs = {"x": (axes["x"],), "result": (axes["out"],)}
    return make_axis_map(types, inputs, {"out": (axes["weight"],)}, mixed)


def input_gradient_flops(types: Types, attrs: Attrs) -> Size:
    """Return the operations per element of `result`: as many as the convolution has."""
    return products_per_output(types["weight"][0], attrs)


def weight_gradient_flops(types: Types, attrs: Attrs) -> Size:
    """Return the operations per element of `result` if the output is the weight."""
    return products_per_output(types["out"][0], attrs)


def _check_dtype(
    context: InferenceContext,
    x: TensorType,
    weight: TensorType,
    result: TensorType,
    **attrs: Any,
) -> DType:
    """Check that input, weight and result fit, and return the dtype of the convolution."""
    rank = len(attrs["layout"])
    out = convolution_type(rank, context, x, weight, None, **attrs)
    check_rank(result, rank, f"result of {context.type}")
    for got, size in zip(result.shape, out.shape, strict=True):
        context.unify(got, size, f"{context.type}: expected result {out}, got {result}.")
    return out.dtype


def _permuted_shape(shape: Any, order: Sequence[int]) -> tuple[int, ...]:
    """Permute a shape; in kernels all sizes are numbers."""
    return tuple(shape[axis] for axis in order)


@op(
    axes=input_gradient_axis_map,
    costly=True,
    additive=True,
    function=False,
    operations=count_per_element("result", input_gradient_flops),
    examples=(
        "weight=f32[4,3,3] result=f32[2,4,3] shape=(2,3,5) layout=NCW",
        "weight=f64[3,2,2] result=f64[b,3,4] shape=(b,2,6) stride=2 padding=1 layout=NCW",
        "weight=f32[3,3,2,4] result=f32[b,4,5,4] shape=(b,4,5,2) padding=same layout=NHWC",
        "weight=f32[4,1,2,2] result=f32[2,4,3,7] shape=(2,4,5,6) groups=4 dilation=(2,1) "
        "padding=(0,1)",
        "weight=f32[4,1,2] result=f32[0,4,2] shape=(0,2,4) groups=2 dilation=2 layout=NCW",
        "weight=f64[3,2,2,2,2] result=f64[b,3,2,2,4] shape=(b,2,3,4,5) stride=(1,2,1) "
        "layout=NCDHW",
    ),
)
def conv_to_input(
    weight: Tensor,
    result: Tensor,
    *,
    shape: Shape,
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    groups: int = 1,
    layout: str = "NCHW",
) -> Tensor:
    """The input gradient of a convolution: a transposed convolution.

        out[n, c, i * stride + k * dilation] += sum_o weight[o, c, k] * result[n, o, i]

    Inputs:
        weight: float, as for `conv1d`, `conv2d` and `conv3d`.
        result: float, of the shape of the output of the convolution.

    Attributes:
        shape: The shape of the output.
        stride: As for the convolution.
        padding: As for the convolution.
        dilation: As for the convolution.
        groups: As for the convolution.
        layout: As for the convolution; it determines the number of spatial axes.

    Outputs:
        out: float[*shape].

    Raises:
        ShapeError: If `result` does not have the shape of the output of the convolution.
    """
    weight, result = map(as_floating, promote_arrays(weight, result))
    order, kernel_order = kernel_permutations(layout)
    kernel, result = jnp.transpose(weight, kernel_order), jnp.transpose(result, order)
    x_shape = _permuted_shape(shape, order)
    windows = windows_of(x_shape, kernel.shape, stride, padding, dilation, groups)
    x = bind_convolution("x", {"kernel": kernel, "out": result}, windows, x_shape)
    return jnp.transpose(x, inverse_permutation(order))


@conv_to_input.infer
def infer_conv_to_input(
    context: InferenceContext,
    weight: TensorType,
    result: TensorType,
    *,
    shape: Shape,
    **attrs: Any,
) -> TensorType:
    """Infer the type: the attribute `shape`."""
    x = result.with_shape(shape)
    return x.with_dtype(_check_dtype(context, x, weight, result, **attrs))


@op(
    axes=weight_gradient_axis_map,
    costly=True,
    additive=True,
    function=False,
    operations=count_per_element("result", weight_gradient_flops),
    examples=(
        "x=f32[2,3,5] result=f32[2,4,3] shape=(4,3,3) layout=NCW",
        "x=f64[b,2,6] result=f64[b,3,4] shape=(3,2,2) stride=2 padding=1 layout=NCW",
        "x=f32[b,4,5,2] result=f32[b,4,5,4] shape=(3,3,2,4) padding=same layout=NHWC",
        "x=f32[2,4,5,6] result=f32[2,4,3,7] shape=(4,1,2,2) groups=4 dilation=(2,1) "
        "padding=(0,1)",
        "x=f32[0,2,4] result=f32[0,4,2] shape=(4,1,2) groups=2 dilation=2 layout=NCW",
        "x=f64[b,2,3,4,5] result=f64[b,3,2,2,4] shape=(3,2,2,2,2) stride=(1,2,1) layout=NCDHW",
    ),
)
def conv_to_weight(
    x: Tensor,
    result: Tensor,
    *,
    shape: Shape,
    stride: tuple[int, ...] = (1,),
    padding: Padding = "valid",
    dilation: tuple[int, ...] = (1,),
    groups: int = 1,
    layout: str = "NCHW",
) -> Tensor:
    """The weight gradient of a convolution: products of input and result, summed over windows.

        out[o, c, k] = sum_{n, i} x[n, c, i * stride + k * dilation] * result[n, o, i]

    Inputs:
        x: float, as for `conv1d`, `conv2d` and `conv3d`.
        result: float, of the shape of the output of the convolution.

    Attributes:
        shape: The shape of the output.
        stride: As for the convolution.
        padding: As for the convolution.
        dilation: As for the convolution.
        groups: As for the convolution.
        layout: As for the convolution; it determines the number of spatial axes.

    Outputs:
        out: float[*shape].

    Raises:
        ShapeError: If `result` does not have the shape of the output of the convolution.
    """
    x, result = map(as_floating, promote_arrays(x, result))
    order, kernel_order = kernel_permutations(layout)
    x, result = jnp.transpose(x, order), jnp.transpose(result, order)
    kernel_shape = _permuted_shape(shape, kernel_order)
    windows = windows_of(x.shape, kernel_shape, stride, padding, dilation, groups)
    kernel = bind_convolution("kernel", {"x": x, "out": result}, windows, kernel_shape)
    return jnp.transpose(kernel, inverse_permutation(kernel_order))


@conv_to_weight.infer
def infer_conv_to_weight(
    context: InferenceContext, x: TensorType, result: TensorType, *, shape: Shape, **attrs: Any
) -> TensorType:
    """Infer the type: the attribute `shape`."""
    weight = result.with_shape(shape)
    return weight.with_dtype(_check_dtype(context, x, weight, result, **attrs))


# ---- gradients -------------------------------------------------------------------------------


def _gradients(g: Backward, three: Mapping[str, Var]) -> dict[str, Var]:
    """Build the wanted cotangents among `x`, `weight` and `result` of the equation above.

    Args:
        g: The operator.
        three: The three arrays by name; the output of the operator is replaced by its
            cotangent.
    """
    x, weight, result = (three[slot] for slot in ("x", "weight", "result"))
    attrs = {name: value for name, value in g.attrs.items() if name != "shape"}
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grads["x"] = emit("conv_to_input", weight, result, shape=x.shape, **attrs)
    if g.wants("weight"):
        grads["weight"] = emit("conv_to_weight", x, result, shape=weight.shape, **attrs)
    if g.wants("result"):
        grads["result"] = emit(FORWARD[x.ndim], x, weight, **attrs)
    return {slot: cast_like(grad, three[slot]) for slot, grad in grads.items()}


def convolution_gradient(g: Backward) -> dict[str, Var]:
    """Gradient of a convolution; that of the bias is a sum over all axes but the channels."""
    grads = _gradients(g, {"x": g["x"], "weight": g["weight"], "result": g.out_grad})
    if g.wants("bias"):
        axes = tuple(i for i, one in enumerate(str(g.attrs["layout"])) if one != "C")
        grads["bias"] = cast_like(emit("sum", g.out_grad, axis=axes), g["bias"])
    return grads


for definition in (conv1d, conv2d, conv3d):
    definition.gradient(convolution_gradient)


@conv_to_input.gradient
def conv_to_input_gradient(g: Backward) -> dict[str, Var]:
    """Gradient of the input gradient: a weight gradient and a convolution."""
    return _gradients(g, {"x": g.out_grad, "weight": g["weight"], "result": g["result"]})


@conv_to_weight.gradient
def conv_to_weight_gradient(g: Backward) -> dict[str, Var]:
    """Gradient of the weight gradient: an input gradient and a convolution."""
    return _gradients(g, {"x": g["x"], "weight": g.out_grad, "result": g["result"]})
