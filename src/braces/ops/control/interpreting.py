"""What constructs do around their blocks when they are interpreted.

Rows are taken, put back and stacked in NumPy: JAX would compile a handful of kernels for every
number of rows. Blocks see arrays of JAX, and constructs give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from braces.dtypes import INT64, TensorType
from braces.ir.records import Body
from braces.ir.views import PartitionView
from braces.lazy import jax, lax
from braces.ops.control.base import Frame, Value
from braces.ops.control.partition_lowering import along_rows

Array: TypeAlias = "np.ndarray[Any, Any]"


def arrays(values: Iterable[Value]) -> list[Value]:
    """As arrays of JAX.

    A kernel gives what it is given, in a sixth of the time that `device_put` takes.
    """
    return list(map(_handing(), values))


def slices_at(t: int, sliced: Sequence[Value]) -> list[Value]:
    """The index of a trip, and what each array has there, by one kernel for all trips."""
    index = np.asarray(t, INT64)
    return list(_slicing()(index, *sliced)) if sliced else arrays([index])


@cache
def _handing() -> Callable[[Value], Value]:
    return jax.jit(lambda x: x)


@cache
def _slicing() -> Callable[..., Sequence[Value]]:
    def slices(t: Value, *sliced: Value) -> Sequence[Value]:
        return t, *(lax.dynamic_index_in_dim(x, t, 0, keepdims=False) for x in sliced)

    return jax.jit(slices)


def zeros(frame: Frame, body: Body, name: str, *leading: int) -> Array:
    """Zeros like a result of a block that did not run, with some axes before its own."""
    if name not in body.vars:
        value = frame.read(name)
        return np.zeros((*leading, *value.shape), value.dtype)
    found = body.vars[name].type
    assert isinstance(found, TensorType)
    return np.zeros((*leading, *map(frame.size, found.shape)), found.dtype)


def stack(frame: Frame, body: Body, name: str, rows: Sequence[Value]) -> Array:
    """The rows of all trips; none have the type that the block says."""
    return np.stack(rows) if rows else zeros(frame, body, name, 0)


def chosen_rows(
    view: PartitionView, mask: Array, rows: Sequence[Array]
) -> tuple[Array, list[Array]]:
    """What one case sees: which of its rows are real, and its rows."""
    if view.compact:
        return mask[mask], [x[mask] for x in rows]
    every = np.arange(mask.size)
    chosen = np.where(mask, every, np.argmax(mask) if mask.size else 0)
    found = [x[chosen] for x in rows]
    for row, x in zip(view.rows, found, strict=True):
        if row.linear:
            x[~mask] = 0
    return mask, found


def place(mask: Array, valid: Array, rows: Value) -> Array:
    """The real rows of a case back at their places, zeros elsewhere."""
    rows = np.asarray(rows)
    placed = np.zeros((mask.size, *rows.shape[1:]), rows.dtype)
    placed[mask] = rows[valid]
    return placed


def merge(left: Sequence[Array], right: Sequence[Array], mask: Array, outs: int) -> list[Array]:
    """The results of one more case: its rows where the mask says so, its sums added."""
    rows = [
        np.where(along_rows(mask, a), b, a)
        for a, b in zip(left[:outs], right[:outs], strict=True)
    ]
    with np.errstate(all="ignore"):  # infinite and NaN as in any other kernel
        return rows + [a + b for a, b in zip(left[outs:], right[outs:], strict=True)]
