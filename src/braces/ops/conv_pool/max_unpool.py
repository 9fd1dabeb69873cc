"""Max unpooling: the partial inverse of `max_pool_with_indices`, with zeros elsewhere."""

from __future__ import annotations

import math
from typing import Any

from braces.define.axes.axis_map import Attrs, AxisMap, Types, make_axis_map
from braces.define.decorator import Indices, Tensor
from braces.define.type_inference import InferenceContext
from braces.dims import Shape
from braces.dtypes import TensorType
from braces.errors import IndexRangeError, ShapeError
from braces.lazy import jnp
from braces.ops.conv_pool.conv import inverse_permutation
from braces.ops.conv_pool.data_layouts import check_layout, check_rank, spatial_axes
from braces.ops.conv_pool.spatial_ranks import define_for_ranks
from braces.ops.indexing.take import check_integers, out_of_range_code


def unpooled_type(
    rank: int,
    context: InferenceContext,
    x: TensorType,
    indices: TensorType,
    *,
    shape: Shape,
    layout: str,
) -> TensorType:
    """Infer the type: the attribute `shape`, with the batch and channels of `x`."""
    check_rank(x, rank, f"x of {context.type}")
    check_rank(indices, rank, f"indices of {context.type}")
    check_layout(layout, rank)
    check_integers(context.type, indices.dtype)
    for size, index_size in zip(x.shape, indices.shape, strict=True):
        context.unify(
            size,
            index_size,
            f"{context.type}: shape mismatch of x, {x}, and indices, {indices}.",
        )
    if len(shape) != rank:
        raise ShapeError(f"{context.type}: `shape` has {len(shape)} sizes; expected {rank}.")
    for axis in (layout.index("N"), layout.index("C")):
        problem = f"{context.type}: batch and channels of `shape`, {shape}, differ from {x}."
        context.unify(shape[axis], x.shape[axis], problem)
    return x.with_shape(tuple(map(context.unifier.resolve, shape)))


def unpool_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: pointwise on batch and channels."""
    layout = tuple(str(attrs["layout"]))
    out = tuple(name if name in "NC" else f"out {name}" for name in layout)
    inputs = {"x": (layout,), "indices": (layout,)}
    return make_axis_map(types, inputs, {"out": (out,)}, {*layout, *out} - {"N", "C"})


def max_unpool(x: Tensor, indices: Indices, *, shape: Shape, layout: str = "") -> Tensor:
    """Values scattered to given positions along $axes, and zeros elsewhere.

        out[n, c, indices[n, c, i]] = x[n, c, i]

    where `out[n, c]` is flattened, as for the indices of `max_pool_with_indices`. If several
    values have the same position, one of them is kept.

    Inputs:
        x: number[n, c, *windows], or in the order of `layout`.
        indices: integer, as `x`; from 0 to below the product of the spatial axes of `shape`.

    Attributes:
        shape: The shape of the result, in the order of `layout`.
        layout: `$first` or `$last`.

    Outputs:
        out: The dtype of `x`; number[*shape].

    Raises:
        ShapeError: If the shapes of `x` and `indices`, or batch or channels of `shape`, differ.
        DTypeError: If the indices are not integers.
        IndexRangeError: If an index is out of range at run time.
    """
    sizes: Any = shape
    order = [layout.index("N"), layout.index("C"), *spatial_axes(layout)]
    sizes_in_order = [sizes[axis] for axis in order]
    planes, plane = math.prod(sizes_in_order[:2]), math.prod(sizes_in_order[2:])
    each = math.prod(x.shape[axis] for axis in spatial_axes(layout))
    rows = jnp.transpose(x, order).reshape(planes, each)
    places = jnp.transpose(indices, order).reshape(planes, each)
    plane_numbers = jnp.arange(planes)[:, None]
    flat = jnp.zeros((planes, plane), x.dtype).at[plane_numbers, places].set(rows, mode="drop")
    return jnp.transpose(flat.reshape(sizes_in_order), inverse_permutation(order))


UNPOOLS = define_for_ranks(
    max_unpool,
    infer=unpooled_type,
    axes=unpool_axis_map,
    operations=0,
    examples={
        1: (
            "x=f32[2,3,4] indices=i64[2,3,4] shape=(2,3,8)",
            "x=f64[b,2,4] indices=i32[b,2,4] shape=(b,2,9)",
            "x=f32[2,4,3] indices=i64[2,4,3] shape=(2,8,3) layout=NWC",
        ),
        2: (
            "x=f32[2,1,2,3] indices=i64[2,1,2,3] shape=(2,1,4,6)",
            "x=f64[b,2,2,2] indices=i64[b,2,2,2] shape=(b,2,5,4)",
            "x=i32[0,2,2,2] indices=i64[0,2,2,2] shape=(0,2,4,4)",
        ),
        3: (
            "x=f64[b,1,2,1,2] indices=i64[b,1,2,1,2] shape=(b,1,4,2,3)",
            "x=f32[1,2,1,2,1] indices=i32[1,2,1,2,1] shape=(1,4,2,3,1) layout=NDHWC",
        ),
    },
)


def place_outside(x: Tensor, indices: Indices, *, shape: Shape, layout: str = "") -> Tensor:
    """Run-time check: an index is outside the result."""
    del x
    sizes: Any = shape
    return out_of_range_code(
        indices, math.prod(sizes[axis] for axis in spatial_axes(layout)), lowest=0
    )


for definition in UNPOOLS:
    definition.checked(IndexRangeError, "An unpooling index is out of range.")(place_outside)
