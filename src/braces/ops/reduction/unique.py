"""Unique slices of an array: groups of equal slices, sorted or in order of appearance."""

from __future__ import annotations

import math
from typing import Any

from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Names,
    Types,
    first_rank,
    make_axis_map,
    normalize_axis,
    numbered_indices,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Axis, Tensor, op
from braces.dtypes import BOOL, INT64, DType
from braces.errors import DTypeError
from braces.lazy import jnp, lax


def unique_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `unique_places`: all axes are non-pointwise; one result per slice."""
    x = numbered_indices(first_rank(types, "x"))
    at = normalize_axis(attrs["axis"], len(x))
    slots = ["places", "first", "inverse", "counts"]
    outputs: dict[str, tuple[Names, ...]] = {slot: ((x[at],),) for slot in slots}
    return make_axis_map(types, {"x": (x,)}, outputs, x)


def unique_dtypes(what: str, x: DType, *, axis: int, sorted: bool) -> tuple[DType, ...]:
    """Dtype rule: indices, and a bool that marks the first slice of a group.

    Raises:
        DTypeError: If the dtype is complex, which has no order.
    """
    del axis
    if x.kind == "c":
        raise DTypeError(
            f"{what}: complex numbers have no order.", fix="Use their real and imaginary parts."
        )
    return INT64, BOOL, INT64, INT64


@op(
    outputs=("places", "first", "inverse", "counts"),
    axes=unique_axes,
    dtypes=unique_dtypes,
    differentiable=False,
    function=False,
    operations=count_per_element("x"),
    examples=(
        "x=i32[6]",
        "x=i64[b,2] sorted=False",
        "x=i32[2,t] axis=-1",
        "x=bool[4,3,2] axis=1",
        "x=f32[5]",
    ),
)
def unique_places(
    x: Tensor, *, axis: Axis = 0, sorted: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Group equal slices along one axis.

        x[places[i]] is the first of its group where first[i]; group j is the j-th of these

    Inputs:
        x: real[*shape].

    Attributes:
        axis: The axis of the slices, of length n.
        sorted: Whether groups are in lexicographic order of their slices, instead of in order
            of appearance. NaNs are equal to each other, and come last.

    Outputs:
        places: i64[n]. Indices of the slices; if sorted, those of a group are adjacent.
        first: bool[n]. Whether slice `places[i]` is the first one of its group.
        inverse: i64[n]. The group of each slice.
        counts: i64[n]. The number of slices in the group of slice `places[i]`.

    Raises:
        ShapeError: If the axis is out of range.
        DTypeError: If the dtype is complex.
    """
    rows = jnp.moveaxis(x, axis, 0)
    count = rows.shape[0]
    columns = list(rows.reshape(count, math.prod(rows.shape[1:])).T)
    numbers = jnp.arange(count, dtype=INT64)
    *ordered, order = lax.sort((*columns, numbers), num_keys=len(columns) + 1)
    starts = _mark_group_starts(ordered, count)
    group = jnp.cumsum(starts.astype(INT64)) - 1
    size = jnp.zeros(count, INT64).at[group].add(1)[group]
    if sorted:
        return order, starts, jnp.zeros(count, INT64).at[order].set(group), size
    head = order[lax.cummax(jnp.where(starts, numbers, 0))]
    leader = jnp.zeros(count, INT64).at[order].set(head)
    first = leader == numbers
    rank = jnp.cumsum(first.astype(INT64)) - 1
    return numbers, first, rank[leader], jnp.zeros(count, INT64).at[order].set(size)


def _mark_group_starts(ordered: list[Any], count: int) -> Tensor:
    """Return a mask of the slices that differ from the previous one."""
    starts = jnp.arange(count) == 0
    for column in ordered:
        previous = jnp.concatenate([column[:1], column[:-1]])
        starts |= (column != previous) & ~((column != column) & (previous != previous))
    return starts
