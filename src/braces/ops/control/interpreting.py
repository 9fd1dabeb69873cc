"""What constructs do around their blocks when they are interpreted.

Blocks see arrays of JAX, and constructs give them. All rows of a case are taken by one kernel,
and put back by one: a call of a kernel takes far longer than to move a few numbers.
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
    return list(map(_same(), values))


def slices_at(frame: Frame, t: int, sliced: Sequence[Value]) -> list[Value]:
    """The index of a trip, and what each array has there, by one kernel for all trips."""
    return frame.compute(_slices, np.asarray(t, INT64), *sliced)


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
        number: How many they are.
        total: How many rows all cases have.
        seen: How many its block sees.
    """

    def __init__(self, frame: Frame, mask: Value, compact: bool) -> None:
        self._frame, self._compact = frame, compact
        self._mask, self._host = mask, np.asarray(mask)
        self.number, self.total = int(np.count_nonzero(self._host)), self._host.size
        self.seen = self.number if compact else self.total
        self._every = self.number == self.total

    @cached_property
    def _places(self) -> Array:
        """Where what the block sees comes from; its first row stands in for those of others."""
        (own,) = np.nonzero(self._host)
        return own if self._compact else np.where(self._host, np.arange(self.total), own[0])

    def take(self, rows: Sequence[Value], linear: Sequence[bool]) -> list[Value]:
        """Which of the rows that the block sees are its own, and what it sees of some rows."""
        if self._every:
            return [self._mask, *rows]
        if self._compact:
            return self._frame.compute(_take, self._places, *rows)
        return self._frame.compute(_filled(tuple(linear)), self._mask, self._places, *rows)

    def joined(
        self, found: Sequence[Value], before: Sequence[Value] | None, outs: int
    ) -> list[Value]:
        """Results of the block, rows first, with those of the cases before; sums are added."""
        as_they_are = len(found) if before is None else outs
        first = as_they_are if self._every else 0
        last = outs if before is None else len(found)
        if first >= last:
            return list(found)
        join = _joined(outs - first, last - first, self._compact)
        old = () if before is None else before[first:]
        where = (self._mask, self._places) if self._compact else (self._mask,)
        made = self._frame.compute(join, *where, *found[first:last], *old)
        return [*found[:first], *made, *found[last:]]


def no_rows(frame: Frame, body: Body, total: int, outs: int) -> list[Value]:
    """The results of a row-wise branch none of whose cases ran, from one of its blocks."""
    found = [zeros(frame, body, name) for name in body.results]
    rows = [np.zeros((total, *one.shape[1:]), one.dtype) for one in found[:outs]]
    return arrays(rows + found[outs:])


# ---- kernels ---------------------------------------------------------------------------------


@cache
def _same() -> Callable[[Value], Value]:
    """Made on first use, as JAX itself is imported then."""
    return jax.jit(lambda x: x)


def _slices(t: Value, *sliced: Value) -> list[Value]:
    return [t, *(lax.dynamic_index_in_dim(x, t, 0, keepdims=False) for x in sliced)]


def _take(places: Value, *every: Value) -> list[Value]:
    valid = jnp.ones(places.shape, bool)
    return [valid, *(jnp.take(rows, places, axis=0, mode="clip") for rows in every)]


@cache
def _filled(linear: tuple[bool, ...]) -> Callable[..., list[Value]]:
    """Rows at their places: others are zero where that is as good as a row that stands in."""

    def fill(mask: Value, places: Value, *every: Value) -> list[Value]:
        _, *taken = _take(places, *every)
        own = [_put(mask, None, rows, None) for rows in every]
        return [mask, *map(_chosen, linear, own, taken)]

    return fill


@cache
def _joined(outs: int, number: int, compact: bool) -> Callable[..., list[Value]]:
    """Rows among those of the cases before, or zeros, and sums with theirs."""

    def join(mask: Value, *given: Value) -> list[Value]:
        places, given = (given[0], given[1:]) if compact else (None, given)
        found, before = given[:number], given[number:]
        rows = [_put(mask, places, new, old) for new, old in _with(before, found[:outs])]
        return rows + [old + new for new, old in zip(found[outs:], before[outs:], strict=True)]

    return join


def _chosen(first: bool, one: Value, other: Value) -> Value:
    return one if first else other


def _with(before: Sequence[Value], found: Sequence[Value]) -> Iterable[tuple[Value, Value]]:
    return zip(found, before or [None] * len(found), strict=False)


def _put(mask: Value, places: Value | None, rows: Value, before: Value | None) -> Value:
    if before is None:
        before = jnp.zeros((mask.size, *rows.shape[1:]), rows.dtype)
    if places is None:
        return jnp.where(along_rows(mask, rows), rows, before)
    return before.at[places].set(rows)
