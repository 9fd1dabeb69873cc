"""Rules of products, normalisations, convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.builder.append import call
from braces.builder.var import Var
from braces.dims import Dim
from braces.errors import ShapeError
from braces.exchange.onnx_in.node import Node, Rule
from braces.exchange.onnx_in.rules.arithmetic import in_dtype
from braces.frontend import functions as ops


def matmul(node: Node) -> Var:
    """Products of matrices."""
    return ops.matmul(node.var(0), node.var(1))


def gemm(node: Node) -> Var:
    """Alpha A B + beta C, of matrices that may be transposed."""
    a, b, c = node.var(0), node.var(1), node.maybe(2)
    a = ops.transpose(a) if node.flag("transA") else a
    b = ops.transpose(b) if node.flag("transB") else b
    made = scaled(ops.matmul(a, b), node.attr("alpha", 1.0))
    return made if c is None else made + scaled(c, node.attr("beta", 1.0))


def scaled(x: Var, factor: float) -> Var:
    """A multiple, or the array itself where that is what it is."""
    if factor == 1.0:
        return x
    return x * (
        factor if x.dtype.kind == "f" or not float(factor).is_integer() else int(factor)
    )


def einsum(node: Node) -> Var:
    """Sums of products, as letters say them."""
    equation = node.attr("equation").replace(" ", "")
    return call("einsum", *node.vars(), equation=equation)


def dropout(node: Node) -> Any:
    """The array itself: a model that was exported to run drops nothing."""
    x = node.var(0)
    if node.version >= 12 and node.number(2, "Whether it trains", 0):
        node.refuse("trains: it draws what it drops", "Export the model for inference.")
    return (x, ops.ones_like(x, dtype="bool")) if node.wants(1) else x


# ---- normalisations --------------------------------------------------------------------------


def batch_norm(node: Node) -> tuple[Var, ...]:
    """By the mean and variance of each channel, that are given or of the batch."""
    x, scale, shift, mean, variance = (node.var(at) for at in range(5))
    out, *moved = call(
        "batch_norm", x, mean, variance, scale, shift,
        training=node.flag("training_mode"), momentum=node.attr("momentum", 0.9),
        epsilon=node.attr("epsilon", 1e-5),
    )  # fmt: skip
    return (in_dtype(out, x.dtype), *moved)


def instance_norm(node: Node) -> Var:
    """Each channel of each example, by its own mean and variance."""
    x, scale, shift = node.vars()
    epsilon = node.attr("epsilon", 1e-5)
    return call("group_norm", x, scale, shift, groups=x.shape[1], epsilon=epsilon)


def layer_norm(node: Node) -> Any:
    """By mean and variance of the last axes."""
    x, scale, shift, epsilon = (
        node.var(0),
        node.var(1),
        node.maybe(2),
        node.attr("epsilon", 1e-5),
    )
    axes = tuple(range(node.axis("axis", -1, x.ndim), x.ndim))
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


# ---- windows ---------------------------------------------------------------------------------


def pads_of(
    node: Node, x: Var, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """What is added at both ends of each axis of the plane."""
    rank, mode = len(kernel), node.attr("auto_pad", "NOTSET")
    if mode == "VALID":
        return [(0, 0)] * rank
    if mode in ("NOTSET", ""):
        found = [int(v) for v in node.attr("pads") or [0] * (2 * rank)]
        return list(zip(found[:rank], found[rank:], strict=True))
    pads = list[tuple[int, int]]()
    for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        pads.append(_same_pads(size, (k - 1) * d + 1, s, upper=mode == "SAME_UPPER"))
    return pads


def _same_pads(size: Any, extent: int, stride: int, *, upper: bool) -> tuple[int, int]:
    if isinstance(size, Dim):
        if stride != 1:
            raise ShapeError("auto_pad depends on a symbolic size.", fix="Fix it: sizes=.")
        total = extent - 1
    else:
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


def conv(node: Node) -> Var:
    """A convolution over one or two axes."""
    x, w, b = node.var(0), node.var(1), node.maybe(2)
    rank = x.ndim - 2
    if rank not in (1, 2):
        node.refuse(f"over {rank} axes is not there")
    strides, dilations = ones(node, "strides", rank), ones(node, "dilations", rank)
    kernel = [int(n) for n in w.shape[2:]]
    return call(
        f"conv{rank}d", x, w, b,
        stride=strides, padding=flat(pads_of(node, x, kernel, strides, dilations)),
        dilation=dilations, groups=node.attr("group", 1),
    )  # fmt: skip


def ones(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with a number for each axis, 1 where it is left out."""
    return tuple(node.attr(name) or [1] * rank)


def flat(pads: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Both ends of each axis, one after the other."""
    return tuple(n for ends in pads for n in ends)


def pool(function: Callable[..., Var], **options: str) -> Rule:
    """The rule of a pool over one or two axes.

    Args:
        function: What computes it over two.
        options: Attributes of ours, by the name of the flag that ONNX has for them.
    """

    def pooled(node: Node) -> Var:
        x = node.var(0)
        kernel = tuple(node.attr("kernel_shape"))
        rank = len(kernel)
        strides, dilations = ones(node, "strides", rank), ones(node, "dilations", rank)
        if (
            rank not in (1, 2)
            or set(dilations) != {1}
            or node.wants(1)
            or node.flag("ceil_mode")
        ):
            node.refuse("over three axes, with holes, indices or rounded up is not there")
        pads = pads_of(node, x, kernel, strides, dilations)
        given = {ours: node.flag(theirs) for ours, theirs in options.items()}
        if rank == 1:
            x, kernel, strides = ops.expand_dims(x, axis=2), (1, *kernel), (1, *strides)
            pads = [(0, 0), *pads]
        made = function(x, window=kernel, stride=strides, padding=flat(pads), **given)
        return ops.squeeze(made, axis=2) if rank == 1 else made

    return pooled


def over_plane(function: Callable[..., Var]) -> Rule:
    """The rule of a pool over the whole plane."""

    def pooled(node: Node) -> Var:
        x = node.var(0)
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return pooled


LAYERS: Mapping[str, Rule] = {
    "AveragePool": pool(ops.avg_pool2d, count_include_pad="count_include_pad"),
    "BatchNormalization": batch_norm,
    "Conv": conv,
    "Dropout": dropout,
    "Einsum": einsum,
    "Gemm": gemm,
    "GlobalAveragePool": over_plane(ops.mean),
    "GlobalMaxPool": over_plane(ops.max),
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "LpNormalization": lp_norm,
    "MatMul": matmul,
    "MaxPool": pool(ops.max_pool2d),
}
