"""Random programs keep their values under random rules; see `scripts/random_rewrites.py`."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.random_programs.surgery.derivative_edits import check_edited_derivative
from tests.random_programs.surgery.edits import EDITS, check_edited, check_edited_step
from tests.random_programs.surgery.rewrites import check_rewritten
from tests.random_programs.surgery.steps import check_step

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize("first", range(0, 10, 5))
def test_rewritten_programs_have_the_values_of_the_original_text(first: int) -> None:
    with np.errstate(all="ignore"):
        assert sum(check_rewritten(seed) for seed in range(first, first + 5)) > 0


@pytest.mark.thorough
@pytest.mark.many_programs
@pytest.mark.parametrize("first", range(10, 5000, 20))
def test_5000_rewritten_programs(first: int) -> None:
    with np.errstate(all="ignore"):
        assert sum(check_rewritten(seed) for seed in range(first, first + 20)) > 0


@pytest.mark.parametrize("first", [0, 48, 284])
def test_rewritten_steps_are_those_of_the_rewritten_forward_program(first: int) -> None:
    with np.errstate(all="ignore"):
        assert sum(check_step(seed) for seed in range(first, first + 4)) > 0


@pytest.mark.parametrize("first", [0, 115, 193])
def test_edited_programs_have_the_values_of_the_original_text(first: int) -> None:
    done = Counter[str]()
    with np.errstate(all="ignore"):
        for seed in range(first, first + 6):
            done += check_edited(seed)
    assert len(done) > len(EDITS) // 2


def test_edited_steps_have_the_values_of_the_original_step() -> None:
    with np.errstate(all="ignore"):
        assert sum(check_edited_step(seed).total() for seed in range(5)) > 0


@pytest.mark.thorough
@pytest.mark.many_programs
@pytest.mark.parametrize("first", range(1000, 2000, 20))
def test_1000_rewritten_and_edited_steps(first: int) -> None:
    with np.errstate(all="ignore"):
        for seed in range(first, first + 20):
            check_step(seed)
            check_edited(seed)
            check_edited_step(seed)


@pytest.mark.parametrize("first", [0, 112])
def test_edited_derivatives_are_those_of_the_edited_program(first: int) -> None:
    with np.errstate(all="ignore"):
        assert any([check_edited_derivative(seed) for seed in range(first, first + 6)])


@pytest.mark.thorough
@pytest.mark.many_programs
@pytest.mark.parametrize("first", range(1000, 2000, 20))
def test_1000_edited_derivatives(first: int) -> None:
    with np.errstate(all="ignore"):
        assert any([check_edited_derivative(seed) for seed in range(first, first + 20)])
