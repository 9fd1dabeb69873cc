"""Copies of programs are independent, also if a block is open during the copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

X = np.array([0.5, -1.0], "float32")


def pickled(given: Any) -> Any:
    return pickle.loads(pickle.dumps(given))


each_way = pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
each_mode = pytest.mark.parametrize("mode", ["interpret", "compile"])


def trained() -> tuple[br.Program, br.Var]:
    """A program with a block, a step and a startup program, to build on."""
    with br.Program() as program:
        x = br.data("x", [2])
        with br.block("boxed"):
            y = br.tanh(br.fc(x[None], 2, name="dense"))
        br.optimizer.sgd(0.1).minimize(br.sum(y * y, name="loss"))
    return program, y


@each_way
@each_mode
def test_a_copy_made_within_its_own_with_is_a_program_of_its_own(
    copied: Callable[[br.Program], br.Program], mode: str
) -> None:
    program, y = trained()
    with program:
        other = copied(program)
        assert other.definition == program.definition
        br.sum(y, name="only_here")
    with other:
        br.sum(other.var("loss") * 2.0, name="only_there")
    assert "only_here" in program.definition.main.vars
    assert "only_there" not in program.definition.main.vars
    assert "only_here" not in other.definition.main.vars
    exe, found = br.Executor(mode=mode), list[Any]()
    for one in (program, other):
        scope = br.Scope()
        exe.init(one, scope, seed=3)
        found.append([exe.run(one, scope, feed={"x": X}, fetch="loss") for _ in range(3)])
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][2] < found[0][0]


@each_way
def test_a_copy_made_within_an_open_block_has_what_is_there_already(
    copied: Callable[[br.Program], br.Program],
) -> None:
    with br.Program() as program:
        x = br.data("x", [2])
        y = br.tanh(x, name="y")
        with br.block("open"):
            br.exp(y, name="z")
            other = copied(program)
        with other, br.block("open"):
            there = br.square(other.var("y"))
        br.sum(program.var("open/z"), name="total")
    assert [op.type for op in other.definition.main.ops] == ["tanh", "block"]
    assert [op.type for op in program.definition.main.ops] == ["tanh", "block", "sum"]
    got = br.Executor().run(other, br.Scope(), feed={"x": X}, fetch=there)
    np.testing.assert_allclose(got, np.tanh(X) ** 2, rtol=1e-6)


@each_way
def test_a_with_that_fails_takes_back_nothing_of_a_copy(
    copied: Callable[[br.Program], br.Program],
) -> None:
    copies = list[br.Program]()

    def failing(program: br.Program) -> None:
        with program:
            br.tanh(br.data("x", [2]), name="y")
            copies.append(copied(program))
            raise KeyError

    program = br.Program()
    with pytest.raises(KeyError):
        failing(program)
    assert not program.definition.main.vars
    got = br.Executor().run(copies[0], br.Scope(), feed={"x": X}, fetch="y")
    np.testing.assert_allclose(got, np.tanh(X), rtol=1e-6)
