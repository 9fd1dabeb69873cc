"""Random programs keep their values under random rules; see `scripts/random_rewrites.py`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.random_programs.rewrites import check_rewritten

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize("first", range(0, 10, 5))
def test_rewritten_programs_have_the_values_of_the_original_text(first: int) -> None:
    with np.errstate(all="ignore"):
        assert sum(check_rewritten(seed) for seed in range(first, first + 5)) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(10, 5000, 20))
def test_5000_rewritten_programs(first: int) -> None:
    with np.errstate(all="ignore"):
        assert sum(check_rewritten(seed) for seed in range(first, first + 20)) > 0
