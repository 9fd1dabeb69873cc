"""References of `braces.ops.reduction.unique`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, between


def unique_places(x: Array, axis: int, sorted: bool) -> tuple[Any, ...]:
    """Slice by slice: those that are the same, in the order of their numbers."""
    rows = [tuple(row.ravel().tolist()) for row in np.moveaxis(x, axis, 0)]
    groups = list(dict.fromkeys(rows))
    if sorted:
        groups.sort()
        places = [i for row in groups for i, other in enumerate(rows) if other == row]
    else:
        places = list(range(len(rows)))
    first = [rows.index(rows[i]) == i for i in places]
    inverse = [groups.index(row) for row in rows]
    counts = [rows.count(rows[i]) for i in places]
    return (
        np.array(places, "int64"), np.array(first, bool), np.array(inverse, "int64"),
        np.array(counts, "int64"),
    )  # fmt: skip


REFERENCES = {"unique_places": Reference(unique_places, inputs={"x": between(0, 2)})}
