"""Integers of less than 8 bits: arithmetic in 8 bits, and their bit patterns.

    c:int4[3] = add a b         a', b' = cast(a), cast(b) {dtype=i8}
                                c' = add(x=a', y=b')
                                c = cast(x=c') {dtype=int4}

Operators store and convert narrow numbers, and do not compute with them. Sums, differences,
products and left shifts keep the low-order bits, so results wrap around as in the narrow dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from braces.builder.append import emit
from braces.dtypes import NARROW, DType, is_narrow
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import with_bits_as
from braces.lazy import jnp, lax

_np: Any = jnp
_lax: Any = lax
BYTE = np.dtype(np.uint8)
NARROW_INTEGERS = [NARROW[name] for name in ("int2", "int4", "uint2", "uint4")]
COMPUTED = (
    "add", "and", "argmax", "argmin", "clamp", "conv_general_dilated", "cummax", "cummin",
    "cumprod", "cumsum", "div", "dot_general", "eq", "ge", "gt", "integer_pow", "le", "lt",
    "max", "min", "mul", "ne", "neg", "not", "or", "reduce_and", "reduce_max", "reduce_min",
    "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor", "rem", "scatter", "scatter-add",
    "scatter-max", "scatter-min", "scatter-mul", "scatter-sub", "shift_left", "sign", "sort",
    "sub", "top_k", "xor",
)  # fmt: skip
"""Primitives that compute in 8 bits of the same kind."""
EXTENDED = {
    "clz": "uint", "population_count": "uint", "shift_right_arithmetic": "int",
    "shift_right_logical": "uint",
}  # fmt: skip
"""Primitives that extend the bit pattern to 8 bits: by zeros, or by the highest bit."""


def is_narrow_integer(dtype: Any) -> bool:
    """Return whether a dtype is an integer dtype of less than 8 bits."""
    return dtype in NARROW_INTEGERS


def _bits(dtype: DType) -> int:
    """Return the number of bits of a dtype."""
    if not is_narrow_integer(dtype):
        return 8 * dtype.itemsize
    return int(dtype.name.removeprefix("u").removeprefix("int"))


def _of_kind(kind: str, dtype: DType) -> DType:
    """Return the signed (`int`) or unsigned (`uint`) dtype of the width of a narrow dtype."""
    return np.dtype(getattr(ml_dtypes, f"{kind}{_bits(dtype)}"))


def _kind(dtype: DType) -> str:
    """Return whether an integer dtype is signed (`int`) or unsigned (`uint`)."""
    return "uint" if dtype.name.startswith("u") else "int"


def with_narrow_integers(name: str, rule: Rule) -> Rule:
    """Extend the rule of a primitive to integers of less than 8 bits."""

    def extended(e: Equation, *values: Value) -> Value | Sequence[Value]:
        avals = [atom.aval for atom in (*e.eqn.invars, *e.eqn.outvars)]
        if not any(is_narrow_integer(aval.dtype) for aval in avals):
            return rule(e, *values)
        return e.written(partial(_compute, e, EXTENDED.get(name)), *values)

    return extended


def _compute(e: Equation, kind: str | None, *arrays: Any) -> Any:
    """Compute a primitive in 8 bits."""
    primitive, params = e.eqn.primitive, dict(e.params)
    if is_narrow_integer(params.get("preferred_element_type")):
        params["preferred_element_type"] = None
    wide = [_widen(x, kind) for x in arrays]
    results = primitive.bind(*wide, **primitive.get_bind_params(params))
    results = results if primitive.multiple_results else [results]
    if e.name == "clz":
        extra = 8 - _bits(np.dtype(arrays[0].dtype))
        results = [results[0] - np.asarray(extra, results[0].dtype)]
    dtypes = [atom.aval.dtype for atom in e.eqn.outvars]
    return [_narrow(x, dtype) for x, dtype in zip(results, dtypes, strict=True)]


def _widen(x: Any, kind: str | None = None) -> Any:
    """Extend narrow integers to 8 bits, of the same kind unless another one is given."""
    dtype = np.dtype(x.dtype)
    if not is_narrow_integer(dtype):
        return x
    own = kind or _kind(dtype)
    return x.astype(_of_kind(own, dtype)).astype(f"{own}8")


def _narrow(x: Any, dtype: DType) -> Any:
    """Keep the low-order bits of integers, in a narrow dtype; others are unchanged."""
    return x.astype(dtype) if is_narrow_integer(dtype) else x


# ---- bit patterns ----------------------------------------------------------------------------


def bitcast(e: Equation, x: Value) -> Value | list[Value]:
    """A bitcast; other widths add or consume a last axis, low-order parts first."""
    dtype = np.dtype(e.params["new_dtype"])
    is_plain = not is_narrow(x.dtype) and not is_narrow(dtype)
    if is_plain and x.dtype.itemsize == dtype.itemsize:
        return with_bits_as(x, dtype)
    return _of_bits(e, x, dtype)


def _of_bits(e: Equation, x: Value, dtype: DType) -> Value | list[Value]:
    """A bitcast that changes the width, or of narrow integers."""
    value = e.lift(x)
    narrow = [each for each in (value.dtype, dtype) if is_narrow(each)]
    if not narrow:
        return emit("bitcast", value, dtype=dtype)
    if not all(map(is_narrow_integer, narrow)):
        e.refuse("floats of less than 8 bits")
    return e.written(partial(_reinterpret, dtype=dtype), value)


def _reinterpret(x: Any, dtype: DType) -> Any:
    """Reinterpret bits by way of units of at most 8 bits."""
    source, target = _bits(np.dtype(x.dtype)), _bits(dtype)
    units, width = _units(x), min(source, 8)
    if source < target:
        units = units.reshape(*units.shape[:-2], -1)
    units = _regroup(units, width, min(target, 8))
    if target < source:
        units = units.reshape(*units.shape[:-1], source // target, -1)
    if target > 8:
        return _lax.bitcast_convert_type(units, dtype)
    units = units[..., 0]
    if target == 8:
        return _lax.bitcast_convert_type(units, dtype)
    return units.astype(_of_kind("uint", dtype)).astype(dtype)


def _units(x: Any) -> Any:
    """Return the bytes of numbers along a new axis, or the bits of a narrow one."""
    dtype = np.dtype(x.dtype)
    if is_narrow(dtype):
        return _widen(x, "uint")[..., None]
    parts = _lax.bitcast_convert_type(x, BYTE)
    return parts if dtype.itemsize > 1 else parts[..., None]


def _regroup(units: Any, width: int, target: int) -> Any:
    """Split or join units of some bits along the last axis."""
    count = max(width, target) // min(width, target)
    shifts = np.arange(count, dtype=BYTE) * BYTE.type(min(width, target))
    if target < width:
        parts = (units[..., None] >> shifts) & BYTE.type((1 << target) - 1)
        return parts.reshape(*units.shape[:-1], -1)
    groups = units.reshape(*units.shape[:-1], -1, count)
    return (groups << shifts).sum(-1, dtype=BYTE)


def extend_to_narrow_integers(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    """Return rules of primitives that compute with integers of less than 8 bits, too."""
    names = [name for name in (*COMPUTED, *EXTENDED) if name in rules]
    return {name: with_narrow_integers(name, rules[name]) for name in names}
