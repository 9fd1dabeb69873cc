"""What only the values of a run tell: places that are found, and sizes.

A size that values decide is a dimension with a name of its own. Interpreted, it is what the
operator finds; compiled, one is assumed, and the run is repeated where it was another. Places
may have room for more than there are, so that few sizes are compiled; sizes are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.builder.append import one
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    first_rank,
    mapped,
    numbered,
)
from braces.define.axes.flop_count import for_each
from braces.define.core.check_code import offender_code
from braces.define.decorator import Learned, Roomy, Tensor, op
from braces.dims import Dim, Size
from braces.dtypes import INT64, DType, is_integer
from braces.errors import DTypeError, ShapeError
from braces.ir.records import Op
from braces.lazy import jnp
from braces.ops.common.row_semantics import RowView, refused

LARGEST = 2**31 - 4
"""What runs tell of a size are 32 bits, with room for what was assumed."""


def finding(types: Types, attrs: Attrs) -> AxisMap:
    """A new axis, of what is found."""
    del attrs
    rank = first_rank(types, "x")
    if not rank:
        raise AxisError("needs an axis to find places on.", fix="Use br.where for a scalar.")
    x = numbered(rank)
    places = (("count",),) * rank
    return mapped(types, {"x": (x,)}, {"out": places}, [*x, "count"])


def of_integers(what: str, *dtypes: DType, **attrs: Any) -> DType:
    """A rule for dtypes: 64-bit integers."""
    del what, dtypes, attrs
    return INT64


@op(
    axes=finding,
    dtypes=of_integers,
    differentiable=False,
    function=False,
    operations=for_each("x"),
    examples=(
        "x=f32[7] count=4",
        "x=bool[3,4] count=5",
        "x=i32[2,3,4] count=3",
        "x=f64[b,4] count=2",
        "x=f32[5] count=0",
    ),
)
def nonzero(x: Tensor, *, count: Learned, roomy: Roomy = False) -> list[Tensor]:
    """The places of the numbers that are not zero, in order.

        x[out[0][i], out[1][i], ...] is the number i that is not zero

    Inputs:
        x: any[*shape], with one axis or more. NaN is not zero.

    Attributes:
        count: The dimension that stands for how many there are; of more than a number there
            are the first so many.
        roomy: Whether that may be more; what is beyond the places is like the first.

    Outputs:
        out: i64[count], one for each axis.

    Raises:
        ShapeError: It has no axes.
    """
    del roomy
    flat = x.astype(bool).reshape(-1)
    places = jnp.nonzero(flat, size=count)[0]
    real = jnp.arange(places.shape[0]) < jnp.sum(flat)
    found = jnp.unravel_index(jnp.where(real, places, places[:1]), x.shape)
    return [place.astype(INT64) for place in found]


@nonzero.learned
def learn_count(x: Any, *, count: Size, roomy: bool) -> dict[str, Any]:
    """As many as are not zero."""
    del roomy
    return _told(count, jnp.sum(x.astype(bool)))


def _told(size: Size, number: Any) -> dict[str, Any]:
    return {size.name: number} if isinstance(size, Dim) and size.name else {}


@nonzero.counted
def count_of_nonzero(x: Var, **attrs: Any) -> Var:
    """The same in the program."""
    del attrs
    return one("sum", one("not_equal", x, one("zeros_like", x)))


@nonzero.rounded
def unchanged(view: RowView, count: str) -> Op:
    """What is beyond the places may be padding, but of where they are sought all is real."""
    del count
    if view.axes("x"):
        raise refused(view.op, "places among them are places among padding.")
    return view.op


def scalar(types: Types, attrs: Attrs) -> str:
    """No axes."""
    del attrs
    if first_rank(types, "x"):
        raise AxisError(f"needs a scalar, not {types['x'][0]}.", fix="Take one number: x[0].")
    return "->"


def of_sizes(what: str, x: DType, **attrs: Any) -> DType:
    """A rule for dtypes: 64-bit integers, made of integers.

    Raises:
        DTypeError: It is no integer.
    """
    del attrs
    if not is_integer(x):
        raise DTypeError(f"{what} needs an integer, not {x}.", fix="Use br.cast(x, 'int64').")
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
    """Numbers that can be the sizes of axes; what cannot is an error in the run.

        out[i] = x[i]

    Inputs:
        x: int[*shape]. Not negative, and less than 2^31 - 3.

    Outputs:
        out: i64[*shape].

    Raises:
        ShapeError: In a run, a number is negative, or too large.
        DTypeError: They are no integers.
    """
    return x.astype(INT64)


@countable.checked(
    ShapeError, "A number that is negative, or far too large, cannot be the size of an axis."
)
def not_countable(x: Tensor) -> Tensor:
    """Where one is below zero, which is huge without a sign, or too large."""
    return offender_code(x.astype("uint64") > np.uint64(LARGEST), x)


@op(
    axes=scalar,
    dtypes=of_sizes,
    differentiable=False,
    function=False,
    operations=0,
    examples=("x=i64[] size=n", "x=i32[] size=3"),
)
def as_size(x: Tensor, *, size: Learned) -> Tensor:
    """A number of the program that is the size of axes, which a run tells.

        out = x

    Inputs:
        x: int[], which is `countable`.

    Attributes:
        size: The dimension that it is the size of.

    Outputs:
        out: i64[].

    Raises:
        ShapeError: It has axes.
        DTypeError: It is no integer.
    """
    del size
    return x.astype(INT64)


@as_size.learned
def learn_size(x: Any, *, size: Size) -> dict[str, Any]:
    """The number itself; what no size can be is an error where it is checked."""
    return _told(size, jnp.clip(x.astype(INT64), 0, LARGEST))
