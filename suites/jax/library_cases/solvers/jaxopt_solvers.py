"""Solvers of jaxopt, with their implicit derivatives.

Its isotonic regression and its wrappers of SciPy and CVXPY call Python, which imports refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
from jaxopt import implicit_diff, projection, prox

from suites.jax.library_cases.case import Cases, LibraryCase

_RANDOM = np.random.default_rng(17)
X = jnp.asarray(_RANDOM.normal(size=(8, 4)), "float32")
Y = jnp.asarray(_RANDOM.normal(size=8), "float32")
START, A = jnp.array([0.5, 0.8]), jnp.array([1.2, 0.7])
STRENGTH = jnp.asarray(0.3)
DENSE = jnp.array([[2.0, 0.4], [0.4, 1.5]])


def objective(y: Any, a: Any) -> Any:
    """A quartic function."""
    return jnp.sum((y - a) ** 2) + 0.1 * jnp.sum(y**4) + 0.3 * y[0] * y[1]


def least_squares(w: Any, x: Any, y: Any) -> Any:
    """Half of the mean squared residual."""
    return 0.5 * jnp.mean((x @ w - y) ** 2)


def system(y: Any, a: Any) -> Any:
    """Two equations."""
    first = jnp.sin(y[0]) + y[1] * a[0] - 1.0
    return jnp.stack([first, 0.3 * y[1] ** 2 - jnp.cos(y[0]) * a[1] + y[1]])


def minimum(solver: Callable[..., Any], **options: Any) -> LibraryCase:
    """The minimum of the quartic function."""
    given: dict[str, Any] = {"maxiter": 60, "tol": 1e-5, **options}
    return LibraryCase(lambda a: solver(objective, **given).run(START, a).params, (A,), 2e-3)


def projected(onto: Any, hyperparams: Any = None) -> LibraryCase:
    """The minimum of a least squares problem in a set."""

    def function(x: Any, y: Any) -> Any:
        solver = jaxopt.ProjectedGradient(least_squares, onto, maxiter=100, tol=1e-5)
        return solver.run(jnp.full(4, 0.25), hyperparams, x, y).params

    return LibraryCase(function, (X, Y), 2e-3)


def _lasso(x: Any, y: Any, strength: Any) -> Any:
    solver = jaxopt.ProximalGradient(least_squares, prox.prox_lasso, maxiter=200, tol=1e-6)
    return solver.run(jnp.zeros(4), strength * 0.2, x, y).params


def _coordinates(x: Any, y: Any, strength: Any) -> Any:
    from_zero = jnp.zeros(4)
    solver = jaxopt.BlockCoordinateDescent(
        jaxopt.objective.least_squares, prox.prox_lasso, maxiter=100, tol=1e-6
    )
    return solver.run(from_zero, strength * 0.2, (x, y)).params


def _ridge(x: Any, y: Any, strength: Any) -> Any:
    slope = jax.grad(lambda w, x, y, s: least_squares(w, x, y) + 0.5 * s * jnp.sum(w**2))

    @implicit_diff.custom_root(slope)
    def solve(start: Any, x: Any, y: Any, strength: Any) -> Any:
        del start
        matrix = x.T @ x / 8.0 + strength * jnp.eye(4)
        return jax.scipy.linalg.solve(matrix, x.T @ y / 8.0, assume_a="pos")

    return solve(None, x, y, strength)


def root(solver: Callable[..., Any]) -> LibraryCase:
    """A root of two equations."""
    return LibraryCase(lambda a: solver(system).run(START, a).params, (A,), 2e-3)


def fixed_point(solver: Callable[..., Any]) -> LibraryCase:
    """A fixed point."""
    return LibraryCase(
        lambda a: solver(lambda y, a: jnp.cos(y) * a * 0.7).run(START, a).params, (A,), 2e-3
    )


def fit(solver: Callable[..., Any]) -> LibraryCase:
    """The least squares fit of an exponential."""
    times = jnp.linspace(0.0, 1.0, 7)

    def residuals(y: Any, measured: Any) -> Any:
        return y[0] * jnp.exp(-y[1] * times) - measured

    measured = 1.3 * jnp.exp(-0.7 * times) + 0.05 * jnp.sin(9.0 * times)
    return LibraryCase(
        lambda m: solver(residuals).run(jnp.ones(2), m).params, (measured,), 2e-3
    )


def _bisection(a: Any) -> Any:
    return (
        jaxopt.Bisection(lambda y, a: y**3 - a, 0.1, 3.0, tol=1e-6, check_bracket=False)
        .run(None, a)
        .params
    )


def _quadratic(q: Any, c: Any) -> Any:
    q = q @ q.T
    equal = jaxopt.EqualityConstrainedQP(tol=1e-6)
    one = jnp.ones((1, 2)), jnp.array([1.0])
    return equal.run(params_obj=(q, c), params_eq=one).params


def _osqp(q: Any, c: Any) -> Any:
    parts = {"params_obj": (q @ q.T, c), "params_eq": (jnp.ones((1, 2)), jnp.array([1.0]))}
    bounds = -jnp.eye(2), jnp.array([0.0, -0.2])
    return jaxopt.OSQP(tol=1e-5, maxiter=400).run(**parts, params_ineq=bounds).params


def _box(q: Any, c: Any) -> Any:
    bounds = jnp.zeros(2), jnp.ones(2)
    start = jnp.full(2, 0.5)
    return jaxopt.BoxCDQP(maxiter=50).run(start, (q @ q.T, c), bounds).params


def _projections(y: Any, a: Any) -> Any:
    return (
        projection.projection_simplex(y), projection.projection_l1_ball(y, 0.7),
        projection.projection_l2_ball(y, 0.7), projection.projection_box(y, (-0.3, 0.4)),
        projection.projection_hyperplane(y, (a, 1.0)),
        projection.projection_halfspace(y, (a, 0.3)),
        projection.projection_box_section(y, (jnp.zeros(8), jnp.ones(8), jnp.ones(8), 1.0)),
    )  # fmt: skip


def _transport(cost: Any) -> Any:
    rows, columns = jnp.full(8, 1.0 / 8.0), jnp.full(4, 0.25)
    return projection.kl_projection_transport(cost, (rows, columns))


def _losses(x: Any, y: Any) -> Any:
    loss = jaxopt.loss
    at = jnp.array([0, 1, 2, 3, 0, 1, 2, 3])
    return (
        jax.vmap(loss.multiclass_logistic_loss)(at, x),
        jax.vmap(loss.multiclass_sparsemax_loss)(at, x),
        jax.vmap(loss.binary_logistic_loss)(at % 2, y),
        jax.vmap(loss.huber_loss)(y, x[:, 0]),
    )


CASES: Cases = {
    "GradientDescent": minimum(jaxopt.GradientDescent),
    "LBFGS": minimum(jaxopt.LBFGS),
    "LBFGS by backtracking": minimum(jaxopt.LBFGS, linesearch="backtracking"),
    "BFGS": minimum(jaxopt.BFGS),
    "NonlinearCG": minimum(jaxopt.NonlinearCG),
    "LBFGS unrolled": minimum(
        jaxopt.LBFGS, implicit_diff=False, unroll=True, maxiter=6, linesearch="backtracking",
        jit=True, maxls=4,
    ),
    "ProjectedGradient on the simplex": projected(projection.projection_simplex, 1.0),
    "ProjectedGradient in a box": projected(projection.projection_box, (-0.2, 0.3)),
    "ProjectedGradient in a ball": projected(projection.projection_l2_ball, 0.3),
    "ProximalGradient": LibraryCase(_lasso, (X, Y, STRENGTH), 2e-3),
    "BlockCoordinateDescent": LibraryCase(_coordinates, (X, Y, STRENGTH), 2e-3),
    "custom_root of a ridge regression": LibraryCase(_ridge, (X, Y, STRENGTH), 1e-3),
    "Broyden": root(lambda f: jaxopt.Broyden(f, tol=1e-5, maxiter=50)),
    "Bisection": LibraryCase(_bisection, (jnp.asarray(2.0),), 1e-3),
    "AndersonAcceleration": fixed_point(
        lambda f: jaxopt.AndersonAcceleration(f, history_size=3, maxiter=50, tol=1e-5)
    ),
    "FixedPointIteration": fixed_point(lambda f: jaxopt.FixedPointIteration(f, maxiter=80)),
    "GaussNewton": fit(lambda f: jaxopt.GaussNewton(f, maxiter=30)),
    "LevenbergMarquardt": fit(lambda f: jaxopt.LevenbergMarquardt(f, maxiter=40)),
    "EqualityConstrainedQP": LibraryCase(_quadratic, (DENSE, A), 2e-3),
    "OSQP": LibraryCase(_osqp, (DENSE, -A), 5e-3),
    "BoxCDQP": LibraryCase(_box, (DENSE, -A), 2e-3),
    "projections": LibraryCase(_projections, (Y, X[:, 0]), 1e-3),
    "projection onto a transport polytope": LibraryCase(_transport, (X,), 2e-3),
    "losses": LibraryCase(_losses, (X, Y)),
}  # fmt: skip
