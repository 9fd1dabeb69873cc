"""What all tests share: both ways to run, reproducible numbers, and the NumPy references."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

# `from references import Reference` in tests and in the references themselves.
sys.path.insert(0, str(Path(__file__).parent / "ops"))


@pytest.fixture(params=["compile", "interpret"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both modes of the executor."""
    return request.param


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of random numbers, another one for each test and the same on every run."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
