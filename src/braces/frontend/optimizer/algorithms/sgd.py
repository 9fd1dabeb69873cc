"""Gradient descent and its variants: by gradients, their signs, or their squares."""

from __future__ import annotations

from typing import Any

from braces.frontend.optimizer.core.descent import descent
from braces.frontend.optimizer.core.transforms import LearningRate, Make, Mask, UpdateArgs
from braces.lazy import optax

# ---- by gradients ----------------------------------------------------------------------------


@descent(momentum="Decay rate of the sum of updates; without it there is no state.")
def sgd(
    learning_rate: LearningRate, momentum: float | None = None, nesterov: bool = False, *,
    name: str | None = None,
) -> Make:  # fmt: skip
    """Gradient descent: p' = p - learning_rate * g, optionally with momentum (see `momentum`).

    States: `trace` with momentum.
    """
    return lambda args: optax.sgd(args.rate, momentum, nesterov)


@descent()
def momentum(
    learning_rate: LearningRate, momentum: float = 0.9, nesterov: bool = False, *,
    name: str | None = None,
) -> Make:  # fmt: skip
    """Gradient descent with momentum.

        trace' = g + momentum * trace,   p' = p - learning_rate * trace'

    States: `trace`. Source: Sutskever et al., On the Importance of Initialization and Momentum
    in Deep Learning, 2013.
    """
    return lambda args: optax.sgd(args.rate, momentum, nesterov)


@descent(
    trust_coefficient="Step size relative to the norm of the parameter.",
    mask="Selects the parameters with weight decay and scaling by norms; the others use "
    "`momentum` alone. `lambda p: p.ndim > 1` spares biases.",
)
def lars(
    learning_rate: LearningRate, momentum: float = 0.9, nesterov: bool = False, *,
    trust_coefficient: float = 1e-3, epsilon: float = 0.0, weight_decay: float = 0.0,
    mask: Mask = None, name: str | None = None,
) -> Make:  # fmt: skip
    """`momentum` with steps scaled to the norm of each parameter; for large batches.

        u = g + weight_decay * p
        rate = learning_rate * trust_coefficient * |p| / (|u| + epsilon)
        trace' = momentum * trace - rate * u
        p' = p + trace'

    States: `trace`. Source: You, Gitman, Ginsburg, Large Batch Training of Convolutional
    Networks, 2017.
    """

    def make(args: UpdateArgs) -> Any:
        masks = True if mask is None else args.masked(mask)
        return optax.lars(
            args.rate, weight_decay, masks, trust_coefficient, epsilon, masks, momentum,
            nesterov,
        )  # fmt: skip

    return make


@descent(b1="Weight of the mean in the sign.", b2="Decay rate of the mean.")
def lion(
    learning_rate: LearningRate, b1: float = 0.9, b2: float = 0.99, *,
    weight_decay: float = 1e-3, mask: Mask = None, name: str | None = None,
) -> Make:  # fmt: skip
    """Lion: steps by the sign of a running mean, equally large for all elements.

        p' = p - learning_rate * (sign(b1 * mu + (1 - b1) * g) + weight_decay * p)

    States: `mu`. The learning rate is 3 to 10 times smaller than for `adamw`. Source: Chen et
    al., Symbolic Discovery of Optimization Algorithms, 2023.
    """
    return lambda args: optax.chain(
        _without_count(optax.scale_by_lion(b1, b2)),
        optax.add_decayed_weights(weight_decay, args.masked(mask)),
        optax.scale_by_learning_rate(args.rate),
    )


def _without_count(tx: Any) -> Any:
    """Return a transformation without its count, which its update does not read."""

    def init(params: Any) -> Any:
        return tx.init(params)._replace(count=None)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        updates, new_state = tx.update(updates, state._replace(count=0), params)
        return updates, new_state._replace(count=None)

    return optax.GradientTransformation(init, update)


# ---- by squares ------------------------------------------------------------------------------


@descent(
    decay="Decay rate of the mean square.",
    initial_scale="Initial value of `nu`.",
    epsilon_in_sqrt="Whether `epsilon` is added inside the root.",
    centered="Whether to subtract the square of the running mean (use the variance).",
)
def rmsprop(
    learning_rate: LearningRate, decay: float = 0.9, epsilon: float = 1e-8, *,
    initial_scale: float = 0.0, epsilon_in_sqrt: bool = True, centered: bool = False,
    momentum: float | None = None, nesterov: bool = False, name: str | None = None,
) -> Make:  # fmt: skip
    """RMSProp: the gradient over its running root mean square.

        nu' = decay * nu + (1 - decay) * g^2,   p' = p - learning_rate * g / sqrt(nu' + epsilon)

    States: `nu`, `mu` if `centered`, `trace` with momentum. Sources: Hinton, Neural Networks
    for Machine Learning, lecture 6, 2012; Graves, Generating Sequences With Recurrent Neural
    Networks, 2013.
    """
    return lambda args: optax.rmsprop(
        args.rate, decay, epsilon, initial_scale, epsilon_in_sqrt, centered, momentum, nesterov
    )


@descent(initial_accumulator_value="Initial value of the sum.")
def adagrad(
    learning_rate: LearningRate, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
    *, name: str | None = None,
) -> Make:  # fmt: skip
    """Adagrad: the gradient over the root of the sum of its squares so far.

        s' = s + g^2,   p' = p - learning_rate * g / sqrt(s' + epsilon)

    States: `sum_of_squares`. Source: Duchi, Hazan, Singer, Adaptive Subgradient Methods for
    Online Learning and Stochastic Optimization, 2011.
    """
    return lambda args: optax.adagrad(args.rate, initial_accumulator_value, epsilon)


@descent(
    rho="Decay rate of the means.",
    epsilon="Small constant in both roots; it sets the size of the first steps.",
    weight_decay="Coefficient of a squared penalty, added to the gradient.",
    mask="Selects the parameters with the penalty.",
)
def adadelta(
    learning_rate: LearningRate = 1.0, rho: float = 0.9, epsilon: float = 1e-6, *,
    weight_decay: float = 0.0, mask: Mask = None, name: str | None = None,
) -> Make:  # fmt: skip
    """Adadelta: the gradient times the ratio of root mean squares of updates and gradients.

    The learning rate is 1 in the paper. States: `e_g`, `e_x`. Source: Zeiler, ADADELTA: An
    Adaptive Learning Rate Method, 2012.
    """
    return lambda args: optax.adadelta(args.rate, rho, epsilon, weight_decay, args.masked(mask))
