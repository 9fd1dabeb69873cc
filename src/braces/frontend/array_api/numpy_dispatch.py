"""Registration of composed functions for NumPy's dispatch protocol."""

from __future__ import annotations

from braces.builder.numpy_dispatch import NumPyDispatch
from braces.frontend.array_api import (
    fft_windows as signals,
    linalg as matrices,
    meshgrid as grids,
    norms as matrix_norms,
    pointwise,
    quantiles,
    segment_ops as segments,
    signal_series as series,
    statistics,
)

MODULES = (
    grids, matrices, matrix_norms, pointwise, quantiles, segments, series, signals, statistics,
)  # fmt: skip


def found_by_numpy() -> None:
    """Register the functions, so that NumPy functions of the same name dispatch to them."""
    functions = {name: getattr(module, name) for module in MODULES for name in module.__all__}
    NumPyDispatch.composed = functions
