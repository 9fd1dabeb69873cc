"""Signals and other sequences of samples: convolutions, windows, differences, frames.

Names are those of `scipy.signal`, `tf.signal`, and NumPy: `np.diff` is `br.signal.diff`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.array_api.fft_windows import (
    blackman_window,
    hamming_window,
    hann_window,
    stft,
)
from braces.frontend.array_api.meshgrid import interp
from braces.frontend.array_api.signal_series import (
    central_difference,
    convolve,
    correlate,
    diff,
    trapezoid,
    unwrap,
)
from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.core.functions import frame

__all__ = [
    "blackman_window", "central_difference", "convolve", "correlate", "diff", "frame",
    "hamming_window", "hann_window", "interp", "stft", "trapezoid", "unwrap",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.signal", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
