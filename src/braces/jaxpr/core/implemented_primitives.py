"""Primitives of libraries, imported by tracing their implementation.

    b:f32[3] = nonbatchable a           nothing, because the implementation is the identity

`Primitive.def_impl` registers a function that computes the primitive. It is traced for the
types of the arguments, and its equations are appended. The derivative is JAX's derivative of
the primitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.errors import ProgramError
from braces.jaxpr.core.custom_derivatives import struct_of, with_jax_derivative
from braces.jaxpr.core.equation import Equation, Value
from braces.jaxpr.core.tracing import closed_jaxpr
from braces.ops.control.partition.kernel_cost import inner_jaxprs


def _implementation(e: Equation, *values: Value) -> Sequence[Value]:
    """Append the equations of the implementation of a primitive."""
    try:
        closed = _trace_implementation(e)
    except ProgramError:
        e.refuse("no equivalent operator")
    # JAX implements its own primitives by binding them.
    if _binds_primitive(closed, e.eqn.primitive):
        e.refuse("no equivalent operator")
    return e.call(closed, values)


def _trace_implementation(e: Equation) -> Any:
    """Return the jaxpr of the implementation of a primitive.

    Raises:
        ProgramError: If the implementation cannot be traced.
    """
    compute, params = e.eqn.primitive.impl, dict(e.params)
    structs = [struct_of(atom.aval) for atom in e.eqn.invars]
    what = f"The implementation of `{e.name}`"
    return closed_jaxpr(what, lambda *arrays: compute(*arrays, **params), structs)[0]


def _binds_primitive(closed: Any, primitive: Any) -> bool:
    """Return whether a jaxpr, or one in its equations, binds a primitive."""
    return any(
        eqn.primitive is primitive
        or any(
            _binds_primitive(inner, primitive) for inner in inner_jaxprs(eqn.params.values())
        )
        for eqn in closed.eqns
    )


implementation = with_jax_derivative(_implementation, lambda _: True)
