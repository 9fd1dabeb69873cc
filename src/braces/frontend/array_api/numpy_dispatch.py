"""Registration of composed functions for NumPy's dispatch protocol."""

from __future__ import annotations

from braces.builder.numpy_dispatch import NumPyDispatch
from braces.frontend.array_api import (
    fft_windows,
    linalg,
    meshgrid,
    norms,
    pointwise,
    quantiles,
    segment_ops,
    signal_series,
    statistics,
)

MODULES = (
    meshgrid, linalg, norms, pointwise, quantiles, segment_ops, signal_series, fft_windows,
    statistics,
)  # fmt: skip


def found_by_numpy() -> None:
    """Register the functions, so that NumPy functions of the same name dispatch to them."""
    functions = {name: getattr(module, name) for module in MODULES for name in module.__all__}
    NumPyDispatch.composed = functions
