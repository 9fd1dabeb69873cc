"""Rules of Fourier transforms and of signals; complex numbers are pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.exchange.common.model.unsupported import FIX_SIZE
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.values.constants import Array, Constant
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import dims, functions as ops
from braces.extend.building import Var
from braces.extend.types import FLOAT32, FLOAT64, Size

LENGTH, AXIS_IS_INPUT = "The length of a transform", 20
"""The name of a length in messages; the version of `DFT` in which the axis became an input."""


def numbers_of(node: OnnxNode, x: Var) -> Var:
    """Return an array whose last axis holds real numbers, or real and imaginary parts."""
    if x.shape[-1] not in (1, 2):
        node.refuse(f"expected a last axis of size 1 or 2, got {x.shape[-1]}")
    real = x[..., 0]
    return real if x.shape[-1] == 1 else ops.complex(real, x[..., 1])


def pairs_of(x: Var) -> Var:
    """Return complex numbers as pairs along a new last axis."""
    return ops.stack([ops.real(x), ops.imag(x)], axis=-1)


def size_of(node: OnnxNode, at: int, what: str) -> Size | None:
    """Return an optional input that is one size."""
    sizes_ = node.ints(at, what)
    return sizes_[0] if sizes_ else None


def transform_axis(node: OnnxNode, rank: int) -> int:
    """Return the axis of a transform; the last axis holds the parts of numbers."""
    is_attribute = node.version < AXIS_IS_INPUT
    axis = int(node.attr("axis", 1) if is_attribute else node.number(2, "The axis", -2))
    if not -rank <= axis < rank or axis % rank == rank - 1:
        node.refuse(f"axis {axis} is out of range for an array of rank {rank}")
    return axis % rank


def dft(node: OnnxNode) -> Var:
    """A Fourier transform or its inverse, two- or one-sided.

    ONNX's own values are computed in 64 bits and rounded once; its inverses use the dtype of
    the input.
    """
    x = node.var(0)
    axis, n = transform_axis(node, x.ndim), size_of(node, 1, LENGTH)
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    signal = numbers_of(node, x if inverse else cast_to_dtype(x, FLOAT64))
    if inverse and onesided:
        return cast_to_dtype(
            ops.expand_dims(ops.irfft(signal, n=n, axis=axis), axis=-1), x.dtype
        )
    if inverse:
        return cast_to_dtype(pairs_of(ops.ifft(signal, n=n, axis=axis)), x.dtype)
    return cast_to_dtype(pairs_of(frequencies(signal, n, axis, onesided=onesided)), x.dtype)


def frequencies(x: Var, n: Size | None, axis: int, *, onesided: bool) -> Var:
    """Return a transform along an axis, of complex numbers too."""
    if onesided and x.dtype.kind != "c":
        return ops.rfft(x, n=n, axis=axis)
    spectrum = ops.fft(x, n=n, axis=axis)
    if not onesided:
        return spectrum
    half: Any = dims.call("floordiv", spectrum.shape[axis], 2) + 1
    return spectrum[(slice(None),) * axis + (slice(None, half),)]


def stft(node: OnnxNode) -> Var:
    """Transforms of windowed frames of a signal."""
    x, window = node.var(0), node.maybe(2)
    step, length = node.number(1, "The step"), size_of(node, 3, "The length of a frame")
    if length is None:
        length = x.shape[1] if window is None else window.shape[0]
    if not isinstance(length, int):
        node.refuse(f"unsupported symbolic frame length {length}", FIX_SIZE)
    frames = ops.frame(numbers_of(node, x), length=length, step=int(step), axis=1)
    if window is not None:
        frames = frames * window
    onesided = node.flag("onesided", default=True)
    return cast_to_dtype(pairs_of(frequencies(frames, None, 2, onesided=onesided)), x.dtype)


MOST_WEIGHTS = 1 << 24
"""The most weights of a Mel matrix that are written into a program."""


def mel_weights(node: OnnxNode) -> Constant:
    """The matrix from spectrum bins to Mel bands, as overlapping triangles."""
    labels = ("bands", "length", "rate", "lowest", "highest")
    bands, length, rate, lowest, highest = (
        node.number(at, f"The {what}") for at, what in enumerate(labels)
    )
    if not 0 <= bands * length <= MOST_WEIGHTS:
        node.refuse(f"a matrix of {bands} bands by {length} is too large or invalid")
    edges = mel_edges(bands, lowest, highest)
    bins = np.floor((length + 1) * edges / rate).astype(np.int64)
    weights = triangles(int(length) // 2 + 1, bins)
    return Constant.of(weights.astype(node.dtype_attr("output_datatype", FLOAT32)))


def mel_edges(bands: int, lowest: float, highest: float) -> Array:
    """Return the edges of bands in hertz, evenly spaced on the Mel scale."""
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (lowest, highest))
    mels = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    return 700 * (10 ** (mels / 2595) - 1)


def triangles(count: int, edges: Array) -> Array:
    """Return triangles of height 1, each from one edge to the second next, at `count` bins."""
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
