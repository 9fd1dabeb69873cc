"""Adam and its variants: mean gradients divided by a running measure of their size."""

from __future__ import annotations

from braces.frontend.optimizer.core.descent import descent
from braces.frontend.optimizer.core.transforms import LearningRate, Make, Mask
from braces.lazy import optax


@descent(
    epsilon_root="The same inside the square root; above 0 for gradients of the step itself."
)
def adam(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-8, epsilon_root: float = 0.0, *, nesterov: bool = False,
    name: str | None = None,
) -> Make:  # fmt: skip
    """Adam: the running mean of the gradient over the root of its running mean square.

        p' = p - learning_rate * m / (sqrt(v + epsilon_root) + epsilon)

    where m and v are the bias-corrected running means of g and g^2. States: `count`, `mu`,
    `nu`. Source, of the defaults too: Kingma, Ba, Adam: A Method for Stochastic Optimization,
    2014.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=1.0)
        ...     pairs = br.optimizer.adam(1e-3).minimize(br.sum(w * w))
        >>> list(prog.updates)
        ['adam/count', 'adam/mu/w', 'adam/nu/w', 'w']
    """
    return lambda args: optax.adam(args.rate, b1, b2, epsilon, epsilon_root, nesterov=nesterov)


@descent()
def nadam(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-8, epsilon_root: float = 0.0, *, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` with Nesterov momentum.

    States: `count`, `mu`, `nu`. Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016.
    """
    return lambda args: optax.nadam(args.rate, b1, b2, epsilon, epsilon_root)


@descent(mask="Selects the parameters with weight decay: `lambda p: p.ndim > 1` spares biases.")
def adamw(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-8, epsilon_root: float = 0.0, *, weight_decay: float = 1e-4,
    mask: Mask = None, nesterov: bool = False, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` with decoupled weight decay.

        p' = p - learning_rate * (m / (sqrt(v + epsilon_root) + epsilon) + weight_decay * p)

    States: `count`, `mu`, `nu`. Source: Loshchilov, Hutter, Decoupled Weight Decay
    Regularization, 2017.
    """
    return lambda args: optax.adamw(
        args.rate, b1, b2, epsilon, epsilon_root, weight_decay=weight_decay,
        mask=args.masked(mask), nesterov=nesterov,
    )  # fmt: skip


@descent()
def lamb(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-6, epsilon_root: float = 0.0, *, weight_decay: float = 0.0,
    mask: Mask = None, name: str | None = None,
) -> Make:  # fmt: skip
    """`adamw` with updates scaled to the norms of their parameters; for large batches.

        u = m / (sqrt(v + epsilon_root) + epsilon) + weight_decay * p
        p' = p - learning_rate * u * |p| / |u|

    States: `count`, `mu`, `nu`. Source: You et al., Large Batch Optimization for Deep Learning:
    Training BERT in 76 minutes, 2019.
    """
    return lambda args: optax.lamb(
        args.rate, b1, b2, epsilon, epsilon_root, weight_decay, args.masked(mask)
    )


@descent()
def amsgrad(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-8, epsilon_root: float = 0.0, *, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` with the largest mean square so far.

    States: `count`, `mu`, `nu`, `nu_max`. Source: Reddi, Kale, Kumar, On the Convergence of
    Adam and Beyond, 2018.
    """
    return lambda args: optax.amsgrad(args.rate, b1, b2, epsilon, epsilon_root)


@descent(b2="Decay rate of the maximum.")
def adamax(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-8, *, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` with a decaying maximum in place of the mean square.

    States: `count`, `mu`, `nu`. Source: Kingma, Ba, Adam: A Method for Stochastic Optimization,
    2014, section 7.
    """
    return lambda args: optax.adamax(args.rate, b1, b2, epsilon)


@descent(threshold="The length of the approximated average above which updates are rectified.")
def radam(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-8, epsilon_root: float = 0.0, threshold: float = 5.0, *,
    name: str | None = None,
) -> Make:  # fmt: skip
    """`adam`, rectified for the variance of its scale in the first steps.

    States: `count`, `mu`, `nu`. Source: Liu et al., On the Variance of the Adaptive Learning
    Rate and Beyond, 2019.
    """
    return lambda args: optax.radam(args.rate, b1, b2, epsilon, epsilon_root, threshold)


@descent(epsilon_root="Added to the mean square in every step.")
def adabelief(
    learning_rate: LearningRate = 1e-3, b1: float = 0.9, b2: float = 0.999,
    epsilon: float = 1e-16, epsilon_root: float = 1e-16, *, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` divided by the deviation of the gradient from its running mean.

    States: `count`, `mu`, `nu`. Source: Zhuang et al., AdaBelief Optimizer: Adapting Stepsizes
    by the Belief in Observed Gradients, 2020.
    """
    return lambda args: optax.adabelief(args.rate, b1, b2, epsilon, epsilon_root)


@descent(b2="Decay rate of the mean change.", b3="Decay rate of the mean square.")
def adan(
    learning_rate: LearningRate = 1e-3, b1: float = 0.98, b2: float = 0.92, b3: float = 0.99,
    epsilon: float = 1e-8, epsilon_root: float = 1e-8, *, weight_decay: float = 0.0,
    mask: Mask = None, name: str | None = None,
) -> Make:  # fmt: skip
    """`adam` with Nesterov momentum from a running mean of gradient differences.

        u = (m + (1 - b2) * v) / (sqrt(n + epsilon_root) + epsilon)
        p' = p - learning_rate * (u + weight_decay * p)

    where m, v and n are the bias-corrected running means of g, of its change d since the last
    step, and of (g + (1 - b2) * d)^2. States: `m`, `v`, `n`, the gradient `g`, and the count
    `t`. Source: Xie et al., Adan: Adaptive Nesterov Momentum Algorithm for Faster Optimizing
    Deep Models, 2022.
    """
    return lambda args: optax.adan(
        args.rate, b1, b2, b3, epsilon, epsilon_root, weight_decay, args.masked(mask)
    )
