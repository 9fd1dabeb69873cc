"""What constructs do around their blocks when they are interpreted.

Blocks see arrays of JAX, and constructs give them. Rows are taken and put back by kernels, one
for each shape, which all constructs share; to hand rows over from NumPy takes as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Any, TypeAlias, final

import numpy as np

from braces.dtypes import INT64, TensorType
from braces.ir.records import Body
from braces.lazy import jax, jnp, lax
from braces.ops.control.base import Frame, Value
from braces.ops.control.partition_lowering import along_rows

Array: TypeAlias = "np.ndarray[Any, Any]"


def arrays(values: Iterable[Value]) -> list[Value]:
    """As arrays of JAX.

    A kernel gives what it is given, in a sixth of the time that `device_put` takes.
    """
    return list(map(_same, values))


def slices_at(t: int, sliced: Sequence[Value]) -> list[Value]:
    """The index of a trip, and what each array has there, by one kernel for all trips."""
    index = np.asarray(t, INT64)
    return list(_slices(index, *sliced)) if sliced else arrays([index])


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


@final
class CaseRows:
    """The rows of one case of a row-wise branch.

    Attributes:
        mask: Which they are.
        number: How many they are.
        total: How many rows all cases have.
        seen: How many its block sees.
    """

    def __init__(self, mask: Value, compact: bool) -> None:
        self.mask, self._compact, self._host = mask, compact, np.asarray(mask)
        self.number, self.total = int(np.count_nonzero(self._host)), self._host.size
        self.seen = self.number if compact else self.total
        self._every = self.number == self.total

    @cached_property
    def _places(self) -> Value:
        """Where what the block sees comes from; its first row stands in for those of others."""
        (own,) = np.nonzero(self._host)
        if not self._compact:
            own = np.where(self._host, np.arange(self.total), own[0])
        return arrays([own])[0]

    @property
    def valid(self) -> Value:
        """Which of the rows that the block sees are its own."""
        as_it_is = self._every or not self._compact
        return self.mask if as_it_is else arrays([np.ones(self.number, bool)])[0]

    def take(self, rows: Value, linear: bool) -> Value:
        """What the block sees of some rows."""
        if self._every:
            return rows
        if linear and not self._compact:
            return _stay(self.mask, rows)
        return _take(self._places, rows)

    def put(self, rows: Value, before: Value | None) -> Value:
        """The rows that the block gave at their places, among those of the cases before."""
        if self._every:
            return rows
        if not self._compact:
            return _stay(self.mask, rows, before)
        if before is None:
            return _put_alone(self._places, rows, self.mask)
        return _put(self._places, rows, before)

    def joined(
        self, found: Sequence[Value], before: Sequence[Value] | None, outs: int
    ) -> list[Value]:
        """Results of the block, rows first, with those of the cases before; sums are added."""
        if before is None:
            return [self.put(new, None) for new in found[:outs]] + list(found[outs:])
        pairs = list(zip(found, before, strict=True))
        rows = [self.put(new, old) for new, old in pairs[:outs]]
        return rows + [_add(old, new) for new, old in pairs[outs:]]


def no_rows(frame: Frame, body: Body, total: int, outs: int) -> list[Value]:
    """The results of a row-wise branch none of whose cases ran, from one of its blocks."""
    found = [zeros(frame, body, name) for name in body.results]
    rows = [np.zeros((total, *one.shape[1:]), one.dtype) for one in found[:outs]]
    return arrays(rows + found[outs:])


# ---- kernels ---------------------------------------------------------------------------------


def _compiled(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function of JAX that is compiled on first use, as JAX itself is imported then."""

    @cache
    def made() -> Callable[..., Value]:
        return jax.jit(function)

    return lambda *given: made()(*given)


@_compiled
def _take(places: Value, rows: Value) -> Value:
    return jnp.take(rows, places, axis=0, mode="clip")


@_compiled
def _put(places: Value, rows: Value, before: Value) -> Value:
    return before.at[places].set(rows)


@_compiled
def _put_alone(places: Value, rows: Value, mask: Value) -> Value:
    return jnp.zeros((mask.size, *rows.shape[1:]), rows.dtype).at[places].set(rows)


@_compiled
def _stay(mask: Value, rows: Value, before: Value | None = None) -> Value:
    others = jnp.zeros_like(rows) if before is None else before
    return jnp.where(along_rows(mask, rows), rows, others)


@_compiled
def _add(left: Value, right: Value) -> Value:
    return left + right


@_compiled
def _same(x: Value) -> Value:
    return x


@_compiled
def _slices(t: Value, *sliced: Value) -> Sequence[Value]:
    return t, *(lax.dynamic_index_in_dim(x, t, 0, keepdims=False) for x in sliced)
