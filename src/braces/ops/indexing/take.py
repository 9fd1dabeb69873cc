"""Gather and scatter-add along one axis, by indices that are values of the program.

`take` (gather) and `scatter_add` are adjoints of each other, so the pair is closed under
differentiation of any order. An index out of range is an error at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Names,
    Types,
    first_rank,
    make_axis_map,
    normalize_axis,
    numbered_indices,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.core.check_code import encode_offender
from braces.define.decorator import Axis, Indices, Tensor, op
from braces.dims import Size
from braces.dtypes import FLOAT32, DType, TensorType, is_float, is_integer
from braces.errors import DTypeError, IndexRangeError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import add_at
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.rules import AddInto, Backward

OUT_OF_RANGE = "An index is out of range."
IN_RANGE: Any = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
"""Options of JAX's indexing for positions that are known to be in bounds."""

# ---- indices ---------------------------------------------------------------------------------


def check_integers(what: str, *indices: DType) -> None:
    """Check that indices have integer dtypes.

    Raises:
        DTypeError: If a dtype is not an integer dtype.
    """
    for dtype in indices:
        if not is_integer(dtype):
            raise DTypeError(
                f"{what}: expected integer indices, got {dtype}.",
                fix="Choose with br.where or a row-wise br.create_if_else."
                if dtype.kind == "b"
                else "Use br.cast(indices, 'int64').",
            )


def out_of_range_code(indices: Indices, size: Any, lowest: Any = None) -> Tensor:
    """Return the check failure code of indices out of range; negative ones count from the end.

    A data-dependent size is an array, or a symbol during export.
    """
    wide = indices.astype(jnp.uint64 if indices.dtype.kind == "u" else jnp.int64)
    wrong = wide >= _as_index_dtype(size, wide)
    if indices.dtype.kind != "u":
        wrong |= wide < _as_index_dtype(-size if lowest is None else lowest, wide)
    return encode_offender(wrong, indices)


def _as_index_dtype(size: Any, indices: Indices) -> Any:
    is_static = isinstance(size, int)
    return np.asarray(size, indices.dtype) if is_static else jnp.asarray(size, indices.dtype)


def to_positions(indices: Indices, size: Any) -> Tensor:
    """Convert indices to positions within an axis; indices out of range are clipped."""
    small = isinstance(size, int) and size < 2**31
    narrow = indices.astype(jnp.int32 if small else jnp.int64)
    if indices.dtype.kind != "u":
        narrow = jnp.where(narrow < 0, narrow + _as_index_dtype(size, narrow), narrow)
    last = jnp.maximum(_as_index_dtype(size - 1, narrow), 0)
    return jnp.clip(narrow, 0, max(size - 1, 0) if small else last).astype(narrow.dtype)


def take_dtype(what: str, x: DType, indices: DType, **attrs: Any) -> DType:
    """Dtype rule: the dtype of the array; the indices are integers.

    Raises:
        DTypeError: If the indices are not integers, or array and indices are exchanged.
    """
    del attrs
    if is_integer(x) and is_float(indices):
        raise DTypeError(
            f"{what}: expected integer indices, got {indices} for an input of {x}.",
            fix="Check the order of arguments: br.take(x, indices, axis).",
        )
    check_integers(what, indices)
    return x


def update_dtype(what: str, x: DType, update: DType) -> DType:
    """Return the dtype of an array, which its update must have, too.

    Raises:
        DTypeError: If the update has a different dtype.
    """
    if update != x:
        raise DTypeError(
            f"{what}: expected an update of dtype {x}, got {update}.",
            fix="Use br.cast on it.",
        )
    return x


def describe_update(
    types: Types, named: Mapping[str, Sequence[Names]], part: Names
) -> Mapping[str, Callable[[], str]]:
    """Return a description of the expected type of `updates`, for error messages."""

    def wanted() -> str:
        sizes: dict[str, Size] = {}
        for slot, slot_axes in named.items():
            for indices, type_ in zip(slot_axes, types[slot], strict=True):
                pairs = zip(indices, shape_of(type_), strict=True)
                sizes |= {index: size for index, size in pairs if size != 1}
        shape, x = tuple(sizes.get(index, 1) for index in part), types["x"][0]
        assert isinstance(x, TensorType)
        return f"an update of the type {x.with_shape(shape)}"

    return {"updates": wanted}


# ---- slices ----------------------------------------------------------------------------------


def take_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of take: the axes of the indices replace the indexed axis."""
    x, part, indices, mixed = _axes_of_take(types, attrs)
    inputs = {"x": (x,), "indices": (indices,)}
    return make_axis_map(types, inputs, {"out": (part,)}, mixed)


def scatter_add_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of scatter-add: as `taking`, with updates."""
    x, part, indices, mixed = _axes_of_take(types, attrs)
    indexed = {"x": (x,), "indices": (indices,)}
    wanted, inputs = describe_update(types, indexed, part), indexed | {"updates": (part,)}
    return make_axis_map(types, inputs, {"out": (x,)}, mixed, {"updates": 0}, wanted=wanted)


def _axes_of_take(types: Types, attrs: Attrs) -> tuple[Names, Names, Names, Names]:
    """Return the axes of the array, of the slices and of the indices, and the indexed axes."""
    x, axis = numbered_indices(first_rank(types, "x")), attrs["axis"]
    indices = numbered_indices(first_rank(types, "indices"), "index")
    if axis is None:
        return x, indices, indices, x
    at = normalize_axis(axis, len(x))
    return x, (*x[:at], *indices, *x[at + 1 :]), indices, (x[at],)


@op(
    axes=take_axis_map,
    dtypes=take_dtype,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[5,3] indices=i32[4] axis=0",
        "x=f32[b,3] indices=i64[] axis=1",
        "x=f32[3,b] indices=i32[t,2] axis=0",
        "x=f64[2,3,4] indices=i64[2] axis=-2",
        "x=f64[2,3] indices=i32[4]",
        "x=f32[3,2] indices=u8[b] axis=0",
        "x=f32[0,3] indices=i32[2] axis=1",
        "x=f32[3,2] indices=i32[0] axis=0",
    ),
)
def take(x: Tensor, indices: Indices, *, axis: Axis | None = None) -> Tensor:
    """Gather: slices of an array along one axis, by index.

        out[..., *i, ...] = x[..., indices[*i], ...]

    Inputs:
        x: any[*shape].
        indices: int[*chosen]; negative ones count from the end.

    Attributes:
        axis: The axis that is indexed; by default `x` is flattened.

    Outputs:
        out: any; `chosen` replaces the axis.

    Raises:
        ShapeError: If the axis is out of range.
        DTypeError: If the indices are not integers.
        IndexRangeError: If an index is out of range at run time.
    """
    x, at = (jnp.ravel(x), 0) if axis is None else (x, axis % x.ndim)
    size = x.shape[at]
    if size == 0:
        return jnp.zeros((*x.shape[:at], *indices.shape, *x.shape[at + 1 :]), x.dtype)
    positions = to_positions(indices, size)
    if indices.ndim == 0:
        return lax.dynamic_index_in_dim(x, positions, at, keepdims=False)
    leading = (slice(None),) * at
    return x.at[(*leading, positions)].get(**IN_RANGE)


@take.checked(IndexRangeError, OUT_OF_RANGE)
def take_outside(x: Tensor, indices: Indices, *, axis: Axis | None = None) -> Tensor:
    """Run-time check: an index is out of range."""
    return out_of_range_code(indices, x.size if axis is None else x.shape[axis])


@take.gradient
def take_gradient(g: Backward) -> dict[str, AddInto]:
    """Gradient of take: scatter-add the cotangent into zeros."""
    indices, axis = g["indices"], g.attrs["axis"]

    def add_into(total: Var, grad: Var) -> Var:
        return emit("scatter_add", total, indices, grad, axis=axis)

    return {"x": AddInto(g.out_grad, add_into)}


def scatter_add_dtype(
    what: str, x: DType, indices: DType, updates: DType, **attrs: Any
) -> DType:
    """Dtype rule: the common dtype of array and updates; the indices are integers."""
    return update_dtype(what, take_dtype(what, x, indices, **attrs), updates)


@op(
    axes=scatter_add_axis_map,
    dtypes=scatter_add_dtype,
    adds_to=("x",),
    operations=count_per_element("updates"),
    examples=(
        "x=f32[5,3] indices=i32[4] updates=f32[4,3]",
        "x=f32[b,3] indices=i64[] updates=f32[b] axis=1",
        "x=f32[3,b] indices=i32[t,2] updates=f32[t,2,b] axis=0",
        "x=f64[2,3] indices=i32[4] updates=f64[4] axis=None",
        "x=i32[3,2] indices=i32[b] updates=i32[b,2]",
        "x=f32[3,2] indices=i32[0] updates=f32[0,2]",
        "x=f32[0,3] indices=i32[2] updates=f32[0,2] axis=1",
    ),
)
def scatter_add(
    x: Tensor, indices: Indices, updates: Tensor, *, axis: Axis | None = 0
) -> Tensor:
    """Scatter-add: updates added to slices of an array; the adjoint of `take`.

        out = x; then for each i: out[..., indices[*i], ...] += updates[..., *i, ...]

    16-bit floats accumulate in float32 and are rounded once.

    Inputs:
        x: number[*shape].
        indices: int[*chosen]; negative ones count from the end, repeated ones accumulate.
        updates: The type of `take(x, indices, axis)`.

    Attributes:
        axis: The axis that is indexed; `None` flattens `x`.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: If the axis is out of range, or the updates have a different shape.
        DTypeError: If the indices are not integers, or the updates have a different dtype.
        IndexRangeError: If an index is out of range at run time.
    """
    if axis is None:
        return _scatter(jnp.ravel(x), indices, updates, 0).reshape(x.shape)
    return _scatter(x, indices, updates, axis % x.ndim)


def _scatter(x: Tensor, indices: Indices, updates: Tensor, axis: int) -> Tensor:
    if x.size == 0 or updates.size == 0:
        return x
    positions = to_positions(indices, x.shape[axis])
    if indices.ndim == 0:
        total = lax.dynamic_index_in_dim(x, positions, axis) + jnp.expand_dims(updates, axis)
        return lax.dynamic_update_index_in_dim(x, total, positions, axis)
    leading = (slice(None),) * axis
    return add_at(x, (*leading, positions), updates, **IN_RANGE)


@scatter_add.checked(IndexRangeError, OUT_OF_RANGE)
def scatter_add_outside(
    x: Tensor, indices: Indices, updates: Tensor, *, axis: Axis | None = 0
) -> Tensor:
    """Run-time check: an index is out of range."""
    del updates
    return out_of_range_code(indices, x.size if axis is None else x.shape[axis])


@scatter_add.gradient
def scatter_add_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent, the updates its slices."""
    grads = {"x": g.out_grad}
    if g.wants("updates"):
        grads["updates"] = emit("take", g.out_grad, g["indices"], axis=g.attrs["axis"])
    return grads


def embedding_axis_map(types: Types, attrs: Attrs) -> str:
    """Axis map of embedding: the rows of the table are gathered."""
    del attrs
    if first_rank(types, "table") != 2:
        raise AxisError(
            f"expected a table of rank 2, got {types['table'][0]}.",
            fix="Use br.take for other arrays.",
        )
    return "row! i, ... -> ... i"


@op(
    axes=embedding_axis_map,
    dtypes=take_dtype,
    function=False,
    operations=0,
    picks=("table",),
    examples=(
        "table=f32[5,3] ids=i32[b,t]",
        "table=f64[5,3] ids=i64[4]",
        "table=f32[3,2] ids=i32[]",
        "table=f32[3,2] ids=i32[0]",
    ),
)
def embedding(table: Tensor, ids: Indices) -> Tensor:
    """Embedding lookup: rows of a table, by id.

        out[*i, :] = table[ids[*i], :]

    Inputs:
        table: any[rows, width].
        ids: int[*shape]. From 0 to `rows - 1`; negative ids are errors.

    Outputs:
        out: any[*shape, width].

    Raises:
        ShapeError: If the table is not a matrix.
        DTypeError: If the ids are not integers.
        IndexRangeError: If an id is out of range at run time.
    """
    return take.kernel(table, ids, axis=0)


@embedding.checked(IndexRangeError, "An embedding id is out of range.")
def embedding_outside(table: Tensor, ids: Indices) -> Tensor:
    """Run-time check: an id is no row of the table."""
    return out_of_range_code(ids, table.shape[0], lowest=0)


@embedding.gradient
def embedding_gradient(g: Backward) -> dict[str, AddInto]:
    """Gradient of embedding: scatter-add the cotangent into a table of zeros."""
    ids = g["ids"]

    def add_into(total: Var, grad: Var) -> Var:
        return emit("scatter_add", total, ids, grad, axis=0)

    return {"table": AddInto(g.out_grad, add_into)}


def one_hot_axis_map(types: Types, attrs: Attrs) -> str:
    """Axis map of one-hot: a new last axis of classes."""
    del types
    count = attrs["num_classes"]
    if isinstance(count, int) and count < 0:
        raise AxisError(f"negative num_classes={count}.")
    return "... -> ... num_classes!"


def one_hot_dtype(what: str, ids: DType, *, dtype: DType, **attrs: Any) -> DType:
    """Dtype rule: the attribute `dtype`; the ids are integers."""
    del attrs
    check_integers(what, ids)
    return dtype


@op(
    axes=one_hot_axis_map,
    dtypes=one_hot_dtype,
    differentiable=False,
    operations=1,
    examples=(
        "ids=i32[4] num_classes=5",
        "ids=i64[b,t] num_classes=3 dtype=f64",
        "ids=i32[] num_classes=2 dtype=bool",
        "ids=i32[0] num_classes=4 dtype=i64",
    ),
)
def one_hot(ids: Indices, *, num_classes: Size, dtype: DType = FLOAT32) -> Tensor:
    """One-hot encoding: one at the position of each id, zeros elsewhere; no gradient.

        out[*i, k] = 1 if k == ids[*i] else 0

    Inputs:
        ids: int[*shape]. From 0 to `num_classes - 1`; negative ids are errors.

    Attributes:
        num_classes: The size of the new last axis; may be symbolic.
        dtype: The dtype of the result.

    Outputs:
        out: dtype[*shape, num_classes].

    Raises:
        DTypeError: If the ids are not integers.
        IndexRangeError: If an id is out of range at run time.
    """
    wide = ids.astype(jnp.uint64 if ids.dtype.kind == "u" else jnp.int64)
    return (wide[..., None] == jnp.arange(num_classes, dtype=wide.dtype)).astype(dtype)


@one_hot.checked(IndexRangeError, "A one-hot id is out of range.")
def one_hot_outside(ids: Indices, *, num_classes: Size, dtype: DType = FLOAT32) -> Tensor:
    """Run-time check: an id is no class."""
    del dtype
    return out_of_range_code(ids, int(num_classes), lowest=0)


register_linear(take, scatter_add, embedding)
