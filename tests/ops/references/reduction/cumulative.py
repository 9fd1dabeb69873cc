"""References of `braces.ops.reduction.cumulative`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference


def so_far(function: Any) -> Callable[..., Array]:
    """Return the accumulation of a function of two numbers."""

    def accumulated(x: Array, axis: int, reverse: bool) -> Array:
        turned = np.flip(x, axis) if reverse else x
        made = function.accumulate(turned, axis=axis)
        return np.flip(made, axis) if reverse else made

    return accumulated


REFERENCES = {
    "cummax": Reference(so_far(np.maximum)),
    "cummin": Reference(so_far(np.minimum)),
    "cumlogsumexp": Reference(so_far(np.logaddexp)),
}
