"""Optimizers that look at a parameter as a whole: its rows and columns, or its length."""

from __future__ import annotations

from braces.builder.source_line import says_where
from braces.frontend.optimizer.core.chain import descending
from braces.frontend.optimizer.core.minimize import Optimizer
from braces.frontend.optimizer.core.recorded_call import recorded
from braces.frontend.optimizer.core.transforms import LearningRate, Mask, checked_mask
from braces.lazy import optax


@recorded
@says_where
def adafactor(
    learning_rate: LearningRate,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    *,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    weight_decay_rate: float | None = None,
    weight_decay_mask: Mask = None,
    eps: float = 1e-30,
    factored: bool = True,
    name: str | None = None,
) -> Optimizer:
    """The mean square of a matrix as that of its rows times that of its columns.

        v = (row mean of g^2) (column mean of g^2) / (mean of g^2)
        p' = p - learning_rate * rms(p) * clip(g / sqrt(v))

    So a matrix [m, n] keeps m + n numbers. Keeps `count`, `v_row`, `v_col`, and `v` for what
    has no two large axes. Source: Shazeer, Stern, Adafactor: Adaptive Learning Rates with
    Sublinear Memory Cost, 2018.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        min_dim_size_to_factor: From which size on an axis counts as large.
        decay_rate: After t steps a step keeps 1 - t^-decay_rate of the means.
        multiply_by_parameter_scale: Whether steps are as long as parameters.
        clipping_threshold: Where the root mean square of an update ends; `None` for nowhere.
        momentum: How much of the mean update a step keeps; without one nothing is kept.
        weight_decay_rate: How strongly the parameters are pulled towards zero.
        weight_decay_mask: Which parameters are.
        eps: Added to squares.
        factored: Whether any matrix is seen so.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(weight_decay_mask)
    return descending(
        "adafactor", name, learning_rate,
        lambda given: optax.adafactor(
            given.rate, min_dim_size_to_factor, decay_rate,
            multiply_by_parameter_scale=multiply_by_parameter_scale,
            clipping_threshold=clipping_threshold, momentum=momentum,
            weight_decay_rate=weight_decay_rate, eps=eps, factored=factored,
            weight_decay_mask=given.masked(mask),
        ),
    )  # fmt: skip


@recorded
@says_where
def sm3(
    learning_rate: LearningRate, momentum: float = 0.9, *, name: str | None = None
) -> Optimizer:
    """`adagrad` that keeps one number for each row and each column: the largest in it.

    Keeps `mu`, `nu`. Source: Anil et al., Memory-Efficient Adaptive Optimization, 2019.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        momentum: How much of the mean update a step keeps.
        name: The first part of the names of what is kept.
    """
    return descending("sm3", name, learning_rate, lambda given: optax.sm3(given.rate, momentum))


@recorded
@says_where
def novograd(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    *,
    weight_decay: float = 0.0,
    name: str | None = None,
) -> Optimizer:
    """Momentum of gradients that are divided by the running length of their parameter's.

        u = g / (sqrt(v + eps_root) + eps) + weight_decay * p,   p' = p - learning_rate * m

    where v is the running mean of |g|^2, one number for each parameter, and m sums up u. Keeps
    `count`, `mu`, `nu`. Source: Ginsburg et al., Stochastic Gradient Methods with Layer-wise
    Adaptive Moments for Training of Deep Networks, 2019.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the sum a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        weight_decay: How strongly the parameters are pulled towards zero.
        name: The first part of the names of what is kept.
    """
    return descending(
        "novograd", name, learning_rate,
        lambda given: optax.novograd(given.rate, b1, b2, eps, eps_root, weight_decay),
    )  # fmt: skip


@recorded
@says_where
def fromage(
    learning_rate: LearningRate, min_norm: float = 1e-6, *, name: str | None = None
) -> Optimizer:
    """Steps as long as their parameters, which grow no longer by it.

        p' = (p - learning_rate * g * |p| / |g|) / sqrt(1 + learning_rate^2)

    Source: Bernstein et al., On the Distance between Two Neural Networks and the Stability of
    Learning, 2020.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        min_norm: The least length that counts.
        name: The first part of the names of what is kept.
    """
    return descending(
        "fromage", name, learning_rate, lambda given: optax.fromage(given.rate, min_norm)
    )


@recorded
@says_where
def muon(
    learning_rate: LearningRate,
    ns_steps: int = 5,
    beta: float = 0.95,
    eps: float = 1e-8,
    *,
    weight_decay: float = 0.0,
    nesterov: bool = True,
    name: str | None = None,
) -> Optimizer:
    """Momentum of matrices, made orthogonal; `adamw` for what has another rank.

    The matrix of the update gets singular values near 1 by `ns_steps` steps of Newton and
    Schulz. Keeps `count`, `mu`, and for the others `nu`. Source: Jordan, Muon: An Optimizer for
    Hidden Layers in Neural Networks, 2024.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        ns_steps: How often the matrix is brought nearer.
        beta: How much of the mean gradient a step keeps.
        eps: Keeps a quotient finite.
        weight_decay: How strongly matrices are pulled towards zero.
        nesterov: Whether the mean looks one step ahead.
        name: The first part of the names of what is kept.
    """
    return descending(
        "muon", name, learning_rate,
        lambda given: optax.contrib.muon(
            given.rate, ns_steps=ns_steps, beta=beta, eps=eps,
            weight_decay=weight_decay, nesterov=nesterov,
        ),
    )  # fmt: skip
