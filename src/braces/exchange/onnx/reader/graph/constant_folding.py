"""What is computed while a model is read: sizes, and what follows from them.

    Shape -> Gather -> Mul -> Concat -> Reshape

Only the last is an operator of the program; what stands before it is arithmetic of numbers and
symbolic sizes, on small arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np

from braces import dims
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import BOOL, INT64, ListType, is_float
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constant_folding import (
    asking,
    check_size,
    counted,
    each_number,
    typed,
)
from braces.exchange.common.values.constants import MOST_ELEMENTS, Array, Known, Value
from braces.exchange.common.values.symbolic_arithmetic import Number, Unknown
from braces.exchange.onnx.reader.graph.node import Node

Fold: TypeAlias = "Callable[..., Array | Known | list[Array]]"
"""From a node and the arrays of its inputs to an array, of the dtype of the first of them; or
to one for each output."""


def fold(node: Node, inputs: Sequence[Known | None]) -> tuple[Known, ...]:
    """What a node gives, where its inputs say it; else nothing."""
    rule = FOLDS.get(node.type)
    if rule is None or not all(value is None or value.small for value in inputs):
        return ()
    if node.type == "Div" and any(value and is_float(value.dtype) for value in inputs):
        rule = _of_arrays(each_number(_quotient))
    arrays = [None if value is None else value.array for value in inputs]
    try:
        with np.errstate(all="ignore"):
            made = rule(node, *arrays)
    except (Unknown, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError):
        return ()  # the operator itself says what is wrong, when it is built
    if isinstance(made, Known):
        return (made,)
    first = inputs[0]
    if first is None:
        return ()
    outputs = made if isinstance(made, list) else [made]
    return tuple(Known(typed(np.asarray(one), first.dtype), first.dtype) for one in outputs)


def shape_of(value: Value) -> tuple[Size, ...]:
    """The shape of a value.

    Raises:
        Unknown: It has none, or not yet.
    """
    if isinstance(value, Known):
        return value.array.shape
    if isinstance(value, Var) and not isinstance(value.type, ListType):
        return value.shape
    raise Unknown


# ---- number by number ------------------------------------------------------------------------


def _of_arrays(compute: Callable[..., Array | Known]) -> Fold:
    """What asks nothing else of a node than its inputs."""

    def folded(node: Node, *arrays: Array) -> Array | Known:
        del node
        return compute(*arrays)

    return folded


def _quotient(x: Number, y: Number) -> Number:
    """A quotient of floats; of sizes where it comes out even."""
    if not sizes.symbolic(x, y):
        return x / y
    even = dims.divide_exactly(sizes.whole(x), sizes.whole(y))
    if even is None:
        raise Unknown
    return even


def _in_turn(compute: Callable[[Number, Number], Number]) -> Fold:
    """A function of two, over any number of arrays."""
    return _of_arrays(each_number(lambda *values: reduce(compute, values)))


def _cast(node: Node, x: Array) -> Known:
    dtype = node.dtype_attr("to")
    if not sizes.symbolic(*x.flat):
        return Known(np.asarray(x.tolist()).astype(dtype).reshape(x.shape), dtype)
    made = each_number(sizes.nonzero)(x) if dtype == BOOL else x
    return Known(typed(np.asarray(made), dtype), dtype)


def _where(node: Node, condition: Array, x: Array, y: Array) -> Known:
    del node
    dtypes = [array.dtype for array in (x, y) if array.dtype.kind != "O"]
    dtype = dtypes[0] if dtypes else INT64
    made = np.where(condition.astype(np.bool_), x.astype(object), y.astype(object))
    return Known(typed(made, dtype), dtype)


# ---- shapes ----------------------------------------------------------------------------------


def whole_numbers(array: Array) -> list[int]:
    """The numbers of an array that is one of axes, indices or bounds.

    Raises:
        Unknown: There is a size among them.
    """
    items = array.ravel().tolist()
    if any(isinstance(item, Dim) for item in items):
        raise Unknown
    return [int(item) for item in items]


def _axes(node: Node, given: Array | None) -> tuple[int, ...] | None:
    if given is not None:
        return tuple(whole_numbers(given))
    found = node.attr("axes")
    return None if found is None else tuple(found)


def _unsqueeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, _axes(node, axes) or ())


def _squeeze(node: Node, x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, _axes(node, axes))


def _gather(node: Node, x: Array, indices: Array) -> Array:
    places = np.array(whole_numbers(indices), np.int64).reshape(indices.shape)
    check_size((*x.shape, *places.shape))
    return np.take(x, places, axis=node.attr("axis", 0))


def _concat(node: Node, *xs: Array) -> Array:
    return np.concatenate([x.astype(object) for x in xs], axis=node.attr("axis", 0))


def _sliced(x: Array, *bounds: Sequence[int]) -> Array:
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(*bounds, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def _slice(node: Node, x: Array, *bounds: Array | None) -> Array:
    given = [*bounds, None, None][:4] if node.version >= 10 else _old_bounds(node)
    starts, ends = (whole_numbers(b) for b in given[:2] if b is not None)
    axes = list(range(len(starts))) if given[2] is None else whole_numbers(given[2])
    steps = [1] * len(starts) if given[3] is None else whole_numbers(given[3])
    return _sliced(x, starts, ends, axes, steps)


def _old_bounds(node: Node) -> list[Array | None]:
    found = (node.attr(name) for name in ("starts", "ends", "axes"))
    return [*(None if v is None else np.array(v) for v in found), None]


def _split(node: Node, x: Array, parts: Array | None = None) -> list[Array]:
    axis, count = node.axis("axis", 0, x.ndim), len(node.proto.output)
    given = node.attr("split") if parts is None else whole_numbers(parts)
    if given is not None and sum(given) != x.shape[axis]:
        raise Unknown
    ends = np.cumsum(given or [-(-x.shape[axis] // count)] * count)[:-1]
    return list(np.split(x, ends.tolist(), axis))


def _reshape(node: Node, x: Array, shape: Array | None = None) -> Array:
    wanted = list(node.attr("shape")) if shape is None else whole_numbers(shape)
    if not node.flag("allowzero"):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return x.reshape(wanted)


def _expand(node: Node, x: Array, shape: Array) -> Array:
    wanted = np.broadcast_shapes(x.shape, tuple(whole_numbers(shape)))
    check_size(wanted)
    return np.broadcast_to(x, wanted)


def _tile(node: Node, x: Array, repeats: Array) -> Array:
    times_ = whole_numbers(repeats)
    check_size([n * k for n, k in zip(x.shape, times_, strict=True)])
    return np.tile(x, times_)


def _constant_of_shape(node: Node, shape: Array) -> Known:
    value = node.tensor("value") or Known.of(np.zeros(1, np.float32))
    wanted = whole_numbers(shape)
    check_size(wanted)
    return Known(np.full(wanted, value.array.ravel()[0], value.dtype), value.dtype)


def _range(node: Node, start: Array, limit: Array, delta: Array) -> Array:
    bounds = [v.item() for v in (start, limit, delta)]
    if sizes.symbolic(*bounds) or (bounds[1] - bounds[0]) / bounds[2] > MOST_ELEMENTS:
        raise Unknown
    return counted(*bounds)


def _reduce(compute: Callable[[Number, Number], Number], *first: int) -> Fold:
    """A reduction by a function of two, from a first number where nothing may be reduced."""

    def folded(node: Node, x: Array, axes: Array | None = None) -> Array:
        along = _axes(node, axes)
        if not along and node.flag("noop_with_empty_axes"):
            return x
        places = {axis % x.ndim for axis in along or range(x.ndim)}
        moved = np.moveaxis(x.astype(object), list(places), range(len(places)))
        rows = moved.reshape(-1, *moved.shape[len(places) :])
        made = np.empty(rows.shape[1:], object)
        for place in np.ndindex(made.shape):
            made[place] = reduce(compute, rows[(slice(None), *place)].tolist(), *first)
        kept = [1 if i in places else n for i, n in enumerate(x.shape)]
        return made.reshape(kept) if node.flag("keepdims", default=True) else made

    return folded


def _transpose(node: Node, x: Array) -> Array:
    return np.transpose(x, node.attr("perm"))


def _identity(node: Node, x: Array) -> Array:
    return x


FOLDS: Mapping[str, Fold] = {
    **{name: _of_arrays(each_number(compute)) for name, compute in {
        "Abs": sizes.absolute, "Add": sizes.plus, "Ceil": sizes.up, "Div": sizes.over,
        "Floor": sizes.down, "Mod": sizes.rest, "Mul": sizes.times, "Neg": sizes.negative,
        "Sub": sizes.minus,
    }.items()},
    **{name: _of_arrays(asking(compute)) for name, compute in {
        "And": sizes.both, "Equal": sizes.same, "Greater": sizes.above,
        "GreaterOrEqual": sizes.at_least, "Less": sizes.below, "LessOrEqual": sizes.at_most,
        "Not": sizes.untrue, "Or": sizes.either, "Xor": sizes.one_only,
    }.items()},
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Gather": _gather,
    "Identity": _identity,
    "Max": _in_turn(sizes.largest),
    "Min": _in_turn(sizes.smallest),
    "Range": _range,
    "ReduceMax": _reduce(sizes.largest),
    "ReduceMin": _reduce(sizes.smallest),
    "ReduceProd": _reduce(sizes.times, 1),
    "ReduceSum": _reduce(sizes.plus, 0),
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}  # fmt: skip
"""What is computed of numbers and sizes; what is not here, or raises, is an operator."""
