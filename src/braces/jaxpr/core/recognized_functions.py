"""Functions with an own derivative that are operators: recognized by their equations.

    @jax.custom_jvp                         jax.nn.relu(x)      relu(x=x)
    def relu(x): return max(x, 0)           twice(x)            custom_gradient(…)

A call is an operator where JAX's own function gives the same equations for the same type, and
so do the derivatives of both. Names, modules and files say nothing: a package wraps functions
of JAX, and gives them another derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.jaxpr.core.equation import Equation, needed
from braces.lazy import jax

_jax: Any = jax
OPERATORS: Mapping[str, Callable[[Any], Any]] = {
    "relu": lambda x: _jax.nn.relu(x),
    "relu6": lambda x: _jax.nn.relu6(x),
}
"""Functions of JAX by the operator that has their values and their derivative."""


def operator_of(e: Equation) -> str | None:
    """Return the operator that computes what a call does, with the same derivative."""
    if e.name != "custom_jvp_call" or len(e.eqn.invars) != 1:
        return None
    aval = e.eqn.invars[0].aval
    struct = _jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
    return next((name for name in OPERATORS if _is_same(e.eqn, name, struct)), None)


def _is_same(eqn: Any, name: str, struct: Any) -> bool:
    (known,) = _jax.make_jaxpr(OPERATORS[name])(struct).jaxpr.eqns
    same = _text(eqn.params["call_jaxpr"]) == _text(known.params["call_jaxpr"])
    return same and _derivative(eqn, struct) == _derivative(known, struct)


def _derivative(eqn: Any, struct: Any) -> str:
    """The equations of the tangent of a call, from its argument and the tangent of that."""

    def called(x: Any) -> Any:
        return eqn.primitive.bind(x, **eqn.primitive.get_bind_params(eqn.params))[0]

    def moved(x: Any, tangent: Any) -> Any:
        return _jax.jvp(called, (x,), (tangent,))[1]

    return _text(_jax.make_jaxpr(moved)(struct, struct))


def _text(closed: Any) -> str:
    """The equations that results follow from, and the constants among them."""
    return f"{closed.jaxpr.replace(eqns=needed(closed.jaxpr)[1])} {closed.consts}"
