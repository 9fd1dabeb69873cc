"""Window operations that are the same in several systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from braces.errors import ShapeError
from braces.exchange.common.model.weights import Array
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.extend import dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.layers import Sizes, pool_to_sizes
from braces.extend.programs import Literal
from braces.extend.types import INT64, Size


def adaptive(op_type: str, rank: int) -> Callable[..., Var]:
    """Return an adaptive pool over the last axes."""

    def pool(x: Var, wanted: Sizes) -> Var:
        return pool_to_sizes(op_type, x, range(x.ndim - rank, x.ndim), wanted)

    return pool


def constant(array: Array) -> Var:
    """Return a constant."""
    return emit("constant", value=Literal.of(array))


def checked_numbers(sizes: Sequence[Size], what: str) -> list[int]:
    """Check that sizes are numbers.

    Raises:
        ShapeError: If a size is symbolic.
    """
    known_sizes = [size for size in sizes if isinstance(size, int)]
    if len(known_sizes) != len(sizes):
        raise ShapeError(
            f"{what}: unsupported symbolic sizes.", fix="Export the model with static sizes."
        )
    return known_sizes


def adaptive_maxima(x: Var, space: Sequence[int], counts: Sequence[int]) -> tuple[Var, Var]:
    """Return the maxima of adaptive windows, of which the first counts, and their indices."""
    tables = [_adaptive_positions(n, count) for n, count in zip(space, counts, strict=True)]
    return window_maxima(x, [constant(table) for table in tables])


def _adaptive_positions(size: int, count: int) -> Array:
    """Return the positions in each adaptive window, with repetitions for shorter windows."""
    at = np.arange(count)
    starts, ends = at * size // count, -(-(at + 1) * size // count)
    steps = np.arange(int(np.max(ends - starts, initial=0)))
    return np.minimum(starts[:, None] + steps, ends[:, None] - 1)


def window_maxima(x: Var, tables: Sequence[Var]) -> tuple[Var, Var]:
    """Return the maxima of windows and their indices.

    The tables `[..., windows, positions]` give the positions of windows on each axis.
    """
    space, batch = x.shape[2:], x.shape[:2]
    flat, rank = constant(np.zeros((), np.int64)), len(tables)
    for axis, table in enumerate(tables):
        axis_shape = [1] * (2 * rank)
        axis_shape[axis], axis_shape[rank + axis] = (int(n) for n in table.shape[-2:])
        aligned = ops.reshape(table, (*table.shape[:-2], *axis_shape))
        flat = flat * int(space[axis]) + aligned
    windows, window_size = flat.shape[-2 * rank : -rank], dims.product(flat.shape[-rank:])
    flat = ops.reshape(flat, (*flat.shape[: -2 * rank], dims.product(windows), window_size))
    flat = ops.broadcast_to(flat, (*batch, *flat.shape[-2:]))
    lines = ops.reshape(x, (*batch, dims.product(space)))
    flat_indices = ops.reshape(flat, (*batch, dims.product(flat.shape[-2:])))
    window_values = ops.reshape(ops.take_along_axis(lines, flat_indices, axis=-1), flat.shape)
    best_position = ops.argmax(window_values, axis=-1, keepdims=True)
    best_values = (
        ops.take_along_axis(v, best_position, axis=-1) for v in (window_values, flat)
    )
    values, at = (ops.reshape(v, (*batch, *windows)) for v in best_values)
    return values, cast_to_dtype(at, INT64)
