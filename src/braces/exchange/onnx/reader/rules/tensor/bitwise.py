"""Rules of operators on the bits of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from braces.builder.var import Var
from braces.exchange.common.values.equal_sizes import alike
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.exchange.onnx.reader.rules.tensor.arithmetic import same
from braces.frontend.core import functions as ops


def bit_shift(node: Node) -> Var:
    """Bits moved up or down; the numbers are unsigned."""
    ways = {"LEFT": ops.bitwise_left_shift, "RIGHT": ops.bitwise_right_shift}
    way = ways.get(node.attr("direction"))
    if way is None:
        node.refuse(f"has the direction {node.attr('direction')!r:.20}", "Say LEFT or RIGHT.")
    return way(*alike(node.vars()))


def bit_cast(node: Node) -> Var:
    """The same bits as numbers of another dtype."""
    return ops.bitcast(node.var(0), dtype=node.dtype_attr("to"))


BITS: Mapping[str, Rule] = {
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "BitwiseAnd": partial(same, "bitwise_and"),
    "BitwiseNot": partial(same, "bitwise_invert"),
    "BitwiseOr": partial(same, "bitwise_or"),
    "BitwiseXor": partial(same, "bitwise_xor"),
}
