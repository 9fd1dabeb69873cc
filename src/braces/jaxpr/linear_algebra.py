"""Rules of primitives on matrices."""

from __future__ import annotations

from collections.abc import Mapping

from braces.builder.append import one
from braces.builder.var import Var
from braces.jaxpr.equation import Equation, Rule, Value


def cholesky(e: Equation, x: Value) -> Var:
    """The triangular factor of a matrix, which JAX has made symmetric."""
    return one("cholesky", e.lift(x))


def triangular_solve(e: Equation, a: Value, b: Value) -> Var:
    """The solution of triangular equations, from the right as that of transposed ones."""
    left, right, params = e.lift(a), e.lift(b), e.params
    if params["conjugate_a"] and left.dtype.kind == "c":
        e.refuse("of complex numbers")
    attrs = {"lower": params["lower"], "unit_diagonal": params["unit_diagonal"]}
    if params["left_side"]:
        return one("triangular_solve", left, right, transpose_a=params["transpose_a"], **attrs)
    turned = one("matrix_transpose", right)
    made = one("triangular_solve", left, turned, transpose_a=not params["transpose_a"], **attrs)
    return one("matrix_transpose", made)


LINEAR_ALGEBRA: Mapping[str, Rule] = {
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
}
