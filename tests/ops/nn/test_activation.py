"""Activations beside SciPy, at extreme values, with derivatives of second order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erfc

import braces as br

LARGE = np.logspace(-38, 18, 200)  # the square of the last one is finite


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-14)])
def test_gelu_and_its_derivatives(mode: str, dtype: str, tolerance: float) -> None:
    values = np.concatenate([np.linspace(-40, 40, 4001), LARGE, -LARGE]).astype(dtype)
    with br.Program() as prog:
        x = br.data("x", ["n"], dtype=dtype)
        y = br.gelu(x)
        (slope,) = br.gradients(br.sum(y), [x])
        (curvature,) = br.gradients(br.sum(slope), [x])
    got = br.Executor(mode).run(prog, br.Scope(), {"x": values}, [y, slope, curvature])
    wide = values.astype(np.float64)
    below = 0.5 * erfc(-wide / np.sqrt(2))
    density = np.exp(-0.5 * wide * wide) / np.sqrt(2 * np.pi)
    expected = wide * below, below + wide * density, (2 - wide * wide) * density
    for left, right in zip(got, expected, strict=True):
        error = np.abs(left - right) / np.maximum(1, np.abs(right))
        assert np.max(error) < tolerance
