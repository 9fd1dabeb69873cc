"""Draws follow their distributions, move with their parameters, and refuse impossible ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import braces as br
from braces.errors import BracesError, DTypeError, ProgramError, RunError, ShapeError

N = 2000
R = br.random
PARAMS = {"loc": 0.5, "scale": 1.5, "a": 0.7, "b": 2.5, "p": 0.3, "df": 3.0, "n": 12.0}

Drawn = Callable[[dict[str, br.Var]], br.Var]

MOVED: dict[str, tuple[Drawn, Any]] = {
    "uniform": (
        lambda v: R.uniform([N], v["loc"], v["loc"] + v["scale"]),
        stats.uniform(0.5, 1.5),
    ),
    "normal": (lambda v: R.normal([N], v["loc"], v["scale"]), stats.norm(0.5, 1.5)),
    "truncated_normal": (
        lambda v: R.truncated_normal([N], v["loc"], v["scale"], low=-1.0, high=0.5),
        stats.truncnorm(-1, 0.5, 0.5, 1.5),
    ),
    "exponential": (lambda v: R.exponential([N], v["scale"]), stats.expon(scale=1.5)),
    "laplace": (lambda v: R.laplace([N], v["loc"], v["scale"]), stats.laplace(0.5, 1.5)),
    "gumbel": (lambda v: R.gumbel([N], v["loc"], v["scale"]), stats.gumbel_r(0.5, 1.5)),
    "logistic": (lambda v: R.logistic([N], v["loc"], v["scale"]), stats.logistic(0.5, 1.5)),
    "cauchy": (lambda v: R.cauchy([N], v["loc"], v["scale"]), stats.cauchy(0.5, 1.5)),
}
"""The distributions with `loc` and `scale`."""
TRIED: dict[str, tuple[Drawn, Any]] = {
    "gamma": (lambda v: R.gamma([N], v["a"], v["scale"]), stats.gamma(0.7, scale=1.5)),
    "beta": (lambda v: R.beta([N], v["a"], v["b"]), stats.beta(0.7, 2.5)),
    "dirichlet": (
        lambda v: R.dirichlet([N], br.stack([v["a"], v["b"], v["df"]]))[:, 1],
        stats.beta(2.5, 3.7),
    ),
    "chisquare": (lambda v: R.chisquare([N], v["df"]), stats.chi2(3.0)),
    "student_t": (
        lambda v: R.student_t([N], v["df"], v["loc"], v["scale"]),
        stats.t(3.0, 0.5, 1.5),
    ),
    "normal_vectors": (
        lambda v: R.multivariate_normal([N], v["loc"], np.array([[2.25, 1], [1, 1]]))[:, 0],
        stats.norm(0.5, 1.5),
    ),
}
COUNTS: dict[str, tuple[Drawn, Any]] = {
    "bernoulli": (lambda v: R.bernoulli([N], v["p"]), stats.bernoulli(0.3)),
    "geometric": (lambda v: R.geometric([N], v["p"]), stats.geom(0.3)),
    "rademacher": (lambda v: (R.rademacher([N]) + 1) * 0.5 + 0 * v["p"], stats.bernoulli(0.5)),
    "choice": (lambda v: R.choice(4, [N]), stats.randint(0, 4)),
    "choice of p": (
        lambda v: R.choice(2, [N], probs=br.stack([2 - 2 * v["p"], 2 * v["p"]])),
        stats.bernoulli(0.3),
    ),
}
TRIED_COUNTS: dict[str, tuple[Drawn, Any]] = {
    "poisson": (lambda v: R.poisson([N], v["df"]), stats.poisson(3.0)),
    "poisson of a large rate": (lambda v: R.poisson([N], 10 * v["df"]), stats.poisson(30.0)),
    "binomial": (lambda v: R.binomial([N], v["n"], v["p"]), stats.binom(12, 0.3)),
    "binomial of many": (lambda v: R.binomial([N], 90, 1 - v["p"]), stats.binom(90, 0.7)),
}


def params() -> dict[str, br.Var]:
    return {name: br.data(name, [], dtype="float64") for name in PARAMS}


def run(mode: str, prog: br.Program, fetch: Any, feed: Any = PARAMS, seed: int = 3) -> Any:
    return br.testing.run(prog, feed, fetch, mode=mode, seed=seed)


def drawn(mode: str, table: dict[str, tuple[Drawn, Any]]) -> dict[str, Any]:
    with br.Program() as prog:
        given = params()
        made = {name: draw(given) for name, (draw, _) in table.items()}
    return dict(zip(made, run(mode, prog, list(made.values())), strict=True))


def check_reals(found: dict[str, Any], table: dict[str, tuple[Drawn, Any]]) -> None:
    for name, values in found.items():
        assert (values.shape, values.dtype) == ((N,), np.dtype("f8")), name
        assert stats.kstest(values, table[name][1].cdf).pvalue > 1e-3, name


def check_counts(found: dict[str, Any], table: dict[str, tuple[Drawn, Any]]) -> None:
    for name, values in found.items():
        law = table[name][1]
        ends = np.unique(law.ppf(np.linspace(0.02, 0.98, 13)))
        wanted = N * np.diff(np.concatenate([[0.0], law.cdf(ends), [1.0]]))
        places = np.searchsorted(ends, values.astype(float), side="left")
        counted = np.bincount(places, minlength=len(wanted))
        some = wanted > 0
        assert (counted[~some] == 0).all(), name
        found_p = stats.chisquare(counted[some], wanted[some]).pvalue
        assert found_p > 1e-3, name


# ---- what is drawn ---------------------------------------------------------------------------


def test_numbers_by_an_inverse_follow_their_distributions() -> None:
    table = MOVED | COUNTS
    found = drawn("compile", table)
    check_reals({name: found[name] for name in MOVED}, MOVED)
    check_counts({name: found[name] for name in COUNTS}, COUNTS)


@pytest.mark.thorough
def test_both_modes_draw_the_same() -> None:
    table = MOVED | COUNTS | TRIED | TRIED_COUNTS
    found, again = (drawn(mode, table) for mode in ("compile", "interpret"))
    for name, values in found.items():
        np.testing.assert_allclose(again[name], values, 1e-12, 1e-12, err_msg=name)


@pytest.mark.thorough
def test_numbers_that_are_tried_follow_their_distributions(mode: str) -> None:
    check_reals(drawn(mode, TRIED), TRIED)


@pytest.mark.thorough
def test_counts_that_are_tried_follow_their_distributions(mode: str) -> None:
    check_counts(drawn(mode, TRIED_COUNTS), TRIED_COUNTS)


def test_vectors_have_their_covariance() -> None:
    wanted = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
    with br.Program() as prog:
        mean = br.data("mean", [2, 1, 3])
        of_tril = R.multivariate_normal([2, 4000], mean, scale_tril=np.linalg.cholesky(wanted))
        whole = R.multivariate_normal([4000], 0.0, wanted, dtype="float64")
    means = np.arange(6.0).reshape(2, 1, 3)
    first, second = run("compile", prog, [of_tril, whole], {"mean": means})
    np.testing.assert_allclose(first.mean(1, keepdims=True), means, atol=0.1)
    for found in (*first, second):
        np.testing.assert_allclose(np.cov(found.T), wanted, atol=0.12)


def test_choices_without_replacement_have_each_once(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 2])
        some = R.choice(x, 4, replace=False)
        likely = [R.choice(5, [2, 1], replace=False, probs=[1.0, 0.0, 2.0, 0.0, 0.0])] * 2
        again = R.choice(x, [3, 2], axis=0)
    given = np.arange(8.0, dtype="f4").reshape(4, 2)
    rows, first, second, many = run(mode, prog, [some, *likely, again], {"x": given})
    np.testing.assert_array_equal(np.sort(rows[:, 0]), given[:, 0])
    np.testing.assert_array_equal(rows[:, 1] - rows[:, 0], np.ones(4))
    assert set(first.ravel()) == set(second.ravel()) == {0, 2}
    assert many.shape == (3, 2, 2)


def test_draws_of_16_bits_are_as_fine_as_others() -> None:
    with br.Program() as prog:
        made = [R.exponential([N], dtype="bfloat16"), R.gumbel([N], dtype="float16")]
    for values in run("compile", prog, made, {}):
        assert values.astype("f4").max() > 6  # of 8 bits alone, none would be


def test_each_trip_draws_anew_and_the_same_again_for_a_seed() -> None:
    with br.Program() as prog:
        x = br.data("x", [4, 3])
        _, ys = br.scan(lambda c, row: (c, R.exponential(scale=row)), 0.0, x)
    feed = {"x": np.ones((4, 3))}
    found = [
        run(mode, prog, ys, feed, seed) for mode, seed in (("compile", 1), ("interpret", 1))
    ]
    np.testing.assert_allclose(found[0], found[1], 1e-6)
    assert len(np.unique(found[0])) == 12
    assert np.abs(run("interpret", prog, ys, feed, 2) - found[0]).min() > 0


# ---- gradients -------------------------------------------------------------------------------


def test_what_is_moved_moves_with_place_and_spread() -> None:
    names = ["normal", "exponential", "laplace", "gumbel", "logistic", "cauchy"]
    with br.Program() as prog:
        given = params()
        made = [MOVED[name][0](given) for name in names]
        grads = [br.gradients(out, [given["loc"], given["scale"]]) for out in made]
        fetch = [
            *made,
            *(pair[1] for pair in grads),
            *(pair[0] for pair in grads if pair[0] is not None),
        ]
    values = run("compile", prog, fetch)
    n = len(names)
    for name, out, grad in zip(names, values[:n], values[n : 2 * n], strict=True):
        loc = 0.0 if name == "exponential" else 0.5
        np.testing.assert_allclose(grad, ((out - loc) / 1.5).sum(), 1e-10)
    assert values[2 * n :] == [N] * (n - 1)


@pytest.mark.thorough
def test_gamma_variables_are_right_and_keep_the_probability_below_them() -> None:
    """d out / d a = -(dF / da) / density, by SciPy's distribution function."""
    with br.Program() as prog:
        a = br.data("a", [3, 1], dtype="float64")
        x = R.gamma([3, 500], a)
        (moved,) = br.jvp(x, a, br.ones_like(a))
    at = np.array([[0.4], [1.7], [20.0]])
    out, slope = run("interpret", prog, [x, moved], {"a": at})
    for row, concentration in zip(out, at, strict=True):
        assert stats.kstest(row, stats.gamma(*concentration).cdf).pvalue > 1e-3
    step = 1e-5 * at
    change = stats.gamma.cdf(out, at + step) - stats.gamma.cdf(out, at - step)
    np.testing.assert_allclose(slope, -change / (2 * step) / stats.gamma.pdf(out, at), 1e-5)


@pytest.mark.thorough
def test_parts_of_a_whole_move_as_their_means() -> None:
    with br.Program() as prog:
        given = params()
        made = [TRIED["beta"][0](given), TRIED["dirichlet"][0](given)]
        grads = [br.gradients(out, [given["a"], given["b"]]) for out in made]
    found = np.array(run("compile", prog, [g for pair in grads for g in pair])) / N
    a, b, rest = 0.7, 2.5, 3.7
    wanted = [b / (a + b) ** 2, -a / (a + b) ** 2, -b / (b + rest) ** 2, rest / (b + rest) ** 2]
    np.testing.assert_allclose(found, wanted, atol=0.01)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda: R.exponential(scale=-1.0), ProgramError, "scale=-1.0"),
        (lambda: R.gumbel(scale=0.0), ProgramError, "scale=0.0 is out of range for gumbel"),
        (lambda: R.gamma(concentration=[1.0, -2.0]), ProgramError, "out of range for gamma"),
        (lambda: R.beta(concentration0=np.nan), ProgramError, "concentration0=nan"),
        (lambda: R.dirichlet(concentration=2.0), ShapeError, "at least one axis, got a scalar"),
        (lambda: R.student_t(df=0), ProgramError, "df=0"),
        (lambda: R.poisson(rate=-0.5), ProgramError, "rate=-0.5"),
        (lambda: R.binomial(total_count=-1), ProgramError, "total_count=-1"),
        (lambda: R.binomial(probs=1.5), ProgramError, "probs=1.5"),
        (lambda: R.geometric(probs=0), ProgramError, "probs=0"),
        (lambda: R.laplace([2], loc=np.zeros(3)), ShapeError, "laplace cannot broadcast"),
        (lambda: R.cauchy([1], loc=np.zeros((2, 1))), ShapeError, "do not broadcast to"),
        (lambda: R.logistic([2], dtype="int32"), DTypeError, "expected a real floating dtype"),
        (
            lambda: R.multivariate_normal(),
            ProgramError,
            "`covariance_matrix` or `scale_tril`, got neither",
        ),
        (
            lambda: R.multivariate_normal(covariance_matrix=[1.0]),
            ShapeError,
            "expected a matrix",
        ),
        (lambda: R.choice(3, ["n"], replace=False), ProgramError, "requires a static shape"),
        (lambda: R.choice(3, [4], replace=False), ShapeError, "topk"),
        (lambda: R.choice(3, probs=[0.5, 0.5]), ShapeError, "choice cannot broadcast"),
        (lambda: R.permutation(None), ShapeError, "needs a size"),
        (lambda: R.randint(None, 0, 3), ShapeError, "needs a size"),  # pyright: ignore[reportArgumentType]
        (lambda: br.zeros(None), ShapeError, "needs a size"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_impossible_draws_are_refused(
    draw: Callable[[], Any], error: type[BracesError], message: str
) -> None:
    with br.Program() as prog, pytest.raises(error, match=message):
        draw()
    assert not prog.block(0).ops


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda x: R.poisson(rate=x), "Poisson rate is negative"),
        (lambda x: R.binomial(None, 5, x), "number of trials is negative, or a probability"),
    ],
)
def test_a_run_refuses_impossible_counts(draw: Callable[[Any], Any], message: str) -> None:
    with br.Program() as prog:
        out = draw(br.data("x", [2]))
    with pytest.raises(RunError, match=message):
        run("interpret", prog, out, {"x": [0.5, -1.0]})


@pytest.mark.thorough
def test_impossible_variables_give_nan_or_zero() -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        made = [R.gamma(concentration=x), R.geometric(probs=x)]
    numbers, counts = run("interpret", prog, made, {"x": [-1.0, np.nan]})
    assert np.isnan(numbers).all()
    np.testing.assert_array_equal(counts, [0, 0])
