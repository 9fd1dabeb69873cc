"""Samplers of real arrays: one array at a time, or many arrays in one loop.

XLA compiles each draw separately, for 70 ms or more on a CPU, though draws differ only in
shape, key and a few numbers. Random bits depend on a key and a position alone:

    bits(key, place) = threefry(key, place)

So one loop, compiled once, draws all arrays: each iteration draws a fixed-size piece of one
array. The bits are those of separate draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from braces.dtypes import DType
from braces.lazy import jax, jnp, keys, lax

Sizes: TypeAlias = tuple[int, ...]
"""A shape in a kernel, where all sizes are numbers."""

PIECE = 4096
"""Size of the piece drawn per iteration; numbers beyond the end of an array are dropped."""


@dataclass(frozen=True)
class Sampler:
    """Sampler of a random operator.

    Attributes:
        draw: Function from a key, a shape, a dtype and numbers to the array.
        numbers: Function from the operator's attributes to the numbers, which may differ
            between arrays of one loop.
        alike: The attributes that must be equal in one loop; `draw` gets them by name.
    """

    draw: Callable[..., Any]
    numbers: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    alike: tuple[str, ...] = ()

    def draw_one(self, key: Any, attrs: Mapping[str, Any]) -> Any:
        """Draw the array of one operator with these attributes."""
        dtype = attrs["dtype"]
        return self.draw(key, attrs["shape"], dtype, *self.numbers(attrs), **self._fixed(attrs))

    def kind(self, attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the grouping key: operators with the same key can be drawn by one loop."""
        return attrs["dtype"], *self._fixed(attrs).values()

    def count(self, attrs: Mapping[str, Any]) -> int:
        """Return the number of elements that an operator draws; 0 for a symbolic shape."""
        shape = attrs["shape"]
        return math.prod(shape) if all(isinstance(size, int) for size in shape) else 0

    def many(
        self, state: Any, every: Sequence[Mapping[str, Any]], starts: Sequence[Any]
    ) -> Any:
        """Draw the arrays of several operators of one kind.

        Args:
            state: The random state of the run.
            every: The attributes of each operator.
            starts: The result of `piece_starts`, as scalars unknown at compile time.
        """
        drawn = self._pieces(state, every).reshape(-1)
        sizes = [math.prod(attrs["shape"]) for attrs in every]
        flat = map(
            lambda start, size: lax.dynamic_slice(drawn, (start,), (size,)), starts, sizes
        )
        return [x.reshape(attrs["shape"]) for x, attrs in zip(flat, every, strict=True)]

    def _pieces(self, state: Any, every: Sequence[Mapping[str, Any]]) -> Any:
        """Draw all pieces, ordered by array."""
        dtype, fixed = every[0]["dtype"], self._fixed(every[0])
        salts = np.asarray([attrs["salt"] for attrs in every], np.uint32)
        numbers = jnp.asarray(np.asarray([self.numbers(attrs) for attrs in every], dtype))
        counts = [_count_pieces(attrs) for attrs in every]
        array_indices = np.repeat(np.arange(len(every), dtype=np.int32), counts)
        places = np.concatenate(
            [np.arange(n, dtype=np.uint32) * np.uint32(PIECE) for n in counts]
        )

        def piece(carry: None, xs: tuple[Any, Any]) -> tuple[None, Any]:
            at, place = xs
            salt, numbers_of_array = (
                lax.dynamic_index_in_dim(x, at, keepdims=False) for x in (salts, numbers)
            )
            key = placed_key(jax.random.fold_in(run_key(state), salt), place)
            return carry, self.draw(key, (PIECE,), dtype, *numbers_of_array, **fixed)

        return lax.scan(piece, None, (array_indices, places))[1]

    def _fixed(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: attrs[name] for name in self.alike}


def piece_starts(every: Sequence[Mapping[str, Any]]) -> list[np.int32]:
    """Return the offsets of the operators' arrays in the pieces that one loop draws.

    Offsets are runtime arguments, not constants: code for other offsets is then equal, and XLA
    compiles it once.
    """
    counts = [0, *(_count_pieces(attrs) * PIECE for attrs in every[:-1])]
    return list(np.cumsum(counts, dtype=np.int32))


def _count_pieces(attrs: Mapping[str, Any]) -> int:
    return -(-math.prod(attrs["shape"]) // PIECE)


# ---- keys -----------------------------------------------------------------------------------


def run_key(state: Any) -> Any:
    """Return the key of a run."""
    return jax.random.wrap_key_data(state, impl="threefry2x32")


def placed_key(key: Any, place: Any) -> Any:
    """Return a key whose draw at position 0 is that of a threefry key at `place`."""
    placed_data = jnp.concatenate([jax.random.key_data(key), place[None]])
    return jax.random.wrap_key_data(placed_data, impl=_define_placed_keys())


@cache
def _define_placed_keys() -> Any:
    """Define the type of keys of three numbers: a threefry key and a position below 2^32."""
    return keys.define_prng_impl(
        key_shape=(3,),
        seed=_refuse_key_operation,
        split=_refuse_key_operation,
        random_bits=_bits,
        fold_in=_refuse_key_operation,
        name="braces_threefry_at_a_place",
        tag="bra",
    )


def _refuse_key_operation(*given: Any) -> Any:
    raise AssertionError(f"unsupported operation on a random key: {given}")


def _bits(data: Any, width: int, shape: Sizes) -> Any:
    """Return the bits of `jax.random.bits` with `jax_threefry_partitionable` set."""
    places = (lax.iota(np.uint32, math.prod(shape)) + data[2]).reshape(shape)
    zero = jnp.zeros(shape, np.uint32)
    high, low = keys.threefry2x32_p.bind(data[0], data[1], zero, places)
    if width == 64:
        return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return (high ^ low).astype(f"uint{width}")


# ---- samplers by operator --------------------------------------------------------------------


def _uniform(key: Any, shape: Sizes, dtype: DType, low: Any, high: Any, below: Any) -> Any:
    sample = jax.random.uniform(key, shape, dtype, low, high)
    return jnp.minimum(sample, below)  # rounding may reach `high`


def _bounds(attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    low, high = (np.asarray(attrs[name], attrs["dtype"]) for name in ("low", "high"))
    return low, high, np.nextafter(high, low)


def _normal(key: Any, shape: Sizes, dtype: DType, mean: Any, stddev: Any) -> Any:
    return mean + stddev * jax.random.normal(key, shape, dtype)


def _moments(attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(np.asarray(attrs[name], attrs["dtype"]) for name in ("mean", "stddev"))


def _truncated(
    key: Any, shape: Sizes, dtype: DType, mean: Any, stddev: Any, *, low: float, high: float
) -> Any:
    bounds = np.asarray(low, dtype), np.asarray(high, dtype)
    return mean + stddev * jax.random.truncated_normal(key, *bounds, shape, dtype)


SAMPLERS = {
    "random_uniform": Sampler(_uniform, _bounds),
    "random_normal": Sampler(_normal, _moments),
    "random_truncated_normal": Sampler(_truncated, _moments, alike=("low", "high")),
}
"""Samplers by operator type. Programs have few random operators of other types."""
