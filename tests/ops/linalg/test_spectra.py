"""Matrix factors: singular matrices, equal eigenvalues, and missing derivatives."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import braces as br
from braces.errors import GradientError, ShapeError

pytestmark = pytest.mark.unoptimized


def test_singular_matrices_give_what_jax_gives_and_no_error(mode: str) -> None:
    with br.Program() as program:
        x = br.constant([[1.0, 2.0], [2.0, 4.0]])
        solved, inverse = br.linalg.solve(x, br.constant([1.0, 1.0])), br.linalg.inv(x)
        sign, size = br.linalg.slogdet(x)
    made = br.testing.run(program, {}, [solved, inverse, sign, size], mode=mode)
    assert not np.isfinite(made[0]).any()
    assert not np.isfinite(made[1]).any()
    assert made[2:] == [0.0, -np.inf]


def test_equal_eigenvalues_have_slopes_and_their_vectors_none(mode: str) -> None:
    with br.Program() as program:
        x = br.parameter("x", [2, 2], init=br.init.identity())
        values, vectors = br.linalg.eigh(x)
        (of_values,) = br.gradients([br.sum(values)], [x])
        (of_vectors,) = br.gradients([br.sum(vectors)], [x])
        (of_singular,) = br.gradients([br.sum(br.linalg.svdvals(x))], [x])
    scope = br.Scope()
    exe = br.Executor(mode=mode)
    exe.init(program, scope)
    found = exe.run(program, scope, fetch=[of_values, of_vectors, of_singular])
    np.testing.assert_allclose(found[0], np.eye(2), atol=1e-6)
    assert np.isnan(found[1]).any()
    np.testing.assert_allclose(found[2], np.eye(2), atol=1e-6)


def test_vectors_beyond_the_values_are_given_and_have_no_derivative(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [3, 2], dtype="float64")
        (u, s, vh), (q, r) = br.linalg.svd(x), br.linalg.qr(x, mode="complete")
        for out, fix in ((u, "full_matrices=False"), (q, "br.linalg.qr")):
            for differentiate in (
                partial(br.gradients, [out], [x]),
                partial(br.jvp, [out], [x], [br.ones_like(x)]),
            ):
                with pytest.raises(GradientError, match="is not differentiable") as caught:
                    differentiate()
                assert fix in str(caught.value)
        again = u[:, :2] * s @ vh, q @ r, br.matrix_transpose(u) @ u, q @ br.matrix_transpose(q)
    given = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]])
    made = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": given}, fetch=again)
    for found, wanted in zip(made, (given, given, np.eye(3), np.eye(3)), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_matrices_of_a_batch_are_rows_of_a_branch(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 2, 2], dtype="float64")
        choice = br.create_if_else(x[:, 0, 0] > 1.0)
        with choice.true_block() as large:
            rows = large.add_input(x)
            large.add_output(br.linalg.inv(rows) + br.linalg.solve(rows, rows))
        choice.pass_through(x)
        (grad,) = br.gradients([br.sum(choice())], [x])
    given = np.stack([np.eye(2) * 2, np.zeros((2, 2)), np.eye(2) * 4])
    feed = {"x": given}
    found = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=grad)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], np.ones((2, 2)))
    np.testing.assert_allclose(np.diagonal(found[2]), -1 / 16, rtol=1e-6)


def test_what_is_no_square_is_refused() -> None:
    with br.Program():
        x, y = br.data("x", ["b", 3, 2]), br.data("y", [2, 2])
        for build in (
            lambda: br.linalg.inv(x),
            lambda: br.linalg.eigh(x),
            lambda: br.linalg.solve(x, y),
        ):
            with pytest.raises(ShapeError, match="expected square matrices, got 3 by 2"):
                build()
        with pytest.raises(ShapeError, match="unknown mode 'full'"):
            br.linalg.qr(x, mode="full")
        with pytest.raises(ShapeError):
            br.linalg.solve(y, br.data("z", [3]))
