"""Damaged exported programs of PyTorch: refused with a reason, or imported and verified."""

from __future__ import annotations

from typing import Any

import pytest

import braces as br

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself


@pytest.mark.parametrize("first", [0, 20, 40])
def test_damaged_exports_are_refused_or_become_programs(first: int) -> None:
    from fuzz_torch import fuzz

    outcome = fuzz(first, 20, 0, 60.0)
    assert not outcome.findings, "\n".join(outcome.traces.values())
    assert outcome.counts.total() == 20


def exported() -> Any:
    return torch.export.export(torch.nn.Linear(2, 3), (torch.ones(4, 2),))


def test_an_export_that_pytorch_cannot_decompose_is_refused() -> None:
    damaged = exported()
    node = next(node for node in damaged.graph.nodes if node.op == "call_function")
    node.args = ()
    with pytest.raises(br.ProgramError, match="cannot decompose") as caught:
        br.from_torch(damaged)
    assert caught.value.given is not None


def test_a_parameter_without_a_value_is_refused() -> None:
    damaged = exported()
    damaged._state_dict = {}
    with pytest.raises(br.ProgramError):
        br.from_torch(damaged)
