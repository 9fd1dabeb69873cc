"""Rules of products and normalisations."""

from __future__ import annotations

from collections.abc import Mapping

from braces.builder.append import call
from braces.builder.var import Var
from braces.dims import product
from braces.exchange.common.rules.elementwise import in_dtype, scaled
from braces.exchange.common.values.equal_sizes import as_weights
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.frontend.core import functions as ops


def matmul(node: Node) -> Var:
    """Products of matrices."""
    return multiplied(node.var(0), node.var(1))


def multiplied(a: Var, b: Var) -> Var:
    """The product of matrices, of which one may say how long the other is."""
    if not a.ndim or not b.ndim:
        return ops.matmul(a, b)
    inner = -2 if b.ndim > 1 else -1
    a = as_weights(a, {-1: b.shape[inner]})
    return ops.matmul(a, as_weights(b, {inner: a.shape[-1]}))


def gemm(node: Node) -> Var:
    """Alpha A B + beta C, of matrices that may be transposed."""
    a, b, c = node.var(0), node.var(1), node.maybe(2)
    a = ops.transpose(a) if node.flag("transA") else a
    b = ops.transpose(b) if node.flag("transB") else b
    made = scaled(multiplied(a, b), node.attr("alpha", 1.0))
    return made if c is None else made + scaled(c, node.attr("beta", 1.0))


def einsum(node: Node) -> Var:
    """Sums of products, as letters say them."""
    equation = node.attr("equation").replace(" ", "")
    return call("einsum", *node.vars(), equation=equation)


# ---- normalisations --------------------------------------------------------------------------


SAYS_WHETHER_IT_TRAINS = 14
"""Since this version `BatchNormalization` has an attribute for it; before, outputs said so."""


def batch_norm(node: Node) -> tuple[Var, ...]:
    """By the mean and variance of each channel, that are given or of the batch."""
    x, *given = (node.var(at) for at in range(5))
    if not node.flag("spatial", default=True):
        return _normed_each(node, x, given)
    return _normed(node, x, given)


def _normed_each(node: Node, x: Var, given: list[Var]) -> tuple[Var, ...]:
    """Each number of an example by those of its own place, as version 7 can ask."""
    place = x.shape[1:]
    flat = ops.reshape(x, (x.shape[0], product(place)))
    out, *others = _normed(node, flat, [ops.reshape(p, (product(place),)) for p in given])
    return (ops.reshape(out, x.shape), *(ops.reshape(one, place) for one in others))


def _normed(node: Node, x: Var, given: list[Var]) -> tuple[Var, ...]:
    scale, shift, mean, variance = given
    x = as_weights(x, {1: scale.shape[0]})
    old = node.version < SAYS_WHETHER_IT_TRAINS
    trains = any(map(node.wants, range(1, 5))) if old else node.flag("training_mode")
    out, *moved = call(
        "batch_norm", x, mean, variance, scale, shift,
        training=trains, momentum=node.attr("momentum", 0.9),
        epsilon=node.attr("epsilon", 1e-5),
    )  # fmt: skip
    others = tuple(axis for axis in range(x.ndim) if axis != 1)
    saved = (ops.mean(x, axis=others), ops.var(x, axis=others)) if old and trains else ()
    return (in_dtype(out, x.dtype), *moved, *saved)


def instance_norm(node: Node) -> Var:
    """Each channel of each example, by its own mean and variance."""
    x, scale, shift = node.vars()
    x, epsilon = as_weights(x, {1: scale.shape[0]}), node.attr("epsilon", 1e-5)
    return call("group_norm", x, scale, shift, groups=x.shape[1], epsilon=epsilon)


def layer_norm(node: Node) -> Var | tuple[Var, ...]:
    """By mean and variance of the last axes."""
    x, scale, shift, epsilon = (
        node.var(0),
        node.var(1),
        node.maybe(2),
        node.attr("epsilon", 1e-5),
    )
    axes = tuple(range(node.axis("axis", -1, x.ndim), x.ndim))
    x = as_weights(x, dict(zip(axes[::-1], scale.shape[::-1], strict=False)))
    out = call("layer_norm", x, scale, shift, axis=axes, epsilon=epsilon)
    if not node.wants(1) and not node.wants(2):
        return out
    wide = ops.cast(x, "float32")
    mean = ops.mean(wide, axis=axes, keepdims=True)
    variance = ops.var(wide, axis=axes, keepdims=True)
    return out, mean, ops.rsqrt(variance + epsilon)


def lp_norm(node: Node) -> Var:
    """By the sum of absolute values or the root of the sum of squares; 0 where that is 0."""
    x, axis = node.var(0), node.attr("axis", -1)
    if node.attr("p", 2) == 1:
        size = ops.sum(ops.abs(x), axis=axis, keepdims=True)
    else:
        size = ops.norm(x, axis=axis, keepdims=True)
    return ops.where(size == 0, ops.zeros_like(x), x / ops.where(size == 0, 1.0, size))


LAYERS: Mapping[str, Rule] = {
    "BatchNormalization": batch_norm,
    "Einsum": einsum,
    "Gemm": gemm,
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "LpNormalization": lp_norm,
    "MatMul": matmul,
}
