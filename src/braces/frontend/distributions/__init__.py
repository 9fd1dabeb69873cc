"""Probability distributions: random draws with gradients, densities, moments, divergences.

    d = br.distributions.Normal(mean, stddev)
    x = d.rsample()                              gradients go to mean and stddev
    prior = br.distributions.Normal(0.0, 1.0)
    loss = br.mean(-likelihood(x) + br.distributions.kl_divergence(d, prior))

Names, arguments and shapes are those of `torch.distributions`. Parameters are numbers, arrays
or variables and broadcast to `batch_shape`. A draw of shape `s` is `[*s, *batch_shape,
*event_shape]`; `log_prob` takes values that broadcast with that. Each method appends operators,
as a plain block, where it is called: there is no state, and in a loop each iteration draws
new numbers. Invalid parameters are errors if they are numbers. The values of variables are
known in a run only; invalid ones give NaN.

Values outside the support have a `log_prob` of -inf and a gradient of 0. A method without a
closed form is an error, which names a Monte Carlo estimate. Draws are those of `br.random`, but
counts are floats here, for use in arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.distributions.bounded import Beta, Kumaraswamy, Uniform
from braces.frontend.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from braces.frontend.distributions.core.distribution import Distribution
from braces.frontend.distributions.discrete import (
    Bernoulli,
    Binomial,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from braces.frontend.distributions.kl_divergence import kl_divergence
from braces.frontend.distributions.mixture_independent import Independent, MixtureSameFamily
from braces.frontend.distributions.multivariate import Dirichlet, MultivariateNormal
from braces.frontend.distributions.positive import (
    Chi2,
    Exponential,
    Gamma,
    HalfCauchy,
    HalfNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from braces.frontend.distributions.ratio import FisherSnedecor, InverseGamma
from braces.frontend.distributions.real_line import (
    Cauchy,
    Gumbel,
    Laplace,
    Logistic,
    Normal,
    StudentT,
)
from braces.frontend.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Dirichlet",
    "Distribution", "Exponential", "FisherSnedecor", "Gamma", "Geometric", "Gumbel",
    "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "Laplace",
    "LogNormal", "Logistic", "MixtureSameFamily", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "Uniform",
    "Weibull", "kl_divergence",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.distributions", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
