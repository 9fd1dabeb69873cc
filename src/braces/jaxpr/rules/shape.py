"""Rules of primitives that give the same numbers another shape, or fill one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.builder.append import apply, one
from braces.builder.scalar_promotion import number_of
from braces.builder.var import Var
from braces.dims import Shape, Size
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype


def broadcast(e: Equation, x: Value) -> Value:
    """Copies along new axes, and along axes of size 1."""
    wanted = e.shape
    if not isinstance(x, Var) and wanted and _is_real(x):
        return one("full", shape=wanted, value=number_of(x), dtype=e.dtype)
    var = e.lift(x)
    places = e.params["broadcast_dimensions"]
    words = range(len(wanted) - var.ndim + len(places), len(wanted))
    kept = dict(zip((*places, *words), var.shape, strict=True))
    apart = tuple(kept.get(axis, 1) for axis in range(len(wanted)))
    return broadcast_to(reshaped(var, apart), wanted)


def _is_real(x: np.ndarray[Any, Any]) -> bool:
    """Whether an array is one number: real, and not NaN."""
    return not x.ndim and x.dtype.kind != "c" and bool(x == x)


def broadcast_to(x: Var, shape: Shape) -> Var:
    """Copies of an array, where its shape is another."""
    return x if x.shape == shape else one("broadcast_to", x, shape=shape)


def reshaped(x: Var, shape: Shape) -> Var:
    """The same numbers in this shape."""
    return x if x.shape == shape else one("reshape", x, shape=shape)


def reshape(e: Equation, x: Value) -> Var:
    """The same numbers in another shape, with their axes in another order before."""
    order, var = e.params["dimensions"], e.lift(x)
    return reshaped(var if order is None else one("transpose", var, axes=tuple(order)), e.shape)


def squeeze(e: Equation, x: Value) -> Var:
    """Without some axes of size 1."""
    return reshaped(e.lift(x), e.shape)


def transpose(e: Equation, x: Value) -> Var:
    """The axes in another order."""
    var, axes = e.lift(x), tuple(e.params["permutation"])
    return one("transpose", var, axes=(*axes, *range(len(axes), var.ndim)))


def concatenate(e: Equation, *xs: Value) -> Var:
    """One after the other along an axis."""
    return one("concat", *map(e.lift, xs), axis=e.params["dimension"])


def stack(e: Equation, *xs: Value) -> Var:
    """One beside the other along a new axis."""
    return one("stack", *map(e.lift, xs), axis=e.params["axis"])


def unstack(e: Equation, x: Value) -> tuple[Var, ...]:
    """Cut into all entries along an axis."""
    return apply("unstack", {"x": (e.lift(x),)}, {"axis": e.params["axis"]})["out"]


def tile(e: Equation, x: Value) -> Var:
    """An array repeated along its axes."""
    return one("tile", e.lift(x), reps=tuple(e.params["reps"]))


def split(e: Equation, x: Value) -> tuple[Var, ...]:
    """Cut into parts of these sizes."""
    attrs = {"sections": e.sizes(e.params["sizes"]), "axis": e.params["axis"]}
    return apply("split", {"x": (e.lift(x),)}, attrs)["out"]


def reverse(e: Equation, x: Value) -> Var:
    """The other way round along some axes."""
    return one("flip", e.lift(x), axis=tuple(e.params["dimensions"]))


def cut(e: Equation, x: Value) -> Var:
    """A part of an array, by bounds that are known or follow from sizes."""
    var, starts = e.lift(x), e.sizes(e.params["start_indices"])
    ends = e.sizes(e.params["limit_indices"])
    steps = e.params["strides"] or (1,) * len(starts)
    bounds = zip(starts, ends, var.shape, steps, strict=False)
    return var[tuple(slice(*_open(*bound)) for bound in bounds)]


def _open(
    start: Size, end: Size, size: Size, step: int
) -> tuple[Size | None, Size | None, int]:
    """The bounds of a slice; none where it is the end of the axis."""
    return None if start == 0 else start, None if end == size else end, step


def iota(e: Equation, *sizes: Any) -> Var:
    """Counting from 0 along an axis."""
    del sizes
    wanted, at = e.shape, e.params["dimension"]
    line = tuple(size if axis == at else 1 for axis, size in enumerate(wanted))
    counted = in_dtype(one("arange", stop=wanted[at]), e.dtype)
    return broadcast_to(reshaped(counted, line), wanted)


def size(e: Equation) -> Var:
    """A symbolic size as a number."""
    (value,) = e.sizes([e.params["dim"]])
    return one("size", value=value, dtype=e.dtype)


def unchanged(e: Equation, *values: Value) -> list[Value]:
    """The same values."""
    del e
    return [value if isinstance(value, Var) else np.asarray(value) for value in values]


SHAPES: Mapping[str, Rule] = {
    "broadcast_in_dim": broadcast,
    "concatenate": concatenate,
    "copy": unchanged,
    "device_put": unchanged,
    "dim_as_value": size,
    "iota": iota,
    "optimization_barrier": unchanged,
    "reshape": reshape,
    "rev": reverse,
    "slice": cut,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "tile": tile,
    "transpose": transpose,
    "unstack": unstack,
}
