"""A program that does not survive serialization fails the test that built it."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces import Program
from braces.extend.programs import parse_program
from tests.plugins.serialization import Noted

LOSSY = "program { data x: f32[b]  y: f32[] = sum(x=x) }"  # reading fills in what is left out


def test_what_ran_or_was_saved_is_noted_and_what_was_only_built_is_not() -> None:
    noted = Noted()
    with noted.watching():
        with br.Program() as built:
            br.tanh(br.data("x", [2]))
        assert not noted.waiting
        with br.Program() as ran:
            y = br.tanh(br.data("x", [2]))
        br.Executor(mode="interpret").run(ran, br.Scope(), {"x": np.zeros(2, "f4")}, y)
        built.to_bytes()
    assert [*noted.waiting.values()] == [ran.definition, built.definition]
    noted.check()
    assert len(noted.checked) == 1  # they mean the same
    assert not noted.waiting


def test_a_program_that_comes_back_otherwise_fails_once() -> None:
    noted = Noted()
    noted.note(Program(parse_program(LOSSY)))
    with pytest.raises(AssertionError, match="sum"):
        noted.check()
    noted.check()
