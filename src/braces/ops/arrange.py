"""Operators that give the same numbers another order: axes moved, reversed, shifted."""

from __future__ import annotations

from braces.builder.var import Var, one
from braces.define.axes import (
    Attrs,
    AxisMap,
    Types,
    along_axis,
    first_rank,
    mapped,
    numbered,
    tuple_of,
)
from braces.define.decorator import Axes, Tensor, op
from braces.define.inference import Context
from braces.dtypes import TensorType
from braces.errors import ShapeError
from braces.lazy import jnp
from braces.ops.linear import linear
from braces.ops.rules import Backward, axis_index, axis_indices


def moved(types: Types, attrs: Attrs) -> AxisMap:
    """The axes in their new order."""
    indices = numbered(first_rank(types))
    source, target = (
        [int(a) % len(indices) for a in tuple_of(attrs[name])] if indices else []
        for name in ("source", "destination")
    )
    order = [i for i in range(len(indices)) if i not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return mapped(types, {"x": (indices,)}, {"out": (tuple(indices[i] for i in order),)})


@op(
    axes=moved,
    cheap=True,
    examples=(
        "x=f32[2,3,4] source=0 destination=-1",
        "x=f32[b,t,3] source=(0,2) destination=(2,0)",
        "x=f64[b] source=0 destination=0",
        "x=f32[0,2] source=1 destination=0",
    ),
)
def moveaxis(x: Tensor, *, source: tuple[int, ...], destination: tuple[int, ...]) -> Tensor:
    """Some axes moved to other places; the rest keep their order.

    Axis `source[k]` of `x` is axis `destination[k]` of `out`.

    Inputs:
        x: any[*shape].

    Attributes:
        source: The axes to move; negative ones count from the end.
        destination: Where they are in the result.

    Outputs:
        out: any, the same sizes in the new order.

    Raises:
        ShapeError: There is no such axis, one is named twice, or the numbers differ.
    """
    return jnp.moveaxis(x, source, destination)


@moveaxis.infer
def infer_moveaxis(
    context: Context, x: TensorType, *, source: tuple[int, ...], destination: tuple[int, ...]
) -> TensorType:
    """The sizes in the new order."""
    if len(source) != len(destination):
        raise ShapeError(
            f"moveaxis cannot move {len(source)} axes to {len(destination)} places.",
            fix="Name one destination for each source.",
        )
    axis_indices(source, x.rank, context.type)
    axis_indices(destination, x.rank, context.type)
    moved = {d % x.rank: s % x.rank for s, d in zip(source, destination, strict=True)}
    others = iter(i for i in range(x.rank) if i not in moved.values())
    order = [moved[i] if i in moved else next(others) for i in range(x.rank)]
    return x.with_shape(tuple(x.shape[i] for i in order))


@moveaxis.gradient
def moveaxis_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent with the axes moved back."""
    source, destination = g.attrs["destination"], g.attrs["source"]
    return {"x": one("moveaxis", g.out_grad, source=source, destination=destination)}


def swapped(types: Types, attrs: Attrs) -> AxisMap:
    """Two axes in each other's place."""
    indices = numbered(first_rank(types))
    out = list(indices)
    i, j = (int(str(attrs[name])) for name in ("axis1", "axis2"))
    out[i], out[j] = out[j], out[i]
    return mapped(types, {"x": (indices,)}, {"out": (tuple(out),)})


@op(
    axes=swapped,
    cheap=True,
    examples=(
        "x=f32[2,3,4] axis1=0 axis2=-1",
        "x=f32[b,t] axis1=0 axis2=1",
        "x=f64[b,3] axis1=1 axis2=1",
        "x=f32[0,2] axis1=-1 axis2=0",
    ),
)
def swapaxes(x: Tensor, *, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged.

        out[..., j, ..., i, ...] = x[..., i, ..., j, ...]

    Inputs:
        x: any[*shape].

    Attributes:
        axis1: One axis; negative counts from the end.
        axis2: The other one.

    Outputs:
        out: any, the same sizes with two exchanged.

    Raises:
        ShapeError: There is no such axis.
    """
    return jnp.swapaxes(x, axis1, axis2)


@swapaxes.infer
def infer_swapaxes(context: Context, x: TensorType, *, axis1: int, axis2: int) -> TensorType:
    """The sizes with two exchanged."""
    shape = list(x.shape)
    i, j = (axis_index(axis, x.rank, context.type) for axis in (axis1, axis2))
    shape[i], shape[j] = shape[j], shape[i]
    return x.with_shape(tuple(shape))


@swapaxes.gradient
def swapaxes_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent with the axes exchanged again."""
    return {"x": one("swapaxes", g.out_grad, **g.attrs)}


@op(
    axes=along_axis,
    examples=(
        "x=f32[2,3]",
        "x=f32[b,4] axis=0",
        "x=f64[b,t,2] axis=(1,-1)",
        "x=f32[]",
        "x=f32[0,2] axis=0",
    ),
)
def flip(x: Tensor, *, axis: Axes = None) -> Tensor:
    """The order along axes reversed.

        out[..., i, ...] = x[..., size - 1 - i, ...]

    Inputs:
        x: any[*shape].

    Attributes:
        axis: An axis or several; all by default.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: There is no such axis, or one is named twice.
    """
    return jnp.flip(x, axis)


@flip.infer
def infer_flip(context: Context, x: TensorType, *, axis: Axes) -> TensorType:
    """The type of `x`."""
    axis_indices(axis, x.rank, context.type)
    return x


@flip.gradient
def flip_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent reversed."""
    return {"x": one("flip", g.out_grad, axis=g.attrs["axis"])}


@op(
    axes=along_axis,
    examples=(
        "x=f32[2,3] shift=1",
        "x=f32[b,4] shift=-1 axis=0",
        "x=f64[b,t] shift=(1,2) axis=(0,1)",
        "x=f32[0,2] shift=1 axis=0",
        "x=i32[5] shift=7 axis=0",
    ),
)
def roll(x: Tensor, *, shift: tuple[int, ...], axis: Axes = None) -> Tensor:
    """Shifted along axes; what leaves at one end comes in at the other.

        out[..., (i + shift) mod size, ...] = x[..., i, ...]

    Inputs:
        x: any[*shape].

    Attributes:
        shift: By how much, one for each axis or one for all; negative towards the front.
        axis: An axis or several; by default the flat array is shifted.

    Outputs:
        out: any[*shape].

    Raises:
        ShapeError: There is no such axis, or the number of shifts does not fit.
    """
    return jnp.roll(x, shift[0] if axis is None else shift, axis)


@roll.infer
def infer_roll(
    context: Context, x: TensorType, *, shift: tuple[int, ...], axis: Axes
) -> TensorType:
    """The type of `x`."""
    axes = (0,) if axis is None else (axis,) if isinstance(axis, int) else axis
    if axis is not None:
        axis_indices(axis, x.rank, context.type)
    if len(shift) not in (1, len(axes)):
        raise ShapeError(
            f"roll cannot shift {len(axes)} axes by {len(shift)} numbers.",
            fix="Give one shift for each axis, or one for all.",
        )
    return x


@roll.gradient
def roll_gradient(g: Backward) -> dict[str, Var]:
    """The cotangent shifted back."""
    back = tuple(-shift for shift in g.attrs["shift"])
    return {"x": one("roll", g.out_grad, shift=back, axis=g.attrs["axis"])}


linear(moveaxis, swapaxes, flip, roll)
