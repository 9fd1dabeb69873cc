"""Functions that are made of several operators, where NumPy's of the same name find them."""

from __future__ import annotations

from braces.builder.numpy_dispatch import NumPyCalls
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
    """Tell variables of them."""
    found = {name: getattr(one, name) for one in MODULES for name in one.__all__}
    NumPyCalls.composed = found
