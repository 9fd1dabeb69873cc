"""Constant folding of Paddle operators at import time: sizes, and values computed from them.

    shape -> slice -> elementwise_mul -> reshape2

Only the last becomes an operator of ours. The others are arithmetic of numbers and symbolic
sizes, on small arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import prod
from typing import Any, TypeAlias

import numpy as np

from braces.errors import BracesError
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constant_folding import (
    as_typed_array,
    numeric_range,
    vectorize_arithmetic,
    vectorize_comparison,
)
from braces.exchange.common.values.constants import MOST_ELEMENTS, Array, Constant
from braces.exchange.common.values.symbolic_arithmetic import NotConstant, Number
from braces.exchange.paddle.graph.environment import Held
from braces.exchange.paddle.graph.node import PaddleOp, Results
from braces.extend.types import FLOAT32, INT64, Dim

Fold: TypeAlias = "Callable[[PaddleOp], Array | Constant | list[Constant]]"
"""Maps an operator to an array of the dtype of its first input, or to values with dtypes."""


def fold_operator(node: PaddleOp, inputs: Sequence[Held]) -> Results:
    """Return the results of an operator if its inputs are known, else nothing."""
    rule = FOLDS.get(node.type)
    if rule is None:
        return None
    for value in inputs:
        if not isinstance(value, Constant) or value.weight or not value.small:
            return None
    try:
        with np.errstate(all="ignore"):
            folded = rule(node)
    except (BracesError, NotConstant, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # the operator itself reports the error when it is built
    if isinstance(folded, list):
        return {node.main: folded}
    return folded if isinstance(folded, Constant) else _as_known(folded, _first(node))


def _first(node: PaddleOp) -> Constant:
    """Return the first input, which determines the dtype of the result."""
    for slot in ("X", "Input", "Start"):
        value = node.known_value(slot)
        if value is not None:
            return value
    raise NotConstant


def _as_known(array: Array, like: Constant) -> Constant:
    return Constant(as_typed_array(np.asarray(array), like.dtype), like.dtype)


def _array(node: PaddleOp, slot: str) -> Array:
    value = node.known_value(slot)
    if value is None:
        raise NotConstant
    return value.array


def _check_small(shape: Sequence[Any]) -> list[int]:
    """Check that a shape consists of numbers and is small."""
    if sizes.symbolic(*shape) or prod(shape) > MOST_ELEMENTS or min([0, *shape]) < 0:
        raise NotConstant
    return [int(n) for n in shape]


# ---- elementwise -----------------------------------------------------------------------------


def align_operand(y: Array, rank: int, axis: int) -> Array:
    """Align the second operand with an axis of the first, by axes of size 1 behind it."""
    at = rank - y.ndim if axis == -1 else axis
    return y.reshape([*y.shape, *[1] * max(rank - at - y.ndim, 0)])


def _binary(compute: Callable[[Number, Number], Number]) -> Fold:
    def fold_node(node: PaddleOp) -> Array:
        x, y = _array(node, "X"), _array(node, "Y")
        return vectorize_arithmetic(compute)(x, align_operand(y, x.ndim, node.attr("axis", -1)))

    return fold_node


def _comparison(compute: Callable[..., bool]) -> Fold:
    return lambda node: vectorize_comparison(compute)(
        *(_array(node, slot) for slot in ("X", "Y") if node.has(slot))
    )


def _size_quotient(x: Number, y: Number) -> Number:
    return (
        sizes.truncated_quotient(x, y)
        if sizes.symbolic(x, y) or isinstance(x, float)
        else x // y
    )


def _scale(node: PaddleOp) -> Array:
    factor, bias = node.number("scale", "ScaleTensor", 1.0), node.attr("bias", 0.0)
    bias_after_scale, x = node.attr("bias_after_scale", True), _array(node, "X")
    whole = x.dtype.kind != "f"

    def scaled(item: Number) -> Number:
        a, b = (sizes.as_integer(float(v)) if whole else float(v) for v in (factor, bias))
        if bias_after_scale:
            return sizes.plus(sizes.times(item, a), b)
        return sizes.times(sizes.plus(item, b), a)

    return vectorize_arithmetic(scaled)(x)


def _cast(node: PaddleOp) -> Constant:
    dtype, x = node.dtype("out_dtype"), _array(node, "X")
    if sizes.symbolic(*x.flat):
        return Constant(x, dtype)
    return Constant(np.asarray(x.tolist()).astype(dtype).reshape(x.shape), dtype)


def _increment(node: PaddleOp) -> Array:
    step = sizes.as_integer(float(node.attr("step", 1.0)))
    return vectorize_arithmetic(partial(sizes.plus, step))(_array(node, "X"))


# ---- shapes ----------------------------------------------------------------------------------


def _fill_constant(node: PaddleOp) -> Constant:
    shape = _check_small(node.sizes("shape", "ShapeTensor", "ShapeTensorList"))
    value, dtype = _value(node), node.dtype("dtype", FLOAT32)
    if isinstance(value, Dim):
        array = np.empty(shape, object)
        array[...] = value
        return Constant(array, dtype)
    return Constant(np.full(shape, value).astype(dtype), dtype)


def _value(node: PaddleOp) -> Any:
    if node.has("ValueTensor"):
        return node.number("value", "ValueTensor")
    written = node.attr("str_value", "")
    return number_written(written) if written else node.attr("value", 0.0)


def number_written(text: str) -> int | float:
    """Parse a number; integers keep all digits."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def attribute_array(node: PaddleOp) -> Constant:
    """Return the array in the attributes of an operator."""
    dtype, shape = node.dtype("dtype"), [int(n) for n in node.attr("shape")]
    names = ("values", "fp32_values", "int32_values", "int64_values", "bool_values")
    values = next((values_ for name in names if (values_ := node.many(name))), list[Any]())
    return Constant(np.asarray(values).astype(dtype).reshape(shape), dtype)


def _slice(node: PaddleOp) -> Array:
    x, axes = _array(node, "Input"), node.attr("axes")
    starts = node.sizes("starts", "StartsTensor", "StartsTensorList")
    ends = node.sizes("ends", "EndsTensor", "EndsTensorList")
    steps = node.sizes("strides", "StridesTensor", "StridesTensorList") or [1] * len(axes)
    if sizes.symbolic(*starts, *ends, *steps):
        raise NotConstant
    index: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        index[axis] = slice(start, end, step)
    part = x[tuple(index)]
    squeezed_axes = node.attr("decrease_axis") or ()
    return np.squeeze(part, tuple(squeezed_axes)) if squeezed_axes else part


def _concat(node: PaddleOp) -> Array:
    arrays = [
        value.array.astype(object) for value in node.values("X") if isinstance(value, Constant)
    ]
    return np.concatenate(arrays, axis=node.number("axis", "AxisTensor", 0))


def _stack(node: PaddleOp) -> Array:
    arrays = [
        value.array.astype(object) for value in node.values("X") if isinstance(value, Constant)
    ]
    return np.stack(arrays, axis=node.attr("axis", 0))


def _squeeze(node: PaddleOp) -> Array:
    x = _array(node, "X")
    axes = [a for a in node.attr("axes") or range(x.ndim) if x.shape[a] == 1]
    return np.squeeze(x, tuple(axes))


def _reshape(node: PaddleOp) -> Array:
    x, shape = _array(node, "X"), node.sizes("shape", "Shape", "ShapeTensor")
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


def _tile(node: PaddleOp) -> Array:
    times, x = (
        node.sizes("repeat_times", "RepeatTimes", "repeat_times_tensor"),
        _array(node, "X"),
    )
    _check_small([prod(x.shape), *times])
    return np.tile(x, _check_small(times))


def _expand(node: PaddleOp) -> Array:
    x, shape = _array(node, "X"), node.sizes("shape", "Shape", "expand_shapes_tensor")
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    return np.broadcast_to(
        x, _check_small([o if n == -1 else n for n, o in zip(shape, own, strict=True)])
    )


def _range(node: PaddleOp) -> Array:
    bounds = [_array(node, slot).ravel()[0] for slot in ("Start", "End", "Step")]
    numbers: list[Any] = [b.item() if isinstance(b, np.generic) else b for b in bounds]
    if sizes.symbolic(*numbers) or (numbers[1] - numbers[0]) / numbers[2] > MOST_ELEMENTS:
        raise NotConstant
    return numeric_range(*numbers)


def _reduction(compute: Callable[[Number, Number], Number], first: int) -> Fold:
    def fold_node(node: PaddleOp) -> Array:
        x = _array(node, "X")
        axes = node.attr("dim") or range(x.ndim)
        if not node.attr("reduce_all") and len({axis % x.ndim for axis in axes}) < x.ndim:
            raise NotConstant
        total_ = np.empty((1,) * x.ndim if node.attr("keep_dim") else (), object)
        total_[...] = reduce(compute, x.ravel().tolist(), first)
        return total_

    return fold_node


def _gather_rows(node: PaddleOp) -> Array:
    index = _array(node, "Index")
    if sizes.symbolic(*index.flat) or node.attr("axis", 0):
        raise NotConstant
    return np.take(_array(node, "X"), index.astype(INT64), axis=0)


def _unstack(node: PaddleOp) -> list[Constant]:
    value = _first(node)
    parts = np.moveaxis(value.array, node.attr("axis", 0), 0)
    return [Constant(np.asarray(part), value.dtype) for part in parts]


FOLDS: Mapping[str, Fold] = {
    **{name: _binary(compute)
       for name, compute in sizes.named("paddle", sizes.ARITHMETIC).items()},
    **{name: _comparison(compute)
       for name, compute in sizes.named("paddle", sizes.TESTS).items()},
    **dict.fromkeys(("assign", "share_data"), lambda node: _array(node, "X")),
    **dict.fromkeys(("reshape", "reshape2"), _reshape),
    **dict.fromkeys(("squeeze", "squeeze2"), _squeeze),
    **dict.fromkeys(("unsqueeze", "unsqueeze2"), lambda node: np.expand_dims(
        _array(node, "X"), tuple(node.sizes("axes", "AxesTensor", "AxesTensorList")))),
    **dict.fromkeys(("unstack", "unbind"), _unstack),
    "assign_value": attribute_array,
    "cast": _cast,
    "concat": _concat,
    "elementwise_floordiv": _binary(_size_quotient),
    "expand_v2": _expand,
    "fill_constant": _fill_constant,
    "gather": _gather_rows,
    "increment": _increment,
    "range": _range,
    "reduce_prod": _reduction(sizes.times, 1),
    "reduce_sum": _reduction(sizes.plus, 0),
    "scale": _scale,
    "slice": _slice,
    "stack": _stack,
    "strided_slice": _slice,
    "tile": _tile,
}  # fmt: skip
"""Foldable operators; one that is not here, or whose fold raises, becomes an operator."""
