"""Operations along axes: indices, gather, scatter, sort, top-k and norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from braces.errors import ProgramError
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.layers import vector_norm
from braces.extend.types import INT64, Dim, Size

Axes: TypeAlias = "Sequence[int] | int | None"


def normalize_axes(axes: Axes) -> Any:
    """Return axes as Braces operators take them: no axes mean all axes."""
    if isinstance(axes, int) or axes is None:
        return axes
    return tuple(axes) or None


def indices_along(size: Size, axis: int, rank: int) -> Var:
    """Return the indices 0, 1, … of an axis, shaped to broadcast with an array of this rank."""
    return ops.reshape(emit("arange", stop=size), (*[1] * axis, size, *[1] * (rank - axis - 1)))


def gather_along(x: Var, indices: Var, axis: int) -> Var:
    """Gather with an index per element along an axis; indices may cover leading parts."""
    axis %= max(x.ndim, 1)
    if _covers_other_axes(x, indices, axis):
        return ops.take_along_axis(x, indices, axis=axis)
    return ops.gather_nd(x, _index_arrays(indices, axis))


def scatter_along(x: Var, indices: Var, updates: Var, axis: int, reduction: str) -> Var:
    """Scatter with an index per update along an axis; indices may cover leading parts."""
    axis %= max(x.ndim, 1)
    if not _covers_other_axes(x, indices, axis):
        return scatter_nd(x, updates, _index_arrays(indices, axis), reduction)
    if reduction == "add":
        return emit("put_along_axis_add", x, indices, updates, axis=axis)
    return ops.put_along_axis(x, indices, updates, axis=axis, reduction=reduction)


def scatter_nd(x: Var, updates: Var, indices: Sequence[Var], reduction: str) -> Var:
    """Scatter by an index array for each leading axis; a sum has a separate operator."""
    if reduction == "add":
        return ops.scatter_nd_add(x, updates, indices)
    return ops.scatter_nd(x, updates, indices, reduction=reduction)


def _covers_other_axes(x: Var, indices: Var, axis: int) -> bool:
    """Return whether the indices cover all axes but one."""
    pairs = enumerate(zip(x.shape, indices.shape, strict=False))
    return all(i == axis or size == index_size for i, (size, index_size) in pairs)


def _index_arrays(indices: Var, axis: int) -> list[Var]:
    """Return an index array for each axis, from one for a single axis."""
    return [
        indices if i == axis else indices_along(size, i, indices.ndim)
        for i, size in enumerate(indices.shape)
    ]


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
    x = ops.abs(x) if x.dtype.kind == "c" else x
    axis = normalize_axes(axes) if x.ndim else None
    return vector_norm(x, axis, keepdims, 2.0 if p is None else float(p))
