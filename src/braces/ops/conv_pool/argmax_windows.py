"""Window reductions of max pooling: maxima, positions of the maxima, and their derivatives.

    x   1 3 | 0 2      out   3 2      first   1 3      x_grad   0 a | 0 0
        2 0 | 1 2                             (of 0 1           0 0 | 0 b
                                                  2 3)

The gradient of a maximum goes to the first element that attains it. XLA computes it by a
reduction of values and positions, and a scatter. On a CPU it is faster to compare each window
position with the result and select by the number of the first match, unless windows are large
(docs/decisions, 0038). So XLA's gradient is used for large windows only. XLA has none for
dilated windows: for large ones, the reduction of values and positions is done here.
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
from braces.ops.conv_pool.cpu_algorithms import dilated_span

MOST_PLACES = 32
"""The largest number of window elements for which comparisons are unrolled."""


@dataclass(frozen=True)
class PoolWindows:
    """The geometry of sliding windows: one entry for each axis of the array.

    Attributes:
        sizes: The window sizes; 1 on axes without windows.
        steps: The strides.
        pads: The padding (low, high).
        dilations: The distances between the elements of a window.
    """

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    @property
    def places(self) -> int:
        """The number of elements of a window."""
        return math.prod(self.sizes)

    @property
    def side_by_side(self) -> bool:
        """Return whether windows neither overlap, nor are dilated, nor reach into padding."""
        return self.steps == self.sizes and not (self.dilated or any(map(any, self.pads)))

    @property
    def dilated(self) -> bool:
        """Return whether the windows are dilated along an axis of size above 1."""
        return any(d > 1 and k > 1 for d, k in zip(self.dilations, self.sizes, strict=True))

    def numbered(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Enumerate the element positions of a window."""
        return enumerate(np.ndindex(*self.sizes))

    def starts(self, place: Sequence[int]) -> list[int]:
        """Return the indices in the padded array of a position of the first window."""
        return [p * d for p, d in zip(place, self.dilations, strict=True)]

    def elements(self, padded: Any, place: Sequence[int], counts: Sequence[int]) -> Any:
        """Return the elements of all windows at one position: a strided slice."""
        starts = self.starts(place)
        spans = map(dilated_span, counts, self.steps)
        ends = [start + span for start, span in zip(starts, spans, strict=True)]
        return lax.slice(padded, starts, ends, self.steps)

    def inside(self, place: Sequence[int], counts: Sequence[int], shape: Sequence[int]) -> Any:
        """Return a mask of the windows whose position is not padding; `True` for all."""
        mask: Any = True
        starts = self.starts(place)
        for axis, (low, high) in enumerate(self.pads):
            if not (low or high):
                continue
            at = starts[axis] + self.steps[axis] * np.arange(counts[axis]) - low
            real = (at >= 0) & (at < shape[axis])
            if not real.all():
                mask = mask & np.expand_dims(real, _other_axes(axis, len(shape)))
        return mask

    def reduced(self, x: Any, start: Any, combine: Callable[..., Any]) -> Any:
        """Reduce the elements of each window by a binary function."""
        return lax.reduce_window(
            x, start, combine, self.sizes, self.steps, self.pads, None, self.dilations
        )


def _other_axes(axis: int, rank: int) -> list[int]:
    return [other for other in range(rank) if other != axis]


def pad_zeros(x: Any, pads: Sequence[tuple[int, int]]) -> Any:
    """Pad an array with zeros."""
    if not any(map(any, pads)):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [(low, high, 0) for low, high in pads])


def first_match(x: Any, out: Any, windows: PoolWindows) -> Any:
    """Return the number of the first position equal to `out` per window; NaN equals NaN."""
    first = jnp.full(out.shape, windows.places, "int32")
    padded_x = pad_zeros(x, windows.pads)
    for number, place in reversed(list(windows.numbered())):
        part = windows.elements(padded_x, place, out.shape)
        matches = (part == out) | (part != part)
        matches = matches & windows.inside(place, out.shape, x.shape)
        first = jnp.where(matches, number, first)
    return first


def scatter_to_first(first: Any, grads: Any, windows: PoolWindows, shape: Sequence[int]) -> Any:
    """Add the cotangent of each window to its element of the given number."""
    if windows.side_by_side:
        return _put_without_overlap(first, grads, windows, shape)
    padded_shape = [n + low + high for n, (low, high) in zip(shape, windows.pads, strict=True)]
    total = jnp.zeros(padded_shape, grads.dtype)
    spans = list(map(dilated_span, grads.shape, windows.steps))
    for number, place in windows.numbered():
        geometry = zip(windows.starts(place), spans, padded_shape, windows.steps, strict=True)
        edges = [(at, n - at - span, step - 1) for at, span, n, step in geometry]
        chosen = jnp.where(first == number, grads, 0)
        total = total + lax.pad(chosen, jnp.zeros((), grads.dtype), edges)
    starts = [low for low, _ in windows.pads]
    return lax.slice(total, starts, [low + n for low, n in zip(starts, shape, strict=True)])


def _put_without_overlap(
    first: Any, grads: Any, windows: PoolWindows, shape: Sequence[int]
) -> Any:
    """Mask the cotangents for windows without overlap; elements behind the last one get 0."""
    pairs = list(zip(grads.shape, windows.sizes, strict=True))
    outer = [n for count, _ in pairs for n in (count, 1)]
    inner = [n for _, size in pairs for n in (1, size)]
    numbers = np.arange(windows.places, dtype="int32").reshape(inner)
    chosen = jnp.where(first.reshape(outer) == numbers, grads.reshape(outer), 0)
    covered_grads = chosen.reshape([count * size for count, size in pairs])
    size_pairs = zip(shape, covered_grads.shape, strict=True)
    return pad_zeros(covered_grads, [(0, n - covered) for n, covered in size_pairs])


# ---- the largest element ---------------------------------------------------------------------


def max_by_xla(x: Any, windows: PoolWindows) -> Any:
    """Return the maximum of each window, with XLA's own derivatives."""
    return windows.reduced(x, least_value(x.dtype), lax.max)


def max_of_windows(x: Any, windows: PoolWindows) -> Any:
    """Return the maximum of each window; derivatives go to its first occurrence."""
    return _maxima_with_jvp()(x, windows)


@functools.cache
def _maxima_with_jvp() -> Callable[[Any, PoolWindows], Any]:
    """Build the function with its JVP rule on first use, since that imports JAX."""

    def maxima_jvp(windows: PoolWindows, primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x,), (dx,) = primals, tangents
        out = with_jvp(x, windows)
        if not (x.size and out.size):
            return out, jnp.zeros(out.shape, dx.dtype)
        if windows.places > MOST_PLACES and not windows.dilated:
            return jax.jvp(functools.partial(max_by_xla, windows=windows), (x,), (dx,))
        if windows.places > MOST_PLACES:  # dilated: XLA has no gradient
            return out, jnp.take(dx.ravel(), argmax_of_windows(x, windows))
        first = first_match(x, out, windows)
        padded_dx, total = pad_zeros(dx, windows.pads), jnp.zeros(out.shape, dx.dtype)
        for number, place in windows.numbered():
            part = windows.elements(padded_dx, place, out.shape)
            total = jnp.where(first == number, part, total)
        return out, total

    with_jvp = jax.custom_jvp(max_by_xla, nondiff_argnums=(1,))
    with_jvp.defjvp(maxima_jvp)
    return with_jvp


def argmax_of_windows(x: Any, windows: PoolWindows) -> Any:
    """Return the flat index of the first maximum of each window."""
    x = lax.stop_gradient(x)
    count: Any = math.prod(x.shape)
    small = isinstance(count, int) and count < 2**31  # symbolic during export
    dtype = np.dtype("int32" if small else "int64")
    places = jnp.arange(count, dtype=dtype).reshape(x.shape)

    def better(left: Any, right: Any) -> Any:
        (x, at), (y, there) = left, right
        equal = (x == y) | ((x != x) & (y != y))
        chosen = jnp.where(equal, at < there, (x > y) | (x != x))
        return jnp.where(chosen, x, y), jnp.where(chosen, at, there)

    nowhere = jnp.asarray(count, dtype)
    _, flat_indices = windows.reduced((x, places), (least_value(x.dtype), nowhere), better)
    return flat_indices


def least_value(dtype: Any) -> Any:
    """Return the least value of a dtype: the identity element of max."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.asarray(False)
    return np.asarray(-np.inf if is_float(dtype) else np.iinfo(dtype).min, dtype)
