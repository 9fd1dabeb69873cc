"""Reductions: one number from many, along some axes or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from braces.builder.append import apply, one
from braces.builder.var import Var, tensor_type
from braces.define.axes import (
    HIGHEST,
    LOWEST,
    Reduced,
    of_exponentials,
    operated_axes,
    reduced_mixing,
)
from braces.define.decorator import Axes, Tensor, op
from braces.dims import Shape, product
from braces.dtypes import FLOAT32
from braces.ir.records import Op
from braces.lazy import jax, jnp
from braces.ops.elementwise import in_dtype
from braces.ops.linear import VarSlots
from braces.ops.precision import in_float32
from braces.ops.row_rules import RowView
from braces.ops.rules import (
    Backward,
    axis_indices,
    float_dtype,
    floating,
    ordered,
    promote,
    promoting,
    real_function,
    real_valued,
    sum_dtype,
    truth,
)

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

summed = promoting(result=sum_dtype)


def without(shape: Shape, axes: Iterable[int], keepdims: bool) -> Shape:
    """A shape without some axes, or with size 1 there."""
    gone = set(axes)
    if keepdims:
        return tuple(1 if i in gone else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in gone)


# ---- undoing a reduction ---------------------------------------------------------------------


def expanded(x: Tensor, axis: Axes, keepdims: bool, rank: int) -> Tensor:
    """For kernels: the result of a reduction, with the axes that went back as size 1."""
    return x if keepdims else jnp.expand_dims(x, axis_indices(axis, rank, "x"))


def spread(g: Backward, grad: Var) -> Var:
    """A cotangent, repeated along the axes that were reduced."""
    x = tensor_type(g["x"])
    axes = axis_indices(g.attrs["axis"], x.rank, "x")
    if axes and not g.attrs["keepdims"]:
        grad = one("reshape", grad, shape=without(x.shape, axes, keepdims=True))
    return one("broadcast_to", grad, shape=x.shape)


def count(g: Backward) -> Var:
    """How many numbers made one; in float32 at least, for small floats cannot count far."""
    x = tensor_type(g["x"])
    axes = axis_indices(g.attrs["axis"], x.rank, "x")
    total, dtype = product(tuple(x.shape[i] for i in axes)), promote(x.dtype, FLOAT32)
    if isinstance(total, int):
        return one("full", shape=(), value=float(total), dtype=dtype)
    return one("size", value=total, dtype=dtype)


# ---- sums and products -----------------------------------------------------------------------


@op(axes={"x": 0}, dtypes=summed, examples=EMPTY)
def sum(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The sum along axes; 0 where there is nothing to add.

        out = sum_i x[..., i, ...]

    Inputs:
        x: number[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: Floats keep their dtype; integers and bools give 64-bit integers.

    Raises:
        ShapeError: `axis` is not an axis of `x`.
    """
    return jnp.sum(x, axis=axis, keepdims=keepdims, dtype=sum_dtype(x.dtype))


@sum.gradient
def sum_gradient(g: Backward) -> dict[str, Var]:
    """Each summand receives the cotangent."""
    return {"x": spread(g, g.out_grad)}


@op(axes={"x": 0}, dtypes=real_valued, examples=EMPTY)
def mean(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean along axes; NaN where there is nothing.

        out = sum_i x[..., i, ...] / n

    Inputs:
        x: number[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: float[*rest]; integers and bools give float32.

    Raises:
        ShapeError: `axis` is not an axis of `x`.
    """
    return jnp.mean(floating(x), axis=axis, keepdims=keepdims)


@mean.gradient
def mean_gradient(g: Backward) -> dict[str, Var]:
    """Each number receives its share of the cotangent."""
    share = in_dtype(g.out_grad / count(g), g.out_grad)
    return {"x": spread(g, share)}


@mean.masked
def mean_of_rows(view: RowView, x: Var, mask: Var) -> Op:
    """The sum of the rows over their number; in float32 at least, as small floats overflow."""
    (name,), attrs, dtype = view.op.inputs["x"], view.op.attrs, float_dtype(x.dtype)
    wide = promote(dtype, FLOAT32)
    summed = x if dtype == wide else one("cast", x, dtype=wide)
    total = one("sum", summed, axis=attrs["axis"], keepdims=attrs["keepdims"])
    rows = one("sum", one("cast", mask, dtype=wide))
    for axis in operated_axes(attrs["axis"], x.ndim):
        size = x.shape[axis]
        real = axis in view.axes(name)
        total = total / (rows if real else one("size", value=size, dtype=wide))
    return view.op.with_(type="cast", inputs={"x": (total.name,)}, attrs={"dtype": dtype})


@op(axes={"x": 1}, dtypes=summed, examples=EMPTY)
@in_float32
def prod(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The product along axes; 1 where there is nothing to multiply.

        out = prod_i x[..., i, ...]

    The gradient is right where factors are zero, too.

    Inputs:
        x: number[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: Floats keep their dtype; integers and bools give 64-bit integers.

    Raises:
        ShapeError: `axis` is not an axis of `x`.
    """
    return jnp.prod(x, axis=axis, keepdims=keepdims, dtype=sum_dtype(x.dtype))


# ---- extremes --------------------------------------------------------------------------------


@op(axes=Reduced({"x": LOWEST}, True), dtypes=ordered, examples=NOT_EMPTY)
def max(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest number along axes; NaN where one of them is NaN.

        out = max_i x[..., i, ...]

    Equal largest numbers share the cotangent evenly.

    Inputs:
        x: real[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: The dtype of `x`.

    Raises:
        ShapeError: `axis` is not an axis of `x`, or there is nothing along it.
        DTypeError: Complex numbers.
    """
    return jnp.max(x, axis=axis, keepdims=keepdims)


@max.vjp
def max_vjp(
    x: Tensor, out: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """The largest numbers share the cotangent."""
    return shared_by(x, out, out_grad, axis, keepdims)


@op(axes=Reduced({"x": HIGHEST}, True), dtypes=ordered, examples=NOT_EMPTY)
def min(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest number along axes; NaN where one of them is NaN.

        out = min_i x[..., i, ...]

    Equal smallest numbers share the cotangent evenly.

    Inputs:
        x: real[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: The dtype of `x`.

    Raises:
        ShapeError: `axis` is not an axis of `x`, or there is nothing along it.
        DTypeError: Complex numbers.
    """
    return jnp.min(x, axis=axis, keepdims=keepdims)


@min.vjp
def min_vjp(
    x: Tensor, out: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """The smallest numbers share the cotangent."""
    return shared_by(x, out, out_grad, axis, keepdims)


def shared_by(x: Tensor, out: Tensor, out_grad: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """The cotangent, shared evenly by all that equal the result."""
    out = expanded(out, axis, keepdims, x.ndim)
    out_grad = expanded(out_grad, axis, keepdims, x.ndim)
    chosen = (x == out).astype(x.dtype)
    return chosen * (out_grad / jnp.sum(chosen, axis=axis, keepdims=True))


@op(axes={"x": False}, dtypes=truth, differentiable=False, examples=EMPTY)
def any(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether at least one is true along axes; false where there is nothing.

        out = x[..., 0, ...] or x[..., 1, ...] or ...

    Inputs:
        x: any[*shape]; all numbers but zero are true.

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: bool[*rest].

    Raises:
        ShapeError: `axis` is not an axis of `x`.
    """
    return jnp.any(x.astype(np.bool_), axis=axis, keepdims=keepdims)


@op(axes={"x": True}, dtypes=truth, differentiable=False, examples=EMPTY)
def all(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all are true along axes; true where there is nothing.

        out = x[..., 0, ...] and x[..., 1, ...] and ...

    Inputs:
        x: any[*shape]; all numbers but zero are true.

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: bool[*rest].

    Raises:
        ShapeError: `axis` is not an axis of `x`.
    """
    return jnp.all(x.astype(np.bool_), axis=axis, keepdims=keepdims)


# ---- moments and norms -----------------------------------------------------------------------


@op(
    axes=reduced_mixing,
    dtypes=real_function,
    examples=(*NOT_EMPTY, "x=f32[4] correction=1.0"),
)
@in_float32
def var(
    x: Tensor, *, axis: Axes = None, keepdims: bool = False, correction: float = 0.0
) -> Tensor:
    """The variance along axes.

        out = sum_i (x[..., i, ...] - mean)^2 / (n - correction)

    16-bit numbers are summed in float32.

    Inputs:
        x: real[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.
        correction: 1 makes it the unbiased estimate from a sample.

    Outputs:
        out: float[*rest]; NaN where `n` is not above `correction`.

    Raises:
        ShapeError: `axis` is not an axis of `x`.
        DTypeError: Complex numbers.
    """
    return jnp.var(floating(x), axis=axis, keepdims=keepdims, correction=correction)


@op(
    axes=reduced_mixing,
    dtypes=real_function,
    examples=(*NOT_EMPTY, "x=f32[4] correction=1.0"),
)
@in_float32
def std(
    x: Tensor, *, axis: Axes = None, keepdims: bool = False, correction: float = 0.0
) -> Tensor:
    """The standard deviation along axes; its gradient is zero where all numbers are equal.

        out = sqrt(sum_i (x[..., i, ...] - mean)^2 / (n - correction))

    16-bit numbers are summed in float32.

    Inputs:
        x: real[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.
        correction: 1 makes it the square root of the unbiased estimate from a sample.

    Outputs:
        out: float[*rest]; NaN where `n` is not above `correction`.

    Raises:
        ShapeError: `axis` is not an axis of `x`.
        DTypeError: Complex numbers.
    """
    return root(jnp.var(floating(x), axis=axis, keepdims=keepdims, correction=correction))


@op(axes={"x": 0}, dtypes=real_function, examples=EMPTY)
@in_float32
def norm(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The Euclidean norm along axes; its gradient is zero where the norm is.

        out = sqrt(sum_i x[..., i, ...]^2)

    Squares of 16-bit numbers are summed in float32. There is no other scaling, as in NumPy and
    PyTorch: lengths whose square overflows (above 1e19 in float32) are infinite, those whose
    square vanishes are zero. `br.hypot` is exact for two numbers.

    Inputs:
        x: real[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: float[*rest].

    Raises:
        ShapeError: `axis` is not an axis of `x`.
        DTypeError: Complex numbers.
    """
    return root(jnp.sum(jnp.square(floating(x)), axis=axis, keepdims=keepdims))


@norm.vjp
@in_float32
def norm_vjp(
    x: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """x_grad = out_grad * x / norm(x), zero where the norm is."""
    # A 16-bit norm may be infinite or have few digits, so it is computed anew.
    length = root(jnp.sum(jnp.square(x), axis=axis, keepdims=True))
    zero = length == 0
    direction = jnp.where(zero, 0, x / jnp.where(zero, jnp.ones_like(length), length))
    return expanded(out_grad, axis, keepdims, x.ndim) * direction


def root(x: Tensor) -> Tensor:
    """A square root whose derivative at zero is zero."""
    zero = x == 0
    return jnp.where(zero, jnp.zeros_like(x), jnp.sqrt(jnp.where(zero, jnp.ones_like(x), x)))


@op(axes=of_exponentials, dtypes=real_function, examples=EMPTY)
@in_float32
def logsumexp(x: Tensor, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The logarithm of a sum of exponentials along axes, without overflow on the way.

        out = log(sum_i exp(x[..., i, ...]))

    The gradient is the softmax; where numbers are infinite those share it, and where all are
    -inf it is zero.

    Inputs:
        x: real[*shape].

    Attributes:
        axis: One axis or several; `None` means all of them.
        keepdims: Whether reduced axes stay, with size 1.

    Outputs:
        out: float[*rest]; -inf where there is nothing to add.

    Raises:
        ShapeError: `axis` is not an axis of `x`.
        DTypeError: Complex numbers.
    """
    return jax.nn.logsumexp(floating(x), axis=axis, keepdims=keepdims)


@logsumexp.vjp
@in_float32
def logsumexp_vjp(
    x: Tensor, out_grad: Tensor, *, axis: Axes = None, keepdims: bool = False
) -> Tensor:
    """x_grad = out_grad * softmax(x); the largest share it where they are infinite."""
    largest = jax.lax.stop_gradient(jnp.max(x, axis, keepdims=True, initial=-np.inf))
    infinite = jnp.where(x == largest, jnp.zeros_like(x), -np.inf)
    away = jnp.where(jnp.isinf(largest), infinite, x - largest)
    powers = jnp.where(jnp.isneginf(largest), jnp.zeros_like(x), jnp.exp(away))
    total = jnp.sum(powers, axis, keepdims=True)
    grad = expanded(out_grad, axis, keepdims, x.ndim)
    return grad * (powers / jnp.where(total == 0, jnp.ones_like(total), total))


@logsumexp.jvp
def logsumexp_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """out_tangent = sum(softmax(x) * x_tangent)."""
    ones = one("ones_like", values["out"][0])
    (softmax,) = apply("logsumexp.vjp", {"x": values["x"], "out_grad": (ones,)}, attrs)[
        "x_grad"
    ]
    return {"out": (one("sum", softmax * tangents["x"][0], **attrs),)}
