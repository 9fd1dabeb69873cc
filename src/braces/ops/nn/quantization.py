"""Quantization to small integers, with a scale and a zero point.

    x  ≈  (q - zero_point) * scale

The granularity is per tensor (`axis=None`), per axis, or per block of `block` elements along an
axis. In the last case the scale has the rank of `x`, and the last block may be shorter. A zero
point has the shape of its scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    normalize_axis,
    numbered_indices,
    shape_of,
)
from braces.define.decorator import Tensor, op
from braces.dtypes import (
    FLOAT32,
    FLOAT64,
    INT32,
    NARROW,
    ONE_BYTE,
    SHORT_NAMES,
    DType,
    carrier_of,
    is_float,
    is_integer,
    is_narrow,
)
from braces.errors import DTypeError
from braces.lazy import jnp
from braces.ops.common.narrow_integers import cast_saturated
from braces.ops.common.rules import promote

UINT8 = SHORT_NAMES["u8"]
FLOATS = frozenset(dtype for name, dtype in ONE_BYTE.items() if name != "f8e8m0fnu") | {
    NARROW["f4e2m1fn"]
}
"""Floats of one byte or less that are quantization targets."""
MOST_BYTES = 2
"""Maximum size of an integer that is a quantization target."""
LIMITS: Callable[[DType], Any] = ml_dtypes.iinfo

SCALED = (
    "x=$x[2,3] scale=f32[] zero_point=$q[]",
    "x=$x[b,3] scale=f32[3] zero_point=$q[3] axis=-1",
    "x=$x[b,3,4] scale=f32[3] axis=1",
    "x=$x[2,5] scale=f32[2,3] zero_point=$q[2,3] axis=1 block=2",
    "x=$x[4,b] scale=f32[2,b] axis=0 block=2",
)


def examples(x: str, q: str, more: str = "") -> tuple[str, ...]:
    """Return examples of all granularities, for these dtypes."""
    return tuple(example.replace("$x", x).replace("$q", q) + more for example in SCALED)


def scaled_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: elementwise, except for blocks, which share a scale."""
    shape, axis, block = shape_of(types["x"][0]), attrs["axis"], int(str(attrs["block"]))
    indices = numbered_indices(len(shape))
    if axis is None:
        if block:
            raise AxisError("`block` requires `axis`.", fix="Pass the blocked axis: axis=0.")
        return _map_axes(types, indices, ())
    at = normalize_axis(axis, len(shape))
    if block < 0:
        raise AxisError(f"invalid block={block}.", fix="Use 1 or more, or 0 for no blocks.")
    if not block:
        return _map_axes(types, indices, (indices[at],))
    scales = shape_of(types["scale"][0])
    blocks = -(-shape[at] // block)
    if len(scales) != len(shape) or scales[at] != blocks:
        raise AxisError(
            f"scales of shape {scales} do not match blocks of {block} on axis {at} of {shape}.",
            fix=f"Pass scales of the shape of x, with size {blocks} on axis {at}.",
        )
    return _map_axes(
        types, indices, (*indices[:at], "blocks", *indices[at + 1 :]), {indices[at], "blocks"}
    )


def _map_axes(
    types: Types,
    x: tuple[str, ...],
    scale: tuple[str, ...],
    non_pointwise: set[str] | None = None,
) -> AxisMap:
    inputs = {slot: (x if slot == "x" else scale,) for slot in types if slot != "out"}
    return make_axis_map(types, inputs, {"out": (x,)}, non_pointwise or ())


def expand_scale(parameter: Tensor, x: Tensor, axis: int | None, block: int) -> Tensor:
    """Expand a scale or zero point for broadcasting; for kernels."""
    if axis is None:
        return parameter
    at = axis % x.ndim
    if block:
        return jnp.repeat(parameter, block, at)[(slice(None),) * at + (slice(x.shape[at]),)]
    return jnp.expand_dims(parameter, [other for other in range(x.ndim) if other != at])


def quotient(x: Tensor, scale: Tensor) -> Tensor:
    """Divide in float64, so that the float32 quotient is rounded once; for kernels.

    XLA multiplies by the reciprocal of a broadcast divisor, which would miss exact halves.
    """
    return x.astype(FLOAT64) / scale.astype(FLOAT64)


def check_scale(what: str, scale: DType) -> None:
    """Refuse scales that are not real floats."""
    if not is_float(scale) or scale.kind == "c":
        raise DTypeError(f"scale of {what}: expected a real floating dtype, got {scale}.")


def check_zero_point(what: str, zero_point: DType | None, dtype: DType) -> None:
    """Refuse zero points whose dtype differs from that of the quantized numbers."""
    if zero_point not in (None, dtype):
        raise DTypeError(
            f"zero_point of {what}: expected {dtype}, got {zero_point}.",
            fix=f"Use br.cast(zero_point, {dtype.name!r}).",
        )


def quantizing(
    what: str, x: DType, scale: DType, zero_point: DType | None, *, dtype: DType, **attrs: Any
) -> DType:
    """Dtype rule: the attribute `dtype`, an integer of few bits or a small float."""
    del attrs
    if x.kind in "bc":
        raise DTypeError(f"{what}: expected a real numeric dtype, got {x}.")
    check_scale(what, scale)
    is_small_integer = is_narrow(dtype) or (is_integer(dtype) and dtype.itemsize <= MOST_BYTES)
    if not is_small_integer and dtype not in FLOATS:
        raise DTypeError(
            f"{what}: unsupported output dtype {dtype}.",
            fix="Use an integer of 16 bits or less, or a signed float of 8 bits or less.",
        )
    check_zero_point(what, zero_point, dtype)
    return dtype


@op(
    axes=scaled_axes,
    dtypes=quantizing,
    stored=True,
    rounds=True,
    differentiable=False,
    operations=4,
    examples=(
        *examples("f32", "i8", " dtype=i8"),
        "x=f64[b] scale=f64[] zero_point=u8[]",
        "x=i32[3] scale=f32[] dtype=i16",
        "x=f16[2,b] scale=f16[] dtype=u16",
        "x=f32[b,3] scale=f32[] dtype=f8e4m3fn",
        "x=f32[3,4] scale=f32[3,2] zero_point=int4[3,2] dtype=int4 axis=1 block=2",
    ),
)
def quantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    *,
    dtype: DType = UINT8,
    axis: int | None = None,
    block: int = 0,
) -> Tensor:
    """Quantize real numbers to small integers: divide by a scale, round, and saturate.

        out[i] = clip(round(x[i] / scale[j]) + zero_point[j], lowest, highest)

    Halves are rounded to even. Integers have no gradient; for a straight-through estimator use
    `x + br.stop_gradient(br.layers.dequantize(q, scale) - x)`.

    Inputs:
        x: real[*shape].
        scale: float. One number; float[n] for an axis of size n; or the shape of `x` with one
            entry for each block along `axis`.
        zero_point: dtype, the shape of `scale`. The integer for 0; absent, it is 0.

    Attributes:
        dtype: An integer of 2, 4, 8 or 16 bits, or a signed float of 4 or 8 bits. For a float,
            `x / scale` is rounded to it, and zero points are 0.
        axis: The axis along which scales differ; `None` for one scale per tensor.
        block: The number of elements along the axis that share a scale; 0 for one scale each.

    Outputs:
        out: dtype[*shape].

    Raises:
        ShapeError: If the shape of the scale is incompatible with that of `x`.
        DTypeError: If `x` is not real, or the dtype of the zero point differs.
    """
    wide = promote(scale.dtype, FLOAT32)
    out = quotient(x, expand_scale(scale, x, axis, block)).astype(wide)
    if dtype in FLOATS:
        return cast_saturated(out, dtype)
    out = jnp.round(out)
    if zero_point is not None:
        out = out + expand_scale(zero_point, x, axis, block).astype(wide)
    limits = LIMITS(dtype)
    return jnp.clip(out, limits.min, limits.max).astype(carrier_of(dtype))


def dequantizing(
    what: str, x: DType, scale: DType, zero_point: DType | None, **attrs: Any
) -> DType:
    """Dtype rule: that of the scale."""
    del attrs
    check_scale(what, scale)
    is_integer_code = is_narrow(x) or (is_integer(x) and x.itemsize <= INT32.itemsize)
    if not is_integer_code and x not in FLOATS:
        raise DTypeError(
            f"{what}: expected an integer of 32 bits or less, or a float of 8 bits, got {x}."
        )
    check_zero_point(what, zero_point, x)
    return scale


@op(
    axes=scaled_axes,
    dtypes=dequantizing,
    stored=True,
    operations=2,
    examples=(
        *examples("i8", "i8"),
        "x=u8[b] scale=f64[] zero_point=u8[]",
        "x=i32[3] scale=f64[3] axis=0",
        "x=u16[b,2] scale=f64[2] axis=1",
        "x=f8e4m3fn[3] scale=f32[]",
        "x=uint2[3,4] scale=f32[3,2] zero_point=uint2[3,2] axis=1 block=2",
        "x=f4e2m1fn[b] scale=f32[]",
    ),
)
def dequantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    *,
    axis: int | None = None,
    block: int = 0,
) -> Tensor:
    """Dequantize small integers to real numbers.

        out[i] = (x[i] - zero_point[j]) * scale[j]

    Inputs:
        x: int[*shape], of 32 bits at most, or floats of 4 or 8 bits, whose zero points are 0.
        scale: float. One number; float[n] for an axis of size n; or the shape of `x` with one
            entry for each block along `axis`.
        zero_point: The dtype of `x`, the shape of `scale`. The integer for 0; absent, it is 0.

    Attributes:
        axis: The axis along which scales differ; `None` for one scale per tensor.
        block: The number of elements along the axis that share a scale; 0 for one scale each.

    Outputs:
        out: The dtype of `scale`, the shape of `x`.

    Raises:
        ShapeError: If the shape of the scale is incompatible with that of `x`.
        DTypeError: If `x` is not quantized, or the dtype of the zero point differs.
    """
    wide = promote(scale.dtype, FLOAT32)
    out = x.astype(wide if x.dtype in FLOATS else "int32")
    if zero_point is not None and out.dtype == INT32:
        out = out - expand_scale(zero_point, x, axis, block).astype("int32")
    factor = expand_scale(scale, x, axis, block).astype(wide)
    return (out.astype(wide) * factor).astype(scale.dtype)
