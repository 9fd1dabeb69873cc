"""Discrete Fourier transforms, as `numpy.fft` has them.

The short-time transform and its windows are in `br.signal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.array_api.fft_windows import (
    fft2,
    fftfreq,
    fftshift,
    ifft2,
    ifftshift,
    irfft2,
    irfftn,
    rfft2,
    rfftfreq,
    rfftn,
)
from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.core.functions import fft, fftn, ifft, ifftn, irfft, rfft

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift",
    "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.fft", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
