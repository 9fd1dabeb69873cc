"""Rules of bitwise operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from braces.exchange.common.values.equal_sizes import unify_sizes
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.exchange.onnx.reader.rules.tensor.arithmetic import equivalent_operator
from braces.extend import functions as ops
from braces.extend.building import Var


def bit_shift(node: OnnxNode) -> Var:
    """A shift of the bits of unsigned numbers."""
    functions = {"LEFT": ops.bitwise_left_shift, "RIGHT": ops.bitwise_right_shift}
    function = functions.get(node.attr("direction"))
    if function is None:
        node.refuse(f"unknown direction {node.attr('direction')!r:.20}", "Use LEFT or RIGHT.")
    return function(*unify_sizes(node.vars()))


def bit_cast(node: OnnxNode) -> Var:
    """A bitcast to another dtype."""
    return ops.bitcast(node.var(0), dtype=node.dtype_attr("to"))


BITS: Mapping[str, Rule] = {
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "BitwiseAnd": partial(equivalent_operator, "bitwise_and"),
    "BitwiseNot": partial(equivalent_operator, "bitwise_invert"),
    "BitwiseOr": partial(equivalent_operator, "bitwise_or"),
    "BitwiseXor": partial(equivalent_operator, "bitwise_xor"),
}
