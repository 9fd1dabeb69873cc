"""Operators along one axis: positions of extremes, sorting, and cumulative sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    HIGHEST,
    LOWEST,
    Attrs,
    AxisError,
    AxisMap,
    AxisRule,
    Types,
    first_rank,
    normalize_axis,
    shape_of,
)
from braces.define.axes.axis_rules import (
    check_not_empty,
    mix_along_axis,
    mixing_reduction,
    resize_axis,
    with_tails,
)
from braces.define.axes.flop_count import comparisons_per_entry, count_per_element
from braces.define.completed_doc import described
from braces.define.decorator import Axis, Tensor, op
from braces.dtypes import INT64, DType, TensorType, is_float
from braces.lazy import jnp, lax
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import Backward, ordered, sum_dtype
from braces.ops.reduction.reduce import sum_dtypes

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


@described("real", "i64[*shape].", "If the dtype is complex.")
def position_dtypes(what: str, x: DType, **attrs: Any) -> DType:
    """Dtype rule: an index, of ordered numbers."""
    ordered(what, x, **attrs)
    return INT64


def of_extreme(least: str) -> AxisRule:
    """Build the axis rule of an argmax or argmin, which needs at least one element.

    Args:
        least: The identity element, which is never chosen over another number.
    """

    def rule(types: Types, attrs: Attrs) -> AxisMap:
        check_not_empty(types["x"][0], attrs)
        axis_map = mixing_reduction(types, attrs)
        # indices into several flattened axes depend on their sizes
        return with_tails(axis_map, {"x": least}) if len(axis_map.mixed) == 1 else axis_map

    return rule


@op(
    axes=of_extreme(LOWEST),
    dtypes=position_dtypes,
    differentiable=False,
    operations=1,
    examples=POSITIONS,
)
def argmax(x: Tensor, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The index of the maximum, the first one of equal maxima.

        x[..., out, ...] = max_i x[..., i, ...]

    Inputs:
        x: real[*shape]. NaN counts as the largest.

    Attributes:
        axis: The axis to look along; `None` gives an index into the flattened array.
        keepdims: Whether the reduced axis stays, with size 1.

    Raises:
        ShapeError: If `axis` is not an axis of `x`, or the axis has size 0.
        DTypeError: If the dtype is complex.
    """
    return jnp.argmax(x, axis=axis, keepdims=keepdims).astype(INT64)


@op(
    axes=of_extreme(HIGHEST),
    dtypes=position_dtypes,
    differentiable=False,
    operations=1,
    examples=POSITIONS,
)
def argmin(x: Tensor, *, axis: Axis | None = None, keepdims: bool = False) -> Tensor:
    """The index of the minimum, the first one of equal minima.

        x[..., out, ...] = min_i x[..., i, ...]

    Inputs:
        x: real[*shape]. NaN counts as the smallest.

    Attributes:
        axis: The axis to look along; `None` gives an index into the flattened array.
        keepdims: Whether the reduced axis stays, with size 1.

    Raises:
        ShapeError: If `axis` is not an axis of `x`, or the axis has size 0.
        DTypeError: If the dtype is complex.
    """
    return jnp.argmin(x, axis=axis, keepdims=keepdims).astype(INT64)


# ---- sorting ---------------------------------------------------------------------------------


def sort_cost(types: Types, attrs: Attrs) -> int:
    """Cost per element of a sort: the number of comparisons."""
    shape = shape_of(types["x"][0])
    return comparisons_per_entry(shape[normalize_axis(attrs["axis"], len(shape))])


def compared_with_best(types: Types, attrs: Attrs) -> int:
    """Cost per element of top-k: the number of comparisons with the current best."""
    del types
    return comparisons_per_entry(int(str(attrs["k"])))


def sorted_along(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of a sort: non-pointwise along the axis; the largest elements can be padding."""
    (x, *_) = types["x"]
    largest = float("nan") if isinstance(x, TensorType) and is_float(x.dtype) else HIGHEST
    return with_tails(
        mix_along_axis(types, attrs), {"x": LOWEST if attrs["descending"] else largest}
    )


@op(
    axes=sorted_along,
    dtypes=ordered,
    operations=count_per_element("x", sort_cost),
    examples=SORTED,
)
def sort(x: Tensor, *, axis: Axis = -1, descending: bool = False) -> Tensor:
    """Sort along one axis; NaN counts as the largest.

        out[..., i, ...] <= out[..., i + 1, ...]

    Attributes:
        axis: The axis that is sorted; negative counts from the end.
        descending: Whether to sort from the largest to the smallest.
    """
    return jnp.sort(x, axis=axis, descending=descending)


@op(
    axes=sorted_along,
    dtypes=position_dtypes,
    differentiable=False,
    operations=count_per_element("x", sort_cost),
    examples=SORTED,
)
def argsort(x: Tensor, *, axis: Axis = -1, descending: bool = False) -> Tensor:
    """The indices that sort along one axis; the sort is stable.

        sort(x)[..., i, ...] = x[..., out[..., i, ...], ...]

    Attributes:
        axis: The axis that is sorted; negative counts from the end.
        descending: Whether to sort from the largest to the smallest.
    """
    return jnp.argsort(x, axis=axis, descending=descending, stable=True).astype(INT64)


def topk_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `topk`: non-pointwise along the axis, which gets size `k`."""
    shape, k = shape_of(types["x"][0]), int(str(attrs["k"]))
    at = normalize_axis(attrs["axis"], len(shape))
    size = shape[at]
    if k < 0 or (isinstance(size, int) and k > size):
        raise AxisError(f"k={k} is out of range for an axis of size {size}.")
    axis_map = resize_axis(mix_along_axis(types, attrs), at, "chosen", k)
    out = axis_map.outputs["out"]
    return replace(axis_map, outputs={"values": out, "indices": out})


def topk_dtypes(what: str, x: DType, **attrs: Any) -> tuple[DType, DType]:
    """Dtype rule: ordered numbers, and their indices."""
    return ordered(what, x), position_dtypes(what, x, **attrs)


@op(
    outputs=("values", "indices"),
    axes=topk_axes,
    dtypes=topk_dtypes,
    operations=count_per_element("x", compared_with_best),
    examples=("x=f32[2,5] k=3", "x=f64[b,4] k=2", "x=i32[4,t] k=1 axis=0", "x=f32[3] k=0"),
)
def topk(x: Tensor, *, k: int, axis: Axis = -1) -> tuple[Tensor, Tensor]:
    """The k largest numbers along one axis, in descending order, and their indices.

        values[..., i, ...] = x[..., indices[..., i, ...], ...]

    Equal numbers keep their order.

    Inputs:
        x: real[..., n, ...].

    Attributes:
        k: The number of elements to take.
        axis: The axis to look along; negative counts from the end.

    Outputs:
        values: The dtype of `x`, `k` along the axis.
        indices: i64, `k` along the axis.

    Raises:
        ShapeError: If `axis` is not an axis of `x`, or its size is below `k`.
        DTypeError: If the dtype is complex.
    """
    values, indices = lax.top_k(jnp.moveaxis(x, axis, -1), k)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis).astype(INT64)


# ---- cumulative operators --------------------------------------------------------------------


def cumulative_axes(neutral: Any) -> AxisRule:
    """Build the axis rule of a cumulative operator; several axes need an explicit `axis`.

    Args:
        neutral: The identity element, for padding at the end of a reverse operator.
    """

    def rule(types: Types, attrs: Attrs) -> AxisMap:
        rank = first_rank(types)
        if attrs["axis"] is None and rank != 1:
            raise AxisError(f"axis=None requires a vector, got rank {rank}.", fix="Pass axis=.")
        fills = {"x": neutral} if attrs["reverse"] else {}
        return with_tails(mix_along_axis(types, attrs), fills)

    return rule


@op(
    axes=cumulative_axes(0),
    dtypes=sum_dtypes,
    operations=1,
    examples=(*RUNNING, "x=f32[4] reverse=True"),
)
@in_float32
def cumsum(x: Tensor, *, axis: Axis | None = None, reverse: bool = False) -> Tensor:
    """The cumulative sum along one axis.

        out[..., i, ...] = sum_{j <= i} x[..., j, ...]

    Attributes:
        axis: The axis to sum along; may be `None` for an array with one axis.
        reverse: Sum from the end: over j >= i.

    Raises:
        ShapeError: If `axis` is not an axis of `x`, or is missing.
    """
    return lax.cumsum(x.astype(sum_dtype(x.dtype)), axis=(axis or 0) % x.ndim, reverse=reverse)


@cumsum.gradient
def cumsum_gradient(g: Backward) -> dict[str, Var]:
    """The cumulative sum of the cotangent, in the reverse direction."""
    reverse = not g.attrs["reverse"]
    return {"x": emit("cumsum", g.out_grad, axis=g.attrs["axis"], reverse=reverse)}


@op(
    axes=cumulative_axes(1),
    dtypes=sum_dtypes,
    operations=1,
    examples=(*RUNNING, "x=f32[4] reverse=True"),
)
@in_float32
def cumprod(x: Tensor, *, axis: Axis | None = None, reverse: bool = False) -> Tensor:
    """The cumulative product along one axis.

        out[..., i, ...] = prod_{j <= i} x[..., j, ...]

    Attributes:
        axis: The axis to multiply along; may be `None` for an array with one axis.
        reverse: Multiply from the end: over j >= i.

    Raises:
        ShapeError: If `axis` is not an axis of `x`, or is missing.
    """
    return lax.cumprod(x.astype(sum_dtype(x.dtype)), axis=(axis or 0) % x.ndim, reverse=reverse)
