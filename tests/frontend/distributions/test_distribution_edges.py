"""Distributions at the ends of their supports and of the ranges of their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import braces as br

d, INF = br.distributions, np.inf

Build = Callable[[Callable[[Any], br.Var]], br.Var]
AT_ENDS: list[tuple[str, Build, float]] = [
    ("Geometric0 ent", lambda p: d.Geometric(p(0.0)).entropy(), INF),
    ("Geometric1 ent", lambda p: d.Geometric(p(1.0)).entropy(), 0),
    ("Geom0 cdf", lambda p: d.Geometric(p(0.0)).cdf(3.0), 0),
    ("Geom1 lp0", lambda p: d.Geometric(p(1.0)).log_prob(0.0), 0),
    ("Geom1 lp1", lambda p: d.Geometric(p(1.0)).log_prob(1.0), -INF),
    ("Geom l ent", lambda p: d.Geometric(logits=p(-INF)).entropy(), INF),
    ("Geom l ent1", lambda p: d.Geometric(logits=p(INF)).entropy(), 0),
    ("Kum11 0", lambda p: d.Kumaraswamy(p(1.0), p(1.0)).log_prob(0.0), 0),
    ("Kum11 1", lambda p: d.Kumaraswamy(p(1.0), p(1.0)).log_prob(1.0), 0),
    ("Kum21 0", lambda p: d.Kumaraswamy(p(2.0), p(1.0)).log_prob(0.0), -INF),
    ("Kum12 1", lambda p: d.Kumaraswamy(p(1.0), p(2.0)).log_prob(1.0), -INF),
    ("Kum.5 0", lambda p: d.Kumaraswamy(p(0.5), p(1.0)).log_prob(0.0), INF),
    ("Kum cdf0", lambda p: d.Kumaraswamy(p(1.0), p(1.0)).cdf(0.0), 0),
    ("Kum cdf1", lambda p: d.Kumaraswamy(p(1.0), p(0.5)).cdf(1.0), 1),
    ("kum icdf0", lambda p: d.Kumaraswamy(p(1.0), p(0.5)).icdf(0.0), 0),
    ("kum icdf1", lambda p: d.Kumaraswamy(p(1.0), p(0.5)).icdf(1.0), 1),
    ("Beta11 0", lambda p: d.Beta(p(1.0), p(1.0)).log_prob(0.0), 0),
    ("Beta11 1", lambda p: d.Beta(p(1.0), p(1.0)).log_prob(1.0), 0),
    ("Beta cdf0", lambda p: d.Beta(p(1.0), p(1.0)).cdf(0.0), 0),
    ("Exp 0", lambda p: d.Exponential(p(2.0)).log_prob(0.0), np.log(2)),
    ("Gamma1 0", lambda p: d.Gamma(p(1.0), p(1.0)).log_prob(0.0), 0),
    ("Gamma.5 0", lambda p: d.Gamma(p(0.5), p(1.0)).log_prob(0.0), INF),
    ("Gamma2 0", lambda p: d.Gamma(p(2.0), p(1.0)).log_prob(0.0), -INF),
    ("Chi2 0", lambda p: d.Chi2(p(2.0)).log_prob(0.0), -np.log(2)),
    ("Weib1 0", lambda p: d.Weibull(p(1.0), p(1.0)).log_prob(0.0), 0),
    ("Weib2 0", lambda p: d.Weibull(p(1.0), p(2.0)).log_prob(0.0), -INF),
    ("Weib.5 0", lambda p: d.Weibull(p(1.0), p(0.5)).log_prob(0.0), INF),
    ("Pareto s", lambda p: d.Pareto(p(1.0), p(2.0)).log_prob(1.0), np.log(2)),
    ("HalfN 0", lambda p: d.HalfNormal(p(1.0)).log_prob(0.0), 0.5 * np.log(2 / np.pi)),
    ("HalfC 0", lambda p: d.HalfCauchy(p(1.0)).log_prob(0.0), np.log(2 / np.pi)),
    ("U lo", lambda p: d.Uniform(p(0.0), p(2.0)).log_prob(0.0), -np.log(2)),
    ("U hi", lambda p: d.Uniform(p(0.0), p(2.0)).log_prob(2.0), -np.log(2)),
    ("F2 0", lambda p: d.FisherSnedecor(p(2.0), p(4.0)).log_prob(0.0), 0),
    ("F1 0", lambda p: d.FisherSnedecor(p(1.0), p(4.0)).log_prob(0.0), INF),
    ("F4 0", lambda p: d.FisherSnedecor(p(4.0), p(4.0)).log_prob(0.0), -INF),
    ("F cdf0", lambda p: d.FisherSnedecor(p(4.0), p(4.0)).cdf(0.0), 0),
    ("InvG 0", lambda p: d.InverseGamma(p(1.0), p(1.0)).log_prob(0.0), -INF),
    ("LogN 0", lambda p: d.LogNormal(p(0.0), p(1.0)).log_prob(0.0), -INF),
    ("Poi0 0", lambda p: d.Poisson(p(0.0)).log_prob(0.0), 0),
    ("Poi0 1", lambda p: d.Poisson(p(0.0)).log_prob(1.0), -INF),
    ("Poi0 cdf", lambda p: d.Poisson(p(0.0)).cdf(0.0), 1),
    ("Bin0", lambda p: d.Binomial(p(0.0), p(0.5)).log_prob(0.0), 0),
    ("Bin p0", lambda p: d.Binomial(p(3.0), p(0.0)).log_prob(0.0), 0),
    ("Bin p1", lambda p: d.Binomial(p(3.0), p(1.0)).log_prob(3.0), 0),
    ("Bin p1 2", lambda p: d.Binomial(p(3.0), p(1.0)).log_prob(2.0), -INF),
    ("Bin cdf p0", lambda p: d.Binomial(p(3.0), p(0.0)).cdf(0.0), 1),
    ("Bin cdf p1", lambda p: d.Binomial(p(3.0), p(1.0)).cdf(2.0), 0),
    ("NB p0", lambda p: d.NegativeBinomial(p(3.0), p(0.0)).log_prob(0.0), 0),
    ("NB p0 1", lambda p: d.NegativeBinomial(p(3.0), p(0.0)).log_prob(1.0), -INF),
    ("NB cdf p0", lambda p: d.NegativeBinomial(p(3.0), p(0.0)).cdf(0.0), 1),
    ("NB p1", lambda p: d.NegativeBinomial(p(3.0), p(1.0)).log_prob(5.0), -INF),
    ("NB cdf p1", lambda p: d.NegativeBinomial(p(3.0), p(1.0)).cdf(5.0), 0),
    ("NB mean p1", lambda p: d.NegativeBinomial(p(3.0), p(1.0)).mean, INF),
    ("NB mode p1 n1", lambda p: d.NegativeBinomial(p(1.0), p(1.0)).mode, 0),
    ("Bern ent0", lambda p: d.Bernoulli(p(0.0)).entropy(), 0),
    ("Bern ent l", lambda p: d.Bernoulli(logits=p(INF)).entropy(), 0),
    ("Bern lp l", lambda p: d.Bernoulli(logits=p(INF)).log_prob(1.0), 0),
    ("Geom lp l", lambda p: d.Geometric(logits=p(INF)).log_prob(0.0), 0),
    ("Bin lp l", lambda p: d.Binomial(p(3.0), logits=p(INF)).log_prob(3.0), 0),
    ("Bin lp -l", lambda p: d.Binomial(p(3.0), logits=p(-INF)).log_prob(0.0), 0),
    ("NB lp -l", lambda p: d.NegativeBinomial(p(3.0), logits=p(-INF)).log_prob(0.0), 0),
    ("Cat", lambda p: d.Categorical(p([0.0, 1.0])).log_prob(1), 0),
    ("Cat ent", lambda p: d.Categorical(p([0.0, 1.0])).entropy(), 0),
    ("OneHot", lambda p: d.OneHotCategorical(p([0.0, 1.0])).log_prob([0.0, 1.0]), 0),
    ("Mult", lambda p: d.Multinomial(3, p([0.0, 1.0])).log_prob([0.0, 3.0]), 0),
    ("Mult -", lambda p: d.Multinomial(3, p([0.0, 1.0])).log_prob([1.0, 2.0]), -INF),
    ("Dir11", lambda p: d.Dirichlet(p([1.0, 1.0])).log_prob([0.0, 1.0]), 0),
    ("Dir12", lambda p: d.Dirichlet(p([1.0, 1.0, 1.0])).log_prob([0.0, 1.0, 0.0]), np.log(2)),
    ("kl bern", lambda p: d.kl_divergence(d.Bernoulli(p(0.0)), d.Bernoulli(p(0.5))), np.log(2)),
    ("kl bern00", lambda p: d.kl_divergence(d.Bernoulli(p(0.0)), d.Bernoulli(p(0.0))), 0),
    ("kl geom11", lambda p: d.kl_divergence(d.Geometric(p(1.0)), d.Geometric(p(1.0))), 0),
    ("kl geom", lambda p: d.kl_divergence(d.Geometric(p(0.5)), d.Geometric(p(1.0))), INF),
    (
        "kl geom1.5",
        lambda p: d.kl_divergence(d.Geometric(p(1.0)), d.Geometric(p(0.5))),
        np.log(2),
    ),
    ("kl poi", lambda p: d.kl_divergence(d.Poisson(p(0.0)), d.Poisson(p(1.0))), 1),
    ("kl poi00", lambda p: d.kl_divergence(d.Poisson(p(0.0)), d.Poisson(p(0.0))), 0),
    ("kl poi10", lambda p: d.kl_divergence(d.Poisson(p(1.0)), d.Poisson(p(0.0))), INF),
    (
        "kl bin",
        lambda p: d.kl_divergence(d.Binomial(p(3.0), p(1.0)), d.Binomial(p(3.0), p(0.5))),
        3 * np.log(2),
    ),
    (
        "kl cat",
        lambda p: d.kl_divergence(d.Categorical(p([0.0, 1.0])), d.Categorical(p([0.5, 0.5]))),
        np.log(2),
    ),
]
"""A name, what is computed of parameters that only a run knows, and its limit."""


def test_values_at_ends_are_their_limits_and_no_nan(mode: str) -> None:
    feed: dict[str, Any] = {}

    def parameter(value: Any) -> br.Var:
        name = f"p{len(feed)}"
        feed[name] = np.float32(value)
        return br.data(name, np.shape(value))

    with br.Program() as program:
        fetch = {name: build(parameter) for name, build, _ in AT_ENDS}
    got = br.Executor(mode=mode).run(program, br.Scope(), feed, fetch)
    wrong = {
        name: (got[name], want)
        for name, _, want in AT_ENDS
        if not np.allclose(got[name], want, atol=1e-5)
    }
    assert not wrong


@pytest.mark.parametrize(
    ("name", "logit", "certain"),
    [("Bernoulli", INF, 1.0), ("Bernoulli", -INF, 0.0), ("Geometric", INF, 0.0)],
)
def test_the_slope_of_what_an_infinite_logit_makes_certain_is_zero(
    name: str, logit: float, certain: float
) -> None:
    with br.Program() as program:
        logits = br.data("logits", [])
        chance = getattr(d, name)(logits=logits).log_prob(certain)
        (slope,) = br.gradients([chance], [logits])
    got = br.Executor().run(program, br.Scope(), {"logits": np.float32(logit)}, [chance, slope])
    assert [float(one) for one in got] == [0.0, 0.0]


def test_normalisers_keep_their_digits_for_large_parameters() -> None:
    n = np.array([20.0, 1e4, 1e8, 1e12])
    k = np.array([[0.0, 1.0, 3.0, 10.0]]).T
    with br.Program() as program:
        count, hits = br.data("n", [4], "float64"), br.data("k", [4, 1], "float64")
        chance = 10.0 / count
        fetch = {
            "binomial": d.Binomial(count, chance).log_prob(hits),
            "negative": d.NegativeBinomial(count, chance).log_prob(hits),
            "multinomial": d.Multinomial(10**8, [1e-8, 1 - 1e-8], dtype="float64").log_prob(
                [3.0, 1e8 - 3.0]
            ),
            "dirichlet": d.Dirichlet([1e8, 2.0, 0.5], dtype="float64").log_prob(
                [1 - 3e-8, 2e-8, 1e-8]
            ),
        }
    got = br.Executor().run(program, br.Scope(), {"n": n, "k": k}, fetch)
    for (row, hit), (column, trials) in product(enumerate(k[:, 0]), enumerate(n)):
        p, ways = 10.0 / trials, math.comb(int(trials), int(hit))
        others = math.comb(int(trials + hit) - 1, int(hit))
        binomial = math.log(ways) + (trials - hit) * math.log1p(-p)
        negative = math.log(others) + trials * math.log1p(-p)
        for name, want in (("binomial", binomial), ("negative", negative)):
            want += hit * math.log(p)
            np.testing.assert_allclose(got[name][row, column], want, rtol=1e-9, atol=1e-9)
    poisson = stats.poisson.logpmf(3, 1.0)  # which the binomial distribution becomes
    np.testing.assert_allclose(got["multinomial"], poisson, rtol=1e-7)
    np.testing.assert_allclose(got["dirichlet"], 33.96214372531793, rtol=1e-9)
