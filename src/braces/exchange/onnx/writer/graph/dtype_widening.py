"""Widen dtypes that ONNX's operators or their kernels do not support.

An unsupported dtype is cast to a wider one that holds all its numbers, and the result is cast
back. `float64` has nothing wider and stays, since a narrower dtype would change the model.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from braces.errors import DTypeError
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.unsupported import COMPLEX
from braces.extend.types import BOOL, FLOAT32, INT32, INT64, SHORT_NAMES, DType

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_FLOATS = frozenset({"f16", "f32", "f64"})
_SIGNED = frozenset({"i8", "i16", "i32", "i64"})
_UNSIGNED = frozenset({"u8", "u16", "u32", "u64"})
_NUMBERS = _FLOATS | _SIGNED | _UNSIGNED
_COMMON = _FLOATS | {"i32", "i64"}
_ORDERED = _COMMON | {"i8", "u8"}

SUPPORTED: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "Sign"), _NUMBERS),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _NUMBERS),
    "Equal": _NUMBERS | {"bool"},
    "Abs": _NUMBERS,
    "Neg": _FLOATS | _SIGNED,
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _SIGNED | _UNSIGNED),
    "Pow": _COMMON,
    **dict.fromkeys(("Max", "Min"), _ORDERED | {"u32", "u64"}),
    **dict.fromkeys(("MatMul", "Einsum", "CumSum"), _COMMON),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceMean"), _COMMON),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _COMMON | {"i8", "u8"}),
    **dict.fromkeys(("ArgMax", "ArgMin"), _ORDERED),
    "TopK": _ORDERED | {"i16"},
    "Where": _ORDERED | {"u32"},
    "Pad": _ORDERED | {"u32", "u64", "bool", "bf16"},
    **dict.fromkeys(("Expand", "Split", "Tile"), _NUMBERS | {"bool"}),
    "Trilu": _COMMON | {"bool"},
    "Range": frozenset({"i32", "i64", "f32", "f64"}),
    "Celu": frozenset({"f32"}),
    "Clip": _ORDERED | {"u32", "u64"},
}
"""The dtypes that an operator supports; the default is floats without bfloat16."""

_WIDER = {
    "bool": INT32, "i8": INT32, "i16": INT32, "u8": INT32, "u16": INT32, "u32": INT64,
    "bf16": FLOAT32, "f16": FLOAT32,
}  # fmt: skip
_WRAPPING = frozenset({"Add", "Sub", "Mul", "ReduceSum", "ReduceProd", "CumSum", "MatMul"})
"""Operators with equal bits in signed and unsigned 64-bit arithmetic."""
_MOVING = frozenset({"Trilu", "Where"})
_SHORT = {dtype: name for name, dtype in SHORT_NAMES.items()}


def is_supported(kind: str, dtype: DType) -> bool:
    """Return whether an ONNX operator computes in a dtype itself."""
    return _SHORT.get(dtype) in SUPPORTED.get(kind, _FLOATS)


def computed_in(kind: str, dtype: DType) -> DType:
    """Return the dtype in which an ONNX operator computes for operands of a dtype.

    Raises:
        DTypeError: If the ONNX operator supports no such dtype.
    """
    name = _SHORT[dtype]
    if name in SUPPORTED.get(kind, _FLOATS):
        return dtype
    if name in _WIDER:
        return computed_in(kind, _WIDER[name])
    if name == "u64" and kind in _WRAPPING | _MOVING:
        return INT64
    if dtype.kind == "c":
        raise DTypeError(f"{COMPLEX}.")
    raise DTypeError(f"unsupported dtype {dtype} for ONNX operator {kind}.")


def cast_value(g: OnnxGraph, value: str, dtype: DType, to: DType) -> str:
    """Cast a value, unless it has the dtype."""
    return value if dtype == to else g.cast(value, to)


def widened_op(
    g: OnnxGraph,
    kind: str,
    *inputs: str,
    dtype: DType,
    beside: tuple[str, ...] = (),
    **attrs: object,
) -> str:
    """Add a node with operands and result of one dtype; `beside` are other inputs."""
    wide = computed_in(kind, dtype)
    operands = (cast_value(g, value, dtype, wide) for value in inputs)
    return cast_value(g, g.op(kind, *operands, *beside, **attrs), wide, dtype)


def widened_query(
    g: OnnxGraph,
    kind: str,
    *inputs: str,
    dtype: DType,
    beside: tuple[str, ...] = (),
    **attrs: object,
) -> str:
    """Add a node with operands of one dtype and a result of ONNX's choice: bool or indices."""
    wide = computed_in(kind, dtype)
    return g.op(kind, *(cast_value(g, x, dtype, wide) for x in inputs), *beside, **attrs)


def widened_where(g: OnnxGraph, condition: str, yes: str, no: str, dtype: DType) -> str:
    """Select elementwise between two values."""
    if dtype == BOOL:
        return g.op(
            "Or",
            g.op("And", condition, yes),
            g.op("And", g.op("Not", condition), no),
        )
    wide = computed_in("Where", dtype)
    operands = (cast_value(g, value, dtype, wide) for value in (yes, no))
    return cast_value(g, g.op("Where", condition, *operands), wide, dtype)


def widened_pad(g: OnnxGraph, value: str, pads: str, filling: str, dtype: DType) -> str:
    """Pad an array by the widths before and after each axis."""
    wide = computed_in("Pad", dtype)
    value, filling = (cast_value(g, operand, dtype, wide) for operand in (value, filling))
    return cast_value(g, g.op("Pad", value, pads, filling), wide, dtype)
