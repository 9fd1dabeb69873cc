"""Primitives on the bits of integers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from braces.dtypes import FLOAT32, FLOAT64, INT64, DType
from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.exchange.onnx.writer.graph.jaxpr_equation import Equation, Rule


def unsigned(dtype: DType) -> DType:
    """The unsigned integers of the same width."""
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _shifted(e: Equation, x: str, by: str, direction: str) -> str:
    """Bits moved, with zeros behind them; all are gone where they move as far as there are."""
    g, dtype, plain = e.g, e.dtype, unsigned(e.dtype)
    x, by = (widths.moved(g, one, dtype, plain) for one in (x, by))
    width = g.constant(8 * dtype.itemsize, plain)
    within = widths.asked(g, "Less", by, width, dtype=plain)
    few = widths.chosen(g, within, by, g.constant(0, plain), plain)
    found = g.op("BitShift", x, few, direction=direction)
    found = widths.chosen(g, within, found, g.constant(0, plain), plain)
    return widths.moved(g, found, plain, dtype)


def shift_left(e: Equation, x: str, by: str) -> str:
    """Bits moved up."""
    return _shifted(e, x, by, "LEFT")


def shift_right(e: Equation, x: str, by: str) -> str:
    """Bits moved down, with zeros behind them."""
    return _shifted(e, x, by, "RIGHT")


def shift_number(e: Equation, x: str, by: str) -> str:
    """Bits moved down, with the sign behind them."""
    if e.dtype.kind == "u":
        return _shifted(e, x, by, "RIGHT")
    negative = e.asked("Less", x, e.scalar(0))
    below = e.g.op("BitwiseNot", _shifted(e, e.g.op("BitwiseNot", x), by, "RIGHT"))
    return widths.chosen(e.g, negative, below, _shifted(e, x, by, "RIGHT"), e.dtype)


def bitcast(e: Equation, x: str) -> str:
    """The same bits as numbers of another dtype: integers as integers, or as floats."""
    of, to = e.type().dtype, e.dtype
    if of.itemsize != to.itemsize or to.kind == "c":
        raise e.refuse(f"from {of} to {to}")
    if of.kind in "iu" and to.kind in "iu":
        return widths.moved(e.g, x, of, to)
    if of.kind not in "iu" or to not in (FLOAT32, FLOAT64):
        raise e.refuse(f"from {of} to {to}")
    bits = widths.moved(e.g, x, of, unsigned(of))
    return floats_of_bits(e.g, bits, to)


def floats_of_bits(g: Graph, bits: str, dtype: DType) -> str:
    """The floats that unsigned integers are the bits of, by sign, exponent and fraction."""
    info, plain = np.finfo(dtype), unsigned(dtype)
    digits, width = info.nmant, 8 * dtype.itemsize

    def part(down: int, kept: int) -> str:
        moved_down = g.op("BitShift", bits, g.constant(down, plain), direction="RIGHT")
        return g.cast(g.op("BitwiseAnd", moved_down, g.constant(kept, plain)), INT64)

    most = (1 << (width - 1 - digits)) - 1
    exponents = np.maximum(np.arange(most), 1) - (most >> 1) - digits
    scales = np.append(np.ldexp(1.0, exponents), np.inf)
    starts = np.where(np.arange(most + 1) > 0, float(1 << digits), 0.0)
    exponent, fraction = part(digits, most), part(0, (1 << digits) - 1)
    special = g.op("Equal", exponent, g.constant(most, INT64))
    whole = g.op("Equal", fraction, g.constant(0, INT64))
    value = g.op(
        "Mul",
        g.op("Add", g.cast(fraction, FLOAT64), g.op("Gather", g.constant(starts), exponent)),
        g.op("Gather", g.constant(scales), exponent),
    )
    no_number = g.op("And", special, g.op("Not", whole))
    value = g.op("Where", no_number, g.constant(np.nan), value)
    sign = g.op("Gather", g.constant([1.0, -1.0]), part(width - 1, 1))
    return widths.moved(g, g.op("Mul", value, sign), FLOAT64, dtype)


BITS: Mapping[str, Rule] = {
    "bitcast_convert_type": bitcast,
    "shift_left": shift_left,
    "shift_right_arithmetic": shift_number,
    "shift_right_logical": shift_right,
}
