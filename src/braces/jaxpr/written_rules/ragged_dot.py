"""Contractions of groups of rows, as layers of experts compute them: `jax.lax.ragged_dot`.

    x f32[5,k]    rows of groups of 2, 0 and 2, and one row of no group
    y f32[3,k,n]  a matrix for each group
    out[i] = x[i] @ y[group of i]     zeros for the row of no group

Each group keeps its rows and has zeros elsewhere. One contraction then includes the axis of
groups, as in JAX on CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from braces.builder.var import Var
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import contract
from braces.lazy import jnp, lax

_np: Any = jnp
_lax: Any = lax


def ragged_contraction(e: Equation, x: Value, y: Value, group_sizes: Value) -> Var:
    """A contraction of which one axis of `x` has groups, whose sizes are values."""
    if e.params["group_offset"] is not None:
        e.refuse("group_offset")
    numbers = e.params["ragged_dot_dimension_numbers"]
    (summed_x, summed_y), (batch_x, batch_y) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    if ragged in batch_x:  # groups of batch elements are computed alike
        return contract(e, x, y, numbers.dot_dimension_numbers)
    is_summed = ragged in summed_x
    outer = summed_x if is_summed else _others(x.ndim, summed_x, batch_x)
    at = outer.index(ragged)
    x = _expand(e, x, (*batch_x, *outer[: at + 1]), group_sizes)
    summed_x, batch_x = _shifted(summed_x), _shifted(batch_x)
    if not is_summed:
        (group,) = numbers.rhs_group_dimensions
        return contract(e, x, y, (((*summed_x, 0), (*summed_y, group)), (batch_x, batch_y)))
    y = _expand(e, y, (*batch_y, *summed_y[: at + 1]), group_sizes)
    batch = (0, *batch_x), (0, *_shifted(batch_y))
    return contract(e, x, y, ((summed_x, _shifted(summed_y)), batch))


def _others(rank: int, *taken: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if not any(axis in axes for axes in taken))


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axis + 1 for axis in axes)


def _expand(e: Equation, x: Value, axes: Sequence[int], group_sizes: Value) -> Var:
    """Return an array with a leading axis of groups; the last of some axes has the groups."""
    return e.lift(cast("Any", e.written(partial(_expanded, tuple(axes)), x, group_sizes))[0])


def _expanded(axes: tuple[int, ...], x: Any, sizes: Any) -> Any:
    counts = tuple(x.shape[axis] for axis in axes)
    if sizes.ndim == 1:
        sizes = _np.broadcast_to(sizes, (*counts[:-1], *sizes.shape))
    ends = _lax.cumsum(sizes, axis=sizes.ndim - 1)
    at = _np.arange(counts[-1], dtype=sizes.dtype)
    is_member = ((ends - sizes)[..., None] <= at) & (at < ends[..., None])
    is_member = _np.moveaxis(is_member, -2, 0)
    order = np.argsort(axes)
    is_member = _np.transpose(is_member, (0, *(int(axis) + 1 for axis in order)))
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(x.ndim)]
    return _np.where(is_member.reshape(-1, *shape), x, _np.zeros((), x.dtype))


RAGGED: Mapping[str, Rule] = {"ragged_dot_general": ragged_contraction}
