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
from braces.frontend.control.block import composed
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.variables import constant
from braces.frontend.losses.reduction import check_one_of, in_floats, shown_types
from braces.ops.common.rules import axis_indices

__all__ = ["median", "nanmedian", "nanquantile", "percentile", "quantile"]

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
"""What is between two numbers."""


@building
def median(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The number in the middle, or the mean of the two in the middle: the quantile of 0.5.

    Args:
        x: real[*shape].
        axis: The axis or axes; all by default.
        keepdims: Whether they stay, with size 1.

    Returns:
        float[*rest]; integers give float32, NaN gives NaN.

    Raises:
        ShapeError: There is no such axis, or nothing along it.
        DTypeError: Complex numbers.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     middle = br.median(br.constant([3.0, 1.0, 2.0, 9.0]))
        >>> float(br.Executor().run(prog, br.Scope(), fetch=middle))
        2.5
    """
    return _quantiles("median", x, 0.5, axis, keepdims, "linear")


@building
def quantile(
    x: Operand,
    q: Operand,
    axis: Axes = None,
    keepdims: bool = False,
    method: str = "linear",
) -> Var:
    """What is greater than a part of the numbers, and less than the rest.

        out = sorted(x)[q * (n - 1)], between two numbers as the method says

    Of numbers that are equal, the gradient goes to one.

    Args:
        x: real[*shape].
        q: A number from 0 to 1, or an array of them, which may be a variable; in a run, what
            is outside counts as the nearest of these.
        axis: The axis or axes; all by default.
        keepdims: Whether they stay, with size 1.
        method: `"linear"` interpolates, `"lower"`, `"higher"` and `"nearest"` take one of the
            two numbers, `"midpoint"` their mean.

    Returns:
        float[*q.shape, *rest]; integers give float32, NaN gives NaN.

    Raises:
        ShapeError: There is no such axis, or nothing along it.
        ProgramError: `q` is outside of 0 to 1, or there is no such method.
        DTypeError: Complex numbers.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     found = br.quantile(br.constant([0.0, 1.0, 2.0, 3.0, 8.0]), [0.25, 0.9])
        >>> br.Executor().run(prog, br.Scope(), fetch=found).tolist()
        [1.0, 6.0]
    """
    return _quantiles("quantile", x, q, axis, keepdims, method)


@building
def percentile(
    x: Operand,
    q: Operand,
    axis: Axes = None,
    keepdims: bool = False,
    method: str = "linear",
) -> Var:
    """As `quantile`, with parts in per cent: from 0 to 100."""
    parts = q / 100.0 if isinstance(q, Var) else np.asarray(q) / 100.0
    return _quantiles("percentile", x, parts, axis, keepdims, method)


@building
def nanmedian(x: Operand, axis: Axes = None, keepdims: bool = False) -> Var:
    """The median of the numbers that are not NaN; NaN where there is none; see `median`."""
    return _quantiles("nanmedian", x, 0.5, axis, keepdims, "linear", left_out=True)


@building
def nanquantile(
    x: Operand,
    q: Operand,
    axis: Axes = None,
    keepdims: bool = False,
    method: str = "linear",
) -> Var:
    """Quantiles of the numbers that are not NaN; NaN where there is none; see `quantile`."""
    return _quantiles("nanquantile", x, q, axis, keepdims, method, left_out=True)


def _quantiles(
    what: str, x: Any, q: Any, axis: Axes, keepdims: bool, method: str, left_out: bool = False
) -> Var:
    """Quantiles, of what is not NaN where that is left out."""
    check_one_of(what, "method", method, METHODS)
    (whole,) = in_floats(what, x=as_var(x))
    axes = axis_indices(axis, whole.ndim, what)
    shape = whole.shape
    count = product(shape[a] for a in axes)
    if count == 0:
        raise ShapeError(f"{what} of nothing does not exist.", given=shown_types({"x": whole}))
    parts = _parts(what, q)

    def built() -> Var:
        ordered = ops.sort(_to_end(whole, axes))
        nan = ops.isnan(ordered)
        here = ops.size(count)
        if left_out:
            here = ops.sum(ops.logical_not(nan), axis=-1, keepdims=True)
        places = ops.cast(ops.maximum(here - 1, 0), FLOAT64) * ops.reshape(parts, (-1,))
        found = _between(ordered, places, method)
        if not left_out:
            some = ops.expand_dims(nan[..., -1], axis=-1)
            found = ops.where(some, ops.full_like(found, np.nan), found)
        found = ops.moveaxis(found, -1, 0)
        rest = [1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes]
        return ops.reshape(found, (*parts.shape, *rest))

    return composed(what, built)


def _parts(what: str, q: Any) -> Var:
    """Parts from 0 to 1, in a dtype in which places are exact."""
    if isinstance(q, Var):
        return ops.clip(ops.cast(q, FLOAT64), 0.0, 1.0)
    parts = constant(q, FLOAT64)
    given = np.asarray(q, float)
    if not np.all((given >= 0.0) & (given <= 1.0)):
        raise ProgramError(f"{what} needs parts between nothing and all, not {q!r:.60}.")
    return parts


def _to_end(x: Var, axes: tuple[int, ...]) -> Var:
    """An array with some of its axes as one, the last."""
    rest = [a for a in range(x.ndim) if a not in axes]
    shape: tuple[Size, ...] = (*(x.shape[a] for a in rest), product(x.shape[a] for a in axes))
    order = (*rest, *axes)
    turned = x if order == tuple(range(x.ndim)) else ops.transpose(x, order)
    return turned if turned.shape == shape else ops.reshape(turned, shape)


def _between(ordered: Var, places: Var, method: str) -> Var:
    """What is at places of sorted numbers, which lie between two of them."""
    if method == "nearest":
        return _taken(ordered, ops.round(places))
    if method in ("lower", "higher"):
        end = ops.floor if method == "lower" else ops.ceil
        return _taken(ordered, end(places))
    low = ops.floor(places)
    below, above = _taken(ordered, low), _taken(ordered, ops.ceil(places))
    share = 0.5 if method == "midpoint" else ops.cast(places - low, ordered.dtype)
    # Where both are one, they may be infinite, and their difference NaN.
    return ops.where(below == above, below, below + share * (above - below))


def _taken(ordered: Var, places: Var) -> Var:
    at = ops.cast(places, INT64)
    if at.ndim == 1:
        return ops.take(ordered, at, axis=-1)
    return ops.take_along_axis(ordered, at, axis=-1)
