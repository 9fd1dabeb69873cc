"""The battery: every program in both modes, to second order, against differences and jvp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.constructs import LoopView
from braces.extend.programs import parse_program
from braces.lower.xla.block_lowering import OpLowering
from braces.testing.gradients import build_derivatives
from tests.control.battery.programs import CASES
from tests.control.checking import check, reread
from tests.support.comparison import near


@pytest.mark.unoptimized
@pytest.mark.usefixtures("few_copies")
@pytest.mark.parametrize("name", CASES)
def test_values_gradients_second_order_and_forward_mode_agree(name: str) -> None:
    case = CASES[name]
    check(case.build, *case.feeds, shapes=case.shapes)


@pytest.mark.parametrize("name", list(CASES)[::4])
def test_gradient_program_is_the_same_saved_loaded_pruned(name: str) -> None:
    case = CASES[name]
    reread(build_derivatives(case.build, case.feeds[0], case.shapes), case.feeds[0])


@pytest.mark.parametrize("name", [n for n in CASES if n != "row_wise_branch_of_one_row"])
def test_both_modes_agree_in_float32(name: str) -> None:
    case = CASES[name]
    made = build_derivatives(case.build, case.feeds[0], case.shapes, order=1)
    program = br.Program(parse_program(str(made.program).replace("f64", "f32")))
    fetch = {k: v.name for k, v in made.fetches.items() if k == "y" or k.startswith("g ")}
    feeds = {n: v.astype(v.dtype.str.replace("f8", "f4")) for n, v in case.feeds[0].items()}
    compiled, interpreted = (
        executor.run(program, br.Scope(), feed=feeds, fetch=fetch)
        for executor in made.executors.values()
    )
    for key, value in compiled.items():
        assert value.dtype == "float32"
        assert np.isfinite(value).all(), key
        near(value, interpreted[key], 1e-4, f"modes: {key}")


def squared(start: br.Var, n: br.Var) -> br.Var:
    """A matrix times itself, squashed, so many times."""
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        h = body.add_memory(init=start)
        body.set_condition(i < n)
        h.update(br.tanh(h @ h))
        i.update(i + 1)
    return loop.final(h)


@pytest.mark.parametrize("width", [1, 64])
def test_a_memory_is_kept_once_whatever_its_size(width: int) -> None:
    with br.Program() as prog:
        start, n = br.data("h", [width, width]), br.data("n", [], dtype="int32")
        br.gradients([br.sum(squared(start, n))], [start])
    assert str(prog).count("= list_push(") == 1


def test_popped_elements_are_read_from_the_list_and_not_carried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carried, repeat = dict[str, int](), OpLowering.repeat

    def counting(self: Any, check: Any, step: Any, carry: Any, endless: bool) -> Any:
        carried[self.op.name] = len(carry[1])
        return repeat(self, check, step, carry, endless)

    monkeypatch.setattr(OpLowering, "repeat", counting)
    with br.Program() as prog:
        start, n = br.data("h", [3, 3], dtype="float64"), br.data("n", [], dtype="int32")
        (slope,) = br.gradients([br.sum(squared(start, n))], [start])
    (back,) = (op for op in prog.definition.main.ops if op.name.startswith("loop_0_grad"))
    memories = LoopView.of(back).memories
    compiler, interpreter = br.Executor(), br.Executor(mode="interpret")
    for trips in (0, 1, 2, 9):
        feed = {"h": np.linspace(-1, 1, 9).reshape(3, 3), "n": np.int32(trips)}
        found, expected = (
            exe.run(prog, br.Scope(), feed=feed, fetch=slope) for exe in (compiler, interpreter)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert (len(memories), carried[back.name]) == (3, 2)  # a cotangent, a list, what it popped
