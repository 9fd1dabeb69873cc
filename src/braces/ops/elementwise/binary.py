"""Elementwise functions of two inputs: powers, angles, lengths, logarithms.

Derivatives are explicit, for forward and reverse mode, and finite where PyTorch's are. Each
docstring states the values at points without a derivative.
"""

from __future__ import annotations

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.decorator import Tensor, op
from braces.dtypes import FLOAT32, is_float
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, numeric, promote, promote_arrays, real_function
from braces.ops.elementwise.arithmetic import BINARY, build_scalar, build_where, cast_like
from braces.ops.elementwise.elementwise_derivatives import by_slopes


@op(
    axes="..., ... -> ...",
    dtypes=numeric,
    examples=(*BINARY, "x=i64[3] y=i64[3]", "x=f32[b] y=i32[]"),
)
def pow(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise power.

        out[i] = x[i] ** y[i]

    As in PyTorch, the derivative by x is 0 for y = 0 and any x, and the derivative by y is 0
    for x = 0 and y >= 0. So power and derivatives are finite at x = 0 for y >= 1 and y = 0. For
    0 < y < 1 the derivative by x is infinite there; for y < 0 the power is, too. For x < 0 the
    derivative by y is NaN: powers of negative numbers exist for integer exponents only.

    Inputs:
        x: number[*shape]. Negative floats need integer exponents, else the result is NaN.
        y: number[*shape], broadcast against `x`. Integers to a negative integer power have no
            meaningful result: cast one of them to a float.

    Raises:
        ShapeError: If the shapes do not broadcast.
        DTypeError: If both operands are bool.
    """
    x, y = promote_arrays(x, y)
    if is_float(x.dtype):
        x = jnp.where((x == 0) & (y == 0), jnp.ones_like(x), x)
    return jnp.power(x, y)


def pow_by_x(x: Var, y: Var, out: Var) -> Var:
    """Build the derivative by x: y * x^(y-1); 0 where y is 0."""
    return y * build_where(y != 0, cast_like(x, out), 1.0) ** (y - 1)


def pow_by_y(x: Var, y: Var, out: Var) -> Var:
    """Build the derivative by y: out * log(x); 0 where x is 0, unless the power is infinite."""
    base = cast_like(x, out)
    exponent = emit("real", y) if y.dtype.kind == "c" else y
    return out * emit("log", build_where((base != 0) | (exponent < 0), base, 1.0))


by_slopes(pow, pow_by_x, pow_by_y)


@op(axes="..., ... -> ...", dtypes=real_function, examples=BINARY)
@in_float32
def arctan2(x: Tensor, y: Tensor) -> Tensor:
    """The angle of the point (y, x), between -pi and pi: note the order, as in NumPy.

        out[i] = atan(x[i] / y[i]), in the right quadrant

    The gradient is zero at the origin, as in PyTorch, and at infinity.

    Inputs:
        x: real[*shape]. The vertical coordinate.
        y: real[*shape], broadcast against `x`. The horizontal coordinate.

    Outputs:
        out: float[*shape], in radians.
    """
    return jnp.arctan2(*map(as_floating, promote_arrays(x, y)))


def arctan2_by_x(x: Var, y: Var, out: Var) -> Var:
    """Build the derivative by x: y / (x^2 + y^2), without intermediate overflow."""
    return over_square(y, x, y)


def arctan2_by_y(x: Var, y: Var, out: Var) -> Var:
    """Build the derivative by y: -x / (x^2 + y^2), without intermediate overflow."""
    del out
    return -over_square(x, x, y)


def over_square(side: Var, x: Var, y: Var) -> Var:
    """Build `side / (x^2 + y^2)`; 0 where the length is 0 or infinite."""
    wide = promote(FLOAT32, x.dtype, y.dtype)  # a small 16-bit length has few digits
    side, x, y = (emit("cast", var, dtype=wide) for var in (side, x, y))
    length = emit("hypot", x, y)
    regular = (length != 0) & ~emit("isinf", length)
    safe = build_where(regular, length, 1.0)
    # The `where` between both divisions keeps XLA from dividing by the square, which overflows.
    share = build_where(regular, side / safe, 0.0)
    return share / safe


by_slopes(arctan2, arctan2_by_x, arctan2_by_y)


@op(axes="..., ... -> ...", dtypes=real_function, examples=BINARY)
@in_float32
def hypot(x: Tensor, y: Tensor) -> Tensor:
    """The length of the vector (x, y), without intermediate overflow.

        out[i] = sqrt(x[i]^2 + y[i]^2)

    The gradient at the origin is zero.
    """
    return jnp.hypot(*map(as_floating, promote_arrays(x, y)))


def share_of(side: Var, out: Var) -> Var:
    """Build a side divided by the length; zero at the origin."""
    return side / build_where(out != 0, out, 1.0)


by_slopes(hypot, lambda x, y, out: share_of(x, out), lambda x, y, out: share_of(y, out))


@op(axes="..., ... -> ...", dtypes=real_function, operations=6, examples=BINARY)
@in_float32
def logaddexp(x: Tensor, y: Tensor) -> Tensor:
    """The logarithm of a sum of exponentials, without intermediate overflow.

        out[i] = log(exp(x[i]) + exp(y[i]))

    The derivatives are sigmoid(x - y) and sigmoid(y - x). If one input is infinite they are 0
    and 1; if both are equal, infinities included, they are one half.
    """
    return jnp.logaddexp(*map(as_floating, promote_arrays(x, y)))


def finite_difference(x: Var, y: Var) -> Var:
    """Build `x - y`; 0 where both are the same infinity."""
    difference = x - y
    return build_where((x == y) & emit("isinf", x), build_scalar(0.0, difference), difference)


by_slopes(
    logaddexp,
    lambda x, y, out: emit("sigmoid", finite_difference(x, y)),
    lambda x, y, out: emit("sigmoid", finite_difference(y, x)),
)


@op(axes="..., ... -> ...", dtypes=real_function, operations=4, examples=BINARY)
@in_float32
def xlogy(x: Tensor, y: Tensor) -> Tensor:
    """A number times a logarithm; 0 where x is 0, unless y is NaN.

        out[i] = x[i] * log(y[i])

    As in PyTorch, the derivative by x is 0 where x is 0 and y is not above 0. The derivative by
    y is 0 where x is 0.
    """
    x, y = map(as_floating, promote_arrays(x, y))
    return jnp.where((x == 0) & ~jnp.isnan(y), jnp.zeros_like(x), x * jnp.log(y))


def logarithm_beside(op_type: str, x: Var, y: Var, bound: float) -> Var:
    """Build a logarithm of y, which is 0 where x is 0 and y is not above a bound."""
    return emit(op_type, build_where((x != 0) | (y > bound), y, bound + 1.0))


def safe_quotient(x: Var, y: Var) -> Var:
    """Build the quotient `x / y`; 0 where x is 0, even for y = 0."""
    return x / build_where((x != 0) | (y != 0), y, 1.0)


by_slopes(
    xlogy,
    lambda x, y, out: logarithm_beside("log", x, cast_like(y, out), 0.0),
    lambda x, y, out: safe_quotient(cast_like(x, out), cast_like(y, out)),
)


@op(axes="..., ... -> ...", dtypes=real_function, operations=4, examples=BINARY)
@in_float32
def xlog1py(x: Tensor, y: Tensor) -> Tensor:
    """A number times the logarithm of one plus a number; 0 where x is 0, unless y is NaN.

        out[i] = x[i] * log(1 + y[i])

    As in PyTorch, the derivative by x is 0 where x is 0 and y is not above -1. The derivative
    by y is 0 where x is 0.
    """
    x, y = map(as_floating, promote_arrays(x, y))
    return jnp.where((x == 0) & ~jnp.isnan(y), jnp.zeros_like(x), x * jnp.log1p(y))


by_slopes(
    xlog1py,
    lambda x, y, out: logarithm_beside("log1p", x, cast_like(y, out), -1.0),
    lambda x, y, out: safe_quotient(cast_like(x, out), cast_like(y, out) + 1.0),
)
