"""Differential equations of diffrax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import diffrax as dx
import equinox as eqx
import jax
import jax.numpy as jnp

from suites.jax.library_cases.case import Cases, LibraryCase

START, A = jnp.array([1.0, 0.3]), jnp.array([1.2, 0.7])


def field(t: Any, y: Any, a: Any) -> Any:
    """A nonlinear vector field."""
    return jnp.stack([-a[0] * y[0] + 0.2 * y[1], jnp.sin(t) - a[1] * y[1] * y[0]])


def solve(solver: Any, **options: Any) -> Callable[..., Any]:
    """A solve with fixed steps."""

    def function(y: Any, a: Any) -> Any:
        given: dict[str, Any] = {"max_steps": 64, **options}
        return dx.diffeqsolve(dx.ODETerm(field), solver, 0.0, 1.0, 0.1, y, a, **given).ys

    return function


def adaptive(solver: Any, **options: Any) -> Callable[..., Any]:
    """A solve with adaptive steps."""
    controller = dx.PIDController(rtol=1e-4, atol=1e-5)
    return solve(solver, stepsize_controller=controller, **options)


def with_noise(solver: Any, **options: Any) -> Callable[..., Any]:
    """A stochastic differential equation, with a tree or a path of Brownian motion."""

    def function(y: Any, a: Any) -> Any:
        key = jax.random.PRNGKey(1)
        motion: Any = (
            dx.UnsafeBrownianPath((2,), key)
            if options
            else dx.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(2,), key=key)
        )
        noise = dx.ControlTerm(lambda t, y, a: jnp.diag(0.1 * a * y), motion)
        terms = dx.MultiTerm(dx.ODETerm(field), noise)
        return dx.diffeqsolve(terms, solver, 0.0, 1.0, 0.1, y, a, max_steps=32, **options).ys

    return function


class Field(eqx.Module):
    """A network as vector field."""

    network: Any

    def __call__(self, t: Any, y: Any, args: Any) -> Any:
        """The derivative."""
        return self.network(y)


def neural(vector_field: Any, y: Any) -> Any:
    """A neural differential equation."""
    controller = dx.PIDController(rtol=1e-3, atol=1e-4)
    return dx.diffeqsolve(
        dx.ODETerm(vector_field), dx.Tsit5(), 0.0, 1.0, 0.1, y,
        stepsize_controller=controller, max_steps=64,
    ).ys  # fmt: skip


NETWORK = eqx.nn.MLP(2, 2, 8, 1, activation=jnp.tanh, key=jax.random.PRNGKey(0))
TIMES = dx.SaveAt(ts=jnp.linspace(0.0, 1.0, 5))
DIRECT = dx.DirectAdjoint()
CASES: Cases = {
    "Euler": LibraryCase(solve(dx.Euler()), (START, A)),
    "Heun": LibraryCase(solve(dx.Heun()), (START, A)),
    "Midpoint": LibraryCase(solve(dx.Midpoint()), (START, A)),
    "Tsit5": LibraryCase(adaptive(dx.Tsit5()), (START, A)),
    "Tsit5 at times": LibraryCase(adaptive(dx.Tsit5(), saveat=TIMES), (START, A)),
    "Dopri5": LibraryCase(adaptive(dx.Dopri5()), (START, A)),
    "Dopri8": LibraryCase(adaptive(dx.Dopri8()), (START, A)),
    "Kvaerno3": LibraryCase(adaptive(dx.Kvaerno3()), (START, A)),
    "Kvaerno5": LibraryCase(adaptive(dx.Kvaerno5()), (START, A)),
    "ReversibleHeun": LibraryCase(solve(dx.ReversibleHeun()), (START, A)),
    "DirectAdjoint": LibraryCase(adaptive(dx.Tsit5(), adjoint=DIRECT), (START, A)),
    "BacksolveAdjoint": LibraryCase(
        adaptive(dx.Tsit5(), adjoint=dx.BacksolveAdjoint()), (START, A)
    ),
    "noise Euler": LibraryCase(with_noise(dx.Euler()), (START, A)),
    "noise Heun": LibraryCase(with_noise(dx.Heun()), (START, A)),
    "noise Euler along a path": LibraryCase(with_noise(dx.Euler(), adjoint=DIRECT), (START, A)),
    "neural": LibraryCase(neural, (Field(NETWORK), START)),
}
