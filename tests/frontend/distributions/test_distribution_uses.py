"""Divergences, distributions of other libraries, programs with distributions, and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import braces as br
from braces.errors import DTypeError, ProgramError, ShapeError
from tests.frontend.refusing import refuse, refuse_here
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized
D = br.distributions
Made = D.Distribution


def as64(*given: float) -> list[br.Var]:
    return [br.constant(np.float64(x)) for x in given]


def run(mode: str, prog: br.Program, fetch: Any, feed: Any = None, seed: int = 3) -> Any:
    return br.testing.run(prog, feed, fetch, mode=mode, seed=seed)


# ---- divergences -----------------------------------------------------------------------------

Law = tuple[Callable[[], Made], Any]
P: dict[str, Law] = {
    "Normal": (lambda: D.Normal(*as64(0.3, 0.7)), stats.norm(0.3, 0.7)),
    "Laplace": (lambda: D.Laplace(*as64(0.3, 0.7)), stats.laplace(0.3, 0.7)),
    "Cauchy": (lambda: D.Cauchy(*as64(0.3, 0.7)), stats.cauchy(0.3, 0.7)),
    "Gumbel": (lambda: D.Gumbel(*as64(0.3, 0.7)), stats.gumbel_r(0.3, 0.7)),
    "Logistic": (lambda: D.Logistic(*as64(0.3, 0.7)), stats.logistic(0.3, 0.7)),
    "StudentT": (lambda: D.StudentT(*as64(5.0, 0.3, 0.7)), stats.t(5.0, 0.3, 0.7)),
    "Uniform": (lambda: D.Uniform(*as64(0.3, 1.0)), stats.uniform(0.3, 0.7)),
    "Beta": (lambda: D.Beta(*as64(1.7, 2.5)), stats.beta(1.7, 2.5)),
    "Gamma": (lambda: D.Gamma(*as64(1.7, 2.5)), stats.gamma(1.7, scale=1 / 2.5)),
    "Exponential": (lambda: D.Exponential(*as64(2.5)), stats.expon(scale=1 / 2.5)),
    "Chi2": (lambda: D.Chi2(*as64(3.5)), stats.chi2(3.5)),
    "Weibull": (lambda: D.Weibull(*as64(1.5, 2.5)), stats.weibull_min(2.5, scale=1.5)),
    "Pareto": (lambda: D.Pareto(*as64(1.5, 3.5)), stats.pareto(3.5, scale=1.5)),
    "LogNormal": (lambda: D.LogNormal(*as64(0.3, 0.7)), stats.lognorm(0.7, scale=np.exp(0.3))),
    "InverseGamma": (lambda: D.InverseGamma(*as64(3.5, 2.5)), stats.invgamma(3.5, scale=2.5)),
    "FisherSnedecor": (lambda: D.FisherSnedecor(*as64(3.5, 9.0)), stats.f(3.5, 9.0)),
    "HalfNormal": (lambda: D.HalfNormal(*as64(0.7)), stats.halfnorm(scale=0.7)),
    "Bernoulli": (lambda: D.Bernoulli(*as64(0.3)), stats.bernoulli(0.3)),
    "Geometric": (lambda: D.Geometric(*as64(0.3)), stats.geom(0.3, loc=-1)),
    "Poisson": (lambda: D.Poisson(*as64(1.7)), stats.poisson(1.7)),
    "Binomial": (lambda: D.Binomial(9, *as64(0.3)), stats.binom(9, 0.3)),
}
Q: dict[str, Law] = {
    "Normal": (lambda: D.Normal(*as64(-0.4, 1.2)), stats.norm(-0.4, 1.2)),
    "Laplace": (lambda: D.Laplace(*as64(-0.4, 1.2)), stats.laplace(-0.4, 1.2)),
    "Cauchy": (lambda: D.Cauchy(*as64(-0.4, 1.2)), stats.cauchy(-0.4, 1.2)),
    "Gumbel": (lambda: D.Gumbel(*as64(-0.4, 1.2)), stats.gumbel_r(-0.4, 1.2)),
    "Uniform": (lambda: D.Uniform(*as64(-0.4, 1.2)), stats.uniform(-0.4, 1.6)),
    "Beta": (lambda: D.Beta(*as64(0.8, 1.2)), stats.beta(0.8, 1.2)),
    "Gamma": (lambda: D.Gamma(*as64(0.8, 1.2)), stats.gamma(0.8, scale=1 / 1.2)),
    "Exponential": (lambda: D.Exponential(*as64(1.2)), stats.expon(scale=1 / 1.2)),
    "Chi2": (lambda: D.Chi2(*as64(1.2)), stats.chi2(1.2)),
    "Weibull": (lambda: D.Weibull(*as64(0.8, 1.2)), stats.weibull_min(1.2, scale=0.8)),
    "Pareto": (lambda: D.Pareto(*as64(0.8, 1.2)), stats.pareto(1.2, scale=0.8)),
    "LogNormal": (
        lambda: D.LogNormal(*as64(-0.4, 1.2)),
        stats.lognorm(1.2, scale=np.exp(-0.4)),
    ),
    "InverseGamma": (lambda: D.InverseGamma(*as64(0.8, 1.2)), stats.invgamma(0.8, scale=1.2)),
    "HalfNormal": (lambda: D.HalfNormal(*as64(1.2)), stats.halfnorm(scale=1.2)),
    "Bernoulli": (
        lambda: D.Bernoulli(logits=as64(float(special.logit(0.8)))[0]),
        stats.bernoulli(0.8),
    ),
    "Geometric": (lambda: D.Geometric(*as64(0.8)), stats.geom(0.8, loc=-1)),
    "Poisson": (lambda: D.Poisson(*as64(0.8)), stats.poisson(0.8)),
    "Binomial": (lambda: D.Binomial(9, *as64(0.8)), stats.binom(9, 0.8)),
}
GAMMAS = ("Gamma", "Exponential", "Chi2")
POSITIVE = ("Beta", "InverseGamma", "LogNormal", "Pareto", "Weibull")
ANY = (
    "FisherSnedecor", "Laplace", "Gumbel", "Logistic", "StudentT", "Uniform", "HalfNormal",
    *POSITIVE, *GAMMAS,
)  # fmt: skip
PAIRS = [
    *((name, name) for name in Q if name not in GAMMAS),
    *((p, q) for p in (*GAMMAS, *POSITIVE) for q in GAMMAS),
    *((p, "Normal") for p in ANY),
]


def measured(p: Any, q: Any) -> float:
    """The divergence, as its definition says it."""
    if hasattr(p.dist, "pmf"):
        k = np.arange(*p.support()) if np.isfinite(p.support()[1]) else np.arange(200)
        k = np.append(k, k[-1] + 1)
        logs = np.where(p.pmf(k) > 0, p.logpmf(k) - q.logpmf(k), 0.0)
        return float(np.sum(p.pmf(k) * logs))
    z = np.linspace(-8.0, 8.0, 4001)  # whose probabilities are those of draws below
    x = np.where(z < 0, p.ppf(special.ndtr(z)), p.isf(special.ndtr(-z)))
    return float(integrate.simpson(stats.norm.pdf(z) * (p.logpdf(x) - q.logpdf(x)), x=z))


def test_divergences_are_those_of_their_definition() -> None:
    with br.Program() as prog:
        made = [D.kl_divergence(P[p][0](), Q[q][0]()) for p, q in PAIRS]
    found = run("compile", prog, made)
    for (p, q), value in zip(PAIRS, found, strict=True):
        np.testing.assert_allclose(value, measured(P[p][1], Q[q][1]), 5e-6, err_msg=p + q)


def test_nothing_diverges_from_itself() -> None:
    with br.Program() as prog:
        made = [D.kl_divergence(law(), law()) for name, (law, _) in P.items() if name in Q]
    np.testing.assert_allclose(run("compile", prog, made), 0.0, atol=1e-12)


def test_what_has_no_room_diverges_infinitely() -> None:
    with br.Program() as prog:
        made = [
            D.kl_divergence(D.Uniform(0.0, 2.0), D.Uniform(0.0, 1.0)),
            D.kl_divergence(D.Pareto(1.0, 1.0), D.Pareto(2.0, 1.0)),
            D.kl_divergence(D.Bernoulli(0.5), D.Bernoulli(0.0)),
            D.kl_divergence(D.Categorical([0.5, 0.5]), D.Categorical([1.0, 0.0])),
        ]
        zero = D.kl_divergence(D.Categorical([1.0, 0.0]), D.Categorical([1.0, 0.0]))
        other = D.kl_divergence(D.Binomial(3, 0.5), D.Binomial(br.constant(4.0), 0.5))
    *found, none, unlike = run("interpret", prog, [*made, zero, other])
    assert found == [np.inf] * 4
    assert none == 0.0
    assert np.isnan(unlike)


def test_divergences_of_vectors_and_classes() -> None:
    a, b = np.array([0.6, 1.7, 2.5]), np.array([1.3, 0.9, 2.0])
    s, t = np.array([[2.0, 0.6], [0.6, 1.0]]), np.array([[1.0, -0.3], [-0.3, 0.5]])
    m = np.array([0.5, -1.0])
    with br.Program() as prog:
        one, two = br.constant(a), br.constant(b)
        wide = D.Normal(br.constant(np.ones((2, 3))), 1.5)
        standard = D.Normal(br.zeros([3]), 1.0)
        made = [
            D.kl_divergence(D.Dirichlet(one), D.Dirichlet(two)),
            D.kl_divergence(D.Categorical(one), D.Categorical(logits=br.log(two))),
            D.kl_divergence(D.OneHotCategorical(one), D.OneHotCategorical(two)),
            D.kl_divergence(
                D.MultivariateNormal(br.constant(m), s),
                D.MultivariateNormal([0.0, 0.0], scale_tril=br.constant(np.linalg.cholesky(t))),
            ),
            D.kl_divergence(D.Independent(wide, 1), D.Independent(standard, 1)),
        ]
    found = run("compile", prog, made)
    p, q = a / a.sum(), b / b.sum()
    classes = np.sum(p * np.log(p / q))
    psi = special.digamma
    logs = psi(a) - psi(a.sum())
    norms = [special.gammaln(x).sum() - special.gammaln(x.sum()) for x in (b, a)]
    inverse = np.linalg.inv(t)
    dets = np.log(np.linalg.det(t) / np.linalg.det(s))
    answers = [
        norms[0] - norms[1] + np.sum((a - b) * logs),
        classes,
        classes,
        0.5 * (np.trace(inverse @ s) + m @ inverse @ m - 2 + dets),
        3 * (0.5 * (1.5**2 + 1 - 1) - np.log(1.5)) * np.ones(2),
    ]
    for value, answer in zip(found, answers, strict=True):
        np.testing.assert_allclose(value, answer, 1e-10)


# ---- classes, axes and mixtures --------------------------------------------------------------


@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_classes_have_their_probabilities(mode: str) -> None:
    logits = np.array([[0.3, -1.0, 2.0], [0.0, -np.inf, 0.5]])
    picked = np.array([2, 0])
    with br.Program() as prog:
        x = br.constant(logits)
        d = D.Categorical(logits=x)
        drawn = d.sample([400])
        inside, outside = d.log_prob(br.constant(picked)), d.log_prob([3, -1])
        entropy = d.entropy()
        grad = br.gradients(br.sum(inside) + br.sum(entropy), [x])[0]
        probs = D.Categorical(br.softmax(x)).entropy()
        fetch = [
            inside,
            outside,
            entropy,
            drawn,
            d.mode,
            grad,
            probs,
            br.gradients(entropy, [x])[0],
        ]
    found = run(mode, prog, fetch)
    logs = special.log_softmax(logits, axis=-1)
    p = np.exp(logs)
    entropies = special.entr(p).sum(-1)
    np.testing.assert_allclose(found[0], logs[[0, 1], picked])
    np.testing.assert_array_equal(found[1], [-np.inf, -np.inf])
    np.testing.assert_allclose(found[2], entropies)
    np.testing.assert_allclose(found[6], entropies)
    assert (found[3].shape, found[3].dtype) == ((400, 2), np.dtype("i8"))
    often = np.stack([(found[3] == k).mean(0) for k in range(3)], axis=-1)
    np.testing.assert_allclose(often, p, atol=0.12)
    np.testing.assert_array_equal(found[4], [2, 2])
    slope = -p * (np.where(p > 0, logs, 0.0) + entropies[:, None])
    np.testing.assert_allclose(found[7], slope, atol=1e-12)
    np.testing.assert_allclose(found[5], np.eye(3)[picked] - p + slope, atol=1e-12)


def test_axes_of_a_batch_can_be_those_of_a_draw() -> None:
    mean, x = np.arange(6.0).reshape(2, 3), np.ones((4, 1, 3))
    with br.Program() as prog:
        base = D.Normal(br.constant(mean), 0.5)
        d = D.Independent(base, 1)
        all_of_it = D.Independent(base, 2)
        assert (d.batch_shape, d.event_shape, d.has_rsample) == ((2,), (3,), True)
        fetch = [d.log_prob(x), d.entropy(), d.mean, d.sample([5]), all_of_it.log_prob(x)]
        refuse(
            prog_with_loss(), ProgramError, lambda: D.Independent(D.Normal(), 0).cdf(0.5), "cdf"
        )
    logs, entropy, means, drawn, whole = run("compile", prog, fetch)
    wanted = stats.norm(mean, 0.5).logpdf(x)
    np.testing.assert_allclose(logs, wanted.sum(-1))
    np.testing.assert_allclose(whole, wanted.sum((-2, -1)))
    np.testing.assert_allclose(entropy, np.full(2, 3 * stats.norm(0, 0.5).entropy()))
    np.testing.assert_array_equal(means, mean)
    assert drawn.shape == (5, 2, 3)


def prog_with_loss() -> br.Program:
    with br.Program() as program:
        br.sum(br.data("x", ["batch", 4]), name="loss")
    return program


def test_mixtures_are_sums_of_their_components() -> None:
    w, mean, spread = (
        np.array([0.2, 0.5, 0.3]),
        np.array([-2.0, 0.0, 3.0]),
        np.array([0.5, 1.0, 0.2]),
    )
    x = np.array([-3.0, 0.1, 2.9])
    with br.Program() as prog:
        which = D.Categorical(br.constant(w))
        d = D.MixtureSameFamily(which, D.Normal(br.constant(mean), spread))
        wide = D.MixtureSameFamily(
            which, D.Independent(D.Normal(br.constant(np.stack([mean, -mean], -1)), 0.5), 1)
        )
        assert (wide.batch_shape, wide.event_shape) == ((), (2,))
        fetch = [d.log_prob(x), d.cdf(x), d.mean, d.variance, d.sample([4000])]
        fetch += [wide.sample([7]), wide.mean, wide.log_prob([0.0, 0.0]), wide.variance]
    found = run("compile", prog, fetch)
    each = stats.norm(mean, spread)
    middle = np.sum(w * mean)
    variance = np.sum(w * (spread**2 + (mean - middle) ** 2))
    np.testing.assert_allclose(found[0], np.log(np.sum(w * each.pdf(x[:, None]), -1)))
    np.testing.assert_allclose(found[1], np.sum(w * each.cdf(x[:, None]), -1))
    np.testing.assert_allclose(found[2:4], [middle, variance])
    below = lambda x: np.sum(w * each.cdf(np.asarray(x)[..., None]), -1)  # noqa: E731
    assert stats.kstest(found[4], below).pvalue > 1e-3
    assert found[5].shape == (7, 2)
    np.testing.assert_allclose(found[6], [middle, -middle], atol=1e-12)
    near = stats.norm(mean, 0.5).pdf(0.0) * stats.norm(-mean, 0.5).pdf(0.0)
    np.testing.assert_allclose(found[7], np.log(np.sum(w * near)))
    np.testing.assert_allclose(found[8], np.sum(w * (0.25 + (mean - middle) ** 2)) * np.ones(2))


@pytest.mark.thorough
def test_relaxed_classes_have_the_density_of_relaxed_yes_and_no() -> None:
    x = np.array([0.01, 0.3, 0.9])
    with br.Program() as prog:
        logit = br.constant(np.float64(0.7))
        two = br.stack([logit, br.zeros_like(logit)])
        heat = br.constant(np.float64(0.6))
        fetch = [
            D.RelaxedOneHotCategorical(heat, logits=two).log_prob(np.stack([x, 1 - x], -1)),
            D.RelaxedBernoulli(heat, logits=logit).log_prob(x),
            D.RelaxedOneHotCategorical(0.5, br.constant(np.array([0.2, 0.3, 0.5]))).rsample(
                [3000]
            ),
            D.RelaxedOneHotCategorical(0.01, logits=br.zeros([4])).rsample([50]),
        ]
        cold = D.RelaxedOneHotCategorical(0.01, logits=br.zeros([4]))
        fetch.append(cold.log_prob(fetch[-1]))
    classes, yes, drawn, cold_draws, cold_logs = run("compile", prog, fetch)
    np.testing.assert_allclose(classes, yes, 1e-10)
    np.testing.assert_allclose(drawn.sum(-1), 1.0)
    often = np.bincount(drawn.argmax(-1), minlength=3) / 3000
    np.testing.assert_allclose(often, [0.2, 0.3, 0.5], atol=0.04)
    assert cold_draws.min() > 0
    assert np.isfinite(cold_logs).all()


def test_straight_draws_have_the_gradients_of_probabilities() -> None:
    with br.Program() as prog:
        logits, w = br.constant(np.array([0.3, -1.0, 2.0])), np.array([1.0, 2.0, 4.0])
        d = D.OneHotCategoricalStraightThrough(logits=logits)
        x = d.rsample()
        both = [br.gradients(br.sum(y * w), [logits])[0] for y in (x, d.mean)]
        less = D.kl_divergence(d, D.OneHotCategorical(logits=logits))
    drawn, found, wanted, none = run("compile", prog, [x, *both, less])
    np.testing.assert_allclose(np.sort(drawn), [0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(found, wanted)
    assert abs(none) < 1e-15


# ---- in programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_batches_may_have_a_name_and_the_program_is_saved(tmp_path: Path, mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch", 3])
        d = D.Normal(x, br.exp(x))
        x1, logs = d.rsample([2], name="drawn"), d.log_prob(0.5)
        less = D.kl_divergence(d, D.Normal())
        assert [str(v.type) for v in (x1, logs, less)] == [
            "f32[2,batch,3]", "f32[batch,3]", "f32[batch,3]",
        ]  # fmt: skip
    prog.save(tmp_path / "d.br")
    again = br.Program.load(tmp_path / "d.br")
    feed = {"x": np.full((4, 3), 0.25, "f4")}
    names = [v.name for v in (x1, logs, less)]
    first, second = (run(mode, p, names, feed) for p in (prog, again))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(first[1], stats.norm(0.25, np.exp(0.25)).logpdf(0.5), 1e-5)


def test_each_trip_of_a_loop_draws_anew_and_gradients_go_back(mode: str) -> None:
    steps = 4
    with br.Program() as prog:
        mean = br.data("mean", [2], dtype="float64")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(br.zeros([steps, 2], dtype="float64"))
            h = net.add_memory(init=br.zeros([2], dtype="float64"))
            d = D.Normal(mean + row, 0.5)
            x = d.rsample()
            more = h + D.Gamma(2.0, br.exp(mean)).log_prob(br.exp(x))
            h.update(more)
            net.add_output(x)
            net.add_output(more)
        drawn, logs = rnn()
        grad = br.gradients(br.sum(drawn) + br.sum(logs[-1]), [mean])[0]
    m = np.array([0.3, -0.2])
    x, last, g = run(mode, prog, [drawn, logs[-1], grad], {"mean": m})
    assert len(np.unique(x)) == 2 * steps
    np.testing.assert_allclose(
        last, stats.gamma(2.0, scale=np.exp(-m)).logpdf(np.exp(x)).sum(0)
    )
    slope = steps + np.sum(2 - np.exp(m + x) + 1 - np.exp(m + x), axis=0)
    np.testing.assert_allclose(g, slope, 1e-10)


def test_a_variational_autoencoder_learns() -> None:
    rng = np.random.default_rng(0)
    code = rng.normal(size=(256, 1))
    seen = (code @ np.array([[2.0, -1.0, 0.5]]) + 0.1 * rng.normal(size=(256, 3))).astype("f4")
    with br.Program() as prog:
        x = br.data("x", ["batch", 3])
        posterior = D.Normal(br.fc(x, 1), br.exp(br.fc(x, 1)))
        z = posterior.rsample()
        decoded = D.Independent(D.Normal(br.fc(z, 3), 0.2), 1)
        less = D.kl_divergence(
            D.Independent(posterior, 1), D.Independent(D.Normal(br.zeros([1]), 1.0), 1)
        )
        loss = br.mean(less - decoded.log_prob(x))
        br.optimizer.adam(0.05).minimize(loss)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=0)
    losses = [exe.run(prog, scope, {"x": seen}, [loss])[0] for _ in range(150)]
    covariance = np.cov(seen.T, bias=True)
    best = -np.mean(stats.multivariate_normal(seen.mean(0), covariance).logpdf(seen))
    assert losses[0] > 20
    assert losses[-1] < best + 2.5


def test_parameters_and_values_meet_in_one_dtype() -> None:
    with br.Program():
        double = br.data("double", [3], dtype="float64")
        whole = br.data("whole", [3], dtype="int64")
        half = br.data("half", [3], dtype="float16")
        assert str(D.Normal().log_prob(double).type) == "f64[3]"
        assert str(D.Poisson(2.0).log_prob(whole).type) == "f32[3]"
        assert str(D.Normal(whole, 1.0).mean.type) == "f32[3]"
        assert str(D.Normal(half, 1.0).rsample().type) == "f16[3]"
        assert str(D.Gamma(2.0, 1.0, dtype="float64").rsample([2]).type) == "f64[2]"
        assert str(D.Bernoulli(0.5).sample([2]).type) == "f32[2]"


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_draws_of_16_bits_have_densities(dtype: str) -> None:
    kinds: list[Made] = [
        D.Normal(dtype=dtype), D.Gamma(2.0, dtype=dtype), D.Beta(2.0, 3.0, dtype=dtype),
        D.Dirichlet([1.0, 2.0], dtype=dtype), D.RelaxedBernoulli(0.5, 0.3, dtype=dtype),
        D.RelaxedOneHotCategorical(0.5, [0.3, 0.7], dtype=dtype), D.StudentT(3.0, dtype=dtype),
    ]  # fmt: skip
    with br.Program() as prog:
        drawn = [d.sample([20]) for d in kinds]
        logs = [d.log_prob(x) for d, x in zip(kinds, drawn, strict=True)]
    for found in run("compile", prog, [*drawn, *logs]):
        assert str(found.dtype) == dtype
        assert np.isfinite(found.astype(float)).all()


def test_rows_have_densities_of_their_own_distributions(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch"], dtype="float64")
        choice = br.create_if_else(x > 0.0)
        with choice.true_block() as case:
            case.add_output(D.Gamma(2.0, 1.0).log_prob(case.add_input(x)))
        with choice.false_block() as case:
            case.add_output(D.Normal(case.add_input(x), 1.0).log_prob(0.5))
        logs = choice()
        grad = br.gradients(br.sum(logs), [x])[0]
    feed = {"x": np.array([1.0, -1.0, 2.0])}
    found, slope = run(mode, prog, [logs, grad], feed)
    gamma = stats.gamma(2.0).logpdf([1.0, 2.0])
    np.testing.assert_allclose(found, [gamma[0], stats.norm(-1, 1).logpdf(0.5), gamma[1]])
    np.testing.assert_allclose(slope, [0.0, 1.5, -0.5], atol=1e-12)


def test_a_method_is_one_block_with_a_name() -> None:
    with br.Program() as prog:
        d = D.HalfNormal(2.0)
        d.rsample([2])
        d.sample(name="noise")
        assert d.stddev.ndim == 0
    assert [op.name for op in prog.block(0).ops if op.type == "block"] == [
        "half_normal_rsample", "noise", "half_normal_stddev",
    ]  # fmt: skip


# ---- what is refused -------------------------------------------------------------------------

BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: D.Normal(0.0, 0.0), ProgramError, "scale=0.0 is out of range for Normal"),
    (lambda: D.Normal(0.0, [1.0, -1.0]), ProgramError, "Pass 0 < scale."),
    (lambda: D.Gamma(-1.0), ProgramError, "concentration=-1.0"),
    (lambda: D.Uniform(1.0, 1.0), ProgramError, "high - low"),
    (lambda: D.Bernoulli(1.5), ProgramError, "Pass 0 <= probs <= 1."),
    (lambda: D.Bernoulli(), ProgramError, "probs=... or logits=..."),
    (lambda: D.Categorical([0.5], [0.1]), ProgramError, "`logits`, got both"),
    (lambda: D.Categorical(0.5), ShapeError, "`probs` of rank 1 or more"),
    (lambda: D.Dirichlet([1.0, -2.0]), ProgramError, "concentration"),
    (lambda: D.Multinomial(0, [0.5, 0.5]), ProgramError, "total_count of 1 or more, got 0"),
    (lambda: D.Multinomial(1.5, [0.5, 0.5]), ProgramError, "expected an integer"),  # pyright: ignore[reportArgumentType]
    (lambda: D.MultivariateNormal([0.0]), ProgramError, "`scale_tril`, got neither"),
    (lambda: D.MultivariateNormal([0.0, 0.0], [1.0, 1.0]), ShapeError, "rank 2"),
    (lambda: D.Normal([0.0, 1.0], np.ones(3)), ShapeError, "broadcast"),
    (lambda: D.Normal(dtype="int32").mean, DTypeError, "real floating dtype"),
    (lambda: D.Normal().sample(["batch", None]), ShapeError, "needs a size"),
    (lambda: D.Normal([0.0, 1.0]).log_prob(np.ones(3)), ShapeError, "broadcast"),
    (lambda: D.Poisson(2.0).entropy(), ProgramError, "entropy of Poisson has no closed form"),
    (lambda: D.Gamma(2.0).icdf(0.5), ProgramError, "br.quantile(d.sample"),
    (lambda: D.RelaxedBernoulli(1.0, 0.5).mean, ProgramError, "br.mean(d.sample"),
    (lambda: D.kl_divergence(D.Normal(), D.Cauchy()), ProgramError, "p.log_prob(x) - q"),
    (lambda: D.kl_divergence(D.Normal(), 1.0), ProgramError, "expected a distribution"),  # pyright: ignore[reportArgumentType]
    (lambda: D.Independent(D.Normal(), 1), ShapeError, "1 of 0 batch axes"),
    (lambda: D.Independent(2.0, 0), ProgramError, "expected a distribution"),  # pyright: ignore[reportArgumentType]
    (
        lambda: D.MixtureSameFamily(D.Categorical([0.5, 0.5]), D.Normal(0.0, np.ones(3))),
        ShapeError,
        "one component for each class",
    ),
    (lambda: D.MixtureSameFamily(D.Normal(), D.Normal()), ProgramError, "Categorical"),  # pyright: ignore[reportArgumentType]
]  # fmt: skip


@pytest.mark.parametrize(("do", "error", "part"), BAD)
def test_bad_input_is_refused_by_line(do: Any, error: type[Exception], part: str) -> None:
    refuse_here(prog_with_loss(), error, do, part)


def test_an_error_names_its_distribution() -> None:
    with br.Program(), pytest.raises(ProgramError) as caught:
        D.Normal(0.0, -1.0)
    assert "at: Normal, at " in str(caught.value)


@pytest.mark.parametrize("moment", ["mean", "variance", "stddev", "mode"])
def test_an_error_of_a_moment_names_the_moment_as_its_place(moment: str) -> None:
    with br.Program(), pytest.raises(DTypeError, match=f"(?m)^  at: {moment}, at "):
        getattr(D.Normal(dtype="int32"), moment)
