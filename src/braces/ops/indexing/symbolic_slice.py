"""Slices along one axis with symbolic start or size: `window`.

Slices with known bounds are clipped to the axis, as in Python. A window is not clipped; it is
an error at run time if it is out of bounds. So `x[:t]` of `f32[512]` is `f32[t]`,
and it fits other arrays of size `t`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import Attrs, AxisMap, Types, first_rank, normalize_axis
from braces.define.axes.axis_rules import mix_along_axis, resize_axis
from braces.define.axes.flop_count import count_per_element
from braces.define.decorator import Axis, Tensor, op
from braces.define.type_inference import InferenceContext
from braces.dims import Dim, Size
from braces.dtypes import INT64, TensorType
from braces.errors import IndexRangeError
from braces.ir.records import Op
from braces.lazy import jnp, lax
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.row_semantics import RowView, mixed_rows_error, row_count_error
from braces.ops.common.rules import AddInto, Backward, axis_index
from braces.ops.indexing.static_slice import add_block, check_update


def window_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of window: pointwise but on its axis, which is replaced."""
    axis_map, axis = (
        mix_along_axis(types, attrs),
        normalize_axis(attrs["axis"], first_rank(types, "x")),
    )
    return resize_axis(axis_map, axis, "window", cast("Size", attrs["size"]))


@op(
    axes=window_axis_map,
    function=False,
    operations=0,
    picks=("x",),
    examples=(
        "x=f32[5] start=1 size=3",
        "x=f32[t,9] start=0 size=t axis=1",
        "x=f32[b,3] start=b size=b from_end=True",
        "x=f64[2,6] start=2 size=2 axis=-1 from_end=True",
        "x=f64[b,6] start=1 size=3 axis=1",
        "x=f32[0,2] start=0 size=0",
    ),
)
def window(
    x: Tensor, *, start: Size, size: Size, axis: Axis = 0, from_end: bool = False
) -> Tensor:
    """Consecutive elements along one axis, with symbolic start or size.

        out[..., i, ...] = x[..., start + i, ...]

    Inputs:
        x: any[*shape].

    Attributes:
        start: The first position.
        size: The number of elements.
        axis: The axis that is sliced; negative counts from the end.
        from_end: Whether `start` counts backwards from the end of the axis, as in `x[-start:]`.

    Outputs:
        out: any, with `size` on `axis`.

    Raises:
        ShapeError: If the axis is out of range.
        IndexRangeError: If the window is out of bounds, at build time or at run time.
    """
    axis %= x.ndim
    first, count = window_position(x.shape[axis], as_number(start), as_number(size), from_end)
    if first is None:
        return jnp.zeros((*x.shape[:axis], count, *x.shape[axis + 1 :]), x.dtype)
    return lax.slice_in_dim(x, first, first + count, axis=axis)


def as_number(size: Size) -> int:
    """Return a size as an integer; in kernels all sizes are numbers."""
    assert isinstance(size, int)
    return size


def window_position(have: int, start: int, size: int, from_end: bool) -> tuple[int | None, int]:
    """Return the first position of a window, `None` if it is outside, and its size."""
    if size == 0:
        return 0, 0
    first = have - start if from_end else start
    inside = size > 0 and first >= 0 and first + size <= have
    return (first if inside else None), max(size, 0)


@window.infer
def infer_window(
    context: InferenceContext,
    x: TensorType,
    *,
    start: Size,
    size: Size,
    axis: int,
    from_end: bool,
) -> TensorType:
    """Infer the type: the size of the window on its axis."""
    axis = axis_index(axis, x.rank, context.type)
    have, start, size = map(context.unifier.resolve, (x.shape[axis], start, size))
    is_static = not any(isinstance(one_size, Dim) for one_size in (have, start, size))
    if (
        is_static
        and window_position(as_number(have), as_number(start), as_number(size), from_end)[0]
        is None
    ):
        raise IndexRangeError(
            f"a slice of {size} elements from {start} exceeds an axis of size {have}.",
            fix="Keep the slice within the axis; only slices with integer bounds are clipped.",
        )
    return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))


OUTSIDE = "A slice with symbolic bounds, or an index, is out of range."


@window.checked(IndexRangeError, OUTSIDE)
def window_outside(
    x: Tensor, *, start: Size, size: Size, axis: Axis = 0, from_end: bool = False
) -> bool:
    """Run-time check: the window is out of bounds."""
    return (
        window_position(x.shape[axis], as_number(start), as_number(size), from_end)[0] is None
    )


@window.rounded
def window_of_rows(view: RowView, count: str) -> Op:
    """Replace a window of batch elements by a take, whose indices must not reach padding."""
    (x,) = view.op.inputs["x"]
    row_axis = _row_axis_of_window(view, x)
    if row_axis is None:
        return view.op
    axis, size = row_axis, view.op.attrs["size"]
    if not isinstance(size, int):
        raise mixed_rows_error(view.op, f"the window has the size {size}.")
    inputs = {"x": (x,), "indices": (_window_positions(view, count, size).name,)}
    return view.op.with_(type="take", inputs=inputs, attrs={"axis": axis})


def _row_axis_of_window(view: RowView, x: str) -> int | None:
    """Return the batch axis if the window is along it, else `None`.

    Raises:
        ProgramError: If the window depends on the batch size.
    """
    attrs = view.op.attrs
    axis = axis_index(int(str(attrs["axis"])), view.var(x).ndim, view.op.type)
    if any(map(view.mentions, attrs.values())):
        raise row_count_error(view.op, "start")
    return axis if view.axis("x") == axis else None


def _window_positions(view: RowView, count: str, size: int) -> Var:
    """Return the positions of a window; out of range if one of them is padding."""
    attrs, real = view.op.attrs, view.var(count)
    start = emit("size", value=attrs["start"], dtype=INT64)
    first = real - start if attrs["from_end"] else start
    inside = (first >= 0) & (first + size <= real)
    capacity = emit("size", value=view.rows, dtype=INT64)
    return emit("where", inside, first, capacity) + emit("arange", stop=size)


@window.gradient
def window_gradient(g: Backward) -> dict[str, AddInto]:
    """Gradient of window: add the cotangent to a window of zeros."""
    geometry = {name: g.attrs[name] for name in ("start", "axis", "from_end")}
    return {
        "x": AddInto(
            g.out_grad, lambda total, grad: emit("window_add", total, grad, **geometry)
        )
    }


def window_add_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of window_add: pointwise but on its axis, where the update has the window."""
    axis_map, axis = (
        mix_along_axis(types, attrs),
        normalize_axis(attrs["axis"], first_rank(types, "x")),
    )
    (x_axes,) = axis_map.inputs["x"]
    part = tuple("window" if i == axis else index for i, index in enumerate(x_axes))
    return replace(
        axis_map, inputs={"x": (x_axes,), "update": (part,)}, mixed=axis_map.mixed | {"window"}
    )


@op(
    axes=window_add_axis_map,
    adds_to=("x",),
    function=False,
    operations=count_per_element("update"),
    examples=(
        "x=f32[5] update=f32[3] start=1",
        "x=f32[t,9] update=f32[t,t] start=0 axis=1",
        "x=f32[b,3] update=f32[b,3] start=b from_end=True",
        "x=f64[2,6] update=f64[2,2] start=2 axis=-1 from_end=True",
        "x=f64[b,6] update=f64[b,2] start=2 axis=1",
        "x=f32[0,2] update=f32[0,2] start=0",
    ),
)
def window_add(
    x: Tensor, update: Tensor, *, start: Size, axis: Axis = 0, from_end: bool = False
) -> Tensor:
    """An update added to a window of an array: the adjoint of `window`.

        out = x, but out[..., start + i, ...] = x[..., start + i, ...] + update[..., i, ...]

    Inputs:
        x: number[*shape].
        update: The type of `x`, with the size of the window on `axis`.

    Attributes:
        start: The first position; may be symbolic.
        axis: The axis of the window; negative counts from the end.
        from_end: Whether `start` counts backwards from the end of the axis.

    Outputs:
        out: number[*shape].

    Raises:
        ShapeError: If the axis is out of range, or the size of another axis differs.
        DTypeError: If the update has a different dtype.
        IndexRangeError: If the window is out of bounds, at build time or at run time.
    """
    axis %= x.ndim
    first, _ = window_position(x.shape[axis], as_number(start), update.shape[axis], from_end)
    if first is None:
        return x
    return add_block(x, update, [first if i == axis else 0 for i in range(x.ndim)])


@window_add.infer
def infer_window_add(
    context: InferenceContext,
    x: TensorType,
    update: TensorType,
    *,
    start: Size,
    axis: int,
    from_end: bool,
) -> TensorType:
    """Infer the type: the type of `x`."""
    axis = axis_index(axis, x.rank, context.type)
    size = update.shape[axis] if update.rank == x.rank else 0
    part = infer_window(context, x, start=start, size=size, axis=axis, from_end=from_end)
    check_update(context, update, part)
    return x


@window_add.checked(IndexRangeError, OUTSIDE)
def window_add_outside(
    x: Tensor, update: Tensor, *, start: Size, axis: Axis = 0, from_end: bool = False
) -> bool:
    """Run-time check: the window is out of bounds."""
    return (
        window_position(x.shape[axis], as_number(start), update.shape[axis], from_end)[0]
        is None
    )


@window_add.rounded
def window_add_to_rows(view: RowView, count: str) -> Op:
    """Add an update to one batch element, whose position must not be padding."""
    (x,), (update,) = view.op.inputs["x"], view.op.inputs["update"]
    axis = _row_axis_of_window(view, x)
    if axis is None:
        return view.op
    total, added_ = view.var(x), view.var(update)
    if added_.shape[axis] != 1:
        raise mixed_rows_error(view.op, f"the window has the size {added_.shape[axis]}.")
    row_numbers = emit("arange", stop=view.rows)
    is_selected = row_numbers == emit(
        "take", row_numbers, _window_positions(view, count, 1), axis=0
    )
    shape = tuple(view.rows if i == axis else 1 for i in range(total.ndim))
    inputs = {
        "condition": (emit("reshape", is_selected, shape=shape).name,),
        "x": ((total + added_).name,),
        "y": (x,),
    }
    return view.op.with_(type="where", inputs=inputs, attrs={})


@window_add.gradient
def window_add_gradient(g: Backward) -> dict[str, Var]:
    """`x` receives the cotangent, the update its window."""
    grads = {"x": g.out_grad}
    if g.wants("update"):
        attrs = {name: g.attrs[name] for name in ("start", "axis", "from_end")}
        size = g["update"].shape[axis_index(int(attrs["axis"]), g["x"].ndim, "window_add")]
        grads["update"] = emit("window", g.out_grad, size=size, **attrs)
    return grads


register_linear(window, window_add)
