"""The data of both sides of `first_step`: noise in the shape of handwritten digits."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, Any]

MODELS = {
    "mlp": "net of three layers, Adam",
    "rnn": "recurrent net that reads digits row by row, Adam",
}
ROWS, HIDDEN, CLASSES = 128, 128, 10
SHAPES = {
    "mlp": {
        "fc1.w": (64, HIDDEN), "fc1.b": (HIDDEN,),
        "fc2.w": (HIDDEN, HIDDEN), "fc2.b": (HIDDEN,),
        "out.w": (HIDDEN, CLASSES), "out.b": (CLASSES,),
    },
    "rnn": {
        "in.w": (8, HIDDEN), "in.b": (HIDDEN,), "h.w": (HIDDEN, HIDDEN),
        "out.w": (HIDDEN, CLASSES), "out.b": (CLASSES,),
    },
}  # fmt: skip


def batch(model: str) -> tuple[Any, Any]:
    """Images, flat or as rows, and labels."""
    rng = np.random.default_rng(0)
    shape = (ROWS, 64) if model == "mlp" else (ROWS, 8, 8)
    return rng.random(shape, dtype="float32"), rng.integers(0, CLASSES, ROWS, dtype="int32")


def initial_values(model: str, rng: np.random.Generator) -> Arrays:
    """The same initial parameters for both sides, to compare their results."""
    return {n: 0.1 * rng.normal(size=s).astype("float32") for n, s in SHAPES[model].items()}
