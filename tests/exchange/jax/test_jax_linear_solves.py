"""Equations of `lax.custom_linear_solve` that say no transposed ones."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br

pytestmark = pytest.mark.unoptimized


def test_a_solution_without_transposed_equations_has_an_exact_gradient_or_is_refused(
    mode: str,
) -> None:
    def solved(a: Any, b: Any, solve: Any) -> Any:
        return lax.custom_linear_solve(lambda v: a @ v, b, solve)

    def direct(a: Any, b: Any) -> Any:
        """What solves the equations holds the matrix fast."""
        inverse = jnp.linalg.inv(lax.stop_gradient(a))
        return solved(a, b, lambda _, b: inverse @ b)

    def iterated(a: Any, b: Any) -> Any:
        def solve(multiply: Any, b: Any) -> Any:
            return lax.while_loop(
                lambda x: jnp.any(jnp.abs(multiply(x) - b) > 1e-4),
                lambda x: x + 0.2 * (b - multiply(x)),
                jnp.zeros_like(b),
            )

        return solved(a, b, solve)

    a = (np.sin(np.arange(9.0)).reshape(3, 3) + 3.0 * np.eye(3)).astype("f4")
    b = np.array([1.0, -2.0, 0.5], "f4")
    prog, values = br.from_jax(direct, a, b)
    scope = br.Scope()
    scope.update(values)
    with prog:
        given = [prog.var("a"), prog.var("b")]
        first = br.gradients(br.sum(prog.var("out") ** 2), given)
        second = br.gradients(br.sum(br.sin(first[0])), given)
    got = br.Executor(mode=mode).run(prog, scope, {"a": a, "b": b}, ["out", *first, *second])

    def loss(a: Any, b: Any) -> Any:
        return jnp.sum(jnp.linalg.solve(a, b) ** 2)

    def slope(a: Any, b: Any) -> Any:
        return jnp.sum(jnp.sin(jax.grad(loss)(a, b)))

    wanted = [
        np.linalg.solve(a, b),
        *jax.grad(loss, (0, 1))(a, b),
        *jax.grad(slope, (0, 1))(a, b),
    ]
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)
    with pytest.raises(br.ProgramError, match="without `transpose_solve`"):
        br.from_jax(iterated, a, b)
    fast = lax.stop_gradient
    prog, _ = br.from_jax(lambda a, b: iterated(fast(a), fast(b)), a, b)
    (got,) = br.Executor(mode=mode).run(prog, br.Scope(), {"a": a, "b": b}, ["out"])
    np.testing.assert_allclose(got, wanted[0], rtol=1e-3, atol=1e-3)
