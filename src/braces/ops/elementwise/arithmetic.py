"""Elementwise arithmetic and dtype conversion."""

from __future__ import annotations

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.decorator import Tensor, op
from braces.dtypes import DType, is_float
from braces.lazy import jax, jnp
from braces.ops.common.narrow_integers import cast_values
from braces.ops.common.rules import (
    Backward,
    as_floating,
    common,
    first_dtype,
    numeric,
    promote_arrays,
    real,
    real_valued,
    refuse,
    sum_to,
)

BINARY = (
    "x=f32[2,3] y=f32[2,3]",
    "x=f32[b,4] y=f32[4]",
    "x=f64[b,1,3] y=f64[2,1]",
    "x=f32[0,2] y=f32[]",
)

# ---- helpers of gradient rules ---------------------------------------------------------------


def build_scalar(value: float, like: Var) -> Var:
    """Build a scalar constant in the dtype of a variable."""
    return emit("full", shape=(), value=value, dtype=like.dtype)


def build_where(condition: Var, x: Var, y: float | Var) -> Var:
    """Build `where`; a Python number `y` takes the dtype of `x`."""
    return emit("where", condition, x, y if isinstance(y, Var) else build_scalar(y, x))


def cast_like(x: Var, like: Var) -> Var:
    """Cast a variable to the dtype of another, if they differ."""
    return x if x.dtype == like.dtype else emit("cast", x, dtype=like.dtype)


# ---- arithmetic ------------------------------------------------------------------------------


@op(
    axes="..., ... -> ...",
    dtypes=common,
    commutative=True,
    neutral={"x": -0.0, "y": -0.0},
    adds_to=("x", "y"),
    examples=(*BINARY, "x=i64[3] y=i64[3]", "x=i32[3] y=f32[3]"),
)
def add(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise sum.

    out[i] = x[i] + y[i]
    """
    return jnp.add(*promote_arrays(x, y))


@add.gradient
def add_gradient(g: Backward) -> dict[str, Var]:
    """Each input receives the cotangent."""
    slots = [slot for slot in ("x", "y") if g.wants(slot)]
    return {slot: sum_to(g.out_grad, g[slot]) for slot in slots}


@op(
    axes="..., ... -> ...",
    dtypes=numeric,
    neutral={"y": 0.0},
    examples=(*BINARY, "x=i64[3] y=i64[3]"),
)
def subtract(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise difference.

        out[i] = x[i] - y[i]

    Raises:
        ShapeError: If the shapes do not broadcast.
        DTypeError: If both operands are bool.
    """
    return jnp.subtract(*promote_arrays(x, y))


@subtract.gradient
def subtract_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent, `y` its negative."""
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grads["x"] = sum_to(g.out_grad, g["x"])
    if g.wants("y"):
        grads["y"] = -sum_to(g.out_grad, g["y"])
    return grads


@op(
    axes="..., ... -> ...",
    dtypes=common,
    commutative=True,
    neutral={"x": 1.0, "y": 1.0},
    examples=(*BINARY, "x=i64[3] y=i64[3]"),
)
def multiply(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise product.

    out[i] = x[i] * y[i]
    """
    return jnp.multiply(*promote_arrays(x, y))


@multiply.gradient
def multiply_gradient(g: Backward) -> dict[str, Var]:
    """Each input receives the cotangent times the other input."""
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grads["x"] = sum_to(g.out_grad * g["y"], g["x"])
    if g.wants("y"):
        grads["y"] = sum_to(g.out_grad * g["x"], g["y"])
    return grads


@op(
    axes="..., ... -> ...",
    dtypes=real_valued,
    neutral={"y": 1.0},
    examples=(*BINARY, "x=i64[3] y=i64[3]"),
)
def divide(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise quotient; integers give float32.

        out[i] = x[i] / y[i]

    Outputs:
        out: float[*shape]; division by zero gives an infinity or NaN.
    """
    return jnp.divide(*map(as_floating, promote_arrays(x, y)))


@divide.gradient
def divide_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = out_grad / y; y_grad = -out_grad / y * out."""
    over = g.out_grad / g["y"]
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grads["x"] = sum_to(over, g["x"])
    if g.wants("y"):
        grads["y"] = sum_to(-(over * g["out"]), g["y"])
    return grads


def nonzero(y: Tensor) -> Tensor:
    """Replace zeros of an integer divisor by ones; floats are returned unchanged."""
    return y if is_float(y.dtype) else jnp.where(y == 0, jnp.ones_like(y), y)


@op(
    axes="..., ... -> ...",
    dtypes=real,
    differentiable=False,
    examples=(*BINARY, "x=i64[b] y=i64[3,1]"),
)
def floor_divide(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise floor division: the quotient, rounded down; no gradient.

        out[i] = floor(x[i] / y[i])

    Inputs:
        x: number[*shape].
        y: number[*shape], broadcast against `x`. An integer divided by zero gives 0.
    """
    x, y = promote_arrays(x, y)
    out = jnp.floor_divide(x, nonzero(y))
    return out if is_float(y.dtype) else jnp.where(y == 0, jnp.zeros_like(out), out)


@op(axes="..., ... -> ...", dtypes=real, examples=(*BINARY, "x=i64[b] y=i64[3,1]"))
def remainder(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise remainder of floor division; it has the sign of `y`, as in Python.

        out[i] = x[i] - floor(x[i] / y[i]) * y[i]

    Inputs:
        x: number[*shape].
        y: number[*shape], broadcast against `x`. An integer divided by zero gives 0.
    """
    x, y = promote_arrays(x, y)
    return jnp.remainder(x, nonzero(y))


@remainder.gradient
def remainder_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent; y_grad = -out_grad * floor(x / y)."""
    grads: dict[str, Var] = {}
    if g.wants("x"):
        grads["x"] = sum_to(g.out_grad, g["x"])
    if g.wants("y"):
        grads["y"] = sum_to(-(g.out_grad * (g["x"] // g["y"])), g["y"])
    return grads


# ---- conversion -------------------------------------------------------------------


def cast_dtype(what: str, x: DType, *, dtype: DType) -> DType:
    """Dtype rule: the attribute `dtype`; complex to real is refused."""
    if dtype.kind not in "cb":
        refuse(what, x, "c")
    return dtype


@op(
    axes="... -> ...",
    dtypes=cast_dtype,
    changes_only="type",
    rounds=True,
    examples=(
        "x=f32[2,3] dtype=f64",
        "x=f64[b] dtype=f32",
        "x=f32[4] dtype=i32",
        "x=i64[] dtype=bool",
        "x=bool[0,b] dtype=f32",
        "x=f32[b,3] dtype=f8e4m3fn",
        "x=f8e4m3fn[3] dtype=f32",
        "x=int4[3] dtype=f32",
    ),
)
def cast(x: Tensor, *, dtype: DType) -> Tensor:
    """The same values in another dtype; floats are truncated towards zero for integers.

        out[i] = dtype(x[i])

    Inputs:
        x: any[*shape].

    Attributes:
        dtype: The dtype of the result. For bool, all but zero is true. For floats of one byte,
            overflow gives an infinity, or NaN if the dtype has none; use `br.clip` first to
            saturate. Floats of four bits saturate. Integers of less than 8 bits keep the
            low-order bits.

    Outputs:
        out: dtype[*shape].

    Raises:
        DTypeError: If `x` is complex and the dtype is real.
    """
    return cast_values(x, dtype)


@cast.gradient
def cast_gradient(g: Backward) -> dict[str, Var]:
    """Cast the cotangent back; casts between floats and integers have no gradient.

    The cotangent of a real number is the real part of that of its complex cast.
    """
    x, grad = g["x"], g.out_grad
    if not is_float(x.dtype) or not is_float(g["out"].dtype):
        return {}
    if grad.dtype.kind == "c" and x.dtype.kind != "c":
        grad = emit("real", grad)
    return {"x": emit("cast", grad, dtype=x.dtype)}


@op(
    axes="... -> ...",
    dtypes=first_dtype,
    differentiable=False,
    operations=0,
    examples=("x=f32[2,3]", "x=f64[b,4]", "x=i32[]"),
)
def stop_gradient(x: Tensor) -> Tensor:
    """The same values; the gradient is blocked.

        out = x

    For a custom gradient, see `br.custom_gradient`.
    """
    return jax.lax.stop_gradient(x)
