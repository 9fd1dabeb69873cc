"""Rules of what slides windows over arrays: convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from braces.builder.append import call
from braces.builder.var import Var
from braces.define.kinds import Padding
from braces.dims import Shape, Size
from braces.exchange.onnx_in.node import Node, Rule
from braces.frontend import functions as ops
from braces.ops.convolution_ways import reach

Ints: TypeAlias = "Sequence[int]"


def padding_of(node: Node, sizes: Sequence[Size], reaches: Ints) -> Padding:
    """What is added at both ends of each axis, as our operators take it.

    Args:
        node: The node.
        sizes: Of the axes that windows slide along.
        reaches: What windows span of each.
    """
    mode, rank = node.attr("auto_pad", "NOTSET"), len(reaches)
    if mode in ("VALID", "SAME_UPPER"):
        return "valid" if mode == "VALID" else "same"
    if mode in ("NOTSET", ""):
        found = [int(v) for v in node.attr("pads") or [0] * (2 * rank)]
        return flat(zip(found[:rank], found[rank:], strict=True))
    strides = ones(node, "strides", rank)
    return flat(map(_more_before, [node] * rank, sizes, reaches, strides))


def _more_before(node: Node, size: Size, reach: int, stride: int) -> tuple[int, int]:
    """The padding of as many windows as "same" has, of which an odd one is at the start."""
    if stride == 1:
        total = reach - 1
    elif isinstance(size, int):
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    else:
        node.refuse("has an auto_pad that follows from a symbolic size", "Fix it: sizes=.")
    return total - total // 2, total // 2


def conv(node: Node) -> Var:
    """A convolution over one, two or three axes."""
    return convolved(node, node.var(0), node.var(1), node.maybe(2))


def convolved(node: Node, x: Var, w: Var, b: Var | None) -> Var:
    """What a node that is a convolution makes of these arrays."""
    rank = rank_of(node, x)
    dilations = ones(node, "dilations", rank)
    reaches = list(map(reach, map(int, w.shape[2:]), dilations))
    return call(
        f"conv{rank}d", x, w, b,
        stride=ones(node, "strides", rank), padding=padding_of(node, x.shape[2:], reaches),
        dilation=dilations, groups=node.attr("group", 1),
    )  # fmt: skip


def conv_transpose(node: Node) -> Var:
    """A transposed convolution over one, two or three axes."""
    x, w, b = node.var(0), node.var(1), node.maybe(2)
    rank = rank_of(node, x)
    strides, dilations = ones(node, "strides", rank), ones(node, "dilations", rank)
    extra = tuple(node.attr("output_padding") or [0] * rank)
    reaches = list(map(reach, map(int, w.shape[2:]), dilations))
    pads, extra = _cut_off(node, x.shape[2:], reaches, strides, extra)
    return call(
        f"conv_transpose{rank}d", x, w, b,
        stride=strides, padding=pads, output_padding=extra, dilation=dilations,
        groups=node.attr("group", 1),
    )  # fmt: skip


def _cut_off(
    node: Node,
    sizes: Shape,
    reaches: Ints,
    strides: Sequence[int],
    extra: Sequence[int],
) -> tuple[Padding, tuple[int, ...]]:
    """What is cut off at both ends, and how much longer the result is."""
    mode, wanted = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    if wanted is None and mode in ("NOTSET", "", "VALID"):
        return padding_of(node, sizes, reaches), tuple(extra)
    if wanted is None:
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    pads, more = list[tuple[int, int]](), list[int]()
    for n, s, r, e, want in zip(sizes, strides, reaches, extra, wanted, strict=True):
        total = (n - 1) * s + r + e - want
        if not isinstance(total, int):
            node.refuse("has an output_shape beside a symbolic size", "Fix it: sizes=.")
        less, rest = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        pads.append((less, rest) if mode == "SAME_UPPER" else (rest, less))
        more.append(e + max(-total, 0))
    return flat(pads), tuple(more)


def rank_of(node: Node, x: Var) -> int:
    """How many axes windows slide along."""
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        node.refuse(f"over {rank} axes is not there")
    return rank


def ones(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """An attribute with a number for each axis, 1 where it is left out."""
    return tuple(node.attr(name) or [1] * rank)


def flat(pads: Iterable[tuple[int, int]]) -> tuple[int, ...]:
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
        pads = padding_of(node, x.shape[2:], kernel)
        given = {ours: node.flag(theirs) for ours, theirs in options.items()}
        if rank == 1:
            x, kernel, strides = ops.expand_dims(x, axis=2), (1, *kernel), (1, *strides)
            pads = pads if isinstance(pads, str) else (0, 0, *pads)
        made = function(x, window=kernel, stride=strides, padding=pads, **given)
        return ops.squeeze(made, axis=2) if rank == 1 else made

    return pooled


def over_plane(function: Callable[..., Var]) -> Rule:
    """The rule of a pool over the whole plane."""

    def pooled(node: Node) -> Var:
        x = node.var(0)
        return function(x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return pooled


WINDOWS: Mapping[str, Rule] = {
    "AveragePool": pool(ops.avg_pool2d, count_include_pad="count_include_pad"),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": over_plane(ops.mean),
    "GlobalMaxPool": over_plane(ops.max),
    "MaxPool": pool(ops.max_pool2d),
}
