"""The determinant of matrices."""

from __future__ import annotations

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    make_axis_map,
    numbered_indices,
    shape_of,
)
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Tensor, op
from braces.dims import Size
from braces.lazy import jnp
from braces.ops.common.half_precision import in_float32
from braces.ops.common.rules import as_floating, real_valued


def of_squares(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map: one number for each square matrix."""
    del attrs
    shape = shape_of(types["x"][0])
    if len(shape) < 2:
        raise AxisError(f"expected an array of rank 2 or more, got rank {len(shape)}.")
    if shape[-1] != shape[-2]:
        raise AxisError(f"expected square matrices, got {shape[-2]} by {shape[-1]}.")
    indices = numbered_indices(len(shape))
    return make_axis_map(types, {"x": (indices,)}, {"out": (indices[:-2],)}, indices[-2:])


def elimination_cost(types: Types, attrs: Attrs) -> Size:
    """Cost per element of an elimination: the number of rows."""
    del attrs
    return shape_of(types["x"][0])[-1]


@op(
    axes=of_squares,
    dtypes=real_valued,
    costly=True,
    operations=count_per_element("x", elimination_cost),
    examples=(
        "x=f32[3,3]",
        "x=f64[b,2,2]",
        "x=f64[2,b,b]",
        "x=c64[2,2]",
        "x=i32[2,2]",
        "x=f32[0,3,3]",
    ),
)
@in_float32
def det(x: Tensor) -> Tensor:
    """The determinant of square matrices.

        out = sum_p sign(p) * prod_i x[..., i, p(i)], over all permutations p

    Computed by Gaussian elimination. The determinant of an empty matrix is 1.

    Inputs:
        x: number[*shape, n, n].

    Outputs:
        out: float[*shape]; integers give float32.

    Raises:
        ShapeError: If `x` is not square in its last two axes.
    """
    x = as_floating(x)
    return jnp.linalg.det(x) if x.size else jnp.ones(x.shape[:-2], x.dtype)
