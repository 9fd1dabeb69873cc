"""Places among sorted numbers, and the numbers of groups."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from braces.define.axes.axis_map import Attrs, AxisError, Types, first_rank, shape_of
from braces.define.axes.flop_count import comparisons, for_each
from braces.define.decorator import Indices, Tensor, op
from braces.dims import Size
from braces.dtypes import INT64, DType
from braces.errors import IndexRangeError
from braces.lazy import jax, jnp, lax
from braces.ops.common.rules import ordered, promoted
from braces.ops.indexing.take import IN_RANGE, integers, outside


def among(types: Types, attrs: Attrs) -> str:
    """Numbers of any shape among those of one sequence, or rows of them, each among its own."""
    del attrs
    sequence, values = (first_rank(types, slot) for slot in ("sequence", "values"))
    if sequence == 1:
        return "n!, ... -> ..."
    if not sequence or not values:
        raise AxisError(
            "needs a sequence along the last axis, and numbers for each of several."
        )
    return "... n!, ... m -> ... m"


def place(what: str, sequence: DType, values: DType, *, side: str) -> DType:
    """An index among numbers that have an order."""
    if side not in ("left", "right"):
        raise AxisError(f"has no side {side!r:.40}.", fix="Use 'left' or 'right'.").of(what)
    ordered(what, sequence, values)
    return INT64


def halved(types: Types, attrs: Attrs) -> Size:
    """A sequence is halved again and again, and each time two places are compared and moved."""
    del attrs
    return 8 * comparisons(shape_of(types["sequence"][0])[-1])


@op(
    axes=among,
    dtypes=place,
    differentiable=False,
    operations=for_each("out", halved),
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
    """Where numbers belong in a sorted sequence, so that it stays sorted.

        sequence[out - 1] < values <= sequence[out], or <= and < with side="right"

    Inputs:
        sequence: real[n], or real[*shape, n], in ascending order along the last axis; NaN
            comes last. Of one that is in no order, results are any places.
        values: real[*any] for one sequence; real[*shape, m] for several, each with its own;
            what is before the last axis broadcasts.

    Attributes:
        side: Whether a number that is in the sequence belongs before ("left") or behind
            ("right") those that are equal.

    Outputs:
        out: i64, the shape of `values`; from 0 to n.

    Raises:
        ShapeError: The axes do not fit, or there is no such side.
        DTypeError: Complex numbers.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     at = br.searchsorted(br.constant([1.0, 2.0, 3.0]), br.constant([2.0, 9.0]))
        >>> br.Executor().run(prog, br.Scope(), fetch=at).tolist()
        [1, 3]
    """
    sequence, values = promoted(sequence, values)
    find = partial(_places, side == "right")
    if sequence.ndim == 1:
        return find(sequence, values)
    batch = jnp.broadcast_shapes(sequence.shape[:-1], values.shape[:-1])
    rows = [
        jnp.broadcast_to(x, (*batch, x.shape[-1])).reshape(math.prod(batch), x.shape[-1])
        for x in (sequence, values)
    ]
    return jax.vmap(find)(*rows).reshape(*batch, values.shape[-1])


def _places(behind: bool, sequence: Tensor, values: Tensor) -> Tensor:
    """The first place whose number is not less, or is greater; what holds it is halved."""
    count = sequence.shape[0]
    if not count:
        return jnp.zeros(values.shape, INT64)
    nan = values != values

    def halve(_: Any, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        low, high = ends
        middle = low + (high - low) // 2
        number = sequence.at[jnp.minimum(middle, count - 1)].get(**IN_RANGE)
        if behind:
            later = (number <= values) | nan
        else:
            later = (number < values) | (nan & (number == number))
        later &= low < high
        return jnp.where(later, middle + 1, low), jnp.where(later, high, middle)

    ends = jnp.zeros(values.shape, INT64), jnp.full(values.shape, count, INT64)
    return lax.fori_loop(0, count.bit_length(), halve, ends)[0]


def of_groups(what: str, ids: DType, **attrs: object) -> DType:
    """That of the numbers, which are integers."""
    del attrs
    integers(what, ids)
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
    """Numbers of groups; one of a group that there is not is an error in the run.

        out[i] = ids[i]

    Inputs:
        ids: int[*shape]. From 0 to `count - 1`; negative ones are errors.

    Attributes:
        count: How many groups there are; may be symbolic.

    Outputs:
        out: int[*shape].

    Raises:
        DTypeError: They are no integers.
        IndexRangeError: In a run, one is out of range.
    """
    del count
    return ids


@group_ids.checked(IndexRangeError, "The number of a group is out of range.")
def no_group(ids: Indices, *, count: Size) -> Tensor:
    """Where there is no such group."""
    return outside(ids, count, lowest=0)
