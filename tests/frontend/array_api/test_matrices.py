"""Functions of matrices, as NumPy and SciPy have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError, ShapeError
from tests.frontend.array_api.oracles import Case, both, hold_slopes, hold_values
from tests.frontend.refusing import get, prog, refuse_here
from tests.plugins.shares import thorough
from tests.support.onnx_round_trip import check_exported

__all__ = ["prog"]

RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(4, 2, 3)), RNG.normal(size=(4, 3))
SQUARE, TALL = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(5, 2))
ORDERS = (2, 1, 3.0, np.inf, -np.inf)
MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
SINGULAR = np.stack([np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]), np.zeros((3, 3)), np.eye(3)])


def norms(x: Any, ord: Any) -> Any:
    return np.linalg.norm(x, ord=ord, axis=(-2, -1))


SMOOTH = [
    Case("inner", *both("inner"), (X, Y)),
    Case("tensordot", *both("tensordot", axes=([0, 2], [0, 1])), (X, Y)),
    Case("cross", *both("cross"), (X, Y[:, None])),
    Case("kron", *both("kron"), (X, Y[:2]), fixed=True),
    Case("vdot", *both("vdot"), (Y, X[:, 0])),
    Case("vecdot", lambda x, y: br.vecdot(x, y, axis=0), lambda x, y: (x * y).sum(0),
         (Y, X[:, 1])),
    Case("power", *both("matrix_power", 5), (SQUARE,)),
    Case("power_down", *both("matrix_power", -2), (SQUARE + 4 * np.eye(3),)),
    Case("diagonal", lambda x: br.linalg.diagonal(x, 1),
         lambda x: np.diagonal(x, 1, 1, 2), (X,)),
    Case("trace", lambda x: br.linalg.trace(x, -1, 0, 2),
         lambda x: np.trace(x, -1, 0, 2), (X,)),
    *(
        Case(f"norm_{p}", lambda x, p=p: br.linalg.vector_norm(x, 1, ord=p),
             lambda x, p=p: np.linalg.norm(x, p, 1), (Y,), curved=p not in (1, np.inf))
        for p in ORDERS
    ),
    *(
        Case(f"matrix_norm_{p}", lambda x, p=p: br.linalg.matrix_norm(x, p),
             lambda x, p=p: norms(x, p), (X,))
        for p in MATRIX_ORDERS
    ),
    Case("lstsq", br.linalg.lstsq,
         lambda a, b: np.linalg.lstsq(a, b)[0], (TALL, TALL[:, 1] ** 2)),
    Case("lstsq_wide", lambda a, b: br.linalg.lstsq(br.matrix_transpose(a), b),
         lambda a, b: np.linalg.lstsq(a.T, b)[0], (TALL, Y[:2]), fixed=True),
    Case("cov", lambda x: br.cov(x), np.cov, (Y,)),
    Case("cov_columns", lambda x: br.cov(x, rowvar=False, correction=0.0),
         lambda x: np.cov(x, rowvar=False, ddof=0), (Y,)),
    Case("cov_of_one", br.cov, np.cov, (Y[:, 0],)),
    Case("corrcoef", br.corrcoef, np.corrcoef, (Y,)),
]  # fmt: skip
"""The functions with gradients with respect to all float operands."""
EXACT = [
    Case("rank", lambda x: br.linalg.matrix_rank(x), np.linalg.matrix_rank, (SINGULAR,)),
    Case(
        "rank_wide",
        lambda x: br.linalg.matrix_rank(x, rtol=0.9),
        lambda x: np.linalg.matrix_rank(x, rtol=0.9),
        (X,),
    ),
    Case("no_power", *both("matrix_power", 0), (SQUARE,)),
    Case(
        "power_of_integers", *both("matrix_power", 3), (np.arange(4).reshape(2, 2),), fixed=True
    ),
    Case("scalars", *both("inner", 2.0), (X,)),
    Case("vdot_of_complex", *both("vdot"), (1j * Y, Y + 2j)),
    Case("ranks_differ", *both("kron"), (Y[0], Y), fixed=True),
    Case(
        "count",
        lambda x: br.linalg.vector_norm(x, 1, ord=0),
        lambda x: (x != 0).sum(1) * 1.0,
        (SINGULAR[0],),
    ),
    Case(
        "kept",
        lambda x: br.linalg.matrix_norm(x, 1, keepdims=True),
        lambda x: norms(x, 1)[:, None, None],
        (X,),
    ),
    Case("no_diagonal", lambda x: br.linalg.diagonal(x, 7), lambda x: np.zeros((4, 0)), (X,)),
    Case(
        "nothing",
        lambda x: (br.linalg.trace(x), br.linalg.matrix_norm(x)),
        lambda _: (np.zeros(0),) * 2,
        (SQUARE[:0],),
    ),
    Case("singular", lambda x: br.linalg.pinv(x), np.linalg.pinv, (SINGULAR,)),
    Case("one_number", br.corrcoef, np.corrcoef, (Y[0],)),
]


@pytest.mark.unoptimized
@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_values_are_those_of_numpy(mode: str) -> None:
    hold_values([*SMOOTH, *EXACT], mode)


@pytest.mark.unoptimized
@pytest.mark.parametrize("cases", [SMOOTH[1::9], thorough((SMOOTH,))])
def test_slopes_are_those_of_differences(cases: list[Case], rng: np.random.Generator) -> None:
    hold_slopes(cases, rng)


@pytest.mark.unoptimized
def test_slopes_of_inverses_do_not_ask_whether_singular_values_are_equal(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3, 3], dtype="float64")
        (slope,) = br.gradients([br.sum(br.sin(br.linalg.pinv(x)))], [x])
        (curve,) = br.gradients([br.sum(slope * slope)], [x])
    found = br.Executor(mode=mode).run(
        prog, br.Scope(), {"x": SINGULAR[2:]}, fetch=[slope, curve]
    )
    np.testing.assert_allclose(found[0][0], -np.cos(np.eye(3)), atol=1e-12)
    assert np.isfinite(found[1]).all()


@pytest.mark.unoptimized
def test_matrices_of_a_step_and_of_a_branch_stay_on_their_own(mode: str) -> None:
    steps, lengths = RNG.normal(size=(3, 2, 3, 3)), np.array([3, 1])
    with br.Program() as prog:
        x = br.data("x", ["t", "b", 3, 3], dtype="float64")
        net = br.create_rnn(lengths=br.data("n", ["b"], dtype="int64"))
        with net.stepnet() as step:
            now = step.add_input(x)
            total = step.add_memory(init=br.zeros(["b"], "float64"))
            total.update(total + br.linalg.trace(br.linalg.matrix_power(now, 2)))
        branch = br.create_if_else(net.final(total) > 0.0)
        with branch.true_block() as case:
            case.add_output(
                br.linalg.cross(case.add_input(x[0, :, 0]), case.add_input(x[0, :, 1]))
            )
        with branch.false_block() as case:
            case.add_output(br.linalg.diagonal(case.add_input(x[1]), 0))
    made = [net.final(total), branch()]
    found = br.Executor(mode=mode).run(prog, br.Scope(), {"x": steps, "n": lengths}, fetch=made)
    there = np.arange(3)[:, None] < lengths
    totals = (np.trace(steps @ steps, axis1=2, axis2=3) * there).sum(0)
    np.testing.assert_allclose(found[0], totals)
    parts = np.cross(steps[0, :, 0], steps[0, :, 1]), np.diagonal(steps[1], 0, 1, 2)
    np.testing.assert_allclose(found[1], np.where(totals[:, None] > 0, *parts))


@pytest.mark.parametrize(
    ("error", "do", "parts"),
    [
        (
            ShapeError,
            lambda: br.linalg.cross(get("x"), get("x")),
            ["cross: expected an axis of size 3"],
        ),
        (
            ShapeError,
            lambda: br.tensordot(get("x"), get("x"), ([0], [0, 1])),
            ["equally many axes"],
        ),
        (ShapeError, lambda: br.tensordot(get("x"), get("w"), ([0], [3])), ["tensordot"]),
        (
            ShapeError,
            lambda: br.linalg.matrix_power(get("w"), 2),
            ["matrix_power: expected square matrices"],
        ),
        (
            ShapeError,
            lambda: br.linalg.trace(get("y")),
            ["trace: expected rank 2 or more, got 1"],
        ),
        (
            ShapeError,
            lambda: br.linalg.diagonal(get("x"), 0, 1, -1),
            ["diagonal: expected two different axes"],
        ),
        (
            ProgramError,
            lambda: br.linalg.matrix_norm(get("x"), 3),
            ["unknown order 3", "'nuc'"],
        ),
        (
            ShapeError,
            lambda: br.linalg.matrix_norm(get("y")),
            ["matrix_norm: expected rank 2 or more"],
        ),
        (
            ShapeError,
            lambda: br.linalg.lstsq(get("w"), np.ones(3)),
            ["lstsq: expected equally many rows"],
        ),
        (ShapeError, lambda: br.cov(np.zeros((2, 2, 2))), ["cov: expected a matrix"]),
        (ShapeError, lambda: br.linalg.inner(get("x"), get("w")), ["mismatch in inner"]),
    ],
)
def test_invalid_arguments_raise_errors_at_the_users_line(
    prog: br.Program, error: type[Exception], do: Callable[[], Any], parts: list[str]
) -> None:
    refuse_here(prog, error, do, *parts)


def test_compositions_are_models_of_onnx(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", [2, 3, 3])
        made = [br.linalg.cross(x[0], x[1]), br.linalg.trace(x),
                br.linalg.kron(x[0], x[1]), br.linalg.matrix_power(x, 3),
                br.linalg.matrix_norm(x, 1), br.tensordot(x, x, ([1], [2]))]  # fmt: skip
    check_exported(prog, [{"x": SQUARE.astype("f4")}], made, tmp_path)
