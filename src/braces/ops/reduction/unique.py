"""Which slices of an array are equal: groups of them, in order or as they appear."""

from __future__ import annotations

import math
from typing import Any

from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Names,
    Types,
    axis_at,
    first_rank,
    mapped,
    numbered,
)
from braces.define.axes.flop_count import for_each
from braces.define.decorator import Axis, Tensor, op
from braces.dtypes import BOOL, INT64, DType
from braces.errors import DTypeError
from braces.lazy import jnp, lax


def grouping(types: Types, attrs: Attrs) -> AxisMap:
    """All entries are compared; there is one of each result for each slice."""
    x = numbered(first_rank(types, "x"))
    at = axis_at(attrs["axis"], len(x))
    slots = ["places", "first", "inverse", "counts"]
    outputs: dict[str, tuple[Names, ...]] = {slot: ((x[at],),) for slot in slots}
    return mapped(types, {"x": (x,)}, outputs, x)


def groups(what: str, x: DType, *, axis: int, sorted: bool) -> tuple[DType, ...]:
    """A rule for dtypes: places, and whether one is the first.

    Raises:
        DTypeError: Complex numbers have no order.
    """
    del axis
    if x.kind == "c":
        raise DTypeError(
            f"{what}: complex numbers have no order.", fix="Use their real and imaginary parts."
        )
    return INT64, BOOL, INT64, INT64


@op(
    outputs=("places", "first", "inverse", "counts"),
    axes=grouping,
    dtypes=groups,
    differentiable=False,
    function=False,
    operations=for_each("x"),
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
    """Equal slices along one axis, as groups.

        x[places[i]] is the first of its group where first[i]; group j is the j-th of these

    Inputs:
        x: real[*shape].

    Attributes:
        axis: The axis of the slices, of length n.
        sorted: Whether groups are in the order of their slices, compared number by number, and
            not in that in which they appear. NaNs are equal to each other, and come last.

    Outputs:
        places: i64[n]. The slices, those of a group together where they are sorted.
        first: bool[n]. Whether the slice at that place is the first one of its group.
        inverse: i64[n]. The group of each slice.
        counts: i64[n]. How many slices there are in the group of the slice at that place.

    Raises:
        ShapeError: There is no such axis.
        DTypeError: Complex numbers.
    """
    rows = jnp.moveaxis(x, axis, 0)
    count = rows.shape[0]
    columns = list(rows.reshape(count, math.prod(rows.shape[1:])).T)
    numbers = jnp.arange(count, dtype=INT64)
    *ordered, order = lax.sort((*columns, numbers), num_keys=len(columns) + 1)
    starts = _starts(ordered, count)
    group = jnp.cumsum(starts.astype(INT64)) - 1
    size = jnp.zeros(count, INT64).at[group].add(1)[group]
    if sorted:
        return order, starts, jnp.zeros(count, INT64).at[order].set(group), size
    head = order[lax.cummax(jnp.where(starts, numbers, 0))]
    leader = jnp.zeros(count, INT64).at[order].set(head)
    first = leader == numbers
    rank = jnp.cumsum(first.astype(INT64)) - 1
    return numbers, first, rank[leader], jnp.zeros(count, INT64).at[order].set(size)


def _starts(ordered: list[Any], count: int) -> Tensor:
    """Where a slice differs from the one before it."""
    starts = jnp.arange(count) == 0
    for column in ordered:
        before = jnp.concatenate([column[:1], column[:-1]])
        starts |= (column != before) & ~((column != column) & (before != before))
    return starts
