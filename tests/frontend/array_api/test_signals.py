"""Signals: windows, short transforms, and transforms of real numbers along several axes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

import braces as br
from braces.errors import ProgramError, ShapeError

pytestmark = pytest.mark.unoptimized

X = np.random.default_rng(3).normal(size=(2, 3, 10)).astype("f")


WINDOWS = {
    "hann": br.signal.hann_window, "hamming": br.signal.hamming_window,
    "blackman": br.signal.blackman_window,
}  # fmt: skip


def test_windows_are_those_of_scipy() -> None:
    for name, window in WINDOWS.items():
        for size, periodic in ((8, True), (7, False), (1, True)):
            with br.Program() as program:
                made = window(size, periodic=periodic, dtype="float64")
            (found,) = br.Executor().run(program, br.Scope(), fetch=[made])
            wanted = signal.get_window(name, size, periodic)
            np.testing.assert_allclose(found, wanted, atol=1e-12)
    with br.Program(), pytest.raises(ProgramError, match="at least 1, got 0"):
        br.signal.hann_window(0)


def test_short_transforms_are_those_of_pieces(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 3, 10])
        out = br.signal.stft(x, 4, 3, br.signal.hann_window(4))
        several, power = br.fft.rfftn(x, axes=(1, 2)), br.signal.stft(x, 5, 5)
        loss = br.sum(br.square(br.real(power)) + br.square(br.imag(power)))
        (grad,) = br.gradients([loss], [x])
        fetch = [out, several, br.fft.irfftn(several, axes=(1, 2)), grad, br.fft.rfftn(x[0, 0])]
        with pytest.raises(ShapeError, match=r"window of shape \[4\]"):
            br.signal.stft(x, 4, 3, br.signal.hann_window(5))
    found = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": X}, fetch=fetch)
    pieces = np.stack([X[..., at : at + 4] for at in (0, 3, 6)], axis=-2)
    wanted = np.fft.rfft(pieces * signal.get_window("hann", 4))
    np.testing.assert_allclose(found[0], wanted, atol=1e-5)
    np.testing.assert_allclose(found[1], np.fft.rfftn(X, axes=(1, 2)), atol=1e-5)
    np.testing.assert_allclose(found[2], X, atol=1e-5)
    forward = np.fft.rfft(np.eye(5))
    slope = 2 * (forward @ forward.conj().T).real
    np.testing.assert_allclose(found[3].reshape(-1, 5), X.reshape(-1, 5) @ slope, atol=1e-4)
    np.testing.assert_allclose(found[4], np.fft.rfft(X[0, 0]), atol=1e-5)
