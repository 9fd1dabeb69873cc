"""Rules of cumulative extremes and order statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import nan
from typing import Any

from braces.exchange.common.rules.along_axis import sort, topk
from braces.exchange.common.rules.elementwise import as_float, cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.rules.selection import cumulative_extreme
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.extend import dims, functions as ops
from braces.extend.building import Var
from braces.extend.types import INT64, Dim, is_float


def cumulative_extreme_rule(op_type: str) -> Callable[..., tuple[Var, Var]]:
    """Return the rule of a cumulative maximum or minimum, with the last index of each."""
    return partial(cumulative_extreme, op_type)


def running_logsumexp(x: Var, axis: int) -> Var:
    """A cumulative logsumexp."""
    return ops.cumlogsumexp(as_float(x), axis=axis) if x.ndim else as_float(x)


def at_rank(x: Var, rank: Any, axis: int, keepdims: bool) -> tuple[Var, Var]:
    """Return the element with this rank along an axis, and its index."""
    if not x.ndim:
        return x, ops.zeros_like(x, dtype=INT64)
    values, permutation = sort(x, axis)
    at = (
        fill_shape((1,), rank, dtype=INT64)
        if isinstance(rank, int)
        else ops.reshape(rank, (1,))
    )
    selected = [ops.take(v, at, axis=axis) for v in (values, permutation)]
    first, second = selected if keepdims else [ops.squeeze(v, axis=axis) for v in selected]
    return first, second


def kth_value(x: Var, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Var, Var]:
    """The k-th smallest number of an axis, and its index."""
    return at_rank(x, k - 1, axis, keepdims)


def median_along(x: Var, axis: int, keepdims: bool = False) -> tuple[Var, Var]:
    """The lower median of an axis, and its index."""
    size = x.shape[axis] if x.ndim else 1
    middle = (number_of(size) - 1) // 2 if isinstance(size, Dim) else (size - 1) // 2
    if not x.ndim or not is_float(x.dtype):
        return at_rank(x, middle, axis, keepdims)
    count = _count_numbers(x, axis)
    return at_ranks(x, ops.where(count < number_of(size), count, middle), axis, keepdims)


def _count_numbers(x: Var, axis: int) -> Var:
    """Return how many elements of an axis are not NaN."""
    numbers = cast_to_dtype(ops.logical_not(ops.isnan(x)), INT64)
    return ops.sum(numbers, axis=axis, keepdims=True)


def at_ranks(x: Var, ranks: Var, axis: int, keepdims: bool) -> tuple[Var, Var]:
    """Return the elements with ranks of their own along an axis, and their indices."""
    values, permutation = sort(x, axis)
    ranked = [ops.take_along_axis(v, ranks, axis=axis) for v in (values, permutation)]
    first, second = ranked if keepdims else [ops.squeeze(v, axis=axis) for v in ranked]
    return first, second


def median_of_numbers(x: Var, axis: int, keepdims: bool = False) -> tuple[Var, Var]:
    """The lower median of the numbers of an axis, without NaN, and its index."""
    if not x.ndim or not is_float(x.dtype):
        return median_along(x, axis, keepdims)
    ranks = ops.maximum(_count_numbers(x, axis) - 1, 0) // 2
    return at_ranks(x, ranks, axis, keepdims)


def of_all(rule: Callable[..., tuple[Var, Var]]) -> Callable[[Var], Var]:
    """Return the rule of a median of all elements; NaN of none."""

    def flat_rule(x: Var) -> Var:
        if 0 in x.shape:
            return fill_shape((), nan, dtype=x.dtype)
        return rule(ops.reshape(x, (dims.product(x.shape),)), 0)[0]

    return flat_rule


ORDERING: Mapping[str, Callable[..., Any]] = {
    "cummax": cumulative_extreme_rule("cummax"),
    "cummin": cumulative_extreme_rule("cummin"),
    "kthvalue": kth_value,
    "logcumsumexp": running_logsumexp,
    "median": of_all(median_along),
    "median.dim": median_along,
    "nanmedian": of_all(median_of_numbers),
    "nanmedian.dim": median_of_numbers,
    "topk": topk,
}
