"""References of `braces.ops.reduction.searchsorted`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, Values, between


def in_order(values: Values, attrs: Mapping[str, Any]) -> Values:
    """Sequences that are sorted, and some numbers that are in them."""
    del attrs
    (sequence,), (sought,) = values["sequence"], values["values"]
    sequence = np.sort(sequence, axis=-1)
    if sequence.size and sought.ndim:
        sought[..., :1] = sequence.ravel()[0]
    return {"sequence": (sequence,), "values": (sought,)}


def searchsorted(sequence: Array, values: Array, side: Any) -> Array:
    """One row after the other."""
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side)
    batch = np.broadcast_shapes(sequence.shape[:-1], values.shape[:-1])
    rows = np.broadcast_to(sequence, (*batch, sequence.shape[-1]))
    sought = np.broadcast_to(values, (*batch, values.shape[-1]))
    found = np.zeros(sought.shape, "int64")
    for at in np.ndindex(batch):
        found[at] = np.searchsorted(rows[at], sought[at], side)
    return found


REFERENCES = {
    "searchsorted": Reference(searchsorted, adjust=in_order),
    "group_ids": Reference(lambda ids, count: ids, inputs={"ids": between(0, 4)}),
}
