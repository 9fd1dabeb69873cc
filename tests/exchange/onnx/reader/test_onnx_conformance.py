"""A share of ONNX's own backend suite; `make conformance` runs all of it."""

from __future__ import annotations

import pytest

from onnx_cases import cases, listed_as_failing, outcome

pytestmark = pytest.mark.unoptimized

CONTROL = ("_if", "_loop", "_scan", "_lstm", "_gru", "_rnn", "sequence", "optional")
"""Parts of names of cases of control flow, recurrent nets and sequences."""
SHARE = 8
"""Of the others, one of so many is run here."""

RIGHT = sorted(cases().keys() - listed_as_failing())
CONTROLLED = [name for name in RIGHT if any(word in name for word in CONTROL)]
OTHERS = [name for name in RIGHT if name not in CONTROLLED][::SHARE]


@pytest.mark.parametrize("name", CONTROLLED)
def test_control_flow_gives_what_onnx_says_when_compiled(name: str) -> None:
    assert outcome(cases()[name], "compile") is None


@pytest.mark.parametrize("name", OTHERS)
def test_an_operator_gives_what_onnx_says(name: str) -> None:
    assert outcome(cases()[name]) is None
