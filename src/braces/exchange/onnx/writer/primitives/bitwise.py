"""Export of bitwise primitives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.extend.types import FLOAT32, FLOAT64, INT64, DType


def unsigned(dtype: DType) -> DType:
    """Return the unsigned integer dtype of the same width."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _shift_bits(e: ExportedEquation, x: str, by: str, direction: str) -> str:
    """Shift bits with zero fill; the result is 0 from the full width on."""
    g, dtype, unsigned_dtype = e.g, e.dtype, unsigned(e.dtype)
    x, by = (widths.cast_value(g, operand, dtype, unsigned_dtype) for operand in (x, by))
    width = g.constant(8 * dtype.itemsize, unsigned_dtype)
    within = widths.widened_query(g, "Less", by, width, dtype=unsigned_dtype)
    safe_shift = widths.widened_where(
        g, within, by, g.constant(0, unsigned_dtype), unsigned_dtype
    )
    shifted = g.op("BitShift", x, safe_shift, direction=direction)
    shifted = widths.widened_where(
        g, within, shifted, g.constant(0, unsigned_dtype), unsigned_dtype
    )
    return widths.cast_value(g, shifted, unsigned_dtype, dtype)


def shift_left(e: ExportedEquation, x: str, by: str) -> str:
    """A left shift."""
    return _shift_bits(e, x, by, "LEFT")


def shift_right(e: ExportedEquation, x: str, by: str) -> str:
    """A right shift with zero fill."""
    return _shift_bits(e, x, by, "RIGHT")


def shift_number(e: ExportedEquation, x: str, by: str) -> str:
    """A right shift with sign fill."""
    if e.dtype.kind == "u":
        return _shift_bits(e, x, by, "RIGHT")
    negative = e.query("Less", x, e.scalar(0))
    below = e.g.op("BitwiseNot", _shift_bits(e, e.g.op("BitwiseNot", x), by, "RIGHT"))
    return widths.widened_where(e.g, negative, below, _shift_bits(e, x, by, "RIGHT"), e.dtype)


def bitcast(e: ExportedEquation, x: str) -> str:
    """A bitcast: integers to integers, or to floats."""
    source_dtype, target_dtype = e.type().dtype, e.dtype
    if source_dtype.itemsize != target_dtype.itemsize or target_dtype.kind == "c":
        raise e.refuse(f"unsupported bitcast from {source_dtype} to {target_dtype}")
    if source_dtype.kind in "iu" and target_dtype.kind in "iu":
        return widths.cast_value(e.g, x, source_dtype, target_dtype)
    if source_dtype.kind not in "iu" or target_dtype not in (FLOAT32, FLOAT64):
        raise e.refuse(f"unsupported bitcast from {source_dtype} to {target_dtype}")
    bits = widths.cast_value(e.g, x, source_dtype, unsigned(source_dtype))
    return floats_of_bits(e.g, bits, target_dtype)


def floats_of_bits(g: OnnxGraph, bits: str, dtype: DType) -> str:
    """Return the floats with these bits, by sign, exponent and fraction."""
    info, plain = np.finfo(dtype), unsigned(dtype)
    digits, width = info.nmant, 8 * dtype.itemsize

    def part(shift: int, bit_mask: int) -> str:
        moved_down = g.op("BitShift", bits, g.constant(shift, plain), direction="RIGHT")
        return g.cast(g.op("BitwiseAnd", moved_down, g.constant(bit_mask, plain)), INT64)

    max_exponent = (1 << (width - 1 - digits)) - 1
    exponents = np.maximum(np.arange(max_exponent), 1) - (max_exponent >> 1) - digits
    scales = np.append(np.ldexp(1.0, exponents), np.inf)
    starts = np.where(np.arange(max_exponent + 1) > 0, float(1 << digits), 0.0)
    exponent, fraction = part(digits, max_exponent), part(0, (1 << digits) - 1)
    special = g.op("Equal", exponent, g.constant(max_exponent, INT64))
    is_zero = g.op("Equal", fraction, g.constant(0, INT64))
    value = g.op(
        "Mul",
        g.op("Add", g.cast(fraction, FLOAT64), g.op("Gather", g.constant(starts), exponent)),
        g.op("Gather", g.constant(scales), exponent),
    )
    is_nan = g.op("And", special, g.op("Not", is_zero))
    value = g.op("Where", is_nan, g.constant(np.nan), value)
    sign = g.op("Gather", g.constant([1.0, -1.0]), part(width - 1, 1))
    return widths.cast_value(g, g.op("Mul", value, sign), FLOAT64, dtype)


BITS: Mapping[str, Rule] = {
    "bitcast_convert_type": bitcast,
    "shift_left": shift_left,
    "shift_right_arithmetic": shift_number,
    "shift_right_logical": shift_right,
}
