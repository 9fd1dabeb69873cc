"""Rules of orthogonal polynomials, whose degrees are arrays: a loop over the degree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.common.rules.elementwise import as_float, cast_to_dtype
from braces.exchange.torch.rules.tensor.arithmetic import as_variable, promoted_dtype
from braces.exchange.torch.rules.tensor.control import while_loop
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.types import FLOAT32, INT64, is_float

First = Callable[[Var], Var]
Next = Callable[[Var, Var, Var, Var], Var]
"""The next polynomial from the number, the degree, and the polynomials of it and one less."""


def orthogonal(first: First, following: Next, *, shifted: bool = False) -> Callable[..., Var]:
    """Return the rule of polynomials from the one of degree 1 and a recurrence.

    The polynomial of degree 0 is 1; those of negative degrees are 0.
    """

    def rule(x: Any, n: Any) -> Var:
        dtype = promoted_dtype(x, n)
        x, n = (as_variable(v, dtype if is_float(dtype) else FLOAT32) for v in (x, n))
        x = x * 2.0 - 1.0 if shifted else x
        degree = cast_to_dtype(n, INT64)
        x, degree = x + ops.zeros_like(n), degree + ops.zeros_like(x, dtype=INT64)
        return x if 0 in x.shape else _by_recurrence(x, degree, first, following)

    return rule


def _by_recurrence(x: Var, degree: Var, first: First, following: Next) -> Var:
    start = fill_shape((), 0, dtype=INT64)
    unit, zero = ops.ones_like(x), ops.zeros_like(x)
    last = ops.max(degree) if degree.ndim else degree

    def going(k: Var, *_: Var) -> list[Any]:
        return [k <= last]

    def step(k: Var, now: Var, after: Var, result: Var) -> list[Any]:
        result = ops.where(ops.equal(degree, k), now, result)
        k = k + 1
        return [k, after, following(x, as_float(cast_to_dtype(k, x.dtype)), after, now), result]

    return while_loop(going, step, [start, unit, first(x), zero])[-1]


def chebyshev(x: Var, _: Var, now: Var, before: Var) -> Var:
    """The recurrence of the Chebyshev polynomials of all four kinds."""
    return 2.0 * x * now - before


CHEBYSHEV: Mapping[str, First] = {
    "t": lambda x: x,
    "u": lambda x: 2.0 * x,
    "v": lambda x: 2.0 * x - 1.0,
    "w": lambda x: 2.0 * x + 1.0,
}
"""The polynomials of degree 1, by kind."""

POLYNOMIALS: Mapping[str, Callable[..., Any]] = {
    **{f"special_{how}chebyshev_polynomial_{kind}": orthogonal(
        first, chebyshev, shifted=bool(how)
    ) for how in ("", "shifted_") for kind, first in CHEBYSHEV.items()},
    "special_hermite_polynomial_h": orthogonal(
        lambda x: 2.0 * x, lambda x, k, now, before: 2.0 * (x * now - k * before)
    ),
    "special_hermite_polynomial_he": orthogonal(
        lambda x: x, lambda x, k, now, before: x * now - k * before
    ),
    "special_laguerre_polynomial_l": orthogonal(
        lambda x: 1.0 - x,
        lambda x, k, now, before: ((2.0 * k + 1.0 - x) * now - k * before) / (k + 1.0),
    ),
    "special_legendre_polynomial_p": orthogonal(
        lambda x: x,
        lambda x, k, now, before: ((2.0 * k + 1.0) * x * now - k * before) / (k + 1.0),
    ),
}  # fmt: skip
