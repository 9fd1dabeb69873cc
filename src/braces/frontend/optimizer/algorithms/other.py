"""Further optimizers: sign-based, optimistic, noisy, and free of learning rates."""

from __future__ import annotations

from braces.frontend.optimizer.core.descent import descent
from braces.frontend.optimizer.core.transforms import LearningRate, Make, Mask
from braces.lazy import optax

# ---- sign-based ------------------------------------------------------------------------------


@descent(
    learning_rate="The initial step size: a number.",
    eta_minus="Factor of a step size if the sign changes.",
    eta_plus="Factor of a step size if the sign stays.",
    min_step_size="The smallest step size.",
    max_step_size="The largest step size.",
)
def rprop(
    learning_rate: LearningRate, eta_minus: float = 0.5, eta_plus: float = 1.2,
    min_step_size: float = 1e-6, max_step_size: float = 50.0, *, name: str | None = None,
) -> Make:  # fmt: skip
    """Rprop: one step size per element, which grows while the sign of its gradient stays.

    For full-batch gradients only. States: `step_sizes`, which start at the learning rate, and
    `prev_updates`. Source: Riedmiller, Braun, A Direct Adaptive Method for Faster
    Backpropagation Learning: The RPROP Algorithm, 1993.
    """
    return lambda args: optax.rprop(
        args.rate, eta_minus, eta_plus, min_step_size, max_step_size
    )


@descent(beta="Decay rate of the mean; 0 takes the signs of the gradients alone.")
def signum(learning_rate: LearningRate, beta: float = 0.9, *, name: str | None = None) -> Make:
    """The sign of the running mean of gradients: p' = p - learning_rate * sign(m).

    States: `count`, `ema`. Source: Bernstein et al., signSGD: Compressed Optimisation for
    Non-Convex Problems, 2018.
    """
    return lambda args: optax.signum(args.rate, beta)


# ---- variants of adam ------------------------------------------------------------------------


@descent()
def yogi(
    learning_rate: LearningRate, b1: float = 0.9, b2: float = 0.999, epsilon: float = 1e-3, *,
    name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` with additive mean squares: v' = v - (1 - b2) sign(v - g^2) g^2.

    States: `count`, `mu`, `nu`. Source: Zaheer et al., Adaptive Methods for Nonconvex
    Optimization, 2018.
    """
    return lambda args: optax.yogi(args.rate, b1, b2, epsilon)


@descent(
    b1="Decay rate of the fast mean.",
    b3="Decay rate of the slow mean.",
    alpha="Weight of the slow mean.",
)
def ademamix(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999, b3: float = 0.9999,
    alpha: float = 5.0, epsilon: float = 1e-8, epsilon_root: float = 0.0, *,
    weight_decay: float = 0.0, mask: Mask = None, name: str | None = None,
) -> Make:  # fmt: skip
    """`adamw` with a fast and a slow mean of the gradient.

        p' = p - learning_rate * ((m1 + alpha * m2) / (sqrt(v) + epsilon) + weight_decay * p)

    States: `count`, `count_m2`, `m1`, `m2`, `nu`. Source: Pagliardini, Ablin, Grangier, The
    AdEMAMix Optimizer: Better, Faster, Older, 2024.
    """
    return lambda args: optax.contrib.ademamix(
        args.rate, b1, b2, b3, alpha, eps=epsilon, eps_root=epsilon_root,
        weight_decay=weight_decay, mask=args.masked(mask),
    )  # fmt: skip


@descent(
    learning_rate="Factor of the estimate: 1, or a schedule up to 1.",
    b3="Decay rate of the estimate; the square root of `b2` by default.",
    estim_lr0="The initial estimate.",
    estim_lr_coef="Factor of the estimates.",
)
def prodigy(
    learning_rate: LearningRate = 1.0, b1: float = 0.9, b2: float = 0.999,
    b3: float | None = None, epsilon: float = 1e-8, *, estim_lr0: float = 1e-6,
    estim_lr_coef: float = 1.0, weight_decay: float = 0.0, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` that estimates its learning rate from the distance to the initial parameters.

    States: `count`, `exp_avg`, `exp_avg_sq`, `grad_sum`, `params0`, `estim_lr` and
    `numerator_weighted`. Source: Mishchenko, Defazio, Prodigy: An Expeditiously Adaptive
    Parameter-Free Learner, 2023.
    """
    return lambda args: optax.contrib.prodigy(
        args.rate, (b1, b2), b3, epsilon, estim_lr0, estim_lr_coef, weight_decay
    )


# ---- games and noise -------------------------------------------------------------------------


@descent(alpha="Weight of the gradient.", beta="Weight of its change.")
def optimistic_gradient_descent(
    learning_rate: LearningRate, alpha: float = 1.0, beta: float = 1.0, *,
    name: str | None = None,
) -> Make:  # fmt: skip
    """Gradient descent that extrapolates the last change of the gradient; for games.

        p' = p - learning_rate * ((alpha + beta) * g - beta * g_before)

    States: `previous_gradient` and `is_initial_step`. Source: Mokhtari, Ozdaglar, Pattathil, A
    Unified Analysis of Extra-gradient and Optimistic Gradient Methods for Saddle Point
    Problems, 2019.
    """
    return lambda args: optax.optimistic_gradient_descent(args.rate, alpha, beta)


@descent(alpha="Weight of the update.", beta="Weight of its change.")
def optimistic_adam(
    learning_rate: LearningRate, alpha: float = 1.0, beta: float = 1.0, b1: float = 0.9,
    b2: float = 0.999, epsilon: float = 1e-8, epsilon_root: float = 0.0, *,
    nesterov: bool = True, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` that extrapolates the last change of its update; for games.

    Optax's `optimistic_adam_v2`. States: `count`, `mu`, `nu`, `previous_gradient` and
    `is_initial_step`. Source: Daskalakis et al., Training GANs with Optimism, 2017.
    """
    return lambda args: optax.optimistic_adam_v2(
        args.rate, alpha=alpha, beta=beta, b1=b1, b2=b2, eps=epsilon, eps_root=epsilon_root,
        nesterov=nesterov,
    )  # fmt: skip


@descent(
    eta="Variance of the noise in the first step.",
    gamma="Exponent of its decay.",
    seed="Seed of the initial key.",
)
def noisy_sgd(
    learning_rate: LearningRate, eta: float = 0.01, gamma: float = 0.55, *, seed: int = 0,
    name: str | None = None,
) -> Make:  # fmt: skip
    """Gradient descent with normal noise, of variance eta / (1 + count)^gamma, on gradients.

    States: `count` and `rng_key`, the key of the noise. Source: Neelakantan et al., Adding
    Gradient Noise Improves Learning for Very Deep Networks, 2015.
    """
    return lambda args: optax.noisy_sgd(args.rate, eta, gamma, key=seed)
