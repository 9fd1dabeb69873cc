"""Planning with mctx: searches over a learned model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mctx

from suites.jax.library_cases.case import Cases, LibraryCase

KEY = jax.random.PRNGKey(43)
ACTIONS, WIDTH = 4, 5
WEIGHTS = 0.5 * jax.random.normal(KEY, (WIDTH, WIDTH + ACTIONS + 2))
STATES = jax.random.normal(KEY, (2, WIDTH))


def _predicted(weights: Any, state: Any) -> Any:
    logits = state @ weights[:, :ACTIONS]
    return logits, jnp.tanh(state @ weights[:, ACTIONS])


def _recurrent(weights: Any, _: Any, action: Any, state: Any) -> Any:
    moved = jnp.tanh(state @ weights[:, -WIDTH:] + jax.nn.one_hot(action, WIDTH))
    logits, value = _predicted(weights, moved)
    reward = jnp.sin(moved.sum(-1))
    discount = jnp.full_like(reward, 0.95)
    output = mctx.RecurrentFnOutput(
        reward=reward, discount=discount, prior_logits=logits, value=value
    )
    return output, moved


def search(policy: Callable[..., Any], **options: Any) -> LibraryCase:
    """A search with a few simulations."""

    def function(weights: Any, states: Any) -> Any:
        logits, value = _predicted(weights, states)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
        given: dict[str, Any] = {"num_simulations": 6, **options}
        found = policy(weights, KEY, root, _recurrent, **given)
        return found.action, found.action_weights, found.search_tree.summary()

    return LibraryCase(function, (WEIGHTS, STATES), 1e-3)


def _training_loss(weights: Any, states: Any) -> Any:
    logits, value = _predicted(weights, states)
    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
    found = mctx.gumbel_muzero_policy(weights, KEY, root, _recurrent, num_simulations=4)
    targets = jax.lax.stop_gradient(found.action_weights)
    loss = -jnp.sum(targets * jax.nn.log_softmax(logits), -1).mean()
    return loss, jax.grad(lambda w: (_predicted(w, states)[1] ** 2).sum())(weights)


def _stochastic(weights: Any, states: Any) -> Any:
    def decide(weights: Any, key: Any, action: Any, state: Any) -> Any:
        output, moved = _recurrent(weights, key, action, state)
        made = mctx.DecisionRecurrentFnOutput(
            chance_logits=output.prior_logits[:, :3], afterstate_value=output.value
        )
        return made, moved

    def happen(weights: Any, key: Any, outcome: Any, state: Any) -> Any:
        output, moved = _recurrent(weights, key, outcome, state)
        made = mctx.ChanceRecurrentFnOutput(
            action_logits=output.prior_logits, value=output.value, reward=output.reward,
            discount=output.discount,
        )  # fmt: skip
        return made, moved

    logits, value = _predicted(weights, states)
    root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=states)
    found = mctx.stochastic_muzero_policy(
        params=weights, rng_key=KEY, root=root, decision_recurrent_fn=decide,
        chance_recurrent_fn=happen, num_simulations=5,
    )  # fmt: skip
    return found.action, found.action_weights


CASES: Cases = {
    "muzero_policy": search(mctx.muzero_policy),
    "muzero_policy without noise": search(
        mctx.muzero_policy, dirichlet_fraction=0.0, temperature=0.5
    ),
    "muzero_policy with invalid actions": search(
        mctx.muzero_policy,
        invalid_actions=jnp.array([[0, 1, 0, 0], [0, 0, 0, 1]]),
        max_depth=3,
    ),
    "muzero_policy by min and max": search(
        mctx.muzero_policy,
        qtransform=partial(mctx.qtransform_by_min_max, min_value=-2.0, max_value=2.0),
    ),
    "gumbel_muzero_policy": search(mctx.gumbel_muzero_policy),
    "gumbel_muzero_policy of two actions": search(
        mctx.gumbel_muzero_policy, max_num_considered_actions=2, gumbel_scale=0.5
    ),
    "gumbel_muzero_policy with invalid actions": search(
        mctx.gumbel_muzero_policy,
        invalid_actions=jnp.array([[0, 1, 0, 0], [0, 0, 0, 1]]),
        max_depth=3,
    ),
    "stochastic_muzero_policy": LibraryCase(_stochastic, (WEIGHTS, STATES), 1e-3),
    "loss of a search": LibraryCase(_training_loss, (WEIGHTS, STATES), 1e-3),
}
