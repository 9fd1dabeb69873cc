"""Difference quotients of JAX's own values, for gradients that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from suites.comparison import SLOPE_STEP, only_second_is_slope


def only_ours_is_slope(
    loss: Callable[..., Any],
    leaves: Sequence[Any],
    by: Sequence[int],
    theirs: Sequence[Any],
    ours: Sequence[Any],
) -> bool:
    """Return whether only the gradient of Braces is the slope of JAX's values.

    Args:
        loss: From arrays to a number.
        leaves: The arrays.
        by: The indices of the arrays with gradients.
        theirs: The gradients of JAX by these arrays.
        ours: Those of Braces.
    """
    draw = np.random.RandomState(0)
    moves = {at: draw.normal(size=np.shape(leaves[at])) for at in by}
    try:
        ends = [_value_at(loss, leaves, moves, size) for size in (SLOPE_STEP, -SLOPE_STEP)]
    except (TypeError, ValueError):  # other dtypes than those of the arrays are refused
        return False
    return only_second_is_slope(ends, list(moves.values()), theirs, ours)


def _value_at(
    loss: Callable[..., Any], leaves: Sequence[Any], moves: Mapping[int, Any], size: float
) -> float:
    with jax.enable_x64(True):
        moved = (_moved(leaf, moves.get(at), size) for at, leaf in enumerate(leaves))
        return float(loss(*moved))


def _moved(leaf: Any, move: Any, size: float) -> Any:
    if move is None:
        return leaf
    kind = np.complex128 if np.asarray(leaf).dtype.kind == "c" else np.float64
    return jnp.asarray(np.asarray(leaf).astype(kind) + size * move)
