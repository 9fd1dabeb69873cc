"""How arrays of real numbers are drawn: one for itself, or many by one loop.

XLA compiles each draw anew, 70 ms or more of it on a CPU, though draws differ in nothing but
shape, key and a few numbers. Random bits follow from a key and a place alone,

    bits(key, place) = threefry(key, place)

so a loop whose trips each draw a piece of some array draws them all, to the bit as each for
itself would be drawn, and is compiled once.
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
"""A shape in a kernel: there, all sizes are numbers."""

PIECE = 4096
"""How many numbers a trip draws; what lies beyond the end of an array is left out."""


@dataclass(frozen=True)
class Drawing:
    """How an operator draws.

    Attributes:
        draw: From a key, a shape, a dtype and numbers to the array.
        numbers: From the operator's attributes to the numbers, which may differ from array to
            array of one loop.
        alike: The attributes that may not; `draw` gets them by name.
    """

    draw: Callable[..., Any]
    numbers: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    alike: tuple[str, ...] = ()

    def one(self, key: Any, attrs: Mapping[str, Any]) -> Any:
        """The array of an operator with these attributes."""
        dtype = attrs["dtype"]
        return self.draw(key, attrs["shape"], dtype, *self.numbers(attrs), **self._fixed(attrs))

    def kind(self, attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """What operators have in common that one loop draws for."""
        return attrs["dtype"], *self._fixed(attrs).values()

    def count(self, attrs: Mapping[str, Any]) -> int:
        """How many numbers an operator draws; 0 where that is not known."""
        shape = attrs["shape"]
        return math.prod(shape) if all(isinstance(size, int) for size in shape) else 0

    def many(
        self, state: Any, every: Sequence[Mapping[str, Any]], starts: Sequence[Any]
    ) -> Any:
        """The arrays of several operators of one kind.

        Args:
            state: The random state of the run.
            every: The attributes of each operator.
            starts: What `piece_starts` gave, as scalars that the compiler does not know.
        """
        drawn = self._pieces(state, every).reshape(-1)
        sizes = [math.prod(attrs["shape"]) for attrs in every]
        flat = map(
            lambda start, size: lax.dynamic_slice(drawn, (start,), (size,)), starts, sizes
        )
        return [x.reshape(attrs["shape"]) for x, attrs in zip(flat, every, strict=True)]

    def _pieces(self, state: Any, every: Sequence[Mapping[str, Any]]) -> Any:
        """All pieces, those of each array after those of the one before."""
        dtype, fixed = every[0]["dtype"], self._fixed(every[0])
        salts = np.asarray([attrs["salt"] for attrs in every], np.uint32)
        numbers = jnp.asarray(np.asarray([self.numbers(attrs) for attrs in every], dtype))
        counts = [_pieces_of(attrs) for attrs in every]
        which = np.repeat(np.arange(len(every), dtype=np.int32), counts)
        places = np.concatenate(
            [np.arange(n, dtype=np.uint32) * np.uint32(PIECE) for n in counts]
        )

        def piece(carry: None, xs: tuple[Any, Any]) -> tuple[None, Any]:
            at, place = xs
            salt, own = (
                lax.dynamic_index_in_dim(x, at, keepdims=False) for x in (salts, numbers)
            )
            key = placed_key(jax.random.fold_in(run_key(state), salt), place)
            return carry, self.draw(key, (PIECE,), dtype, *own, **fixed)

        return lax.scan(piece, None, (which, places))[1]

    def _fixed(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: attrs[name] for name in self.alike}


def piece_starts(every: Sequence[Mapping[str, Any]]) -> list[np.int32]:
    """Where the arrays of operators begin in the pieces that one loop draws.

    XLA compiles equal code once, and where an array is cut out makes code differ. So code is
    given these numbers when it is called.
    """
    counts = [0, *(_pieces_of(attrs) * PIECE for attrs in every[:-1])]
    return list(np.cumsum(counts, dtype=np.int32))


def _pieces_of(attrs: Mapping[str, Any]) -> int:
    return -(-math.prod(attrs["shape"]) // PIECE)


# ---- keys -----------------------------------------------------------------------------------


def run_key(state: Any) -> Any:
    """The key of a run."""
    return jax.random.wrap_key_data(state, impl="threefry2x32")


def placed_key(key: Any, place: Any) -> Any:
    """The key that draws at 0 what a threefry key draws at a place."""
    whole = jnp.concatenate([jax.random.key_data(key), place[None]])
    return jax.random.wrap_key_data(whole, impl=_placed_keys())


@cache
def _placed_keys() -> Any:
    """Keys of three numbers: those of a threefry key, and a place below 2^32."""
    return keys.define_prng_impl(
        key_shape=(3,),
        seed=_not_made,
        split=_not_made,
        random_bits=_bits,
        fold_in=_not_made,
        name="braces_threefry_at_a_place",
        tag="bra",
    )


def _not_made(*given: Any) -> Any:
    raise AssertionError(f"a key at a place only draws, and is not made of {given}")


def _bits(data: Any, width: int, shape: Sizes) -> Any:
    """Random bits as `jax.random.bits` has them where `jax_threefry_partitionable` is set."""
    places = (lax.iota(np.uint32, math.prod(shape)) + data[2]).reshape(shape)
    zero = jnp.zeros(shape, np.uint32)
    high, low = keys.threefry2x32_p.bind(data[0], data[1], zero, places)
    if width == 64:
        return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return (high ^ low).astype(f"uint{width}")


# ---- how each is drawn -----------------------------------------------------------------------


def _uniform(key: Any, shape: Sizes, dtype: DType, low: Any, high: Any, below: Any) -> Any:
    found = jax.random.uniform(key, shape, dtype, low, high)
    return jnp.minimum(found, below)  # rounding may reach `high`


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


DRAWINGS = {
    "random_uniform": Drawing(_uniform, _bounds),
    "random_normal": Drawing(_normal, _moments),
    "random_truncated_normal": Drawing(_truncated, _moments, alike=("low", "high")),
}
"""By operator. Of other draws there are few in a program."""
