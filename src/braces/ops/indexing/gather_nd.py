"""Gather and scatter-add by an index per element, or by indices of several axes.

The pairs `take_along_axis` and `put_along_axis_add`, `gather_nd` and `scatter_nd_add` are
adjoints of each other, so each pair is closed under differentiation of any order. An index out
of range is an error at run time.
"""

from __future__ import annotations

from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Names,
    Types,
    Wanted,
    broadcasting_indices,
    first_rank,
    make_axis_map,
    normalize_axis,
    numbered_indices,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.core.check_code import worst_code
from braces.define.decorator import Axis, Indices, Tensor, op
from braces.dtypes import DType
from braces.errors import IndexRangeError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import add_at
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import AddInto, Backward
from braces.ops.indexing.take import (
    IN_RANGE,
    OUT_OF_RANGE,
    check_integers,
    describe_update,
    out_of_range_code,
    to_positions,
    update_dtype,
)

# ---- one index per element -------------------------------------------------------------------


def take_along_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of take_along_axis: pointwise but on the indexed axis, which is replaced."""
    x, part, indexed, wanted = axes_along(types, attrs)
    inputs = {"x": (x,), "indices": (part,)}
    return make_axis_map(types, inputs, {"out": (part,)}, indexed, wanted=wanted)


def put_along_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of put_along_axis_add: as that of take_along_axis, with updates."""
    x, part, indexed, wanted = axes_along(types, attrs)
    slot_axes = {"x": (x,), "indices": (part,)}
    wanted = {**wanted, **describe_update(types, slot_axes, part)}
    inputs = slot_axes | {"updates": (part,)}
    return make_axis_map(types, inputs, {"out": (x,)}, indexed, {"updates": 0}, wanted=wanted)


def axes_along(types: Types, attrs: Attrs) -> tuple[Names, Names, Names, Wanted]:
    """Return the axes of array and result, the indexed axis, and the expected index type."""
    x = numbered_indices(first_rank(types, "x"))
    at = normalize_axis(attrs["axis"], len(x))
    part = (*x[:at], "chosen", *x[at + 1 :])
    return (
        x,
        part,
        (x[at],),
        {"indices": lambda: f"indices of the shape of x except on axis {at}"},
    )


def gather_dtype(what: str, x: DType, *indices: DType, **attrs: Any) -> DType:
    """Dtype rule: the dtype of the array; the indices are integers."""
    del attrs
    check_integers(what, *indices)
    return x


@op(
    axes=take_along_axis_map,
    dtypes=gather_dtype,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[3,5] indices=i32[3,2] axis=1",
        "x=f32[b,4] indices=i64[b,1] axis=-1",
        "x=f64[3,t] indices=i32[2,t] axis=0",
        "x=f64[2,3,b] indices=i32[2,1,b] axis=1",
        "x=f32[0,3] indices=i32[0,1] axis=1",
        "x=f32[3] indices=i32[0] axis=0",
    ),
)
def take_along_axis(x: Tensor, indices: Indices, *, axis: Axis) -> Tensor:
    """Gather along one axis with an index for each element of the result.

        out[i, j, k] = x[i, indices[i, j, k], k], for the middle axis

    Inputs:
        x: any[*shape].
        indices: int, the sizes of `x` except on the axis; negative ones count from the end.

    Attributes:
        axis: The axis that is indexed.

    Outputs:
        out: any, the sizes of the indices.

    Raises:
        ShapeError: If the axis is out of range, or the size of another axis differs.
        DTypeError: If the indices are not integers.
        IndexRangeError: If an index is out of range at run time.
    """
    axis %= x.ndim
    if x.size == 0:
        return jnp.zeros(indices.shape, x.dtype)
    positions = to_positions(indices, x.shape[axis])
    return jnp.take_along_axis(x, positions, axis, mode="promise_in_bounds")


@take_along_axis.checked(IndexRangeError, OUT_OF_RANGE)
def take_along_axis_outside(x: Tensor, indices: Indices, *, axis: Axis) -> Tensor:
    """Run-time check: an index is out of range."""
    return out_of_range_code(indices, x.shape[axis])


@take_along_axis.gradient
def take_along_axis_gradient(g: Backward) -> dict[str, AddInto]:
    """Gradient of take_along_axis: scatter-add the cotangent into zeros."""
    indices, axis = g["indices"], g.attrs["axis"]

    def add_into(total: Var, grad: Var) -> Var:
        return emit("put_along_axis_add", total, indices, grad, axis=axis)

    return {"x": AddInto(g.out_grad, add_into)}


def put_along_dtype(what: str, x: DType, indices: DType, updates: DType, **attrs: Any) -> DType:
    """Dtype rule: the common dtype of array and updates; the indices are integers."""
    return update_dtype(what, gather_dtype(what, x, indices, **attrs), updates)


@op(
    axes=put_along_axis_map,
    dtypes=put_along_dtype,
    adds_to=("x",),
    function=False,
    operations=count_per_element("updates"),
    examples=(
        "x=f32[3,5] indices=i32[3,2] updates=f32[3,2] axis=1",
        "x=f32[b,4] indices=i64[b,1] updates=f32[b,1] axis=-1",
        "x=f64[3,t] indices=i32[2,t] updates=f64[2,t] axis=0",
        "x=f32[0,3] indices=i32[0,1] updates=f32[0,1] axis=1",
    ),
)
def put_along_axis_add(x: Tensor, indices: Indices, updates: Tensor, *, axis: Axis) -> Tensor:
    """Scatter-add along one axis with an index per update: the adjoint of `take_along_axis`.

        out = x; then for each i, j, k: out[i, indices[i, j, k], k] += updates[i, j, k]

    Inputs:
        x: number[*shape].
        indices: int, the sizes of `x` except on the axis; repeated ones accumulate.
        updates: The dtype of `x` and the sizes of the indices.

    Attributes:
        axis: The axis that is indexed.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: If the axis is out of range, or a size differs.
        DTypeError: If the indices are not integers, or the updates have a different dtype.
        IndexRangeError: If an index is out of range at run time.
    """
    axis %= x.ndim
    if x.size == 0 or updates.size == 0:
        return x
    return add_at(x, positions_along(x, indices, axis), updates, **IN_RANGE)


def positions_along(x: Tensor, indices: Tensor, axis: int) -> tuple[Tensor, ...]:
    """Return the positions on all axes: the indices on one, iota on the others."""
    positions = to_positions(indices, x.shape[axis])
    return tuple(
        positions if i == axis else lax.broadcasted_iota(positions.dtype, indices.shape, i)
        for i in range(x.ndim)
    )


@put_along_axis_add.checked(IndexRangeError, OUT_OF_RANGE)
def put_along_axis_add_outside(
    x: Tensor, indices: Indices, updates: Tensor, *, axis: Axis
) -> Tensor:
    """Run-time check: an index is out of range."""
    del updates
    return out_of_range_code(indices, x.shape[axis])


@put_along_axis_add.gradient
def put_along_axis_add_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent, the updates the elements gathered from it."""
    grads = {"x": g.out_grad}
    if g.wants("updates"):
        axis = g.attrs["axis"]
        grads["updates"] = emit("take_along_axis", g.out_grad, g["indices"], axis=axis)
    return grads


# ---- several axes at once --------------------------------------------------------------------


def gather_nd_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of gather_nd: the axes of the indices replace the indexed axes."""
    del attrs
    x, part, indices, indexed = axes_of_gather(types)
    return make_axis_map(types, {"x": (x,), "indices": indices}, {"out": (part,)}, indexed)


def scatter_nd_add_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of scatter_nd_add: as `gathering`, with updates."""
    del attrs
    x, part, indices, indexed = axes_of_gather(types)
    slot_axes = {"x": (x,), "indices": indices}
    wanted = describe_update(types, slot_axes, part)
    inputs = slot_axes | {"updates": (part,)}
    return make_axis_map(types, inputs, {"out": (x,)}, indexed, {"updates": 0}, wanted=wanted)


def axes_of_gather(types: Types) -> tuple[Names, Names, tuple[Names, ...], Names]:
    """Return the axes of array, result and each index, and the indexed axes."""
    x = numbered_indices(first_rank(types, "x"))
    ranks = [len(shape_of(index)) for index in types.get("indices", ())]
    if not 0 < len(ranks) <= len(x):
        raise AxisError(
            f"expected 1 to {len(x)} indices for {types['x'][0]}, got {len(ranks)}.",
            fix="Pass one index for each leading axis.",
        )
    chosen = broadcasting_indices(max(ranks))
    indices = tuple(chosen[len(chosen) - rank :] for rank in ranks)
    return x, (*chosen, *x[len(ranks) :]), indices, x[: len(ranks)]


@op(
    axes=gather_nd_axis_map,
    dtypes=gather_dtype,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[3,4,2] indices=i32[5] indices=i32[5]",
        "x=f32[b,3,4] indices=i64[b,1] indices=i64[2]",
        "x=f64[2,3] indices=i32[] indices=i32[]",
        "x=f64[3,b] indices=i32[t]",
        "x=f32[2,2,0] indices=i32[4] indices=i32[4]",
        "x=f32[2,3] indices=i32[0] indices=i32[0]",
    ),
)
def gather_nd(x: Tensor, *indices: Indices) -> Tensor:
    """Gather slices of an array, by an index for each of its first axes.

        out[*i, ...] = x[indices[0][*i], indices[1][*i], ..., ...]

    Inputs:
        x: any[*indexed, *rest].
        indices: int, one for each of the first axes; they broadcast to `chosen`. Negative ones
            count from the end.

    Outputs:
        out: any[*chosen, *rest].

    Raises:
        ShapeError: If the number of indices is 0 or exceeds the rank, or the indices do not
            broadcast.
        DTypeError: If an index is not an integer.
        IndexRangeError: If an index is out of range at run time.
    """
    if x.size == 0:
        chosen = jnp.broadcast_shapes(*(i.shape for i in indices))
        return jnp.zeros((*chosen, *x.shape[len(indices) :]), x.dtype)
    return x.at[positions_at(x, indices)].get(**IN_RANGE)


def positions_at(x: Tensor, indices: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the positions on each of the first axes (kernel helper)."""
    return tuple(to_positions(i, size) for i, size in zip(indices, x.shape, strict=False))


def any_outside(x: Tensor, indices: tuple[Tensor, ...]) -> Tensor:
    """Return the worst check failure code of the indices of each axis."""
    codes = [
        worst_code(out_of_range_code(i, size))
        for i, size in zip(indices, x.shape, strict=False)
    ]
    return jnp.stack(codes)


@gather_nd.checked(IndexRangeError, OUT_OF_RANGE)
def gather_nd_outside(x: Tensor, *indices: Indices) -> Tensor:
    """Run-time check: an index is out of range."""
    return any_outside(x, indices)


@gather_nd.gradient
def gather_nd_gradient(g: Backward) -> dict[str, AddInto]:
    """Gradient of gather_nd: scatter-add the cotangent into zeros."""
    indices = g.inputs["indices"]

    def add_into(total: Var, grad: Var) -> Var:
        return emit("scatter_nd_add", total, grad, *indices)

    return {"x": AddInto(g.out_grad, add_into)}


def scatter_nd_add_dtype(what: str, x: DType, updates: DType, *indices: DType) -> DType:
    """Dtype rule: the common dtype of array and updates; the indices are integers."""
    return update_dtype(what, gather_dtype(what, x, *indices), updates)


@op(
    axes=scatter_nd_add_axis_map,
    dtypes=scatter_nd_add_dtype,
    adds_to=("x",),
    operations=count_per_element("updates"),
    examples=(
        "x=f32[3,4,2] updates=f32[5,2] indices=i32[5] indices=i32[5]",
        "x=f32[b,3,4] updates=f32[b,2,4] indices=i64[b,1] indices=i64[2]",
        "x=f64[2,3] updates=f64[] indices=i32[] indices=i32[]",
        "x=f32[2,3] updates=f32[0] indices=i32[0] indices=i32[0]",
    ),
)
def scatter_nd_add(x: Tensor, updates: Tensor, *indices: Indices) -> Tensor:
    """Scatter-add updates to slices of an array: the adjoint of `gather_nd`.

        out = x; then for each i:
        out[indices[0][*i], indices[1][*i], ..., ...] += updates[*i, ...]

    Inputs:
        x: number[*indexed, *rest].
        updates: number[*chosen, *rest], the type of `gather_nd(x, *indices)`.
        indices: int, one for each of the first axes; they broadcast. Repeated ones accumulate.

    Outputs:
        out: number[*indexed, *rest].

    Raises:
        ShapeError: If the indices are invalid, or the shape of the updates differs.
        DTypeError: If an index is not an integer, or the updates have a different dtype.
        IndexRangeError: If an index is out of range at run time.
    """
    if x.size == 0 or updates.size == 0:
        return x
    return add_at(x, positions_at(x, indices), updates, **IN_RANGE)


@scatter_nd_add.checked(IndexRangeError, OUT_OF_RANGE)
def scatter_nd_add_outside(x: Tensor, updates: Tensor, *indices: Indices) -> Tensor:
    """Run-time check: an index is out of range."""
    del updates
    return any_outside(x, indices)


@scatter_nd_add.gradient
def scatter_nd_add_gradient(g: Backward) -> dict[str, Any]:
    """`x` receives the cotangent, the updates the slices gathered from it."""
    grads = {"x": g.out_grad}
    if g.wants("updates"):
        grads["updates"] = emit("gather_nd", g.out_grad, *g.inputs["indices"])
    return grads


register_linear(take_along_axis, put_along_axis_add, gather_nd, scatter_nd_add)
