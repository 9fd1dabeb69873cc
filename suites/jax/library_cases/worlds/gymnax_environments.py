"""Environments of gymnax: resets, steps, and rollouts of a policy by scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnax
import jax
import jax.numpy as jnp

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(31)
NAMES = (
    "CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0",
    "Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar",
    "SpaceInvaders-MinAtar", "Catch-bsuite", "DeepSea-bsuite", "MemoryChain-bsuite",
    "BernoulliBandit-misc", "GaussianBandit-misc", "FourRooms-misc", "MetaMaze-misc",
    "PointRobot-misc", "Reacher-misc", "Swimmer-misc", "Pong-misc", "FrozenLake-misc",
)  # fmt: skip


def rollout(name: str) -> Callable[[], LibraryCase]:
    """A reset and some steps with random actions."""

    def case() -> LibraryCase:
        environment, parameters = gymnax.make(name)

        def function(key: Any, parameters: Any) -> Any:
            observed, state = environment.reset(key, parameters)

            def step(state: Any, key: Any) -> Any:
                action = environment.action_space(parameters).sample(key)
                after = environment.step(key, state, action, parameters)
                return after[1], (after[0], after[2], after[3])

            return observed, jax.lax.scan(step, state, jax.random.split(key, 4))

        return LibraryCase(function, (KEY, parameters), 1e-3)

    return case


def _policy() -> LibraryCase:
    environment, parameters = gymnax.make("CartPole-v1")
    weights = 0.3 * jax.random.normal(KEY, (4, 2))

    def function(weights: Any, keys: Any) -> Any:
        def episode(key: Any) -> Any:
            observed, state = environment.reset(key, parameters)

            def step(carry: Any, key: Any) -> Any:
                observed, state, score = carry
                logits = observed @ weights
                action = jax.random.categorical(key, logits)
                observed, state, reward, *_ = environment.step(key, state, action, parameters)
                score = score + reward * jax.nn.log_softmax(logits)[action]
                return (observed, state, score), reward

            (_, _, score), rewards = jax.lax.scan(
                step, (observed, state, jnp.zeros(())), jax.random.split(key, 5)
            )
            return score, rewards.sum()

        return jax.vmap(episode)(keys)

    return LibraryCase(function, (weights, jax.random.split(KEY, 3)), 1e-3)


CASES: Cases = {
    "policy on CartPole-v1 under vmap": _policy,
    **{name: rollout(name) for name in NAMES},
}
