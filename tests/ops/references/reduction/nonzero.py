"""References of `braces.ops.reduction.nonzero`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, Values, between


def as_many(values: Values, attrs: Mapping[str, Any]) -> Values:
    """An array in which so many numbers are not zero, at places far apart."""
    (x,) = values["x"]
    flat = np.zeros(x.size, x.dtype)
    if x.size:
        flat[np.linspace(0, x.size - 1, attrs["count"]).astype(int)] = 1
    return {"x": (flat.reshape(x.shape),)}


def nonzero(x: Array, count: int, roomy: bool) -> list[Array]:
    del roomy
    found = list(np.nonzero(x))
    return found if x.size else [np.zeros(count, "int64") for _ in found]


REFERENCES = {
    "nonzero": Reference(nonzero, adjust=as_many, empty=False),
    "countable": Reference(lambda x: x.astype("int64"), inputs={"x": between(0, 9)}),
    "as_size": Reference(
        lambda x, size: x.astype("int64"),
        adjust=lambda values, attrs: {"x": (np.asarray(attrs["size"], values["x"][0].dtype),)},
    ),
}
