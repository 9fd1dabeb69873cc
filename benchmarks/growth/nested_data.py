"""The values of the recurrence through nested loops."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS, WIDTH = 8, 64


def values(shape: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The inputs of each iteration of each loop, and the weight."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(*shape, ROWS, WIDTH)), rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5
    return x.astype("float32"), (w / 2).astype("float32")
