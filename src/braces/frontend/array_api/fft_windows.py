"""Fourier transforms along several axes, window functions, and the short-time transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.source_line import with_user_line
from braces.builder.var import Var
from braces.errors import ProgramError, ShapeError
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.variables import constant
from braces.ops.common.rules import axis_indices

__all__ = [
    "blackman_window", "fft2", "fftfreq", "fftshift", "hamming_window", "hann_window", "ifft2",
    "ifftshift", "irfft2", "irfftn", "rfft2", "rfftfreq", "rfftn", "stft",
]  # fmt: skip


@with_user_line
def hann_window(size: int, periodic: bool = True, dtype: object = "float32") -> Var:
    """Hann's window: 0.5 - 0.5 cos(2 pi i / n), with n = size, or size - 1.

    Args:
        size: The number of samples.
        periodic: Whether n is the size, as for transforms; else the window is symmetric.
        dtype: The dtype of the result.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.signal.hann_window(4)
        >>> br.Executor().run(prog, br.Scope(), fetch=w).tolist()
        [0.0, 0.5, 1.0, 0.5]
    """
    return _cosines("hann_window", (0.5, 0.5), size, periodic, dtype)


@with_user_line
def hamming_window(size: int, periodic: bool = True, dtype: object = "float32") -> Var:
    """Hamming's window: 0.54 - 0.46 cos(2 pi i / n); see `hann_window`."""
    return _cosines("hamming_window", (0.54, 0.46), size, periodic, dtype)


@with_user_line
def blackman_window(size: int, periodic: bool = True, dtype: object = "float32") -> Var:
    """Blackman's window: 0.42 - 0.5 cos(t) + 0.08 cos(2 t), with t = 2 pi i / n."""
    return _cosines("blackman_window", (0.42, 0.5, 0.08), size, periodic, dtype)


def _cosines(
    what: str, factors: Sequence[float], size: int, periodic: bool, dtype: object
) -> Var:
    """Return a sum of cosines with alternating signs; a window of size 1 is 1."""
    count: Any = size
    if not isinstance(count, int) or count < 1:
        raise ProgramError(f"{what}: expected a size of at least 1, got {size!r:.40}.")
    turns = np.arange(size) / max(size if periodic else size - 1, 1)
    signed = ((-1) ** k * factor for k, factor in enumerate(factors))
    window = sum(f * np.cos(2 * np.pi * k * turns) for k, f in enumerate(signed))
    return constant(np.ones(1) if size == 1 else window, dtype)


@transactional
def stft(x: Var, length: int, step: int, window: Var | None = None) -> Var:
    """The short-time Fourier transform of the last axis, in frames that may overlap.

        out[..., f, k] = sum_j window[j] * x[..., f * step + j] * exp(-2 pi i j k / length)

    Args:
        x: real[..., n].
        length: The length of a frame.
        step: The distance between frames.
        window: real[length], such as `hann_window`; ones by default.

    Returns:
        complex[..., (n - length) // step + 1, length // 2 + 1]. A partial frame at the end is
        dropped; use `br.pad` first for frames around the ends.

    Raises:
        ShapeError: If the size of the window differs from `length`, or `length` or `step` is
            below 1.
        DTypeError: If the dtype is complex.
    """
    pieces = emit("frame", operand(x, "stft"), length=length, step=step, axis=-1)
    if window is not None:
        if window.shape != (length,):
            raise ShapeError(
                f"stft: expected a window of shape [{length}].",
                given=f"window: {window.type}",
                fix=f"Use br.signal.hann_window({length}), for example.",
            )
        pieces = emit("multiply", pieces, window)
    return emit("rfft", pieces, axis=-1)


@transactional
def rfftn(x: Var, axes: Sequence[int] | None = None, norm: str = "backward") -> Var:
    """The Fourier transform of real numbers along several axes: `rfft`, then `fftn`.

    Args:
        x: real[*shape].
        axes: The axes, all by default; the last one has only non-negative frequencies in the
            result.
        norm: The normalization of `fft`, for each axis.

    Returns:
        complex, with n // 2 + 1 on the last of the axes.

    Raises:
        ShapeError: If an axis is out of range, or `axes` is empty.
        DTypeError: If the dtype is complex.
    """
    *others, last = _several("rfftn", operand(x, "rfftn"), axes)
    halved = emit("rfft", x, axis=last, norm=norm)
    return emit("fftn", halved, axes=tuple(others), norm=norm) if others else halved


@transactional
def irfftn(
    x: Var, axes: Sequence[int] | None = None, n: int | None = None, norm: str = "backward"
) -> Var:
    """The inverse of `rfftn`.

    Args:
        x: number[*shape].
        axes: As for `rfftn`.
        n: The size of the result along the last of them; 2 * (size - 1) by default.
        norm: As for `rfftn`.

    Returns:
        float, with `n` on the last of the axes.

    Raises:
        ShapeError: If an axis is out of range, or `axes` is empty.
    """
    *others, last = _several("irfftn", operand(x, "irfftn"), axes)
    partial = emit("ifftn", x, axes=tuple(others), norm=norm) if others else x
    return emit("irfft", partial, n=n, axis=last, norm=norm)


@transactional
def fft2(x: Var, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Var:
    """The Fourier transform along two axes: `fftn`."""
    return emit("fftn", operand(x, "fft2"), axes=tuple(axes), norm=norm)


@transactional
def ifft2(x: Var, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Var:
    """The inverse of `fft2`: `ifftn`."""
    return emit("ifftn", operand(x, "ifft2"), axes=tuple(axes), norm=norm)


@transactional
def rfft2(x: Var, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Var:
    """The Fourier transform of real numbers along two axes: `rfftn`."""
    return rfftn(x, axes, norm)


@transactional
def irfft2(
    x: Var, axes: Sequence[int] = (-2, -1), n: int | None = None, norm: str = "backward"
) -> Var:
    """The inverse of `rfft2`: `irfftn`."""
    return irfftn(x, axes, n, norm)


# ---- frequencies -----------------------------------------------------------------------------


@with_user_line
def fftfreq(n: int, d: float = 1.0, dtype: object = "float32") -> Var:
    """Frequencies of the outputs of `fft`, in its order: 0, 1, …, -2, -1, divided by n * d.

    Args:
        n: The number of samples.
        d: The distance between samples.
        dtype: The dtype of the result.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     f = br.fft.fftfreq(4)
        >>> br.Executor().run(prog, br.Scope(), fetch=f).tolist()
        [0.0, 0.25, -0.5, -0.25]
    """
    return constant(np.fft.fftfreq(_count("fftfreq", n), d), dtype)


@with_user_line
def rfftfreq(n: int, d: float = 1.0, dtype: object = "float32") -> Var:
    """Frequencies of the outputs of `rfft`: 0, 1, …, n // 2, over n * d; see `fftfreq`."""
    return constant(np.fft.rfftfreq(_count("rfftfreq", n), d), dtype)


def _count(what: str, n: int) -> int:
    if n < 1:
        raise ProgramError(f"{what}: expected a size of at least 1, got {n}.")
    return n


@transactional
def fftshift(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """Sort frequencies in ascending order: roll each axis by half of its size.

    Args:
        x: any[*shape].
        axes: The axes, with fixed sizes; all by default.

    Raises:
        ShapeError: If an axis is out of range, or its size is symbolic.
    """
    return _roll_axes("fftshift", x, axes, lambda size: size // 2)


@transactional
def ifftshift(x: Var, axes: int | Sequence[int] | None = None) -> Var:
    """The inverse of `fftshift`."""
    return _roll_axes("ifftshift", x, axes, lambda size: -(size // 2))


def _roll_axes(what: str, x: Var, axes: Any, shift: Callable[[int], int]) -> Var:
    var = operand(x, what)
    indices = axis_indices(axes if axes is None or isinstance(axes, int) else tuple(axes),
                         var.ndim, what)  # fmt: skip
    shifts: list[int] = []
    for axis in indices:
        size = var.shape[axis]
        if not isinstance(size, int):
            raise ShapeError(
                f"{what}: expected an axis of constant size, got {size}.",
                given=f"{var.name}: {var.type}   axis={axis}",
            )
        shifts.append(shift(size))
    return emit("roll", var, shift=tuple(shifts), axis=indices) if indices else var


def _several(what: str, x: Var, axes: Sequence[int] | None) -> list[int]:
    chosen = list(range(x.ndim)) if axes is None else list(axes)
    if not chosen:
        raise ShapeError(f"{what}: expected at least one axis, got none.", given=f"x: {x.type}")
    return chosen
