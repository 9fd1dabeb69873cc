"""Random draws of JAX as one operator each, recognized by their equations.

    f:f32[3] = jit[name=_normal jaxpr=…] key      normal_of_key_0 = normal_of_key(key=key) {…}

The functions of `jax.random` are under `jit`. A call becomes an operator if its name and its
equations are those of JAX's function for the same key, shape and parameters. Other functions
with these names are not draws. Under `vmap`, the axes of the keys lead the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.jaxpr.core.custom_derivatives import struct_of
from braces.jaxpr.core.equation import Equation, Value
from braces.jaxpr.core.recognized_functions import jaxpr_text
from braces.lazy import jax, lax

_jax: Any = jax
_lax: Any = lax


@dataclass(frozen=True)
class Draw:
    """A function of `jax.random` that is an operator.

    Attributes:
        function: From a key, a shape, a dtype and parameters to the draw.
        append: Appends the operator, from the equation, the key and the parameters; `None` if
            the parameters are unsuitable.
    """

    function: Callable[..., Any]
    append: Callable[..., Value | None]


def append_draw(e: Equation, values: Sequence[Value]) -> Value | None:
    """Append the operator of a call of `jax.random`; `None` for other calls."""
    draw = DRAWS.get(e.params["name"])
    if draw is None or not _is_threefry(e.eqn.invars[0].aval) or len(e.eqn.outvars) != 1:
        return None
    avals = [atom.aval for atom in e.eqn.invars]
    batched = next((flags for flags in _batchings(avals) if _is_same(e, draw, flags)), None)
    if batched is None:
        return None
    key, *parameters = values
    led = avals[0].ndim
    aligned = [
        _align(e, x, led) if flag else x for flag, x in zip(batched, parameters, strict=True)
    ]
    return draw.append(e, e.lift(key), *aligned)


def _is_threefry(aval: Any) -> bool:
    is_default = bool(_jax.config.jax_threefry_partitionable)
    return is_default and str(getattr(aval, "dtype", "")) == "key<fry>"


def _batchings(avals: Sequence[Any]) -> Iterator[tuple[bool, ...]]:
    """Yield by parameter whether it has the axes of the keys, as far as shapes allow."""
    key, *parameters = avals
    may_be = [key.ndim > 0 and aval.shape[: key.ndim] == key.shape for aval in parameters]
    return product(*((False, True) if flag else (False,) for flag in may_be))


def _is_same(e: Equation, draw: Draw, batched: Sequence[bool]) -> bool:
    """Return whether a call has the equations of JAX's function.

    Args:
        e: The call.
        draw: The function.
        batched: By parameter, whether it has the axes of the keys.
    """
    out, key = e.eqn.outvars[0].aval, e.eqn.invars[0].aval
    if out.shape[: key.ndim] != key.shape:
        return False
    shape = out.shape[key.ndim :]

    def function(key: Any, *parameters: Any) -> Any:
        return draw.function(key, shape, out.dtype, *parameters)

    for _ in key.shape:
        axes = (0, *(0 if flag else None for flag in batched))
        function = _jax.vmap(function, in_axes=axes)
    structs = [_key_struct(key), *(struct_of(atom.aval) for atom in e.eqn.invars[1:])]
    try:
        reference = _jax.make_jaxpr(function)(*structs)
    except (TypeError, ValueError):  # JAX rejects these shapes or dtypes
        return False
    ours = [eqn for eqn in reference.jaxpr.eqns if eqn.params.get("name") == e.params["name"]]
    text = jaxpr_text(e.params["jaxpr"])
    return any(jaxpr_text(eqn.params["jaxpr"]) == text for eqn in ours)


def _key_struct(aval: Any) -> Any:
    return _jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _align(e: Equation, parameter: Value, led: int) -> Value:
    """Return a parameter with the axes of the keys, aligned to the shape of the draw."""
    var = e.lift(parameter)
    missing = len(e.shape) - var.ndim
    shape = (*var.shape[:led], *(1,) * missing, *var.shape[led:])
    return emit("reshape", var, shape=shape) if missing else var


# ---- operators -------------------------------------------------------------------------------


def _plain(operator: str) -> Callable[..., Value | None]:
    """Return a function that appends an operator without parameters, for real numbers."""

    def append(e: Equation, key: Var) -> Value | None:
        is_real = e.dtype.kind != "c"
        return emit(operator, key, shape=e.shape, dtype=e.dtype) if is_real else None

    return append


def _uniform(e: Equation, key: Var, low: Value, high: Value) -> Value:
    """A uniform draw; between variable bounds it is arithmetic on one in [0, 1)."""
    bounds = _numbers(low, high)
    if bounds is not None:
        return _bounded("uniform_of_key", e, key, *bounds)
    unit = emit("uniform_of_key", key, shape=e.shape, dtype=e.dtype)
    rank = len(e.shape)

    def between(unit: Any, low: Any, high: Any) -> Any:
        low, high = (_lax.convert_element_type(x, unit.dtype) for x in (low, high))
        low, high = (_lax.broadcast_to_rank(x, rank) for x in (low, high))
        return _lax.max(low, unit * (high - low) + low)

    (result,) = e.written(between, unit, low, high)
    return result


def _truncated_normal(e: Equation, key: Var, low: Value, high: Value) -> Value | None:
    bounds = _numbers(low, high)
    return None if bounds is None else _bounded("truncated_normal_of_key", e, key, *bounds)


def _bounded(operator: str, e: Equation, key: Var, low: float, high: float) -> Value:
    return emit(operator, key, shape=e.shape, low=low, high=high, dtype=e.dtype)


def _numbers(*values: Value) -> list[float] | None:
    """Return real numbers; `None` if a value is a variable or an array."""
    constant = all(isinstance(x, np.ndarray) and not x.ndim for x in values)
    return [float(x) for x in values if isinstance(x, np.ndarray)] if constant else None


def _bernoulli(e: Equation, key: Var, p: Value) -> Value:
    return emit("bernoulli_of_key", key, e.lift(p), shape=e.shape)


def _randint(e: Equation, key: Var, low: Value, high: Value) -> Value:
    return emit("randint_of_key", key, e.lift(low), e.lift(high), shape=e.shape, dtype=e.dtype)


def _same_order(name: str) -> Callable[..., Any]:
    """Return a function of `jax.random` that takes parameters after the dtype."""

    def draw(key: Any, shape: Any, dtype: Any, *parameters: Any) -> Any:
        return getattr(_jax.random, name)(key, shape, dtype, *parameters)

    return draw


def _jax_bernoulli(key: Any, shape: Any, dtype: Any, p: Any) -> Any:
    del dtype
    return _jax.random.bernoulli(key, p, shape)


def _jax_gumbel(key: Any, shape: Any, dtype: Any) -> Any:
    return _jax.random.gumbel(key, shape, dtype, mode="low")


def _jax_randint(key: Any, shape: Any, dtype: Any, low: Any, high: Any) -> Any:
    return _jax.random.randint(key, shape, low, high, dtype)


def _jax_truncated_normal(key: Any, shape: Any, dtype: Any, low: Any, high: Any) -> Any:
    return _jax.random.truncated_normal(key, low, high, shape, dtype)


DRAWS: Mapping[str, Draw] = {
    "_bernoulli": Draw(_jax_bernoulli, _bernoulli),
    "_exponential": Draw(_same_order("exponential"), _plain("exponential_of_key")),
    "_gumbel": Draw(_jax_gumbel, _plain("gumbel_of_key")),
    "_normal": Draw(_same_order("normal"), _plain("normal_of_key")),
    "_randint": Draw(_jax_randint, _randint),
    "_truncated_normal": Draw(_jax_truncated_normal, _truncated_normal),
    "_uniform": Draw(_same_order("uniform"), _uniform),
}
"""Draws by the name of JAX's function under `jit`."""
