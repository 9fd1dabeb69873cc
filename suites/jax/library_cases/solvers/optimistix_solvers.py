"""Root finding, least squares, minimization and fixed points of optimistix."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import optimistix as ox

from suites.jax.library_cases.case import Cases, LibraryCase

START, A = jnp.array([0.5, 0.8]), jnp.array([1.2, 0.7])
TIMES = jnp.linspace(0.0, 1.0, 7)
MEASURED = 1.3 * jnp.exp(-0.7 * TIMES) + 0.05 * jnp.sin(9.0 * TIMES)
TOLERANCES: dict[str, float] = {"rtol": 1e-5, "atol": 1e-5}


def system(y: Any, a: Any) -> Any:
    """Two equations."""
    first = jnp.sin(y[0]) + y[1] * a[0] - 1.0
    return jnp.stack([first, 0.3 * y[1] ** 2 - jnp.cos(y[0]) * a[1] + y[1]])


def residuals(y: Any, measured: Any) -> Any:
    """The residuals of an exponential."""
    return y[0] * jnp.exp(-y[1] * TIMES) - measured


def objective(y: Any, a: Any) -> Any:
    """A quartic function."""
    return jnp.sum((y - a) ** 2) + 0.1 * jnp.sum(y**4) + 0.3 * y[0] * y[1]


def solve(
    search: Callable[..., Any], function: Any, solver: Any, start: Any, **options: Any
) -> Callable[..., Any]:
    """A call of optimistix, as a function of the arguments."""
    return lambda a: search(function, solver, start, a, max_steps=200, **options).value


def _cases() -> Cases:
    root = partial(solve, ox.root_find, system, start=START)
    fit = partial(solve, ox.least_squares, residuals, start=jnp.ones(2))
    least = partial(solve, ox.minimise, objective, start=START)
    found: Cases = {}
    for name in ("Newton", "Chord", "Dogleg", "LevenbergMarquardt", "BFGS"):
        function = root(solver=getattr(ox, name)(**TOLERANCES))
        found[f"root {name}"] = LibraryCase(function, (A,))
    names = ("GaussNewton", "LevenbergMarquardt", "IndirectLevenbergMarquardt", "Dogleg")
    for name in names:
        function = fit(solver=getattr(ox, name)(**TOLERANCES))
        found[f"least squares {name}"] = LibraryCase(function, (MEASURED,), 1e-3)
    for name in ("BFGS", "LBFGS", "DFP", "NonlinearCG"):
        function = least(solver=getattr(ox, name)(**TOLERANCES))
        found[f"minimum {name}"] = LibraryCase(function, (A,), 2e-3)
    simplex = least(solver=ox.NelderMead(rtol=1e-3, atol=1e-3))
    found["minimum NelderMead"] = LibraryCase(simplex, (A,), 2e-3)
    descent = least(solver=ox.GradientDescent(learning_rate=0.1, **TOLERANCES))
    found["minimum GradientDescent"] = LibraryCase(descent, (A,), 1e-3)
    bounds = {"lower": 0.0, "upper": 3.0}
    bisection = partial(ox.Bisection, **TOLERANCES)()
    cube = solve(ox.root_find, lambda y, a: y**3 - a, bisection, jnp.array(0.1), options=bounds)
    found["root Bisection"] = LibraryCase(cube, (jnp.array(2.0),))
    for solver in (ox.FixedPointIteration(**TOLERANCES), ox.Newton(**TOLERANCES)):
        function = solve(ox.fixed_point, lambda y, a: jnp.cos(y) * a, solver, START)
        found[f"fixed point {type(solver).__name__}"] = LibraryCase(function, (A,))
    return found


CASES = _cases()
