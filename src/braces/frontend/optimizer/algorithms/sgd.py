"""Gradient descent and its kin: by the gradient, its sign, or its size so far."""

from __future__ import annotations

from typing import Any

from braces.builder.source_line import says_where
from braces.frontend.optimizer.core.chain import descending
from braces.frontend.optimizer.core.minimize import Optimizer
from braces.frontend.optimizer.core.recorded_call import recorded
from braces.frontend.optimizer.core.transforms import Given, LearningRate, Mask, checked_mask
from braces.lazy import optax

# ---- by their gradients alone ----------------------------------------------------------------


@recorded
@says_where
def sgd(
    learning_rate: LearningRate,
    momentum: float | None = None,
    nesterov: bool = False,
    *,
    name: str | None = None,
) -> Optimizer:
    """Gradient descent: p' = p - learning_rate * g, with the momentum of `momentum` if any.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        momentum: How much of the sum of updates a step keeps; without one nothing is kept.
        nesterov: Whether the sum looks one step ahead.
        name: The first part of the names of what is kept.
    """
    return descending(
        "sgd", name, learning_rate,
        lambda given: optax.sgd(given.rate, momentum, nesterov),
    )  # fmt: skip


@recorded
@says_where
def momentum(
    learning_rate: LearningRate,
    momentum: float = 0.9,
    nesterov: bool = False,
    *,
    name: str | None = None,
) -> Optimizer:
    """Gradient descent with momentum.

        trace' = g + momentum * trace,   p' = p - learning_rate * trace'

    Keeps `trace`. Source: Sutskever et al., On the Importance of Initialization and Momentum in
    Deep Learning, 2013.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        momentum: How much of the sum of updates a step keeps.
        nesterov: Whether the sum looks one step ahead.
        name: The first part of the names of what is kept.
    """
    return descending(
        "momentum", name, learning_rate,
        lambda given: optax.sgd(given.rate, momentum, nesterov),
    )  # fmt: skip


@recorded
@says_where
def lars(
    learning_rate: LearningRate,
    momentum: float = 0.9,
    nesterov: bool = False,
    *,
    trust_coefficient: float = 1e-3,
    eps: float = 0.0,
    weight_decay: float = 0.0,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """`momentum` whose steps follow the length of each parameter; for large batches.

        u = g + weight_decay * p
        trace' = momentum * trace - learning_rate * trust_coefficient * u * |p| / (|u| + eps)
        p' = p + trace'

    Keeps `trace`. Source: You, Gitman, Ginsburg, Large Batch Training of Convolutional
    Networks, 2017.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        momentum: How much of the sum of updates a step keeps.
        nesterov: Whether the sum looks one step ahead.
        trust_coefficient: How far a step goes, in lengths of the parameter.
        eps: Keeps the quotient finite.
        weight_decay: How strongly the parameters are pulled towards zero.
        mask: Which parameters are pulled and scaled by their lengths; the others move by
            `momentum` alone. `lambda p: p.ndim > 1` spares biases.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(mask)

    def make(given: Given) -> Any:
        chosen = True if mask is None else given.masked(mask)
        return optax.lars(
            given.rate, weight_decay, chosen, trust_coefficient, eps, chosen, momentum, nesterov
        )

    return descending("lars", name, learning_rate, make)


@recorded
@says_where
def lion(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.99,
    *,
    weight_decay: float = 1e-3,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """Moves every number as far as any other, by the sign of a running mean.

        p' = p - learning_rate * (sign(b1 * mu + (1 - b1) * g) + weight_decay * p)

    Keeps `mu`. A learning rate is 3 to 10 times smaller than for `adamw`. Source: Chen et al.,
    Symbolic Discovery of Optimization Algorithms, 2023.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        b1: How much of the mean counts for the sign.
        b2: How much of the mean a step keeps.
        weight_decay: How strongly the parameters are pulled towards zero.
        mask: Which parameters are.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(mask)
    return descending(
        "lion", name, learning_rate,
        lambda given: optax.chain(
            _uncounted(optax.scale_by_lion(b1, b2)),
            optax.add_decayed_weights(weight_decay, given.masked(mask)),
            optax.scale_by_learning_rate(given.rate),
        ),
    )  # fmt: skip


def _uncounted(made: Any) -> Any:
    """A transformation without the count that it keeps and does not read."""

    def init(params: Any) -> Any:
        return made.init(params)._replace(count=None)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        updates, after = made.update(updates, state._replace(count=0), params)
        return updates, after._replace(count=None)

    return optax.GradientTransformation(init, update)


# ---- by squares ------------------------------------------------------------------------------


@recorded
@says_where
def rmsprop(
    learning_rate: LearningRate,
    decay: float = 0.9,
    eps: float = 1e-8,
    *,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    name: str | None = None,
) -> Optimizer:
    """The gradient over its running root mean square.

        nu' = decay * nu + (1 - decay) * g^2,   p' = p - learning_rate * g / sqrt(nu' + eps)

    Keeps `nu`, `mu` where `centered`, `trace` with momentum. Sources: Hinton, Neural Networks
    for Machine Learning, lecture 6, 2012; Graves, Generating Sequences With Recurrent Neural
    Networks, 2013.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        decay: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        initial_scale: Where `nu` begins.
        eps_in_sqrt: Whether `eps` is added inside the root.
        centered: Whether the square of the running mean is taken off.
        momentum: How much of the sum of updates a step keeps.
        nesterov: Whether that sum looks one step ahead.
        name: The first part of the names of what is kept.
    """
    return descending(
        "rmsprop", name, learning_rate,
        lambda given: optax.rmsprop(
            given.rate, decay, eps, initial_scale, eps_in_sqrt, centered, momentum, nesterov
        ),
    )  # fmt: skip


@recorded
@says_where
def adagrad(
    learning_rate: LearningRate,
    initial_accumulator_value: float = 0.1,
    eps: float = 1e-7,
    *,
    name: str | None = None,
) -> Optimizer:
    """The gradient over the root of the sum of its squares so far.

        s' = s + g^2,   p' = p - learning_rate * g / sqrt(s' + eps)

    Keeps `sum_of_squares`. Source: Duchi, Hazan, Singer, Adaptive Subgradient Methods for
    Online Learning and Stochastic Optimization, 2011.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        initial_accumulator_value: Where the sum begins.
        eps: Keeps the quotient finite.
        name: The first part of the names of what is kept.
    """
    return descending(
        "adagrad", name, learning_rate,
        lambda given: optax.adagrad(given.rate, initial_accumulator_value, eps),
    )  # fmt: skip


@recorded
@says_where
def adadelta(
    learning_rate: LearningRate = 1.0,
    rho: float = 0.9,
    eps: float = 1e-6,
    *,
    weight_decay: float = 0.0,
    mask: Mask = None,
    name: str | None = None,
) -> Optimizer:
    """Scaled by a running mean of squared updates over one of squared gradients.

    The learning rate is 1 in the paper. Keeps `e_g`, `e_x`. Source: Zeiler, ADADELTA: An
    Adaptive Learning Rate Method, 2012.

    Args:
        learning_rate: A number, a schedule, or a scalar variable.
        rho: How much of the means a step keeps.
        eps: Where the first steps come from.
        weight_decay: The strength of a squared penalty, added to the gradient.
        mask: Which parameters have it.
        name: The first part of the names of what is kept.
    """
    mask = checked_mask(mask)
    return descending(
        "adadelta", name, learning_rate,
        lambda given: optax.adadelta(
            given.rate, rho, eps, weight_decay, given.masked(mask)
        ),
    )  # fmt: skip
