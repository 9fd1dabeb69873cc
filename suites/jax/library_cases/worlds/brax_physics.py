"""Physics steps and environments of brax, and its training losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import brax.envs
import brax.math
import jax
import jax.numpy as jnp
from brax.training.acme import running_statistics, specs
from brax.training.agents.ppo import losses as ppo_losses
from brax.training.distribution import NormalTanhDistribution

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(37)


def steps(name: str, backend: str, count: int = 1) -> Callable[[], LibraryCase]:
    """A reset and some steps of an environment."""

    def case() -> LibraryCase:
        environment = brax.envs.get_environment(name, backend=backend)
        start = jax.jit(environment.reset)(KEY)
        action = 0.3 * jnp.cos(jnp.arange(environment.action_size, dtype="float32"))

        def function(q: Any, qd: Any, action: Any) -> Any:
            state = start.replace(pipeline_state=environment.pipeline_init(q, qd))

            def step(state: Any, _: Any) -> Any:
                state = environment.step(state, action)
                return state, (state.obs, state.reward, state.done)

            state, found = jax.lax.scan(step, state, None, count)
            return found, state.pipeline_state.x

        place = start.pipeline_state
        return LibraryCase(function, (place.q, place.qd, action), 5e-3)

    return case


def _quaternions(a: Any, b: Any) -> Any:
    a, b = a / jnp.linalg.norm(a), b / jnp.linalg.norm(b)
    math = brax.math
    return (
        math.quat_mul(a, b),
        math.rotate(a[:3], b),
        math.quat_to_euler(a),
        math.quat_to_3x3(b),
        math.quat_inv(a),
        math.relative_quat(a, b),
        math.from_to(a[:3], b[:3]),
        math.quat_rot_axis(a[:3], b[0]),
        math.orthogonals(a[:3]),
        math.safe_norm(a * 0.0),
    )


def _advantages(rewards: Any, values: Any) -> Any:
    return ppo_losses.compute_gae(
        truncation=jnp.zeros((5, 2)),
        termination=jnp.zeros((5, 2)).at[2, 1].set(1.0),
        rewards=rewards,
        values=values,
        bootstrap_value=values[-1],
        lambda_=0.9,
        discount=0.95,
    )


def _statistics(rows: Any) -> Any:
    state = running_statistics.init_state(specs.Array((3,), jnp.dtype("float32")))
    state = running_statistics.update(state, rows)
    return running_statistics.normalize(rows, state), state.mean, state.std


def _actions(parameters: Any) -> Any:
    family = NormalTanhDistribution(event_size=2)
    raw = family.sample_no_postprocessing(parameters, KEY)
    return (
        family.postprocess(raw),
        family.log_prob(parameters, raw),
        family.entropy(parameters, KEY),
        family.mode(parameters),
    )


QUATERNIONS = jnp.array([0.7, 0.2, -0.4, 0.5]), jnp.array([0.3, -0.6, 0.2, 0.8])
ROWS = jax.random.normal(KEY, (5, 2))
CASES: Cases = {
    "quaternions": LibraryCase(_quaternions, QUATERNIONS, 1e-3),
    "compute_gae": LibraryCase(_advantages, (ROWS, ROWS[::-1])),
    "running_statistics": LibraryCase(_statistics, (jax.random.normal(KEY, (6, 3)),)),
    "NormalTanhDistribution": LibraryCase(_actions, (jax.random.normal(KEY, (3, 4)),)),
    "inverted_pendulum generalized": steps("inverted_pendulum", "generalized"),
    "inverted_pendulum spring": steps("inverted_pendulum", "spring", 2),
    "inverted_pendulum positional": steps("inverted_pendulum", "positional"),
    "inverted_double_pendulum spring": steps("inverted_double_pendulum", "spring"),
    "reacher generalized": steps("reacher", "generalized"),
    "reacher positional": steps("reacher", "positional"),
    "hopper spring": steps("hopper", "spring"),
    "ant spring": steps("ant", "spring"),
}
