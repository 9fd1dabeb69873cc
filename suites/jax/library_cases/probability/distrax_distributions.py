"""Distributions and bijectors of distrax: densities, samples and divergences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import distrax as dx
import jax
import jax.numpy as jnp
import numpy as np

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(19)
_RANDOM = np.random.default_rng(19)


def _values(*shape: int) -> Any:
    return jnp.asarray(_RANDOM.normal(size=shape), "float32")


X, LOC, SCALE = _values(4), _values(4), jnp.exp(_values(4) / 3.0)
LOGITS, OTHER = _values(4, 3), _values(4, 3)
UNIT = jnp.array([0.2, 0.7, 0.4, 0.9])
FACTOR = jnp.tril(_values(3, 3)) + 2.0 * jnp.eye(3)


def real(family: Callable[..., Any], x: Any = X) -> LibraryCase:
    """Density, distribution function, moments and samples of a location and scale family."""

    def function(x: Any, first: Any, second: Any) -> Any:
        distribution = family(first, second)
        sample, log_prob = distribution.sample_and_log_prob(seed=KEY, sample_shape=(2,))
        found = [distribution.log_prob(x), sample, log_prob, distribution.mean()]
        return [*found, distribution.variance(), distribution.entropy(), distribution.cdf(x)]

    return LibraryCase(function, (x, LOC, SCALE), 1e-3)


def divergence(
    first: Callable[..., Any], second: Callable[..., Any] | None = None
) -> LibraryCase:
    """Divergences between two members of a family."""
    second = second or first

    def function(a: Any, b: Any) -> Any:
        one, other = first(a, b), second(2.0 * a, b + 0.5)
        return one.kl_divergence(other), other.kl_divergence(one), one.entropy()

    return LibraryCase(function, (jnp.abs(LOC) + 0.3, SCALE), 1e-3)


def _categorical(logits: Any, other: Any) -> Any:
    one, two = dx.Categorical(logits), dx.OneHotCategorical(other)
    return (
        one.log_prob(jnp.array([0, 2, 1, 1])),
        one.entropy(),
        one.sample(seed=KEY, sample_shape=(3,)),
        two.sample(seed=KEY),
        two.log_prob(jax.nn.one_hot(jnp.array([0, 2, 1, 1]), 3)),
        one.kl_divergence(dx.Categorical(other)),
        one.mode(),
        one.logits,
        one.probs,
    )


def _policies(logits: Any) -> Any:
    greedy, noisy = dx.Greedy(logits), dx.EpsilonGreedy(logits, 0.1)
    soft = dx.Softmax(logits, 0.7)
    return (
        greedy.probs,
        noisy.sample(seed=KEY),
        noisy.log_prob(jnp.array([0, 1, 2, 0])),
        soft.entropy(),
        soft.sample(seed=KEY),
        dx.straight_through_wrapper(dx.OneHotCategorical)(logits=logits).sample(seed=KEY),
    )


def _discrete(logits: Any, unit: Any) -> Any:
    one, counts = dx.Bernoulli(logits), dx.Multinomial(7, logits=logits)
    return (
        one.log_prob(jnp.ones((4, 3), jnp.int32)),
        one.entropy(),
        one.sample(seed=KEY),
        counts.sample(seed=KEY),
        counts.log_prob(jnp.array([[2, 2, 3]] * 4)),
        counts.mean(),
        dx.Bernoulli(probs=unit).kl_divergence(dx.Bernoulli(probs=unit**2)),
    )


def _normals(loc: Any, factor: Any) -> Any:
    full = dx.MultivariateNormalFullCovariance(loc, factor @ factor.T)
    lower = dx.MultivariateNormalTri(loc, factor)
    diagonal = dx.MultivariateNormalDiag(loc, jnp.abs(jnp.diag(factor)))
    low_rank = dx.MultivariateNormalDiagPlusLowRank(
        loc, jnp.abs(jnp.diag(factor)), factor[:, :1], factor[:, :1]
    )
    values = [d.log_prob(loc + 0.3) for d in (full, lower, diagonal, low_rank)]
    samples = [d.sample(seed=KEY) for d in (full, lower, diagonal, low_rank)]
    return values, samples, lower.kl_divergence(diagonal), full.entropy()


def _mixtures(logits: Any, loc: Any) -> Any:
    parts = dx.Normal(loc, jnp.full((3,), 0.5))
    mixture = dx.MixtureSameFamily(dx.Categorical(logits[0]), parts)
    two = dx.MixtureOfTwo(0.3, dx.Normal(loc[0], 1.0), dx.Normal(loc[1], 2.0))
    return (
        mixture.log_prob(X),
        mixture.sample(seed=KEY, sample_shape=(3,)),
        mixture.mean(),
        two.log_prob(X),
        two.sample(seed=KEY),
    )


def _flow(x: Any, w: Any) -> Any:
    mask = jnp.array([True, False, True, False])

    def conditioner(inputs: Any) -> Any:
        return jnp.stack([jnp.tanh(inputs @ w), inputs @ w.T], -1)

    def affine(parameters: Any) -> Any:
        return dx.ScalarAffine(parameters[..., 0], log_scale=0.3 * parameters[..., 1])

    layer = dx.MaskedCoupling(mask, conditioner, affine)
    flow = dx.Transformed(
        dx.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4)),
        dx.Chain([layer, dx.Inverse(dx.MaskedCoupling(~mask, conditioner, affine))]),
    )
    return flow.log_prob(x), flow.sample(seed=KEY, sample_shape=(2,))


def _spline(x: Any, w: Any) -> Any:
    spline = dx.RationalQuadraticSpline(w, -2.0, 2.0)
    y, log_det = spline.forward_and_log_det(x)
    return y, log_det, spline.inverse(y)


def _bijectors(x: Any, factor: Any) -> Any:
    chain = dx.Chain([dx.Tanh(), dx.ScalarAffine(0.1, 0.7)])
    linear = dx.TriangularLinear(factor)
    block = dx.Block(dx.Sigmoid(), 1)
    return (
        chain.forward_and_log_det(x),
        chain.inverse(jnp.tanh(x)),
        linear.forward_and_log_det(x[:3]),
        linear.inverse(x[:3]),
        block.forward_and_log_det(x),
        dx.LowerUpperTriangularAffine(factor, x[:3]).inverse_and_log_det(x[:3]),
        dx.GumbelCDF().forward_and_log_det(x),
        dx.Lambda(jnp.sinh).forward_and_log_det(x),
    )


def _squashed(loc: Any, scale: Any) -> Any:
    policy = dx.Transformed(dx.MultivariateNormalDiag(loc, scale), dx.Block(dx.Tanh(), 1))
    action, log_prob = policy.sample_and_log_prob(seed=KEY)
    clipped = dx.ClippedNormal(loc, scale, -1.0, 1.0)
    quantized = dx.Quantized(dx.Normal(loc, scale), low=-3.0, high=3.0)
    return (
        action,
        log_prob,
        clipped.log_prob(clipped.sample(seed=KEY)),
        quantized.log_prob(jnp.round(loc)),
        quantized.sample(seed=KEY),
    )


def _hidden_markov(logits: Any, loc: Any) -> Any:
    model = dx.HMM(dx.Categorical(logits[0]), dx.Categorical(logits[:3]), dx.Normal(loc, 0.7))
    observed = jnp.array([0.3, -0.2, 1.1, 0.4])
    states, values = model.sample(seed=KEY, seq_len=4)
    return (
        model.forward(observed),
        model.forward_backward(observed),
        model.viterbi(observed),
        states,
        values,
    )


def _estimated(loc: Any, scale: Any) -> Any:
    one, other = dx.Normal(loc, scale), dx.Laplace(loc * 0.5, scale)
    return (
        dx.mc_estimate_kl_with_reparameterized(one, other, rng_key=KEY, num_samples=8),
        dx.importance_sampling_ratios(one, other, X),
    )


CASES: Cases = {
    "Normal": real(dx.Normal),
    "Laplace": real(dx.Laplace),
    "Logistic": real(dx.Logistic),
    "Gumbel": real(dx.Gumbel),
    "Uniform": real(lambda a, b: dx.Uniform(a, a + b), LOC + 0.3 * SCALE),
    "Beta": real(lambda a, b: dx.Beta(jnp.exp(a), b), UNIT),
    "Gamma": real(lambda a, b: dx.Gamma(jnp.exp(a) + 0.5, b), UNIT),
    "LogStddevNormal": real(lambda a, b: dx.LogStddevNormal(a, jnp.log(b), max_scale=3.0)),
    "VonMises": LibraryCase(
        lambda x, a, b: (
            dx.VonMises(a, b).log_prob(x),
            dx.VonMises(a, b).entropy(),
            dx.VonMises(a, b).cdf(x),
            dx.VonMises(a, b).sample(seed=KEY),
        ),
        (X, LOC, SCALE),
        1e-3,
    ),
    "Dirichlet": LibraryCase(
        lambda a: (
            dx.Dirichlet(a).log_prob(a / a.sum()),
            dx.Dirichlet(a).entropy(),
            dx.Dirichlet(a).sample(seed=KEY, sample_shape=(2,)),
            dx.Dirichlet(a).kl_divergence(dx.Dirichlet(a + 1.0)),
        ),
        (SCALE,),
        1e-3,
    ),
    "divergence of Normal": divergence(dx.Normal),
    "divergence of Normal and MultivariateNormalDiag": divergence(dx.MultivariateNormalDiag),
    "divergence of Gamma": divergence(dx.Gamma),
    "divergence of Beta": divergence(dx.Beta),
    "Categorical and OneHotCategorical": LibraryCase(_categorical, (LOGITS, OTHER)),
    "policies": LibraryCase(_policies, (LOGITS,)),
    "Bernoulli and Multinomial": LibraryCase(_discrete, (LOGITS, UNIT)),
    "multivariate normals": LibraryCase(_normals, (LOC[:3], FACTOR), 1e-3),
    "mixtures": LibraryCase(_mixtures, (LOGITS, LOC[:3])),
    "coupling flow": LibraryCase(_flow, (X, _values(4, 4) / 3.0), 1e-3),
    "RationalQuadraticSpline": LibraryCase(_spline, (X, _values(4, 10)), 1e-3),
    "bijectors": LibraryCase(_bijectors, (UNIT, FACTOR), 1e-3),
    "squashed, clipped and quantized": LibraryCase(_squashed, (LOC, SCALE), 1e-3),
    "HMM": LibraryCase(_hidden_markov, (LOGITS, LOC[:3]), 1e-3),
    "Monte Carlo divergence": LibraryCase(_estimated, (LOC, SCALE), 1e-3),
}
