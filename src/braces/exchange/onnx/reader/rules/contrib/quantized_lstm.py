"""Rule of DynamicQuantizeLSTM: an LSTM with weights of 8 bits.

Both factors of a product are 8-bit integers. The input of all steps, and the memory of each
step, are quantized to the range of their numbers. The integers of the weights become floats
once, before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from braces.exchange.common.rules.recurrent_cells import Cell, Function, lstm_step
from braces.exchange.onnx.reader.graph.node import OnnxNode
from braces.exchange.onnx.reader.rules.nn.quantized import quantize_dynamically
from braces.exchange.onnx.reader.rules.nn.recurrent import LSTM, layer, with_options
from braces.extend import functions as ops
from braces.extend.building import Var


@dataclass(frozen=True)
class QuantizedCell(Cell):
    """A cell whose recurrent product is one of integers.

    Attributes:
        r_scale: The scale of the recurrent weights, or one for each gate; `r` has their
            integers as floats, `[H, gates * H]`.
    """

    r_scale: Var | None = None

    def recurrent_product(self, h: Var, count: int) -> Var:
        """Return the product of the quantized memory and the weights."""
        assert self.r_scale is not None, "missing scale"
        return product_with_range(h, self.r, self.r_scale)


def quantized_lstm(node: OnnxNode) -> tuple[Var, ...]:
    """An LSTM with dynamically quantized inputs and memories."""
    plain = node.over("LSTM", *(node.value(at) for at in range(8)))
    return layer(lstm_step, LSTM, 2, plain, partial(_cell_and_product, node))


def _cell_and_product(
    node: OnnxNode, plain: OnnxNode, order: str, d: int, functions: Sequence[Function], x: Var
) -> tuple[Cell, Var]:
    w, w_scale = _weights(node, 1, 8, d)
    r, r_scale = _weights(node, 2, 10, d)
    size = r.shape[0]
    if not isinstance(size, int):
        node.refuse(f"expected weights of static size, got {size}")
    cell = with_options(
        plain, QuantizedCell(order, None, r, None, functions, size, r_scale=r_scale), d
    )
    return cell, product_with_range(x, w, w_scale)


def _weights(node: OnnxNode, at: int, first: int, d: int) -> tuple[Var, Var]:
    """Return the weights of a direction minus their zero points, and their scale."""
    integers, scale, zero = node.var(at)[d], node.var(first), node.var(first + 1)
    directions = node.var(at).shape[0]
    own = d if scale.shape and scale.shape[0] == directions else 0
    scale, zero = (v[own] if v.ndim else v for v in (scale, zero))
    return ops.cast(integers, scale.dtype) - ops.cast(zero, scale.dtype), scale


def product_with_range(x: Var, weights: Var, scale: Var) -> Var:
    """Quantize an array to the range of its numbers, and multiply it with integer weights."""
    integers, x_scale, zero = quantize_dynamically(x)
    centered = ops.cast(integers, weights.dtype) - ops.cast(zero, weights.dtype)
    return ops.matmul(centered, weights) * (x_scale * scale)
