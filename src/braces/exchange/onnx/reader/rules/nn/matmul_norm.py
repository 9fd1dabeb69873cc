"""Rules of matrix products and normalizations."""

from __future__ import annotations

from collections.abc import Mapping

from braces.exchange.common.rules.elementwise import cast_to_dtype, scale_by
from braces.exchange.common.values.equal_sizes import unify_weight_sizes
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops
from braces.extend.building import Var, call
from braces.extend.types import product


def matmul(node: OnnxNode) -> Var:
    """A matrix product."""
    return matmul_unified(node.var(0), node.var(1))


def matmul_unified(a: Var, b: Var) -> Var:
    """Return a matrix product; the inner sizes of the operands are unified."""
    if not a.ndim or not b.ndim:
        return ops.matmul(a, b)
    inner = -2 if b.ndim > 1 else -1
    a = unify_weight_sizes(a, {-1: b.shape[inner]})
    return ops.matmul(a, unify_weight_sizes(b, {inner: a.shape[-1]}))


def gemm(node: OnnxNode) -> Var:
    """Alpha A B + beta C, with optional transposes."""
    a, b, c = node.var(0), node.var(1), node.maybe(2)
    a = ops.transpose(a) if node.flag("transA") else a
    b = ops.transpose(b) if node.flag("transB") else b
    scaled_product = scale_by(matmul_unified(a, b), node.attr("alpha", 1.0))
    return scaled_product if c is None else scaled_product + scale_by(c, node.attr("beta", 1.0))


def einsum(node: OnnxNode) -> Var:
    """An einsum."""
    equation = node.attr("equation").replace(" ", "")
    return call("einsum", *node.vars(), equation=equation)


# ---- normalisations --------------------------------------------------------------------------


SAYS_WHETHER_IT_TRAINS = 14
"""The version that introduced the training attribute of `BatchNormalization`.

Earlier versions infer the mode from the outputs.
"""
PARAMETERS_OF_CHANNELS = 21
"""The version in which the parameters of `GroupNormalization` became those of channels."""


def batch_norm(node: OnnxNode) -> tuple[Var, ...]:
    """Batch norm with given statistics, or with those of the batch."""
    x, *params = (node.var(at) for at in range(5))
    if not node.flag("spatial", default=True):
        return _normalize_features(node, x, params)
    return _normalize(node, x, params)


def _normalize_features(node: OnnxNode, x: Var, params: list[Var]) -> tuple[Var, ...]:
    """Normalize each feature separately, an option of version 7."""
    feature_shape = x.shape[1:]
    flat = ops.reshape(x, (x.shape[0], product(feature_shape)))
    out, *others = _normalize(
        node, flat, [ops.reshape(p, (product(feature_shape),)) for p in params]
    )
    return (
        ops.reshape(out, x.shape),
        *(ops.reshape(statistic, feature_shape) for statistic in others),
    )


def _normalize(node: OnnxNode, x: Var, params: list[Var]) -> tuple[Var, ...]:
    scale, shift, mean, variance = params
    x = unify_weight_sizes(x, {1: scale.shape[0]})
    infers_mode = node.version < SAYS_WHETHER_IT_TRAINS
    is_training = (
        any(map(node.wants, range(1, 5))) if infers_mode else node.flag("training_mode")
    )
    out, *running_stats = call(
        "batch_norm", x, mean, variance, scale, shift,
        training=is_training, momentum=node.attr("momentum", 0.9),
        epsilon=node.attr("epsilon", 1e-5),
    )  # fmt: skip
    reduced_axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    saved = (
        (ops.mean(x, axis=reduced_axes), ops.var(x, axis=reduced_axes))
        if infers_mode and is_training
        else ()
    )
    return (cast_to_dtype(out, x.dtype), *running_stats, *saved)


def instance_norm(node: OnnxNode) -> Var:
    """Instance norm."""
    x, scale, shift = node.vars()
    x, epsilon = unify_weight_sizes(x, {1: scale.shape[0]}), node.attr("epsilon", 1e-5)
    return call("group_norm", x, scale, shift, groups=x.shape[1], epsilon=epsilon)


def group_norm(node: OnnxNode) -> Var:
    """Group norm; before version 21 scale and shift are those of groups."""
    x, scale, shift = node.vars()
    groups = int(node.attr("num_groups"))
    if node.version < PARAMETERS_OF_CHANNELS:
        scale, shift = (ops.repeat(p, x.shape[1] // groups, axis=0) for p in (scale, shift))
    x, epsilon = unify_weight_sizes(x, {1: scale.shape[0]}), node.attr("epsilon", 1e-5)
    return call("group_norm", x, scale, shift, groups=groups, epsilon=epsilon)


def layer_norm(node: OnnxNode) -> Var | tuple[Var, ...]:
    """Layer norm over the last axes."""
    x, scale, shift, epsilon = (
        node.var(0),
        node.var(1),
        node.maybe(2),
        node.attr("epsilon", 1e-5),
    )
    axes = tuple(range(node.axis("axis", -1, x.ndim), x.ndim))
    x = unify_weight_sizes(x, dict(zip(axes[::-1], scale.shape[::-1], strict=False)))
    out = call("layer_norm", x, scale, shift, axis=axes, epsilon=epsilon)
    if not node.wants(1) and not node.wants(2):
        return out
    as_float32 = ops.cast(x, "float32")
    mean = ops.mean(as_float32, axis=axes, keepdims=True)
    variance = ops.var(as_float32, axis=axes, keepdims=True)
    return out, mean, ops.rsqrt(variance + epsilon)


def rms_norm(node: OnnxNode) -> Var:
    """RMS norm over the last axes."""
    x, scale = node.var(0), node.var(1)
    axes = tuple(range(node.axis("axis", -1, x.ndim), x.ndim))
    x = unify_weight_sizes(x, dict(zip(axes[::-1], scale.shape[::-1], strict=False)))
    own = scale if scale.ndim == len(axes) else None
    out = call("rms_norm", x, own, axis=axes, epsilon=node.attr("epsilon", 1e-5))
    return out if own is not None else out * scale


def lp_norm(node: OnnxNode) -> Var:
    """L1 or L2 normalization; 0 where the norm is 0."""
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
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "LpNormalization": lp_norm,
    "MatMul": matmul,
    "RMSNormalization": rms_norm,
}
