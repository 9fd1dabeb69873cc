"""Loops inside row-wise cases: values and first derivatives against plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

Array = np.ndarray[Any, Any]
X = np.array([[0.4, -0.3], [-0.2, 0.5], [0.7, 0.15], [0.3, 0.25]], "float64")


def slopes(function: Callable[[Array], float], x: Array) -> Array:
    """Central differences."""
    steps = np.eye(x.size).reshape(x.size, *x.shape) * 1e-6
    found = [(function(x + step) - function(x - step)) / 2e-6 for step in steps]
    return np.reshape(found, x.shape)


def row_wise_in_a_loop_of_a_row_wise_case(x: br.Var) -> br.Var:
    outer = br.create_if_else(x[:, 0] > 0.0)
    with outer.true_block() as case:
        rows = case.add_input(x)
        loop = br.create_while(max_trips=9)
        with loop.block() as body:
            m = body.add_memory(init=rows)
            n = body.add_memory(init=br.constant(0.0))
            body.set_condition(n < 3.0)
            inner = br.create_if_else(m[:, 1] > 0.1)
            with inner.true_block() as yes:
                q = yes.add_input(m)
                yes.add_output(br.tanh(q) * q)
            with inner.false_block() as no:
                no.add_output(no.add_input(m) * 0.7 + 0.2)
            m.update(inner())
            n.update(n + 1.0)
        case.add_output(loop.final(m))
    outer.pass_through(x)
    return outer()


def in_python(x: Array) -> Array:
    out = x.copy()
    for i, row in enumerate(x):
        for _ in range(3 if row[0] > 0 else 0):
            m = out[i]
            out[i] = np.tanh(m) * m if m[1] > 0.1 else m * 0.7 + 0.2
    return out


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize("x", [X, -np.abs(X), np.abs(X)], ids=["some", "none", "all"])
def test_a_loop_of_row_wise_branches_in_a_row_wise_case_runs_each_row_on_its_own(
    mode: str, x: Array
) -> None:
    with br.Program() as program:
        given = br.data("x", ["b", 2], dtype="float64")
        out = row_wise_in_a_loop_of_a_row_wise_case(given)
        (grad,) = br.gradients(br.sum(out**3), given)
    assert grad is not None
    got = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": x}, fetch=[out, grad])
    np.testing.assert_allclose(got[0], in_python(x), rtol=1e-6)

    def loss(there: Array) -> float:
        return float((in_python(there) ** 3).sum())

    np.testing.assert_allclose(got[1], slopes(loss, x), rtol=1e-5, atol=1e-8)
