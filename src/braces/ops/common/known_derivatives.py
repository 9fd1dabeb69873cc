"""Kernels with explicit derivatives of every order, where JAX has some of them or none.

    f = smooth(2, derivative)      derivative(0, 0) is f, derivative(1, 0) its slope by x

A derivative is a kernel of the same kind, of a higher order, so `jax.vjp` and `jax.jvp` can be
applied any number of times. Kernels with loops are differentiated in forward mode only, which
saves no residuals. NaN of a branch that was not selected does not reach the derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from braces.lazy import derivatives, jax, jnp

Kernel: TypeAlias = "Callable[..., Any]"
"""An elementwise function of arrays with one shape and dtype, which the result shares."""


def build_smooth_kernel(arity: int, derivative: Callable[..., Kernel]) -> Kernel:
    """Build a kernel that can be differentiated any number of times.

    Args:
        arity: The number of arrays that the kernel takes; they are broadcast.
        derivative: Maps the order of differentiation by each array to the kernel of that
            derivative.
    """

    @cache
    def of_orders(*orders: int) -> Kernel:
        kernel = derivatives.custom_jvp(derivative(*orders))

        def jvp(values: Any, tangents: Any) -> tuple[Any, Any]:
            terms = [
                tangent * of_orders(*_raise_order(orders, at))(*values)
                for at, tangent in enumerate(tangents)
                if not isinstance(tangent, derivatives.SymbolicZero)
            ]
            return kernel(*values), sum(terms[1:], terms[0])

        kernel.defjvp(jvp, symbolic_zeros=True)
        return kernel

    return lambda *values: of_orders(*(0,) * arity)(*jnp.broadcast_arrays(*values))


def _raise_order(orders: tuple[int, ...], argument: int) -> tuple[int, ...]:
    return *orders[:argument], orders[argument] + 1, *orders[argument + 1 :]


def differentiate_kernel(kernel: Kernel, *orders: int) -> Kernel:
    """Differentiate a kernel in forward mode, `orders[i]` times by its array `i`."""
    for argument, order in enumerate(orders):
        for _ in range(order):
            kernel = _differentiate_once(kernel, argument)
    return kernel


def _differentiate_once(kernel: Kernel, argument: int) -> Kernel:
    def slope(*values: Any) -> Any:
        def of_argument(value: Any) -> Any:
            return kernel(*values[:argument], value, *values[argument + 1 :])

        return jax.jvp(of_argument, (values[argument],), (jnp.ones_like(values[argument]),))[1]

    return slope
