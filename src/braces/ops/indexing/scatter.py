"""Scatter with the reductions set, mul, min and max.

Scatter-add is linear and has separate operators, `put_along_axis_add` and `scatter_nd_add`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from braces.define.axes.axis_map import (
    HIGHEST,
    LOWEST,
    Attrs,
    AxisError,
    AxisMap,
    Names,
    Types,
    Wanted,
    make_axis_map,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Axis, Indices, Tensor, op
from braces.dims import product
from braces.dtypes import BOOL, INT64, DType
from braces.errors import DTypeError, IndexRangeError, suggest
from braces.lazy import jax, jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.indexing.gather_nd import (
    any_outside,
    axes_along,
    axes_of_gather,
    positions_along,
    positions_at,
    put_along_dtype,
    scatter_nd_add_dtype,
)
from braces.ops.indexing.take import IN_RANGE, OUT_OF_RANGE, describe_update, out_of_range_code

REDUCTIONS: Mapping[str, Any] = {"set": None, "mul": 1, "min": HIGHEST, "max": LOWEST}
"""Reductions and their identity elements; `set` has none."""

# ---- parts of both operators -----------------------------------------------------------------


def _build_axis_map(
    types: Types, attrs: Attrs, inputs: Mapping[str, Any], x: Names, part: Names, read: Names,
    wanted: Wanted,
) -> AxisMap:  # fmt: skip
    """Build the axis map; updates are masked by the identity element, if there is one."""
    neutral = REDUCTIONS[_check_reduction(attrs["reduction"])]
    wanted = {**wanted, **describe_update(types, inputs, part)}
    unmaskable = () if neutral is not None else [index for index in part if index not in x]
    slot_axes = {**inputs, "updates": (part,)}
    mixed, fills = (*read, *unmaskable), {"updates": neutral}
    return make_axis_map(types, slot_axes, {"out": (x,)}, mixed, fills, wanted=wanted)


def _check_reduction(reduction: Any) -> str:
    if reduction not in REDUCTIONS:
        near = suggest(str(reduction), REDUCTIONS)
        fix = "Use br.scatter_add or br.scatter_nd_add." if reduction == "add" else near
        raise AxisError(f"unknown reduction {reduction!r:.40}.", fix=fix)
    return reduction


def _check_dtype(what: str, dtype: DType, reduction: str) -> DType:
    """Check that a dtype supports the reduction, and return it."""
    if reduction == "mul" and dtype == BOOL:
        raise DTypeError(
            f"{what}: reduction 'mul' is not defined for bools.", fix="Use reduction='min'."
        )
    if reduction in ("min", "max") and dtype.kind == "c":
        raise DTypeError(
            f"{what}: complex numbers have no order.", fix="Use their real and imaginary parts."
        )
    return dtype


def _scatter(x: Tensor, updates: Tensor, at: tuple[Tensor, ...], reduction: str) -> Tensor:
    if x.size == 0 or updates.size == 0:
        return x
    if reduction == "set":
        return lax.platform_dependent(x, updates, *at, cpu=_put_in_order, default=_put_the_last)
    return in_float32(_reducing_scatter(reduction))(x, updates, *at)


def _put_in_order(x: Tensor, updates: Tensor, *at: Tensor) -> Tensor:
    """Scatter sequentially, as a CPU does: the last update of a position wins."""
    return x.at[at].set(updates, **IN_RANGE)


def _put_the_last(x: Tensor, updates: Tensor, *at: Tensor) -> Tensor:
    """Scatter the last update of each position, for devices that scatter in parallel."""
    chosen = jnp.broadcast_shapes(*(positions.shape for positions in at))
    count, indexed, slice_shape = _size(chosen), x.shape[: len(at)], x.shape[len(at) :]
    numbers = jnp.arange(count, dtype=INT64).reshape(chosen)
    last = jnp.full(indexed, -1, INT64).at[at].max(numbers, **IN_RANGE)
    slices = jnp.broadcast_to(updates, (*chosen, *slice_shape)).reshape(count, *slice_shape)
    is_updated = (last >= 0).reshape(*indexed, *[1] * len(slice_shape))
    return jnp.where(is_updated, slices.at[jnp.maximum(last, 0)].get(**IN_RANGE), x)


def _size(shape: Any) -> int:
    size = product(shape)
    assert isinstance(size, int)
    return size


# ---- derivatives of products and bounds ------------------------------------------------------


@cache
def _reducing_scatter(reduction: str) -> Callable[..., Tensor]:
    """Build a differentiable scatter of an array, updates and their positions."""
    tangent_rule = _tangent_of_product if reduction == "mul" else _tangent_of_extremum

    @jax.custom_jvp
    def reduce_updates(x: Tensor, updates: Tensor, *at: Tensor) -> Tensor:
        return getattr(x.at[at], reduction)(updates, **IN_RANGE)

    @reduce_updates.defjvp
    def jvp(primals: tuple[Tensor, ...], tangents: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        x, updates, *at = primals
        out = reduce_updates(*primals)
        return out, tangent_rule(x, updates, tuple(at), out, *tangents[:2])

    return reduce_updates


def _tangent_of_extremum(
    x: Tensor, updates: Tensor, at: tuple[Tensor, ...], out: Tensor, dx: Tensor, du: Tensor
) -> Tensor:
    """Tangent of min and max: the tangent of the extremum, averaged over ties."""
    x_wins, update_wins = x == out, updates == out.at[at].get(**IN_RANGE)
    ties = x_wins.astype(x.dtype).at[at].add(update_wins.astype(x.dtype), **IN_RANGE)
    total = _mask(x_wins, dx).at[at].add(_mask(update_wins, du), **IN_RANGE)
    return total / jnp.maximum(ties, jnp.ones_like(ties))


def _tangent_of_product(
    x: Tensor, updates: Tensor, at: tuple[Tensor, ...], out: Tensor, dx: Tensor, du: Tensor
) -> Tensor:
    """Tangent of products: each tangent times all other factors, which may be zero."""
    del out
    multiplied, zero = _reducing_scatter("mul"), updates == 0
    zeros = (x == 0).astype("int32").at[at].add(zero.astype("int32"), **IN_RANGE)
    others_nonzero = zeros.at[at].get(**IN_RANGE) == zero.astype(zeros.dtype)
    factors = jnp.where(zero, jnp.ones_like(updates), updates)
    products = multiplied(jnp.where(x == 0, jnp.ones_like(x), x), factors, *at)
    others = _mask(others_nonzero, products.at[at].get(**IN_RANGE) / factors)
    own = dx * multiplied(jnp.ones_like(x), updates, *at)
    return own.at[at].add(du * others, **IN_RANGE)


def _mask(mask: Tensor, x: Tensor) -> Tensor:
    return jnp.where(mask, x, jnp.zeros_like(x))


# ---- one index per element -------------------------------------------------------------------


def put_along_axis_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of put_along_axis: pointwise but on the indexed axis, which is replaced."""
    x, part, indexed, wanted = axes_along(types, attrs)
    return _build_axis_map(
        types, attrs, {"x": (x,), "indices": (part,)}, x, part, indexed, wanted
    )


def put_along_axis_dtype(
    what: str, x: DType, indices: DType, updates: DType, **attrs: Any
) -> DType:
    """Dtype rule: the common dtype of array and updates; the indices are integers."""
    return _check_dtype(what, put_along_dtype(what, x, indices, updates), attrs["reduction"])


@op(
    axes=put_along_axis_axis_map,
    dtypes=put_along_axis_dtype,
    operations=count_per_element("updates"),
    examples=(
        "x=f32[3,5] indices=i32[3,2] updates=f32[3,2] axis=1",
        "x=f32[b,4] indices=i64[b,3] updates=f32[b,3] axis=-1 reduction=mul",
        "x=f64[3,t] indices=i32[4,t] updates=f64[4,t] axis=0 reduction=min",
        "x=f64[2,b,3] indices=u8[2,b,3] updates=f64[2,b,3] axis=-1 reduction=max",
        "x=bool[2,4] indices=i64[2,6] updates=bool[2,6] axis=1",
        "x=i32[5] indices=i64[3] updates=i32[3] axis=0 reduction=mul",
        "x=f32[0,3] indices=i32[0,1] updates=f32[0,1] axis=1",
    ),
)
def put_along_axis(
    x: Tensor, indices: Indices, updates: Tensor, *, axis: Axis, reduction: str = "set"
) -> Tensor:
    """Scatter along one axis with an index for each update.

        out = x; then for each i, j, k: out[i, indices[i, j, k], k] = updates[i, j, k]

    Inputs:
        x: any[*shape].
        indices: int, the sizes of `x` except on the axis; negative ones count from the end.
        updates: The dtype of `x` and the sizes of the indices.

    Attributes:
        axis: The axis that is indexed.
        reduction: "set" replaces elements, and the last update of a position wins; "mul", "min"
            and "max" combine the element with all its updates.

    Outputs:
        out: any[*shape]. For "set" the gradient goes to the last update, for "mul" to all
            factors; for "min" and "max" it is shared equally between ties.

    Raises:
        ShapeError: If the axis is out of range, the reduction is unknown, or the size of
            another axis differs.
        DTypeError: If the indices are not integers, the dtype of the updates differs, or the
            dtype does not support the reduction.
        IndexRangeError: If an index is out of range at run time.
    """
    return _scatter(x, updates, positions_along(x, indices, axis % x.ndim), reduction)


@put_along_axis.checked(IndexRangeError, OUT_OF_RANGE)
def put_along_axis_outside(
    x: Tensor, indices: Indices, updates: Tensor, *, axis: Axis, reduction: str = "set"
) -> Tensor:
    """Run-time check: an index is out of range."""
    del updates, reduction
    return out_of_range_code(indices, x.shape[axis])


# ---- several axes at once --------------------------------------------------------------------


def scatter_nd_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of scatter_nd: the axes of the indices replace the indexed axes."""
    x, part, indices, indexed = axes_of_gather(types)
    return _build_axis_map(types, attrs, {"x": (x,), "indices": indices}, x, part, indexed, {})


def scatter_nd_dtype(
    what: str, x: DType, updates: DType, *indices: DType, reduction: str
) -> DType:
    """Dtype rule: the common dtype of array and updates; the indices are integers."""
    return _check_dtype(what, scatter_nd_add_dtype(what, x, updates, *indices), reduction)


@op(
    axes=scatter_nd_axis_map,
    dtypes=scatter_nd_dtype,
    operations=count_per_element("updates"),
    examples=(
        "x=f32[3,4,2] updates=f32[5,2] indices=i32[5] indices=i32[5]",
        "x=f32[b,3,4] updates=f32[b,2,4] indices=i64[b,1] indices=i64[2] reduction=mul",
        "x=f64[2,3] updates=f64[] indices=i32[] indices=i32[] reduction=min",
        "x=f64[3,b] updates=f64[t,b] indices=i32[t] reduction=max",
        "x=i32[4,2] updates=i32[3,2] indices=i64[3]",
        "x=f32[2,3] updates=f32[0] indices=i32[0] indices=i32[0]",
    ),
)
def scatter_nd(x: Tensor, updates: Tensor, *indices: Indices, reduction: str = "set") -> Tensor:
    """Scatter updates to slices of an array, by an index for each of its first axes.

        out = x; then for each i:
        out[indices[0][*i], indices[1][*i], ..., ...] = updates[*i, ...]

    Inputs:
        x: any[*indexed, *rest].
        updates: any[*chosen, *rest], the type of `gather_nd(x, *indices)`.
        indices: int, one for each of the first axes; they broadcast. Negative ones count from
            the end.

    Attributes:
        reduction: "set" replaces elements, and the last update of a position wins; "mul", "min"
            and "max" combine the element with all its updates.

    Outputs:
        out: any[*indexed, *rest]. For "set" the gradient goes to the last update, for "mul" to
            all factors; for "min" and "max" it is shared equally between ties.

    Raises:
        ShapeError: If the reduction is unknown, the indices are invalid, or the shape of the
            updates differs.
        DTypeError: If an index is not an integer, the dtype of the updates differs, or the
            dtype does not support the reduction.
        IndexRangeError: If an index is out of range at run time.
    """
    return _scatter(x, updates, positions_at(x, indices), reduction)


@scatter_nd.checked(IndexRangeError, OUT_OF_RANGE)
def scatter_nd_outside(
    x: Tensor, updates: Tensor, *indices: Indices, reduction: str = "set"
) -> Tensor:
    """Run-time check: an index is out of range."""
    del updates, reduction
    return any_outside(x, indices)
