"""Rules of quantized operators: small integers with a scale and a zero point.

Products and convolutions of such integers are exact, in int32. Everything else is computed with
dequantized numbers and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.rules.nn.conv_pool import build_convolution
from braces.extend import functions as ops
from braces.extend.building import Var, call, emit
from braces.extend.programs import Literal
from braces.extend.types import ONE_BYTE, DType, is_float

EXACT = 2**24
"""The bound below which float32 sums of integer products are exact."""
FARTHEST = 255
"""The largest difference of 8-bit integers."""
EXACT_PRODUCTS = EXACT // FARTHEST**2
"""The number of their products whose sum float32 holds exactly."""
MOST_PIECES = 8
"""The most pieces into which a product is cut for that; longer ones are computed in float64."""


# ---- scales and zero points ------------------------------------------------------------------


def squeeze_parameter(parameter: Var) -> Var:
    """Return a scale or zero point; a single number becomes a scalar."""
    return ops.reshape(parameter, ()) if parameter.shape == (1,) else parameter


def scale_of(node: OnnxNode) -> Var:
    """Return the scales of a node; powers of two and integers become float32."""
    scale = squeeze_parameter(node.var(1))
    return scale if is_float(scale.dtype) else ops.cast(scale, "float32")


def squeeze_optional_parameter(parameter: Var | None) -> Var | None:
    """Return an optional scale or zero point."""
    return None if parameter is None else squeeze_parameter(parameter)


def scale_layout(node: OnnxNode, x: Var, scale: Var) -> dict[str, Any]:
    """Return the axis and the block size of scales."""
    if not scale.ndim:
        return {}
    block = node.attr("block_size", 0)
    return {"axis": node.axis("axis", 1, x.ndim), "block": block}


def quantize_to(x: Var, scale: Var, zero: Var | None, dtype: DType, **along: Any) -> Var:
    """Quantize numbers to a dtype."""
    return call(
        "quantize",
        x,
        squeeze_parameter(scale),
        squeeze_optional_parameter(zero),
        dtype=dtype,
        **along,
    )


def quantize_linear(node: OnnxNode) -> Var:
    """Quantize to the dtype of the zero point, or the declared one."""
    x, scale, zero = node.var(0), scale_of(node), squeeze_optional_parameter(node.maybe(2))
    declared = np.dtype("uint8")
    if node.attr("output_dtype"):
        declared = node.dtype_attr("output_dtype")
    dtype = declared if zero is None else zero.dtype
    if dtype in ONE_BYTE.values() and not node.flag("saturate", default=True):
        return ops.cast(x / align_scales(x, scale, **scale_layout(node, x, scale)), dtype)
    return quantize_to(x, scale, zero, dtype, **scale_layout(node, x, scale))


def align_scales(x: Var, scale: Var, axis: int | None = None, block: int = 0) -> Var:
    """Broadcast scales to the elements that they scale."""
    if axis is None:
        return scale
    if block:
        repeated = ops.repeat(scale, block, axis=axis)
        return emit("window", repeated, start=0, size=x.shape[axis], axis=axis)
    return align_with_axis(scale, x, axis)


def dynamic_quantize_linear(node: OnnxNode) -> tuple[Var, ...]:
    """Dynamic quantization to uint8."""
    return quantize_dynamically(node.var(0))


def quantize_dynamically(x: Var) -> tuple[Var, Var, Var]:
    """Return numbers as uint8, with the scale of their range and the zero point."""
    low, high = ops.minimum(ops.min(x), 0), ops.maximum(ops.max(x), 0)
    scale = (high - low) / 255.0
    scale = ops.where(scale > 0, scale, ops.ones_like(scale))  # of an array of zeros
    zero = ops.cast(ops.clip(ops.round(-low / scale), min=0, max=255), "uint8")
    return quantize_to(x, scale, zero, zero.dtype), scale, zero


def dequantize_linear(node: OnnxNode) -> Var:
    """Dequantize integers."""
    x, scale, zero = node.var(0), scale_of(node), squeeze_optional_parameter(node.maybe(2))
    if node.attr("output_dtype"):
        scale = ops.cast(scale, node.dtype_attr("output_dtype"))
    return call("dequantize", x, scale, zero, **scale_layout(node, x, scale))


def dequantize_input(node: OnnxNode, at: int) -> Var:
    """Dequantize an input that is followed by its scale and zero point."""
    zero = squeeze_optional_parameter(node.maybe(at + 2))
    return call("dequantize", node.var(at), squeeze_parameter(node.var(at + 1)), zero)


def quantize_result(node: OnnxNode, out: Var, at: int, like: int = 0) -> Var:
    """Quantize a result by the scale and zero point from an input on."""
    zero = node.maybe(at + 1)
    dtype = zero.dtype if zero is not None else node.var(like).dtype
    return quantize_to(out, node.var(at), zero, dtype)


# ---- integers --------------------------------------------------------------------------------


def subtract_zero_point(x: Var, zero: Var | None, axis: int | None = None) -> Var:
    """Return integers minus their zero point, which may differ along an axis, in int32."""
    integers = ops.cast(x, "int32")
    if zero is None:
        return integers
    return integers - align_with_axis(ops.cast(squeeze_parameter(zero), "int32"), x, axis)


def align_with_axis(parameter: Var, x: Var, axis: int | None) -> Var:
    """Align a vector with an axis of an array."""
    if parameter.ndim != 1 or axis is None:
        return parameter
    trailing_axes = range(1, x.ndim - axis % x.ndim)
    return ops.expand_dims(parameter, axis=tuple(trailing_axes)) if trailing_axes else parameter


def matmul_integer(node: OnnxNode) -> Var:
    """A product of integer matrices, in int32."""
    return integer_matmul(node.var(0), node.maybe(2), node.var(1), node.maybe(3))


def integer_matmul(a: Var, a_zero: Var | None, b: Var, b_zero: Var | None) -> Var:
    """Return a product of integer matrices, with zero points of rows and of columns."""
    inner = b.shape[-2 if b.ndim > 1 else -1]
    if not isinstance(inner, int) or inner > MOST_PIECES * EXACT_PRODUCTS:
        return ops.cast(float_matmul(a, a_zero, b, b_zero, "float64"), "int32")
    a, b = _centered(a, a_zero, -2, "float32"), _centered(b, b_zero, -1, "float32")
    sums = [
        ops.cast(ops.matmul(_piece(a, -1, at), _piece(b, -2, at)), "int32")
        for at in range(0, max(inner, 1), EXACT_PRODUCTS)
    ]
    return reduce(ops.add, sums)


def _piece(x: Var, axis: int, start: int) -> Var:
    """Return as many elements along the inner axis as a float32 sum holds exactly."""
    axis, piece = max(axis, -x.ndim), slice(start, start + EXACT_PRODUCTS)
    size = x.shape[axis]
    if start == 0 and isinstance(size, int) and size <= EXACT_PRODUCTS:
        return x
    return x[(..., piece, *[slice(None)] * (-1 - axis))]


def float_matmul(
    a: Var, a_zero: Var | None, b: Var, b_zero: Var | None, dtype: str = "float32"
) -> Var:
    """Return a product of integer matrices as floats; sums too large for them are rounded."""
    return ops.matmul(_centered(a, a_zero, -2, dtype), _centered(b, b_zero, -1, dtype))


def _centered(x: Var, zero: Var | None, axis: int, dtype: str) -> Var:
    """Return integers minus their zero point as floats."""
    return ops.cast(subtract_zero_point(x, zero, axis), dtype)


def conv_integer(node: OnnxNode) -> Var:
    """A convolution of integers, in int32."""
    return integer_convolution(node, node.var(0), node.maybe(2), node.var(1), node.maybe(3))


def integer_convolution(
    node: OnnxNode, x: Var, x_zero: Var | None, w: Var, w_zero: Var | None
) -> Var:
    """Convolve integers in a float dtype that holds all sums exactly."""
    x, w = subtract_zero_point(x, x_zero), subtract_zero_point(w, w_zero, 0)
    largest_sum = prod(map(int, w.shape[1:])) * FARTHEST**2
    dtype = "float32" if largest_sum < EXACT else "float64"
    sums = build_convolution(node, ops.cast(x, dtype), ops.cast(w, dtype), None)
    return ops.cast(sums, "int32")


def requantize(out: Var, factor: Var, scale: Var, zero: Var | None, dtype: DType) -> Var:
    """Requantize int32 sums by the quotient of both scales."""
    scaled_sums = ops.cast(out, "float32") * (factor / ops.cast(scale, "float32"))
    return quantize_to(
        scaled_sums, emit("constant", value=Literal.of(np.ones((), "f4"))), zero, dtype
    )


def qlinear_matmul(node: OnnxNode) -> Var:
    """A product of quantized matrices, rounded once."""
    a, b = node.var(0), node.var(3)
    zero = node.var(7)
    out = integer_matmul(a, node.var(2), b, node.var(5))
    a_scale, b_scale = (squeeze_parameter(ops.cast(node.var(at), "float32")) for at in (1, 4))
    factor = align_with_axis(a_scale, a, -2) * b_scale
    return requantize(out, factor, node.var(6), zero, zero.dtype)


def qlinear_conv(node: OnnxNode) -> Var:
    """A quantized convolution, rounded once; its bias is in int32."""
    x, w, zero, bias = node.var(0), node.var(3), node.var(7), node.maybe(8)
    out = integer_convolution(node, x, node.var(2), w, node.var(5))
    factor = squeeze_parameter(node.var(1)) * squeeze_parameter(node.var(4))
    out = out if bias is None else out + align_with_axis(bias, out, 1)
    return requantize(out, align_with_axis(factor, out, 1), node.var(6), zero, zero.dtype)


QUANTIZED: Mapping[str, Rule] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
