"""Steps of optimizers, and sequences whose elements differ, as ONNX's suite has them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import braces as br
from braces.exchange.onnx.reader.importer import UPDATES
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


def test_what_moves_cannot_be_a_constant_that_decides_sizes() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2,3] x, int64[N] s) => (float[K] y, int64[N] s_next) <int64[1] s = {6}> {
            y = Reshape(x, s)
            s_next = Identity(s)
        }
    """)
    onnx.helper.set_model_props(model, {UPDATES: '{"s": "s_next"}'})
    with pytest.raises(
        br.ProgramError, match="`s` is updated by each run and cannot be a constant"
    ):
        br.from_onnx(model, inputs={"s": np.array([6])})
