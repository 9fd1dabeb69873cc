"""Rules of reductions, and of operators along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

from braces.exchange.common.rules.along_axis import Axes, norm, normalize_axes, sort
from braces.exchange.common.rules.elementwise import as_float, cast_to_dtype
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.operators import derived
from braces.extend.types import BOOL, INT64, is_float


def reduction_rule(op_type: str) -> Callable[..., Var]:
    """Return the rule of a reduction with an optional result dtype."""

    def rule(x: Var, axes: Axes = None, keepdims: bool = False, *, dtype: Any = None) -> Var:
        if dtype is not None:
            x = cast_to_dtype(x, dtype)
        elif x.dtype.kind == "b":
            x = cast_to_dtype(x, INT64)
        if not x.ndim:
            return ops.identity(x)
        return ops.function_of(op_type)(x, axis=normalize_axes(axes), keepdims=keepdims)

    return rule


def plain_reduction(op_type: str) -> Callable[..., Var]:
    """Return the rule of a reduction without dtype changes."""

    def rule(x: Var, axes: Axes = None, keepdims: bool = False) -> Var:
        if not x.ndim:
            return ops.identity(x)
        return ops.function_of(op_type)(x, axis=normalize_axes(axes), keepdims=keepdims)

    return rule


def logical_reduction(op_type: str) -> Callable[..., Var]:
    """Return the rule of a logical reduction; nonzero is true."""

    def rule(x: Var, *rest: Any) -> Var:
        return plain_reduction(op_type)(cast_to_dtype(x, BOOL), *rest)

    return rule


def extreme(op_type: str) -> Callable[..., Any]:
    """Return the rule of a maximum or minimum along an axis, with indices."""

    def rule(x: Var, axis: int, keepdims: bool = False) -> tuple[Var, Var]:
        if not x.ndim:
            return ops.identity(x), ops.zeros_like(x, dtype=INT64)
        at = ops.function_of(f"arg{op_type}")(x, axis=axis, keepdims=True)
        extremes = ops.take_along_axis(x, at, axis=axis)
        if not keepdims:
            at, extremes = ops.squeeze(at, axis=axis), ops.squeeze(extremes, axis=axis)
        return extremes, cast_to_dtype(at, INT64)

    return rule


def arg_extreme_rule(op_type: str) -> Callable[..., Var]:
    """Return the rule of an argmax or argmin."""

    def rule(x: Var, axis: int | None = None, keepdims: bool = False) -> Var:
        if not x.ndim:
            return ops.zeros_like(x, dtype=INT64)
        position = ops.function_of(op_type)(
            x, axis=axis, keepdims=keepdims and axis is not None
        )
        return ops.reshape(position, (1,) * x.ndim) if keepdims and axis is None else position

    return rule


def variance_rule(op_type: str) -> Callable[..., Var]:
    """Return the rule of a variance or standard deviation with a correction."""

    def rule(
        x: Var, axes: Axes = None, *, correction: float | None = 1, keepdim: bool = False
    ) -> Var:
        if x.dtype.kind == "c":
            of_part = partial(
                variance_rule("var"), axes=axes, correction=correction, keepdim=keepdim
            )
            total = of_part(ops.real(x)) + of_part(ops.imag(x))
            return ops.sqrt(total) if op_type == "std" else total
        less = 1.0 if correction is None else float(correction)
        function = ops.function_of(op_type)
        return function(x, axis=normalize_axes(axes), keepdims=keepdim, correction=less)

    return rule


def variance_of_all_rule(op_type: str) -> Callable[..., Var]:
    """Return the rule of a variance or standard deviation of all numbers."""

    def rule(x: Var, unbiased: bool = True) -> Var:
        return variance_rule(op_type)(x, correction=float(unbiased))

    return rule


def variance_along_rule(op_type: str) -> Callable[..., Var]:
    """Return the rule of a variance or standard deviation along axes."""

    def rule(x: Var, axes: Axes, unbiased: bool = True, keepdims: bool = False) -> Var:
        return variance_rule(op_type)(x, axes, correction=float(unbiased), keepdim=keepdims)

    return rule


def var_mean(
    x: Var, axes: Axes = None, *, correction: float | None = 1, keepdim: bool = False
) -> tuple[Var, Var]:
    """The variance and the mean."""
    variance = variance_rule("var")(x, axes, correction=correction, keepdim=keepdim)
    return variance, plain_reduction("mean")(x, axes, keepdim)


def var_mean_along(
    x: Var, axes: Axes, unbiased: bool = True, keepdims: bool = False
) -> tuple[Var, Var]:
    """The variance and the mean along axes."""
    return var_mean(x, axes, correction=float(unbiased), keepdim=keepdims)


def cumulative_rule(op_type: str) -> Callable[..., Var]:
    """Return the rule of a cumulative sum or product."""

    def rule(x: Var, axis: int, *, dtype: Any = None) -> Var:
        x = x if dtype is None else cast_to_dtype(x, dtype)
        x = x if is_float(x.dtype) else cast_to_dtype(x, INT64)
        return ops.function_of(op_type)(x, axis=axis) if x.ndim else ops.identity(x)

    return rule


def softmax(op_type: str) -> Callable[..., Var]:
    """Return the rule of a softmax with an optional dtype."""

    def rule(x: Var, axis: int, dtype: Any = None) -> Var:
        x = as_float(x) if dtype is None or isinstance(dtype, bool) else cast_to_dtype(x, dtype)
        if x.ndim:
            return ops.function_of(op_type)(x, axis=axis)
        return x - x if op_type == "log_softmax" else ops.exp(x - x)

    return rule


def masked_softmax(x: Var, axis: int, dtype: Any = None) -> Var:
    """A softmax that is zero where all numbers are minus infinity."""
    masked = ops.all(ops.equal(x, -inf), axis=axis, keepdims=True)
    probabilities = softmax("softmax")(ops.where(masked, 0.0, x), axis, dtype)
    return ops.where(masked, 0.0, probabilities)


def sort_stable(
    x: Var, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Var, Var]:
    """A stable sort, with the original indices."""
    return sort(x, dim, descending)


def argsort_stable(
    x: Var, *, stable: bool = True, dim: int = -1, descending: bool = False
) -> Var:
    """The original indices of stably sorted numbers."""
    return sort(x, dim, descending)[1]


def argsort(x: Var, axis: int = -1, descending: bool = False) -> Var:
    """The original indices of sorted numbers."""
    return sort(x, axis, descending)[1]


def logsumexp(x: Var, axes: Axes, keepdims: bool = False) -> Var:
    """A logsumexp."""
    x = as_float(x)
    if not x.ndim:
        return logsumexp(ops.reshape(x, (1,)), 0) if x.dtype.kind == "c" else ops.identity(x)
    axis = normalize_axes(axes)
    if x.dtype.kind != "c":
        return ops.logsumexp(x, axis=axis, keepdims=keepdims)
    most = ops.stop_gradient(ops.max(ops.real(x), axis=axis, keepdims=True))
    shift = ops.where(ops.isfinite(most), most, 0.0)
    total = ops.log(ops.sum(ops.exp(x - shift), axis=axis, keepdims=True)) + shift
    return total if keepdims else ops.squeeze(total, axis=axis)


REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    **derived("torch", reduction_rule, "reduction"),
    **derived("torch", plain_reduction, "extreme"),
    **derived("torch", logical_reduction, "truth"),
    **derived("torch", arg_extreme_rule, "position"),
    **derived("torch", cumulative_rule, "cumulative"),
    **derived("torch", softmax, "softmax"),
    "_safe_softmax": masked_softmax,
    "argsort": argsort,
    "argsort.stable": argsort_stable,
    "linalg_vector_norm": norm,
    "logsumexp": logsumexp,
    "max.dim": extreme("max"),
    "max.other": ops.maximum,
    "min.dim": extreme("min"),
    "min.other": ops.minimum,
    "norm": norm,
    "prod.dim_int": reduction_rule("prod"),
    "sort": sort,
    "sort.stable": sort_stable,
    "std": variance_of_all_rule("std"),
    "std.dim": variance_along_rule("std"),
    "std.correction": variance_rule("std"),
    "var": variance_of_all_rule("var"),
    "var.dim": variance_along_rule("var"),
    "var.correction": variance_rule("var"),
    "var_mean.correction": var_mean,
    "var_mean.dim": var_mean_along,
}
