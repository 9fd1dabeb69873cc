"""Optimizers that scale a parameter as a whole: by its rows and columns, or by its norm."""

from __future__ import annotations

from braces.frontend.optimizer.core.descent import descent
from braces.frontend.optimizer.core.transforms import LearningRate, Make, Mask
from braces.lazy import optax


@descent(
    min_dim_size_to_factor="The smallest size of a large axis.",
    decay_rate="The decay rate of the means after t steps is 1 - t^-decay_rate.",
    multiply_by_parameter_scale="Whether updates are scaled by the norm of the parameter.",
    clipping_threshold="Upper bound of the root mean square of an update; `None` for no bound.",
    momentum="Decay rate of the mean update; without it there is no such state.",
    epsilon="Added to squares.",
    factored="Whether to factor the mean squares of matrices at all.",
)
def adafactor(
    learning_rate: LearningRate, min_dim_size_to_factor: int = 128, decay_rate: float = 0.8, *,
    multiply_by_parameter_scale: bool = True, clipping_threshold: float | None = 1.0,
    momentum: float | None = None, weight_decay: float = 0.0, mask: Mask = None,
    epsilon: float = 1e-30, factored: bool = True, name: str | None = None,
) -> Make:  # fmt: skip
    """Adafactor: the mean square of a matrix, factored into those of rows and columns.

        v = (row mean of g^2) (column mean of g^2) / (mean of g^2)
        p' = p - learning_rate * rms(p) * clip(g / sqrt(v))

    So the state of a matrix [m, n] is m + n numbers. States: `count`, `v_row`, `v_col`, and `v`
    for parameters without two large axes. Source: Shazeer, Stern, Adafactor: Adaptive Learning
    Rates with Sublinear Memory Cost, 2018.
    """
    return lambda args: optax.adafactor(
        args.rate, min_dim_size_to_factor, decay_rate,
        multiply_by_parameter_scale=multiply_by_parameter_scale,
        clipping_threshold=clipping_threshold, momentum=momentum,
        weight_decay_rate=weight_decay or None, eps=epsilon, factored=factored,
        weight_decay_mask=args.masked(mask),
    )  # fmt: skip


@descent(momentum="Decay rate of the mean update.")
def sm3(learning_rate: LearningRate, momentum: float = 0.9, *, name: str | None = None) -> Make:
    """`adagrad` with one accumulator for each row and each column: their maximum.

    States: `mu`, `nu`. Source: Anil et al., Memory-Efficient Adaptive Optimization, 2019.
    """
    return lambda args: optax.sm3(args.rate, momentum)


@descent(b1="Decay rate of the sum.")
def novograd(
    learning_rate: LearningRate, b1: float = 0.9, b2: float = 0.25, epsilon: float = 1e-6,
    epsilon_root: float = 0.0, *, weight_decay: float = 0.0, name: str | None = None,
) -> Make:  # fmt: skip
    """Momentum of gradients normalized by the running norm of each parameter's gradient.

        u = g / (sqrt(v + epsilon_root) + epsilon) + weight_decay * p
        p' = p - learning_rate * m

    where v is the running mean of |g|^2, one number for each parameter, and m accumulates u.
    States: `count`, `mu`, `nu`. Source: Ginsburg et al., Stochastic Gradient Methods with
    Layer-wise Adaptive Moments for Training of Deep Networks, 2019.
    """
    return lambda args: optax.novograd(args.rate, b1, b2, epsilon, epsilon_root, weight_decay)


@descent(min_norm="Lower bound of norms.")
def fromage(
    learning_rate: LearningRate, min_norm: float = 1e-6, *, name: str | None = None
) -> Make:
    """Steps proportional to the norms of the parameters, which do not grow by them.

        p' = (p - learning_rate * g * |p| / |g|) / sqrt(1 + learning_rate^2)

    Source: Bernstein et al., On the Distance between Two Neural Networks and the Stability of
    Learning, 2020.
    """
    return lambda args: optax.fromage(args.rate, min_norm)


@descent(
    ns_steps="Number of Newton-Schulz iterations.",
    beta="Decay rate of the mean gradient.",
    weight_decay="Coefficient of the weight decay of matrices.",
)
def muon(
    learning_rate: LearningRate, ns_steps: int = 5, beta: float = 0.95, epsilon: float = 1e-8,
    *, weight_decay: float = 0.0, nesterov: bool = True, name: str | None = None,
) -> Make:  # fmt: skip
    """Muon: orthogonalized momentum for matrices, `adamw` for all other parameters.

    `ns_steps` Newton-Schulz iterations bring the singular values of the update near 1. States:
    `count`, `mu`, and for the others `nu`. Source: Jordan, Muon: An Optimizer for Hidden Layers
    in Neural Networks, 2024.
    """
    return lambda args: optax.contrib.muon(
        args.rate, ns_steps=ns_steps, beta=beta, eps=epsilon, weight_decay=weight_decay,
        nesterov=nesterov,
    )  # fmt: skip
