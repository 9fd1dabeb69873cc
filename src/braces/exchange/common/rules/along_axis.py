"""Operations along axes: sort, top-k and norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from braces.errors import ProgramError
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.layers import vector_norm
from braces.extend.types import INT64, Dim

Axes: TypeAlias = "Sequence[int] | int | None"


def normalize_axes(axes: Axes) -> Any:
    """Return axes as Braces operators take them: no axes mean all axes."""
    if isinstance(axes, int) or axes is None:
        return axes
    return tuple(axes) or None


def sort(x: Var, axis: int = -1, descending: bool = False) -> tuple[Var, Var]:
    """Sort along an axis; return the values and their original indices."""
    if not x.ndim:
        return x, ops.zeros_like(x, dtype=INT64)
    order = ops.argsort(x, axis=axis, descending=descending)
    return ops.take_along_axis(x, order, axis=axis), cast_to_dtype(order, INT64)


def topk(
    x: Var, k: Any, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Var, Var]:
    """Return the k largest or smallest values of an axis, and their indices."""
    if not x.ndim:
        return x, ops.zeros_like(x, dtype=INT64)
    if not isinstance(k, int | Dim):
        raise ProgramError("topk: expected a static `k`, got a value computed at run time.")
    if largest and isinstance(k, int):
        values, at = ops.topk(x, k=k, axis=axis)
        return values, cast_to_dtype(at, INT64)
    order = ops.argsort(x, axis=axis, descending=largest)
    at = emit("window", order, start=0, size=k, axis=axis % x.ndim)
    return ops.take_along_axis(x, at, axis=axis), cast_to_dtype(at, INT64)


def norm(
    x: Var, p: Any = 2, axes: Axes = None, keepdims: bool = False, *, dtype: Any = None
) -> Var:
    """Return the p-norm."""
    x = x if dtype is None else cast_to_dtype(x, dtype)
    return vector_norm(x, normalize_axes(axes), keepdims, 2.0 if p is None else float(p))
