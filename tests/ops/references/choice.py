"""References of `braces.ops.choice`."""

from __future__ import annotations

import numpy as np

from references import Array, Reference
from references.elementwise import binary, promote


def where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, *promote(x, y))


def clip(x: Array, min: float | None, max: float | None) -> Array:
    ends = [None if end is None else x.dtype.type(end) for end in (min, max)]
    return np.clip(x, *ends)


REFERENCES = {
    "maximum": Reference(binary(np.maximum)),
    "minimum": Reference(binary(np.minimum)),
    "clip": Reference(clip),
    "where": Reference(where),
}
