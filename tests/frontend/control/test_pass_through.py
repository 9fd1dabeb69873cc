"""An if-else with two blocks, or with one block and default outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import get, prog, refuse, refuse_here

__all__ = ["prog"]

SIDES = [True, False]
X = np.array([[1.0, 2.0], [-3.0, 0.5], [4.0, -1.0]])


def one_sided(predicate: Any, side: bool, build: Callable[[Any], Any]) -> br.IfElse:
    choice = br.create_if_else(predicate)
    with choice.true_block() if side else choice.false_block() as block:
        block.add_output(build(block))
    return choice


def ran(mode: str, build: Callable[[br.Var, br.Var], br.Var]) -> Any:
    """An output, and the gradients of the sum of its squares by `x` and `u`."""
    with br.Program() as program:
        x = br.data("x", ["rows", 2], "float64")
        u = br.data("u", ["rows", 2], "float64")
        out = build(x, u)
        slopes = br.gradients(br.sum(out * out), [x, u])
    slopes = [br.zeros_like(x) if one is None else one for one in slopes]
    feed = {"x": X, "u": X - 0.25}
    return br.Executor(mode=mode).run(program, br.Scope(), feed, [out, *slopes])


@pytest.mark.parametrize("early", SIDES, ids=["before", "after"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("holds", SIDES)
def test_a_whole_value_passes_through(side: bool, holds: bool, early: bool, mode: str) -> None:
    def build(x: br.Var, u: br.Var) -> br.Var:
        choice = br.create_if_else((br.sum(x) > 0.0) == br.constant(holds))
        if early:
            choice.pass_through(u)
        with choice.true_block() if side else choice.false_block() as block:
            block.add_output(block.add_input(x) * 3.0)
        if not early:
            choice.pass_through(u)
        return choice()

    out, by_x, by_u = ran(mode, build)
    u, zeros = X - 0.25, np.zeros_like(X)
    want = (X * 3, X * 18, zeros) if side == holds else (u, zeros, u * 2)
    for found, wanted in zip((out, by_x, by_u), want, strict=True):
        np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("early", SIDES, ids=["before", "after"])
@pytest.mark.parametrize("side", SIDES)
def test_the_other_rows_pass_through(side: bool, early: bool, mode: str) -> None:
    def build(x: br.Var, u: br.Var) -> br.Var:
        choice = br.create_if_else(x[:, 0] > 0.0)
        if early:
            choice.pass_through(u)
        with choice.true_block() if side else choice.false_block() as block:
            block.add_output(block.add_input(x) * 3.0)
        if not early:
            choice.pass_through(u)
        return choice()

    out, by_x, by_u = ran(mode, build)
    u, mask = X - 0.25, (X[:, :1] > 0.0) == side
    np.testing.assert_allclose(out, np.where(mask, X * 3, u))
    np.testing.assert_allclose(by_x, np.where(mask, X * 18, 0.0))
    np.testing.assert_allclose(by_u, np.where(mask, 0.0, u * 2))


def test_numbers_take_the_dtype_of_the_output(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [], "float64")
        choice = one_sided(x > 0.0, True, lambda block: br.sqrt(block.add_input(x)))
        choice.pass_through(-1)
        out = choice()
    run = br.Executor(mode=mode).run
    assert [run(program, br.Scope(), {"x": v}, out).tolist() for v in (4.0, -4.0)] == [2, -1]


def test_what_a_block_takes_in_is_not_what_passes_through(mode: str) -> None:
    with br.Program() as program:
        x, y = br.data("x", []), br.data("y", [])
        choice = br.create_if_else(x > 0.0)
        with choice.true_block() as block:
            small, large = block.add_input(x), block.add_input(y)
            block.add_output(large - small, large + small)
        choice.pass_through(y, x)
        outs = choice()
    feed = {"x": -1.0, "y": 5.0}
    assert br.Executor(mode=mode).run(program, br.Scope(), feed, list(outs)) == [5.0, -1.0]


# ---- what is refused -------------------------------------------------------------------------

LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


def check_line(message: str) -> None:
    """The place that a message says is the line where `pass_through` is called."""
    (number,) = re.findall(r"test_pass_through\.py:(\d+)", message)
    assert ".pass_through(" in LINES[int(number) - 1], message


@pytest.mark.parametrize("predicate", ["loss", "y"])
@pytest.mark.parametrize("side", SIDES)
def test_a_missing_block_is_refused(prog: br.Program, predicate: str, side: bool) -> None:
    with prog:
        choice = one_sided(get(predicate) > 0.0, side, lambda b: b.add_input(get("y")))
    missing = f"the {str(not side).lower()} block is missing"
    refuse_here(prog, br.ProgramError, lambda: choice(), missing, "pass_through")


WRONG: dict[str, tuple[type[br.BracesError], Callable[[], Any], str]] = {
    "number": (br.ProgramError, lambda: (get("y"), get("y")), "2 values"),
    "dtype": (br.ShapeError, lambda: (br.cast(get("y"), "float64"),), "f64[batch]"),
    "shape": (br.ShapeError, lambda: (get("x"),), "f32[batch,4]"),
    "text": (br.DTypeError, lambda: ("y",), "expected a variable"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("predicate", ["loss", "y"])
@pytest.mark.parametrize("side", SIDES)
def test_what_passes_through_is_like_the_outputs(
    prog: br.Program, wrong: str, predicate: str, side: bool
) -> None:
    error, values, said = WRONG[wrong]
    with prog:
        choice = one_sided(get(predicate) > 0.0, side, lambda b: b.add_input(get("y")) * 2.0)

    def build() -> None:
        again = one_sided(get(predicate) > 0.0, side, lambda b: b.add_input(get("y")) * 2.0)
        again.pass_through(*values())
        again()

    check_line(refuse(prog, error, undone(build), said))
    with prog:
        choice.pass_through(get("y"))
        assert choice().type == get("y").type


def undone(build: Callable[[], Any]) -> Callable[[], None]:
    """Undo what is built before the error."""

    def do() -> None:
        with br.default_program().transaction():
            build()

    return do


def test_pass_through_has_its_place(prog: br.Program) -> None:
    def choice(*sides: bool) -> br.IfElse:
        made = br.create_if_else(get("loss") > 0.0)
        for side in sides:
            with made.true_block() if side else made.false_block() as block:
                block.add_output(get("y"))
        return made

    def with_inner() -> None:
        made = br.create_if_else(get("loss") > 0.0)
        with made.true_block() as block:
            inner = br.tanh(get("y"))
            block.add_output(inner)
        made.pass_through(inner)
        made()

    def twice() -> None:
        made = choice(True)
        made.pass_through(get("y"))
        made.pass_through(get("y"))

    def then_both() -> None:
        made = choice(True)
        made.pass_through(get("y"))
        made.false_block()

    def then_called() -> None:
        made = choice(True, False)
        made()
        made.pass_through(get("y"))

    for build, said in (
        (lambda: choice(True).pass_through(), "at least one value"),
        (lambda: choice(True, False).pass_through(get("y")), "both blocks are defined"),
        (twice, "called twice"),
        (then_called, "already called"),
        (with_inner, "a variable from outside the block, got `tanh_0`"),
    ):
        check_line(refuse(prog, br.ProgramError, undone(build), said))
    refuse_here(prog, br.ProgramError, undone(then_both), "both blocks are defined")


def test_a_call_that_fails_can_be_repeated(prog: br.Program) -> None:
    with prog:
        choice = one_sided(get("loss") > 0.0, True, lambda b: b.add_input(get("y")))
        choice.pass_through(get("x"))
    for _ in range(2):
        check_line(refuse(prog, br.ShapeError, lambda: choice(), "another type"))
