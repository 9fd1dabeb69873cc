"""The load test finds no fault in a short run, and finds a wrong answer."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.serving import load
from benchmarks.serving.load import describe, measure


@pytest.mark.thorough
def test_a_short_load_test_loses_nothing() -> None:
    result, notes = measure(6.0, 0)
    assert not result.faults, describe(result, notes)
    assert min(result.counts[name] for name in ("good", "streams", "left")) > 10


@pytest.mark.thorough
def test_a_wrong_answer_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "sums", lambda x: np.zeros_like(x))
    result, _ = measure(2.0, 0)
    assert "good: wrong values" in result.faults
