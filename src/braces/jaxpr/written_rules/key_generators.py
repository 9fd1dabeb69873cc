"""Keys of any generator of JAX: threefry has operators, others are traced.

    k:key<rbg>[] = random_seed[impl=rbg] 1      the equations of `impl.seed`
    b:u32[4] c:u32[3] = rng_bit_generator k     philox_bits_0 = philox_bits(key=k) {shape=[3]}

The functions of a generator take the words of one key, and are vectorized as in JAX. Keys of
`rbg` and `unsafe_rbg` draw from `rng_bit_generator`, which is Philox on CPUs and GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.core.implemented_primitives import implementation
from braces.jaxpr.rules.arithmetic import in_dtype
from braces.jaxpr.rules.threefry import RANDOM
from braces.lazy import jax, jnp

_jax: Any = jax
_np: Any = jnp
_THREEFRY = "fry"
_NOT_PHILOX = "algorithm `{}`; keys of `impl='rbg'` and of threefry have the bits of JAX"


def _generator_of(e: Equation) -> Any:
    """Return the functions of the generator of the keys of an equation."""
    avals = [v.aval for v in (*e.eqn.invars, *e.eqn.outvars)]
    is_key = [_jax.dtypes.issubdtype(aval.dtype, _jax.dtypes.prng_key) for aval in avals]
    return avals[is_key.index(True)].dtype._impl


def _of_any_generator(name: str) -> Rule:
    """Extend the rule of keys of threefry to keys of other generators."""

    def rule(e: Equation, *values: Value) -> Value | Sequence[Value]:
        generator = _generator_of(e)
        if generator.tag == _THREEFRY:
            if not _jax.config.jax_threefry_partitionable:
                e.refuse("jax_threefry_partitionable=False")
            return RANDOM[name](e, *values)
        if name not in _TRACED:
            return implementation(e, *values)
        return e.written(_TRACED[name](generator, e), *values)

    return rule


# ---- functions of a generator ----------------------------------------------------------------


def _vectorized(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Vectorize a function of one array by leading axes."""
    for _ in range(count):
        function = _jax.vmap(function)
    return function


def _seed(generator: Any, e: Equation) -> Callable[..., Any]:
    return _vectorized(generator.seed, e.eqn.invars[0].aval.ndim)


def _split(generator: Any, e: Equation) -> Callable[..., Any]:
    split = partial(generator.split, shape=e.params["shape"])
    return _vectorized(split, e.eqn.invars[0].aval.ndim)


def _bits(generator: Any, e: Equation) -> Callable[..., Any]:
    def draw(key: Any) -> Any:
        return generator.random_bits(key, e.params["bit_width"], e.params["shape"])

    return _vectorized(draw, e.eqn.invars[0].aval.ndim)


def _fold_in(generator: Any, e: Equation) -> Callable[..., Any]:
    keys, data = (atom.aval.shape for atom in e.eqn.invars)
    fold: Callable[..., Any] = generator.fold_in
    if not keys or not data:
        axes = (0 if keys else None, 0 if data else None)
        for _ in (*keys, *data):
            fold = _jax.vmap(fold, in_axes=axes)
        return fold
    for left, right in zip(reversed(keys), reversed(data), strict=True):
        fold = _along_axis(fold, left, right)
    return fold


def _along_axis(fold: Callable[..., Any], left: int, right: int) -> Callable[..., Any]:
    """Vectorize a function of two arrays by their first axes; one of size 1 broadcasts."""
    if left == right:
        return _jax.vmap(fold)

    def fold_one_into_each(key: Any, data: Any) -> Any:
        if left == 1:
            return _jax.vmap(fold, in_axes=(None, 0))(_np.squeeze(key, 0), data)
        return _jax.vmap(fold, in_axes=(0, None))(key, _np.squeeze(data, 0))

    return fold_one_into_each


_TRACED: Mapping[str, Callable[[Any, Equation], Callable[..., Any]]] = {
    "random_bits": _bits,
    "random_fold_in": _fold_in,
    "random_seed": _seed,
    "random_split": _split,
}
"""The functions of a generator that compute a primitive; others have an implementation."""


# ---- Philox ----------------------------------------------------------------------------------


def philox(e: Equation, key: Value) -> list[Value]:
    """Random bits of Philox, and the key that follows."""
    algorithm = e.params["algorithm"].name
    if algorithm not in ("RNG_DEFAULT", "RNG_PHILOX"):
        e.refuse(_NOT_PHILOX.format(algorithm))
    dtype, shape = np.dtype(e.params["dtype"]), e.sizes(e.params["shape"])
    width = 8 * dtype.itemsize if dtype.kind == "u" else 32
    count = math.prod(e.params["shape"]) * (2 if width == 64 else 1)
    words = e.lift(e.written(_words, key)[0])
    bits = emit("philox_bits", words, shape=shape, width=width)
    return [*e.written(partial(_next_key, count=-(-count // 4)), key), in_dtype(bits, dtype)]


def _words(key: Any) -> Any:
    """Return a key as four words; JAX also takes two numbers of 64 bits."""
    if key.dtype == np.uint32:
        return key
    return _np.stack([key, key >> np.uint64(32)], axis=-1).reshape(4).astype(np.uint32)


def _next_key(key: Any, count: int) -> Any:
    """Return a key whose 64-bit counter is larger by a number."""
    if key.dtype == np.uint64:
        return _np.stack([key[0], key[1] + np.uint64(count)])
    low = key[2] + np.uint32(count % 2**32)
    carry = (low < key[2]).astype(np.uint32) + np.uint32(count >> 32)
    return _np.stack([key[0], key[1], low, key[3] + carry])


GENERATORS: Mapping[str, Rule] = {
    **{name: _of_any_generator(name) for name in RANDOM},
    "rng_bit_generator": philox,
}
