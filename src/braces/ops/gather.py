"""Reading and adding at indices that are values of the program.

What reads has an adjoint that adds, and the other way round, so gradients of any order stay in
this family: `take` and `scatter_add`, `take_along_axis` and `put_along_axis_add`, `gather_nd` and
`scatter_nd_add`. An index out of range is an error in the run; where repeated, updates add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.dims import Size
from braces.dtypes import FLOAT32, DType, TensorType, is_integer
from braces.errors import DTypeError, IndexRangeError, ShapeError
from braces.lazy import jnp, lax
from braces.ops.build import Var, one
from braces.ops.define import Tensor, op
from braces.ops.inference import Context
from braces.ops.rules import AddInto, Backward, axis_index, broadcast_shapes
from braces.ops.slicing import check_update

OUT_OF_RANGE = "An index is out of range."

# ---- indices ---------------------------------------------------------------------------------


def check_integers(context: Context, indices: TensorType) -> None:
    """Refuse indices that are no integers.

    Raises:
        DTypeError: They are not.
    """
    if not is_integer(indices.dtype):
        raise DTypeError(
            f"{context.type} needs integers as indices, not {indices.dtype}.",
            fix="Choose with br.where or a row-wise br.create_if_else."
            if indices.dtype.kind == "b"
            else "Use br.cast(indices, 'int64').",
        )


def outside(indices: Tensor, size: int, lowest: int | None = None) -> Tensor:
    """Where indices are out of range of an axis; negative ones count from its end."""
    wide = indices.astype(jnp.uint64 if indices.dtype.kind == "u" else jnp.int64)
    too_high = wide >= np.asarray(size, wide.dtype)
    if indices.dtype.kind == "u":
        return too_high
    return too_high | (wide < np.int64(-size if lowest is None else lowest))


def from_front(indices: Tensor, size: int) -> Tensor:
    """Indices as positions within an axis; what is out of range ends up anywhere in it."""
    narrow = indices.astype(jnp.int32 if size < 2**31 else jnp.int64)
    if indices.dtype.kind != "u":
        narrow = jnp.where(narrow < 0, narrow + np.asarray(size, narrow.dtype), narrow)
    return jnp.clip(narrow, 0, max(size - 1, 0)).astype(narrow.dtype)


# ---- along one axis --------------------------------------------------------------------------


@op(
    examples=(
        "x=f32[5,3] indices=i32[4] axis=0",
        "x=f32[b,3] indices=i64[] axis=1",
        "x=f32[3,b] indices=i32[t,2] axis=0",
        "x=f64[2,3,4] indices=i64[2] axis=-2",
        "x=f64[2,3] indices=i32[4]",
        "x=f32[3,2] indices=u8[b] axis=0",
        "x=f32[0,3] indices=i32[2] axis=1",
        "x=f32[3,2] indices=i32[0] axis=0",
    )
)
def take(x: Tensor, indices: Tensor, *, axis: int | None = None) -> Tensor:
    """Slices of an array along one axis, by their indices.

        out[..., *i, ...] = x[..., indices[*i], ...]

    Inputs:
        x: any[*shape].
        indices: int[*chosen]; negative ones count from the end.

    Attributes:
        axis: The axis that is indexed; by default `x` is taken as flat.

    Outputs:
        out: any; `chosen` in the place of the axis.

    Raises:
        ShapeError: There is no such axis.
        DTypeError: The indices are no integers.
        IndexRangeError: In a run, an index is out of range.
    """
    x, axis = (jnp.ravel(x), 0) if axis is None else (x, axis % x.ndim)
    size = x.shape[axis]
    if size == 0:
        return jnp.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    positions = from_front(indices, size)
    if indices.ndim == 0:
        return lax.dynamic_index_in_dim(x, positions, axis, keepdims=False)
    whole = (slice(None),) * axis
    return x.at[(*whole, positions)].get(mode="promise_in_bounds")


def taken(context: Context, x: TensorType, indices: TensorType, axis: int | None) -> TensorType:
    """The type of `take`."""
    check_integers(context, indices)
    if axis is None:
        return x.with_shape(indices.shape)
    axis = axis_index(axis, x.rank, context.type)
    return x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@take.infer
def infer_take(
    context: Context, x: TensorType, indices: TensorType, *, axis: int | None
) -> TensorType:
    """The sizes of the indices in the place of the axis."""
    return taken(context, x, indices, axis)


@take.checked(IndexRangeError, OUT_OF_RANGE)
def take_outside(x: Tensor, indices: Tensor, *, axis: int | None = None) -> Tensor:
    """Where an index is out of range."""
    return outside(indices, x.size if axis is None else x.shape[axis])


@take.gradient
def take_gradient(g: Backward) -> dict[str, AddInto]:
    """The cotangent, added to the slices of zeros that were taken."""
    grad, indices, axis = g.out_grad, g["indices"], g.attrs["axis"]
    return {"x": AddInto(lambda total: one("scatter_add", total, indices, grad, axis=axis))}


@op(
    examples=(
        "x=f32[5,3] indices=i32[4] updates=f32[4,3]",
        "x=f32[b,3] indices=i64[] updates=f32[b] axis=1",
        "x=f32[3,b] indices=i32[t,2] updates=f32[t,2,b] axis=0",
        "x=f64[2,3] indices=i32[4] updates=f64[4] axis=None",
        "x=i32[3,2] indices=i32[b] updates=i32[b,2]",
        "x=f32[3,2] indices=i32[0] updates=f32[0,2]",
        "x=f32[0,3] indices=i32[2] updates=f32[0,2] axis=1",
    )
)
def scatter_add(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int | None = 0
) -> Tensor:
    """An array with updates added to slices of it: the adjoint of `take`.

        out = x; then for each i: out[..., indices[*i], ...] += updates[..., *i, ...]

    Inputs:
        x: number[*shape].
        indices: int[*chosen]; negative ones count from the end, repeated ones add up.
        updates: The type of `take(x, indices, axis)`.

    Attributes:
        axis: The axis that is indexed; `None` takes `x` as flat.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: There is no such axis, or the updates have another shape.
        DTypeError: The indices are no integers, or the updates have another dtype.
        IndexRangeError: In a run, an index is out of range.
    """
    if axis is None:
        return _scatter(jnp.ravel(x), indices, updates, 0).reshape(x.shape)
    return _scatter(x, indices, updates, axis % x.ndim)


def _scatter(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    if x.size == 0 or updates.size == 0:
        return x
    positions = from_front(indices, x.shape[axis])
    if indices.ndim == 0:
        total = lax.dynamic_index_in_dim(x, positions, axis) + jnp.expand_dims(updates, axis)
        return lax.dynamic_update_index_in_dim(x, total, positions, axis)
    whole = (slice(None),) * axis
    return x.at[(*whole, positions)].add(updates, mode="promise_in_bounds")


@scatter_add.infer
def infer_scatter_add(
    context: Context,
    x: TensorType,
    indices: TensorType,
    updates: TensorType,
    *,
    axis: int | None,
) -> TensorType:
    """The type of `x`."""
    check_update(context, updates, taken(context, x, indices, axis))
    return x


@scatter_add.checked(IndexRangeError, OUT_OF_RANGE)
def scatter_add_outside(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int | None = 0
) -> Tensor:
    """Where an index is out of range."""
    del updates
    return outside(indices, x.size if axis is None else x.shape[axis])


@scatter_add.gradient
def scatter_add_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent, the updates what is taken of it."""
    grads = {"x": g.out_grad}
    if g.wants("updates"):
        grads["updates"] = one("take", g.out_grad, g["indices"], axis=g.attrs["axis"])
    return grads


@op(
    examples=(
        "table=f32[5,3] ids=i32[b,t]",
        "table=f64[5,3] ids=i64[4]",
        "table=f32[3,2] ids=i32[]",
        "table=f32[3,2] ids=i32[0]",
    )
)
def embedding(table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a table, by their numbers.

        out[*i, :] = table[ids[*i], :]

    Inputs:
        table: any[rows, width].
        ids: int[*shape]. From 0 to `rows - 1`; negative ones are errors.

    Outputs:
        out: any[*shape, width].

    Raises:
        ShapeError: The table is no matrix.
        DTypeError: The ids are no integers.
        IndexRangeError: In a run, an id is out of range.
    """
    return take.kernel(table, ids, axis=0)


@embedding.infer
def infer_embedding(context: Context, table: TensorType, ids: TensorType) -> TensorType:
    """The sizes of the ids, and the width of the table."""
    if table.rank != 2:
        raise ShapeError(
            f"embedding needs a table of rows, not {table}.", fix="Use br.take for other arrays."
        )
    return taken(context, table, ids, 0)


@embedding.checked(IndexRangeError, "An id of an embedding is out of range.")
def embedding_outside(table: Tensor, ids: Tensor) -> Tensor:
    """Where an id is no row of the table."""
    return outside(ids, table.shape[0], lowest=0)


@embedding.gradient
def embedding_gradient(g: Backward) -> dict[str, AddInto]:
    """The cotangent, added to the rows of zeros that were read."""
    grad, ids = g.out_grad, g["ids"]
    return {"table": AddInto(lambda total: one("scatter_add", total, ids, grad, axis=0))}


@op(
    differentiable=False,
    examples=(
        "ids=i32[4] num_classes=5",
        "ids=i64[b,t] num_classes=3 dtype=f64",
        "ids=i32[] num_classes=2 dtype=bool",
        "ids=i32[0] num_classes=4 dtype=i64",
    ),
)
def one_hot(ids: Tensor, *, num_classes: Size, dtype: DType = FLOAT32) -> Tensor:
    """A one in the place of each id, zeros elsewhere; no gradient.

        out[*i, k] = 1 if k == ids[*i] else 0

    Inputs:
        ids: int[*shape]. From 0 to `num_classes - 1`; negative ones are errors.

    Attributes:
        num_classes: The size of the new last axis; may be symbolic.
        dtype: The dtype of the result.

    Outputs:
        out: dtype[*shape, num_classes].

    Raises:
        DTypeError: The ids are no integers.
        IndexRangeError: In a run, an id is out of range.
    """
    wide = ids.astype(jnp.uint64 if ids.dtype.kind == "u" else jnp.int64)
    return (wide[..., None] == jnp.arange(num_classes, dtype=wide.dtype)).astype(dtype)


@one_hot.infer
def infer_one_hot(
    context: Context, ids: TensorType, *, num_classes: Size, dtype: DType
) -> TensorType:
    """One more axis, of the classes."""
    check_integers(context, ids)
    if isinstance(num_classes, int) and num_classes < 0:
        raise ShapeError(f"one_hot cannot have {num_classes} classes.")
    return TensorType(dtype, (*ids.shape, context.unifier.resolve(num_classes)))


@one_hot.checked(IndexRangeError, "An id of a one-hot code is out of range.")
def one_hot_outside(ids: Tensor, *, num_classes: Size, dtype: DType = FLOAT32) -> Tensor:
    """Where an id is no class."""
    del dtype
    return outside(ids, int(num_classes), lowest=0)


# ---- one index for each place ----------------------------------------------------------------


@op(
    examples=(
        "x=f32[3,5] indices=i32[3,2] axis=1",
        "x=f32[b,4] indices=i64[b,1] axis=-1",
        "x=f64[3,t] indices=i32[2,t] axis=0",
        "x=f64[2,3,b] indices=i32[2,1,b] axis=1",
        "x=f32[0,3] indices=i32[0,1] axis=1",
        "x=f32[3] indices=i32[0] axis=0",
    )
)
def take_along_axis(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """For each place, the element of its line along one axis that an index says.

        out[i, j, k] = x[i, indices[i, j, k], k], for the axis in the middle

    Inputs:
        x: any[*shape].
        indices: int, the sizes of `x` but on the axis; negative ones count from the end.

    Attributes:
        axis: The axis that is indexed.

    Outputs:
        out: any, the sizes of the indices.

    Raises:
        ShapeError: There is no such axis, or another size differs.
        DTypeError: The indices are no integers.
        IndexRangeError: In a run, an index is out of range.
    """
    axis %= x.ndim
    if x.size == 0:
        return jnp.zeros(indices.shape, x.dtype)
    positions = from_front(indices, x.shape[axis])
    return jnp.take_along_axis(x, positions, axis, mode="promise_in_bounds")


def along(context: Context, x: TensorType, indices: TensorType, axis: int) -> TensorType:
    """The type of `take_along_axis`."""
    check_integers(context, indices)
    axis = axis_index(axis, x.rank, context.type)
    problem = f"{context.type} needs indices of the shape of x but on axis {axis}, not {indices}."
    if x.rank != indices.rank:
        raise ShapeError(problem, fix="Add axes to the indices with br.expand_dims.")
    pairs = enumerate(zip(x.shape, indices.shape, strict=True))
    sizes = [i if at == axis else context.unify(n, i, problem) for at, (n, i) in pairs]
    return x.with_shape(tuple(sizes))


@take_along_axis.infer
def infer_take_along_axis(
    context: Context, x: TensorType, indices: TensorType, *, axis: int
) -> TensorType:
    """The sizes of the indices."""
    return along(context, x, indices, axis)


@take_along_axis.checked(IndexRangeError, OUT_OF_RANGE)
def take_along_axis_outside(x: Tensor, indices: Tensor, *, axis: int) -> Tensor:
    """Where an index is out of range."""
    return outside(indices, x.shape[axis])


@take_along_axis.gradient
def take_along_axis_gradient(g: Backward) -> dict[str, AddInto]:
    """The cotangent, added to the elements of zeros that were taken."""
    grad, indices, axis = g.out_grad, g["indices"], g.attrs["axis"]
    return {
        "x": AddInto(lambda total: one("put_along_axis_add", total, indices, grad, axis=axis))
    }


@op(
    examples=(
        "x=f32[3,5] indices=i32[3,2] updates=f32[3,2] axis=1",
        "x=f32[b,4] indices=i64[b,1] updates=f32[b,1] axis=-1",
        "x=f64[3,t] indices=i32[2,t] updates=f64[2,t] axis=0",
        "x=f32[0,3] indices=i32[0,1] updates=f32[0,1] axis=1",
    )
)
def put_along_axis_add(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int) -> Tensor:
    """An array with an update added for each place: the adjoint of `take_along_axis`.

        out = x; then for each i, j, k: out[i, indices[i, j, k], k] += updates[i, j, k]

    Inputs:
        x: number[*shape].
        indices: int, the sizes of `x` but on the axis; repeated ones add up.
        updates: The dtype of `x` and the sizes of the indices.

    Attributes:
        axis: The axis that is indexed.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: There is no such axis, or a size differs.
        DTypeError: The indices are no integers, or the updates have another dtype.
        IndexRangeError: In a run, an index is out of range.
    """
    axis %= x.ndim
    if x.size == 0 or updates.size == 0:
        return x
    positions = from_front(indices, x.shape[axis])
    grid = [
        positions if i == axis else lax.broadcasted_iota(positions.dtype, indices.shape, i)
        for i in range(x.ndim)
    ]
    return x.at[tuple(grid)].add(updates, mode="promise_in_bounds")


@put_along_axis_add.infer
def infer_put_along_axis_add(
    context: Context, x: TensorType, indices: TensorType, updates: TensorType, *, axis: int
) -> TensorType:
    """The type of `x`."""
    check_update(context, updates, along(context, x, indices, axis))
    return x


@put_along_axis_add.checked(IndexRangeError, OUT_OF_RANGE)
def put_along_axis_add_outside(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int
) -> Tensor:
    """Where an index is out of range."""
    del updates
    return outside(indices, x.shape[axis])


@put_along_axis_add.gradient
def put_along_axis_add_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent, the updates what is taken of it."""
    grads = {"x": g.out_grad}
    if g.wants("updates"):
        axis = g.attrs["axis"]
        grads["updates"] = one("take_along_axis", g.out_grad, g["indices"], axis=axis)
    return grads


# ---- several axes at once --------------------------------------------------------------------


@op(
    examples=(
        "x=f32[3,4,2] indices=i32[5] indices=i32[5]",
        "x=f32[b,3,4] indices=i64[b,1] indices=i64[2]",
        "x=f64[2,3] indices=i32[] indices=i32[]",
        "x=f64[3,b] indices=i32[t]",
        "x=f32[2,2,0] indices=i32[4] indices=i32[4]",
        "x=f32[2,3] indices=i32[0] indices=i32[0]",
    )
)
def gather_nd(x: Tensor, *indices: Tensor) -> Tensor:
    """Slices of an array, by an index for each of its first axes.

        out[*i, ...] = x[indices[0][*i], indices[1][*i], ..., ...]

    Inputs:
        x: any[*indexed, *rest].
        indices: int, one for each of the first axes; they broadcast to `chosen`. Negative ones
            count from the end.

    Outputs:
        out: any[*chosen, *rest].

    Raises:
        ShapeError: There are more indices than axes, or none, or they do not broadcast.
        DTypeError: An index is no integer.
        IndexRangeError: In a run, an index is out of range.
    """
    if x.size == 0:
        chosen = jnp.broadcast_shapes(*(i.shape for i in indices))
        return jnp.zeros((*chosen, *x.shape[len(indices) :]), x.dtype)
    return x.at[_positions(x, indices)].get(mode="promise_in_bounds")


def _positions(x: Tensor, indices: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(from_front(i, size) for i, size in zip(indices, x.shape, strict=False))


def gathered(context: Context, x: TensorType, indices: tuple[TensorType, ...]) -> TensorType:
    """The type of `gather_nd`."""
    if not 0 < len(indices) <= x.rank:
        raise ShapeError(
            f"{context.type} needs 1 to {x.rank} indices for {x}, not {len(indices)}.",
            fix="Give one index for each of the first axes.",
        )
    for one_index in indices:
        check_integers(context, one_index)
    chosen = broadcast_shapes(context, *(i.shape for i in indices))
    return x.with_shape((*chosen, *x.shape[len(indices) :]))


@gather_nd.infer
def infer_gather_nd(context: Context, x: TensorType, *indices: TensorType) -> TensorType:
    """The common sizes of the indices, then those of the other axes."""
    return gathered(context, x, indices)


def any_outside(x: Tensor, indices: tuple[Tensor, ...]) -> Tensor:
    """Whether any index is out of range."""
    wrong = [jnp.any(outside(i, size)) for i, size in zip(indices, x.shape, strict=False)]
    return jnp.any(jnp.stack(wrong))


@gather_nd.checked(IndexRangeError, OUT_OF_RANGE)
def gather_nd_outside(x: Tensor, *indices: Tensor) -> Tensor:
    """Whether any index is out of range."""
    return any_outside(x, indices)


@gather_nd.gradient
def gather_nd_gradient(g: Backward) -> dict[str, AddInto]:
    """The cotangent, added to the slices of zeros that were taken."""
    grad, indices = g.out_grad, g.inputs["indices"]
    return {"x": AddInto(lambda total: one("scatter_nd_add", total, grad, *indices))}


@op(
    examples=(
        "x=f32[3,4,2] updates=f32[5,2] indices=i32[5] indices=i32[5]",
        "x=f32[b,3,4] updates=f32[b,2,4] indices=i64[b,1] indices=i64[2]",
        "x=f64[2,3] updates=f64[] indices=i32[] indices=i32[]",
        "x=f32[2,3] updates=f32[0] indices=i32[0] indices=i32[0]",
    )
)
def scatter_nd_add(x: Tensor, updates: Tensor, *indices: Tensor) -> Tensor:
    """An array with updates added to slices of it: the adjoint of `gather_nd`.

        out = x; then for each i: out[indices[0][*i], indices[1][*i], ..., ...] += updates[*i, ...]

    Inputs:
        x: number[*indexed, *rest].
        updates: number[*chosen, *rest], the type of `gather_nd(x, *indices)`.
        indices: int, one for each of the first axes; they broadcast. Repeated ones add up.

    Outputs:
        out: number[*indexed, *rest].

    Raises:
        ShapeError: The indices do not fit, or the updates have another shape.
        DTypeError: An index is no integer, or the updates have another dtype.
        IndexRangeError: In a run, an index is out of range.
    """
    if x.size == 0 or updates.size == 0:
        return x
    return x.at[_positions(x, indices)].add(updates, mode="promise_in_bounds")


@scatter_nd_add.infer
def infer_scatter_nd_add(
    context: Context, x: TensorType, updates: TensorType, *indices: TensorType
) -> TensorType:
    """The type of `x`."""
    check_update(context, updates, gathered(context, x, indices))
    return x


@scatter_nd_add.checked(IndexRangeError, OUT_OF_RANGE)
def scatter_nd_add_outside(x: Tensor, updates: Tensor, *indices: Tensor) -> Tensor:
    """Whether any index is out of range."""
    del updates
    return any_outside(x, indices)


@scatter_nd_add.gradient
def scatter_nd_add_gradient(g: Backward) -> dict[str, Any]:
    """`x` receives the cotangent, the updates what is taken of it."""
    grads = {"x": g.out_grad}
    if g.wants("updates"):
        grads["updates"] = one("gather_nd", g.out_grad, *g.inputs["indices"])
    return grads


