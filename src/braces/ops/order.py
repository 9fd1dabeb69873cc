"""Order along one axis: positions of extremes, sorting, and running totals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from braces.builder.var import Var, one
from braces.define.axes import Attrs, AxisMap, Types, along_axis, reduced_mixing
from braces.define.decorator import Tensor, op
from braces.define.inference import Context
from braces.dtypes import INT64, TensorType
from braces.errors import ShapeError
from braces.lazy import jnp, lax
from braces.ops.elementwise import refuse
from braces.ops.precision import in_float32
from braces.ops.reduce import check_not_empty, without
from braces.ops.rules import Backward, axis_index, sum_dtype

POSITIONS = (
    "x=f32[2,3]",
    "x=f32[b,4] axis=1",
    "x=i32[3,t] axis=0 keepdims=True",
    "x=f64[5]",
    "x=f32[0,3] axis=1",
)
SORTED = ("x=f32[2,5]", "x=f64[b,4]", "x=i32[4,2] axis=0 descending=True", "x=f32[0]")
RUNNING = ("x=f32[2,3] axis=1", "x=f64[b,4] axis=0", "x=f32[5]", "x=i32[0,3] axis=-1")


# ---- positions of extremes -------------------------------------------------------------------


def position(
    context: Context, x: TensorType, *, axis: int | None, keepdims: bool
) -> TensorType:
    """Inference: an index along one axis, or into the flattened array."""
    refuse(context, x.dtype, "c")
    axes = range(x.rank) if axis is None else (axis_index(axis, x.rank, context.type),)
    check_not_empty(context, [x.shape[i] for i in axes])
    return TensorType(INT64, without(x.shape, axes, keepdims))


@op(infer=position, axes=reduced_mixing, differentiable=False, examples=POSITIONS)
def argmax(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the largest number, the first one where several are equal.

        x[..., out, ...] = max_i x[..., i, ...]

    Inputs:
        x: real[*shape]. NaN counts as the largest.

    Attributes:
        axis: The axis to look along; `None` gives an index into the flattened array.
        keepdims: Whether the reduced axis stays, with size 1.

    Outputs:
        out: i64[*rest].

    Raises:
        ShapeError: `axis` is not an axis of `x`, or there is nothing along it.
        DTypeError: Complex numbers.
    """
    return jnp.argmax(x, axis=axis, keepdims=keepdims).astype(INT64)


@op(infer=position, axes=reduced_mixing, differentiable=False, examples=POSITIONS)
def argmin(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the smallest number, the first one where several are equal.

        x[..., out, ...] = min_i x[..., i, ...]

    Inputs:
        x: real[*shape]. NaN counts as the smallest.

    Attributes:
        axis: The axis to look along; `None` gives an index into the flattened array.
        keepdims: Whether the reduced axis stays, with size 1.

    Outputs:
        out: i64[*rest].

    Raises:
        ShapeError: `axis` is not an axis of `x`, or there is nothing along it.
        DTypeError: Complex numbers.
    """
    return jnp.argmin(x, axis=axis, keepdims=keepdims).astype(INT64)


# ---- sorting ---------------------------------------------------------------------------------


def sorting(context: Context, x: TensorType, *, axis: int, **attrs: Any) -> TensorType:
    """Inference: the type of `x`, whose axis must be there."""
    del attrs
    refuse(context, x.dtype, "c")
    axis_index(axis, x.rank, context.type)
    return x


@op(infer=sorting, axes=along_axis, examples=SORTED)
def sort(x: Tensor, *, axis: int = -1, descending: bool = False) -> Tensor:
    """The same numbers in order along one axis; NaN counts as the largest.

        out[..., i, ...] <= out[..., i + 1, ...]

    Inputs:
        x: real[*shape].

    Attributes:
        axis: The axis that is sorted; negative counts from the end.
        descending: From the largest to the smallest.

    Outputs:
        out: As `x`.

    Raises:
        ShapeError: `axis` is not an axis of `x`.
        DTypeError: Complex numbers.
    """
    return jnp.sort(x, axis=axis, descending=descending)


@op(axes=along_axis, differentiable=False, examples=SORTED)
def argsort(x: Tensor, *, axis: int = -1, descending: bool = False) -> Tensor:
    """The indices that sort along one axis; equal numbers keep their order.

        sort(x)[..., i, ...] = x[..., out[..., i, ...], ...]

    Inputs:
        x: real[*shape].

    Attributes:
        axis: The axis that is sorted; negative counts from the end.
        descending: From the largest to the smallest.

    Outputs:
        out: i64[*shape].

    Raises:
        ShapeError: `axis` is not an axis of `x`.
        DTypeError: Complex numbers.
    """
    return jnp.argsort(x, axis=axis, descending=descending, stable=True).astype(INT64)


@argsort.infer
def infer_argsort(context: Context, x: TensorType, **attrs: Any) -> TensorType:
    """The shape of `x`."""
    return sorting(context, x, **attrs).with_dtype(INT64)


def chosen_along(types: Types, attrs: Attrs) -> AxisMap:
    """Numbers are compared along the axis."""
    found = along_axis(types, attrs)
    out = found.outputs["out"]
    return replace(found, outputs={"values": out, "indices": out})


@op(
    outputs=("values", "indices"),
    axes=chosen_along,
    examples=("x=f32[2,5] k=3", "x=f64[b,4] k=2", "x=i32[4,t] k=1 axis=0", "x=f32[3] k=0"),
)
def topk(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The largest numbers along one axis, in descending order, and where they are.

        values[..., i, ...] = x[..., indices[..., i, ...], ...]

    Of equal numbers the earlier one comes first.

    Inputs:
        x: real[..., n, ...].

    Attributes:
        k: How many.
        axis: The axis to look along; negative counts from the end.

    Outputs:
        values: The dtype of `x`, `k` along the axis.
        indices: i64, `k` along the axis.

    Raises:
        ShapeError: `axis` is not an axis of `x`, or has fewer than `k` numbers.
        DTypeError: Complex numbers.
    """
    values, indices = lax.top_k(jnp.moveaxis(x, axis, -1), k)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis).astype(INT64)


@topk.infer
def infer_topk(
    context: Context, x: TensorType, *, k: int, axis: int
) -> tuple[TensorType, TensorType]:
    """`k` along the axis."""
    sorting(context, x, axis=axis)
    at = axis_index(axis, x.rank, context.type)
    size = context.unifier.resolve(x.shape[at])
    if k < 0 or (isinstance(size, int) and k > size):
        raise ShapeError(f"topk cannot take {k} of {size} numbers.")
    shape = (*x.shape[:at], k, *x.shape[at + 1 :])
    return TensorType(x.dtype, shape), TensorType(INT64, shape)


# ---- running totals --------------------------------------------------------------------------


def running(context: Context, x: TensorType, *, axis: int | None, reverse: bool) -> TensorType:
    """Inference: the shape of `x`; an axis must be said where there are several."""
    del reverse
    if axis is None and x.rank != 1:
        raise ShapeError(
            f"{context.type} needs an axis where there are {x.rank}.", fix="Pass axis=."
        )
    axis_index(axis or 0, x.rank, context.type)
    return x.with_dtype(sum_dtype(x.dtype))


@op(infer=running, axes=along_axis, examples=(*RUNNING, "x=f32[4] reverse=True"))
@in_float32
def cumsum(x: Tensor, *, axis: int | None = None, reverse: bool = False) -> Tensor:
    """Running sums along one axis.

        out[..., i, ...] = sum_{j <= i} x[..., j, ...]

    Inputs:
        x: number[*shape].

    Attributes:
        axis: The axis to sum along; may be `None` where there is just one.
        reverse: Sum from the end: over j >= i.

    Outputs:
        out: Floats keep their dtype; integers and bools give 64-bit integers.

    Raises:
        ShapeError: `axis` is not an axis of `x`, or is not said.
    """
    return lax.cumsum(x.astype(sum_dtype(x.dtype)), axis=(axis or 0) % x.ndim, reverse=reverse)


@cumsum.gradient
def cumsum_gradient(g: Backward) -> dict[str, Var]:
    """Running sums of the cotangent, from the other end."""
    reverse = not g.attrs["reverse"]
    return {"x": one("cumsum", g.out_grad, axis=g.attrs["axis"], reverse=reverse)}


@op(infer=running, axes=along_axis, examples=(*RUNNING, "x=f32[4] reverse=True"))
@in_float32
def cumprod(x: Tensor, *, axis: int | None = None, reverse: bool = False) -> Tensor:
    """Running products along one axis.

        out[..., i, ...] = prod_{j <= i} x[..., j, ...]

    Inputs:
        x: number[*shape].

    Attributes:
        axis: The axis to multiply along; may be `None` where there is just one.
        reverse: Multiply from the end: over j >= i.

    Outputs:
        out: Floats keep their dtype; integers and bools give 64-bit integers.

    Raises:
        ShapeError: `axis` is not an axis of `x`, or is not said.
    """
    return lax.cumprod(x.astype(sum_dtype(x.dtype)), axis=(axis or 0) % x.ndim, reverse=reverse)
