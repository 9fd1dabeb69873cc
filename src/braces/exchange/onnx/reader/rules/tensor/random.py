"""Rules of random operators.

Random numbers depend on the program's own state, which `Executor.init` seeds. A model's `seed`
is ignored, since ONNX does not specify the numbers of a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops, layers, random
from braces.extend.building import Var, emit
from braces.extend.types import BOOL, FLOAT32, INT32

MASKS_ARE_BOOLS = 10
"""The version in which the mask of `Dropout` became bool; before, it had the input's dtype."""
SAYS_WHETHER_IT_DROPS = 12
"""Before this version `Dropout` drops nothing, and its meaningless mask is zeros."""


def uniform(node: OnnxNode, shape: Any, dtype: Any) -> Var:
    """Uniform random numbers."""
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    return random.uniform(shape, low, high, dtype=dtype)


def normal(node: OnnxNode, shape: Any, dtype: Any) -> Var:
    """Normal random numbers."""
    return random.normal(shape, node.attr("mean", 0.0), node.attr("scale", 1.0), dtype=dtype)


def of_shape(draw: Callable[[OnnxNode, Any, Any], Var]) -> Rule:
    """Return the rule of a random operator whose shape is an attribute."""
    return lambda node: draw(node, node.attr("shape"), node.dtype_attr("dtype", FLOAT32))


def like(draw: Callable[[OnnxNode, Any, Any], Var]) -> Rule:
    """Return the rule of a random operator with the shape of an input.

    Its dtype is that of the input by default.
    """

    def rule(node: OnnxNode) -> Var:
        x = node.var(0)
        return draw(node, x.shape, node.dtype_attr("dtype", x.dtype))

    return rule


def bernoulli(node: OnnxNode) -> Var:
    """1 with the probability that the input gives, else 0."""
    x = node.var(0)
    drawn = random.uniform(x.shape, dtype=x.dtype) < x
    return cast_to_dtype(drawn, node.dtype_attr("dtype", x.dtype))


def multinomial(node: OnnxNode) -> Var:
    """Class indices, sampled by log probabilities."""
    logits, count = node.var(0), int(node.attr("sample_size", 1))
    rows, classes = logits.shape
    repeated = ops.broadcast_to(ops.expand_dims(logits, axis=1), (rows, count, classes))
    return cast_to_dtype(random.categorical(repeated), node.dtype_attr("dtype", INT32))


def dropout(node: OnnxNode) -> Any:
    """Dropout in training mode; the identity otherwise."""
    x = node.var(0)
    if node.version < SAYS_WHETHER_IT_DROPS:
        mask = ops.zeros_like(x, dtype=x.dtype if node.version < MASKS_ARE_BOOLS else BOOL)
        return (x, mask) if node.wants(1) else x
    trains, rate = _number_or_var(node, 2, default=False), _number_or_var(node, 1, default=0.5)
    if isinstance(trains, Var) or (trains and isinstance(rate, Var)):
        return _dynamic_dropout(x, rate, trains)
    if not trains or rate == 0:
        return (x, ops.ones_like(x, dtype="bool")) if node.wants(1) else x
    if not node.wants(1):
        return layers.dropout(x, rate)
    dropped_ones = layers.dropout(ops.ones_like(x), rate)
    mask = dropped_ones != 0
    return ops.where(mask, x * dropped_ones, ops.zeros_like(x)), mask


def _number_or_var(node: OnnxNode, at: int, default: Any) -> Any:
    """Return an input as a number, or as a variable if it is known at run time only."""
    if not node.has(at) or node.maybe_known(at) is not None:
        return node.number(at, "The number", default)
    return ops.reshape(node.var(at), ())


def _dynamic_dropout(x: Var, rate: Any, trains: Any) -> tuple[Var, Var]:
    """Dropout whose rate or mode is known at run time only.

    The random dropout of a scalar 1 gives 0, except in programs for tests; these then drop
    nothing of `x`.
    """
    in_test = layers.dropout(emit("full", shape=(), value=1.0, dtype=FLOAT32), 1.0)
    rate_ = ops.cast(rate, FLOAT32) if isinstance(rate, Var) else rate
    effective_rate = ops.where(trains, rate_, 0.0) * (1.0 - in_test)
    mask = random.uniform(x.shape) >= effective_rate
    scaled = x * cast_to_dtype(1 / (1 - effective_rate), x.dtype)
    return ops.where(mask, scaled, ops.zeros_like(x)), mask


DRAWS: Mapping[str, Rule] = {
    "Bernoulli": bernoulli,
    "Dropout": dropout,
    "Multinomial": multinomial,
    "RandomNormal": of_shape(normal),
    "RandomNormalLike": like(normal),
    "RandomUniform": of_shape(uniform),
    "RandomUniformLike": like(uniform),
}
