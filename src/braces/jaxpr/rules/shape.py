"""Rules of shape primitives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.builder.append import apply, emit
from braces.builder.scalar_promotion import number_of
from braces.builder.var import Var
from braces.dims import Shape, Size
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype


def broadcast(e: Equation, x: Value) -> Value:
    """A broadcast along new axes and along axes of size 1."""
    target = e.shape
    if not isinstance(x, Var) and target and _is_real(x):
        return emit("full", shape=target, value=number_of(x), dtype=e.dtype)
    var = e.lift(x)
    mapped_axes = e.params["broadcast_dimensions"]
    words = range(len(target) - var.ndim + len(mapped_axes), len(target))
    axis_sizes = dict(zip((*mapped_axes, *words), var.shape, strict=True))
    aligned_shape = tuple(axis_sizes.get(axis, 1) for axis in range(len(target)))
    return broadcast_to(reshape_to(var, aligned_shape), target)


def _is_real(x: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is one real number that is not NaN."""
    return not x.ndim and x.dtype.kind != "c" and bool(x == x)


def broadcast_to(x: Var, shape: Shape) -> Var:
    """Broadcast an array, unless it has the shape."""
    return x if x.shape == shape else emit("broadcast_to", x, shape=shape)


def reshape_to(x: Var, shape: Shape) -> Var:
    """Reshape an array, unless it has the shape."""
    return x if x.shape == shape else emit("reshape", x, shape=shape)


def reshape(e: Equation, x: Value) -> Var:
    """A reshape, after an optional transpose."""
    order, var = e.params["dimensions"], e.lift(x)
    return reshape_to(
        var if order is None else emit("transpose", var, axes=tuple(order)), e.shape
    )


def squeeze(e: Equation, x: Value) -> Var:
    """An array without some axes of size 1."""
    return reshape_to(e.lift(x), e.shape)


def transpose(e: Equation, x: Value) -> Var:
    """A transpose."""
    var, axes = e.lift(x), tuple(e.params["permutation"])
    return emit("transpose", var, axes=(*axes, *range(len(axes), var.ndim)))


def concatenate(e: Equation, *xs: Value) -> Var:
    """A concatenation."""
    return emit("concat", *map(e.lift, xs), axis=e.params["dimension"])


def stack(e: Equation, *xs: Value) -> Var:
    """A stack along a new axis."""
    return emit("stack", *map(e.lift, xs), axis=e.params["axis"])


def unstack(e: Equation, x: Value) -> tuple[Var, ...]:
    """The slices along an axis."""
    return apply("unstack", {"x": (e.lift(x),)}, {"axis": e.params["axis"]})["out"]


def tile(e: Equation, x: Value) -> Var:
    """A tile."""
    return emit("tile", e.lift(x), reps=tuple(e.params["reps"]))


def split(e: Equation, x: Value) -> tuple[Var, ...]:
    """A split into parts of given sizes."""
    attrs = {"sections": e.sizes(e.params["sizes"]), "axis": e.params["axis"]}
    return apply("split", {"x": (e.lift(x),)}, attrs)["out"]


def reverse(e: Equation, x: Value) -> Var:
    """A reversal along some axes."""
    return emit("flip", e.lift(x), axis=tuple(e.params["dimensions"]))


def static_slice(e: Equation, x: Value) -> Var:
    """A slice with known or symbolic bounds."""
    var, starts = e.lift(x), e.sizes(e.params["start_indices"])
    ends = e.sizes(e.params["limit_indices"])
    steps = e.params["strides"] or (1,) * len(starts)
    bounds = zip(starts, ends, var.shape, steps, strict=False)
    return var[tuple(slice(*_open_bounds(*bound)) for bound in bounds)]


def _open_bounds(
    start: Size, end: Size, size: Size, step: int
) -> tuple[Size | None, Size | None, int]:
    """Return the bounds of a slice, with `None` at the ends of the axis."""
    return None if start == 0 else start, None if end == size else end, step


def iota(e: Equation, *sizes: Any) -> Var:
    """A range along an axis."""
    del sizes
    target, at = e.shape, e.params["dimension"]
    line_shape = tuple(size if axis == at else 1 for axis, size in enumerate(target))
    steps = in_dtype(emit("arange", stop=target[at]), e.dtype)
    return broadcast_to(reshape_to(steps, line_shape), target)


def size(e: Equation) -> Var:
    """A symbolic size as a number."""
    (value,) = e.sizes([e.params["dim"]])
    return emit("size", value=value, dtype=e.dtype)


def unchanged(e: Equation, *values: Value) -> list[Value]:
    """The identity."""
    del e
    return [value if isinstance(value, Var) else np.asarray(value) for value in values]


def second(e: Equation, x: Value, y: Value) -> Value:
    """The second operand, which JAX keeps behind the first."""
    del e, x
    return y


def empty(e: Equation) -> Var:
    """An array whose values are not specified: zeros, as on CPUs."""
    return emit("full", shape=e.shape, value=0, dtype=e.dtype)


SHAPES: Mapping[str, Rule] = {
    "broadcast_in_dim": broadcast,
    "concatenate": concatenate,
    "copy": unchanged,
    "device_put": unchanged,
    "dim_as_value": size,
    "empty": empty,
    "empty2": empty,
    "iota": iota,
    "layout_constraint": unchanged,
    "name": unchanged,
    "optimization_barrier": unchanged,
    "reshape": reshape,
    "reshard": unchanged,
    "rev": reverse,
    "sharding_constraint": unchanged,
    "slice": static_slice,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "tie": second,
    "tile": tile,
    "transpose": transpose,
    "unstack": unstack,
}
