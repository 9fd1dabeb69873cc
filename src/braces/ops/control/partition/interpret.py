"""What constructs do around their blocks when they are interpreted.

Blocks see arrays of JAX, and constructs give them. All rows of a case are taken by one kernel,
and put back by one: a call of a kernel takes far longer than to move a few numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeAlias, final

import numpy as np

from braces.dtypes import INT64, TensorType
from braces.ir.records import Body
from braces.lazy import jax, jnp, lax
from braces.ops.control.core.block_op import Frame, Value
from braces.ops.control.partition.lowering import along_rows

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

    def _places(self) -> Array:
        """Where what the block sees comes from; its first row stands in for those of others."""
        (own,) = np.nonzero(self._host)
        return own if self._compact else np.where(self._host, np.arange(self.total), own[0])

    def run(
        self,
        label: str,
        body: Body,
        rows: Sequence[Value],
        linear: tuple[bool, ...],
        before: Sequence[Value] | None,
        outs: int,
    ) -> list[Value]:
        """Run the block on its rows.

        Args:
            label: Which block it is.
            body: The block.
            rows: The rows of all cases.
            linear: Whether results are linear in them.
            before: The results of the cases before, if there are any.
            outs: How many of the results are rows, which come first; the others are sums.

        Returns:
            The results with those of the cases before: rows at their places, sums added.
        """
        if self._every:
            found = self._frame.run(label, body, [self._mask, *rows])
            return found if before is None else self._added(found, before, outs)
        places = self._places()
        if self._compact:
            taken = _take, (places, *rows)
            where = (self._mask, places)
        else:
            taken = _filled(linear), (self._mask, places, *rows)
            where = (self._mask,)
        join = _joined(len(body.results), outs, before is not None, self._compact)
        joined = join, (*where, *(before or ()))
        return self._frame.run_between(label, body, taken, joined)

    def _added(self, found: Sequence[Value], before: Sequence[Value], outs: int) -> list[Value]:
        """Results of a block that has all rows, with the sums of the cases before."""
        if outs == len(found):
            return list(found)
        return [*found[:outs], *self._frame.compute(_sums, *found[outs:], *before[outs:])]


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
def _joined(
    results: int, outs: int, several: bool, compact: bool
) -> Callable[..., list[Value]]:
    """Rows among those of the cases before, or zeros, and sums with theirs, if there are."""

    def join(*given: Value) -> list[Value]:
        (*found,), (mask, *rest) = given[:results], given[results:]
        places, before = (rest[0], rest[1:]) if compact else (None, rest)
        rows = [_put(mask, places, new, old) for new, old in _with(before, found[:outs])]
        return rows + (_sums(*found[outs:], *before[outs:]) if several else found[outs:])

    return join


def _sums(*given: Value) -> list[Value]:
    """What a case adds up, with what those before it did."""
    half = len(given) // 2
    return [old + new for new, old in zip(given[:half], given[half:], strict=True)]


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
