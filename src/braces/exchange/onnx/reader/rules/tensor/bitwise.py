"""Rules of shifts and casts of bits."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.values.equal_sizes import unify_sizes
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
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
}
