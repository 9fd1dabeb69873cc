"""Elementwise bitwise operators on integers and bools."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
)
from braces.define.completed_doc import DescribedRule
from braces.define.decorator import Tensor, op
from braces.dtypes import BOOL, DType, TensorType, is_narrow
from braces.errors import DTypeError
from braces.lazy import jnp, lax
from braces.ops.common.rules import promote, promote_arrays

PAIRS = ("x=i32[2,3] y=i32[2,3]", "x=u8[b,4] y=u8[4]", "x=i64[3] y=i32[]")
BITS = (*PAIRS, "x=bool[b,3] y=bool[3]")


def _with_bits(kinds: str, what: str, *dtypes: DType, **attrs: Any) -> DType:
    """Dtype rule: promoted integers, or bools."""
    del attrs
    for dtype in dtypes:
        if dtype.kind not in kinds:
            accepted = "an integer or bool dtype" if "b" in kinds else "an integer dtype"
            raise DTypeError(
                f"{what}: expected {accepted}, got {dtype}.",
                fix="Use br.cast(x, 'int32'), or br.bitcast for the bits of floats.",
            )
    return promote(*dtypes)


of_bits = DescribedRule(
    partial(_with_bits, "biu"),
    "int or bool",
    refuses="If an input is neither integer nor bool.",
)
of_integers = DescribedRule(
    partial(_with_bits, "iu"), "int", refuses="If an input is not an integer."
)

combines = op(
    axes="..., ... -> ...",
    dtypes=of_bits,
    differentiable=False,
    commutative=True,
    examples=BITS,
)
shifts = op(axes="..., ... -> ...", dtypes=of_integers, differentiable=False, examples=PAIRS)


@combines
def bitwise_and(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise bitwise AND.

    out[i] = x[i] & y[i]
    """
    return jnp.bitwise_and(*promote_arrays(x, y))


@combines
def bitwise_or(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise bitwise OR.

    out[i] = x[i] | y[i]
    """
    return jnp.bitwise_or(*promote_arrays(x, y))


@combines
def bitwise_xor(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise bitwise XOR.

    out[i] = x[i] ^ y[i]
    """
    return jnp.bitwise_xor(*promote_arrays(x, y))


@op(
    axes="... -> ...",
    dtypes=of_bits,
    differentiable=False,
    examples=("x=i32[2,3]", "x=u16[b]", "x=bool[b,3]", "x=i64[]"),
)
def bitwise_invert(x: Tensor) -> Tensor:
    """Elementwise bitwise NOT.

        out[i] = ~x[i]

    Outputs:
        out: The dtype and shape of `x`.

    Raises:
        DTypeError: If the dtype of `x` is neither an integer dtype nor bool.
    """
    return jnp.bitwise_invert(x)


@shifts
def bitwise_left_shift(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise left shift; zeros are shifted in.

        out[i] = x[i] << y[i]

    Inputs:
        x: int[*shape].
        y: int[*shape], broadcast against `x`. The number of bits; if it is negative, or at
            least the width of the dtype, the result is 0.
    """
    return lax.shift_left(*_broadcast_pair(x, y))


@shifts
def bitwise_right_shift(x: Tensor, y: Tensor) -> Tensor:
    """Elementwise arithmetic right shift; copies of the sign bit are shifted in.

        out[i] = x[i] >> y[i]

    Inputs:
        x: int[*shape].
        y: int[*shape], broadcast against `x`. The number of bits; if it is negative, or at
            least the width of the dtype, only the sign is left: 0 or -1.
    """
    left, right = _broadcast_pair(x, y)
    signed = left.dtype.kind == "i"
    shift = lax.shift_right_arithmetic if signed else lax.shift_right_logical
    return shift(left, right)


def _broadcast_pair(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    left, right = promote_arrays(x, y)
    shape = jnp.broadcast_shapes(left.shape, right.shape)
    return jnp.broadcast_to(left, shape), jnp.broadcast_to(right, shape)


def of_bits_of(what: str, x: DType, *, dtype: DType) -> DType:
    """Dtype rule: the attribute `dtype`.

    Raises:
        DTypeError: If a dtype is complex or of less than 8 bits, or only one of them is bool.
    """
    if "c" in (x.kind, dtype.kind):
        raise DTypeError(
            f"{what} is not defined for complex numbers.",
            fix="Use their real and imaginary parts.",
        )
    for each in (x, dtype):
        if is_narrow(each):
            raise DTypeError(
                f"{what}: unsupported dtype {each} of less than 8 bits.",
                fix="Use br.cast, which converts values.",
            )
    if BOOL in (x, dtype) and x.itemsize != dtype.itemsize:
        raise DTypeError(
            f"{what}: expected a dtype of 8 bits, got {x} and {dtype}.",
            fix="Use br.cast, which converts values.",
        )
    return dtype


def axes_of_parts(types: Types, attrs: Attrs) -> str | AxisMap:
    """Axis map of `bitcast`: another width adds or consumes a last axis of the parts."""
    (x,), dtype = types["x"], attrs["dtype"]
    assert isinstance(x, TensorType)
    assert isinstance(dtype, np.dtype)
    if x.dtype.itemsize == dtype.itemsize:
        return "... -> ..."
    wide, thin = sorted((x.dtype.itemsize, dtype.itemsize), reverse=True)
    count, adds = wide // thin, x.dtype.itemsize > dtype.itemsize
    if not adds and x.shape[-1:] != (count,):
        raise AxisError(
            f"expected a last axis of size {count}, the parts of one {dtype}, got {x}.",
            fix="Reshape the last axis, or convert the values with br.cast.",
        )
    batch = numbered_indices(x.rank - (not adds))
    axes = {True: (*batch, "part"), False: batch}
    inputs, outputs = {"x": (axes[not adds],)}, {"out": (axes[adds],)}
    return make_axis_map(types, inputs, outputs, ("part",), sizes={"part": count})


@op(
    axes=axes_of_parts,
    dtypes=of_bits_of,
    differentiable=False,
    operations=0,
    examples=(
        "x=u64[2,3] dtype=i64",
        "x=i32[3] dtype=f32",
        "x=i64[b] dtype=f64",
        "x=u16[] dtype=i16",
        "x=bool[b,2] dtype=u8",
        "x=u8[3] dtype=bool",
        "x=u16[2] dtype=bf16",
        "x=i32[b,3] dtype=u8",
        "x=i64[] dtype=u16",
        "x=u8[b,3,4] dtype=i32",
        "x=u16[2] dtype=i32",
    ),
)
def bitcast(x: Tensor, *, dtype: DType) -> Tensor:
    """The same bits reinterpreted in another dtype; no gradient.

        out[i] = the number of `dtype` whose bits are those of x[i]
        out[i, k] = the part k of the bits of x[i], from the low-order bits, if it is narrower
        out[i] = the number whose parts are x[i, :], from the low-order bits, if it is wider

    Inputs:
        x: any[*shape] but complex. True is one bit, the lowest.

    Attributes:
        dtype: The dtype of the result. As bools, all but zero is true.

    Outputs:
        out: dtype[*shape], dtype[*shape, k] or, of x[*shape, k], dtype[*shape], where k is the
            ratio of the widths.

    Raises:
        ShapeError: If the dtype is wider, and the last axis of `x` does not have size k.
        DTypeError: If a dtype is complex or of less than 8 bits, or bool and the other wider.
    """
    if x.dtype == BOOL or dtype == BOOL:
        return (x != 0) if dtype == BOOL else lax.bitcast_convert_type(x.astype("uint8"), dtype)
    return lax.bitcast_convert_type(x, dtype)
