"""References of `braces.ops.elementwise.select`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, Values
from tests.ops.references.elementwise.arithmetic import binary, promote


def where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, *promote(x, y))


def clip(x: Array, min: float | None, max: float | None) -> Array:
    ends = [None if end is None else x.dtype.type(end) for end in (min, max)]
    return np.clip(x, *ends)


def case_of(index: Array, cases: tuple[int, ...], default: bool) -> Array:
    assert default or np.isin(index, cases).all()
    found = [cases.index(i) if i in cases else len(cases) for i in index.ravel().tolist()]
    return np.array(found, np.int64).reshape(index.shape)


def known(values: Values, attrs: Mapping[str, Any]) -> Values:
    """Indices among the cases, and others where there is a default."""
    (index,) = values["index"]
    allowed = [*attrs["cases"], *([99] if attrs["default"] else [])]
    return {"index": (np.resize(allowed, index.shape).astype(index.dtype),)}


def in_training(x: Array, instead: Array | None = None, *, training: bool) -> Array:
    return np.array(x if instead is None or not training else instead)


REFERENCES = {
    "case_of": Reference(case_of, adjust=known, smooth=False),
    "in_training": Reference(in_training),
    "maximum": Reference(binary(np.maximum)),
    "minimum": Reference(binary(np.minimum)),
    "clip": Reference(clip),
    "where": Reference(where),
}
