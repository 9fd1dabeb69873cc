"""Functions related to gamma: polygamma, zeta, beta and the multivariate gamma function."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.define.axes.axis_map import Attrs, Types
from braces.define.axes.flop_count import count_per_element
from braces.define.completed_doc import described
from braces.define.decorator import Indices, Tensor, op
from braces.dtypes import DType, is_integer
from braces.errors import DTypeError, ProgramError
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.known_derivatives import (
    Kernel,
    build_smooth_kernel,
    differentiate_kernel,
)
from braces.ops.common.rules import FLOATS, as_floating, promote_arrays, real_function
from braces.ops.elementwise.arithmetic import BINARY
from braces.ops.special.gamma_kernels import (
    BERNOULLI,
    hurwitz,
    log_beta,
    polygamma as derivatives,
)

# ---- derivatives of lgamma -------------------------------------------------------------------


def of_whole_order(what: str, n: DType, x: DType) -> DType:
    """Dtype rule: the floating dtype of `x`; orders are integers."""
    if not is_integer(n):
        raise DTypeError(
            f"{what}: expected an integer order, got {n}.",
            fix="Use br.cast(n, 'int32').",
        )
    return real_function(what, x)


@op(
    axes="..., ... -> ...",
    dtypes=of_whole_order,
    operations=600,
    examples=("n=i32[2,3] x=f32[2,3]", "n=i64[] x=f64[b,4]"),
)
@in_float32
def polygamma(n: Indices, x: Tensor) -> Tensor:
    """The polygamma function: derivatives of `digamma`, of any order.

        out[i] = the derivative of order n[i] of digamma, at x[i]

    Inputs:
        n: integer[*shape]. The order; NaN below 0.
        x: real[*shape], broadcast against `n`.

    Outputs:
        out: float[*shape], the dtype of `x`; integers give float32.

    Raises:
        ShapeError: If the shapes do not broadcast.
        DTypeError: If an operand is complex, or `n` is not an integer.
    """
    x = as_floating(x)
    return derivatives(n.astype(x.dtype), x)


# ---- sums of powers --------------------------------------------------------------------------

EULER = 12
"""Number of terms before the integral in the Euler-Maclaurin formula."""


def _euler_maclaurin(x: Any, q: Any) -> Any:
    """Sum powers by the Euler-Maclaurin formula; https://dlmf.nist.gov/2.10.E1."""
    first = q[..., None] + np.arange(EULER, dtype=q.dtype)
    end = q + EULER
    total = jnp.sum(first ** -x[..., None], -1) + end ** (1 - x) / (x - 1) + end**-x / 2
    factor = x * end ** (-x - 1) / 2
    for k, number in enumerate(BERNOULLI, 1):
        total = total + number * factor
        factor = factor * (x + 2 * k - 1) * (x + 2 * k) / (end * end)
        factor = factor / ((2 * k + 1) * (2 * k + 2))
    return total


def _zeta(by_x: int, by_q: int) -> Kernel:
    if by_x:
        return differentiate_kernel(_euler_maclaurin, by_x, by_q)

    def derivative(x: Any, q: Any) -> Any:
        factor = np.asarray((-1.0) ** by_q, x.dtype)
        for k in range(by_q):
            factor = factor * (x + k)
        return factor * hurwitz(x + by_q, q)

    return derivative


sum_of_powers = build_smooth_kernel(2, _zeta)


@op(
    axes="..., ... -> ...",
    dtypes=real_function,
    operations=200,
    examples=("x=f32[2,3] q=f32[2,3]", "x=f64[b,1] q=f64[4]"),
)
@in_float32
def zeta(x: Tensor, q: Tensor) -> Tensor:
    """The Hurwitz zeta function; for q = 1 the Riemann zeta function.

        out[i] = sum over k from 0 on of (q[i] + k)^-x[i]

    Differentiable to every order in both, in `x` for `q` above 0.

    Inputs:
        x: real[*shape]. Infinite at 1, NaN below.
        q: real[*shape], broadcast against `x`.
    """
    return sum_of_powers(*map(as_floating, promote_arrays(x, q)))


# ---- of several gamma functions --------------------------------------------------------------


@op(axes="..., ... -> ...", dtypes=real_function, operations=150, examples=BINARY[:2])
@in_float32
def betaln(x: Tensor, y: Tensor) -> Tensor:
    """The logarithm of the absolute value of the beta function.

    out[i] = lgamma(x[i]) + lgamma(y[i]) - lgamma(x[i] + y[i])
    """
    return log_beta(*map(as_floating, promote_arrays(x, y)))


def of_each_dimension(types: Types, attrs: Attrs) -> int:
    """Cost per element: a gamma function for each row of a matrix."""
    del types
    return 60 * int(str(attrs["d"]))


@described("real", FLOATS, "If the dtype is complex.")
def of_some_dimension(what: str, x: DType, *, d: int) -> DType:
    """Dtype rule: the floating dtype of `x`; `d` is at least 1."""
    if d < 1:
        raise ProgramError(
            f"{what}: expected d of 1 or more, got {d}.", fix="Use a d of 1 or more."
        )
    return real_function(what, x)


@op(
    axes="... -> ...",
    dtypes=of_some_dimension,
    operations=count_per_element("out", of_each_dimension),
    examples=("x=f32[2,3] d=2", "x=f64[b,4] d=3", "x=f64[3] d=1"),
)
@in_float32
def multigammaln(x: Tensor, *, d: int) -> Tensor:
    """The logarithm of the multivariate gamma function, as in Wishart distributions.

        out[i] = d * (d - 1) / 4 * log(pi) + sum over k below d of lgamma(x[i] - k / 2)

    Inputs:
        x: real[*shape], above (d - 1) / 2.

    Attributes:
        d: The number of rows of the matrices; 1 gives `lgamma`.

    Raises:
        ProgramError: If `d` is below 1.
        DTypeError: If the dtype is complex.
    """
    x = as_floating(x)
    total = jnp.full_like(x, d * (d - 1) / 4 * np.log(np.pi))
    for k in range(d):
        total = total + lax.lgamma(x - k / 2)
    return total
