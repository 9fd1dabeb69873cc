"""The registry of export rules, by JAX primitive."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.onnx.writer.graph.jaxpr_equation import Rule
from braces.exchange.onnx.writer.primitives.arithmetic import ARITHMETIC
from braces.exchange.onnx.writer.primitives.bitwise import BITS
from braces.exchange.onnx.writer.primitives.conv_pool import WINDOWS
from braces.exchange.onnx.writer.primitives.dot_general import CONTRACTIONS
from braces.exchange.onnx.writer.primitives.gather_scatter import GATHERING
from braces.exchange.onnx.writer.primitives.higher_order import CALLS
from braces.exchange.onnx.writer.primitives.linalg import MATRICES
from braces.exchange.onnx.writer.primitives.reductions import REDUCTIONS
from braces.exchange.onnx.writer.primitives.shape import SHAPES
from braces.exchange.onnx.writer.primitives.special_functions import SPECIAL

PRIMITIVES: Mapping[str, Rule] = {
    **ARITHMETIC,
    **BITS,
    **CALLS,
    **CONTRACTIONS,
    **GATHERING,
    **MATRICES,
    **REDUCTIONS,
    **SHAPES,
    **SPECIAL,
    **WINDOWS,
}
