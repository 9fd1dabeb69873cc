"""Random keys and bits of JAX: a key is two words, and each primitive is one operator.

    b:u32[3] = random_bits[bit_width=32 shape=(3,)] a
                                        bits_of_key_0 = bits_of_key(key=a) {shape=[3]}

Programs draw the same numbers as the original function. Bits are mixed counters (Salmon et al.,
Parallel Random Numbers: As Easy as 1, 2, 3; 20 rounds). The counter is the position of each
number, as in `jax.random` with `jax_threefry_partitionable`, its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.shape import unchanged
from braces.lazy import jnp

_np: Any = jnp
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
Pair = tuple[Any, Any]


def threefry_mix(key: Pair, words: Pair) -> Pair:
    """Mix two words with the two words of a key in 20 rounds."""
    keys = (*key, key[0] ^ key[1] ^ np.uint32(PARITY))
    left, right = words[0] + keys[0], words[1] + keys[1]
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            left = left + right
            rotated = (right << np.uint32(rotation)) | (right >> np.uint32(32 - rotation))
            right = left ^ rotated
        left = left + keys[(block + 1) % 3]
        right = right + keys[(block + 2) % 3] + np.uint32(block + 1)
    return left, right


def split(e: Equation, key: Value) -> Value:
    """Keys derived from one by counters."""
    return emit("split_key", e.lift(key), shape=e.shape[:-1])


def fold_in(e: Equation, key: Value, data: Value) -> Value:
    """A key derived from one and a number."""
    return emit("fold_in_key", e.lift(key), e.lift(data))


def seed(e: Equation, number: Value) -> list[Value]:
    """Derive a key from a number."""
    return e.written(_key_of, number)


def _key_of(number: Any) -> Any:
    return _np.stack(_words(number), axis=-1)


def _words(number: Any) -> Pair:
    """Return the high and the low word of an integer."""
    low = number.astype(_np.uint32)
    is_64_bit = np.dtype(number.dtype).itemsize == 8
    high = (
        (number.astype(_np.uint64) >> np.uint64(32)).astype(_np.uint32) if is_64_bit else None
    )
    return (_np.zeros_like(low) if high is None else high), low


def bits(e: Equation, key: Value) -> Value:
    """Random bits of a given width."""
    return emit("bits_of_key", e.lift(key), shape=e.shape, width=e.params["bit_width"])


def gamma(e: Equation, key: Value, a: Value) -> Value:
    """Gamma variables, or their logarithms; the operator draws as JAX does."""
    return emit("gamma_of_key", e.lift(key), e.lift(a), log=e.params["log_space"])


def _each_mixed(first: Any, second: Any, left: Any, right: Any) -> Pair:
    return threefry_mix((first, second), (left, right))


def words(e: Equation, *values: Value) -> list[Value]:
    """Two words mixed with a key, each a separate argument."""
    return e.written(_each_mixed, *values)


RANDOM: Mapping[str, Rule] = {
    "random_bits": bits,
    "random_gamma": gamma,
    "random_fold_in": fold_in,
    "random_seed": seed,
    "random_split": split,
}
"""Rules of keys of threefry."""
MIXED: Mapping[str, Rule] = {
    "random_clone": unchanged,
    "random_unwrap": unchanged,
    "random_wrap": unchanged,
    "threefry2x32": words,
}
"""Rules of words and of any keys."""
