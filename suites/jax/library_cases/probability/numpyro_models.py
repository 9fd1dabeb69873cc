"""Models of NumPyro: log densities, one step of samplers, and variational inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.contrib.control_flow import scan
from numpyro.infer import HMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal, AutoNormal
from numpyro.infer.reparam import LocScaleReparam
from numpyro.infer.util import initialize_model, log_density

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(23)
_RANDOM = np.random.default_rng(23)
EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
X = jnp.asarray(_RANDOM.normal(size=(8, 3)), "float32")
LABELS = jnp.asarray(_RANDOM.integers(0, 2, 8))
COUNTS = jnp.asarray(_RANDOM.integers(0, 6, 8))


def schools(effects: Any, errors: Any) -> None:
    """Eight schools, without a reparameterization."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, errors), obs=effects)


def logistic(x: Any, labels: Any) -> None:
    """Logistic regression with a horseshoe prior."""
    tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
    with numpyro.plate("features", 3):
        scale = numpyro.sample("scale", dist.HalfCauchy(1.0))
        weights = numpyro.sample("w", dist.Normal(0.0, scale * tau))
    numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=labels)


def regression(x: Any, y: Any) -> None:
    """Linear regression with correlated weights and Student's noise."""
    correlation = numpyro.sample("L", dist.LKJCholesky(3, 2.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0).expand([3]).to_event(1))
    factor = scale[:, None] * correlation
    weights = numpyro.sample("w", dist.MultivariateNormal(jnp.zeros(3), scale_tril=factor))
    numpyro.sample("y", dist.StudentT(4.0, x @ weights, 1.0), obs=y)


def counts(x: Any, observed: Any) -> None:
    """Zero-inflated and negative binomial counts."""
    weights = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    gate = numpyro.sample("gate", dist.Beta(2.0, 2.0))
    rate = jnp.exp(0.3 * x @ weights)
    numpyro.sample("y", dist.ZeroInflatedPoisson(gate, rate), obs=observed)
    numpyro.sample("z", dist.NegativeBinomial2(rate, 3.0), obs=observed)


def mixture(y: Any) -> None:
    """A mixture of three normals, summed over the components."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
    places = numpyro.sample("places", dist.Normal(jnp.array([-1.0, 0.0, 1.0]), 1.0).to_event(1))
    parts = dist.MixtureSameFamily(dist.Categorical(share), dist.Normal(places, 0.5))
    numpyro.sample("y", parts, obs=y)


def series(y: Any) -> None:
    """A local level with autoregressive noise, by scan."""
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    slope = numpyro.sample("slope", dist.Uniform(-1.0, 1.0))

    def step(before: Any, observed: Any) -> Any:
        level = numpyro.sample("level", dist.Normal(slope * before, scale))
        numpyro.sample("y", dist.Normal(level, 0.3), obs=observed)
        return level, level

    scan(step, jnp.zeros(()), y)


def process(x: Any, y: Any) -> None:
    """A Gaussian process."""
    length = numpyro.sample("length", dist.InverseGamma(3.0, 2.0))
    distance = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    covariance = jnp.exp(-0.5 * distance / length**2) + 0.1 * jnp.eye(8)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(8), covariance), obs=y)


Model: TypeAlias = "Callable[..., None]"
Kernel: TypeAlias = "Callable[[Model], Any]"


def density(model: Model, *data: Any) -> Callable[[], LibraryCase]:
    """The potential energy of unconstrained parameters, its gradient, and their values."""

    def case() -> LibraryCase:
        start, potential, constrain, _ = initialize_model(
            KEY, model, model_args=data, dynamic_args=True
        )

        def function(parameters: Any, *data: Any) -> Any:
            energy, grads = jax.value_and_grad(potential(*data))(parameters)
            return energy, grads, constrain(*data)(parameters)

        return LibraryCase(function, (start.z, *data), 1e-3)

    return case


def sampled(kernel: Kernel, model: Model, *data: Any) -> Callable[[], LibraryCase]:
    """One step of a sampler."""

    def case() -> LibraryCase:
        made = kernel(model)
        state = made.init(KEY, 10, None, data, {})

        def function(place: Any, *data: Any) -> Any:
            begin = state._replace(z=place)
            after = made.sample(begin, data, {})
            return after.z, after.potential_energy, after.num_steps, after.accept_prob

        return LibraryCase(function, (state.z, *data), 2e-3)

    return case


def variational(
    guide: Callable[..., Any], model: Model, *data: Any
) -> Callable[[], LibraryCase]:
    """A step of stochastic variational inference."""

    def case() -> LibraryCase:
        svi = SVI(model, guide(model), optax.adam(0.01), Trace_ELBO(2))
        state = svi.init(KEY, *data)
        parameters = svi.get_params(state)

        def function(parameters: Any, *data: Any) -> Any:
            begin = svi.init(KEY, *data, init_params=parameters)
            after, loss = svi.update(begin, *data)
            return loss, svi.get_params(after)

        return LibraryCase(function, (parameters, *data), 2e-3)

    return case


def _log_density(mu: Any, tau: Any, theta: Any) -> Any:
    values = {"mu": mu, "tau": tau, "theta": theta}
    return log_density(schools, (EFFECTS, ERRORS), {}, values)[0]


def _predictive(weights: Any, x: Any) -> Any:
    samples = {"w": weights, "gate": jnp.full((2,), 0.3)}
    return Predictive(counts, samples)(KEY, x, None)


def _distributions(x: Any, scale: Any) -> Any:
    positive = jnp.abs(x) + 0.1
    families = [
        (dist.Cauchy(x, scale), x),
        (dist.Gamma(scale, 2.0), positive),
        (dist.Weibull(scale, 1.5), positive),
        (dist.Pareto(0.05, scale), positive),
        (dist.TruncatedNormal(x, scale, low=-3.0), x),
        (dist.VonMises(x, scale), x),
        (dist.Gumbel(x, scale), x),
        (dist.Kumaraswamy(scale, 2.0), jax.nn.sigmoid(x)),
        (dist.AsymmetricLaplace(x, scale, 1.3), x),
        (dist.Chi2(scale), positive),
        (dist.LogUniform(0.01, 9.0), positive),
    ]
    return [(d.log_prob(value), d.sample(KEY, (2,))) for d, value in families]


def _transforms(x: Any) -> Any:
    transforms = dist.transforms
    found = []
    for transform in (
        transforms.StickBreakingTransform(),
        transforms.OrderedTransform(),
        transforms.SoftplusTransform(),
        transforms.CorrCholeskyTransform(),
        transforms.LowerCholeskyTransform(),
        transforms.SigmoidTransform(),
    ):
        y = transform(x)
        found.append((y, transform.inv(y), transform.log_abs_det_jacobian(x, y)))
    return found


NONCENTERED = numpyro.handlers.reparam(schools, config={"theta": LocScaleReparam(0.0)})
OBSERVED = EFFECTS / 10.0
CASES: Cases = {
    "log_density": LibraryCase(
        _log_density, (jnp.asarray(1.0), jnp.asarray(2.0), EFFECTS / 3.0)
    ),
    "eight schools": density(schools, EFFECTS, ERRORS),
    "eight schools noncentered": density(NONCENTERED, EFFECTS, ERRORS),
    "logistic regression": density(logistic, X, LABELS),
    "correlated regression": density(regression, X, OBSERVED),
    "counts": density(counts, X, COUNTS),
    "mixture": density(mixture, OBSERVED),
    "time series by scan": density(series, OBSERVED),
    "Gaussian process": density(process, X, OBSERVED),
    "HMC step": sampled(lambda m: HMC(m, step_size=0.1, num_steps=4), schools, EFFECTS, ERRORS),
    "NUTS step": sampled(
        lambda m: NUTS(m, step_size=0.1, max_tree_depth=4), logistic, X, LABELS
    ),
    "SVI with AutoNormal": variational(AutoNormal, logistic, X, LABELS),
    "SVI with AutoMultivariateNormal": variational(
        AutoMultivariateNormal, schools, EFFECTS, ERRORS
    ),
    "Predictive": LibraryCase(_predictive, (X[:2], X)),
    "distributions": LibraryCase(_distributions, (X[:, 0], jnp.abs(X[:, 1]) + 0.6), 1e-3),
    "transforms": LibraryCase(_transforms, (X[:6, 0],), 1e-3),
}
