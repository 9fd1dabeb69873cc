"""Steps of optimizers, and sequences whose elements differ, as ONNX's suite has them."""

from __future__ import annotations

import pytest
from onnx_cases import cases, outcome

pytestmark = pytest.mark.unoptimized

STEPS = ("adagrad", "adagrad_multiple", "adam", "adam_multiple", "momentum",
         "momentum_multiple", "nesterov_momentum")  # fmt: skip
MAPS = [name for name in cases() if name.startswith("test_sequence_map")]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_an_optimizer_gives_what_onnx_says(name: str, mode: str) -> None:
    assert outcome(cases()[f"test_{name}"], mode) is None


@pytest.mark.parametrize("name", MAPS)
def test_elements_of_a_sequence_have_sizes_of_their_own(name: str, mode: str) -> None:
    assert outcome(cases()[name], mode) is None
