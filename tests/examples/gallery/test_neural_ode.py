"""The neural differential equation at a small size."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from examples.gallery import neural_ode
from examples.gallery.neural_ode import SMALL, solve_by_adjoint, solve_by_loop

pytestmark = pytest.mark.unoptimized


def gradients_of(solver: object, steps: int, mode: str) -> list[np.ndarray]:
    """The solution after a time of 1, and the gradients of a sum of squares."""
    rng = np.random.default_rng(0)
    feed = {"y": rng.normal(size=(3, 2))}
    feed |= {n: rng.normal(size=s) for n, s in (("a", [2, 8]), ("b", [8]), ("c", [8, 2]))}
    with br.Program() as prog:
        y, *w = (br.data(n, list(v.shape), dtype="float64") for n, v in feed.items())
        end = solver(y, w, steps, 1.0 / steps)  # pyright: ignore[reportCallIssue]
        grads = br.gradients([br.sum(end**2)], [y, *w])
    return br.Executor(mode=mode).run(prog, br.Scope(), feed, [end, *grads])


def test_the_adjoint_approaches_the_gradient_of_the_loop_with_order_4() -> None:
    apart = []
    for steps in (4, 8):
        pairs = zip(
            gradients_of(solve_by_loop, steps, "interpret"),
            gradients_of(solve_by_adjoint, steps, "interpret"),
            strict=True,
        )
        apart.append([np.abs(a - b).max() for a, b in pairs])
    assert apart[0][0] == apart[1][0] == 0
    ratios = np.array(apart[0][1:]) / np.array(apart[1][1:])
    assert 8 < ratios.min() < ratios.max() < 32


@pytest.mark.parametrize("adjoint", [False, True], ids=["loop", "adjoint"])
def test_both_modes_compute_the_same_gradient(adjoint: bool) -> None:
    solver = solve_by_adjoint if adjoint else solve_by_loop
    compiled, interpreted = (gradients_of(solver, 3, mode) for mode in ("compile", "interpret"))
    for a, b in zip(compiled, interpreted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_training_fits_the_furs_and_the_adjoint_needs_less_memory() -> None:
    made = neural_ode.build(SMALL)
    scope, losses, _ = neural_ode.train(SMALL, made)
    assert losses[-1] < 0.8 * losses[0]
    solution = neural_ode.simulate(made, scope, 2)
    np.testing.assert_allclose(solution[0], neural_ode.FURS[0])
    assert (solution > 0).all()
    peaks = []
    for adjoint in (False, True):
        fit = neural_ode.build(neural_ode.Settings(adjoint=adjoint, substeps=16))
        peaks.append(fit.program.cost(fetch=fit.grads, sizes={"n": 18}).peak_bytes)
    assert peaks[1] < 0.1 * peaks[0]
