"""Rules of normalizations.

    y = layer_norm(x=x, scale=s, bias=b)      y = LayerNormalization(x, s, b) {axis=-1}
    y = group_norm(x=x) {groups=2}            InstanceNormalization of x as [n, 2, …]

`GroupNormalization` is not written: by its definition in ONNX it computes the variance as a
difference of squares, which loses all digits if the mean is large.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.node import NodeDesc, Rule
from braces.exchange.onnx.writer.operators.counterparts import is_short_float
from braces.exchange.onnx.writer.primitives.shape import add_axes, fill_type, reshape_to
from braces.extend.types import FLOAT32, DType, Shape, Size, TensorType, product

RMS_SINCE = 23
"""The operator set version that introduced `RMSNormalization`."""
RUNNING = ("running_mean", "running_var")


@dataclass(frozen=True)
class Normalization:
    """The nodes of one normalization, which computes in one dtype.

    Attributes:
        n: The operator.
        dtype: The dtype of the nodes.
    """

    n: NodeDesc
    dtype: DType

    def input(self, slot: str) -> str:
        """Return an input in the dtype of the nodes."""
        return widths.cast_value(
            self.n.g, self.n.input(slot), self.n.type(slot).dtype, self.dtype
        )

    def parameter(self, slot: str, shape: Sequence[Size]) -> str:
        """Return the scale or the shift; an absent one is 1 or 0."""
        if self.n.op.inputs.get(slot):
            return self.input(slot)
        return filled(self.n, float(slot == "scale"), TensorType(self.dtype, tuple(shape)))

    def add(self, kind: str, x: str, *parameters: str, **attrs: int) -> str:
        """Add the node of a normalization."""
        return self.n.g.op(kind, x, *parameters, epsilon=float(self.n.attr("epsilon")), **attrs)

    def result(self, value: str) -> str:
        """Return a value of the nodes in the dtype of the result."""
        return widths.cast_value(self.n.g, value, self.dtype, self.n.result().dtype)


def filled(n: NodeDesc, number: float, type_: TensorType) -> str:
    """Return an array of one number, as a constant if its sizes are known."""
    sizes = [size for size in type_.shape if isinstance(size, int)]
    if len(sizes) < type_.rank:
        return fill_type(n.g, number, type_)
    return n.g.constant(np.full(sizes, number, type_.dtype))


def is_normal(n: NodeDesc) -> bool:
    """Return whether an operator has the dtype and the sizes of ONNX's normalizations."""
    x = n.type("x")
    return is_short_float(n.result().dtype) and x.rank > 0 and 0 not in x.shape


def layer_norm(n: NodeDesc) -> str | None:
    """A layer norm over the last axes."""
    return _over_last_axes("LayerNormalization", ("scale", "bias"), n)


def rms_norm(n: NodeDesc) -> str | None:
    """An RMS norm over the last axes."""
    if n.g.model.opset < RMS_SINCE:
        return None
    return _over_last_axes("RMSNormalization", ("scale",), n)


def _over_last_axes(kind: str, slots: Sequence[str], n: NodeDesc) -> str | None:
    x, axes = n.type("x"), _axes(n)
    if not is_normal(n) or axes != list(range(x.rank - len(axes), x.rank)) or not axes:
        return None
    norm = Normalization(n, widths.computed_in(kind, n.result().dtype))
    present = [slot for slot in slots if slot == "scale" or n.op.inputs.get(slot)]
    parameters = [norm.parameter(slot, x.shape[axes[0] :]) for slot in present]
    return norm.result(norm.add(kind, norm.input("x"), *parameters, axis=-len(axes)))


def _axes(n: NodeDesc) -> list[int]:
    """Return the normalized axes in order."""
    axis, rank = n.attr("axis"), n.type("x").rank
    axes: Iterable[int] = range(rank) if axis is None else axis
    return sorted(a % rank for a in ((axes,) if isinstance(axes, int) else axes))


def group_norm(n: NodeDesc) -> str | None:
    """A norm over the space of groups of channels."""
    x, order = n.type("x"), _channels_first(n)
    if not is_normal(n):
        return None
    shape = tuple(x.shape[axis] for axis in order)
    export = _over_space if x.rank > 2 and shape[1] == n.attr("groups") else _over_groups
    return transposed(n, export(n, shape, order), _inverse(order))


def _over_space(n: NodeDesc, shape: Shape, order: Sequence[int]) -> str:
    """Normalize each channel."""
    kind = "InstanceNormalization"
    norm = Normalization(n, widths.computed_in(kind, n.result().dtype))
    parameters = [norm.parameter(slot, shape[1:2]) for slot in ("scale", "bias")]
    x = transposed(n, norm.input("x"), order)
    return norm.result(norm.add(kind, x, *parameters))


def _over_groups(n: NodeDesc, shape: Shape, order: Sequence[int]) -> str:
    """Normalize each group as one channel, then scale and shift the channels."""
    g, norm = n.g, Normalization(n, FLOAT32)
    groups: int = n.attr("groups")
    grouped_shape = shape[0], groups, product((shape[1] // groups, *shape[2:]))
    grouped = reshape_to(g, transposed(n, norm.input("x"), order), grouped_shape)
    fillings = [filled(n, number, TensorType(FLOAT32, (groups,))) for number in (1, 0)]
    out = reshape_to(g, norm.add("InstanceNormalization", grouped, *fillings), shape)
    space = list(range(1, len(shape) - 1))
    for kind, slot in (("Mul", "scale"), ("Add", "bias")):
        if n.op.inputs.get(slot):
            out = g.op(kind, out, add_axes(g, norm.input(slot), space))
    return norm.result(out)


def batch_norm(n: NodeDesc) -> list[str] | None:
    """A batch norm by running statistics, which stay as they are."""
    kind, order = "BatchNormalization", _channels_first(n)
    dtypes = {n.type(slot).dtype for slot in RUNNING}
    if n.attr("training") or not is_normal(n) or dtypes != {n.result().dtype} or not order[1:]:
        return None
    norm = Normalization(n, widths.computed_in(kind, n.result().dtype))
    channels = n.type("x").shape[order[1]]
    parameters = [norm.parameter(slot, (channels,)) for slot in ("scale", "bias")]
    x = transposed(n, norm.input("x"), order)
    out = norm.result(norm.add(kind, x, *parameters, *map(norm.input, RUNNING)))
    others = (n.g.op("Identity", n.input(slot)) for slot in RUNNING)
    return [transposed(n, out, _inverse(order)), *others]


def _channels_first(n: NodeDesc) -> list[int]:
    """Return the axes in the order of ONNX: one for the batch, channels, space."""
    rank = n.type("x").rank
    channel: int = n.attr("axis") % rank
    others = [axis for axis in range(rank) if axis != channel]
    return [*others[:1], channel, *others[1:]]


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def transposed(n: NodeDesc, value: str, order: Sequence[int]) -> str:
    """Return a value with its axes in another order."""
    if list(order) == sorted(order):
        return value
    return n.g.op("Transpose", value, perm=list(order))


NORMALIZATION: Mapping[str, Rule] = {
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}
