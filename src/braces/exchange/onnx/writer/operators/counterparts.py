"""Operators with a counterpart of ONNX that has the same formula.

    y = gelu(x=x) {approximate=True}          y = Gelu(x) {approximate="tanh"}
    y = hard_sigmoid(x=x)                     y = HardSigmoid(x) {alpha=1/6, beta=0.5}

ONNX Runtime has these functions for 32-bit floats and computes 16-bit floats in them. For
float64 it has few of them; such operators are exported by their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.node import NodeDesc, Rule
from braces.extend.operators import SELU_ALPHA, SELU_SCALE
from braces.extend.types import FLOAT64, DType, is_float

Attributes = Mapping[str, Any]


def none(n: NodeDesc) -> Attributes:
    """Return no attributes."""
    del n
    return {}


def same_names(*names: str, **renamed: str) -> Callable[[NodeDesc], Attributes]:
    """Return a mapping of attributes: equal names, and ONNX names with ours."""
    ours = dict(zip(names, names, strict=True)) | renamed
    return lambda n: {onnx_name: float(n.attr(name)) for onnx_name, name in ours.items()}


def fixed(**numbers: float) -> Callable[[NodeDesc], Attributes]:
    """Return a mapping to attributes that are always the same."""
    return lambda n: numbers


def approximation(n: NodeDesc) -> Attributes:
    """Return the attribute of `Gelu`."""
    return {"approximate": "tanh" if n.attr("approximate") else "none"}


@dataclass(frozen=True)
class Counterpart:
    """The rule of an elementwise function that is one operator of ONNX.

    Attributes:
        kind: The ONNX operator.
        attrs: Returns its attributes.
        since: The operator set version that introduced it.
    """

    kind: str
    attrs: Callable[[NodeDesc], Attributes] = none
    since: int = 1

    def __call__(self, n: NodeDesc) -> str | None:
        """Add the node."""
        dtype = n.result().dtype
        if not is_short_float(dtype) or n.g.model.opset < self.since:
            return None
        return widths.widened_op(n.g, self.kind, *n.promoted(), dtype=dtype, **self.attrs(n))


def is_short_float(dtype: DType) -> bool:
    """Return whether a dtype is a float of at most 32 bits."""
    return is_float(dtype) and dtype != FLOAT64


def clip(n: NodeDesc) -> str:
    """A clip to constant bounds."""
    g, dtype, bounds = n.g, n.result().dtype, [n.attr("min"), n.attr("max")]
    wide = widths.computed_in("Clip", dtype)
    x = widths.cast_value(g, n.input("x"), dtype, wide)
    names = ["" if bound is None else g.constant(bound, wide) for bound in bounds]
    if bounds == [None, None]:
        return g.op("Identity", n.input("x"))
    return widths.cast_value(g, g.op("Clip", x, *names), wide, dtype)


COUNTERPARTS: Mapping[str, Rule] = {
    "celu": Counterpart("Celu", same_names("alpha"), since=12),
    "clip": clip,
    "elu": Counterpart("Elu", same_names("alpha")),
    "erf": Counterpart("Erf", since=9),
    "gelu": Counterpart("Gelu", approximation, since=20),
    "hard_sigmoid": Counterpart("HardSigmoid", fixed(alpha=1 / 6, beta=0.5)),
    "hard_swish": Counterpart("HardSwish", since=14),
    "leaky_relu": Counterpart("LeakyRelu", same_names(alpha="negative_slope")),
    "mish": Counterpart("Mish", since=18),
    "selu": Counterpart("Selu", fixed(alpha=SELU_ALPHA, gamma=SELU_SCALE)),
    "silu": Counterpart("Swish", since=24),
    "softplus": Counterpart("Softplus"),
    "softsign": Counterpart("Softsign"),
}
