"""Rules of bitwise, rounding and ordering primitives, built from other primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.dtypes import BOOL, SHORT_NAMES
from braces.jaxpr.core.custom_derivatives import with_jax_derivative
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype, reduction
from braces.lazy import jax, jnp, lax

_np: Any = jnp
_lax: Any = lax


# ---- orders ----------------------------------------------------------------------------------


def _place_in_order(x: Any) -> Any:
    """Map floats to integers in total order: -0 is below 0, and NaN is the largest."""
    if not _np.issubdtype(x.dtype, np.inexact):
        return x
    bits = _lax.bitcast_convert_type(x, f"int{8 * np.dtype(x.dtype).itemsize}")
    magnitude_mask = np.iinfo(bits.dtype).max
    return _np.where(bits < 0, bits ^ np.asarray(magnitude_mask, bits.dtype), bits)


def total_order_comparison(name: str, e: Equation, x: Value, y: Value) -> list[Value]:
    """A comparison in total order."""
    compare = getattr(_np, name)

    def compare_in_total_order(x: Any, y: Any) -> Any:
        return compare(_place_in_order(x), _place_in_order(y))

    return e.written(compare_in_total_order, x, y)


def approximate_top(e: Equation, x: Value) -> tuple[Var, Var]:
    """An approximate top-k, computed exactly."""
    axis, largest, var = e.params["reduction_dimension"], e.params["is_max_k"], e.lift(x)
    attrs = {"k": e.params["k"], "axis": axis}
    top = apply("topk", {"x": (var if largest else -var,)}, attrs)
    values, indices = top["values"][0], top["indices"][0]
    return values if largest else -values, in_dtype(indices, e.types[1].dtype)


# ---- rounding --------------------------------------------------------------------------------


def round_nearest(e: Equation, x: Value) -> Value | list[Value]:
    """Rounding to nearest, with ties to even or away from zero."""
    if int(e.params["rounding_method"]) == 1:
        return emit("round", e.lift(x))

    def round_half_away(x: Any) -> Any:
        size = _np.abs(x)
        below = _np.floor(size)
        up = _np.where(size - below >= np.asarray(0.5, x.dtype), 1, 0).astype(x.dtype)
        return _np.sign(x) * (below + up)

    return e.written(round_half_away, x)


def rounded_to_precision(e: Equation, x: Value) -> Var:
    """Numbers rounded to fewer bits; those of bfloat16 by a cast and back."""
    bits, var = (e.params["exponent_bits"], e.params["mantissa_bits"]), e.lift(x)
    own: Any = _np.finfo(var.dtype)
    if bits == (own.iexp, own.nmant):
        return var
    if bits == (8, 7) and var.dtype == np.float32:
        return in_dtype(emit("cast", var, dtype=SHORT_NAMES["bf16"]), e.dtype)
    rounded = partial(_round_bits, exponent=bits[0], mantissa=bits[1])
    return e.lift(e.written(rounded, var)[0])


def _round_bits(x: Any, exponent: int, mantissa: int) -> Any:
    """Round the bits of floats as XLA does: small numbers become 0, large ones infinite."""
    own, width = _np.finfo(x.dtype), 8 * np.dtype(x.dtype).itemsize
    word = np.dtype(f"uint{width}")
    bits = _lax.bitcast_convert_type(x, word)
    sign = bits & word.type(1 << (width - 1))
    dropped = own.nmant - mantissa
    if dropped > 0:
        last_bit = (bits >> word.type(dropped)) & word.type(1)
        bits = bits + last_bit + word.type((1 << (dropped - 1)) - 1)
        bits = bits & word.type((1 << width) - (1 << dropped))
    if exponent < own.iexp:
        middle, reach = (1 << (own.iexp - 1)) - 1, (1 << (exponent - 1)) - 1
        infinity = word.type(((1 << own.iexp) - 1) << own.nmant)
        size = bits & infinity
        is_large = size > word.type((middle + reach) << own.nmant)
        is_small = size <= word.type((middle - reach) << own.nmant)
        bits = _np.where(is_large, sign | infinity, _np.where(is_small, sign, bits))
    return _np.where(x != x, x, _lax.bitcast_convert_type(bits, x.dtype))


def _has_own_bits(e: Equation) -> bool:
    """Return whether the rounding is not a cast, which has JAX's derivative."""
    bits = (e.params["exponent_bits"], e.params["mantissa_bits"])
    return bits != (8, 7) or e.dtype != np.float32


# ---- bits ------------------------------------------------------------------------------------


TRUTH = {"and": "all", "or": "any"}
"""The operators of logical reductions."""


def logical_or_bitwise_reduction(name: str, e: Equation, x: Value) -> Value | list[Value]:
    """A logical or bitwise reduction, one axis after the other."""
    if e.dtype == BOOL and name in TRUTH:
        return reduction(TRUTH[name], e, x)
    combine: Callable[[Any, Any], Any] = getattr(_np, f"bitwise_{name}")
    zero = np.zeros((), e.dtype)
    first = np.invert(zero) if name == "and" else zero
    axes = sorted(e.params["axes"], reverse=True)

    def step(so_far: Any, row: Any) -> tuple[Any, None]:
        return combine(so_far, row), None

    def reduce_axis(x: Any, axis: int) -> Any:
        rows = _np.moveaxis(x, axis, 0)
        init = _np.full(rows.shape[1:], first)
        return _lax.scan(step, init, rows)[0]

    def reduce_all(x: Any) -> Any:
        for axis in axes:
            x = reduce_axis(x, axis)
        return x

    return e.written(reduce_all, x)


def _count_bits(x: Any) -> Any:
    """Return the number of set bits, by sums over pairs, nibbles, and so on."""
    width = 8 * np.dtype(x.dtype).itemsize
    partial_counts = _lax.bitcast_convert_type(x, f"uint{width}").astype(np.uint64)
    for shift, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
        field_mask = np.uint64(mask * 0x0001000100010001)
        partial_counts = (partial_counts & field_mask) + (
            (partial_counts >> np.uint64(shift)) & field_mask
        )
    total = partial_counts & np.uint64(0xFFFF)
    for shift in range(16, width, 16):
        total = total + ((partial_counts >> np.uint64(shift)) & np.uint64(0xFFFF))
    return total.astype(x.dtype)


def population_count(e: Equation, x: Value) -> list[Value]:
    """The number of set bits."""
    return e.written(_count_bits, x)


def leading_zeros(e: Equation, x: Value) -> list[Value]:
    """The number of leading zero bits: fill all lower bits, and count."""

    def count_leading_zeros(x: Any) -> Any:
        width = 8 * np.dtype(x.dtype).itemsize
        filled = _lax.bitcast_convert_type(x, f"uint{width}")
        for power in range(width.bit_length() - 1):
            filled = filled | (filled >> np.asarray(1 << power, filled.dtype))
        return _count_bits(~filled).astype(x.dtype)

    return e.written(count_leading_zeros, x)


def high_product(e: Equation, x: Value, y: Value) -> list[Value]:
    """The upper half of integer products."""
    width = 8 * e.dtype.itemsize
    if width == 64:
        e.refuse("64-bit integers")
    twice = f"{'u' if e.dtype.kind == 'u' else ''}int{2 * width}"

    def high(x: Any, y: Any) -> Any:
        full_product = x.astype(twice) * y.astype(twice)
        return (full_product >> np.asarray(width, twice)).astype(x.dtype)

    return e.written(high, x, y)


def next_after(e: Equation, x: Value, y: Value) -> list[Value]:
    """The next float from `x` towards `y`."""
    return e.written(_next_one, x, y)


def _next_one(x: Any, y: Any) -> Any:
    bits_type = f"int{8 * x.dtype.itemsize}"
    tiny = np.asarray(1, bits_type).view(x.dtype)
    bits = _lax.bitcast_convert_type(x, bits_type)
    away_from_zero = (x < y) == (x > 0)
    step = _np.where(away_from_zero, 1, -1).astype(bits.dtype)
    neighbour_value = _lax.bitcast_convert_type(bits + step, x.dtype)
    neighbour_value = _np.where(x == 0, _np.where(y > 0, tiny, -tiny), neighbour_value)
    is_nan = (x != x) | (y != y)
    return _np.where(is_nan, x + y, _np.where(x == y, y, neighbour_value))


# ---- machines --------------------------------------------------------------------------------


def platform(e: Equation) -> Value:
    """The branch of JAX's current backend; all branches are equivalent."""
    backend = jax.default_backend()
    platforms: Sequence[Sequence[str] | None] = e.params["platforms"]
    matches = [at for at, names in enumerate(platforms) if names is None or backend in names]
    if not matches:
        e.refuse(f"no branch for platform {backend}")
    return np.asarray(matches[0], np.int32)


def nothing(e: Equation, *values: Value) -> list[Value]:
    """No results."""
    del e, values
    return []


EXACT: Mapping[str, Rule] = {
    "approx_top_k": approximate_top,
    "clz": leading_zeros,
    "dce_sink": nothing,
    "le_to": partial(total_order_comparison, "less_equal"),
    "lt_to": partial(total_order_comparison, "less"),
    "mulhi": high_product,
    "nextafter": next_after,
    "platform_index": platform,
    "population_count": population_count,
    "reduce_and": partial(logical_or_bitwise_reduction, "and"),
    "reduce_or": partial(logical_or_bitwise_reduction, "or"),
    "reduce_precision": with_jax_derivative(rounded_to_precision, _has_own_bits),
    "reduce_xor": partial(logical_or_bitwise_reduction, "xor"),
    "round": round_nearest,
}
