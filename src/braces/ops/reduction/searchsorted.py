"""Binary search in sorted sequences, and checks of group indices."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from braces.define.axes.axis_map import Attrs, AxisError, Types, first_rank, shape_of
from braces.define.axes.flop_count import comparisons_per_entry, count_per_element
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Size
from braces.dtypes import INT64, DType
from braces.errors import IndexRangeError
from braces.lazy import jax, jnp, lax
from braces.ops.common.rules import ordered, promote_arrays
from braces.ops.indexing.take import IN_RANGE, check_integers, out_of_range_code


def searchsorted_axes(types: Types, attrs: Attrs) -> str:
    """Axis map of `searchsorted`: one sequence for all values, or one per batch element."""
    del attrs
    sequence, values = (first_rank(types, slot) for slot in ("sequence", "values"))
    if sequence == 1:
        return "n!, ... -> ..."
    if not sequence or not values:
        raise AxisError(
            "expected a sequence of rank 1 or more, and values of rank 1 or more for several "
            f"sequences, got ranks {sequence} and {values}."
        )
    return "... n!, ... m -> ... m"


def searchsorted_dtypes(what: str, sequence: DType, values: DType, *, side: str) -> DType:
    """Dtype rule: an index; sequence and values are ordered numbers."""
    if side not in ("left", "right"):
        raise AxisError(f"unknown side {side!r:.40}.", fix="Use 'left' or 'right'.").of(what)
    ordered(what, sequence, values)
    return INT64


def bisection_cost(types: Types, attrs: Attrs) -> Size:
    """Cost per value: a binary search, eight operations per halving."""
    del attrs
    return 8 * comparisons_per_entry(shape_of(types["sequence"][0])[-1])


@op(
    axes=searchsorted_axes,
    dtypes=searchsorted_dtypes,
    differentiable=False,
    operations=count_per_element("out", bisection_cost),
    examples=(
        "sequence=f32[6] values=f32[b,3]",
        "sequence=f64[b] values=f64[] side=right",
        "sequence=i32[2,5] values=i32[2,4]",
        "sequence=f32[b,1,4] values=f32[3,2] side=right",
        "sequence=f32[0] values=f32[3]",
        "sequence=i64[4] values=f32[0]",
    ),
)
def searchsorted(sequence: Tensor, values: Tensor, *, side: str = "left") -> Tensor:
    """The insertion indices of numbers in a sorted sequence (binary search).

        sequence[out - 1] < values <= sequence[out], or <= and < with side="right"

    Inputs:
        sequence: real[n], or real[*shape, n], in ascending order along the last axis; NaN
            comes last. For an unsorted sequence, results are arbitrary indices.
        values: real[*any] for one sequence; real[*shape, m] for several, each with its own
            values. The axes before the last one broadcast.

    Attributes:
        side: Insert before ("left") or after ("right") equal elements.

    Outputs:
        out: i64, the shape of `values`; from 0 to n.

    Raises:
        ShapeError: If the shapes are incompatible, or `side` is unknown.
        DTypeError: If the dtype is complex.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     at = br.searchsorted(br.constant([1.0, 2.0, 3.0]), br.constant([2.0, 9.0]))
        >>> br.Executor().run(prog, br.Scope(), fetch=at).tolist()
        [1, 3]
    """
    sequence, values = promote_arrays(sequence, values)
    find = partial(_bisect, side == "right")
    if sequence.ndim == 1:
        return find(sequence, values)
    batch = jnp.broadcast_shapes(sequence.shape[:-1], values.shape[:-1])
    flat = [
        jnp.broadcast_to(x, (*batch, x.shape[-1])).reshape(math.prod(batch), x.shape[-1])
        for x in (sequence, values)
    ]
    return jax.vmap(find)(*flat).reshape(*batch, values.shape[-1])


def _bisect(right: bool, sequence: Tensor, values: Tensor) -> Tensor:
    """Find the first index whose element is not less, or is greater, by bisection."""
    count = sequence.shape[0]
    if not count:
        return jnp.zeros(values.shape, INT64)
    nan = values != values

    def halve(_: Any, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        low, high = ends
        middle = low + (high - low) // 2
        element = sequence.at[jnp.minimum(middle, count - 1)].get(**IN_RANGE)
        if right:
            go_right = (element <= values) | nan
        else:
            go_right = (element < values) | (nan & (element == element))
        go_right &= low < high
        return jnp.where(go_right, middle + 1, low), jnp.where(go_right, high, middle)

    ends = jnp.zeros(values.shape, INT64), jnp.full(values.shape, count, INT64)
    return lax.fori_loop(0, count.bit_length(), halve, ends)[0]


def of_groups(what: str, ids: DType, **attrs: object) -> DType:
    """Dtype rule: the dtype of the group indices, which are integers."""
    del attrs
    check_integers(what, ids)
    return ids


@op(
    axes="... -> ...",
    dtypes=of_groups,
    differentiable=False,
    function=False,
    operations=2,
    examples=("ids=i32[b,2] count=4", "ids=u8[3] count=5", "ids=i64[0] count=0"),
)
def group_ids(ids: Indices, *, count: Size) -> Tensor:
    """Check in a run that group indices are in range.

        out[i] = ids[i]

    Inputs:
        ids: int[*shape]. From 0 to `count - 1`; negative ones are errors.

    Attributes:
        count: The number of groups; may be symbolic.

    Outputs:
        out: int[*shape].

    Raises:
        DTypeError: If the indices are not integers.
        IndexRangeError: If an index is out of range at run time.
    """
    del count
    return ids


@group_ids.checked(IndexRangeError, "A group index is out of range.")
def no_group(ids: Indices, *, count: Size) -> Tensor:
    """Return a check failure code for an index out of range."""
    return out_of_range_code(ids, count, lowest=0)
