"""Rules of elementwise primitives, reductions and contractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count, islice
from typing import Any, overload

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.dtypes import BOOL, DType, is_float
from braces.equivalents import ELEMENTWISE, derived
from braces.jaxpr.core.equation import Equation, Rule, Value


def equivalent_operator(op_type: str, e: Equation, *values: Value) -> Var:
    """An equivalent operator."""
    return emit(op_type, *map(e.lift, values))


def conjugate(e: Equation, x: Value) -> Var:
    """The complex conjugate; JAX returns complex numbers for real ones."""
    var = e.lift(x)
    if var.dtype.kind == "c":
        return emit("conj", var)
    return emit("complex", var, emit("zeros_like", var))


def logic(op_type: str, e: Equation, *values: Value) -> Var:
    """A bitwise operator, which is logical on bools."""
    return equivalent_operator(f"logical_{e.name}" if e.dtype == BOOL else op_type, e, *values)


@overload
def with_bits_as(value: Var, dtype: DType) -> Var: ...
@overload
def with_bits_as(value: Value, dtype: DType) -> Value: ...
def with_bits_as(value: Value, dtype: DType) -> Value:
    """Return the bits of a value in a dtype of the same width; a literal stays a literal."""
    if value.dtype == dtype:
        return value
    return emit("bitcast", value, dtype=dtype) if isinstance(value, Var) else value.view(dtype)


def one_minus_square(e: Equation, x: Value) -> Var:
    """One minus a square, as a product without cancellation."""
    var, unit = e.lift(x), e.lift(np.ones((), e.dtype))
    return (unit + var) * (unit - var)


def power(e: Equation, x: Value, y: Value) -> Var:
    """A power; the exponent may be an integer."""
    return emit("pow", e.lift(x), in_dtype(e.lift(y), e.dtype))


def gammainc_slope(e: Equation, a: Value, x: Value) -> Var:
    """The derivative of `gammainc` in `a`: the negated sample derivative times the density."""
    left, right = e.lift(a), e.lift(x)
    density = emit("exp", emit("xlogy", left - 1.0, right) - right - emit("lgamma", left))
    return -(emit("gamma_sample_slope", left, right) * density)


def polygamma(e: Equation, n: Value, x: Value) -> Var:
    """Derivatives of `digamma`, whose orders are floats in JAX."""
    order = e.lift(n)
    derivative = emit("polygamma", emit("cast", order, dtype=np.int32), e.lift(x))
    is_integer = emit("equal", order, emit("floor", order))
    return (
        derivative
        if isinstance(n, np.ndarray)
        else emit("where", is_integer, derivative, np.nan)
    )


def integer_power(e: Equation, x: Value) -> Value:
    """A power by repeated squaring in JAX's order, for equal rounding."""
    left, factor, result = abs(e.params["y"]), e.lift(x), None
    while left:
        if left & 1:
            result = factor if result is None else emit("multiply", result, factor)
        left >>= 1
        factor = _square(factor) if left else factor
    if result is None:
        return emit("ones_like", factor)
    return emit("reciprocal", result) if e.params["y"] < 0 else result


def _square(x: Var) -> Var:
    """Return a square; that of a complex number as a product, which rounds otherwise."""
    return emit("multiply", x, x) if x.dtype.kind == "c" else emit("square", x)


def divide(e: Equation, x: Value, y: Value) -> Var:
    """A quotient; that of integers is truncated towards zero, and -1 for a divisor of 0."""
    quotient, divisor = truncated_divide(e.lift(x), e.lift(y)), e.lift(y)
    if is_float(quotient.dtype) or (not isinstance(y, Var) and y.all()):
        return quotient
    ones = e.lift(np.asarray(-1).astype(quotient.dtype))
    return emit("where", emit("equal", divisor, 0), ones, quotient)


def truncated_divide(x: Var, y: Var) -> Var:
    """Return a quotient; that of integers is truncated towards zero."""
    if is_float(x.dtype) or is_float(y.dtype):
        return emit("divide", x, y)
    below = emit("floor_divide", x, y)
    if below.dtype.kind == "u":
        return below
    needs_increment = emit("not_equal", below * y, x) & (below < 0)
    return below + emit("cast", needs_increment, dtype=below.dtype)


def remainder(e: Equation, x: Value, y: Value) -> Var:
    """The remainder of a truncating division, with the sign of `x`."""
    return truncated_remainder(e.lift(x), e.lift(y))


def truncated_remainder(x: Var, y: Var) -> Var:
    """Return the remainder of a truncating division, with the sign of the dividend.

    Its derivative with respect to `x` is 1 everywhere.
    """
    if not is_float(x.dtype):
        return x - truncated_divide(x, y) * y
    below = x < 0
    size = emit("remainder", emit("where", below, -x, x), emit("abs", y))
    return emit("where", below, -size, size)


def shift_right(kind: str, e: Equation, x: Value, y: Value) -> Var:
    """A right shift: arithmetic by way of a signed dtype, logical of an unsigned one."""
    if e.dtype.kind == kind:
        return emit("bitwise_right_shift", e.lift(x), e.lift(y))
    other = np.dtype(f"{kind}{e.dtype.itemsize}")
    left, right = (e.lift(with_bits_as(value, other)) for value in (x, y))
    return with_bits_as(emit("bitwise_right_shift", left, right), e.dtype)


def in_dtype(value: Var, dtype: Any) -> Var:
    """Cast to another dtype."""
    return value if value.dtype == dtype else emit("cast", value, dtype=dtype)


def convert(e: Equation, x: Value) -> Value:
    """A cast; a literal stays a literal."""
    dtype = np.dtype(e.params["new_dtype"])
    if not isinstance(x, Var):
        return (x if dtype.kind == "c" else x.real).astype(dtype)
    if x.dtype == dtype or "c" not in (x.dtype.kind, dtype.kind):
        return in_dtype(x, dtype)
    return _convert_complex(x, dtype)


def _convert_complex(x: Var, dtype: Any) -> Var:
    """Convert from or to complex numbers; a conversion to real drops the imaginary part."""
    if dtype.kind != "c":
        return in_dtype(emit("real", x), dtype)
    parts = (
        [emit("real", x), emit("imag", x)]
        if x.dtype.kind == "c"
        else [x, emit("zeros_like", x)]
    )
    return emit("complex", *(in_dtype(part, np.finfo(dtype).dtype) for part in parts))


def select(e: Equation, which: Value, *cases: Value) -> Var:
    """Select elementwise among several cases; a bool selects the second if true."""
    chooser, (last, *others) = e.lift(which), list(map(e.lift, reversed(cases)))
    if chooser.dtype == BOOL:
        return emit("where", chooser, last, *others)
    for index, case in zip(range(len(others))[::-1], others, strict=True):
        last = emit("where", emit("equal", chooser, index), case, last)
    return last


def clamp(e: Equation, low: Value, x: Value, high: Value) -> Var:
    """Clamp to bounds."""
    return emit("minimum", emit("maximum", e.lift(x), e.lift(low)), e.lift(high))


def reduction(op_type: str, e: Equation, x: Value) -> Var:
    """A reduction over axes, in JAX's dtype; a maximum of no elements is the least number."""
    var, axes = e.lift(x), tuple[int, ...](e.params["axes"])
    extreme = _extreme_of_nothing(op_type, e.dtype)
    if extreme is not None and any(var.shape[axis] == 0 for axis in axes):
        return emit("full", shape=e.shape, value=extreme, dtype=e.dtype)
    reduced = emit(op_type, var, axis=axes)
    return in_dtype(reduced, e.dtype)


def _extreme_of_nothing(op_type: str, dtype: DType) -> Any:
    """Return the identity element of `max` and `min`; `None` for other reductions."""
    if op_type not in ("max", "min") or dtype.kind in "c":
        return None
    if is_float(dtype):
        return -math.inf if op_type == "max" else math.inf
    if dtype == BOOL:
        return op_type == "min"
    bounds = np.iinfo(dtype)
    return int(bounds.min if op_type == "max" else bounds.max)


def batch_axis_reduction(op_type: str, e: Equation, *values: Value) -> list[Var]:
    """A reduction over a `vmap` axis; names of device axes are refused."""
    axes, groups = e.params["axes"], e.params["axis_index_groups"]
    if groups is not None or not all(isinstance(axis, int) for axis in axes):
        e.refuse("collective operation across devices")
    return [
        in_dtype(emit(op_type, e.lift(x), axis=tuple(axes)), out.aval.dtype)
        for x, out in zip(values, e.eqn.outvars, strict=True)
    ]


def arg_extreme(op_type: str, e: Equation, x: Value) -> Var:
    """An argmax or argmin."""
    (axis,) = e.params["axes"]
    return in_dtype(emit(op_type, e.lift(x), axis=axis), e.dtype)


def cumulative(op_type: str, e: Equation, x: Value) -> Var:
    """A cumulative operator along an axis."""
    accumulated = emit(op_type, e.lift(x), axis=e.params["axis"], reverse=e.params["reverse"])
    return in_dtype(accumulated, e.dtype)


def contraction(e: Equation, x: Value, y: Value) -> Var:
    """A contraction of the axes that JAX's dimension numbers pair."""
    return contract(e, x, y, e.params["dimension_numbers"])


def contract(e: Equation, x: Value, y: Value, dimension_numbers: Any) -> Var:
    """Contract as an einsum, in the dtype of the equation; of bools, whether any pair is."""
    dtype = np.dtype(np.int32) if e.dtype == BOOL else e.dtype
    left, right = (_widened(e.lift(value), dtype) for value in (x, y))
    terms, result = einsum_terms(dimension_numbers, (left.ndim, right.ndim))
    product = emit("einsum", left, right, equation=f"{','.join(terms)}->{result}")
    return emit("not_equal", product, 0) if e.dtype == BOOL else in_dtype(product, e.dtype)


def _widened(x: Var, dtype: DType) -> Var:
    """Cast a factor to the dtype of the sum, unless it is wider."""
    exact = dtype.kind in "iu" or x.dtype.itemsize < dtype.itemsize
    return in_dtype(x, dtype) if exact and dtype.kind != "c" else x


def einsum_terms(dimension_numbers: Any, ranks: tuple[int, int]) -> tuple[list[str], str]:
    """Return the terms of the operands and of the result of a contraction as an einsum.

    Example:
        >>> einsum_terms((((2,), (1,)), ((0,), (0,))), (3, 3))
        (['acb', 'abd'], 'acd')
    """
    contracted, batch = dimension_numbers
    letters = map(chr, count(ord("a")))
    shared = "".join(islice(letters, len(batch[0]) + len(contracted[0])))
    terms = list[str]()
    for batch_axes, axes, rank in zip(batch, contracted, ranks, strict=True):
        names = dict(zip((*batch_axes, *axes), shared, strict=True))
        terms.append("".join(names[i] if i in names else next(letters) for i in range(rank)))
    free = "".join(name for name in "".join(terms) if name not in shared)
    return terms, shared[: len(batch[0])] + free


def _rules_of(rule: Callable[..., Value], *kinds: str) -> dict[str, Rule]:
    return derived("jax", lambda op_type: partial(rule, op_type), *kinds)


ARITHMETIC: Mapping[str, Rule] = {
    **_rules_of(equivalent_operator, *ELEMENTWISE, "other"),
    **_rules_of(logic, "bitwise"),
    **_rules_of(reduction, "reduction", "extreme"),
    **_rules_of(cumulative, "cumulative"),
    **_rules_of(arg_extreme, "position"),
    "clamp": clamp,
    "conj": conjugate,
    "convert_element_type": convert,
    "div": divide,
    "dot_general": contraction,
    "igamma_grad_a": gammainc_slope,
    "integer_pow": integer_power,
    "one_minus_square": one_minus_square,
    "pmax": partial(batch_axis_reduction, "max"),
    "pmin": partial(batch_axis_reduction, "min"),
    "polygamma": polygamma,
    "pow": power,
    "psum": partial(batch_axis_reduction, "sum"),
    "rem": remainder,
    "select_n": select,
    "shift_right_arithmetic": partial(shift_right, "i"),
    "shift_right_logical": partial(shift_right, "u"),
}
