"""Creation of arrays: constants, ranges, and the values of symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.scalar_promotion import cast_literal
from braces.define.axes.axis_map import (
    Attrs,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    shape_indices,
)
from braces.define.axes.axis_rules import constant_axes
from braces.define.core.attribute_kinds import Number
from braces.define.decorator import Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Dim, Shape, Size, call
from braces.dtypes import FLOAT32, INT64, DType, TensorType, is_float
from braces.errors import ProgramError
from braces.ir.records import Literal, Op
from braces.lazy import jnp
from braces.ops.common.row_semantics import RowView, row_count_error
from braces.ops.common.rules import attribute_dtype

# ---- constants -------------------------------------------------------------------------------


def constant_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of constants: no axis is uniform."""
    value = attrs["value"]
    assert isinstance(value, Literal)
    indices = numbered_indices(len(value.shape))
    return make_axis_map(types, {}, {"out": (indices,)}, indices)


@op(
    axes=constant_axis_map,
    differentiable=False,
    cheap=True,
    uniform="value",
    function=False,
    operations=0,
    examples=("value=[[1.0,2.0],[3.0,4.0]]", "value=[1,2,3]", "value=True", "value=2.5"),
)
def constant(*, value: Literal) -> Tensor:
    """A constant array that is part of the program.

        out = value

    Attributes:
        value: The array.

    Outputs:
        out: Dtype and shape of `value`.
    """
    return jnp.asarray(value.array())


@constant.infer
def infer_constant(context: InferenceContext, *, value: Literal) -> TensorType:
    """Infer the type: that of the array."""
    del context
    return TensorType(value.dtype, value.shape)


def fill_dtype(what: str, *dtypes: DType, dtype: DType | None, **attrs: Any) -> DType:
    """Dtype rule: the attribute, else that of the input; it must be able to hold `value`."""
    del what
    result_dtype = dtypes[0] if dtype is None else dtype
    cast_literal(attrs.get("value", 0.0), result_dtype)
    return result_dtype


@op(
    axes=constant_axes,
    dtypes=fill_dtype,
    differentiable=False,
    cheap=True,
    uniform="value",
    function=False,
    operations=0,
    examples=(
        "shape=(2,3) value=0.5",
        "shape=(b,4) value=1 dtype=i64",
        "shape=() value=-1 dtype=f64",
        "shape=(0,2) value=1 dtype=bool",
    ),
)
def full(*, shape: Shape, value: Number, dtype: DType = FLOAT32) -> Tensor:
    """An array filled with one number.

        out[i] = value

    Attributes:
        shape: The sizes; may be symbolic.
        value: The number.
        dtype: Its dtype.

    Outputs:
        out: dtype[*shape].

    Raises:
        DTypeError: If the dtype cannot represent the number.
    """
    return jnp.full(shape, value, dtype)


LIKE = ("x=f32[2,3]", "x=f32[b,4] dtype=i64", "x=i64[]", "x=f64[0]")


@op(
    axes="... -> ...",
    dtypes=fill_dtype,
    differentiable=False,
    uniform=0.0,
    operations=0,
    examples=LIKE,
)
def zeros_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Zeros in the shape of another array; no gradient.

        out[i] = 0

    Inputs:
        x: any[*shape].

    Attributes:
        dtype: The dtype of the result; by default that of `x`.

    Outputs:
        out: dtype[*shape].
    """
    return jnp.zeros_like(x, dtype)


@op(
    axes="... -> ...",
    dtypes=fill_dtype,
    differentiable=False,
    uniform=1.0,
    operations=0,
    examples=LIKE,
)
def ones_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Ones in the shape of another array; no gradient.

        out[i] = 1

    Inputs:
        x: any[*shape].

    Attributes:
        dtype: The dtype of the result; by default that of `x`.

    Outputs:
        out: dtype[*shape].
    """
    return jnp.ones_like(x, dtype)


@op(
    axes="... -> ...",
    dtypes=fill_dtype,
    differentiable=False,
    uniform="value",
    operations=0,
    examples=tuple(f"{example} value=3" for example in LIKE),
)
def full_like(x: Tensor, *, value: Number, dtype: DType | None = None) -> Tensor:
    """An array filled with one number, of the shape of another array; no gradient.

        out[i] = value

    Inputs:
        x: any[*shape].

    Attributes:
        value: The number.
        dtype: The dtype of the result; by default that of `x`.

    Outputs:
        out: dtype[*shape].

    Raises:
        DTypeError: If the dtype cannot represent the number.
    """
    return jnp.full_like(x, value, dtype)


# ---- sizes and ranges ------------------------------------------------------------------------


@op(
    axes="->",
    dtypes=attribute_dtype,
    differentiable=False,
    cheap=True,
    operations=0,
    examples=("value=3", "value=b", "value=2*b+1 dtype=f32"),
)
def size(*, value: Size, dtype: DType = INT64) -> Tensor:
    """The size of an axis as a scalar.

        out = value

    Attributes:
        value: The size, symbolic or not, as in a shape.
        dtype: The dtype of the result.

    Outputs:
        out: dtype[].
    """
    return jnp.asarray(value, dtype)


@size.rounded
def number_of_rows(view: RowView, count: str) -> Op:
    """Replace the size of the batch axis by the number of batch elements without padding."""
    if not view.mentions(view.op.attrs["value"]):
        return view.op
    if view.op.attrs["value"] != view.rows:
        raise row_count_error(view.op, "value")
    return view.op.with_(
        type="cast", inputs={"x": (count,)}, attrs={"dtype": view.op.attrs["dtype"]}
    )


@op(
    axes="-> i!",
    differentiable=False,
    cheap=True,
    function=False,
    operations=0,
    examples=(
        "stop=5",
        "start=2 stop=b",
        "stop=t dtype=f32",
        "start=10 stop=0 step=-3",
        "stop=0",
        "start=1 stop=2*b step=2 dtype=i32",
    ),
)
def arange(*, start: Size = 0, stop: Size, step: int = 1, dtype: DType = INT64) -> Tensor:
    """Evenly spaced integers, from `start` to before `stop`.

        out[i] = start + i * step

    Attributes:
        start: The first number; may be symbolic.
        stop: The end, exclusive; may be symbolic.
        step: The step; negative to count down.
        dtype: The dtype of the result.

    Outputs:
        out: dtype[ceil((stop - start) / step)], empty where that is negative.

    Raises:
        ProgramError: If `step` is zero.
        DTypeError: If the dtype cannot represent all numbers.
    """
    return jnp.arange(start, stop, step, dtype=dtype)


@arange.infer
def infer_arange(
    context: InferenceContext, *, start: Size, stop: Size, step: int, dtype: DType
) -> TensorType:
    """Infer the type: the number of steps, at least zero."""
    if step == 0:
        raise ProgramError("arange: expected a nonzero step, got 0.")
    distance, length = (stop - start, step) if step > 0 else (start - stop, -step)
    distance = context.unifier.resolve(distance)
    count = call("max", (distance + (length - 1)) // length, 0)
    if isinstance(start, int) and isinstance(count, int) and count:
        cast_literal([start, start + (count - 1) * step], dtype)
    return TensorType(dtype, (count,))


@arange.rounded
def numbers_of_rows(view: RowView, count: str) -> Op:
    """Number the batch elements without padding; padding has the number of the first one."""
    attrs: Any = view.op.attrs
    start, stop, step = attrs["start"], attrs["stop"], attrs["step"]
    if not (view.mentions(start) or view.mentions(stop)):
        return view.op
    offset = start - view.rows if view.mentions(start) else 0
    if step not in (1, -1) or (stop - start) * step != view.rows or isinstance(offset, Dim):
        raise row_count_error(view.op, "stop")
    places, number = emit("arange", stop=view.rows), view.var(count)
    places = emit("where", emit("less", places, number), places, 0) * step
    first = number + offset if view.mentions(start) else emit("size", value=start)
    inputs = {"x": ((places + first).name,)}
    return view.op.with_(type="cast", inputs=inputs, attrs={"dtype": attrs["dtype"]})


def linspace_dtype(
    what: str, *, start: float, stop: float, dtype: DType, num: Size, endpoint: bool
) -> DType:
    """Dtype rule: the attribute `dtype`, which must hold the ends, truncated for integers."""
    del what, num, endpoint
    ends = np.asarray([start, stop])
    cast_literal(ends if is_float(dtype) else np.trunc(ends), dtype)
    return dtype


@op(
    axes="-> num!",
    dtypes=linspace_dtype,
    differentiable=False,
    operations=2,
    examples=(
        "start=0 stop=1 num=5",
        "start=-1 stop=1 num=b dtype=f64",
        "start=0 stop=1 num=4 endpoint=False",
        "start=0 stop=1 num=0",
        "start=2 stop=3 num=1",
    ),
)
def linspace(
    *, start: float, stop: float, num: Size, endpoint: bool = True, dtype: DType = FLOAT32
) -> Tensor:
    """Evenly spaced numbers over an interval.

        out[i] = start + i * (stop - start) / (num - 1)

    Attributes:
        start: The first number.
        stop: The last number.
        num: The number of elements; may be symbolic.
        endpoint: Whether `stop` is included; if not, the divisor is `num`.
        dtype: The dtype of the result.

    Outputs:
        out: dtype[num].

    Raises:
        DTypeError: If the dtype cannot represent `start` or `stop`.
    """
    return jnp.linspace(start, stop, int(num), endpoint=endpoint, dtype=dtype)


def eye_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of eye: no axis is uniform; the number of columns defaults to that of rows."""
    shape: Any = (attrs["n"], attrs["n"] if attrs["m"] is None else attrs["m"])
    indices, sizes = shape_indices(shape)
    return make_axis_map(types, {}, {"out": (indices,)}, indices, sizes=sizes)


@op(
    axes=eye_axis_map,
    dtypes=attribute_dtype,
    differentiable=False,
    cheap=True,
    operations=0,
    examples=("n=3", "n=b", "n=2 m=4 k=1 dtype=f64", "n=t m=3 k=-1 dtype=i64", "n=0"),
)
def eye(*, n: Size, m: Size | None = None, k: int = 0, dtype: DType = FLOAT32) -> Tensor:
    """Ones on a diagonal, zeros elsewhere.

        out[i, j] = 1 if j == i + k else 0

    Attributes:
        n: The number of rows; may be symbolic.
        m: The number of columns; by default `n`.
        k: The diagonal; positive numbers are above the main diagonal.
        dtype: The dtype of the result.

    Outputs:
        out: dtype[n, m].
    """
    return jnp.eye(n, m, k, dtype)
