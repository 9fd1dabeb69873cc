"""Gamma variables, equal to those of `jax.random` for the same keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    shape_of,
)
from braces.define.decorator import Tensor, op
from braces.dtypes import DType, is_float
from braces.errors import DTypeError
from braces.lazy import derivatives, jax, jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import real_numbers
from braces.ops.random.keys import STATE
from braces.ops.random.samplers import run_key
from braces.ops.special.incomplete_gamma_beta import sample_slope


def of_each_key(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `gamma_of_key`: only the axes of the keys are batch axes."""
    del attrs
    keys, a = shape_of(types["key"][0]), shape_of(types["a"][0])
    if not keys or keys[-1] not in (2, None) or len(keys) > len(a) + 1:
        raise AxisError(f"expected keys of two words for leading axes of {a}, got {keys}.")
    indices, led = numbered_indices(len(a)), len(keys) - 1
    inputs = {"key": ((*indices[:led], "word"),), "a": (indices,)}
    return make_axis_map(types, inputs, {"out": (indices,)}, ["word", *indices[led:]])


def gamma_dtypes(what: str, key: DType, a: DType, *, log: bool) -> DType:
    """Dtype rule: the floating dtype of the parameter."""
    del log
    if key != STATE or not is_float(a):
        raise DTypeError(
            f"{what}: expected a uint32 key and a floating dtype, got {key} and {a}."
        )
    return real_numbers(what, a)


@op(
    function=False,
    axes=of_each_key,
    dtypes=gamma_dtypes,
    costly=True,
    operations=400,
    examples=("key=u32[2] a=f32[2,3]", "key=u32[b,2] a=f64[b,2] log=True"),
)
def gamma_of_key(key: Tensor, a: Tensor, *, log: bool = False) -> Tensor:
    """Gamma variables drawn from a key, bit for bit those of `jax.random.gamma`.

        density(x) = x^(a[i] - 1) e^-x / gamma(a[i])

    The gradient is the implicit reparameterization gradient: a sample moves with its parameter
    such that the cumulative probability below it is constant.
    Source: Marsaglia, Tsang, A Simple Method for Generating Gamma Variables, 2000.

    Inputs:
        key: u32[*keys, 2]. The two words of each key.
        a: float[*keys, *shape]. The parameters, above 0.

    Attributes:
        log: Whether to return logarithms, which are more precise for small numbers.

    Outputs:
        out: float[*keys, *shape].

    Raises:
        ShapeError: If a key does not consist of two words, or the axes of the keys are not the
            leading axes of `a`.
        DTypeError: If the dtype is unsupported.
    """
    draw: Any = derivatives.custom_jvp(lambda a: _draw_gamma(key, a, log))

    def sample_jvp(values: Any, tangents: Any) -> tuple[Any, Any]:
        out = draw(*values)
        return out, tangents[0] * _sample_slope(values[0], out, log=log)

    draw.defjvp(sample_jvp)
    return draw(a)


def _draw_gamma(key: Any, a: Any, log: bool) -> Any:
    def draw_for_key(key: Any, a: Any) -> Any:
        draw = jax.random.loggamma if log else jax.random.gamma
        return draw(run_key(key), a, dtype=a.dtype)

    for _ in range(key.ndim - 1):
        draw_for_key = jax.vmap(draw_for_key)
    return draw_for_key(key, a)


@in_float32
def _sample_slope(a: Any, out: Any, *, log: bool) -> Any:
    if not log:
        return sample_slope(a, out)
    sample = jnp.maximum(jnp.exp(out), np.finfo(out.dtype).tiny)
    return sample_slope(a, sample) / sample
