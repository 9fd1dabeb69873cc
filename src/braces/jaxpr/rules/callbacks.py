"""Operators inside JAX functions: a program part that is inserted during tracing; and prints.

    def line(x):                            a: f32[] = multiply(x=two, y=x)
        return jnp.sin(insert(2.0 * x))     b: f32[] = ...     the operators of `build(a)`
                                            c: f32[] = sin(x=b)

The insertion is one equation, which JAX moves into loops and branches like any other. Its rule
appends the operators to the block that is current then.

`jax.debug.print` and `jax.debug.callback` have no results. A program leaves them out, with a
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from braces.builder.source_line import warn_user
from braces.builder.var import Var
from braces.define.jax_types import JaxTypeConverter
from braces.dtypes import TensorType
from braces.jaxpr.core.equation import Equation, Rule, Value, user_line
from braces.lazy import extend, tracing

Build = Callable[[list[Var]], Sequence[Var]]
"""Appends operators that read these variables, and returns their results."""


def insertion_function(build: Build, types: Sequence[TensorType]) -> Callable[..., list[Any]]:
    """Return a JAX function, for tracing only, that represents operators.

    Args:
        build: Appends the operators.
        types: The types of their results.
    """
    structs = tuple(map(JaxTypeConverter(types).struct, types))

    def insert(*given: Any) -> list[Any]:
        return _primitive().bind(*given, build=build, structs=structs)

    return insert


@cache
def _primitive() -> Any:
    primitive: Any = extend.Primitive("inserted")
    primitive.multiple_results = True
    primitive.def_abstract_eval(_types)
    return primitive


def _types(*given: Any, build: Build, structs: Sequence[Any]) -> list[Any]:
    del given, build
    core: Any = tracing
    return [core.ShapedArray(struct.shape, struct.dtype) for struct in structs]


def insert_operators(e: Equation, *values: Value) -> Sequence[Var]:
    """The operators of an insertion."""
    return e.params["build"](list(map(e.lift, values)))


INSERTED: Mapping[str, Rule] = {"inserted": insert_operators}


# ---- prints ----------------------------------------------------------------------------------


def leave_out(e: Equation, *values: Value) -> list[Value]:
    """No operator for a callback without results: the values do not depend on it.

    Warns:
        BracesWarning: Always, with the place of the call.
    """
    del values
    place = user_line(e.eqn) or e.runner.line or "an unknown line"
    warn_user(
        f"{e.runner.what} calls `{e.name}` at {place}. The program leaves it out; to see the "
        "values, fetch them, or prog.probe(path)."
    )
    return []


PRINTS: Mapping[str, Rule] = {"debug_callback": leave_out, "debug_print": leave_out}
