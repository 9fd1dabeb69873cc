"""Primitives of libraries, imported by tracing their implementation.

    b:f32[3] = nonbatchable a           nothing, because the implementation is the identity

`Primitive.def_impl` registers a function that computes the primitive. Where there is none, the
function that `mlir.lower_fun` lowers is used. It is traced for the types of the arguments, with
the values of those that are known, and its equations are appended. The derivative is JAX's
derivative of the primitive.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from braces.builder.var import Var
from braces.errors import ProgramError
from braces.jaxpr.core.custom_derivatives import (
    DEEPEST_IN_LIBRARIES,
    struct_of,
    with_jax_derivative,
)
from braces.jaxpr.core.equation import Equation, Value
from braces.jaxpr.core.tracing import closed_jaxpr
from braces.lazy import lowerings
from braces.ops.control.partition.kernel_cost import inner_jaxprs

_lowerings: Any = lowerings
_NONE = "no equivalent operator"


def _implementation(e: Equation, *values: Value) -> Sequence[Value]:
    """Append the equations of the implementation of a primitive."""
    for compute in _implementations(e.eqn.primitive):
        try:
            closed, inputs = _trace_implementation(e, compute, values)
        except ProgramError:
            continue
        if not _binds_equation(closed, e.eqn):
            return e.call(closed, inputs)
    e.refuse(_NONE)


def _implementations(primitive: Any) -> Iterator[Callable[..., Any]]:
    """Yield the functions that may compute a primitive."""
    yield primitive.impl
    entry = getattr(_lowerings, "_lowerings", {}).get(primitive)
    rule = getattr(entry, "rule", None)
    if inspect.isfunction(rule):
        captured = inspect.getclosurevars(rule).nonlocals
        if "fun" in captured and "multiple_results" in captured:
            yield captured["fun"]


def _trace_implementation(
    e: Equation, compute: Callable[..., Any], values: Sequence[Value]
) -> tuple[Any, list[Var]]:
    """Return the jaxpr of the implementation of a primitive, and its inputs.

    Arguments with known values are concrete for the implementation.

    Raises:
        ProgramError: If the implementation cannot be traced.
    """
    params = dict(e.params)
    unknown = [at for at, value in enumerate(values) if isinstance(value, Var)]
    structs = [struct_of(e.eqn.invars[at].aval) for at in unknown]

    def apply_with_known(*arrays: Any) -> Any:
        operands = list[Any](values)
        for at, array in zip(unknown, arrays, strict=True):
            operands[at] = array
        return compute(*operands, **params)

    what = f"The implementation of `{e.name}`"
    closed, _ = closed_jaxpr(what, apply_with_known, structs)
    return closed, [cast("Var", values[at]) for at in unknown]


def _binds_equation(closed: Any, eqn: Any) -> bool:
    """Return whether a jaxpr, or one in its equations, has an equation.

    JAX implements its own primitives by binding them. Implementations of libraries may bind the
    primitive with other parameters.
    """
    return any(
        _is_same(inner, eqn)
        or any(_binds_equation(jaxpr, eqn) for jaxpr in inner_jaxprs(inner.params.values()))
        for inner in closed.eqns
    )


def _is_same(eqn: Any, other: Any) -> bool:
    """Return whether two equations bind a primitive for the same types and parameters."""
    if eqn.primitive is not other.primitive or len(eqn.invars) != len(other.invars):
        return False
    pairs = zip(eqn.invars, other.invars, strict=True)
    if any(str(mine.aval) != str(theirs.aval) for mine, theirs in pairs):
        return False
    return all(_equal(eqn.params[name], other.params.get(name)) for name in eqn.params)


def _equal(mine: Any, theirs: Any) -> bool:
    try:
        return mine is theirs or bool(np.all(mine == theirs))
    except Exception:
        return False


implementation = with_jax_derivative(_implementation, lambda _: True, DEEPEST_IN_LIBRARIES)
