"""Distributions equal those of SciPy; gradients are correct; invalid values are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import braces as br
from braces.errors import ProgramError

pytestmark = pytest.mark.unoptimized
D = br.distributions
PARAMS = {"loc": 0.5, "scale": 1.5, "a": 0.7, "b": 2.5, "p": 0.3, "df": 3.2, "n": 12.0}
PARAMS |= {"logit": float(special.logit(0.3))}
HALVES = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
CORNERS = np.eye(3)[[2, 0]]
INSIDE = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])

Vars = dict[str, Any]


@dataclass
class Law:
    """A distribution of variables, SciPy's of the same numbers, and values of it."""

    make: Callable[[Vars], D.Distribution]
    wanted: Any
    values: Any = None
    outside: Any = None

    def at(self) -> np.ndarray[Any, Any]:
        if self.values is not None:
            return np.asarray(self.values, float)
        return self.wanted.ppf([0.003, 0.2, 0.55, 0.9, 0.999])

    def inner(self) -> np.ndarray[Any, Any]:
        """Those that are not far away."""
        return self.at() if self.values is not None else self.at()[1:4]


def weights(v: Vars) -> Any:
    return br.stack([v["p"], v["b"], v["a"]])


W = np.array([0.3, 2.5, 0.7])
NUMBERS: dict[str, Law] = {
    "Normal": Law(lambda v: D.Normal(v["loc"], v["scale"]), stats.norm(0.5, 1.5)),
    "Laplace": Law(lambda v: D.Laplace(v["loc"], v["scale"]), stats.laplace(0.5, 1.5)),
    "Cauchy": Law(lambda v: D.Cauchy(v["loc"], v["scale"]), stats.cauchy(0.5, 1.5)),
    "Gumbel": Law(lambda v: D.Gumbel(v["loc"], v["scale"]), stats.gumbel_r(0.5, 1.5)),
    "Logistic": Law(lambda v: D.Logistic(v["loc"], v["scale"]), stats.logistic(0.5, 1.5)),
    "StudentT": Law(
        lambda v: D.StudentT(v["df"], v["loc"], v["scale"]), stats.t(3.2, 0.5, 1.5)
    ),
    "Uniform": Law(
        lambda v: D.Uniform(v["loc"], v["loc"] + v["scale"]), stats.uniform(0.5, 1.5),
        outside=[0.4, 2.1],
    ),
    "Beta": Law(lambda v: D.Beta(v["a"], v["b"]), stats.beta(0.7, 2.5), outside=[-0.1, 1.1]),
    "Beta with a hump": Law(lambda v: D.Beta(v["df"], v["b"]), stats.beta(3.2, 2.5)),
    "Gamma": Law(
        lambda v: D.Gamma(v["a"], v["scale"]), stats.gamma(0.7, scale=1 / 1.5), outside=[-0.1]
    ),
    "Chi2": Law(lambda v: D.Chi2(v["df"]), stats.chi2(3.2), outside=[-1.0]),
    "Exponential": Law(
        lambda v: D.Exponential(v["scale"]), stats.expon(scale=1 / 1.5), outside=[-0.1]
    ),
    "Weibull": Law(
        lambda v: D.Weibull(v["scale"], v["b"]), stats.weibull_min(2.5, scale=1.5), outside=[-1]
    ),
    "Pareto": Law(
        lambda v: D.Pareto(v["scale"], v["df"]), stats.pareto(3.2, scale=1.5), outside=[1.4]
    ),
    "InverseGamma": Law(
        lambda v: D.InverseGamma(v["df"], v["scale"]), stats.invgamma(3.2, scale=1.5),
        outside=[-0.1, 0.0],
    ),
    "FisherSnedecor": Law(
        lambda v: D.FisherSnedecor(v["df"], v["n"]), stats.f(3.2, 12.0), outside=[-0.1]
    ),
    "LogNormal": Law(
        lambda v: D.LogNormal(v["loc"], v["scale"]), stats.lognorm(1.5, scale=np.exp(0.5)),
        outside=[-1.0, 0.0],
    ),
    "HalfNormal": Law(
        lambda v: D.HalfNormal(v["scale"]), stats.halfnorm(scale=1.5), outside=[-0.1]
    ),
    "HalfCauchy": Law(
        lambda v: D.HalfCauchy(v["scale"]), stats.halfcauchy(scale=1.5), outside=[-0.1]
    ),
}  # fmt: skip
COUNTS: dict[str, Law] = {
    "Bernoulli": Law(lambda v: D.Bernoulli(v["p"]), stats.bernoulli(0.3), [0, 1], [0.5, 2, -1]),
    "Bernoulli of logits": Law(
        lambda v: D.Bernoulli(logits=v["logit"]), stats.bernoulli(0.3), [0, 1]
    ),
    "Geometric": Law(
        lambda v: D.Geometric(v["p"]), stats.geom(0.3, loc=-1), [0, 1, 7, 30], [-1, 0.5]
    ),
    "Geometric of logits": Law(
        lambda v: D.Geometric(logits=v["logit"]), stats.geom(0.3, loc=-1), [0, 1, 7, 30]
    ),
    "Poisson": Law(lambda v: D.Poisson(v["b"]), stats.poisson(2.5), [0, 1, 7], [-1, 0.5]),
    "Binomial": Law(
        lambda v: D.Binomial(v["n"], v["p"]), stats.binom(12, 0.3), [0, 1, 7, 12], [-1, 0.5, 13]
    ),
    "Binomial of logits": Law(
        lambda v: D.Binomial(12, logits=v["logit"]), stats.binom(12, 0.3), [0, 1, 7, 12]
    ),
    "NegativeBinomial": Law(
        lambda v: D.NegativeBinomial(v["b"], v["p"]), stats.nbinom(2.5, 0.7), [0, 1, 9], [-1]
    ),
}
VECTORS: dict[str, Law] = {
    "Dirichlet": Law(
        lambda v: D.Dirichlet(weights(v)), stats.dirichlet(W), INSIDE,
        [[0.5, 0.5, 0.5], [-0.5, 1.0, 0.5]],
    ),
    "OneHotCategorical": Law(
        lambda v: D.OneHotCategorical(weights(v)), stats.multinomial(1, W / W.sum()), CORNERS,
        [[1.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]],
    ),
    "Multinomial": Law(
        lambda v: D.Multinomial(4, logits=br.log(weights(v))),
        stats.multinomial(4, W / W.sum()), [[1, 3, 0], [0, 4, 0], [1, 2, 1]], [[1, 2, 0]],
    ),
    "MultivariateNormal": Law(
        lambda v: D.MultivariateNormal(v["loc"] * weights(v), v["scale"] * HALVES),
        stats.multivariate_normal(0.5 * W, 1.5 * HALVES), INSIDE,
    ),
}  # fmt: skip
LAWS = NUMBERS | COUNTS | VECTORS


def params() -> Vars:
    return {name: br.data(name, [], dtype="float64") for name in PARAMS}


def run(mode: str, prog: br.Program, fetch: Any, feed: Any = PARAMS, seed: int = 3) -> Any:
    return br.testing.run(prog, feed, fetch, mode=mode, seed=seed)


def fetched(mode: str, prog: br.Program, made: dict[Any, br.Var], **given: Any) -> Any:
    return dict(zip(made, run(mode, prog, list(made.values()), **given), strict=True))


def same(found: Any, wanted: Any, what: str, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(found, wanted, rtol, 1e-12, err_msg=what)


# ---- values ----------------------------------------------------------------------------------

Q = np.array([1e-6, 0.1, 0.5, 0.8, 0.9999])


def forms(law: Law) -> dict[str, tuple[Callable[[D.Distribution], br.Var], Any]]:
    """What SciPy knows, too, and what it says."""
    oracle, at = law.wanted, law.at()
    log_prob = getattr(oracle, "logpdf", None) or oracle.logpmf
    columns = at.T if "alpha" in vars(oracle) else at
    found: dict[str, Any] = {
        "log_prob": (lambda d: d.log_prob(at), lambda: log_prob(columns)),
        "entropy": (lambda d: d.entropy(), oracle.entropy),
    }
    if law.outside is not None:
        outside = np.asarray(law.outside, float)
        found["outside"] = (lambda d: d.log_prob(outside), -np.inf)
    if hasattr(oracle, "ppf"):
        found["cdf"] = (lambda d: d.cdf(at), lambda: oracle.cdf(at))
        found["beyond"] = (lambda d: d.cdf([-np.inf, np.inf]), [0.0, 1.0])
        found["far"] = (lambda d: d.log_prob([-np.inf, np.inf]), -np.inf)
        found["icdf"] = (lambda d: d.icdf(Q), lambda: oracle.ppf(Q))
        found["mean"] = (lambda d: d.mean, oracle.mean)
        found["variance"] = (lambda d: d.variance, oracle.var)
        found["stddev"] = (lambda d: d.stddev, oracle.std)
    return found


def known(d: D.Distribution, what: str) -> bool:
    return getattr(type(d).forms, what, True) is not None


COSTLY = {
    "Beta", "Beta with a hump", "Gamma", "Chi2", "FisherSnedecor", "InverseGamma", "StudentT",
    *COUNTS,
} - {"Bernoulli"}  # fmt: skip
"""Their distribution functions are sums that are long to compile."""


def check_values(mode: str, laws: Iterable[str], without: tuple[str, ...] = ()) -> None:
    made: dict[Any, br.Var] = {}
    answers: dict[Any, Any] = {}
    with br.Program() as prog:
        v = params()
        for name in laws:
            d = LAWS[name].make(v)
            for what, (ask, answer) in forms(LAWS[name]).items():
                if known(d, what) and not (what in without and name in COSTLY):
                    made[name, what], answers[name, what] = ask(d), answer
    for key, value in fetched(mode, prog, made).items():
        answer = answers[key]
        same(value, answer() if callable(answer) else answer, str(key))


def test_values_are_those_of_scipy() -> None:
    check_values("compile", list(LAWS)[::2], without=("cdf", "beyond"))


@pytest.mark.thorough
def test_all_values_are_those_of_scipy_in_both_modes(mode: str) -> None:
    check_values(mode, LAWS)


def test_moments_of_vectors_are_those_of_scipy() -> None:
    made: dict[Any, br.Var] = {}
    with br.Program() as prog:
        v = params()
        for name, law in VECTORS.items():
            d = law.make(v)
            made |= {(name, "mean"): d.mean, (name, "variance"): d.variance}
    found = fetched("compile", prog, made)
    p = W / W.sum()
    answers = {
        "Dirichlet": (stats.dirichlet(W).mean(), stats.dirichlet(W).var()),
        "OneHotCategorical": (p, p * (1 - p)),
        "Multinomial": (4 * p, 4 * p * (1 - p)),
        "MultivariateNormal": (0.5 * W, 1.5 * np.diag(HALVES)),
    }
    for name, both in answers.items():
        for what, answer in zip(("mean", "variance"), both, strict=True):
            same(found[name, what], answer, name + what)


HUMPS = (
    "Normal", "Laplace", "Cauchy", "Gumbel", "Logistic", "StudentT", "Chi2", "Weibull",
    "LogNormal", "Kumaraswamy",
)  # fmt: skip


@pytest.mark.thorough
def test_no_value_near_a_mode_is_more_likely() -> None:
    made: dict[str, br.Var] = {}
    with br.Program() as prog:
        v = params()
        for name in (*HUMPS, "Beta with a hump", *COUNTS):
            d = D.Kumaraswamy(v["df"], v["b"]) if name == "Kumaraswamy" else LAWS[name].make(v)
            step = 1.0 if name in COUNTS else 1e-3
            made[name] = d.log_prob(d.mode + step * np.arange(-1.0, 2.0))
        made["wide"] = D.Normal([0.0, 1.0], np.ones((3, 1))).mode
    found = fetched("compile", prog, made)
    assert found.pop("wide").shape == (3, 2)
    for name, (below, here, above) in found.items():
        assert np.isfinite(here), name
        assert here >= max(below, above) - 1e-12, name


def test_kumaraswamy_is_what_its_integrals_say() -> None:
    a, b = 2.3, 1.7
    with br.Program() as prog:
        d = D.Kumaraswamy(br.constant(np.float64(a)), b)
        made = [d.log_prob([0.3, -0.1, 1.1]), d.mean, d.variance, d.entropy()]
    logs, *found = run("compile", prog, made, feed={})

    def density(x: Any) -> Any:
        return a * b * x ** (a - 1) * (1 - x**a) ** (b - 1)

    def mean_of(f: Callable[[Any], Any]) -> float:
        return integrate.quad(lambda x: density(x) * f(x), 1e-14, 1 - 1e-14)[0]

    mean = mean_of(lambda x: x)
    variance = mean_of(lambda x: (x - mean) ** 2)
    np.testing.assert_allclose(logs, [np.log(density(0.3)), -np.inf, -np.inf])
    wanted = [mean, variance, mean_of(lambda x: -np.log(density(x)))]
    np.testing.assert_allclose(found, wanted, 1e-8)


# ---- gradients -------------------------------------------------------------------------------

MOVED = [name for name in PARAMS if name != "n"]
ALONG = {name: np.cos(3.0 * i + 1) for i, name in enumerate(MOVED)}


def total(v: Vars, laws: Iterable[Law]) -> br.Var:
    """Return the units of log-densities and entropies."""
    found: list[br.Var] = []
    for i, law in enumerate(laws):
        d = law.make(v)
        found.append(br.sum(d.log_prob(law.inner())) * (0.3 + 0.1 * i))
        if known(d, "entropy"):
            found.append(d.entropy() * (0.7 - 0.05 * i))
    return br.sum(br.stack(found))


def slopes(loss: br.Var, of: list[br.Var]) -> list[br.Var]:
    """Its gradients; of what it does not read, zeros."""
    found = br.gradients(loss, of)
    return [br.zeros_like(x) if g is None else g for x, g in zip(of, found, strict=True)]


def moved(v: Vars) -> list[br.Var]:
    return [v[name] for name in MOVED]


def shifted(by: float) -> dict[str, float]:
    return {name: x + by * ALONG.get(name, 0.0) for name, x in PARAMS.items()}


def check_slopes(laws: Iterable[Law], orders: int) -> None:
    with br.Program() as prog:
        v = params()
        fetch = [total(v, laws)]
        for _ in range(orders):
            found = slopes(fetch[-1], moved(v))
            along = [ALONG[name] * g for name, g in zip(MOVED, found, strict=True)]
            fetch.append(br.sum(br.stack(along)))
    exe, h = br.Executor(), 1e-4
    here, above, below = (exe.run(prog, br.Scope(), shifted(by), fetch) for by in (0.0, h, -h))
    for order in range(orders):
        measured = (above[order] - below[order]) / (2 * h)
        np.testing.assert_allclose(here[order + 1], measured, 1e-5)


def test_gradients_are_slopes() -> None:
    check_slopes(list(LAWS.values())[1::2], 1)


@pytest.mark.thorough
@pytest.mark.parametrize("name", LAWS)
def test_gradients_of_both_orders_are_slopes(name: str) -> None:
    check_slopes([LAWS[name]], 2)


def test_values_that_cannot_be_drawn_have_gradients_of_zero() -> None:
    made: dict[str, br.Var] = {}
    with br.Program() as prog:
        v = params()
        for name, law in LAWS.items():
            if law.outside is not None:
                x = br.constant(np.asarray(law.outside, float))
                found = slopes(br.sum(law.make(v).log_prob(x)), [x, *moved(v)])
                made[name] = br.concat([br.reshape(g, [-1]) for g in found], axis=0)
    for name, found in fetched("compile", prog, made).items():
        assert not np.any(found), name


# ---- draws -----------------------------------------------------------------------------------

N = 1500
EVEN: dict[str, Callable[[Vars], D.Distribution]] = {
    **{name: law.make for name, law in NUMBERS.items()},
    "Kumaraswamy": lambda v: D.Kumaraswamy(v["a"], v["b"]),
    "RelaxedBernoulli": lambda v: D.RelaxedBernoulli(v["scale"], v["p"]),
    "RelaxedBernoulli of logits": lambda v: D.RelaxedBernoulli(0.8, logits=v["logit"]),
}


OF_TWO = ("Beta", "Beta with a hump", "FisherSnedecor", "StudentT")
"""Made of two numbers that move."""


def check_even(names: list[str]) -> None:
    made: dict[Any, br.Var] = {}
    with br.Program() as prog:
        v = params()
        for name in names:
            d = EVEN[name](v)
            x = d.rsample([N])
            below = d.cdf(x)
            made[name, "below"] = below
            made[name, "x"] = br.stack(slopes(br.sum(x[:20]), moved(v)))
            if name not in OF_TWO:
                weighed = br.sum(below[:20] * np.cos(np.arange(20)))
                made[name, "slopes"] = br.stack(slopes(weighed, moved(v)))
    found = fetched("compile", prog, made)
    for name in names:
        assert found[name, "below"].shape == (N,)
        assert stats.kstest(found[name, "below"], "uniform").pvalue > 1e-3, name
        assert np.any(found[name, "x"]), name
        if name not in OF_TWO:
            np.testing.assert_allclose(found[name, "slopes"], 0.0, atol=1e-7, err_msg=name)


def test_base_samples_are_uniform_and_fixed() -> None:
    """The distribution function of a draw is uniform, whatever the parameters are."""
    check_even(["Normal", "Gumbel", "Pareto", "Kumaraswamy", "RelaxedBernoulli"])


@pytest.mark.thorough
@pytest.mark.parametrize("name", EVEN)
def test_base_samples_of_each_family_are_uniform_and_fixed(
    name: str,
) -> None:
    check_even([name])


@pytest.mark.thorough
def test_draws_made_of_two_numbers_move_with_their_moments() -> None:
    with br.Program() as prog:
        v = params()
        d = D.Beta(v["df"], v["b"])
        x = d.rsample([20_000])
        about = [br.mean(x), br.mean(br.square(x))]
        exact = [d.mean, d.variance + br.square(d.mean)]
        fetch = [br.gradients(y, [v["df"], v["b"]]) for y in (*about, *exact)]
    found = run("compile", prog, [g for pair in fetch for g in pair])
    np.testing.assert_allclose(found[:4], found[4:], rtol=0.05)


@pytest.mark.thorough
def test_density_is_the_slope_of_the_distribution_function_and_icdf_its_inverse() -> None:
    made: dict[Any, br.Var] = {}
    with br.Program() as prog:
        v = params()
        for name, make in EVEN.items():
            d = make(v)
            x = d.sample([8])
            made[name, "slope"] = br.gradients(br.sum(d.cdf(x)), [x])[0]
            made[name, "density"] = br.exp(d.log_prob(x))
            if known(d, "icdf"):
                made[name, "again"] = d.icdf(d.cdf(x)) / x
    found = fetched("compile", prog, made)
    for name in EVEN:
        same(found[name, "slope"], found[name, "density"], name, rtol=1e-7)
        if (name, "again") in found:
            same(found[name, "again"], 1.0, name, rtol=1e-5)


def check_draws(mode: str, names: Iterable[str]) -> None:
    drawn = {name: LAWS[name] for name in names}
    made: dict[Any, br.Var] = {}
    with br.Program() as prog:
        v = params()
        for name, law in drawn.items():
            d = law.make(v)
            made[name, "x"], made[name, "log_prob"] = d.sample([N]), d.log_prob(d.sample([5]))
            made[name, "mean"], made[name, "stddev"] = d.mean, d.stddev
    found = fetched(mode, prog, made)
    for name in drawn:
        x = found[name, "x"]
        assert (x.shape[0], x.dtype) == (N, np.dtype("f8")), name
        off = np.abs(x.mean(0) - found[name, "mean"]) / found[name, "stddev"]
        assert np.all(off < 4.5 / np.sqrt(N)), name
        assert np.all(np.isfinite(found[name, "log_prob"])), name


def test_some_counts_and_vectors_have_the_mean_of_their_law() -> None:
    check_draws(
        "compile", ["Bernoulli", "Geometric", "OneHotCategorical", "MultivariateNormal"]
    )


@pytest.mark.thorough
def test_counts_and_vectors_have_the_mean_of_their_law_in_both_modes(mode: str) -> None:
    check_draws(mode, COUNTS | VECTORS)


def test_counts_do_not_move() -> None:
    kinds = [law.make for name, law in LAWS.items() if name in COUNTS or "ateg" in name]
    for make in [*kinds, LAWS["Multinomial"].make]:
        with br.Program() as prog:
            d = make(params())
            assert not d.has_rsample
        refuse_rsample(prog, d)


def refuse_rsample(prog: br.Program, d: D.Distribution) -> None:
    before = str(prog)
    with prog, pytest.raises(ProgramError, match=r"no reparameterized samples[^$]*Use "):
        d.rsample()
    assert str(prog) == before


def test_samples_have_no_gradient() -> None:
    with br.Program() as prog:
        v = params()
        d = D.Normal(v["loc"], v["scale"])
        found = br.gradients(br.sum(d.sample([3]) + d.rsample([3])), [v["loc"]])
    assert run("compile", prog, found)[0] == 3.0
