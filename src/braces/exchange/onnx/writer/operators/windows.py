"""Rules of convolutions and pools.

y = conv2d(x=x, weight=w, bias=b)         y = Conv(x, w, b)
y = conv_transpose2d(x=x, weight=w)       y = ConvTranspose(x, w)
y = max_pool2d(x=x) {layout="NHWC"}       y = Transpose(MaxPool(Transpose(x)))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.node import NodeDesc, Rule
from braces.exchange.onnx.writer.operators.counterparts import is_short_float
from braces.exchange.onnx.writer.operators.normalization import transposed

CHANNELS = "N", "C"
"""The first axes of arrays in ONNX; space follows."""
NO_MORE: Mapping[str, Any] = {}


def convolution(n: NodeDesc) -> str | None:
    """A convolution."""
    kernel = _kernel_sizes(n)
    if not _is_exported(n) or kernel is None:
        return None
    dtype = n.result().dtype
    x, weight, *bias = n.promoted()
    x = transposed(n, x, _order(n, CHANNELS))
    weight = transposed(n, weight, _kernel_order(n))
    geometry = _geometry(n, kernel)
    out = widths.widened_op(
        n.g, "Conv", x, weight, *bias, dtype=dtype, group=n.attr("groups"), **geometry
    )
    return transposed(n, out, _back(_order(n, CHANNELS)))


def transposed_convolution(n: NodeDesc) -> str | None:
    """A transposed convolution with numbers as padding."""
    kernel = _kernel_sizes(n)
    if not _is_exported(n) or kernel is None or n.attr("padding") == "same":
        return None
    dtype, order = n.result().dtype, _order(n, CHANNELS)
    x, weight, *bias = n.promoted()
    extra = list(n.attr("output_padding"))
    out = widths.widened_op(
        n.g,
        "ConvTranspose",
        transposed(n, x, order),
        transposed(n, weight, _kernel_order(n)),
        *bias,
        dtype=dtype,
        group=n.attr("groups"),
        output_padding=extra * (len(kernel) // len(extra)),
        **_geometry(n, kernel),
    )
    return transposed(n, out, _back(order))


def _is_exported(n: NodeDesc) -> bool:
    """Return whether ONNX Runtime has the dtype and the sizes."""
    return is_short_float(n.result().dtype) and 0 not in n.type("x").shape


def _kernel_sizes(n: NodeDesc) -> list[int] | None:
    """Return the window of a kernel, or `None` if a size is symbolic."""
    sizes = [n.type("weight").shape[axis] for axis in _kernel_order(n)[2:]]
    known = [size for size in sizes if isinstance(size, int)]
    return known if len(known) == len(sizes) else None


def _geometry(n: NodeDesc, window: Sequence[int]) -> dict[str, Any]:
    """Return the attributes of windows."""
    rank = len(window)
    stride = n.attr("stride")
    each = {"dilations": n.attr("dilation"), "strides": window if stride is None else stride}
    numbers = {name: list(values) * (rank // len(values)) for name, values in each.items()}
    return {"kernel_shape": list(window), **numbers, **_padding(n.attr("padding"), rank)}


def _padding(padding: Any, rank: int) -> dict[str, Any]:
    """Return the attribute of a padding: first all low edges, then all high ones."""
    if isinstance(padding, str):
        return {"auto_pad": "SAME_UPPER"} if padding == "same" else {}
    numbers: list[int] = list(padding) * (2 * rank // len(padding))
    if len(padding) == rank:
        return {"pads": [*padding, *padding]}
    return {"pads": [*numbers[::2], *numbers[1::2]]}


def _order(n: NodeDesc, first: Sequence[str]) -> list[int]:
    """Return the axes of a layout in the order of ONNX."""
    layout: str = n.attr("layout")
    space = (axis for axis, letter in enumerate(layout) if letter not in first)
    return [*map(layout.index, first), *space]


def _kernel_order(n: NodeDesc) -> list[int]:
    """Return the axes of a kernel in the order of ONNX: those of `HWIO` follow its layout."""
    rank = n.type("weight").rank
    is_first = n.attr("layout")[1] == "C"
    return list(range(rank)) if is_first else [rank - 1, rank - 2, *range(rank - 2)]


def _back(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def max_pool(n: NodeDesc) -> str | None:
    """Max pooling."""
    return _pool("MaxPool", n)


def average_pool(n: NodeDesc) -> str | None:
    """Average pooling."""
    return _pool("AveragePool", n, {"count_include_pad": int(n.attr("count_include_pad"))})


def _pool(kind: str, n: NodeDesc, more: Mapping[str, Any] = NO_MORE) -> str | None:
    x, order = n.type("x"), _order(n, CHANNELS)
    if not _is_exported(n) or n.attr("ceil_mode") or not is_short_float(x.dtype):
        return None
    window: Sequence[int] = n.attr("window")
    window = list(window) * ((x.rank - 2) // len(window))
    value = transposed(n, n.input("x"), order)
    geometry = _geometry(n, window)
    out = widths.widened_op(n.g, kind, value, dtype=x.dtype, **geometry, **more)
    return transposed(n, out, _back(order))


WINDOWS: Mapping[str, Rule] = {
    **{f"conv{rank}d": convolution for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d": transposed_convolution for rank in (1, 2, 3)},
    **{f"max_pool{rank}d": max_pool for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": average_pool for rank in (1, 2, 3)},
}
