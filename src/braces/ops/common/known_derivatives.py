"""Kernels whose derivatives of every order are known, where JAX knows some of them or none.

    f = smooth(2, derivative)      derivative(0, 0) is f, derivative(1, 0) its slope by x

A slope is a function of the same kind, of a higher order, so `jax.vjp` and `jax.jvp` find one
however often they are applied. What is a loop is differentiated forwards alone, for which a
loop need not be kept; what is chosen between then brings no NaN of the other side along.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from braces.lazy import derivatives, jax, jnp

Kernel: TypeAlias = "Callable[..., Any]"
"""From arrays of one shape and dtype to one of that shape and dtype, element by element."""


def smooth(arity: int, derivative: Callable[..., Kernel]) -> Kernel:
    """A kernel that can be differentiated as often as one likes.

    Args:
        arity: How many arrays it takes; they are broadcast.
        derivative: From how often it is differentiated by each of them to a kernel of that.
    """

    @cache
    def of(*orders: int) -> Kernel:
        made = derivatives.custom_jvp(derivative(*orders))

        def moved(values: Any, tangents: Any) -> tuple[Any, Any]:
            parts = [
                tangent * of(*_raised(orders, at))(*values)
                for at, tangent in enumerate(tangents)
                if not isinstance(tangent, derivatives.SymbolicZero)
            ]
            return made(*values), sum(parts[1:], parts[0])

        made.defjvp(moved, symbolic_zeros=True)
        return made

    return lambda *values: of(*(0,) * arity)(*jnp.broadcast_arrays(*values))


def _raised(orders: tuple[int, ...], at: int) -> tuple[int, ...]:
    return *orders[:at], orders[at] + 1, *orders[at + 1 :]


def differentiated(kernel: Kernel, *orders: int) -> Kernel:
    """A kernel, differentiated so often by each of its arrays, forwards."""
    for at, order in enumerate(orders):
        for _ in range(order):
            kernel = _by(kernel, at)
    return kernel


def _by(kernel: Kernel, at: int) -> Kernel:
    def slope(*values: Any) -> Any:
        def moved(value: Any) -> Any:
            return kernel(*values[:at], value, *values[at + 1 :])

        return jax.jvp(moved, (values[at],), (jnp.ones_like(values[at]),))[1]

    return slope
