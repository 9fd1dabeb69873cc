"""Constant folding of ONNX nodes at import time: sizes, and values computed from them.

    Shape -> Gather -> Mul -> Concat -> Reshape

Only the last node becomes an operator of the program. The others are arithmetic of numbers and
symbolic sizes, on small arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np

from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constant_folding import (
    as_typed_array,
    check_size,
    numeric_range,
    vectorize_arithmetic,
    vectorize_comparison,
)
from braces.exchange.common.values.constants import MOST_ELEMENTS, Array, Constant, Value
from braces.exchange.common.values.symbolic_arithmetic import NotConstant, Number
from braces.exchange.onnx.reader.graph.node import OnnxNode
from braces.extend import dims
from braces.extend.building import Var
from braces.extend.types import BOOL, INT64, Dim, ListType, Size, is_float

Fold: TypeAlias = "Callable[..., Array | Constant | list[Array]]"
"""Maps a node and the arrays of its inputs to an array, or to one array per output.

A result that is an array has the dtype of the first input.
"""


def fold_constants(node: OnnxNode, inputs: Sequence[Constant | None]) -> tuple[Constant, ...]:
    """Return the outputs of a node if its inputs are known, else nothing."""
    rule = FOLDS.get(node.type)
    if rule is None or not all(value is None or value.small for value in inputs):
        return ()
    if node.type == "Div" and any(value and is_float(value.dtype) for value in inputs):
        rule = _of_arrays(vectorize_arithmetic(_quotient))
    arrays = [None if value is None else value.array for value in inputs]
    try:
        with np.errstate(all="ignore"):
            folded = rule(node, *arrays)
    except (NotConstant, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError):
        return ()  # the operator itself reports the error when it is built
    if isinstance(folded, Constant):
        return (folded,)
    first = inputs[0]
    if first is None:
        return ()
    outputs = folded if isinstance(folded, list) else [folded]
    return tuple(
        Constant(as_typed_array(np.asarray(output), first.dtype), first.dtype)
        for output in outputs
    )


def shape_of(value: Value) -> tuple[Size, ...]:
    """Return the shape of a value.

    Raises:
        Unknown: If the value has no shape, or an unknown one.
    """
    if isinstance(value, Constant):
        return value.array.shape
    if isinstance(value, Var) and not isinstance(value.type, ListType):
        return value.shape
    raise NotConstant


# ---- elementwise -----------------------------------------------------------------------------


def _of_arrays(compute: Callable[..., Array | Constant]) -> Fold:
    """Fold a node by a function of its inputs alone."""

    def fold_node(node: OnnxNode, *arrays: Array) -> Array | Constant:
        del node
        return compute(*arrays)

    return fold_node


def _quotient(x: Number, y: Number) -> Number:
    """Return a quotient of floats; of sizes, if the division is exact."""
    if not sizes.symbolic(x, y):
        return x / y
    exact_quotient = dims.divide_exactly(sizes.as_integer(x), sizes.as_integer(y))
    if exact_quotient is None:
        raise NotConstant
    return exact_quotient


def _variadic(compute: Callable[[Number, Number], Number]) -> Fold:
    """Fold a variadic node by a binary function."""
    return _of_arrays(vectorize_arithmetic(lambda *values: reduce(compute, values)))


def _cast(node: OnnxNode, x: Array) -> Constant:
    dtype = node.dtype_attr("to")
    if not sizes.symbolic(*x.flat):
        return Constant(np.asarray(x.tolist()).astype(dtype).reshape(x.shape), dtype)
    numbers = vectorize_arithmetic(sizes.nonzero)(x) if dtype == BOOL else x
    return Constant(as_typed_array(np.asarray(numbers), dtype), dtype)


def _where(node: OnnxNode, condition: Array, x: Array, y: Array) -> Constant:
    del node
    dtypes = [array.dtype for array in (x, y) if array.dtype.kind != "O"]
    dtype = dtypes[0] if dtypes else INT64
    selected = np.where(condition.astype(np.bool_), x.astype(object), y.astype(object))
    return Constant(as_typed_array(selected, dtype), dtype)


# ---- shapes ----------------------------------------------------------------------------------


def whole_numbers(array: Array) -> list[int]:
    """Return the integers of an array of axes, indices or bounds.

    Raises:
        Unknown: If a number is a symbolic size.
    """
    items = array.ravel().tolist()
    if any(isinstance(item, Dim) for item in items):
        raise NotConstant
    return [int(item) for item in items]


def _axes(node: OnnxNode, axes_input: Array | None) -> tuple[int, ...] | None:
    if axes_input is not None:
        return tuple(whole_numbers(axes_input))
    attribute = node.attr("axes")
    return None if attribute is None else tuple(attribute)


def _unsqueeze(node: OnnxNode, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, _axes(node, axes) or ())


def _squeeze(node: OnnxNode, x: Array, axes: Array | None = None) -> Array:
    return np.squeeze(x, _axes(node, axes))


def _gather(node: OnnxNode, x: Array, indices: Array) -> Array:
    positions = np.array(whole_numbers(indices), np.int64).reshape(indices.shape)
    check_size((*x.shape, *positions.shape))
    return np.take(x, positions, axis=node.attr("axis", 0))


def _concat(node: OnnxNode, *xs: Array) -> Array:
    return np.concatenate([x.astype(object) for x in xs], axis=node.attr("axis", 0))


def _apply_slices(x: Array, *bounds: Sequence[int]) -> Array:
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(*bounds, strict=True):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def _slice(node: OnnxNode, x: Array, *bounds: Array | None) -> Array:
    operands = [*bounds, None, None][:4] if node.version >= 10 else _old_bounds(node)
    starts, ends = (whole_numbers(b) for b in operands[:2] if b is not None)
    axes = list(range(len(starts))) if operands[2] is None else whole_numbers(operands[2])
    steps = [1] * len(starts) if operands[3] is None else whole_numbers(operands[3])
    return _apply_slices(x, starts, ends, axes, steps)


def _old_bounds(node: OnnxNode) -> list[Array | None]:
    values = (node.attr(name) for name in ("starts", "ends", "axes"))
    return [*(None if v is None else np.array(v) for v in values), None]


def _split(node: OnnxNode, x: Array, parts: Array | None = None) -> list[Array]:
    axis, count = node.axis("axis", 0, x.ndim), len(node.proto.output)
    part_sizes = node.attr("split") if parts is None else whole_numbers(parts)
    if part_sizes is not None and sum(part_sizes) != x.shape[axis]:
        raise NotConstant
    ends = np.cumsum(part_sizes or [-(-x.shape[axis] // count)] * count)[:-1]
    return list(np.split(x, ends.tolist(), axis))


def _reshape(node: OnnxNode, x: Array, shape: Array | None = None) -> Array:
    new_shape = list(node.attr("shape")) if shape is None else whole_numbers(shape)
    if not node.flag("allowzero"):
        new_shape = [x.shape[i] if n == 0 else n for i, n in enumerate(new_shape)]
    return x.reshape(new_shape)


def _expand(node: OnnxNode, x: Array, shape: Array) -> Array:
    new_shape = np.broadcast_shapes(x.shape, tuple(whole_numbers(shape)))
    check_size(new_shape)
    return np.broadcast_to(x, new_shape)


def _tile(node: OnnxNode, x: Array, repeats: Array) -> Array:
    times_ = whole_numbers(repeats)
    check_size([n * k for n, k in zip(x.shape, times_, strict=True)])
    return np.tile(x, times_)


def _constant_of_shape(node: OnnxNode, shape: Array) -> Constant:
    value = node.tensor("value") or Constant.of(np.zeros(1, np.float32))
    dims_ = whole_numbers(shape)
    check_size(dims_)
    return Constant(np.full(dims_, value.array.ravel()[0], value.dtype), value.dtype)


def _range(node: OnnxNode, start: Array, limit: Array, delta: Array) -> Array:
    bounds = [v.item() for v in (start, limit, delta)]
    if sizes.symbolic(*bounds) or (bounds[1] - bounds[0]) / bounds[2] > MOST_ELEMENTS:
        raise NotConstant
    return numeric_range(*bounds)


def _reduce(compute: Callable[[Number, Number], Number], *first: int) -> Fold:
    """Fold a reduction by a binary function, with an initial value if the axis may be empty."""

    def fold_node(node: OnnxNode, x: Array, axes: Array | None = None) -> Array:
        along = _axes(node, axes)
        if not along and node.flag("noop_with_empty_axes"):
            return x
        reduced_axes = {axis % x.ndim for axis in along or range(x.ndim)}
        reordered = np.moveaxis(x.astype(object), list(reduced_axes), range(len(reduced_axes)))
        rows = reordered.reshape(-1, *reordered.shape[len(reduced_axes) :])
        totals = np.empty(rows.shape[1:], object)
        for index in np.ndindex(totals.shape):
            totals[index] = reduce(compute, rows[(slice(None), *index)].tolist(), *first)
        kept_shape = [1 if i in reduced_axes else n for i, n in enumerate(x.shape)]
        return totals.reshape(kept_shape) if node.flag("keepdims", default=True) else totals

    return fold_node


def _transpose(node: OnnxNode, x: Array) -> Array:
    return np.transpose(x, node.attr("perm"))


def _identity(node: OnnxNode, x: Array) -> Array:
    return x


FOLDS: Mapping[str, Fold] = {
    **{name: _of_arrays(vectorize_arithmetic(compute)) for name, compute in {
        "Abs": sizes.absolute, "Ceil": sizes.up, "Floor": sizes.down, "Neg": sizes.negative,
        **sizes.named("onnx", sizes.ARITHMETIC),
    }.items()},
    **{name: _of_arrays(vectorize_comparison(compute))
       for name, compute in sizes.named("onnx", sizes.TESTS).items()},
    "Cast": _cast,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Gather": _gather,
    "Identity": _identity,
    "Max": _variadic(sizes.largest),
    "Min": _variadic(sizes.smallest),
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
"""Foldable operators; one that is not here, or whose fold raises, becomes an operator."""
