"""Operators in functions of JAX: what a program computes, called while it is traced.

    def line(x):                            a: f32[] = multiply(x=two, y=x)
        return jnp.sin(insert(2.0 * x))     b: f32[] = ...     what `build` appends of a
                                            c: f32[] = sin(x=b)

What stands there is one equation, which JAX moves into loops and branches as any other, and for
which the rule appends operators to the block that is built then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from braces.builder.var import Var
from braces.define.jax_types import Translation
from braces.dtypes import TensorType
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.lazy import extend, tracing

Build = Callable[[list[Var]], Sequence[Var]]
"""What appends operators that read these variables, and returns what they give."""


def inserting(build: Build, types: Sequence[TensorType]) -> Callable[..., list[Any]]:
    """A function of JAX, for tracing alone, that stands for operators.

    Args:
        build: Appends them.
        types: Of what they give.
    """
    structs = tuple(map(Translation(types).struct, types))

    def insert(*given: Any) -> list[Any]:
        return _primitive().bind(*given, build=build, structs=structs)

    return insert


@cache
def _primitive() -> Any:
    made: Any = extend.Primitive("inserted")
    made.multiple_results = True
    made.def_abstract_eval(_types)
    return made


def _types(*given: Any, build: Build, structs: Sequence[Any]) -> list[Any]:
    del given, build
    core: Any = tracing
    return [core.ShapedArray(struct.shape, struct.dtype) for struct in structs]


def inserted(e: Equation, *values: Value) -> Sequence[Var]:
    """The operators."""
    return e.params["build"](list(map(e.lift, values)))


INSERTED: Mapping[str, Rule] = {"inserted": inserted}
