"""A small share of `scripts/soak.py`: flat memory with sizes that change between runs."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.plugins.shares import thorough

SCRIPT = Path(__file__).parents[2] / "scripts" / "soak.py"
SOAK: dict[str, Any] = runpy.run_path(str(SCRIPT))

pytestmark = [
    pytest.mark.unoptimized,
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="resident memory is read from /proc"
    ),
]


@pytest.mark.parametrize(
    ("mode", "runs"), [("compile", 40_000), thorough(("interpret", 1_500))]
)
def test_memory_stays_flat(mode: str, runs: int) -> None:
    found = SOAK["soak"](runs, 0, mode, 10)
    assert SOAK["growth"](found) < 20.0, found


def test_growth_is_seen() -> None:
    kept, runs = list[np.ndarray](), count()
    larger = 2**22 + 2**10  # more than malloc takes from what earlier tests gave back

    def leak(exe: br.Executor) -> Callable[[np.random.Generator], Any]:
        return lambda rng: kept.append(rng.random(1 if next(runs) % 60 else larger))

    globals_ = SOAK["soak"].__globals__
    before = globals_["_training"]
    globals_["_training"] = leak
    try:
        found = SOAK["soak"](600, 0, "interpret", 10)
    finally:
        globals_["_training"] = before
    assert SOAK["growth"](found) > 20.0, found
