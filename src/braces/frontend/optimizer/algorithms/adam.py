"""Adam and its variants: mean gradients divided by a running measure of their size."""

from __future__ import annotations

from braces.builder.source_line import with_user_line
from braces.frontend.optimizer.core.chain import make_descent
from braces.frontend.optimizer.core.minimize import Optimizer
from braces.frontend.optimizer.core.recorded_call import record_call
from braces.frontend.optimizer.core.transforms import LearningRate, Mask, check_mask
from braces.lazy import optax


@record_call
@with_user_line
def adam(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-8,
    epsilon_root: float = 0.0,
    *,
    nesterov: bool = False,
    name: str | None = None,
) -> Optimizer:
    """Adam: the running mean of the gradient over the root of its running mean square.

        p' = p - learning_rate * m / (sqrt(v + epsilon_root) + epsilon)

    where m and v are the bias-corrected running means of g and g^2. States: `count`, `mu`,
    `nu`. Source, of the defaults too: Kingma, Ba, Adam: A Method for Stochastic Optimization,
    2014.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: The same inside the square root; above 0 for gradients of the step itself.
        nesterov: Whether to use Nesterov momentum.
        name: Prefix of the names of its states.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=1.0)
        ...     pairs = br.optimizer.adam(1e-3).minimize(br.sum(w * w))
        >>> list(prog.updates)
        ['adam/count', 'adam/mu/w', 'adam/nu/w', 'w']
    """
    return make_descent(
        "adam", name, learning_rate,
        lambda args: optax.adam(args.rate, b1, b2, epsilon, epsilon_root, nesterov=nesterov),
    )  # fmt: skip


@record_call
@with_user_line
def nadam(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-8,
    epsilon_root: float = 0.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` with Nesterov momentum.

    States: `count`, `mu`, `nu`. Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: The same inside the square root.
        name: Prefix of the names of its states.
    """
    return make_descent(
        "nadam", name, learning_rate,
        lambda args: optax.nadam(args.rate, b1, b2, epsilon, epsilon_root),
    )  # fmt: skip


@record_call
@with_user_line
def adamw(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-8,
    epsilon_root: float = 0.0,
    *,
    weight_decay: float = 1e-4,
    mask: Mask = None,
    nesterov: bool = False,
    name: str | None = None,
) -> Optimizer:
    """`adam` with decoupled weight decay.

        p' = p - learning_rate * (m / (sqrt(v + epsilon_root) + epsilon) + weight_decay * p)

    States: `count`, `mu`, `nu`. Source: Loshchilov, Hutter, Decoupled Weight Decay
    Regularization, 2017.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: The same inside the square root.
        weight_decay: Coefficient of the weight decay.
        mask: Selects the parameters with weight decay: `lambda p: p.ndim > 1` spares biases.
        nesterov: Whether to use Nesterov momentum.
        name: Prefix of the names of its states.
    """
    mask = check_mask(mask)
    return make_descent(
        "adamw", name, learning_rate,
        lambda args: optax.adamw(
            args.rate, b1, b2, epsilon, epsilon_root,
            weight_decay=weight_decay, mask=args.masked(mask), nesterov=nesterov,
        ),
    )  # fmt: skip


@record_call
@with_user_line
def lamb(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-6,
    epsilon_root: float = 0.0,
    *,
    weight_decay: float = 0.0,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """`adamw` with updates scaled to the norms of their parameters; for large batches.

        u = m / (sqrt(v + epsilon_root) + epsilon) + weight_decay * p
        p' = p - learning_rate * u * |p| / |u|

    States: `count`, `mu`, `nu`. Source: You et al., Large Batch Optimization for Deep Learning:
    Training BERT in 76 minutes, 2019.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: The same inside the square root.
        weight_decay: Coefficient of the weight decay.
        mask: Selects the parameters with weight decay.
        name: Prefix of the names of its states.
    """
    mask = check_mask(mask)
    return make_descent(
        "lamb", name, learning_rate,
        lambda args: optax.lamb(
            args.rate, b1, b2, epsilon, epsilon_root, weight_decay, args.masked(mask)
        ),
    )  # fmt: skip


@record_call
@with_user_line
def amsgrad(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-8,
    epsilon_root: float = 0.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` with the largest mean square so far.

    States: `count`, `mu`, `nu`, `nu_max`. Source: Reddi, Kale, Kumar, On the Convergence of
    Adam and Beyond, 2018.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: The same inside the square root.
        name: Prefix of the names of its states.
    """
    return make_descent(
        "amsgrad", name, learning_rate,
        lambda args: optax.amsgrad(args.rate, b1, b2, epsilon, epsilon_root),
    )  # fmt: skip


@record_call
@with_user_line
def adamax(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-8,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` with a decaying maximum in place of the mean square.

    States: `count`, `mu`, `nu`. Source: Kingma, Ba, Adam: A Method for Stochastic Optimization,
    2014, section 7.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the maximum.
        epsilon: Small constant against division by zero.
        name: Prefix of the names of its states.
    """
    return make_descent(
        "adamax", name, learning_rate,
        lambda args: optax.adamax(args.rate, b1, b2, epsilon),
    )  # fmt: skip


@record_call
@with_user_line
def radam(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-8,
    epsilon_root: float = 0.0,
    threshold: float = 5.0,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam`, rectified for the variance of its scale in the first steps.

    States: `count`, `mu`, `nu`. Source: Liu et al., On the Variance of the Adaptive Learning
    Rate and Beyond, 2019.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: The same inside the square root.
        threshold: The length of the approximated average above which updates are rectified.
        name: Prefix of the names of its states.
    """
    return make_descent(
        "radam", name, learning_rate,
        lambda args: optax.radam(args.rate, b1, b2, epsilon, epsilon_root, threshold),
    )  # fmt: skip


@record_call
@with_user_line
def adabelief(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    epsilon: float = 1e-16,
    epsilon_root: float = 1e-16,
    *,
    name: str | None = None,
) -> Optimizer:
    """`adam` divided by the deviation of the gradient from its running mean.

    States: `count`, `mu`, `nu`. Source: Zhuang et al., AdaBelief Optimizer: Adapting Stepsizes
    by the Belief in Observed Gradients, 2020.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: Added to the mean square in every step.
        name: Prefix of the names of its states.
    """
    return make_descent(
        "adabelief", name, learning_rate,
        lambda args: optax.adabelief(args.rate, b1, b2, epsilon, epsilon_root),
    )  # fmt: skip


@record_call
@with_user_line
def adan(
    learning_rate: LearningRate = 1e-3,
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    epsilon: float = 1e-8,
    epsilon_root: float = 1e-8,
    *,
    weight_decay: float = 0.0,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """`adam` with Nesterov momentum from a running mean of gradient differences.

        u = (m + (1 - b2) * v) / (sqrt(n + epsilon_root) + epsilon)
        p' = p - learning_rate * (u + weight_decay * p)

    where m, v and n are the bias-corrected running means of g, of its change d since the last
    step, and of (g + (1 - b2) * d)^2. States: `m`, `v`, `n`, the gradient `g`, and the count
    `t`. Source: Xie et al., Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing
    Deep Models, 2022.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: Decay rate of the mean.
        b2: Decay rate of the mean change.
        b3: Decay rate of the mean square.
        epsilon: Small constant against division by zero.
        epsilon_root: The same inside the square root.
        weight_decay: Coefficient of the weight decay.
        mask: Selects the parameters with weight decay.
        name: Prefix of the names of its states.
    """
    mask = check_mask(mask)
    return make_descent(
        "adan", name, learning_rate,
        lambda args: optax.adan(
            args.rate, b1, b2, b3, epsilon, epsilon_root, weight_decay, args.masked(mask)
        ),
    )  # fmt: skip
