"""Chains: gradients pass through one transformation after the other."""

from __future__ import annotations

from typing import Any

from braces.builder.source_line import says_where
from braces.errors import ProgramError
from braces.frontend.optimizer.core.minimize import Optimizer, refuse_scaling
from braces.frontend.optimizer.core.recorded_call import recorded
from braces.frontend.optimizer.core.transforms import (
    Given,
    LearningRate,
    Make,
    Mask,
    Part,
    checked_mask,
    checked_rate,
    part,
)
from braces.lazy import optax


def descending(default: str, name: str | None, rate: Any, make: Make) -> Optimizer:
    """An optimizer with a learning rate."""
    return Optimizer((part(default, name, make, checked_rate(rate)),))


# ---- chains ----------------------------------------------------------------------------------


@recorded
@says_where
def chain(*optimizers: Optimizer) -> Optimizer:
    """One after the other: what each gives is the gradient of the next.

    Args:
        *optimizers: Just one of them has a learning rate, unless one of `from_optax` does it.

    Example:
        >>> from braces import optimizer as opt
        >>> clipped = opt.chain(opt.clip_by_global_norm(1.0), opt.adam(1e-3))
    """
    return Optimizer(tuple(part for one in optimizers for part in _linked(one)))


def _linked(given: Any) -> tuple[Part, ...]:
    if not isinstance(given, Optimizer):
        raise ProgramError(
            f"{given!r:.80} cannot be chained.",
            fix="Chain what br.optimizer makes: chain(clip(1.0), adam(1e-3)). What optax makes "
            "comes in by from_optax(tx).",
        )
    refuse_scaling("chain", given)
    return given.parts


@recorded
@says_where
def clip_by_global_norm(max_norm: float) -> Optimizer:
    """Shortens all gradients together where their common norm is above `max_norm`.

    Source: Pascanu, Mikolov, Bengio, On the Difficulty of Training Recurrent Neural Networks,
    2012.
    """
    name = "clip_by_global_norm"
    return Optimizer((part(name, None, lambda _: optax.clip_by_global_norm(max_norm)),))


@recorded
@says_where
def clip_by_value(max_delta: float) -> Optimizer:
    """Brings every number of every gradient into [-max_delta, max_delta]."""
    return Optimizer((part("clip_by_value", None, lambda _: optax.clip(max_delta)),))


@recorded
@says_where
def add_decayed_weights(weight_decay: float, mask: Mask = None) -> Optimizer:
    """Adds `weight_decay` times the parameter to its gradient.

    Before an optimizer this is a squared penalty on the parameters; between its rescaling and
    its learning rate it is decoupled decay, as `adamw` has it.

    Args:
        weight_decay: How strongly.
        mask: For which parameters: `lambda p: p.ndim > 1` spares biases.
    """
    mask = checked_mask(mask)

    def make(given: Given) -> Any:
        return optax.add_decayed_weights(weight_decay, given.masked(mask))

    return Optimizer((part("add_decayed_weights", None, make),))


@recorded
@says_where
def scale_by_learning_rate(
    learning_rate: LearningRate, *, name: str | None = None
) -> Optimizer:
    """Descends: the last of a chain that has no optimizer. It is `sgd` without momentum."""
    return descending(
        "scale_by_learning_rate", name, learning_rate,
        lambda given: optax.scale_by_learning_rate(given.rate),
    )  # fmt: skip


@recorded
@says_where
def from_optax(
    tx: Any, learning_rate: LearningRate | None = None, *, name: str | None = None
) -> Optimizer:
    """Any transformation of optax, also one that you wrote, as a part of the program.

    Its `init` and `update` are traced once where the optimizer is built; what they did are
    then operators like any others, and nothing of it is called again. What it keeps is called
    as its fields and keys are: `optax/count`, `optax/mu/fc1.w`; what would have the same name
    as another gets a number.

    Used alone it has to descend by itself, as `optax.adam(1e-3)` does: parameters move by what
    it gives. With `learning_rate` it is a function instead, from a learning rate to a
    transformation, and the learning rate is one of ours: `from_optax(optax.adam, 1e-3)`. Then
    the scope has it, or it is a schedule or a variable; a schedule reads `NAME/count`, which
    is the count of the transformation where it keeps one by this name.

    Transformations are given the parameters and, by `minimize`, the loss as `value=`.

    Args:
        tx: A `optax.GradientTransformation`; with `learning_rate` what makes one.
        learning_rate: A number, a schedule, or a scalar variable.
        name: The first part of the names of what is kept; `optax` by default.

    Raises:
        ProgramError: It is no transformation. When it is built: it fails, asks for values, or
            uses a primitive of JAX that there is no operator for.

    Example:
        >>> import braces as br
        >>> import jax, jax.numpy as jnp, optax
        >>> signs = optax.stateless(lambda updates, params: jax.tree.map(jnp.sign, updates))
        >>> made = br.optimizer.from_optax(optax.chain(signs, optax.sgd(0.1, momentum=0.9)))
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=[1.0, -4.0])
        ...     pairs = made.minimize(br.sum(w * w))
        >>> scope, exe = br.Scope(), br.Executor()
        >>> _ = exe.init(prog, scope)
        >>> exe.run(prog, scope)
        [array(17., dtype=float32)]
        >>> scope.var("w").value, list(prog.updates)
        (array([ 0.9, -3.9], dtype=float32), ['optax/trace/w', 'w'])
    """
    if learning_rate is None:
        _check_transformation(tx)
        return Optimizer((part("optax", name, lambda _: tx, whole=True),))
    return descending("optax", name, learning_rate, lambda given: tx(given.rate))


def _check_transformation(tx: Any) -> None:
    if not isinstance(tx, optax.GradientTransformation):
        raise ProgramError(
            f"{tx!r:.80} is no transformation of optax.",
            fix="Pass what optax makes, as optax.adam(1e-3). A function that makes one goes "
            "with a learning rate: from_optax(optax.adam, 1e-3).",
        )
