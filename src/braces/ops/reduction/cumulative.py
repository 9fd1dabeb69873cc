"""Cumulative maximum, minimum and log-sum-exp along one axis."""

from __future__ import annotations

from braces.define.axes.axis_map import HIGHEST, LOWEST
from braces.define.decorator import Axis, Tensor, op
from braces.lazy import lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, ordered, real_function
from braces.ops.reduction.sort import cumulative_axes

EXAMPLES = ("x=f32[2,3] axis=1", "x=f64[b,4] axis=0", "x=f32[5] axis=0 reverse=True")
WITH_INTEGERS = (*EXAMPLES, "x=i32[2,3] axis=-1")


@op(axes=cumulative_axes(LOWEST), dtypes=ordered, operations=1, examples=WITH_INTEGERS)
def cummax(x: Tensor, *, axis: Axis, reverse: bool = False) -> Tensor:
    """The cumulative maximum along one axis.

        out[..., i, ...] = max_{j <= i} x[..., j, ...]

    Attributes:
        axis: The axis; negative counts from the end.
        reverse: From the end: over j >= i.
    """
    return lax.cummax(x, axis=axis % x.ndim, reverse=reverse)


@op(axes=cumulative_axes(HIGHEST), dtypes=ordered, operations=1, examples=WITH_INTEGERS)
def cummin(x: Tensor, *, axis: Axis, reverse: bool = False) -> Tensor:
    """The cumulative minimum along one axis.

        out[..., i, ...] = min_{j <= i} x[..., j, ...]

    Attributes:
        axis: The axis; negative counts from the end.
        reverse: From the end: over j >= i.
    """
    return lax.cummin(x, axis=axis % x.ndim, reverse=reverse)


@op(axes=cumulative_axes(LOWEST), dtypes=real_function, operations=3, examples=EXAMPLES)
@in_float32
def cumlogsumexp(x: Tensor, *, axis: Axis, reverse: bool = False) -> Tensor:
    """The cumulative log-sum-exp along one axis.

        out[..., i, ...] = log sum_{j <= i} exp(x[..., j, ...])

    The maximum is subtracted first, so large inputs do not overflow.

    Attributes:
        axis: The axis; negative counts from the end.
        reverse: From the end: over j >= i.
    """
    return lax.cumlogsumexp(as_floating(x), axis=axis % x.ndim, reverse=reverse)
