"""Products of matrices, tensors and vectors; transposes."""

from __future__ import annotations

from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    normalize_axis,
    numbered_indices,
)
from braces.define.decorator import Order, Tensor, op
from braces.dims import Shape
from braces.lazy import jnp
from braces.ops.common.rules import Backward, first_dtype, numeric, promote_arrays, sum_to
from braces.ops.elementwise.arithmetic import cast_like

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# ---- transposes ------------------------------------------------------------------------------


def transpose_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `transpose`: the axes in their new order."""
    indices = numbered_indices(first_rank(types))
    out = tuple([indices[a] for a in normalize_order(attrs["axes"], len(indices))])
    return make_axis_map(types, {"x": (indices,)}, {"out": (out,)})


@op(
    axes=transpose_axes,
    dtypes=first_dtype,
    cheap=True,
    changes_only="axes",
    examples=(
        "x=f32[2,3]",
        "x=f32[b,3,4] axes=(0,2,1)",
        "x=f64[b,t,2] axes=(-1,0,1)",
        "x=f32[]",
    ),
)
def transpose(x: Tensor, *, axes: Order = None) -> Tensor:
    """Permute the axes of an array.

        out[i_axes[0], i_axes[1], ...] = x[i_0, i_1, ...]

    Inputs:
        x: any[*shape].

    Attributes:
        axes: The axis of `x` for each axis of the result; `None` reverses their order.

    Outputs:
        out: any[shape[axes[0]], shape[axes[1]], ...].

    Raises:
        ShapeError: If `axes` is not a permutation.
    """
    return jnp.transpose(x, axes)


def normalize_order(axes: Any, rank: int) -> tuple[int, ...]:
    """Normalize the axes of a transpose to a permutation of nonnegative numbers."""
    if axes is None:
        return tuple(reversed(range(rank)))
    permutation = tuple([normalize_axis(axis, rank) for axis in axes])
    if sorted(permutation) != list(range(rank)):
        raise AxisError(f"expected each of {rank} axes once in `axes`.", given=f"axes={axes}")
    return permutation


@transpose.gradient
def transpose_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent with the inverse permutation."""
    axes = normalize_order(g.attrs["axes"], g.out_grad.ndim)
    inverse = tuple(axes.index(i) for i in range(len(axes)))
    return {"x": emit("transpose", g.out_grad, axes=inverse)}


@op(
    axes="... i j -> ... j i",
    dtypes=first_dtype,
    cheap=True,
    changes_only="axes",
    examples=("x=f32[2,3]", "x=f32[b,3,4]", "x=f64[2,t]", "x=f32[0,2]"),
)
def matrix_transpose(x: Tensor) -> Tensor:
    """Transpose matrices: exchange the last two axes.

        out[..., j, i] = x[..., i, j]

    Inputs:
        x: any[..., m, n].

    Outputs:
        out: any[..., n, m].

    Raises:
        ShapeError: If `x` has rank below 2.
    """
    return jnp.matrix_transpose(x)


matrix_transpose.gradient(lambda g: {"x": emit("matrix_transpose", g.out_grad)})


# ---- matrix products -------------------------------------------------------------------------


def matmul_axes(types: Types, attrs: Attrs) -> str:
    """Axis map of `matmul`: contract the last axis of x with the second last of y."""
    del attrs
    ranks = [first_rank(types, slot) for slot in ("x", "y")]
    if 0 in ranks:
        raise AxisError("expected arrays of rank 1 or more, got a scalar.", fix="Use `*`.")
    row, column = (rank == 1 for rank in ranks)
    if row and column:
        return "k, k ->"
    if row:
        return "k, ... k j -> ... j"
    return "... i k, k -> ... i" if column else "... i k, ... k j -> ... i j"


@op(
    axes=matmul_axes,
    dtypes=numeric,
    costly=True,
    product=True,
    examples=(
        "x=f32[2,3] y=f32[3,4]",
        "x=f32[b,3] y=f32[3,4]",
        "x=f64[b,t,3] y=f64[3,2]",
        "x=f32[b,2,3] y=f32[b,3,2]",
        "x=f32[5,1,2,3] y=f32[2,3,2]",
        "x=f32[3] y=f32[3]",
        "x=f64[3] y=f64[b,3,2]",
        "x=f64[b,2,3] y=f64[3]",
        "x=f32[0,3] y=f32[3,2]",
        "x=f32[2,0] y=f32[0,2]",
        "x=i64[2,3] y=i64[3,2]",
    ),
)
def matmul(x: Tensor, y: Tensor) -> Tensor:
    """The matrix product; axes before the last two are a batch and broadcast.

        out[..., i, j] = sum_k x[..., i, k] * y[..., k, j]

    An input with one axis is a row (`x`) or a column (`y`); the result does not have its axis.

    Inputs:
        x: number[..., m, k] or number[k].
        y: number[..., k, n] or number[k].

    Outputs:
        out: number[..., m, n] in the promoted dtype, without the axes of vectors.

    Raises:
        ShapeError: If the contracted sizes differ, the batch axes do not broadcast, or an
            operand is a scalar.
        DTypeError: If both operands are bool.
    """
    return jnp.matmul(*promote_arrays(x, y))


@matmul.gradient
def matmul_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = out_grad @ y^T; y_grad = x^T @ out_grad, summed over broadcast axes."""
    x, y = tensor_type(g["x"]), tensor_type(g["y"])
    rows = reshape_to(cast_like(g["x"], g["out"]), (1, *x.shape) if x.rank == 1 else x.shape)
    columns = reshape_to(cast_like(g["y"], g["out"]), (*y.shape, 1) if y.rank == 1 else y.shape)
    out_grad = reshape_to(g.out_grad, with_vectors(g.out_grad.shape, x.rank, y.rank))
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grad = emit("matmul", out_grad, emit("matrix_transpose", columns))
        grads["x"] = reshape_to(sum_to(grad, rows), x.shape)
    if g.wants("y"):
        if y.rank <= 2 < rows.ndim:
            *left, i, j = LETTERS[: rows.ndim + 1]
            batch = "".join(left)
            grad = emit("einsum", rows, out_grad, equation=f"{batch}{i},{batch}{j}->{i}{j}")
        else:
            grad = emit("matmul", emit("matrix_transpose", rows), out_grad)
        grads["y"] = reshape_to(sum_to(grad, columns), y.shape)
    return {slot: cast_like(grad, g[slot]) for slot, grad in grads.items()}


def with_vectors(shape: Shape, x_rank: int, y_rank: int) -> Shape:
    """Return the shape of a product with size 1 for the missing axes of vectors."""
    if y_rank == 1:
        shape = (*shape, 1)
    return (*shape[:-1], 1, shape[-1]) if x_rank == 1 else shape


def reshape_to(x: Var, shape: Shape) -> Var:
    """Reshape `x`, unless it has the shape already."""
    return x if x.shape == shape else emit("reshape", x, shape=shape)


# ---- products of tensors ---------------------------------------------------------------------


def dot_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `dot`: all axes of both, except the contracted ones."""
    del attrs
    x, y = (first_rank(types, slot) for slot in ("x", "y"))
    at = max(y - 2, 0)
    return contraction_axes(types, (x - 1,) if x and y else (), (at,) if x and y else ())


def contraction_axes(types: Types, left: tuple[int, ...], right: tuple[int, ...]) -> AxisMap:
    """Build the axis map of a contraction of `left` axes of x with `right` axes of y."""
    x, y = (list(numbered_indices(first_rank(types, slot), slot)) for slot in ("x", "y"))
    for i, j in zip(left, right, strict=True):
        y[j] = x[i]
    shared = {x[i] for i in left}
    out = tuple(index for index in (*x, *y) if index not in shared)
    return make_axis_map(types, {"x": (tuple(x),), "y": (tuple(y),)}, {"out": (out,)})


@op(
    axes=dot_axes,
    dtypes=numeric,
    product=True,
    examples=(
        "x=f32[3] y=f32[3]",
        "x=f32[b,3] y=f32[3,4]",
        "x=f64[2,3] y=f64[t,3,2]",
        "x=f32[] y=f32[b,2]",
        "x=f32[2,3] y=f32[3]",
        "x=f32[0] y=f32[0]",
    ),
)
def dot(x: Tensor, y: Tensor) -> Tensor:
    """The product over the last axis of x and the second last of y, as `numpy.dot`.

        out[..., ...] = sum_k x[..., k] * y[..., k, n]

    For matrices it is the matrix product, for vectors the inner product. With more axes there
    is no batch: the result has all axes of both. A scalar multiplies.

    Inputs:
        x: number[*left, k] or number[].
        y: number[*right, k, n], number[k] or number[].

    Outputs:
        out: number[*left, *right, n] in the promoted dtype.

    Raises:
        ShapeError: If the contracted sizes differ.
        DTypeError: If both operands are bool.
    """
    return jnp.dot(*promote_arrays(x, y))


@dot.gradient
def dot_gradient(g: Backward) -> dict[str, Var]:
    """The gradient of the einsum over the same axes."""
    x, y = tensor_type(g["x"]).rank, tensor_type(g["y"]).rank
    at = max(y - 2, 0)
    return contraction_gradient(g, (x - 1,) if x and y else (), (at,) if x and y else ())


def contraction_gradient(
    g: Backward, left: tuple[int, ...], right: tuple[int, ...]
) -> dict[str, Var]:
    """Return the gradient of a contraction of `left` axes of x with `right` axes of y."""
    x = list(LETTERS[: tensor_type(g["x"]).rank])
    y = list(LETTERS[len(x) : len(x) + tensor_type(g["y"]).rank])
    for i, j in zip(left, right, strict=True):
        y[j] = x[i]
    contracted = {x[i] for i in left}
    out = [letter for letter in (*x, *y) if letter not in contracted]
    labels = {"x": "".join(x), "y": "".join(y)}
    grads: dict[str, Var] = {}
    for slot, other_slot in (("x", "y"), ("y", "x")):
        if g.wants(slot):
            equation = f"{''.join(out)},{labels[other_slot]}->{labels[slot]}"
            grads[slot] = cast_like(
                emit("einsum", g.out_grad, g[other_slot], equation=equation), g[slot]
            )
    return grads


def outer_axes(types: Types, attrs: Attrs) -> str:
    """Axis map of `outer`: rows from x, columns from y."""
    del attrs
    if any(first_rank(types, slot) != 1 for slot in ("x", "y")):
        raise AxisError("expected two vectors.", fix="Use reshape, or `*` with broadcasting.")
    return "i, j -> i j"


@op(
    axes=outer_axes,
    dtypes=numeric,
    product=True,
    examples=(
        "x=f32[2] y=f32[3]",
        "x=f32[b] y=f32[4]",
        "x=f64[2] y=f64[0]",
        "x=i64[2] y=i64[2]",
    ),
)
def outer(x: Tensor, y: Tensor) -> Tensor:
    """The outer product of two vectors.

        out[i, j] = x[i] * y[j]

    Inputs:
        x: number[m].
        y: number[n].

    Outputs:
        out: number[m, n] in the promoted dtype.

    Raises:
        ShapeError: If an operand is not a vector.
        DTypeError: If both operands are bool.
    """
    return jnp.outer(*promote_arrays(x, y))


@outer.gradient
def outer_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = out_grad @ y; y_grad = x @ out_grad."""
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grads["x"] = cast_like(emit("matmul", g.out_grad, g["y"]), g["x"])
    if g.wants("y"):
        grads["y"] = cast_like(emit("matmul", g["x"], g.out_grad), g["y"])
    return grads


def tensordot_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `tensordot`: all axes of both, except the last of x and the first of y."""
    rank, axes = first_rank(types, "x"), int(str(attrs["axes"]))
    most = min(rank, first_rank(types, "y"))
    if not 0 <= axes <= most:
        raise AxisError(f"cannot contract {axes} axes.", fix=f"Use axes from 0 to {most}.")
    return contraction_axes(types, tuple(range(rank - axes, rank)), tuple(range(axes)))


@op(
    axes=tensordot_axes,
    dtypes=numeric,
    costly=True,
    function=False,
    product=True,
    examples=(
        "x=f32[2,3] y=f32[3,4] axes=1",
        "x=f32[b,2,3] y=f32[2,3,4]",
        "x=f64[b] y=f64[2] axes=0",
        "x=f32[0,2] y=f32[0,2]",
    ),
)
def tensordot(x: Tensor, y: Tensor, *, axes: int = 2) -> Tensor:
    """The contraction of the last axes of x with the first axes of y.

        out[i, j] = sum_k x[i, k] * y[k, j], where i, j and k stand for several axes

    Inputs:
        x: number[*left, *inner].
        y: number[*inner, *right].

    Attributes:
        axes: The number of contracted axes.

    Outputs:
        out: number[*left, *right] in the promoted dtype.

    Raises:
        ShapeError: If the contracted sizes differ, or the rank is too small.
        DTypeError: If both operands are bool.
    """
    x, y = promote_arrays(x, y)
    return jnp.tensordot(x, y, axes)


@tensordot.gradient
def tensordot_gradient(g: Backward) -> dict[str, Var]:
    """The gradient of the einsum over the same axes."""
    rank, axes = tensor_type(g["x"]).rank, g.attrs["axes"]
    return contraction_gradient(g, tuple(range(rank - axes, rank)), tuple(range(axes)))
