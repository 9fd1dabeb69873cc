"""Operators with an ONNX counterpart, for models that are readable and fast.

A rule adds the nodes of an operator. Other operators, and those whose rule returns `None` for
these dtypes, attributes or this operator set version, are exported by their kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.onnx.writer.graph.node import Rule
from braces.exchange.onnx.writer.operators.counterparts import COUNTERPARTS
from braces.exchange.onnx.writer.operators.indexing import INDEXING
from braces.exchange.onnx.writer.operators.normalization import NORMALIZATION
from braces.exchange.onnx.writer.operators.tensor import TENSOR
from braces.exchange.onnx.writer.operators.windows import WINDOWS

OPERATORS: Mapping[str, Rule] = {
    **TENSOR,
    **INDEXING,
    **COUNTERPARTS,
    **NORMALIZATION,
    **WINDOWS,
}
