"""How much a computation computes, as far as its trace tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from braces.lazy import extend, tracing

UNKNOWN = math.inf
Traced: TypeAlias = Any
"""A computation that JAX traced, or a part of one: an equation, a variable, a parameter."""


def work_of(jaxpr: Traced) -> float:
    """The numbers that a traced computation makes, each product of two among them.

    What its loops do is unknown where only a run tells their trips.
    """
    return sum(map(_work, jaxpr.eqns))


def _work(equation: Traced) -> float:
    name, params = equation.primitive.name, equation.params
    made = [one.aval for one in equation.outvars if isinstance(one.aval, tracing.ShapedArray)]
    numbers = sum(math.prod(one.shape) for one in made)
    inside = sum(map(work_of, inner_computations(params.values())))
    match name:
        case "while":
            return UNKNOWN
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


def _sizes(variable: Traced, axes: Iterable[int]) -> int:
    return math.prod(variable.aval.shape[axis] for axis in axes)


def inner_computations(params: Iterable[Traced]) -> Iterator[Traced]:
    """The computations among the parameters of an equation."""
    for value in params:
        if isinstance(value, extend.ClosedJaxpr | extend.Jaxpr):
            yield value
        elif isinstance(value, tuple | list):
            yield from inner_computations(value)
