"""Chains of gradient transformations."""

from __future__ import annotations

from typing import Any

from braces.builder.source_line import with_user_line
from braces.errors import ProgramError
from braces.frontend.optimizer.core.minimize import Optimizer, refuse_scaling
from braces.frontend.optimizer.core.recorded_call import record_call
from braces.frontend.optimizer.core.transforms import (
    LearningRate,
    Make,
    Mask,
    Transform,
    UpdateArgs,
    check_mask,
    check_rate,
    part,
)
from braces.lazy import optax


def make_descent(default: str, name: str | None, rate: Any, make: Make) -> Optimizer:
    """Return an optimizer with a learning rate."""
    return Optimizer((part(default, name, make, check_rate(rate)),))


# ---- chains ----------------------------------------------------------------------------------


@record_call
@with_user_line
def chain(*optimizers: Optimizer) -> Optimizer:
    """Compose optimizers: the updates of each are the gradients of the next.

    Args:
        *optimizers: Exactly one has a learning rate, unless one from `from_optax` includes it.

    Example:
        >>> from braces import optimizer as opt
        >>> clipped = opt.chain(opt.clip_by_global_norm(1.0), opt.adam(1e-3))
    """
    return Optimizer(
        tuple(item for optimizer in optimizers for item in _chainable_parts(optimizer))
    )


def _chainable_parts(optimizer: Any) -> tuple[Transform, ...]:
    if not isinstance(optimizer, Optimizer):
        raise ProgramError(
            f"chain: expected optimizers, got {optimizer!r:.80}.",
            fix="Pass optimizers of br.optimizer: chain(clip_by_value(1.0), adam(1e-3)). "
            "Use from_optax(tx) for a transformation of optax.",
        )
    refuse_scaling("chain", optimizer)
    return optimizer.parts


@record_call
@with_user_line
def clip_by_global_norm(max_norm: float) -> Optimizer:
    """Scale all gradients down if their global norm exceeds `max_norm`.

    Source: Pascanu, Mikolov, Bengio, On the Difficulty of Training Recurrent Neural Networks,
    2012.
    """
    name = "clip_by_global_norm"
    return Optimizer((part(name, None, lambda _: optax.clip_by_global_norm(max_norm)),))


@record_call
@with_user_line
def clip_by_value(max_delta: float) -> Optimizer:
    """Clip each element of each gradient to [-max_delta, max_delta]."""
    return Optimizer((part("clip_by_value", None, lambda _: optax.clip(max_delta)),))


@record_call
@with_user_line
def add_decayed_weights(weight_decay: float, mask: Mask = None) -> Optimizer:
    """Add `weight_decay` times the parameter to its gradient.

    Before an optimizer this is a squared (L2) penalty on the parameters. Between its rescaling
    and its learning rate it is decoupled weight decay, as in `adamw`.

    Args:
        weight_decay: Coefficient of the weight decay.
        mask: Selects the parameters: `lambda p: p.ndim > 1` spares biases.
    """
    mask = check_mask(mask)

    def make(args: UpdateArgs) -> Any:
        return optax.add_decayed_weights(weight_decay, args.masked(mask))

    return Optimizer((part("add_decayed_weights", None, make),))


@record_call
@with_user_line
def scale_by_learning_rate(
    learning_rate: LearningRate, *, name: str | None = None
) -> Optimizer:
    """Descend along the update: `sgd` without momentum, for the end of a chain."""
    return make_descent(
        "scale_by_learning_rate", name, learning_rate,
        lambda args: optax.scale_by_learning_rate(args.rate),
    )  # fmt: skip


@record_call
@with_user_line
def from_optax(
    tx: Any, learning_rate: LearningRate | None = None, *, name: str | None = None
) -> Optimizer:
    """Any transformation of optax, including your own, as a part of the program.

    Its `init` and `update` are traced once, where the optimizer is built. The result consists
    of ordinary operators; neither function is called again. The states are named after their
    fields and keys: `optax/count`, `optax/mu/fc1.w`. Duplicate names get a number.

    Used alone, the transformation has to descend by itself, as `optax.adam(1e-3)` does: its
    updates are added to the parameters. With `learning_rate`, `tx` is a function from a
    learning rate to a transformation, and the learning rate is one of ours:
    `from_optax(optax.adam, 1e-3)`. It is then a variable of the scope, a schedule or a
    variable. A schedule reads `NAME/count`, which is the count of the transformation if it has
    one of this name.

    Transformations receive the parameters and, in `minimize`, the loss as `value=`.

    Args:
        tx: A `optax.GradientTransformation`; with `learning_rate`, a function that returns one.
        learning_rate: A number, a schedule, or a scalar variable.
        name: Prefix of the names of its states; `optax` by default.

    Raises:
        ProgramError: If `tx` is not a transformation. When it is built: if it fails, reads
            concrete values, or uses a primitive of JAX without a corresponding operator.

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
    return make_descent("optax", name, learning_rate, lambda args: tx(args.rate))


def _check_transformation(tx: Any) -> None:
    if not isinstance(tx, optax.GradientTransformation):
        raise ProgramError(
            f"from_optax: expected an optax.GradientTransformation, got {tx!r:.80}.",
            fix="Pass a transformation, such as optax.adam(1e-3), or a function with its "
            "learning rate: from_optax(optax.adam, 1e-3).",
        )
