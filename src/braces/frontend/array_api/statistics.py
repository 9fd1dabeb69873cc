"""Covariances, and reductions that ignore NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braces.builder.append import as_var
from braces.builder.var import Operand, Var
from braces.define.decorator import Axes
from braces.dtypes import BOOL, is_float
from braces.errors import ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import format_types, to_common_float

__all__ = [
    "corrcoef", "count_nonzero", "cov", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar",
]  # fmt: skip

# ---- reductions without NaN ------------------------------------------------------------------


@transactional
def nansum(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The sum of the numbers that are not NaN; 0 if there are none.

    Args:
        x: number[*shape].
        axis: The axis or axes; all by default.
        keepdims: Whether they stay, with size 1.

    Returns:
        number[*rest], in the dtype of `sum`. NaN gets no gradient.

    Raises:
        ShapeError: If the axis is out of range.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     total = br.nansum(br.constant([1.0, br.nan, 2.0]))
        >>> float(br.Executor().run(prog, br.Scope(), fetch=total))
        3.0
    """
    return _without_nan(x, 0, lambda filled, _: ops.sum(filled, axis=axis, keepdims=keepdims))


@transactional
def nanprod(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The product of the numbers that are not NaN; 1 if there are none; see `nansum`."""
    return _without_nan(x, 1, lambda filled, _: ops.prod(filled, axis=axis, keepdims=keepdims))


@transactional
def nanmax(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The largest of the numbers that are not NaN; NaN if there are none; see `max`."""
    return _extreme("max", x, -np.inf, axis, keepdims)


@transactional
def nanmin(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The smallest of the numbers that are not NaN; NaN if there are none; see `min`."""
    return _extreme("min", x, np.inf, axis, keepdims)


@transactional
def nanmean(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The mean of the numbers that are not NaN; NaN if there are none; see `nansum`."""

    def mean(filled: Var, missing: Var | None) -> Var:
        if missing is None:
            return ops.mean(filled, axis=axis, keepdims=keepdims)
        return ops.sum(filled, axis=axis, keepdims=keepdims) / _count_valid(
            missing, axis, keepdims, filled
        )

    return compose_block("nanmean", lambda: _without_nan(x, 0, mean))


@transactional
def nanvar(
    x: Operand, axis: Axes = None, keepdims: bool = False, correction: float = 0.0
) -> Var:
    """The variance of the numbers that are not NaN; see `var`.

    NaN unless there are more of them than the correction.
    """

    def variance(filled: Var, missing: Var | None) -> Var:
        if missing is None:
            return ops.var(filled, axis=axis, keepdims=keepdims, correction=correction)
        means = ops.sum(filled, axis=axis, keepdims=True) / _count_valid(
            missing, axis, True, filled
        )
        deviations = ops.where(missing, 0.0, filled - means)
        free = _count_valid(missing, axis, keepdims, filled) - correction
        total = ops.sum(ops.square(deviations), axis=axis, keepdims=keepdims)
        return total / ops.where(free > 0.0, free, np.nan)

    return compose_block("nanvar", lambda: _without_nan(x, 0, variance))


@transactional
def nanstd(
    x: Operand, axis: Axes = None, keepdims: bool = False, correction: float = 0.0
) -> Var:
    """The standard deviation of the numbers that are not NaN: the root of `nanvar`."""
    return ops.sqrt(nanvar(x, axis, keepdims, correction))


def _without_nan(x: Any, filling: float, reduce: Callable[[Var, Var | None], Var]) -> Var:
    """Reduce numbers with NaN replaced by `filling`, given the mask of NaN."""
    var = as_var(x)
    if not is_float(var.dtype):
        return reduce(var, None)
    missing = ops.isnan(var)
    return reduce(ops.where(missing, ops.full_like(var, filling), var), missing)


def _extreme(op_type: str, x: Any, filling: float, axis: Axes, keepdims: bool) -> Var:
    reduction = getattr(ops, op_type)

    def extreme(filled: Var, missing: Var | None) -> Var:
        extremes = reduction(filled, axis=axis, keepdims=keepdims)
        if missing is None:
            return extremes
        nothing = ops.all(missing, axis=axis, keepdims=keepdims)
        return ops.where(nothing, ops.full_like(extremes, np.nan), extremes)

    return compose_block(f"nan{op_type}", lambda: _without_nan(x, filling, extreme))


def _count_valid(missing: Var, axis: Axes, keepdims: bool, like: Var) -> Var:
    """Count the numbers that are not missing."""
    valid = ops.logical_not(missing)
    return ops.cast(ops.sum(valid, axis=axis, keepdims=keepdims), like.dtype)


@transactional
def count_nonzero(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """Count the numbers that are not zero; NaN counts as nonzero.

    Args:
        x: any[*shape].
        axis: The axis or axes; all by default.
        keepdims: Whether they stay, with size 1.

    Returns:
        i64[*rest].

    Raises:
        ShapeError: If the axis is out of range.
    """
    var = as_var(x)
    nonzero = var if var.dtype == BOOL else ops.not_equal(var, ops.zeros_like(var))
    return ops.sum(nonzero, axis=axis, keepdims=keepdims)


# ---- covariances -----------------------------------------------------------------------------


@transactional
def cov(x: Operand, rowvar: bool = True, correction: float = 1.0) -> Var:
    """Covariance matrix: the means of the products of deviations.

        out[i, j] = sum_k (x[i, k] - mean_i) * (x[j, k] - mean_j) / (n - correction)

    Args:
        x: real[variables, n], or real[n] for one variable.
        rowvar: Whether variables are rows and not columns.
        correction: The number subtracted from the number of observations; 1 gives unbiased
            estimates.

    Returns:
        float[variables, variables]; float[] for a single variable. Integers give float32.

    Raises:
        ShapeError: If the rank of `x` exceeds 2.
        DTypeError: If the dtype is complex.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     found = br.cov(br.constant([[0.0, 2.0], [3.0, 1.0]]))
        >>> br.Executor().run(prog, br.Scope(), fetch=found).tolist()
        [[2.0, -2.0], [-2.0, 2.0]]
    """
    return compose_block("cov", lambda: _covariance("cov", x, rowvar, correction))


@transactional
def corrcoef(x: Operand, rowvar: bool = True) -> Var:
    """Correlation matrix: covariances divided by both standard deviations.

        out[i, j] = cov[i, j] / sqrt(cov[i, i] * cov[j, j]), between -1 and 1

    Args:
        x: real[variables, n], or real[n] for one variable.
        rowvar: Whether variables are rows and not columns.

    Returns:
        float[variables, variables]; float[] for a single variable. Integers give float32.

    Raises:
        ShapeError: If the rank of `x` exceeds 2.
        DTypeError: If the dtype is complex.
    """

    def build() -> Var:
        covariances = _covariance("corrcoef", x, rowvar, 1.0)
        if not covariances.ndim:
            return covariances / covariances
        deviations = ops.sqrt(ops.diag(covariances))
        scaled = covariances / ops.expand_dims(deviations, axis=1) / deviations
        return ops.clip(scaled, -1.0, 1.0)

    return compose_block("corrcoef", build)


def _covariance(what: str, x: Any, rowvar: bool, correction: float) -> Var:
    (observations,) = to_common_float(what, x=as_var(x))
    if observations.ndim not in (1, 2):
        raise ShapeError(
            f"{what}: expected a matrix of variables and observations, of rank 1 or 2.",
            given=format_types({"x": observations}),
        )
    by_row = (
        observations if rowvar or observations.ndim == 1 else ops.matrix_transpose(observations)
    )
    deviations = by_row - ops.mean(by_row, axis=-1, keepdims=True)
    count = ops.size(deviations.shape[-1], dtype=deviations.dtype) - correction
    other = deviations if deviations.ndim == 1 else ops.matrix_transpose(deviations)
    return ops.matmul(deviations, other) / count
