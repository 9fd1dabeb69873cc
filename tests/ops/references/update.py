"""References of `braces.ops.update`."""

from __future__ import annotations

import numpy as np

from references import Array, Reference, between


def descend(learning_rate: Array, *grads: Array) -> list[Array]:
    rate = float(learning_rate)
    return [(-rate * g.astype(np.float64)).astype(g.dtype) for g in grads]


def moved(params: list[Array], updates: list[Array]) -> list[Array]:
    return [p + u for p, u in zip(params, updates, strict=True)]


def counted(count: Array) -> Array:
    return count + np.ones((), count.dtype)


REFERENCES = {
    "scale_by_learning_rate": Reference(descend),
    "apply_updates": Reference(moved),
    "next_count": Reference(counted, inputs={"count": between(0, 100)}),
}
