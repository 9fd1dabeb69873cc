"""Samplers of BlackJAX: kernels, adaptation, sequential Monte Carlo and variational methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np
import optax

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(29)
_RANDOM = np.random.default_rng(29)
DATA = jnp.asarray(_RANDOM.normal(1.0, 2.0, size=16), "float32")
START = {"loc": jnp.asarray(0.3), "log_scale": jnp.asarray(0.2)}
MASS = jnp.array([0.5, 0.8])


def logdensity(position: Any, data: Any) -> Any:
    """The log posterior of a normal distribution."""
    scale = jnp.exp(position["log_scale"])
    prior = stats.norm.logpdf(position["loc"], 0.0, 3.0) + stats.norm.logpdf(
        position["log_scale"]
    )
    return prior + stats.norm.logpdf(data, position["loc"], scale).sum()


def chain(kernel: Callable[..., Any], steps: int = 2) -> LibraryCase:
    """Some steps of a chain."""

    def function(position: Any, data: Any) -> Any:
        sampler = kernel(lambda position: logdensity(position, data))
        state = sampler.init(position)

        def step(state: Any, key: Any) -> Any:
            state, info = sampler.step(key, state)
            return state, (state.position, jax.tree.leaves(info)[:3])

        return jax.lax.scan(step, state, jax.random.split(KEY, steps))

    return LibraryCase(function, (START, DATA), 2e-3)


def _ghmc(position: Any, data: Any) -> Any:
    sampler = blackjax.ghmc(lambda p: logdensity(p, data), 0.1, MASS, 0.4, 0.3)
    state = sampler.init(position, KEY)
    return sampler.step(KEY, state)[0].position


def _elliptical(place: Any, data: Any) -> Any:
    sampler = blackjax.elliptical_slice(
        lambda x: stats.norm.logpdf(data, x[0], 2.0).sum() - x[1] ** 2,
        mean=jnp.zeros(2), cov=jnp.array([[4.0, 0.3], [0.3, 1.0]]),
    )  # fmt: skip
    state, info = sampler.step(KEY, sampler.init(place))
    return state, info.theta


def _mclmc(place: Any, data: Any) -> Any:
    sampler = blackjax.mclmc(
        lambda x: logdensity({"loc": x[0], "log_scale": x[1]}, data), L=1.0, step_size=0.1
    )
    state = sampler.init(place, KEY)
    state, _ = sampler.step(KEY, state)
    return sampler.step(KEY, state)[0].position


def _window(position: Any, data: Any) -> Any:
    warmup = blackjax.window_adaptation(
        blackjax.nuts, lambda p: logdensity(p, data), max_num_doublings=3
    )
    (state, parameters), _ = warmup.run(KEY, position, 25)
    return state.position, parameters["step_size"], parameters["inverse_mass_matrix"]


def _tempered(particles: Any, data: Any) -> Any:
    def likelihood(position: Any) -> Any:
        return logdensity(position, data) - prior(position)

    def prior(position: Any) -> Any:
        return stats.norm.logpdf(position["loc"], 0.0, 3.0) + stats.norm.logpdf(
            position["log_scale"]
        )

    parameters = {"step_size": jnp.array([0.1]), "inverse_mass_matrix": MASS[None],
                  "num_integration_steps": jnp.array([3])}  # fmt: skip
    sampler = blackjax.adaptive_tempered_smc(
        prior, likelihood, blackjax.hmc.build_kernel(), blackjax.hmc.init, parameters,
        blackjax.smc.resampling.systematic, 0.5, num_mcmc_steps=2,
    )  # fmt: skip
    state, info = sampler.step(KEY, sampler.init(particles))
    return state.particles, state.weights, info.log_likelihood_increment


def _resampled(weights: Any) -> Any:
    weights = jax.nn.softmax(weights)
    names = ("systematic", "stratified", "multinomial", "residual")
    return [getattr(blackjax.smc.resampling, name)(KEY, weights, 16) for name in names]


def _sgld(position: Any, data: Any) -> Any:
    grad = jax.grad(logdensity)
    sgld, sghmc = blackjax.sgld(grad), blackjax.sghmc(grad, 3)
    position = sgld.step(KEY, sgld.init(position), data, 1e-3)
    return sghmc.step(KEY, sghmc.init(position), data, 1e-3)


def _mean_field(position: Any, data: Any) -> Any:
    method = blackjax.meanfield_vi(lambda p: logdensity(p, data), optax.adam(0.1), 4)
    state, info = method.step(KEY, method.init(position))
    return state.mu, state.rho, info.elbo, method.sample(KEY, state, 2)


def _pathfinder(position: Any, data: Any) -> Any:
    state, _ = blackjax.vi.pathfinder.approximate(
        KEY, lambda p: logdensity(p, data), position, 8, maxiter=6
    )
    return state.elbo, state.position


def _stein(particles: Any, data: Any) -> Any:
    method = blackjax.svgd(jax.grad(lambda p: logdensity(p, data)), optax.sgd(0.05))
    return method.step(method.init(particles)).particles


def _diagnostics(chains: Any) -> Any:
    return blackjax.ess(chains), blackjax.rhat(chains)


PARTICLES = {
    "loc": jnp.asarray(_RANDOM.normal(size=6), "float32"),
    "log_scale": jnp.asarray(_RANDOM.normal(size=6) / 2.0, "float32"),
}
CASES: Cases = {
    "HMC": chain(lambda f: blackjax.hmc(f, 0.1, MASS, 4)),
    "NUTS": chain(lambda f: blackjax.nuts(f, 0.2, MASS, max_num_doublings=4)),
    "MALA": chain(lambda f: blackjax.mala(f, 0.05), 4),
    "Barker": chain(lambda f: blackjax.barker_proposal(f, 0.2), 4),
    "random walk": chain(
        lambda f: blackjax.additive_step_random_walk(f, blackjax.mcmc.random_walk.normal(MASS)),
        4,
    ),
    "NUTS with a dense mass matrix": chain(
        lambda f: blackjax.nuts(f, 0.1, jnp.diag(MASS), max_num_doublings=3)
    ),
    "GHMC": LibraryCase(_ghmc, (START, DATA), 2e-3),
    "elliptical slice": LibraryCase(_elliptical, (jnp.array([0.4, 0.1]), DATA), 2e-3),
    "MCLMC": LibraryCase(_mclmc, (jnp.array([0.4, 0.1]), DATA), 2e-3),
    "window adaptation": LibraryCase(_window, (START, DATA), 5e-3),
    "adaptive tempered SMC": LibraryCase(_tempered, (PARTICLES, DATA), 5e-3),
    "resampling": LibraryCase(_resampled, (DATA,)),
    "SGLD and SGHMC": LibraryCase(_sgld, (START, DATA), 2e-3),
    "mean field": LibraryCase(_mean_field, (START, DATA), 2e-3),
    "pathfinder": LibraryCase(_pathfinder, (START, DATA), 5e-3),
    "SVGD": LibraryCase(_stein, (PARTICLES, DATA), 2e-3),
    "effective sample size": LibraryCase(
        _diagnostics, (jnp.asarray(_RANDOM.normal(size=(2, 30)), "float32"),), 2e-3
    ),
}
