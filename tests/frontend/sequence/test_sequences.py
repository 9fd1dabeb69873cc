"""Sequence losses in constructs that run for some rows only: a longer loop, and a branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

NAMES = ["crf.transitions", "crf.start", "crf.end"]


def losses(x: Any, y: Any, n: Any) -> list[Any]:
    """Both losses of each row, under one set of parameters."""
    field = br.layers.conditional_random_field(x, y, lengths=n, params=NAMES, reduction="none")
    return [br.losses.ctc_loss(x, y[:, :2], n, zero_infinity=True, reduction="none"), field]


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_losses_in_a_step_over_rows_and_in_a_branch_of_rows_are_those_outside(
    mode: Any,
) -> None:
    with br.Program() as program:
        x = br.data("x", ["days", "b", "t", 3], dtype="float64")
        y = br.data("y", ["b", "t"], dtype="int32")
        n, days = (br.data(name, ["b"], dtype="int32") for name in ("n", "k"))
        rnn = br.create_rnn(lengths=days)
        with rnn.stepnet() as net:
            total = net.add_memory(init=br.zeros(["b"], "float64"))
            made = losses(net.add_input(x), y, n)
            total.update(total + made[0] + made[1])
            net.add_output(*made)
        choice = br.create_if_else(n > 2)
        with choice.true_block() as case:
            case.add_output(*losses(*(case.add_input(one) for one in (x[0], y, n))))
        with choice.false_block() as case:
            nothing = br.sum(case.add_input(x[0]), axis=[1, 2]) * 0.0
            case.add_output(nothing, nothing)
        outside = losses(x[0], y, n)
        ends = [br.sum(rnn.final(total)), br.sum(choice()[0] + choice()[1])]
        slopes = [br.gradients([end], [x])[0] for end in ends]
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(program, scope, seed=0)
    feed = {
        "x": np.random.default_rng(0).normal(size=[2, 3, 4, 3]),
        "y": np.array([[1, 2, 0, 1], [1, 1, 2, 2], [2, 1, 0, 0]], "int32"),
        "n": np.array([4, 2, 3], "int32"),
        "k": np.array([2, 0, 1], "int32"),
    }
    found = exe.run(program, scope, feed, [*rnn(), *choice(), *outside, *slopes])
    for step, chosen, wanted in zip(found[:2], found[2:4], found[4:6], strict=True):
        np.testing.assert_allclose(step[0], wanted * [1, 0, 1], rtol=1e-10)
        np.testing.assert_allclose(chosen, wanted * [1, 0, 1], rtol=1e-10)
    for slope in found[6:]:
        assert np.all(np.isfinite(slope))
        assert not np.any(slope[:, 1])
        assert np.any(slope[0, 2])
        assert not np.any(slope[1, 2])
