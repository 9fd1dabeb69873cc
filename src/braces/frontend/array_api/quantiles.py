"""Quantiles of numbers along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.builder.append import as_var
from braces.builder.var import Operand, Var
from braces.define.decorator import Axes
from braces.dims import Size, product
from braces.dtypes import FLOAT64, INT64
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.variables import constant
from braces.frontend.losses.reduction import check_one_of, format_types, to_common_float
from braces.ops.common.rules import axis_indices

__all__ = ["median", "nanmedian", "nanquantile", "percentile", "quantile"]

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
"""Interpolation methods between two order statistics."""


@transactional
def median(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The median: the middle number, or the mean of the two middle numbers.

    Args:
        x: real[*shape].
        axis: The axis or axes; all by default.
        keepdims: Whether they stay, with size 1.

    Returns:
        float[*rest]; integers give float32, NaN gives NaN.

    Raises:
        ShapeError: If the axis is out of range or empty.
        DTypeError: If the dtype is complex.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     middle = br.median(br.constant([3.0, 1.0, 2.0, 9.0]))
        >>> float(br.Executor().run(prog, br.Scope(), fetch=middle))
        2.5
    """
    return _quantiles("median", x, 0.5, axis, keepdims, "linear")


@transactional
def quantile(
    x: Operand,
    q: Operand,
    axis: Axes = None,
    keepdims: bool = False,
    method: str = "linear",
) -> Var:
    """Quantiles of numbers along axes.

        out = sorted(x)[q * (n - 1)], interpolated between two numbers with `method`

    The gradient of equal numbers goes to one of them.

    Args:
        x: real[*shape].
        q: A number from 0 to 1, or an array of them. It may be a variable, which the run clips
            to this range.
        axis: The axis or axes; all by default.
        keepdims: Whether they stay, with size 1.
        method: `"linear"` interpolates, `"lower"`, `"higher"` and `"nearest"` take one of the
            two numbers, `"midpoint"` their mean.

    Returns:
        float[*q.shape, *rest]; integers give float32, NaN gives NaN.

    Raises:
        ShapeError: If the axis is out of range or empty.
        ProgramError: If `q` is outside [0, 1], or the method is unknown.
        DTypeError: If the dtype is complex.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     found = br.quantile(br.constant([0.0, 1.0, 2.0, 3.0, 8.0]), [0.25, 0.9])
        >>> br.Executor().run(prog, br.Scope(), fetch=found).tolist()
        [1.0, 6.0]
    """
    return _quantiles("quantile", x, q, axis, keepdims, method)


@transactional
def percentile(
    x: Operand,
    q: Operand,
    axis: Axes = None,
    keepdims: bool = False,
    method: str = "linear",
) -> Var:
    """Quantiles with `q` in percent, from 0 to 100; see `quantile`."""
    parts = q / 100.0 if isinstance(q, Var) else np.asarray(q) / 100.0
    return _quantiles("percentile", x, parts, axis, keepdims, method)


@transactional
def nanmedian(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The median of the numbers that are not NaN; NaN if there are none; see `median`."""
    return _quantiles("nanmedian", x, 0.5, axis, keepdims, "linear", left_out=True)


@transactional
def nanquantile(
    x: Operand,
    q: Operand,
    axis: Axes = None,
    keepdims: bool = False,
    method: str = "linear",
) -> Var:
    """Quantiles of the numbers that are not NaN; NaN if there are none; see `quantile`."""
    return _quantiles("nanquantile", x, q, axis, keepdims, method, left_out=True)


def _quantiles(
    what: str, x: Any, q: Any, axis: Axes, keepdims: bool, method: str, left_out: bool = False
) -> Var:
    """Build a quantile function; `left_out` ignores NaN."""
    check_one_of(what, "method", method, METHODS)
    (numbers,) = to_common_float(what, x=as_var(x))
    axes = axis_indices(axis, numbers.ndim, what)
    shape = numbers.shape
    count = product(shape[a] for a in axes)
    if count == 0:
        raise ShapeError(
            f"{what} of an empty array is undefined.", given=format_types({"x": numbers})
        )
    levels = _parts(what, q)

    def build() -> Var:
        ordered = ops.sort(_to_end(numbers, axes))
        nan = ops.isnan(ordered)
        valid_count = ops.size(count)
        if left_out:
            valid_count = ops.sum(ops.logical_not(nan), axis=-1, keepdims=True)
        places = ops.cast(ops.maximum(valid_count - 1, 0), FLOAT64) * ops.reshape(levels, (-1,))
        values = _between(ordered, places, method)
        if not left_out:
            has_nan = ops.expand_dims(nan[..., -1], axis=-1)
            values = ops.where(has_nan, ops.full_like(values, np.nan), values)
        values = ops.moveaxis(values, -1, 0)
        kept_sizes = [
            1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes
        ]
        return ops.reshape(values, (*levels.shape, *kept_sizes))

    return compose_block(what, build)


def _parts(what: str, q: Any) -> Var:
    """Convert quantile levels to float64, in which positions are exact."""
    if isinstance(q, Var):
        return ops.clip(ops.cast(q, FLOAT64), 0.0, 1.0)
    levels = constant(q, FLOAT64)
    numbers = np.asarray(q, float)
    if not np.all((numbers >= 0.0) & (numbers <= 1.0)):
        raise ProgramError(f"{what}: expected quantiles from 0 to 1, got {q!r:.60}.")
    return levels


def _to_end(x: Var, axes: tuple[int, ...]) -> Var:
    """Merge some axes of an array into one, the last."""
    other_axes = [a for a in range(x.ndim) if a not in axes]
    shape: tuple[Size, ...] = (
        *(x.shape[a] for a in other_axes),
        product(x.shape[a] for a in axes),
    )
    order = (*other_axes, *axes)
    transposed = x if order == tuple(range(x.ndim)) else ops.transpose(x, order)
    return transposed if transposed.shape == shape else ops.reshape(transposed, shape)


def _between(ordered: Var, places: Var, method: str) -> Var:
    """Interpolate sorted numbers at fractional positions."""
    if method == "nearest":
        return _take_last(ordered, ops.round(places))
    if method in ("lower", "higher"):
        end = ops.floor if method == "lower" else ops.ceil
        return _take_last(ordered, end(places))
    low = ops.floor(places)
    below, above = _take_last(ordered, low), _take_last(ordered, ops.ceil(places))
    share = 0.5 if method == "midpoint" else ops.cast(places - low, ordered.dtype)
    # Equal numbers may be infinite, and their difference NaN.
    return ops.where(below == above, below, below + share * (above - below))


def _take_last(ordered: Var, places: Var) -> Var:
    indices = ops.cast(places, INT64)
    if indices.ndim == 1:
        return ops.take(ordered, indices, axis=-1)
    return ops.take_along_axis(ordered, indices, axis=-1)
