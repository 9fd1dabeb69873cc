"""Cost estimate of a kernel from its jaxpr."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from braces.lazy import extend, tracing

UNKNOWN_WORK = math.inf
JaxprPart: TypeAlias = Any
"""A jaxpr, or a part of one: an equation, a variable, a parameter."""


def estimate_work(jaxpr: JaxprPart) -> float:
    """Return the number of elements and products that a jaxpr computes.

    The cost is `UNKNOWN_WORK` for loops with a data-dependent trip count.
    """
    return sum(map(_equation_cost, jaxpr.eqns))


def _equation_cost(equation: JaxprPart) -> float:
    name, params = equation.primitive.name, equation.params
    out_avals = [
        shaped.aval
        for shaped in equation.outvars
        if isinstance(shaped.aval, tracing.ShapedArray)
    ]
    numbers = sum(math.prod(shaped.shape) for shaped in out_avals)
    inside = sum(map(estimate_work, inner_jaxprs(params.values())))
    match name:
        case "while":
            return UNKNOWN_WORK
        case "scan":
            return numbers + params["length"] * inside
        case "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            return numbers * _sizes(equation.invars[0], contracted)
        case "conv_general_dilated":
            return numbers * _sizes(
                equation.invars[1], params["dimension_numbers"].rhs_spec[1:]
            )
        case _:
            return numbers + inside


def _sizes(variable: JaxprPart, axes: Iterable[int]) -> int:
    return math.prod(variable.aval.shape[axis] for axis in axes)


def inner_jaxprs(params: Iterable[JaxprPart]) -> Iterator[JaxprPart]:
    """Yield the jaxprs among the parameters of an equation."""
    for value in params:
        if isinstance(value, extend.ClosedJaxpr | extend.Jaxpr):
            yield value
        elif isinstance(value, tuple | list):
            yield from inner_jaxprs(value)
