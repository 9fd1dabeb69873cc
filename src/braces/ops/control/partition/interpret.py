"""Interpretation of constructs: array operations around their blocks.

Blocks read JAX arrays, so constructs pass JAX arrays. One kernel gathers all rows of a case,
and one scatters them back: a kernel call takes far longer than moving a few numbers.
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
from braces.ops.control.partition.lowering import reshape_row_mask

Array: TypeAlias = "np.ndarray[Any, Any]"


def to_jax_arrays(values: Iterable[Value]) -> list[Value]:
    """Return values as JAX arrays.

    A kernel call converts in a sixth of the time of `device_put`.
    """
    return list(map(_identity_kernel(), values))


def slice_arrays_at(frame: Frame, t: int, sliced: Sequence[Value]) -> list[Value]:
    """Return an iteration's index and slices, by one kernel for all iterations."""
    return frame.compute(_slices, np.asarray(t, INT64), *sliced)


def zeros_like_result(frame: Frame, body: Body, name: str, *leading: int) -> Array:
    """Return zeros like a result of a block that did not run, with leading axes added."""
    if name not in body.vars:
        value = frame.read(name)
        return np.zeros((*leading, *value.shape), value.dtype)
    type_ = body.vars[name].type
    assert isinstance(type_, TensorType)
    return np.zeros((*leading, *map(frame.size, type_.shape)), type_.dtype)


def stack_rows(frame: Frame, body: Body, name: str, rows: Sequence[Value]) -> Array:
    """Stack the rows of all iterations; without any, use the type declared in the block."""
    return np.stack(rows) if rows else zeros_like_result(frame, body, name, 0)


@final
class CaseRows:
    """The rows of one case of a partitioned branch.

    Attributes:
        number: The number of its rows.
        total: The number of rows of all cases.
        passed: The number of rows passed to its block.
    """

    def __init__(self, frame: Frame, mask: Value, compact: bool) -> None:
        self._frame, self._compact = frame, compact
        self._mask, self._host = mask, np.asarray(mask)
        self.number, self.total = int(np.count_nonzero(self._host)), self._host.size
        self.passed = self.number if compact else self.total
        self._has_all_rows = self.number == self.total

    def _places(self) -> Array:
        """Return the source positions of its rows, padded with the first one."""
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
            label: The label of the block.
            body: The block.
            rows: The rows of all cases.
            linear: For each of them, whether results are linear in it.
            before: The results of the preceding cases, if any.
            outs: The number of leading results that are rows; the others are sums.

        Returns:
            The results merged with those of preceding cases: rows scattered, sums added.
        """
        if self._has_all_rows:
            case_results = self._frame.run(label, body, [self._mask, *rows])
            return (
                case_results if before is None else self._add_sums(case_results, before, outs)
            )
        places = self._places()
        if self._compact:
            gather_call = _take, (places, *rows)
            scatter_args = (self._mask, places)
        else:
            gather_call = _fill_kernel(linear), (self._mask, places, *rows)
            scatter_args = (self._mask,)
        join_kernel = _join_kernel(len(body.results), outs, before is not None, self._compact)
        join_call = join_kernel, (*scatter_args, *(before or ()))
        return self._frame.run_between(label, body, gather_call, join_call)

    def _add_sums(
        self, results: Sequence[Value], before: Sequence[Value], outs: int
    ) -> list[Value]:
        """Return results of a block on all rows, sums added to those of preceding cases."""
        if outs == len(results):
            return list(results)
        return [*results[:outs], *self._frame.compute(_sums, *results[outs:], *before[outs:])]


def results_without_rows(frame: Frame, body: Body, total: int, outs: int) -> list[Value]:
    """Return the results of a branch in which no case ran, from one of its blocks."""
    zero_results = [zeros_like_result(frame, body, name) for name in body.results]
    rows = [np.zeros((total, *x.shape[1:]), x.dtype) for x in zero_results[:outs]]
    return to_jax_arrays(rows + zero_results[outs:])


# ---- kernels ---------------------------------------------------------------------------------


@cache
def _identity_kernel() -> Callable[[Value], Value]:
    """Return a compiled identity; created on first use, which imports JAX."""
    return jax.jit(lambda x: x)


def _slices(t: Value, *sliced: Value) -> list[Value]:
    return [t, *(lax.dynamic_index_in_dim(x, t, 0, keepdims=False) for x in sliced)]


def _take(places: Value, *every: Value) -> list[Value]:
    valid = jnp.ones(places.shape, bool)
    return [valid, *(jnp.take(rows, places, axis=0, mode="clip") for rows in every)]


@cache
def _fill_kernel(linear: tuple[bool, ...]) -> Callable[..., list[Value]]:
    """Return a kernel that pads rows in place: linear ones with zeros, else with a row."""

    def fill(mask: Value, places: Value, *every: Value) -> list[Value]:
        _, *padded = _take(places, *every)
        zeroed = [_scatter(mask, None, rows, None) for rows in every]
        return [mask, *map(_select, linear, zeroed, padded)]

    return fill


@cache
def _join_kernel(
    results: int, outs: int, several: bool, compact: bool
) -> Callable[..., list[Value]]:
    """Return a kernel that merges results with those of preceding cases, or with zeros."""

    def join(*args: Value) -> list[Value]:
        (*case_results,), (mask, *scatter_args) = args[:results], args[results:]
        places, before = (
            (scatter_args[0], scatter_args[1:]) if compact else (None, scatter_args)
        )
        rows = [
            _scatter(mask, places, new, old)
            for new, old in _pairs_with_before(before, case_results[:outs])
        ]
        return rows + (
            _sums(*case_results[outs:], *before[outs:]) if several else case_results[outs:]
        )

    return join


def _sums(*sums: Value) -> list[Value]:
    """Add the sums of a case to those of preceding cases."""
    half = len(sums) // 2
    return [old + new for new, old in zip(sums[:half], sums[half:], strict=True)]


def _select(condition: bool, x: Value, y: Value) -> Value:
    return x if condition else y


def _pairs_with_before(
    before: Sequence[Value], rows: Sequence[Value]
) -> Iterable[tuple[Value, Value]]:
    return zip(rows, before or [None] * len(rows), strict=False)


def _scatter(mask: Value, places: Value | None, rows: Value, before: Value | None) -> Value:
    if before is None:
        before = jnp.zeros((mask.size, *rows.shape[1:]), rows.dtype)
    if places is None:
        return jnp.where(reshape_row_mask(mask, rows), rows, before)
    return before.at[places].set(rows)
