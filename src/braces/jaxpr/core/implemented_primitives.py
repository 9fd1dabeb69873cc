"""Primitives that libraries define: the equations of their implementation.

    b:f32[3] = nonbatchable a           nothing, for its implementation returns its argument

`Primitive.def_impl` names a function that computes the primitive. It is traced for the types of
the arguments, and its equations are appended. The derivative is that which JAX has of the
primitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.errors import ProgramError
from braces.jaxpr.core.custom_derivatives import struct_of, with_derivative_of_jax
from braces.jaxpr.core.equation import Equation, Value
from braces.jaxpr.core.tracing import closed_jaxpr


def _implementation(e: Equation, *values: Value) -> Sequence[Value]:
    """Append the equations of the implementation of a primitive."""
    try:
        closed = _traced(e)
    except ProgramError:
        e.refuse("for which there is no operator")
    if _has(closed, e.eqn.primitive):  # JAX implements its own primitives by binding them
        e.refuse("for which there is no operator")
    return e.call(closed, values)


def _traced(e: Equation) -> Any:
    """The jaxpr of the implementation of a primitive.

    Raises:
        ProgramError: It cannot be traced.
    """
    compute, params = e.eqn.primitive.impl, dict(e.params)
    structs = [struct_of(atom.aval) for atom in e.eqn.invars]
    what = f"The implementation of `{e.name}`"
    return closed_jaxpr(what, lambda *arrays: compute(*arrays, **params), structs)[0]


def _has(closed: Any, primitive: Any) -> bool:
    """Return whether a jaxpr, or one in its equations, binds a primitive."""
    return any(
        eqn.primitive is primitive
        or any(_has(held, primitive) for held in eqn.params.values() if hasattr(held, "eqns"))
        for eqn in closed.eqns
    )


implementation = with_derivative_of_jax(_implementation, lambda _: True)
