"""Rules of ONNX Runtime's own operators on quantized integers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from braces.exchange.common.rules.elementwise import scale_by
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.rules.contrib.quantized_lstm import quantized_lstm
from braces.exchange.onnx.reader.rules.nn.conv_pool import WINDOWS
from braces.exchange.onnx.reader.rules.nn.quantized import (
    align_with_axis,
    dequantize_input,
    dequantize_linear,
    float_matmul,
    integer_matmul,
    quantize_dynamically,
    quantize_linear,
    quantize_result,
    squeeze_parameter,
)
from braces.exchange.onnx.reader.rules.tensor.arithmetic import ARITHMETIC
from braces.extend import functions as ops
from braces.extend.building import Var

DOMAIN = "com.microsoft"


def quantized_binary(op_type: str, node: OnnxNode) -> Var:
    """A binary operator on dequantized inputs, with a quantized result."""
    return quantize_result(
        node, ops.function_of(op_type)(dequantize_input(node, 0), dequantize_input(node, 3)), 6
    )


def quantized_unary(op_type: str, node: OnnxNode) -> Var:
    """A unary ONNX operator on a dequantized input, with a quantized result.

    Channels may come last.
    """
    x, last = dequantize_input(node, 0), node.flag("channels_last")
    out = ONE[op_type](node.over(op_type, ops.moveaxis(x, -1, 1) if last else x))
    assert isinstance(out, Var), "expected one array"
    return quantize_result(node, ops.moveaxis(out, 1, -1) if last else out, 3)


ONE: Mapping[str, Rule] = {
    "AveragePool": WINDOWS["AveragePool"],
    "GlobalAveragePool": WINDOWS["GlobalAveragePool"],
    "LeakyRelu": ARITHMETIC["LeakyRelu"],
    "Sigmoid": ARITHMETIC["Sigmoid"],
}
"""Unary ONNX operators with a quantized variant."""


def softmax(node: OnnxNode) -> Var:
    """A softmax, of the opset version in an attribute."""
    x = dequantize_input(node, 0)
    at = node.axis("axis", -1, x.ndim)
    last = at + 1 if node.attr("opset", 1) >= 13 else x.ndim
    axes = tuple(range(at, last))
    out = ops.exp(x - ops.logsumexp(x, axis=axes, keepdims=True))
    return quantize_result(node, out, 3)


def concat(node: OnnxNode) -> Var:
    """A concatenation; the output's scale and zero point come first, then three inputs each."""
    xs = [dequantize_input(node, at) for at in range(2, node.count, 3)]
    return quantize_result(node, ops.concat(xs, axis=node.attr("axis")), 0, like=2)


def where(node: OnnxNode) -> Var:
    """A quantized `Where`."""
    return quantize_result(
        node,
        ops.where(node.var(0), dequantize_input(node, 1), dequantize_input(node, 4)),
        7,
        like=1,
    )


def matmul_to_float(node: OnnxNode) -> Var:
    """A product of quantized matrices, as floats."""
    a, b = node.var(0), node.var(1)
    out = float_matmul(a, node.maybe(4), b, node.maybe(5))
    factor = align_with_axis(squeeze_parameter(node.var(2)), a, -2) * squeeze_parameter(
        node.var(3)
    )
    return add_optional_bias(ops.cast(out, factor.dtype) * factor, node.maybe(6))


def dynamic_matmul(node: OnnxNode) -> Var:
    """A product of a dynamically quantized matrix and a quantized one."""
    a, scale, zero = quantize_dynamically(node.var(0))
    out = float_matmul(a, zero, node.var(1), node.maybe(3))
    factor = scale * squeeze_parameter(node.var(2))
    return add_optional_bias(ops.cast(out, factor.dtype) * factor, node.maybe(4))


def add_optional_bias(out: Var, bias: Var | None) -> Var:
    """Add an optional bias."""
    return out if bias is None else out + bias


def gemm(node: OnnxNode) -> Var:
    """Alpha A B + C of quantized integers; floats if the result has no scale."""
    a, b = node.var(0), node.var(3)
    a = ops.transpose(a) if node.flag("transA") else a
    b = ops.transpose(b) if node.flag("transB") else b
    out = integer_matmul(a, node.maybe(2), b, node.maybe(5))
    out = add_optional_bias(out, node.maybe(6))
    factor = scale_by(
        squeeze_parameter(node.var(1)) * squeeze_parameter(node.var(4)), node.attr("alpha", 1.0)
    )
    wide = ops.cast(out, factor.dtype) * factor
    return quantize_result(node, wide, 7) if node.has(7) else wide


QUANTIZED_LAYERS: Mapping[str, Rule] = {
    f"{DOMAIN}.{name}": rule
    for name, rule in {
        **{f"QLinear{name}": partial(quantized_unary, name) for name in ONE},
        "DequantizeLinear": dequantize_linear,
        "DynamicQuantizeLSTM": quantized_lstm,
        "DynamicQuantizeMatMul": dynamic_matmul,
        "MatMulIntegerToFloat": matmul_to_float,
        "QGemm": gemm,
        "QLinearAdd": partial(quantized_binary, "add"),
        "QLinearConcat": concat,
        "QLinearMul": partial(quantized_binary, "multiply"),
        "QLinearSoftmax": softmax,
        "QLinearWhere": where,
        "QuantizeLinear": quantize_linear,
    }.items()
}
