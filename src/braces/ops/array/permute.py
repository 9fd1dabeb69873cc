"""Permutations of axes and elements: moveaxis, swapaxes, flip, roll."""

from __future__ import annotations

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    first_rank,
    make_axis_map,
    normalize_axes,
    normalize_axis,
    numbered_indices,
    require_tuple,
)
from braces.define.axes.axis_rules import mix_along_axis
from braces.define.decorator import Axes, Axis, Tensor, op
from braces.ir.records import Op
from braces.lazy import jnp
from braces.ops.common.linear_jvp import register_linear
from braces.ops.common.row_semantics import RowView, mixed_rows_error
from braces.ops.common.rules import Backward, first_dtype


def moveaxis_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of moveaxis: the axes in their new order."""
    indices = numbered_indices(first_rank(types))
    source, target = (require_tuple(attrs[name]) for name in ("source", "destination"))
    if len(source) != len(target):
        raise AxisError(
            f"`source` has {len(source)} axes, `destination` has {len(target)}.",
            fix="Pass one destination for each source axis.",
        )
    source, target = (_normalize_axes(axes, len(indices)) for axes in (source, target))
    order = [i for i in range(len(indices)) if i not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return make_axis_map(types, {"x": (indices,)}, {"out": (tuple(indices[i] for i in order),)})


def _normalize_axes(axes: tuple[int, ...], rank: int) -> list[int]:
    """Return distinct axes as non-negative numbers, in the given order."""
    normalize_axes(axes, rank)
    return [normalize_axis(axis, rank) for axis in axes]


@op(
    axes=moveaxis_axis_map,
    dtypes=first_dtype,
    cheap=True,
    changes_only="axes",
    examples=(
        "x=f32[2,3,4] source=0 destination=-1",
        "x=f32[b,t,3] source=(0,2) destination=(2,0)",
        "x=f64[b] source=0 destination=0",
        "x=f32[0,2] source=1 destination=0",
    ),
)
def moveaxis(x: Tensor, *, source: tuple[Axis, ...], destination: tuple[Axis, ...]) -> Tensor:
    """Move axes to other positions; the other axes keep their order.

    Axis `source[k]` of `x` is axis `destination[k]` of `out`.

    Inputs:
        x: any[*shape].

    Attributes:
        source: The axes to move; negative ones count from the end.
        destination: Their positions in the result.

    Outputs:
        out: any, the same sizes in the new order.

    Raises:
        ShapeError: If an axis is out of range or duplicate, or the numbers of axes differ.
    """
    return jnp.moveaxis(x, source, destination)


@moveaxis.gradient
def moveaxis_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent with the axes moved back."""
    source, destination = g.attrs["destination"], g.attrs["source"]
    return {"x": emit("moveaxis", g.out_grad, source=source, destination=destination)}


def swapaxes_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of swapaxes: two axes exchanged."""
    indices = numbered_indices(first_rank(types))
    out = list(indices)
    i, j = (normalize_axis(attrs[name], len(indices)) for name in ("axis1", "axis2"))
    out[i], out[j] = out[j], out[i]
    return make_axis_map(types, {"x": (indices,)}, {"out": (tuple(out),)})


@op(
    axes=swapaxes_axis_map,
    dtypes=first_dtype,
    cheap=True,
    changes_only="axes",
    examples=(
        "x=f32[2,3,4] axis1=0 axis2=-1",
        "x=f32[b,t] axis1=0 axis2=1",
        "x=f64[b,3] axis1=1 axis2=1",
        "x=f32[0,2] axis1=-1 axis2=0",
    ),
)
def swapaxes(x: Tensor, *, axis1: Axis, axis2: Axis) -> Tensor:
    """Exchange two axes.

        out[..., j, ..., i, ...] = x[..., i, ..., j, ...]

    Inputs:
        x: any[*shape].

    Attributes:
        axis1: One axis; negative counts from the end.
        axis2: The other one.

    Outputs:
        out: any, the same sizes with two exchanged.

    Raises:
        ShapeError: If an axis is out of range.
    """
    return jnp.swapaxes(x, axis1, axis2)


swapaxes.gradient(lambda g: {"x": emit("swapaxes", g.out_grad, **g.attrs)})


@op(
    axes=mix_along_axis,
    dtypes=first_dtype,
    operations=0,
    examples=(
        "x=f32[2,3]",
        "x=f32[b,4] axis=0",
        "x=f64[b,t,2] axis=(1,-1)",
        "x=f32[]",
        "x=f32[0,2] axis=0",
    ),
)
def flip(x: Tensor, *, axis: Axes = None) -> Tensor:
    """Reverse the order of elements along axes.

        out[..., i, ...] = x[..., size - 1 - i, ...]

    Attributes:
        axis: An axis or several; all by default.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: If an axis is out of range or duplicate.
    """
    return jnp.flip(x, axis)


@flip.rounded
def flip_of_rows(view: RowView, count: str) -> Op:
    """Reverse the batch elements; padding stays at the end."""
    (x,) = view.op.inputs["x"]
    rows, value = view.axis("x"), view.var(x)
    flipped = normalize_axes(view.op.attrs["axis"], value.ndim)
    if rows not in flipped:
        return view.op
    others = tuple(axis for axis in flipped if axis != rows)
    value = emit("flip", value, axis=others) if others else value
    last = view.var(count) - 1
    return build_take(
        view, value, emit("maximum", last - emit("arange", stop=view.rows), 0), rows
    )


flip.gradient(lambda g: {"x": emit("flip", g.out_grad, axis=g.attrs["axis"])})


def roll_axis_map(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of roll: elements move along the axes; one shift, or one for each axis."""
    axis, shifts = attrs["axis"], len(require_tuple(attrs["shift"]))
    axes = len(axis) if isinstance(axis, tuple) else 1
    axis_map = mix_along_axis(types, attrs)
    if shifts not in (1, axes):
        raise AxisError(
            f"`shift` has {shifts} entries for {axes} axes.",
            fix="Pass one shift for each axis, or one for all.",
        )
    return axis_map


@op(
    axes=roll_axis_map,
    dtypes=first_dtype,
    operations=0,
    examples=(
        "x=f32[2,3] shift=1",
        "x=f32[b,4] shift=-1 axis=0",
        "x=f64[b,t] shift=(1,2) axis=(0,1)",
        "x=f32[0,2] shift=1 axis=0",
        "x=i32[5] shift=7 axis=0",
    ),
)
def roll(x: Tensor, *, shift: tuple[int, ...], axis: Axes | None = None) -> Tensor:
    """Shift elements cyclically along axes.

        out[..., (i + shift) mod size, ...] = x[..., i, ...]

    Attributes:
        shift: The shift, one for each axis or one for all; negative towards the front.
        axis: An axis or several; by default the flattened array is shifted.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: If an axis is out of range, or the number of shifts differs from the number
            of axes.
    """
    return jnp.roll(x, shift[0] if axis is None else shift, axis)


@roll.rounded
def roll_of_rows(view: RowView, count: str) -> Op:
    """Shift the batch elements cyclically; padding stays at the end."""
    (x,) = view.op.inputs["x"]
    rows, value, axis = view.axis("x"), view.var(x), view.op.attrs["axis"]
    axes = normalize_axes(axis, value.ndim)
    if rows not in axes:
        return view.op
    if len(axes) > 1:
        raise mixed_rows_error(view.op, "it shifts elements along several axes.")
    (shift,) = require_tuple(view.op.attrs["shift"])
    places = emit("remainder", emit("arange", stop=view.rows) - int(shift), view.var(count))
    return build_take(view, value, places, rows)


def build_take(view: RowView, x: Var, places: Var, axis: int) -> Op:
    """Build a take that replaces the operator of a row view."""
    inputs = {"x": (x.name,), "indices": (places.name,)}
    return view.op.with_(type="take", inputs=inputs, attrs={"axis": axis})


@roll.gradient
def roll_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent shifted back."""
    back = tuple(-shift for shift in g.attrs["shift"])
    return {"x": emit("roll", g.out_grad, shift=back, axis=g.attrs["axis"])}


register_linear(moveaxis, swapaxes, flip, roll)
