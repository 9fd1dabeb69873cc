"""Random bits of Philox: those of `jax.random` for keys of `impl="rbg"`, on CPUs and GPUs.

A key is four words, u32[4]: the two of the key of Philox, and its 64-bit counter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braces.define.axes.axis_map import Attrs, AxisMap, Types, make_axis_map, require_tuple
from braces.define.decorator import Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Shape
from braces.dtypes import TensorType
from braces.errors import DTypeError, ShapeError
from braces.lazy import jnp, lax
from braces.ops.random.key_bits import check_width
from braces.ops.random.keys import STATE, check_shape

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORD = np.uint64(32)


def axes_of_philox(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `philox_bits`: all numbers are one sequence."""
    shape = require_tuple(attrs["shape"])
    indices = tuple(f"axis {at}" for at in range(len(shape)))
    sizes = dict(zip(indices, shape, strict=True))
    wanted = {"key": lambda: "[4]"}
    inputs, outputs = {"key": (("word",),)}, {"out": (indices,)}
    return make_axis_map(types, inputs, outputs, ("word", *indices), sizes=sizes, wanted=wanted)


@op(
    function=False,
    axes=axes_of_philox,
    differentiable=False,
    operations=20,
    examples=(
        "key=u32[4] shape=(2,3)",
        "key=u32[4] shape=(b,3) width=64",
        "key=u32[4] shape=() width=8",
        "key=u32[4] shape=(0,3) width=16",
    ),
)
def philox_bits(key: Tensor, *, shape: Shape, width: int = 32) -> Tensor:
    """Random bits drawn from a key of Philox, those of `jax.lax.rng_bit_generator`.

        out[4 i ... 4 i + 3] = philox(key[0:2], counter + i),   counter = key[2:4], key[0:2]

    Numbers of 64 bits take two words each, and smaller ones the low-order bits of a word.
    Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011.

    Inputs:
        key: u32[4]. The two words of the key, and the low and the high word of the counter.

    Attributes:
        shape: Of the result.
        width: The number of bits of each number: 8, 16, 32 or 64.

    Outputs:
        out: uint[*shape].

    Raises:
        ShapeError: If the key does not consist of four words.
        DTypeError: If the key is not uint32.
        ProgramError: If `width` is not 8, 16, 32 or 64.
    """
    numbers: Any = shape
    count = math.prod(numbers) * (2 if width == 64 else 1)
    low, high = _counters(key, -(-count // 4))
    words = (low, low >> WORD, high, high >> WORD)
    mixed = _mix([word.astype(np.uint32) for word in words], (key[0], key[1]))
    bits = jnp.stack(mixed, axis=-1).reshape(-1)[:count]
    if width == 64:
        wide = bits.reshape(-1, 2).astype(np.uint64)
        bits = wide[:, 0] | (wide[:, 1] << WORD)
    return bits.astype(f"uint{width}").reshape(numbers)


@philox_bits.infer
def infer_philox_bits(
    context: InferenceContext, key: TensorType, *, shape: Shape, width: int
) -> TensorType:
    """Infer unsigned integers of a width."""
    problem = f"{context.type}: expected a key u32[4], got {key}."
    if key.dtype != STATE:
        raise DTypeError(problem)
    if key.rank != 1:
        raise ShapeError(problem)
    context.unify(key.shape[0], 4, problem)
    check_shape(context, shape)
    return TensorType(check_width(context, width), shape)


def _counters(key: Any, count: int) -> tuple[Any, Any]:
    """Return the halves of the 128-bit counters that follow the words of a key."""
    words = key.astype(np.uint64)
    start, above = words[2] | (words[3] << WORD), words[0] | (words[1] << WORD)
    low = start + lax.iota(np.uint64, count)
    return low, above + (low < start).astype(np.uint64)


def _mix(words: list[Any], key: tuple[Any, Any]) -> list[Any]:
    """Mix four words with the two words of a key in ten rounds."""
    for step in range(ROUNDS):
        low, high, bumped = list[Any](), list[Any](), list[Any]()
        for word, multiplier, key_word, key_step in zip(
            words[::2], MULTIPLIERS, key, KEY_STEPS, strict=True
        ):
            product = word.astype(np.uint64) * np.uint64(multiplier)
            low.append(product.astype(np.uint32))
            high.append((product >> WORD).astype(np.uint32))
            bumped.append(key_word + np.uint32(step * key_step % 2**32))
        words = [high[1] ^ words[1] ^ bumped[0], low[1], high[0] ^ words[3] ^ bumped[1], low[0]]
    return words
