"""Rules of array creation and random operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.reshape_slice_pad import build_range, fill_shape
from braces.exchange.common.values.constants import Constant
from braces.exchange.paddle.graph.constant_folding import attribute_array, number_written
from braces.exchange.paddle.graph.environment import Value
from braces.exchange.paddle.graph.node import PaddleOp, Rule
from braces.extend import data_dependent, functions as ops, layers, random
from braces.extend.building import Var, emit
from braces.extend.programs import Literal
from braces.extend.types import FLOAT32, INT64, Dim, Size


def _value(node: PaddleOp) -> Any:
    text = node.attr("str_value", "")
    return number_written(text) if text else node.attr("value", 0.0)


def fill_constant(node: PaddleOp) -> Var:
    """An array filled with one number."""
    shape = node.sizes("shape", "ShapeTensor", "ShapeTensorList")
    dtype = node.dtype("dtype", FLOAT32)
    if node.has("ValueTensor"):
        value = cast_to_dtype(ops.reshape(node.var("ValueTensor"), ()), dtype)
        return ops.broadcast_to(value, tuple(shape))
    return fill_shape(shape, _value(node), dtype)


def fill_like_batch(node: PaddleOp) -> Var:
    """A filled array with one size from another array."""
    shape: list[Size] = [int(n) for n in node.attr("shape")]
    input_shape = node.shape("Input")
    shape[node.attr("output_dim_idx", 0)] = input_shape[node.attr("input_dim_idx", 0)]
    return fill_shape(shape, _value(node), node.dtype("dtype", FLOAT32))


def fill_like(node: PaddleOp) -> Var:
    """A filled array in the shape of another one."""
    x = node.var("X")
    return fill_shape(x.shape, node.attr("value", 0.0), node.dtype("dtype", x.dtype))


def assign(node: PaddleOp) -> Value:
    """The identity."""
    return node.value("X")


def assign_value(node: PaddleOp) -> Constant:
    """The array in the attributes of the operator."""
    return attribute_array(node)


def range_(node: PaddleOp) -> Var:
    """A range."""
    bounds = [_item(node, slot) for slot in ("Start", "End", "Step")]
    dtype = _dtype(node)
    if any(isinstance(bound, Var) for bound in bounds):
        return _dynamic_range(bounds, dtype)
    return build_range(node, bounds, dtype)


def _dtype(node: PaddleOp) -> Any:
    start = node.value("Start")
    return start.dtype if isinstance(start, Constant) else node.var("Start").dtype


def _item(node: PaddleOp, slot: str) -> Any:
    known = node.known_value(slot)
    return ops.reshape(node.var(slot), ()) if known is None else known.items()[0]


def _var(value: Any, dtype: Any) -> Var:
    if isinstance(value, Dim):
        return cast_to_dtype(emit("size", value=value, dtype=INT64), dtype)
    if isinstance(value, Var):
        return cast_to_dtype(value, dtype)
    return emit("constant", value=Literal.of(np.asarray(value, dtype)))


def _dynamic_range(bounds: list[Any], dtype: Any) -> Var:
    """Return a range of data-dependent length."""
    start, stop, step = (_var(bound, dtype) for bound in bounds)
    count = ops.maximum(ops.cast(-((start - stop) // step), INT64), 0)
    steps = cast_to_dtype(emit("arange", stop=data_dependent.as_size(count)), dtype)
    return steps * step + start


def linspace(node: PaddleOp) -> Var:
    """Evenly spaced numbers."""
    start, stop = (node.number("", slot) for slot in ("Start", "Stop"))
    count = int(node.number("", "Num"))
    return ops.linspace(
        float(start), float(stop), num=count, dtype=node.dtype("dtype", FLOAT32)
    )


def eye(node: PaddleOp) -> Var:
    """Ones on a diagonal."""
    rows, columns = node.attr("num_rows"), node.attr("num_columns", -1)
    dtype = node.dtype("dtype", FLOAT32)
    return ops.eye(rows, rows if columns == -1 else columns, dtype=dtype)


def one_hot(node: PaddleOp) -> Var:
    """One-hot encoding; in the old form, indices have a trailing axis of size 1."""
    ids = node.var("X")
    depth = int(node.number("depth", "depth_tensor"))
    if node.type == "one_hot":
        ids = ops.squeeze(ids, axis=ids.ndim - 1)
    return ops.one_hot(ids, depth, dtype=node.dtype("dtype", FLOAT32))


def dropout(node: PaddleOp) -> Var:
    """Dropout; the old form scales at inference instead of in training."""
    x, rate = node.var("X"), float(node.attr("dropout_prob", 0.5))
    old = node.attr("dropout_implementation", "downgrade_in_infer") == "downgrade_in_infer"
    if node.attr("is_test", False):
        return x * (1.0 - rate) if old and rate else x
    dropped = layers.dropout(x, rate) if rate else x
    return dropped * (1.0 - rate) if old and rate else dropped


def random_rule(draw: Callable[..., Var], *names: str) -> Rule:
    """Return the rule of a random operator."""

    def rule(node: PaddleOp) -> Var:
        shape = node.sizes("shape", "ShapeTensor", "ShapeTensorList")
        first, second = (
            node.attr(name, default) for name, default in zip(names, (0.0, 1.0), strict=True)
        )
        samples = draw(tuple(shape), dtype=node.dtype("dtype", FLOAT32))
        factor = second - first if names[0] == "min" else second
        return samples * factor + first

    return rule


MAKING: Mapping[str, Rule] = {
    "assign": assign,
    "assign_value": assign_value,
    "dropout": dropout,
    "eye": eye,
    "fill_any_like": fill_like,
    "fill_constant": fill_constant,
    "fill_constant_batch_size_like": fill_like_batch,
    "fill_zeros_like": fill_like,
    "gaussian_random": random_rule(random.normal, "mean", "std"),
    "linspace": linspace,
    "one_hot": one_hot,
    "one_hot_v2": one_hot,
    "range": range_,
    "share_data": assign,
    "uniform_random": random_rule(random.uniform, "min", "max"),
}
