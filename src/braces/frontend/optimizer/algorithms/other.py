"""Further optimizers: by signs, by what the last gradient was, with noise, without a rate."""

from __future__ import annotations

from braces.builder.source_line import says_where
from braces.frontend.optimizer.core.chain import descending
from braces.frontend.optimizer.core.minimize import Optimizer
from braces.frontend.optimizer.core.recorded_call import recorded
from braces.frontend.optimizer.core.transforms import LearningRate, Mask, checked_mask
from braces.lazy import optax

# ---- by signs --------------------------------------------------------------------------------


@recorded
@says_where
def rprop(
    learning_rate: LearningRate,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """A step for each number, which grows while the sign of its gradient stays.

    For gradients of all data, not of batches. Keeps `step_sizes`, which begin with the learning
    rate, and `prev_updates`. Source: Riedmiller, Braun, A Direct Adaptive Method for Faster
    Backpropagation Learning: The RPROP Algorithm, 1993.

    Args:
        learning_rate: The first step: a number.
        eta_minus: By what a step shrinks where the sign changes.
        eta_plus: By what it grows.
        min_step_size: The smallest step.
        max_step_size: The largest.
        name: The first part of the names of what is kept.
    """
    return descending(
        "rprop", name, learning_rate,
        lambda given: optax.rprop(
            given.rate, eta_minus, eta_plus, min_step_size, max_step_size
        ),
    )  # fmt: skip


@recorded
@says_where
def signum(
    learning_rate: LearningRate, beta: float = 0.9, *, name: str | None = None
) -> Optimizer:
    """The sign of the running mean of gradients: p' = p - learning_rate * sign(m).

    Keeps `count`, `ema`. Source: Bernstein et al., signSGD: Compressed Optimisation for
    Non-Convex Problems, 2018.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        beta: How much of the mean a step keeps; 0 for signs of the gradients alone.
        name: The first part of the names of what is kept.
    """
    return descending(
        "signum", name, learning_rate, lambda given: optax.signum(given.rate, beta)
    )


# ---- kin of adam -----------------------------------------------------------------------------


@recorded
@says_where
def yogi(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` whose mean square changes by g^2 at most: v' = v - (1 - b2) sign(v - g^2) g^2.

    Keeps `count`, `mu`, `nu`. Source: Zaheer et al., Adaptive Methods for Nonconvex
    Optimization, 2018.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        name: The first part of the names of what is kept.
    """
    return descending(
        "yogi", name, learning_rate, lambda given: optax.yogi(given.rate, b1, b2, eps)
    )


@recorded
@says_where
def ademamix(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    b3: float = 0.9999,
    alpha: float = 5.0,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    weight_decay: float = 0.0,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """`adamw` by a fast mean of the gradient and a slow one.

        p' = p - learning_rate * ((m1 + alpha * m2) / (sqrt(v) + eps) + weight_decay * p)

    Keeps `count`, `count_m2`, `m1`, `m2`, `nu`. Source: Pagliardini, Ablin, Grangier, The
    AdEMAMix Optimizer: Better, Faster, Older, 2024.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the fast mean a step keeps.
        b2: How much of the mean square a step keeps.
        b3: How much of the slow mean a step keeps.
        alpha: How much the slow mean counts.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        weight_decay: How strongly the parameters are pulled towards zero.
        mask: Which parameters are.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(mask)
    return descending(
        "ademamix", name, learning_rate,
        lambda given: optax.contrib.ademamix(
            given.rate, b1, b2, b3, alpha, eps=eps, eps_root=eps_root,
            weight_decay=weight_decay, mask=given.masked(mask),
        ),
    )  # fmt: skip


@recorded
@says_where
def prodigy(
    learning_rate: LearningRate = 1.0,
    b1: float = 0.9,
    b2: float = 0.999,
    b3: float | None = None,
    eps: float = 1e-8,
    *,
    estim_lr0: float = 1e-6,
    estim_lr_coef: float = 1.0,
    weight_decay: float = 0.0,
    name: str | None = None,
) -> Optimizer:
    """`adam` that estimates its learning rate by the distance from where it began.

    Keeps `count`, `exp_avg`, `exp_avg_sq`, `grad_sum`, `params0`, `estim_lr` and
    `numerator_weighted`. Source: Mishchenko, Defazio, Prodigy: An Expeditiously Adaptive
    Parameter-Free Learner, 2023.

    Args:
        learning_rate: What the estimate is multiplied by: 1, or a schedule up to 1.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        b3: How much of the estimate a step keeps; the root of `b2` by default.
        eps: Keeps the quotient finite.
        estim_lr0: The first estimate.
        estim_lr_coef: What estimates are multiplied by.
        weight_decay: How strongly the parameters are pulled towards zero.
        name: The first part of the names of what is kept.
    """
    return descending(
        "prodigy", name, learning_rate,
        lambda given: optax.contrib.prodigy(
            given.rate, (b1, b2), b3, eps, estim_lr0, estim_lr_coef, weight_decay
        ),
    )  # fmt: skip


# ---- games and noise -------------------------------------------------------------------------


@recorded
@says_where
def optimistic_gradient_descent(
    learning_rate: LearningRate,
    alpha: float = 1.0,
    beta: float = 1.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """Gradient descent that expects the gradient to change as it did; for games.

        p' = p - learning_rate * ((alpha + beta) * g - beta * g_before)

    Keeps `previous_gradient` and `is_initial_step`. Source: Mokhtari, Ozdaglar, Pattathil, A
    Unified Analysis of Extra-gradient and Optimistic Gradient Methods for Saddle Point
    Problems, 2019.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        alpha: How much the gradient counts.
        beta: How much its change counts.
        name: The first part of the names of what is kept.
    """
    return descending(
        "optimistic_gradient_descent", name, learning_rate,
        lambda given: optax.optimistic_gradient_descent(given.rate, alpha, beta),
    )  # fmt: skip


@recorded
@says_where
def optimistic_adam(
    learning_rate: LearningRate,
    alpha: float = 1.0,
    beta: float = 1.0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    nesterov: bool = True,
    name: str | None = None,
) -> Optimizer:
    """`adam` that expects its update to change as it did; for games.

    Optax's `optimistic_adam_v2`. Keeps `count`, `mu`, `nu`, `previous_gradient` and
    `is_initial_step`. Source: Daskalakis et al., Training GANs with Optimism, 2017.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        alpha: How much the update counts.
        beta: How much its change counts.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        nesterov: Whether the mean looks one step ahead.
        name: The first part of the names of what is kept.
    """
    return descending(
        "optimistic_adam", name, learning_rate,
        lambda given: optax.optimistic_adam_v2(
            given.rate, alpha=alpha, beta=beta, b1=b1, b2=b2, eps=eps, eps_root=eps_root,
            nesterov=nesterov,
        ),
    )  # fmt: skip


@recorded
@says_where
def noisy_sgd(
    learning_rate: LearningRate,
    eta: float = 0.01,
    gamma: float = 0.55,
    *,
    seed: int = 0,
    name: str | None = None,
) -> Optimizer:
    """Gradient descent with normal noise, of variance eta / (1 + count)^gamma, on gradients.

    Keeps `count` and `rng_key`, from which the noise follows. Source: Neelakantan et al.,
    Adding Gradient Noise Improves Learning for Very Deep Networks, 2015.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        eta: The variance of the first noise.
        gamma: How fast it falls.
        seed: What the first key is made of.
        name: The first part of the names of what is kept.
    """
    return descending(
        "noisy_sgd", name, learning_rate,
        lambda given: optax.noisy_sgd(given.rate, eta, gamma, key=seed),
    )  # fmt: skip
