"""Derivatives as passes: as those that are built, under names that can be fetched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import ProgramDef, print_program
from braces.passes.autodiff.forward_mode import jvp
from braces.passes.autodiff.reverse_mode import gradients

pytestmark = pytest.mark.unoptimized

POINT = {"x": np.array([0.5, -0.25], "float32"), "way": np.array([1.0, 2.0], "float32")}


def net() -> br.Program:
    """A loop in a plain block, and a result."""
    with br.Program() as prog:
        x, way = br.data("x", [2]), br.data("way", [2])
        w = br.parameter("w", [2], init=0.5)
        with br.block("box"):
            rnn = br.create_rnn(steps=3)
            with rnn.stepnet() as step:
                h = step.add_memory(init=x)
                h.update(br.tanh(h * w) + way)
            end = rnn.final(h)
        loss = br.sum(br.square(end), name="loss")
        br.identity(loss, name="other")
        prog.give("loss")
    return prog


def ran(prog: br.Program, fetch: Any, mode: str = "compile") -> Any:
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope)
    return exe.run(prog, scope, POINT, fetch)


def nameless(program: ProgramDef) -> list[str]:
    """The operators of the main block, by type."""
    return [op.type for op in program.main.ops]


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_gradients_of_a_pass_are_those_that_are_built(mode: str) -> None:
    prog = net()
    before = prog.definition
    made = br.passes.gradients("loss", ["w", "x"])(prog)
    assert prog.definition is before
    assert made.results == ("loss", "w_grad", "x_grad")
    assert made.startup is prog.startup
    with prog:
        built = br.gradients(prog.var("loss"), [prog.var("w"), prog.var("x")])
    assert nameless(made.definition) == nameless(prog.definition)
    loss, *found = ran(made, list(made.results), mode)
    want = ran(prog, ["loss", *built], mode)
    np.testing.assert_array_equal([loss, *np.ravel(found)], [want[0], *np.ravel(want[1:])])
    np.testing.assert_array_equal(ran(made, "x_grad", mode), want[2])


def test_tangents_of_a_pass_are_those_that_are_built() -> None:
    prog = net()
    made = br.passes.jvp(["loss", "other"], prog.var("x"), ["way"])(prog)
    assert made.results == ("loss", "loss_tangent", "other_tangent")
    with prog:
        (built,) = br.jvp(prog.var("loss"), prog.var("x"), prog.var("way"))
    want = ran(prog, built)
    for name in ("loss_tangent", "other_tangent"):
        np.testing.assert_array_equal(ran(made, name), want)


def test_passes_of_derivatives_follow_each_other() -> None:
    one = br.passes.gradients("loss", "x")
    other = br.passes.jvp("x_grad", "x", "way")
    back = br.passes.gradients("loss", "way")
    twice = back(other(one(net())))
    assert twice.results == ("loss", "x_grad", "x_grad_tangent", "way_grad")
    prog = net()
    with prog:
        (grad,) = gradients(prog.var("loss"), prog.var("x"))
        assert grad is not None
        (bent,) = jvp(grad, prog.var("x"), prog.var("way"))
    np.testing.assert_array_equal(ran(twice, "x_grad_tangent"), ran(prog, bent))


def test_cotangents_of_targets_are_named_too() -> None:
    with br.Program() as prog:
        x, way = br.data("x", [2]), br.data("way", [2])
        br.square(x, name="y"), br.tanh(x, name="z")
    made = br.passes.gradients(["y", "z"], [x, "way"], [way, None])(prog)
    x_grad, way_grad = ran(made, ["x_grad", "way_grad"])
    want = 2 * POINT["x"] * POINT["way"] + 1 - np.tanh(POINT["x"]) ** 2
    np.testing.assert_allclose(x_grad, want, rtol=1e-6)
    np.testing.assert_array_equal(way_grad, [0, 0])
    with pytest.raises(br.GradientError, match="2 targets and 1 target"):
        br.passes.gradients(["y", "z"], "x", "way")(prog)


def test_a_gradient_that_was_there_before_keeps_its_name() -> None:
    with br.Program() as prog:
        x, way = br.data("x", [2]), br.data("way", [2])
        br.identity(x * way, name="y")
    made = br.passes.gradients("y", ["x", "y"], "way")(prog)
    text = print_program(made.definition)
    assert "y_grad: f32[2] = identity(x=way)" in text
    np.testing.assert_array_equal(ran(made, "y_grad"), POINT["way"])
    np.testing.assert_array_equal(ran(made, "x_grad"), POINT["way"] ** 2)


def test_what_a_block_binds_is_a_target_and_an_input() -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        br.data("way", [2])
        with br.block("box"):
            h = br.square(x, name="h")
            br.sum(h * h, name="y")
    made = br.passes.gradients("box/y", ["box/h", "x"])(prog)
    by_h, by_x = ran(made, ["box/h_grad", "x_grad"])
    np.testing.assert_allclose(by_h, 2 * POINT["x"] ** 2, rtol=1e-6)
    np.testing.assert_allclose(by_x, 4 * POINT["x"] ** 3, rtol=1e-6)


def test_updates_stay_and_an_executor_refuses_further_results() -> None:
    prog = net()
    with prog:
        br.optimizer.sgd(0.1).minimize(prog.var("loss"))
    one = br.passes.gradients("loss", "x")
    assert one(prog).updates.keys() == prog.updates.keys()
    exe = br.Executor(passes=(one, *br.passes.default))
    br.Executor().init(prog, scope := br.Scope())
    with pytest.raises(br.ProgramError, match="returned 2 results; expected 1"):
        exe.run(prog, scope, POINT, "loss")


def test_what_is_no_variable_is_refused_and_nothing_changes() -> None:
    prog = net()
    before = prog.definition
    for strange in (None, 3, "", ["loss", 2.0]):
        with pytest.raises(br.GradientError, match="expected a variable or its name, got"):
            br.passes.gradients("loss", strange)
    with pytest.raises(br.UnknownNameError, match="in the pass `gradients`"):
        br.passes.gradients("loss", "nowhere")(prog)
    with pytest.raises(br.GradientError, match="1 inputs and 2 tangents"):
        br.passes.jvp("loss", "x", ["x", "way"])(prog)
    assert prog.definition is before
