"""Elementwise functions of one input: sign, powers, exponentials, logarithms, rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.decorator import Tensor, op
from braces.dtypes import is_float
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.linear_jvp import VarSlots
from braces.ops.common.rules import Backward, as_floating, numeric, real, real_valued
from braces.ops.elementwise.complex import part_dtype_rule
from braces.ops.elementwise.elementwise_derivatives import forward_as_backward

UNARY = ("x=f32[2,3]", "x=f64[b,4]", "x=f32[]", "x=f32[0,2]")
WITH_INTEGERS = (*UNARY, "x=i32[3]")


# ---- sign and size ---------------------------------------------------------------------------


@op(axes="... -> ...", dtypes=numeric, examples=WITH_INTEGERS)
def negative(x: Tensor) -> Tensor:
    """The negative.

    out[i] = -x[i]
    """
    return jnp.negative(x)


negative.gradient(lambda g: {"x": -g.out_grad})


@op(
    axes="... -> ...",
    dtypes=part_dtype_rule,
    examples=WITH_INTEGERS,
)
def abs(x: Tensor) -> Tensor:
    """The absolute value.

    out[i] = x[i] if x[i] >= 0 else -x[i]
    out[i] = sqrt(real(x[i])^2 + imag(x[i])^2) if x is complex
    """
    return jnp.abs(x)


def _slope_of_abs(x: Var, out: Var) -> Var:
    """Build the derivative of `abs`: the sign, or conj(x) / abs(x); zero at x = 0."""
    if x.dtype.kind != "c":
        return emit("sign", x)
    return emit("conj", x) / emit("where", emit("equal", out, 0), emit("ones_like", out), out)


@abs.gradient
def abs_gradient(g: Backward) -> dict[str, Var]:
    """x_grad = out_grad * sign(x), or out_grad * conj(x) / abs(x); zero at x = 0."""
    return {"x": g.out_grad * _slope_of_abs(g["x"], g["out"])}


@abs.jvp
def abs_jvp(values: VarSlots, tangents: VarSlots, attrs: Mapping[str, Any]) -> VarSlots:
    """out_tangent = x_tangent * sign(x), or real(x_tangent * conj(x) / abs(x))."""
    del attrs
    (x,), (out,) = values["x"], values["out"]
    product = tangents["x"][0] * _slope_of_abs(x, out)
    return {"out": (emit("real", product) if x.dtype.kind == "c" else product,)}


@op(axes="... -> ...", dtypes=real, differentiable=False, examples=WITH_INTEGERS)
def sign(x: Tensor) -> Tensor:
    """The sign: -1, 0 or 1; no gradient.

        out[i] = x[i] / abs(x[i])

    Outputs:
        out: As `x`; NaN for NaN.
    """
    return jnp.sign(x)


@op(axes="... -> ...", dtypes=numeric, examples=WITH_INTEGERS)
def square(x: Tensor) -> Tensor:
    """The square.

    out[i] = x[i] * x[i]
    """
    return jnp.square(x)


square.gradient(lambda g: {"x": g.out_grad * (g["x"] * 2.0)})


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def reciprocal(x: Tensor) -> Tensor:
    """The reciprocal.

    out[i] = 1 / x[i]
    """
    return jnp.reciprocal(as_floating(x))


reciprocal.vjp(in_float32(lambda out, out_grad: -out_grad * (out * out)))


# ---- roots, exponentials, logarithms ---------------------------------------------------------


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def sqrt(x: Tensor) -> Tensor:
    """The square root; NaN for negative numbers.

    out[i] = sqrt(x[i])
    """
    return jnp.sqrt(as_floating(x))


@sqrt.vjp
@in_float32
def sqrt_vjp(out: Tensor, out_grad: Tensor) -> Tensor:
    """x_grad = out_grad / (2 * out); infinite at x = 0."""
    return 0.5 * out_grad / out


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def rsqrt(x: Tensor) -> Tensor:
    """One over the square root.

    out[i] = 1 / sqrt(x[i])
    """
    return lax.rsqrt(as_floating(x))


rsqrt.vjp(in_float32(lambda out, out_grad: -0.5 * out_grad * (out * out * out)))


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def exp(x: Tensor) -> Tensor:
    """The exponential.

    out[i] = e^x[i]
    """
    return jnp.exp(as_floating(x))


exp.gradient(lambda g: {"x": g.out_grad * g["out"]})


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def expm1(x: Tensor) -> Tensor:
    """The exponential minus one, accurate for small numbers.

    out[i] = e^x[i] - 1
    """
    return jnp.expm1(as_floating(x))


@expm1.vjp
def expm1_vjp(x: Tensor, out_grad: Tensor) -> Tensor:
    """x_grad = out_grad * e^x; `out + 1` would cancel below zero."""
    return out_grad * jnp.exp(x)


forward_as_backward(expm1)


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def log(x: Tensor) -> Tensor:
    """The natural logarithm; -inf at zero, NaN below.

    out[i] = log(x[i])
    """
    return jnp.log(as_floating(x))


log.gradient(lambda g: {"x": g.out_grad / g["x"]})


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def log1p(x: Tensor) -> Tensor:
    """The natural logarithm of one plus a number, accurate for small numbers.

    out[i] = log(1 + x[i])
    """
    return jnp.log1p(as_floating(x))


log1p.vjp(in_float32(lambda x, out_grad: out_grad / (1 + x)))


@op(axes="... -> ...", dtypes=real_valued, examples=WITH_INTEGERS)
def log2(x: Tensor) -> Tensor:
    """The logarithm to base 2.

    out[i] = log(x[i]) / log(2)
    """
    return jnp.log2(as_floating(x))


log2.vjp(in_float32(lambda x, out_grad: out_grad / (x * math.log(2))))


# ---- rounding --------------------------------------------------------------------------------


@op(axes="... -> ...", dtypes=real, differentiable=False, examples=WITH_INTEGERS)
def floor(x: Tensor) -> Tensor:
    """Round down to an integer; no gradient.

        out[i] = the largest integer <= x[i]

    Outputs:
        out: As `x`; integers are returned as they are.
    """
    return jnp.floor(x) if is_float(x.dtype) else x


@op(axes="... -> ...", dtypes=real, differentiable=False, examples=WITH_INTEGERS)
def ceil(x: Tensor) -> Tensor:
    """Round up to an integer; no gradient.

        out[i] = the smallest integer >= x[i]

    Outputs:
        out: As `x`; integers are returned as they are.
    """
    return jnp.ceil(x) if is_float(x.dtype) else x


@op(axes="... -> ...", dtypes=real, differentiable=False, examples=WITH_INTEGERS)
def trunc(x: Tensor) -> Tensor:
    """Round towards zero; no gradient.

        out[i] = sign(x[i]) * floor(abs(x[i]))

    Outputs:
        out: As `x`; integers are returned as they are.
    """
    return jnp.trunc(x) if is_float(x.dtype) else x


@op(axes="... -> ...", dtypes=real, differentiable=False, examples=WITH_INTEGERS)
def round(x: Tensor) -> Tensor:
    """Round to the nearest integer, ties to even; no gradient.

        out[i] = the integer nearest to x[i]

    Outputs:
        out: As `x`; integers are returned as they are.
    """
    return jnp.round(x) if is_float(x.dtype) else x
