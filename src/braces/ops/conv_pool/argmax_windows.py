"""Windows that slide over arrays, and which element of each one is the largest.

    x   1 3 | 0 2      out   3 2      first   1 3      x_grad   0 a | 0 0
        2 0 | 1 2                             (of 0 1           0 0 | 0 b
                                                  2 3)

The gradient of a largest element goes to the first that is it. XLA finds that by a reduction of
x beside the positions on four axes, and scatters. On a CPU this takes ten times as long as
comparing each place of the windows with the result, and choosing by the number of the first. So
only where windows have many places is it left to XLA, and where these lie apart, of which XLA
has no gradient, done that way here, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.dtypes import is_float
from braces.lazy import jax, jnp, lax
from braces.ops.conv_pool.cpu_algorithms import reach

MOST_PLACES = 32
"""Windows of up to so many elements are compared place by place, each written out."""


@dataclass(frozen=True)
class Windows:
    """How windows lie over an array.

    Attributes:
        sizes: For each axis; 1 where nothing slides.
        steps: How far they lie apart.
        pads: What is added to the axes on both sides.
        dilations: How far the elements of a window lie apart.
    """

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    @property
    def places(self) -> int:
        """How many elements a window has."""
        return math.prod(self.sizes)

    @property
    def side_by_side(self) -> bool:
        """Whether each element is in one window at most, and none in padding."""
        return self.steps == self.sizes and not (self.dilated or any(map(any, self.pads)))

    @property
    def dilated(self) -> bool:
        """Whether the elements of a window lie apart."""
        return any(d > 1 and k > 1 for d, k in zip(self.dilations, self.sizes, strict=True))

    def numbered(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The places of a window, and their numbers."""
        return enumerate(np.ndindex(*self.sizes))

    def starts(self, place: Sequence[int]) -> list[int]:
        """Where the first window has a place, in the padded array."""
        return [p * d for p, d in zip(place, self.dilations, strict=True)]

    def elements(self, padded: Any, place: Sequence[int], counts: Sequence[int]) -> Any:
        """What all windows have at one place."""
        starts = self.starts(place)
        spans = map(reach, counts, self.steps)
        ends = [start + span for start, span in zip(starts, spans, strict=True)]
        return lax.slice(padded, starts, ends, self.steps)

    def inside(self, place: Sequence[int], counts: Sequence[int], shape: Sequence[int]) -> Any:
        """Of which windows this place is no padding; `True` where it is that of all."""
        found: Any = True
        starts = self.starts(place)
        for axis, (low, high) in enumerate(self.pads):
            if not (low or high):
                continue
            at = starts[axis] + self.steps[axis] * np.arange(counts[axis]) - low
            real = (at >= 0) & (at < shape[axis])
            if not real.all():
                found = found & np.expand_dims(real, _others(axis, len(shape)))
        return found

    def reduced(self, x: Any, start: Any, combine: Callable[..., Any]) -> Any:
        """What a function of two makes of the elements of each window."""
        return lax.reduce_window(
            x, start, combine, self.sizes, self.steps, self.pads, None, self.dilations
        )


def _others(axis: int, rank: int) -> list[int]:
    return [one for one in range(rank) if one != axis]


def padded(x: Any, pads: Sequence[tuple[int, int]]) -> Any:
    """An array with zeros around it."""
    if not any(map(any, pads)):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [(low, high, 0) for low, high in pads])


def number_of_first(x: Any, out: Any, windows: Windows) -> Any:
    """For each window, the number of the first place that has the result; NaN equals NaN."""
    first = jnp.full(out.shape, windows.places, "int32")
    whole = padded(x, windows.pads)
    for number, place in reversed(list(windows.numbered())):
        part = windows.elements(whole, place, out.shape)
        found = (part == out) | (part != part)
        found = found & windows.inside(place, out.shape, x.shape)
        first = jnp.where(found, number, first)
    return first


def put_at_first(first: Any, grads: Any, windows: Windows, shape: Sequence[int]) -> Any:
    """The cotangents of windows, each added to the element of this number."""
    if windows.side_by_side:
        return _beside_each_other(first, grads, windows, shape)
    whole = [n + low + high for n, (low, high) in zip(shape, windows.pads, strict=True)]
    total = jnp.zeros(whole, grads.dtype)
    spans = list(map(reach, grads.shape, windows.steps))
    for number, place in windows.numbered():
        rest = zip(windows.starts(place), spans, whole, windows.steps, strict=True)
        edges = [(at, n - at - span, step - 1) for at, span, n, step in rest]
        chosen = jnp.where(first == number, grads, 0)
        total = total + lax.pad(chosen, jnp.zeros((), grads.dtype), edges)
    starts = [low for low, _ in windows.pads]
    return lax.slice(total, starts, [low + n for low, n in zip(starts, shape, strict=True)])


def _beside_each_other(first: Any, grads: Any, windows: Windows, shape: Sequence[int]) -> Any:
    """Each element is chosen or not; what lies behind the last windows is 0."""
    pairs = list(zip(grads.shape, windows.sizes, strict=True))
    apart = [n for count, _ in pairs for n in (count, 1)]
    inner = [n for _, size in pairs for n in (1, size)]
    numbers = np.arange(windows.places, dtype="int32").reshape(inner)
    chosen = jnp.where(first.reshape(apart) == numbers, grads.reshape(apart), 0)
    whole = chosen.reshape([count * size for count, size in pairs])
    rest = zip(shape, whole.shape, strict=True)
    return padded(whole, [(0, n - covered) for n, covered in rest])


# ---- the largest element ---------------------------------------------------------------------


def maxima(x: Any, windows: Windows) -> Any:
    """The largest element of each window; its derivatives are XLA's own, where it has them."""
    return windows.reduced(x, smallest(x.dtype), lax.max)


def largest(x: Any, windows: Windows) -> Any:
    """The largest element of each window; its derivatives are those of the first that is it."""
    return _largest()(x, windows)


@functools.cache
def _largest() -> Callable[[Any, Windows], Any]:
    """On first use, since it takes JAX."""

    def moved(windows: Windows, primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x,), (dx,) = primals, tangents
        out = found(x, windows)
        if not (x.size and out.size):
            return out, jnp.zeros(out.shape, dx.dtype)
        if windows.places > MOST_PLACES and not windows.dilated:
            return jax.jvp(functools.partial(maxima, windows=windows), (x,), (dx,))
        if windows.places > MOST_PLACES:  # for which XLA has no gradient
            return out, jnp.take(dx.ravel(), positions_of_first(x, windows))
        first = number_of_first(x, out, windows)
        whole, total = padded(dx, windows.pads), jnp.zeros(out.shape, dx.dtype)
        for number, place in windows.numbered():
            part = windows.elements(whole, place, out.shape)
            total = jnp.where(first == number, part, total)
        return out, total

    found = jax.custom_jvp(maxima, nondiff_argnums=(1,))
    found.defjvp(moved)
    return found


def positions_of_first(x: Any, windows: Windows) -> Any:
    """Where in the flat array the first of the largest elements of each window is."""
    x = lax.stop_gradient(x)
    count: Any = math.prod(x.shape)
    small = isinstance(count, int) and count < 2**31  # a symbol where a program is exported
    dtype = np.dtype("int32" if small else "int64")
    places = jnp.arange(count, dtype=dtype).reshape(x.shape)

    def better(one: Any, other: Any) -> Any:
        (x, at), (y, there) = one, other
        equal = (x == y) | ((x != x) & (y != y))
        chosen = jnp.where(equal, at < there, (x > y) | (x != x))
        return jnp.where(chosen, x, y), jnp.where(chosen, at, there)

    nowhere = jnp.asarray(count, dtype)
    _, found = windows.reduced((x, places), (smallest(x.dtype), nowhere), better)
    return found


def smallest(dtype: Any) -> Any:
    """What is larger than no number of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.asarray(False)
    return np.asarray(-np.inf if is_float(dtype) else np.iinfo(dtype).min, dtype)
