"""Rules of Fourier transforms and what is made of signals; complex numbers are pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces import dims
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import FLOAT32, FLOAT64
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.values.constants import Array, Known
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.frontend.core import functions as ops

LENGTH, AXIS_IS_INPUT = "The length of a transform", 20
"""What messages call a length; the version of `DFT` in which the axis has become an input."""


def numbers_of(node: Node, x: Var) -> Var:
    """An array whose last axis holds real numbers, or real and imaginary parts."""
    if x.shape[-1] not in (1, 2):
        node.refuse(f"needs 1 or 2 numbers along the last axis, not {x.shape[-1]}")
    real = x[..., 0]
    return real if x.shape[-1] == 1 else ops.complex(real, x[..., 1])


def pairs_of(x: Var) -> Var:
    """Complex numbers as pairs along a new last axis."""
    return ops.stack([ops.real(x), ops.imag(x)], axis=-1)


def size_of(node: Node, at: int, what: str) -> Size | None:
    """An input that is one size, where it is given."""
    given = node.ints(at, what)
    return given[0] if given else None


def transform_axis(node: Node, rank: int) -> int:
    """The axis of a transform, among `rank`, the last of which holds the parts of numbers."""
    old = node.version < AXIS_IS_INPUT
    axis = int(node.attr("axis", 1) if old else node.number(2, "The axis", -2))
    if not -rank <= axis < rank or axis % rank == rank - 1:
        node.refuse(f"has the axis {axis} of an array with {rank}")
    return axis % rank


def dft(node: Node) -> Var:
    """A Fourier transform or its inverse, of all frequencies or of those not negative.

    ONNX's own values are those of 64 bits, rounded once, but for inverses those of the dtype.
    """
    x = node.var(0)
    axis, n = transform_axis(node, x.ndim), size_of(node, 1, LENGTH)
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    given = numbers_of(node, x if inverse else in_dtype(x, FLOAT64))
    if inverse and onesided:
        return in_dtype(ops.expand_dims(ops.irfft(given, n=n, axis=axis), axis=-1), x.dtype)
    if inverse:
        return in_dtype(pairs_of(ops.ifft(given, n=n, axis=axis)), x.dtype)
    return in_dtype(pairs_of(frequencies(given, n, axis, onesided=onesided)), x.dtype)


def frequencies(x: Var, n: Size | None, axis: int, *, onesided: bool) -> Var:
    """A transform along an axis, of complex numbers too."""
    if onesided and x.dtype.kind != "c":
        return ops.rfft(x, n=n, axis=axis)
    made = ops.fft(x, n=n, axis=axis)
    if not onesided:
        return made
    half: Any = dims.call("floordiv", made.shape[axis], 2) + 1
    return made[(slice(None),) * axis + (slice(None, half),)]


def stft(node: Node) -> Var:
    """Transforms of pieces of a signal, each weighted by a window."""
    x, window = node.var(0), node.maybe(2)
    step, length = node.number(1, "The step"), size_of(node, 3, "The length of a frame")
    if length is None:
        length = x.shape[1] if window is None else window.shape[0]
    if not isinstance(length, int):
        node.refuse(f"has frames of a symbolic length {length}", "Fix it: sizes=.")
    pieces = ops.frame(numbers_of(node, x), length=length, step=int(step), axis=1)
    if window is not None:
        pieces = pieces * window
    onesided = node.flag("onesided", default=True)
    return in_dtype(pairs_of(frequencies(pieces, None, 2, onesided=onesided)), x.dtype)


MOST_WEIGHTS = 1 << 24
"""The most weights of Mel's scale that are written into a program."""


def mel_weights(node: Node) -> Known:
    """From the bins of a spectrum to bins of Mel's scale, as overlapping triangles."""
    said = ("bands", "length", "rate", "lowest", "highest")
    bands, length, rate, lowest, highest = (
        node.number(at, f"The {what}") for at, what in enumerate(said)
    )
    if not 0 <= bands * length <= MOST_WEIGHTS:
        node.refuse(f"has {bands} bands of {length} numbers")
    edges = mel_edges(bands, lowest, highest)
    places = np.floor((length + 1) * edges / rate).astype(np.int64)
    weights = triangles(int(length) // 2 + 1, places)
    return Known.of(weights.astype(node.dtype_attr("output_datatype", FLOAT32)))


def mel_edges(bands: int, lowest: float, highest: float) -> Array:
    """Where bands begin and end, in hertz: evenly spread on Mel's scale."""
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (lowest, highest))
    mels = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    return 700 * (10 ** (mels / 2595) - 1)


def triangles(count: int, edges: Array) -> Array:
    """Triangles of height 1, each from one edge to the second next, at so many places."""
    at = np.arange(count)[:, None]
    left, top, right = edges[:-2], edges[1:-1], edges[2:]
    rising = (at - left) / np.maximum(top - left, 1)
    falling = (right - at) / np.maximum(right - top, 1)
    slopes = np.where(at < top, rising, falling)
    return np.where(at == top, 1.0, np.clip(slopes, 0.0, None))


SIGNALS: Mapping[str, Rule] = {
    "DFT": dft,
    "MelWeightMatrix": mel_weights,
    "STFT": stft,
}
