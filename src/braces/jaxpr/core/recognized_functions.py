"""Functions with custom derivatives that equal an operator, recognized by their equations.

    @jax.custom_jvp                         jax.nn.relu(x)      relu(x=x)
    def relu(x): return max(x, 0)           twice(x)            custom_gradient(…)

A call becomes an operator if JAX's own function has the same equations for the same type, and
so do the derivatives of both. Names, modules and files are ignored, since packages wrap
functions of JAX and give them other derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.jaxpr.core.equation import Equation, eliminate_dead_equations
from braces.lazy import jax

_jax: Any = jax
OPERATORS: Mapping[str, Callable[[Any], Any]] = {
    "relu": lambda x: _jax.nn.relu(x),
    "relu6": lambda x: _jax.nn.relu6(x),
}
"""JAX functions by the operator with equal values and derivative."""


def operator_of(e: Equation) -> str | None:
    """Return the operator with the values and the derivative of a call, or `None`."""
    if e.name != "custom_jvp_call" or len(e.eqn.invars) != 1:
        return None
    aval = e.eqn.invars[0].aval
    struct = _jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
    return next((name for name in OPERATORS if _is_same(e.eqn, name, struct)), None)


def _is_same(eqn: Any, name: str, struct: Any) -> bool:
    (reference,) = _jax.make_jaxpr(OPERATORS[name])(struct).jaxpr.eqns
    has_same_values = jaxpr_text(eqn.params["call_jaxpr"]) == jaxpr_text(
        reference.params["call_jaxpr"]
    )
    return has_same_values and _derivative(eqn, struct) == _derivative(reference, struct)


def _derivative(eqn: Any, struct: Any) -> str:
    """Return the equations of the tangent of a call."""

    def forward(x: Any) -> Any:
        return eqn.primitive.bind(x, **eqn.primitive.get_bind_params(eqn.params))[0]

    def tangent_of(x: Any, tangent: Any) -> Any:
        return _jax.jvp(forward, (x,), (tangent,))[1]

    return jaxpr_text(_jax.make_jaxpr(tangent_of)(struct, struct))


def jaxpr_text(closed: Any) -> str:
    """Return the live equations and the constants of a jaxpr as text."""
    equations = eliminate_dead_equations(closed.jaxpr)[1]
    return f"{closed.jaxpr.replace(eqns=equations)} {closed.consts}"
