"""Optimizers: from a loss to the next values of its parameters.

    br.optimizer.adam(learning_rate=1e-3).minimize(loss)
    br.optimizer.chain(br.optimizer.clip_by_global_norm(1.0), br.optimizer.adam(1e-3))
    br.optimizer.from_optax(optax.adafactor(1e-3))          # any other, also one of your own

They are optax's. Each is traced once, at construction. Its arithmetic is then a part of the
program: a separate block, called `adam`, of ordinary operators, which can be read, pruned,
edited, saved and differentiated like all others. The state of an optimizer consists of
persistable variables:

    adam/learning_rate    the learning rate, which `scope.var(...).set(...)` changes
    adam/count            the number of steps
    adam/mu/fc1.w         one for each parameter

The first part of the name is the optimizer's, or the argument `name=`; a second optimizer of
the same kind in a program is `adam_1`. With a schedule the learning rate is computed from the
count; the scope then shows the one of the last run (0 before the first one), and setting it has
no effect.

The learning rate is float64 if a parameter is (set it to a `numpy.float64` then), else float32.
The state of a parameter has the parameter's dtype. Numbers shared by all parameters, as 1 -
b2^t, are float64, as in optax with 64-bit JAX.

A schedule replaces the learning rate: one of those here, or any function from the count of
steps, a variable, to the learning rate as a variable:

    br.optimizer.sgd(br.optimizer.cosine_decay_schedule(0.1, decay_steps=1000))
    br.optimizer.sgd(lambda count: 0.1 / (br.cast(count, "float32") + 1.0))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.optimizer.algorithms.adam import (
    adabelief as adabelief,
    adam as adam,
    adamax as adamax,
    adamw as adamw,
    adan as adan,
    amsgrad as amsgrad,
    lamb as lamb,
    nadam as nadam,
    radam as radam,
)
from braces.frontend.optimizer.algorithms.lbfgs import lbfgs as lbfgs
from braces.frontend.optimizer.algorithms.matrix_preconditioned import (
    adafactor as adafactor,
    fromage as fromage,
    muon as muon,
    novograd as novograd,
    sm3 as sm3,
)
from braces.frontend.optimizer.algorithms.other import (
    ademamix as ademamix,
    noisy_sgd as noisy_sgd,
    optimistic_adam as optimistic_adam,
    optimistic_gradient_descent as optimistic_gradient_descent,
    prodigy as prodigy,
    rprop as rprop,
    signum as signum,
    yogi as yogi,
)
from braces.frontend.optimizer.algorithms.sgd import (
    adadelta as adadelta,
    adagrad as adagrad,
    lars as lars,
    lion as lion,
    momentum as momentum,
    rmsprop as rmsprop,
    sgd as sgd,
)
from braces.frontend.optimizer.core.chain import (
    add_decayed_weights as add_decayed_weights,
    chain as chain,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_value as clip_by_value,
    from_optax as from_optax,
    scale_by_learning_rate as scale_by_learning_rate,
)
from braces.frontend.optimizer.core.minimize import Optimizer as Optimizer
from braces.frontend.optimizer.core.schedule import (
    Schedule as Schedule,
    constant_schedule as constant_schedule,
    cosine_decay_schedule as cosine_decay_schedule,
    exponential_decay as exponential_decay,
    join_schedules as join_schedules,
    linear_schedule as linear_schedule,
    piecewise_constant_schedule as piecewise_constant_schedule,
    polynomial_schedule as polynomial_schedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)
from braces.frontend.optimizer.parameter_averages import ema as ema
from braces.frontend.optimizer.partition import partition as partition
from braces.frontend.optimizer.wrappers import (
    apply_if_finite as apply_if_finite,
    dynamic_loss_scale as dynamic_loss_scale,
    lookahead as lookahead,
    multi_steps as multi_steps,
    schedule_free as schedule_free,
)

__all__ = [
    "Optimizer", "Schedule", "adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax",
    "adamw", "adan", "add_decayed_weights", "ademamix", "amsgrad", "apply_if_finite", "chain",
    "clip_by_global_norm", "clip_by_value", "constant_schedule",
    "cosine_decay_schedule", "dynamic_loss_scale", "ema", "exponential_decay", "from_optax",
    "fromage", "join_schedules", "lamb", "lars", "lbfgs", "linear_schedule", "lion",
    "lookahead", "momentum", "multi_steps", "muon", "nadam", "noisy_sgd", "novograd",
    "optimistic_adam", "optimistic_gradient_descent", "partition",
    "piecewise_constant_schedule", "polynomial_schedule", "prodigy", "radam", "rmsprop",
    "rprop", "scale_by_learning_rate", "schedule_free", "sgd", "signum", "sm3",
    "warmup_cosine_decay_schedule", "yogi",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.optimizer", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
