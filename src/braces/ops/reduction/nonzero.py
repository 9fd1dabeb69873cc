"""Data-dependent sizes: indices of nonzero elements, and sizes computed by a program.

A data-dependent size is a dimension with its own name. The interpreter takes it from the
operator. A compiled run assumes a size, and is repeated if the assumption was wrong. Arrays of
indices may have a larger capacity than needed, so that few sizes are compiled; sizes are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    numbered_indices,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.core.check_code import encode_offender
from braces.define.decorator import Learned, Roomy, Tensor, op
from braces.dims import Dim, Size
from braces.dtypes import INT64, DType, is_integer
from braces.errors import DTypeError, ShapeError
from braces.ir.records import Op
from braces.lazy import jnp
from braces.ops.common.row_semantics import RowView, mixed_rows_error

LARGEST = 2**31 - 4
"""Largest data-dependent size: runs report sizes and assumed sizes in 32 bits."""


def nonzero_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `nonzero`: a new axis of data-dependent size."""
    del attrs
    rank = first_rank(types, "x")
    if not rank:
        raise AxisError(
            "expected an array of rank 1 or more, got a scalar.", fix="Use br.where."
        )
    x = numbered_indices(rank)
    places = (("count",),) * rank
    return make_axis_map(types, {"x": (x,)}, {"out": places}, [*x, "count"])


def of_integers(what: str, *dtypes: DType, **attrs: Any) -> DType:
    """Dtype rule: 64-bit integers."""
    del what, dtypes, attrs
    return INT64


@op(
    axes=nonzero_axes,
    dtypes=of_integers,
    differentiable=False,
    function=False,
    operations=count_per_element("x"),
    examples=(
        "x=f32[7] count=4",
        "x=bool[3,4] count=5",
        "x=i32[2,3,4] count=3",
        "x=f64[b,4] count=2",
        "x=f32[5] count=0",
    ),
)
def nonzero(x: Tensor, *, count: Learned, roomy: Roomy = False) -> list[Tensor]:
    """The indices of the nonzero elements, in order.

        x[out[0][i], out[1][i], ...] is nonzero element i

    Inputs:
        x: any[*shape], with one axis or more. NaN is not zero.

    Attributes:
        count: The data-dependent dimension of the number of nonzero elements. A static number
            limits the result to the first ones.
        roomy: Whether `count` is a capacity that may exceed that number; the padding repeats
            the first index.

    Outputs:
        out: i64[count], one for each axis.

    Raises:
        ShapeError: If `x` is a scalar.
    """
    del roomy
    flat = x.astype(bool).reshape(-1)
    places = jnp.nonzero(flat, size=count)[0]
    is_used = jnp.arange(places.shape[0]) < jnp.sum(flat)
    indices = jnp.unravel_index(jnp.where(is_used, places, places[:1]), x.shape)
    return [index.astype(INT64) for index in indices]


@nonzero.learned
def learn_count(x: Any, *, count: Size, roomy: bool) -> dict[str, Any]:
    """Size rule: the number of nonzero elements."""
    del roomy
    return _report_size(count, jnp.sum(x.astype(bool)))


def _report_size(size: Size, number: Any) -> dict[str, Any]:
    return {size.name: number} if isinstance(size, Dim) and size.name else {}


@nonzero.counted
def count_of_nonzero(x: Var, **attrs: Any) -> Var:
    """Compute the number of nonzero elements with operators of the program."""
    del attrs
    return emit("sum", emit("not_equal", x, emit("zeros_like", x)))


@nonzero.rounded
def unchanged(view: RowView, count: str) -> Op:
    """Keep the operator if only its output is padded; refuse a padded input."""
    del count
    if view.axes("x"):
        raise mixed_rows_error(view.op, "its indices would count padding.")
    return view.op


def scalar(types: Types, attrs: Attrs) -> str:
    """Axis map of `as_size`: a scalar."""
    del attrs
    if first_rank(types, "x"):
        raise AxisError(
            f"expected a scalar, got {types['x'][0]}.", fix="Index one element: x[0]."
        )
    return "->"


def of_sizes(what: str, x: DType, **attrs: Any) -> DType:
    """Dtype rule: 64-bit integers, from integers.

    Raises:
        DTypeError: If the input is not an integer.
    """
    del attrs
    if not is_integer(x):
        raise DTypeError(
            f"{what}: expected an integer, got {x}.", fix="Use br.cast(x, 'int64')."
        )
    return INT64


@op(
    axes="... -> ...",
    dtypes=of_sizes,
    differentiable=False,
    function=False,
    operations=2,
    examples=("x=i64[]", "x=u8[b]", "x=i32[2,3]"),
)
def countable(x: Tensor) -> Tensor:
    """Check in a run that numbers are valid sizes of axes.

        out[i] = x[i]

    Inputs:
        x: int[*shape]. Not negative, and less than 2^31 - 3.

    Outputs:
        out: i64[*shape].

    Raises:
        ShapeError: If a number is negative or too large at run time.
        DTypeError: If the numbers are not integers.
    """
    return x.astype(INT64)


@countable.checked(ShapeError, "The size of an axis is negative or too large.")
def not_countable(x: Tensor) -> Tensor:
    """Return a check failure code for a negative or too large number.

    A negative number is huge as an unsigned integer, so one comparison suffices.
    """
    return encode_offender(x.astype("uint64") > np.uint64(LARGEST), x)


@op(
    axes=scalar,
    dtypes=of_sizes,
    differentiable=False,
    function=False,
    operations=0,
    examples=("x=i64[] size=n", "x=i32[] size=3"),
)
def as_size(x: Tensor, *, size: Learned) -> Tensor:
    """Make a number of the program a data-dependent size of axes.

        out = x

    Inputs:
        x: int[], checked by `countable`.

    Attributes:
        size: The dimension whose size is `x`.

    Outputs:
        out: i64[].

    Raises:
        ShapeError: If `x` is not a scalar.
        DTypeError: If `x` is not an integer.
    """
    del size
    return x.astype(INT64)


@as_size.learned
def learn_size(x: Any, *, size: Size) -> dict[str, Any]:
    """Size rule: the number, clipped to valid sizes; `countable` reports others."""
    return _report_size(size, jnp.clip(x.astype(INT64), 0, LARGEST))
