"""Reductions along some or all axes: sums, products, means, extremes, logic."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import HIGHEST, LOWEST, normalize_axes
from braces.define.axes.axis_rules import Reduction
from braces.define.decorator import Axes, Tensor, op
from braces.dims import Shape, product
from braces.dtypes import FLOAT32
from braces.ir.records import Op
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.row_semantics import RowView
from braces.ops.common.rules import (
    Backward,
    as_floating,
    axis_indices,
    float_dtype,
    ordered,
    promote,
    promotion_rule,
    real_valued,
    sum_dtype,
    truth,
)
from braces.ops.elementwise.arithmetic import cast_like

REDUCED = (
    "x=f32[2,3]",
    "x=f32[b,4,t] axis=(0,-1)",
    "x=f64[b,4] axis=1 keepdims=True",
    "x=f32[]",
    "x=f32[0,3] axis=1",
)
NOT_EMPTY = (*REDUCED, "x=i32[2,3] axis=0")
EMPTY = (*NOT_EMPTY, "x=f32[0,3] axis=0", "x=bool[b,2] axis=1")

# ---- shapes and dtypes -----------------------------------------------------------------------

sum_dtypes = promotion_rule(
    "", sum_dtype, "Floats keep their dtype; integers and bools give 64-bit integers."
)


def remove_axes(shape: Shape, axes: Iterable[int], keepdims: bool) -> Shape:
    """Return a shape without some axes, or with size 1 there."""
    removed = set(axes)
    if keepdims:
        return tuple(1 if i in removed else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in removed)


# ---- undoing a reduction ---------------------------------------------------------------------


def restore_axes(x: Tensor, axis: Axes, keepdims: bool, rank: int) -> Tensor:
    """Restore the reduced axes of a result with size 1; for kernels."""
    return x if keepdims else jnp.expand_dims(x, axis_indices(axis, rank, "x"))


def broadcast_cotangent(g: Backward, grad: Var) -> Var:
    """Broadcast a cotangent along the reduced axes."""
    x = tensor_type(g["x"])
    axes = axis_indices(g.attrs["axis"], x.rank, "x")
    if axes and not g.attrs["keepdims"]:
        grad = emit("reshape", grad, shape=remove_axes(x.shape, axes, keepdims=True))
    return emit("broadcast_to", grad, shape=x.shape)


def count_elements(g: Backward) -> Var:
    """Return the number of reduced elements; in float32 at least, for precision."""
    x = tensor_type(g["x"])
    axes = axis_indices(g.attrs["axis"], x.rank, "x")
    total, dtype = product(tuple(x.shape[i] for i in axes)), promote(x.dtype, FLOAT32)
    if isinstance(total, int):
        return emit("full", shape=(), value=float(total), dtype=dtype)
    return emit("size", value=total, dtype=dtype)


# ---- sums and products -----------------------------------------------------------------------


@op(axes={"x": 0}, dtypes=sum_dtypes, product=True, examples=EMPTY)
def sum(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum along axes; 0 for no elements.

    out = sum_i x[..., i, ...]
    """
    return jnp.sum(x, axis=axis, keepdims=keepdims, dtype=sum_dtype(x.dtype))


@sum.gradient
def sum_gradient(g: Backward) -> dict[str, Var]:
    """Each summand receives the cotangent."""
    return {"x": broadcast_cotangent(g, g.out_grad)}


@op(axes={"x": 0}, dtypes=real_valued, examples=EMPTY)
def mean(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean along axes; NaN for no elements.

        out = sum_i x[..., i, ...] / n

    Outputs:
        out: float[*rest]; integers and bools give float32.
    """
    return jnp.mean(as_floating(x), axis=axis, keepdims=keepdims)


@mean.gradient
def mean_gradient(g: Backward) -> dict[str, Var]:
    """Each element receives the cotangent divided by the number of elements."""
    share = cast_like(g.out_grad / count_elements(g), g.out_grad)
    return {"x": broadcast_cotangent(g, share)}


@mean.masked
def mean_of_rows(view: RowView, x: Var, mask: Var) -> Op:
    """Mean over a masked batch axis: the sum divided by the number of real batch elements.

    Computed in float32 at least, as 16-bit floats overflow.
    """
    attrs, dtype = view.op.attrs, float_dtype(x.dtype)
    wide = promote(dtype, FLOAT32)
    summed = x if dtype == wide else emit("cast", x, dtype=wide)
    total = emit("sum", summed, axis=attrs["axis"], keepdims=attrs["keepdims"])
    rows = emit("sum", emit("cast", mask, dtype=wide))
    for axis in normalize_axes(attrs["axis"], x.ndim):
        size = x.shape[axis]
        real = axis in view.axes("x")
        total = total / (rows if real else emit("size", value=size, dtype=wide))
    return view.op.with_(type="cast", inputs={"x": (total.name,)}, attrs={"dtype": dtype})


@op(axes={"x": 1}, dtypes=sum_dtypes, examples=EMPTY)
@in_float32
def prod(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The product along axes; 1 for no elements.

        out = prod_i x[..., i, ...]

    The gradient is exact even if factors are zero.
    """
    return jnp.prod(x, axis=axis, keepdims=keepdims, dtype=sum_dtype(x.dtype))


# ---- extremes --------------------------------------------------------------------------------


@op(axes=Reduction({"x": LOWEST}, True), dtypes=ordered, examples=NOT_EMPTY)
def max(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The maximum along axes; NaN if an element is NaN.

        out = max_i x[..., i, ...]

    Equal largest numbers share the cotangent evenly.
    """
    return jnp.max(x, axis=axis, keepdims=keepdims)


@max.vjp
def max_vjp(
    x: Tensor, out: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """Split the cotangent evenly between equal maxima."""
    return split_cotangent(x, out, out_grad, axis, keepdims)


@op(axes=Reduction({"x": HIGHEST}, True), dtypes=ordered, examples=NOT_EMPTY)
def min(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The minimum along axes; NaN if an element is NaN.

        out = min_i x[..., i, ...]

    Equal smallest numbers share the cotangent evenly.
    """
    return jnp.min(x, axis=axis, keepdims=keepdims)


@min.vjp
def min_vjp(
    x: Tensor, out: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """Split the cotangent evenly between equal minima."""
    return split_cotangent(x, out, out_grad, axis, keepdims)


def split_cotangent(
    x: Tensor, out: Tensor, out_grad: Tensor, axis: Axes, keepdims: bool
) -> Tensor:
    """Split the cotangent evenly between the elements equal to the result."""
    out = restore_axes(out, axis, keepdims, x.ndim)
    out_grad = restore_axes(out_grad, axis, keepdims, x.ndim)
    chosen = (x == out).astype(x.dtype)
    return chosen * (out_grad / jnp.sum(chosen, axis=axis, keepdims=True))


@op(axes={"x": False}, dtypes=truth, differentiable=False, examples=EMPTY)
def any(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Logical or along axes; false for no elements.

        out = x[..., 0, ...] or x[..., 1, ...] or ...

    Inputs:
        x: any[*shape]; all numbers but zero are true.
    """
    return jnp.any(x.astype(np.bool_), axis=axis, keepdims=keepdims)


@op(axes={"x": True}, dtypes=truth, differentiable=False, examples=EMPTY)
def all(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Logical and along axes; true for no elements.

        out = x[..., 0, ...] and x[..., 1, ...] and ...

    Inputs:
        x: any[*shape]; all numbers but zero are true.
    """
    return jnp.all(x.astype(np.bool_), axis=axis, keepdims=keepdims)
