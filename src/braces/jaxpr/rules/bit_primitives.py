"""Rules of primitives of bits and orders that have no operator: others say the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.dtypes import BOOL, SHORT_NAMES
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype, reduction
from braces.lazy import jax, jnp, lax

_np: Any = jnp
_lax: Any = lax


# ---- orders ----------------------------------------------------------------------------------


def _place_in_order(x: Any) -> Any:
    """Floats as integers in their order: -0 lies below 0, and NaN above all."""
    if not _np.issubdtype(x.dtype, np.inexact):
        return x
    bits = _lax.bitcast_convert_type(x, f"int{8 * np.dtype(x.dtype).itemsize}")
    rest = np.iinfo(bits.dtype).max
    return _np.where(bits < 0, bits ^ np.asarray(rest, bits.dtype), bits)


def compared(name: str, e: Equation, x: Value, y: Value) -> list[Value]:
    """Numbers compared in an order in which all of them have a place."""
    compare = getattr(_np, name)

    def in_order(x: Any, y: Any) -> Any:
        return compare(_place_in_order(x), _place_in_order(y))

    return e.written(in_order, x, y)


def approximate_top(e: Equation, x: Value) -> tuple[Var, Var]:
    """The largest or the smallest: all of them are looked at."""
    axis, largest, var = e.params["reduction_dimension"], e.params["is_max_k"], e.lift(x)
    attrs = {"k": e.params["k"], "axis": axis}
    made = apply("topk", {"x": (var if largest else -var,)}, attrs)
    values, places = made["values"][0], made["indices"][0]
    return values if largest else -values, in_dtype(places, e.types[1].dtype)


# ---- rounding --------------------------------------------------------------------------------


def rounded(e: Equation, x: Value) -> Value | list[Value]:
    """The nearest integer: of two the even one, or the one away from zero."""
    if int(e.params["rounding_method"]) == 1:
        return one("round", e.lift(x))

    def away(x: Any) -> Any:
        size = _np.abs(x)
        below = _np.floor(size)
        up = _np.where(size - below >= np.asarray(0.5, x.dtype), 1, 0).astype(x.dtype)
        return _np.sign(x) * (below + up)

    return e.written(away, x)


PRECISIONS = {(5, 10): "f16", (8, 7): "bf16"}
"""The bits of exponents and of fractions that dtypes have."""


def rounded_to_precision(e: Equation, x: Value) -> Var:
    """Numbers rounded to fewer bits, there and back."""
    bits, var = (e.params["exponent_bits"], e.params["mantissa_bits"]), e.lift(x)
    own = np.finfo(var.dtype) if var.dtype.kind == "f" else None
    if own is not None and bits == (own.iexp, own.nmant):
        return var
    if bits not in PRECISIONS:
        e.refuse(f"to {bits[0]} bits of exponents and {bits[1]} of fractions")
    return in_dtype(one("cast", var, dtype=SHORT_NAMES[PRECISIONS[bits]]), e.dtype)


# ---- bits ------------------------------------------------------------------------------------


TRUTH = {"and": "all", "or": "any"}
"""What reductions of bools are called as operators."""


def bits_reduced(name: str, e: Equation, x: Value) -> Value | list[Value]:
    """Bools or bits along axes, one after the other."""
    if e.dtype == BOOL and name in TRUTH:
        return reduction(TRUTH[name], e, x)
    combine: Callable[[Any, Any], Any] = getattr(_np, f"bitwise_{name}")
    zero = np.zeros((), e.dtype)
    first = np.invert(zero) if name == "and" else zero
    axes = sorted(e.params["axes"], reverse=True)

    def step(so_far: Any, row: Any) -> tuple[Any, None]:
        return combine(so_far, row), None

    def along(x: Any, axis: int) -> Any:
        rows = _np.moveaxis(x, axis, 0)
        init = _np.full(rows.shape[1:], first)
        return _lax.scan(step, init, rows)[0]

    def reduced(x: Any) -> Any:
        for axis in axes:
            x = along(x, axis)
        return x

    return e.written(reduced, x)


def _counted(x: Any) -> Any:
    """How many bits are set: those of pairs, of fours, and so on, are added."""
    width = 8 * np.dtype(x.dtype).itemsize
    whole = _lax.bitcast_convert_type(x, f"uint{width}").astype(np.uint64)
    for shift, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
        every = np.uint64(mask * 0x0001000100010001)
        whole = (whole & every) + ((whole >> np.uint64(shift)) & every)
    total = whole & np.uint64(0xFFFF)
    for shift in range(16, width, 16):
        total = total + ((whole >> np.uint64(shift)) & np.uint64(0xFFFF))
    return total.astype(x.dtype)


def population_count(e: Equation, x: Value) -> list[Value]:
    """How many bits of integers are set."""
    return e.written(_counted, x)


def leading_zeros(e: Equation, x: Value) -> list[Value]:
    """How many bits are before the first that is set: all behind that are set, and counted."""

    def counted(x: Any) -> Any:
        width = 8 * np.dtype(x.dtype).itemsize
        filled = _lax.bitcast_convert_type(x, f"uint{width}")
        for power in range(width.bit_length() - 1):
            filled = filled | (filled >> np.asarray(1 << power, filled.dtype))
        return _counted(~filled).astype(x.dtype)

    return e.written(counted, x)


def high_product(e: Equation, x: Value, y: Value) -> list[Value]:
    """The upper half of products."""
    width = 8 * e.dtype.itemsize
    if width == 64:
        e.refuse("of 64 bits")
    twice = f"{'u' if e.dtype.kind == 'u' else ''}int{2 * width}"

    def high(x: Any, y: Any) -> Any:
        whole = x.astype(twice) * y.astype(twice)
        return (whole >> np.asarray(width, twice)).astype(x.dtype)

    return e.written(high, x, y)


def neighbour(e: Equation, x: Value, y: Value) -> list[Value]:
    """The next number that floats can be, from `x` towards `y`."""
    if e.dtype.kind != "f":
        e.refuse(f"of {e.dtype}")
    width = 8 * e.dtype.itemsize
    tiny = np.asarray(1, f"int{width}").view(e.dtype)

    def next_one(x: Any, y: Any) -> Any:
        bits = _lax.bitcast_convert_type(x, f"int{width}")
        away = (x < y) == (x > 0)
        step = _np.where(away, 1, -1).astype(bits.dtype)
        moved = _lax.bitcast_convert_type(bits + step, x.dtype)
        moved = _np.where(x == 0, _np.where(y > 0, tiny, -tiny), moved)
        unknown = (x != x) | (y != y)
        return _np.where(unknown, x + y, _np.where(x == y, y, moved))

    return e.written(next_one, x, y)


# ---- machines --------------------------------------------------------------------------------


def platform(e: Equation) -> Value:
    """Which branch is that of the machine that JAX computes on; all of them mean the same."""
    here = jax.default_backend()
    platforms: Sequence[Sequence[str] | None] = e.params["platforms"]
    found = [at for at, names in enumerate(platforms) if names is None or here in names]
    if not found:
        e.refuse(f"without a branch for {here}")
    return np.asarray(found[0], np.int32)


def nothing(e: Equation, *values: Value) -> list[Value]:
    """What gives nothing."""
    del e, values
    return []


EXACT: Mapping[str, Rule] = {
    "approx_top_k": approximate_top,
    "clz": leading_zeros,
    "dce_sink": nothing,
    "le_to": partial(compared, "less_equal"),
    "lt_to": partial(compared, "less"),
    "mulhi": high_product,
    "nextafter": neighbour,
    "platform_index": platform,
    "population_count": population_count,
    "reduce_and": partial(bits_reduced, "and"),
    "reduce_or": partial(bits_reduced, "or"),
    "reduce_precision": rounded_to_precision,
    "reduce_xor": partial(bits_reduced, "xor"),
    "round": rounded,
}
