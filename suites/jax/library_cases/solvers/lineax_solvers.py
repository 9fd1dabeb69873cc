"""Linear solves of lineax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from suites.jax.library_cases.case import Cases, LibraryCase

_RANDOM = np.random.default_rng(0)
A = jnp.asarray(_RANDOM.normal(size=(3, 3)) + 3.0 * np.eye(3), "float32")
B = jnp.asarray(_RANDOM.normal(size=3), "float32")
TALL = jnp.asarray(_RANDOM.normal(size=(5, 3)), "float32")
LONG = jnp.asarray(_RANDOM.normal(size=5), "float32")
TOLERANCES: dict[str, float] = {"rtol": 1e-6, "atol": 1e-6}


def solve(solver: Callable[[], Any], tag: Any = ()) -> Callable[..., Any]:
    """A solve with a matrix, which is made symmetric if a tag is given."""

    def function(a: Any, b: Any) -> Any:
        matrix = (a + a.T) / 2.0 if tag is lx.positive_semidefinite_tag else a
        return lx.linear_solve(lx.MatrixLinearOperator(matrix, tag), b, solver()).value

    return function


def tridiagonal(diagonal: Any, lower: Any, upper: Any, b: Any) -> Any:
    """A tridiagonal solve."""
    operator = lx.TridiagonalLinearOperator(diagonal, lower, upper)
    return lx.linear_solve(operator, b, lx.Tridiagonal()).value


def diagonal(entries: Any, b: Any) -> Any:
    """A diagonal solve."""
    return lx.linear_solve(lx.DiagonalLinearOperator(entries), b, lx.Diagonal()).value


def by_function(a: Any, b: Any) -> Any:
    """A solve with a function as the operator."""
    operator = lx.FunctionLinearOperator(lambda x: a @ x, jax.eval_shape(lambda: b))
    return lx.linear_solve(operator, b).value


def rows(a: Any, b: Any) -> Any:
    """Solves under vmap."""
    operator = lx.MatrixLinearOperator(a)
    return jax.vmap(lambda b: lx.linear_solve(operator, b).value)(jnp.stack([b, 2.0 * b]))


SYMMETRIC = A @ A.T
CASES: Cases = {
    "AutoLinearSolver": LibraryCase(solve(lambda: lx.AutoLinearSolver(True)), (A, B)),
    "AutoLinearSolver of least squares": LibraryCase(
        solve(lambda: lx.AutoLinearSolver(False)), (TALL, LONG)
    ),
    "LU": LibraryCase(solve(lx.LU), (A, B)),
    "QR": LibraryCase(solve(lx.QR), (TALL, LONG)),
    "SVD": LibraryCase(solve(lx.SVD), (TALL, LONG)),
    "Cholesky": LibraryCase(solve(lx.Cholesky, lx.positive_semidefinite_tag), (SYMMETRIC, B)),
    "CG": LibraryCase(
        solve(lambda: lx.CG(**TOLERANCES), lx.positive_semidefinite_tag), (SYMMETRIC, B)
    ),
    "NormalCG": LibraryCase(solve(lambda: lx.NormalCG(**TOLERANCES)), (A, B)),
    "GMRES": LibraryCase(solve(lambda: lx.GMRES(**TOLERANCES)), (A, B)),
    "BiCGStab": LibraryCase(solve(lambda: lx.BiCGStab(**TOLERANCES)), (A, B)),
    "LSMR": LibraryCase(solve(lambda: lx.LSMR(**TOLERANCES)), (TALL, LONG)),
    "Triangular": LibraryCase(solve(lx.Triangular, lx.lower_triangular_tag), (A, B)),
    "Tridiagonal": LibraryCase(tridiagonal, (jnp.diag(A), jnp.diag(A, -1), jnp.diag(A, 1), B)),
    "Diagonal": LibraryCase(diagonal, (jnp.diag(A), B)),
    "a function as operator": LibraryCase(by_function, (A, B)),
    "vmap": LibraryCase(rows, (A, B)),
}
