"""Difference quotients of JAX's own values, for gradients that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

STEP = 1e-5


def only_second_is_slope(
    loss: Callable[..., Any],
    leaves: Sequence[Any],
    by: Sequence[int],
    first: Sequence[Any],
    second: Sequence[Any],
) -> bool:
    """Return whether the second gradient is the slope of a loss, and the first is not.

    The slopes are those along one random direction, in double precision.

    Args:
        loss: From arrays to a number.
        leaves: The arrays.
        by: The indices of the arrays with gradients.
        first: The gradients by these arrays.
        second: Others.
    """
    draw = np.random.RandomState(0)
    moves = [draw.normal(size=np.shape(leaves[at])) for at in by]
    try:
        slope = _slope(loss, leaves, dict(zip(by, moves, strict=True)))
    except (TypeError, ValueError):  # other dtypes than those of the arrays are refused
        return False
    most = 1e-3 * max(1.0, abs(slope))
    near = [abs(_along(moves, grads) - slope) <= most for grads in (first, second)]
    return near == [False, True]


def _slope(loss: Callable[..., Any], leaves: Sequence[Any], moves: dict[int, Any]) -> float:
    with jax.enable_x64(True):
        ends = [
            float(loss(*(_moved(leaf, moves.get(at), size) for at, leaf in enumerate(leaves))))
            for size in (STEP, -STEP)
        ]
    return (ends[0] - ends[1]) / (2 * STEP)


def _moved(leaf: Any, move: Any, size: float) -> Any:
    if move is None:
        return leaf
    kind = np.complex128 if np.asarray(leaf).dtype.kind == "c" else np.float64
    return jnp.asarray(np.asarray(leaf).astype(kind) + size * move)


def _along(moves: Sequence[Any], grads: Sequence[Any]) -> float:
    """The slope along a direction by gradients in the convention of JAX."""
    pairs = zip(moves, grads, strict=True)
    return float(sum(np.sum(m * np.asarray(g).astype(np.complex128)).real for m, g in pairs))
