"""References of `braces.ops.conv_pool.max_unpool`: number by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, Values
from tests.ops.references.conv_pool.conv import CHANNELS_FIRST


def max_unpool(x: Array, indices: Array, *, shape: Any, layout: str) -> Array:
    order = CHANNELS_FIRST[layout]
    x, indices = x.transpose(order), indices.transpose(order)
    out = np.zeros([shape[axis] for axis in order], x.dtype)
    for at in np.ndindex(x.shape):
        out[at[:2]].reshape(-1)[indices[at]] = x[at]
    return out.transpose(np.argsort(order))


def places(values: Values, attrs: Mapping[str, Any]) -> Values:
    """Different places in each plane."""
    (x,), (indices,) = values["x"], values["indices"]
    order = CHANNELS_FIRST[attrs["layout"]]
    plane = int(np.prod([attrs["shape"][axis] for axis in order[2:]]))
    made = np.zeros([x.shape[axis] for axis in order], indices.dtype)
    rng = np.random.default_rng(0)
    for at in np.ndindex(made.shape[:2]):
        made[at] = rng.permutation(plane)[: made[at].size].reshape(made[at].shape)
    return {"x": (x,), "indices": (made.transpose(np.argsort(order)),)}


REFERENCES = {f"max_unpool{r}d": Reference(max_unpool, adjust=places) for r in (1, 2, 3)}
