"""Row-wise steps and branches in the cases of row-wise branches, which they mask anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import braces as br

ROWS = np.array([[0.5, 1.0, -2.0], [-1.0, 2.0, 3.0], [0.25, -1.0, 0.5]])


def branch(rows: br.Var) -> br.Var:
    choice = br.create_if_else(rows[:, 1] > 0.0)
    with choice.true_block() as t:
        row = t.add_input(rows)
        t.add_output(row * br.mean(rows))
    with choice.false_block() as f:
        row = f.add_input(rows)
        f.add_output(row + br.sum(rows))
    return choice()


def stopping(rows: br.Var) -> br.Var:
    net = br.create_rnn(steps=2)
    with net.stepnet() as step:
        h = step.add_memory(init=rows)
        step.stop_when(h[:, 1] > 1.0)
        h.update(h * br.mean(rows) + br.sum(h))
    return net.final(h)


@pytest.mark.unoptimized
@pytest.mark.parametrize("inner", [branch, stopping])
def test_what_mixes_rows_in_an_inner_case_leaves_padding_of_the_outer_out(
    inner: Callable[[br.Var], br.Var],
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch", 3], "float64")
        choice = br.create_if_else(x[:, 0] > 0.0)
        with choice.true_block() as t:
            t.add_output(inner(t.add_input(x)))
        with choice.false_block() as f:
            f.add_output(f.add_input(x) * 2.0)
        y = choice()
        way = br.sin(x)
        (pushed,) = br.jvp(y, x, way)
        (pulled,) = br.gradients(y, x, [br.cos(x)])
        fetch = [y, pushed, pulled, br.sum(pushed * br.cos(x)), br.sum(pulled * way)]
    found = [
        br.Executor(mode=mode).run(prog, br.Scope(), {"x": ROWS}, fetch)
        for mode in ("interpret", "compile")
    ]
    for interpreted, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, interpreted, rtol=1e-10)
    np.testing.assert_allclose(found[0][3], found[0][4], rtol=1e-10)
    with br.Program() as alone:
        x = br.data("x", [2, 3], "float64")
        want = inner(x)
    (kept,) = br.Executor(mode="interpret").run(alone, br.Scope(), {"x": ROWS[::2]}, [want])
    np.testing.assert_allclose(found[0][0][::2], kept, rtol=1e-12)
