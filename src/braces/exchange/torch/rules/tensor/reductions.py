"""Rules of reductions, and of operators along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.builder.var import Var
from braces.dtypes import BOOL, INT64, is_float
from braces.exchange.common.rules.along_axis import Axes, along, norm, sort
from braces.exchange.common.rules.elementwise import as_float, in_dtype
from braces.frontend.core import functions as ops


def reduced(op_type: str) -> Callable[..., Var]:
    """Return the rule of a reduction with an optional result dtype."""

    def rule(x: Var, axes: Axes = None, keepdims: bool = False, *, dtype: Any = None) -> Var:
        if dtype is not None:
            x = in_dtype(x, dtype)
        elif x.dtype.kind == "b":
            x = in_dtype(x, INT64)
        if not x.ndim:
            return ops.identity(x)
        return ops.function_of(op_type)(x, axis=along(axes), keepdims=keepdims)

    return rule


def plain(op_type: str) -> Callable[..., Var]:
    """Return the rule of a reduction without dtype changes."""

    def rule(x: Var, axes: Axes = None, keepdims: bool = False) -> Var:
        if not x.ndim:
            return ops.identity(x)
        return ops.function_of(op_type)(x, axis=along(axes), keepdims=keepdims)

    return rule


def truth(op_type: str) -> Callable[..., Var]:
    """Return the rule of a logical reduction; nonzero is true."""

    def rule(x: Var, *rest: Any) -> Var:
        return plain(op_type)(in_dtype(x, BOOL), *rest)

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
        return extremes, in_dtype(at, INT64)

    return rule


def place(op_type: str) -> Callable[..., Var]:
    """Return the rule of an argmax or argmin."""

    def rule(x: Var, axis: int | None = None, keepdims: bool = False) -> Var:
        if not x.ndim:
            return ops.zeros_like(x, dtype=INT64)
        position = ops.function_of(op_type)(
            x, axis=axis, keepdims=keepdims and axis is not None
        )
        return ops.reshape(position, (1,) * x.ndim) if keepdims and axis is None else position

    return rule


def spread(op_type: str) -> Callable[..., Var]:
    """Return the rule of a variance or standard deviation with a correction."""

    def rule(
        x: Var, axes: Axes = None, keepdims: bool = False, *, correction: float | None = 1
    ) -> Var:
        less = 1.0 if correction is None else float(correction)
        function = ops.function_of(op_type)
        return function(x, axis=along(axes), keepdims=keepdims, correction=less)

    return rule


def spread_of_all(op_type: str) -> Callable[..., Var]:
    """Return the rule of a variance or standard deviation of all numbers."""

    def rule(x: Var, unbiased: bool = True) -> Var:
        return spread(op_type)(x, correction=float(unbiased))

    return rule


def spread_along(op_type: str) -> Callable[..., Var]:
    """Return the rule of a variance or standard deviation along axes."""

    def rule(x: Var, axes: Axes, unbiased: bool = True, keepdims: bool = False) -> Var:
        return spread(op_type)(x, axes, keepdims, correction=float(unbiased))

    return rule


def var_mean(
    x: Var, axes: Axes = None, keepdims: bool = False, *, correction: float | None = 1
) -> tuple[Var, Var]:
    """The variance and the mean."""
    variance = spread("var")(x, axes, keepdims, correction=correction)
    return variance, plain("mean")(x, axes, keepdims)


def var_mean_along(
    x: Var, axes: Axes, unbiased: bool = True, keepdims: bool = False
) -> tuple[Var, Var]:
    """The variance and the mean along axes."""
    return var_mean(x, axes, keepdims, correction=float(unbiased))


def running(op_type: str) -> Callable[..., Var]:
    """Return the rule of a cumulative sum or product."""

    def rule(x: Var, axis: int, *, dtype: Any = None) -> Var:
        x = x if dtype is None else in_dtype(x, dtype)
        x = x if is_float(x.dtype) else in_dtype(x, INT64)
        return ops.function_of(op_type)(x, axis=axis) if x.ndim else ops.identity(x)

    return rule


def softmax(op_type: str) -> Callable[..., Var]:
    """Return the rule of a softmax with an optional dtype."""

    def rule(x: Var, axis: int, dtype: Any = None) -> Var:
        x = as_float(x) if dtype is None or isinstance(dtype, bool) else in_dtype(x, dtype)
        return ops.function_of(op_type)(x, axis=axis) if x.ndim else ops.exp(x - x)

    return rule


def sort_stable(
    x: Var, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Var, Var]:
    """A stable sort, with the original indices."""
    return sort(x, dim, descending)


def argsort(x: Var, axis: int = -1, descending: bool = False) -> Var:
    """The original indices of sorted numbers."""
    return sort(x, axis, descending)[1]


def logsumexp(x: Var, axes: Axes, keepdims: bool = False) -> Var:
    """A logsumexp."""
    x = as_float(x)
    return ops.logsumexp(x, axis=along(axes), keepdims=keepdims) if x.ndim else ops.identity(x)


REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "all": truth("all"),
    "amax": plain("max"),
    "amin": plain("min"),
    "any": truth("any"),
    "argmax": place("argmax"),
    "argmin": place("argmin"),
    "argsort": argsort,
    "cumprod": running("cumprod"),
    "cumsum": running("cumsum"),
    "linalg_vector_norm": norm,
    "log_softmax": softmax("log_softmax"),
    "_log_softmax": softmax("log_softmax"),
    "logsumexp": logsumexp,
    "max": plain("max"),
    "max.dim": extreme("max"),
    "max.other": ops.maximum,
    "mean": reduced("mean"),
    "min": plain("min"),
    "min.dim": extreme("min"),
    "min.other": ops.minimum,
    "norm": norm,
    "prod": reduced("prod"),
    "prod.dim_int": reduced("prod"),
    "softmax": softmax("softmax"),
    "_softmax": softmax("softmax"),
    "_safe_softmax": softmax("softmax"),
    "sort": sort,
    "sort.stable": sort_stable,
    "std": spread_of_all("std"),
    "std.dim": spread_along("std"),
    "std.correction": spread("std"),
    "sum": reduced("sum"),
    "var": spread_of_all("var"),
    "var.dim": spread_along("var"),
    "var.correction": spread("var"),
    "var_mean.correction": var_mean,
    "var_mean.dim": var_mean_along,
}
