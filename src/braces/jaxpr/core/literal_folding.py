"""Equations of literal numbers, computed at import time.

a:bool[] = lt 0:i32[] 0:i32[]
b:i32[] = select_n a 0:i32[] 3:i32[]      0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.jaxpr.core.equation import Array, Value


def _select(which: Array, *cases: Array) -> Array:
    return cases[int(which)]


FOLDED: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "and": np.bitwise_and,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "select_n": _select,
    "sub": np.subtract,
    "xor": np.bitwise_xor,
}
"""The primitives that are folded; their results in NumPy are those of XLA to the last bit."""


def fold_literals(eqn: Any, values: Sequence[Value]) -> list[Value] | None:
    """Return the results of an equation whose operands are numbers, or `None`."""
    function = FOLDED.get(eqn.primitive.name)
    if function is None or not all(isinstance(value, np.ndarray) for value in values):
        return None
    if eqn.outvars[0].aval.shape or not all(map(_is_exact, values)):
        return None
    with np.errstate(over="ignore", under="ignore"):
        result = np.asarray(function(*values), eqn.outvars[0].aval.dtype)
    return [result] if _is_exact(result) else None


def _is_exact(value: Any) -> bool:
    """Return whether a value is a number that all machines compute alike: not subnormal."""
    if value.ndim or value.dtype.kind in "biu":
        return value.ndim == 0
    if value.dtype not in (np.float32, np.float64):
        return False
    is_normal = np.isfinite(value) and abs(value) >= np.finfo(value.dtype).tiny
    return bool(is_normal or value == 0)
