"""Poisson and binomial variables, each drawn from its own key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braces.define.decorator import Tensor, op
from braces.dtypes import INT64, DType, is_float
from braces.errors import DTypeError, RunError
from braces.lazy import jax, jnp
from braces.ops.common.rules import real_numbers
from braces.ops.random.keys import STATE
from braces.ops.random.samplers import run_key

OPERATIONS = 400
"""Estimated cost of one number, which is drawn by rejection sampling."""


def count_dtypes(what: str, key: DType, *parameters: DType) -> DType:
    """Dtype rule: integers; the parameters are floats."""
    for parameter in parameters:
        if key != STATE or not is_float(parameter):
            raise DTypeError(
                f"{what}: expected uint32 keys and a floating dtype, got {key} and {parameter}."
            )
        real_numbers(what, parameter)
    return INT64


def _draw_from_keys(draw: Callable[..., Any], key: Any, *parameters: Any) -> Any:
    """Draw one number from each key."""
    shape = jnp.broadcast_shapes(key.shape[:-1], *(x.shape for x in parameters))
    keys = jnp.broadcast_to(key, (*shape, 2)).reshape(-1, 2)
    flat = (jnp.broadcast_to(x, shape).reshape(-1) for x in parameters)
    drawn = jax.vmap(lambda key, *params: draw(run_key(key), *params))(keys, *flat)
    return drawn.astype(INT64).reshape(shape)


@op(
    function=False,
    axes="... word!, ... -> ...",
    dtypes=count_dtypes,
    differentiable=False,
    costly=True,
    operations=OPERATIONS,
    examples=("key=u32[2,3,2] rate=f32[2,3]", "key=u32[b,2] rate=f64[b]"),
)
def poisson_of_key(key: Tensor, rate: Tensor) -> Tensor:
    """Poisson variables drawn from keys, bit for bit those of `jax.random.poisson`.

        P(out[i] = k) = rate[i]^k exp(-rate[i]) / k!

    Sources: Knuth, The Art of Computer Programming, volume 2, 1969, for rates below 10;
    Hoermann, The transformed rejection method for generating Poisson random variables, 1993.

    Inputs:
        key: u32[*shape, 2]. The two words of each key.
        rate: float[*shape]. Converted to float32.

    Outputs:
        out: int64[*shape].

    Raises:
        ShapeError: If the shape of the keys does not match that of the rates.
        DTypeError: If the dtype is unsupported.
        RunError: If a rate is negative, infinite or NaN at run time.
    """
    return _draw_from_keys(jax.random.poisson, key, rate)


@poisson_of_key.checked(
    RunError,
    "A Poisson rate is negative, infinite or NaN.",
    fix="Use br.softplus or br.exp for positive rates.",
)
def no_rate(key: Tensor, rate: Tensor) -> Tensor:
    """Return a mask of the invalid rates."""
    del key
    return ~((rate >= 0) & jnp.isfinite(rate))


@op(
    function=False,
    axes="... word!, ..., ... -> ...",
    dtypes=count_dtypes,
    differentiable=False,
    costly=True,
    operations=OPERATIONS,
    examples=(
        "key=u32[2,3,2] trials=f32[2,3] probability=f32[2,3]",
        "key=u32[b,2] trials=f64[b] probability=f64[b]",
    ),
)
def binomial_of_key(key: Tensor, trials: Tensor, probability: Tensor) -> Tensor:
    """Binomial variables drawn from keys, bit for bit those of `jax.random.binomial`.

        P(out[i] = k) = C(n, k) p^k (1 - p)^(n - k),  n = trials[i], p = probability[i]

    Sources: Kachitvichyanukul, Schmeiser, Binomial random variate generation, 1988, for n p up
    to 10; Hoermann, The generation of binomial random variates, 1993.

    Inputs:
        key: u32[*shape, 2]. The two words of each key.
        trials: float[*shape]. The number of trials; rounded down.
        probability: float[*shape]. Of success, from 0 to 1.

    Outputs:
        out: int64[*shape]. From 0 to `trials`.

    Raises:
        ShapeError: If the shape of the keys does not match that of the numbers.
        DTypeError: If the dtype is unsupported.
        RunError: If a number of trials is negative, or a probability is outside [0, 1] at run
            time.
    """
    parameters = (x.astype(np.float64) for x in (trials, probability))
    return _draw_from_keys(_binomial, key, *parameters)


def _binomial(key: Any, trials: Any, probability: Any) -> Any:
    drawn = jax.random.binomial(key, trials, probability, dtype=np.float64)
    return jnp.where(jnp.isfinite(drawn), drawn, 0)  # NaN: the check refuses it


@binomial_of_key.checked(
    RunError,
    "A number of trials is negative, or a probability is not between 0 and 1.",
    fix="Use br.sigmoid for probabilities.",
)
def no_trials(key: Tensor, trials: Tensor, probability: Tensor) -> Tensor:
    """Return a mask of the invalid parameters."""
    del key
    valid_trials = (trials >= 0) & jnp.isfinite(trials)
    return ~(valid_trials & (probability >= 0) & (probability <= 1))
