"""Adam and its kin: a running mean of the gradient over a measure of its size."""

from __future__ import annotations

from braces.builder.source_line import says_where
from braces.frontend.optimizer.core.chain import descending
from braces.frontend.optimizer.core.minimize import Optimizer
from braces.frontend.optimizer.core.recorded_call import recorded
from braces.frontend.optimizer.core.transforms import LearningRate, Mask, checked_mask
from braces.lazy import optax


@recorded
@says_where
def adam(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    nesterov: bool = False,
    name: str | None = None,
) -> Optimizer:
    """Running mean of the gradient over the running root of its square.

        p' = p - learning_rate * m / (sqrt(v + eps_root) + eps)

    where m and v are the running means of g and g^2 over what they are of ones. Keeps `count`,
    `mu`, `nu`. Source, of the defaults too: Kingma, Ba, Adam: A Method for Stochastic
    Optimization, 2014.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root; above 0 where gradients are taken through a step.
        nesterov: Whether the mean looks one step ahead.
        name: The first part of the names of what is kept.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=1.0)
        ...     pairs = br.optimizer.adam(1e-3).minimize(br.sum(w * w))
        >>> list(prog.updates)
        ['adam/count', 'adam/mu/w', 'adam/nu/w', 'w']
    """
    return descending(
        "adam", name, learning_rate,
        lambda given: optax.adam(given.rate, b1, b2, eps, eps_root, nesterov=nesterov),
    )  # fmt: skip


@recorded
@says_where
def nadam(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` whose mean looks one step ahead.

    Keeps `count`, `mu`, `nu`. Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        name: The first part of the names of what is kept.
    """
    return descending(
        "nadam", name, learning_rate,
        lambda given: optax.nadam(given.rate, b1, b2, eps, eps_root),
    )  # fmt: skip


@recorded
@says_where
def adamw(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    weight_decay: float = 1e-4,
    mask: Mask = None,
    nesterov: bool = False,
    name: str | None = None,
) -> Optimizer:
    """`adam` that pulls the parameters towards zero.

        p' = p - learning_rate * (m / (sqrt(v + eps_root) + eps) + weight_decay * p)

    Keeps `count`, `mu`, `nu`. Source: Loshchilov, Hutter, Decoupled Weight Decay
    Regularization, 2017.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        weight_decay: How strongly.
        mask: Which parameters are pulled: `lambda p: p.ndim > 1` spares biases.
        nesterov: Whether the mean looks one step ahead.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(mask)
    return descending(
        "adamw", name, learning_rate,
        lambda given: optax.adamw(
            given.rate, b1, b2, eps, eps_root,
            weight_decay=weight_decay, mask=given.masked(mask), nesterov=nesterov,
        ),
    )  # fmt: skip


@recorded
@says_where
def lamb(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    *,
    weight_decay: float = 0.0,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """`adamw` whose updates are as long as their parameters; for large batches.

        u = m / (sqrt(v + eps_root) + eps) + weight_decay * p
        p' = p - learning_rate * u * |p| / |u|

    Keeps `count`, `mu`, `nu`. Source: You et al., Large Batch Optimization for Deep Learning:
    Training BERT in 76 minutes, 2019.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        weight_decay: How strongly the parameters are pulled towards zero.
        mask: Which parameters are.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(mask)
    return descending(
        "lamb", name, learning_rate,
        lambda given: optax.lamb(
            given.rate, b1, b2, eps, eps_root, weight_decay, given.masked(mask)
        ),
    )  # fmt: skip


@recorded
@says_where
def amsgrad(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` with the largest mean square so far.

    Keeps `count`, `mu`, `nu`, `nu_max`. Source: Reddi, Kale, Kumar, On the Convergence of Adam
    and Beyond, 2018.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        name: The first part of the names of what is kept.
    """
    return descending(
        "amsgrad", name, learning_rate,
        lambda given: optax.amsgrad(given.rate, b1, b2, eps, eps_root),
    )  # fmt: skip


@recorded
@says_where
def adamax(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` with a decaying maximum in place of the mean square.

    Keeps `count`, `mu`, `nu`. Source: Kingma, Ba, Adam: A Method for Stochastic Optimization,
    2014, section 7.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the maximum a step keeps.
        eps: Keeps the quotient finite.
        name: The first part of the names of what is kept.
    """
    return descending(
        "adamax", name, learning_rate,
        lambda given: optax.adamax(given.rate, b1, b2, eps),
    )  # fmt: skip


@recorded
@says_where
def radam(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam`, rectified for how little is known of the variance in the first steps.

    Keeps `count`, `mu`, `nu`. Source: Liu et al., On the Variance of the Adaptive Learning Rate
    and Beyond, 2019.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        threshold: From where on the variance counts as known.
        name: The first part of the names of what is kept.
    """
    return descending(
        "radam", name, learning_rate,
        lambda given: optax.radam(given.rate, b1, b2, eps, eps_root, threshold),
    )  # fmt: skip


@recorded
@says_where
def adabelief(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` that divides by the gradient's distance from its running mean.

    Keeps `count`, `mu`, `nu`. Source: Zhuang et al., AdaBelief Optimizer: Adapting Stepsizes by
    the Belief in Observed Gradients, 2020.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: Added to the mean square in every step.
        name: The first part of the names of what is kept.
    """
    return descending(
        "adabelief", name, learning_rate,
        lambda given: optax.adabelief(given.rate, b1, b2, eps, eps_root),
    )  # fmt: skip


@recorded
@says_where
def adan(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 1e-8,
    *,
    weight_decay: float = 0.0,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """`adam` with a running mean of how the gradient changes, by which it looks ahead.

        u = (m + (1 - b2) * v) / (sqrt(n + eps_root) + eps)
        p' = p - learning_rate * (u + weight_decay * p)

    where m, v and n are the running means of g, of its change d since the last step, and of
    (g + (1 - b2) * d)^2, each over what it is of ones. Keeps `m`, `v`, `n`, the gradient `g`,
    and the count `t`. Source: Xie et al., Adan: Adaptive Nesterov Momentum Algorithm for Faster
    Optimizing Deep Models, 2022.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean a step keeps.
        b2: How much of the mean change a step keeps.
        b3: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        weight_decay: How strongly the parameters are pulled towards zero.
        mask: Which parameters are.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(mask)
    return descending(
        "adan", name, learning_rate,
        lambda given: optax.adan(
            given.rate, b1, b2, b3, eps, eps_root, weight_decay, given.masked(mask)
        ),
    )  # fmt: skip
