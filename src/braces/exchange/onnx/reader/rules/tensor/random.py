"""Rules of operators that draw random numbers.

Draws follow from the program's own state, which `Executor.init` seeds: a model's `seed` is not
read, since ONNX does not say which numbers a seed gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.builder.append import one
from braces.builder.var import Var
from braces.dtypes import BOOL, FLOAT32, INT32
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.frontend import random
from braces.frontend.core import functions as ops

MASKS_ARE_BOOLS = 10
"""Since this version what `Dropout` kept is of bools, and of the dtype of its input before."""
SAYS_WHETHER_IT_DROPS = 12
"""Before this version it drops nothing, and its mask, which means nothing, is zeros."""


def uniform(node: Node, shape: Any, dtype: Any) -> Var:
    """Numbers that are equally likely everywhere between two."""
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    return random.uniform(shape, low, high, dtype=dtype)


def normal(node: Node, shape: Any, dtype: Any) -> Var:
    """Normally distributed numbers."""
    return random.normal(shape, node.attr("mean", 0.0), node.attr("scale", 1.0), dtype=dtype)


def of_shape(draw: Callable[[Node, Any, Any], Var]) -> Rule:
    """The rule of a draw whose shape is an attribute."""
    return lambda node: draw(node, node.attr("shape"), node.dtype_attr("dtype", FLOAT32))


def like(draw: Callable[[Node, Any, Any], Var]) -> Rule:
    """The rule of a draw in the shape of an input, and in its dtype where none is said."""

    def drawn(node: Node) -> Var:
        x = node.var(0)
        return draw(node, x.shape, node.dtype_attr("dtype", x.dtype))

    return drawn


def bernoulli(node: Node) -> Var:
    """1 with a probability that an input tells, else 0."""
    x = node.var(0)
    drawn = random.uniform(x.shape, dtype=x.dtype) < x
    return in_dtype(drawn, node.dtype_attr("dtype", x.dtype))


def multinomial(node: Node) -> Var:
    """Class numbers, each with a probability whose logarithm an input tells."""
    logits, count = node.var(0), int(node.attr("sample_size", 1))
    rows, classes = logits.shape
    many = ops.broadcast_to(ops.expand_dims(logits, axis=1), (rows, count, classes))
    return in_dtype(random.categorical(many), node.dtype_attr("dtype", INT32))


def dropout(node: Node) -> Any:
    """Dropout where the model says that it trains; the array itself where it does not."""
    x = node.var(0)
    if node.version < SAYS_WHETHER_IT_DROPS:
        mask = ops.zeros_like(x, dtype=x.dtype if node.version < MASKS_ARE_BOOLS else BOOL)
        return (x, mask) if node.wants(1) else x
    trains, rate = _said(node, 2, default=False), _said(node, 1, default=0.5)
    if isinstance(trains, Var) or (trains and isinstance(rate, Var)):
        return _as_told(x, rate, trains)
    if not trains or rate == 0:
        return (x, ops.ones_like(x, dtype="bool")) if node.wants(1) else x
    if not node.wants(1):
        return random.dropout(x, rate)
    kept = random.dropout(ops.ones_like(x), rate)
    mask = kept != 0
    return ops.where(mask, x * kept, ops.zeros_like(x)), mask


def _said(node: Node, at: int, default: Any) -> Any:
    """A number, or the variable that holds it where only a run tells."""
    if not node.has(at) or node.maybe_known(at) is not None:
        return node.number(at, "The number", default)
    return ops.reshape(node.var(at), ())


def _as_told(x: Var, rate: Any, trains: Any) -> tuple[Var, Var]:
    """Dropout where a run tells how much of it there is, or whether there is any.

    Of one number all is dropped, but not in programs for tests, which so drop nothing of `x`.
    """
    tests = random.dropout(one("full", shape=(), value=1.0, dtype=FLOAT32), 1.0)
    told = ops.cast(rate, FLOAT32) if isinstance(rate, Var) else rate
    wide = ops.where(trains, told, 0.0) * (1.0 - tests)
    mask = random.uniform(x.shape) >= wide
    scaled = x * in_dtype(1 / (1 - wide), x.dtype)
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
