"""Optimizers: from a loss to the next values of its parameters.

    br.optimizer.adam(learning_rate=1e-3).minimize(loss)
    br.optimizer.chain(br.optimizer.clip_by_global_norm(1.0), br.optimizer.adam(1e-3))

They have optax's names and do optax's arithmetic, as operators of the program. What they keep
from run to run are persistable variables with names of their own, whatever the layout of optax:

    adam/learning_rate    the learning rate, which `scope.var(...).set(...)` changes
    adam/count            the steps done
    adam/mu/fc1.w         one for each parameter

The first part of the name is the optimizer's, or what `name=` says; a second one of the same
kind in a program is `adam_1`. With a schedule the learning rate follows from the count; the
scope then shows the one of the last run (0 before the first one), and setting it has no effect.

The learning rate is float64 where a parameter is (set it to a `numpy.float64` then), else
float32. What is kept for a parameter has the parameter's dtype.
"""

from __future__ import annotations

from braces.frontend.adam import (
    adabelief as adabelief,
    adam as adam,
    adamax as adamax,
    adamw as adamw,
    amsgrad as amsgrad,
    lamb as lamb,
    nadam as nadam,
    radam as radam,
)
from braces.frontend.chains import (
    add_decayed_weights as add_decayed_weights,
    chain as chain,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_value as clip_by_value,
    decay,
    part,
    rate,
    scale_by_learning_rate as scale_by_learning_rate,
    step,
    transformation as transformation,
)
from braces.frontend.guard import missing_from
from braces.frontend.schedule import (
    constant_schedule as constant_schedule,
    cosine_decay_schedule as cosine_decay_schedule,
    exponential_decay_schedule as exponential_decay,
    join_schedules as join_schedules,
    linear_schedule as linear_schedule,
    piecewise_constant_schedule as piecewise_constant_schedule,
    polynomial_schedule as polynomial_schedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)
from braces.frontend.transformations import LearningRate, Mask, Optimizer as Optimizer
from braces.ops.source import says_where

clip = clip_by_value

__all__ = [
    "Optimizer", "adabelief", "adadelta", "adagrad", "adam", "adamax", "adamw",
    "add_decayed_weights", "amsgrad", "chain", "clip", "clip_by_global_norm", "clip_by_value",
    "constant_schedule", "cosine_decay_schedule", "exponential_decay", "join_schedules", "lamb",
    "linear_schedule", "lion", "momentum", "nadam", "piecewise_constant_schedule",
    "polynomial_schedule", "radam", "rmsprop", "scale_by_learning_rate", "sgd",
    "transformation", "warmup_cosine_decay_schedule",
]  # fmt: skip

# ---- by their gradients alone ----------------------------------------------------------------


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
    if momentum is None:
        return part("sgd", name, rate(learning_rate))
    made = step("add_momentum", decay=momentum, nesterov=nesterov)
    return part("sgd", name, made, rate(learning_rate))


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
    made = step("add_momentum", decay=momentum, nesterov=nesterov)
    return part("momentum", name, made, rate(learning_rate))


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
    made = step("scale_by_lion", b1=b1, b2=b2)
    return part("lion", name, made, *decay(weight_decay, mask), rate(learning_rate))


# ---- by squares ------------------------------------------------------------------------------


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
    op = "scale_by_stddev" if centered else "scale_by_rms"
    initial = {"nu": initial_scale}
    first = step(op, initial=initial, decay=decay, eps=eps, eps_in_sqrt=eps_in_sqrt)
    if momentum is None:
        return part("rmsprop", name, first, rate(learning_rate))
    last = step("add_momentum", decay=momentum, nesterov=nesterov)
    return part("rmsprop", name, first, rate(learning_rate), last)


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
    initial = {"sum_of_squares": initial_accumulator_value}
    return part(
        "adagrad", name, step("scale_by_rss", initial=initial, eps=eps), rate(learning_rate)
    )


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
    made = step("scale_by_adadelta", rho=rho, eps=eps)
    return part("adadelta", name, *decay(weight_decay, mask), made, rate(learning_rate))


__getattr__ = missing_from("br.optimizer", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
