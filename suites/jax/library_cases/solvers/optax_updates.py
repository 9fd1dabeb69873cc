"""Optimizers, schedules, losses and line searches of optax, as functions of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from suites.jax.library_cases.case import Cases, LibraryCase

_RANDOM = np.random.default_rng(13)
PARAMETERS = {
    "w": jnp.asarray(_RANDOM.normal(size=(4, 3)), "float32"),
    "b": jnp.asarray(_RANDOM.normal(size=3), "float32"),
}
X = jnp.asarray(_RANDOM.normal(size=(6, 4)), "float32")
LOGITS = jnp.asarray(_RANDOM.normal(size=(2, 5, 4)), "float32")
LABELS = jnp.array([[1, 2], [3, 0]])


def _loss(parameters: Any, x: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ parameters["w"] + parameters["b"]) ** 2) + 0.1 * jnp.sum(
        parameters["b"] ** 4
    )


def trained(optimizer: Callable[[], Any], steps: int = 3) -> LibraryCase:
    """Some steps of training in a scan."""

    def function(parameters: Any, x: Any) -> Any:
        method = optimizer()

        def step(carry: Any, _: Any) -> Any:
            parameters, state = carry
            loss, grads = jax.value_and_grad(_loss)(parameters, x)
            updates, state = method.update(grads, state, parameters)
            return (optax.apply_updates(parameters, updates), state), loss

        return jax.lax.scan(step, (parameters, method.init(parameters)), None, steps)

    return LibraryCase(function, (PARAMETERS, X), 1e-3)


def _with_line_search(parameters: Any, x: Any) -> Any:
    method = optax.lbfgs(memory_size=3)

    def loss(parameters: Any) -> Any:
        return _loss(parameters, x)

    def step(carry: Any, _: Any) -> Any:
        parameters, state = carry
        value, grads = optax.value_and_grad_from_state(loss)(parameters, state=state)
        updates, state = method.update(
            grads, state, parameters, value=value, grad=grads, value_fn=loss
        )
        return (optax.apply_updates(parameters, updates), state), value

    (parameters, _), values = jax.lax.scan(step, (parameters, method.init(parameters)), None, 4)
    return parameters, values


def _schedules(count: Any) -> Any:
    schedules = [
        optax.cosine_decay_schedule(0.1, 50, 0.01),
        optax.exponential_decay(0.1, 10, 0.9, 3),
        optax.warmup_cosine_decay_schedule(0.0, 0.1, 10, 60),
        optax.linear_onecycle_schedule(50, 0.1),
        optax.piecewise_constant_schedule(0.1, {10: 0.5, 30: 0.1}),
        optax.polynomial_schedule(0.1, 0.01, 2.0, 40),
        optax.sgdr_schedule(
            [{"init_value": 0.0, "peak_value": 0.1, "decay_steps": 20, "warmup_steps": 4}] * 2
        ),
        optax.join_schedules(
            [optax.linear_schedule(0.0, 1.0, 9), optax.constant_schedule(0.3)], [9]
        ),
    ]
    return jax.vmap(lambda count: jnp.stack([schedule(count) for schedule in schedules]))(count)


def _losses(x: Any, y: Any) -> Any:
    near = jax.nn.softmax(y)
    return (
        optax.huber_loss(x, y),
        optax.log_cosh(x, y),
        optax.cosine_similarity(x, y),
        optax.softmax_cross_entropy(x, near),
        optax.sigmoid_binary_cross_entropy(x, near),
        optax.hinge_loss(x, jnp.sign(y)),
        optax.kl_divergence(jax.nn.log_softmax(x), near),
        optax.sigmoid_focal_loss(x, near),
        optax.smooth_labels(near, 0.1),
        optax.l2_loss(x, y),
        optax.losses.poly_loss_cross_entropy(x, near),
        optax.convex_kl_divergence(x, near),
    )


def _ctc(logits: Any) -> Any:
    pads = jnp.zeros((2, 5)), jnp.array([[0.0, 0.0], [0.0, 1.0]])
    return optax.ctc_loss(logits, pads[0], LABELS, pads[1])


def _projections(x: Any) -> Any:
    return (
        optax.projections.projection_simplex(x),
        optax.projections.projection_l2_ball(x),
        optax.projections.projection_l1_ball(x),
        optax.projections.projection_box(x, -0.5, 0.5),
        optax.projections.projection_non_negative(x),
    )


def _masked() -> Any:
    rules = {"adam": optax.adam(0.1), "sgd": optax.sgd(0.1, 0.9, nesterov=True)}
    return optax.multi_transform(rules, {"w": "adam", "b": "sgd"})


def _chain() -> Any:
    return optax.chain(
        optax.clip_by_global_norm(0.5),
        optax.add_decayed_weights(0.01, {"w": True, "b": False}),
        optax.scale_by_adam(),
        optax.scale_by_schedule(optax.cosine_decay_schedule(-0.1, 5)),
    )


SCHEDULE = optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 5)
CASES: Cases = {
    "adam": trained(lambda: optax.adam(SCHEDULE)),
    "adamw": trained(lambda: optax.adamw(0.05)),
    "lamb": trained(lambda: optax.lamb(0.05)),
    "lion": trained(lambda: optax.lion(0.05)),
    "adafactor": trained(lambda: optax.adafactor(0.05)),
    "muon": trained(lambda: optax.contrib.muon(0.05)),
    "rmsprop with momentum": trained(lambda: optax.rmsprop(0.05, momentum=0.9, centered=True)),
    "a chain with clipping and a schedule": trained(_chain),
    "multi_transform": trained(_masked),
    "MultiSteps": trained(lambda: optax.MultiSteps(optax.adam(0.1), 2), 5),
    "lookahead by schedule free": trained(lambda: optax.contrib.schedule_free_adamw(0.05)),
    "lbfgs with line search": LibraryCase(_with_line_search, (PARAMETERS, X), 2e-3),
    "schedules": LibraryCase(_schedules, (jnp.arange(70),)),
    "losses": LibraryCase(_losses, (X[:3], X[3:])),
    "ctc_loss": LibraryCase(_ctc, (LOGITS,)),
    "projections": LibraryCase(_projections, (X[0],)),
}
