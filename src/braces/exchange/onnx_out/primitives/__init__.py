"""What each primitive of JAX is in ONNX: all the rules there are, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.onnx_out.equation import Rule
from braces.exchange.onnx_out.primitives.arithmetic import ARITHMETIC
from braces.exchange.onnx_out.primitives.bits import BITS
from braces.exchange.onnx_out.primitives.calls import CALLS
from braces.exchange.onnx_out.primitives.contractions import CONTRACTIONS
from braces.exchange.onnx_out.primitives.gathering import GATHERING
from braces.exchange.onnx_out.primitives.matrices import MATRICES
from braces.exchange.onnx_out.primitives.reductions import REDUCTIONS
from braces.exchange.onnx_out.primitives.shapes import SHAPES
from braces.exchange.onnx_out.primitives.special import SPECIAL
from braces.exchange.onnx_out.primitives.windows import WINDOWS

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
