"""Wrappers: optimizers that control when and how far another one updates the parameters.

    br.optimizer.multi_steps(br.optimizer.adam(1e-3), every=4)

A wrapper is one transformation of optax, with the wrapped transformations nested in it. So
their learning rates and states are named as without the wrapper, and a schedule counts the
steps taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from braces.builder.source_line import with_user_line
from braces.errors import ProgramError
from braces.frontend.optimizer.core.loss_scale import LossScale
from braces.frontend.optimizer.core.minimize import Optimizer, refuse_scaling
from braces.frontend.optimizer.core.recorded_call import record_call
from braces.frontend.optimizer.core.transforms import (
    Transform,
    UpdateArgs,
    leading_transform,
    part,
)
from braces.lazy import jax, jnp, optax

ANY_NUMBER = 2**31 - 1
"""The largest count of steps."""


@record_call
@with_user_line
def multi_steps(optimizer: Optimizer, every: int, *, use_grad_mean: bool = True) -> Optimizer:
    """Gradient accumulation: one step of the optimizer every few runs.

    Other runs do not change the parameters and the states of the optimizer. Further states are
    `mini_step`, the runs since the last step, `gradient_step`, and `acc_grads`, which has the
    dtype of the widest parameter. A schedule counts steps, not runs.

    Args:
        optimizer: The wrapped optimizer, for example a chain.
        every: Number of runs per step.
        use_grad_mean: Whether to average the gradients, which gives the gradient of the mean
            loss over batches of equal size; otherwise they are summed.

    Raises:
        ProgramError: If `optimizer` is not an optimizer, or `every` is below 1.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, w = br.data("x", []), br.parameter("w", [], init=1.0)
        ...     made = br.optimizer.multi_steps(br.optimizer.sgd(0.5), every=2)
        ...     pairs = made.minimize(w * x)
        >>> scope, exe = br.Scope(), br.Executor()
        >>> _ = exe.init(prog, scope)
        >>> for x in (1.0, 3.0):
        ...     _ = exe.run(prog, scope, {"x": x})
        ...     print(scope.var("w").value)
        1.0
        0.0
    """
    _check_positive("multi_steps", "every", every)

    def make(args: UpdateArgs) -> Any:
        def init(params: Any) -> Any:
            return accumulating(params).init(params)

        def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
            return accumulating(params).update(updates, state, params, **extra)

        def accumulating(params: Any) -> Any:
            widest = jnp.result_type("float32", *jax.tree.leaves(params))
            return optax.MultiSteps(args.inner, every, use_grad_mean, accumulator_dtype=widest)

        tx = optax.GradientTransformationExtraArgs(init, update)
        return _split_state(tx, "inner_opt_state")

    return wrap_optimizer("multi_steps", optimizer, make)


@record_call
@with_user_line
def apply_if_finite(
    optimizer: Optimizer, max_consecutive_errors: int = ANY_NUMBER
) -> Optimizer:
    """Skip steps whose gradients contain an infinity or a NaN: no parameter or state changes.

    Further states are `notfinite_count`, the number of consecutive skipped runs,
    `total_notfinite`, and `last_finite`.

    Args:
        optimizer: The wrapped optimizer.
        max_consecutive_errors: Number of consecutive skipped runs after which a step is taken
            anyway.

    Raises:
        ProgramError: If `optimizer` is not an optimizer, or the number is below 0.
    """
    if max_consecutive_errors < 0:
        raise ProgramError(
            f"apply_if_finite: expected max_consecutive_errors of 0 or more, got "
            f"{max_consecutive_errors}.",
            fix="Use 0 to skip no step.",
        )
    return _wrap_finite("apply_if_finite", optimizer, max_consecutive_errors)


def _wrap_finite(what: str, optimizer: Optimizer, most: int) -> Optimizer:
    def make(args: UpdateArgs) -> Any:
        return _split_state(optax.apply_if_finite(args.inner, most), "inner_state")

    return wrap_optimizer(what, optimizer, make)


@record_call
@with_user_line
def lookahead(
    optimizer: Optimizer,
    sync_period: int = 5,
    slow_step_size: float = 0.5,
    *,
    reset_state: bool = False,
) -> Optimizer:
    """Lookahead: take a few fast steps, then move slow parameters a part of the way.

        slow' = slow + slow_step_size * (p - slow),   p' = slow'

    after every `sync_period` steps. The gradients are those at `p`; test with `slow`, which
    `prog.for_test(values={w: ...})` substitutes for the parameters. Further states are `slow`
    and `steps_since_sync`. Source: Zhang et al., Lookahead Optimizer: k steps forward, 1 step
    back, 2019.

    Args:
        optimizer: The wrapped optimizer of the fast steps.
        sync_period: Number of fast steps per slow one.
        slow_step_size: Fraction of the way.
        reset_state: Whether to reset the states of the optimizer at each slow step.

    Raises:
        ProgramError: If `optimizer` is not an optimizer, or the period is below 1.
    """
    _check_positive("lookahead", "sync_period", sync_period)

    def make(args: UpdateArgs) -> Any:
        tx = optax.lookahead(args.inner, sync_period, slow_step_size, reset_state)
        return _keep_slow_params(tx)

    return wrap_optimizer("lookahead", optimizer, make)


@record_call
@with_user_line
def schedule_free(
    optimizer: Optimizer, b1: float = 0.9, weight_lr_power: float = 2.0
) -> Optimizer:
    """Schedule-free: averaging in place of momentum and a decaying learning rate.

        z' = z + u,   x' = (1 - c) * x + c * z',   p' = b1 * x' + (1 - b1) * z'

    where u is the update of the optimizer, which has no momentum of its own (`b1=0` of adam),
    and c its weight relative to the sum so far. Gradients are those at `p`; test with x.
    Further states are `z`, `b1`, `weight_sum`, `step_count` and `max_lr`. Source: Defazio et
    al., The Road Less Scheduled, 2024.

    Args:
        optimizer: The wrapped optimizer, with a learning rate that is constant or warms up.
        b1: Interpolation weight of the average in `p`.
        weight_lr_power: The weight of a step is this power of the largest learning rate so far.

    Raises:
        ProgramError: If `optimizer` is not an optimizer.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=1.0)
        ...     made = br.optimizer.schedule_free(br.optimizer.adam(0.1, b1=0.0), b1=0.9)
        ...     pairs = made.minimize(br.sum(w * w))
        ...     x = (w - 0.1 * prog.var("adam/z/w")) / 0.9
    """

    def make(args: UpdateArgs) -> Any:
        tx = optax.contrib.schedule_free(args.inner, args.rate, b1, weight_lr_power)
        return _split_state(tx, "base_optimizer_state")

    return wrap_optimizer("schedule_free", optimizer, make)


@record_call
@with_user_line
def dynamic_loss_scale(
    optimizer: Optimizer,
    init_scale: float = 2.0**15,
    growth_interval: int = 2000,
    *,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    name: str | None = None,
) -> Optimizer:
    """Dynamic loss scaling for float16: gradients of the scaled loss, divided by the scale.

    If a gradient contains an infinity or a NaN, no parameter or state changes and the scale is
    halved. It is doubled after `growth_interval` finite steps. So small gradients do not
    underflow, and the scale is as large as the range of the dtype allows. It wraps a whole
    optimizer, with the states of `apply_if_finite`. Source: Micikevicius et al., Mixed
    Precision Training, 2017.

        exe = br.Executor(passes=(*br.passes.default, br.passes.mixed_precision("float16")))

    The gradients returned by `minimize` are unscaled. Parameters, and so the arithmetic here,
    are best in float32.

    Args:
        optimizer: The wrapped optimizer.
        init_scale: The initial scale.
        growth_interval: Number of consecutive finite steps before the scale grows.
        growth_factor: Factor of growth.
        backoff_factor: Factor after a step that is not finite.
        name: Prefix of the names of its states; `loss_scale` by default.

    Raises:
        ProgramError: If `optimizer` is not an optimizer, has loss scaling already, or a number
            is out of range.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=1.0)
        ...     made = br.optimizer.dynamic_loss_scale(br.optimizer.adam(1e-3))
        ...     pairs = made.minimize(br.sum(w * w))
        >>> [p.name for p in prog.persistables if "scale" in p.name]
        ['loss_scale/scale', 'loss_scale/good_steps']
    """
    if not (
        init_scale > 0 and growth_interval > 0 and growth_factor >= 1 >= backoff_factor > 0
    ):
        raise ProgramError(
            "dynamic_loss_scale got an option out of range.",
            given=f"init_scale={init_scale}, growth_interval={growth_interval}, "
            f"growth_factor={growth_factor}, backoff_factor={backoff_factor}",
            fix="Use init_scale > 0, growth_interval > 0 and "
            "growth_factor >= 1 >= backoff_factor > 0.",
        )
    called = part("loss_scale", name, lambda given: given)
    scaling = LossScale(
        called.name, called.chosen, init_scale, growth_interval, growth_factor, backoff_factor
    )
    return replace(_wrap_finite("dynamic_loss_scale", optimizer, ANY_NUMBER), scaling=scaling)


# ---- nested transformations ------------------------------------------------------------------


def wrap_optimizer(what: str, optimizer: Any, make: Callable[[UpdateArgs], Any]) -> Optimizer:
    """Return an optimizer of one transformation that wraps those of another.

    Args:
        what: The name of the wrapping function.
        optimizer: The wrapped optimizer.
        make: Returns the transformation, around `args.inner`; its state is a pair of the inner
            state and its own.

    Raises:
        ProgramError: If `optimizer` is not an optimizer.
    """
    if not isinstance(optimizer, Optimizer) or not optimizer.parts:
        raise ProgramError(
            f"{what}: expected an optimizer, got {optimizer!r:.80}.",
            fix=f"Use br.optimizer.{what}(br.optimizer.adam(1e-3), ...), or from_optax(tx) for "
            "a transformation of optax.",
        )
    refuse_scaling(what, optimizer)
    first = leading_transform(optimizer.parts)
    return Optimizer((Transform(first.name, first.chosen, make, inner=optimizer.parts),))


def _split_state(transformation: Any, field: str) -> Any:
    """Adapt a wrapper of optax: its state becomes a pair of the inner state and its own."""
    tx = optax.with_extra_args_support(transformation)

    def pair(state: Any) -> Any:
        return getattr(state, field), state._replace(**{field: ()})

    def init(params: Any) -> Any:
        return pair(tx.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        inner, own_state = state
        full_state = own_state._replace(**{field: inner})
        new_updates, new_state = tx.update(updates, full_state, params, **extra)
        return new_updates, pair(new_state)

    return optax.GradientTransformationExtraArgs(init, update)


class SlowParams(NamedTuple):
    """State of lookahead beside those of its optimizer.

    Attributes:
        steps_since_sync: The steps since the slow parameters were updated.
        slow: The slow parameters.
    """

    steps_since_sync: Any
    slow: Any


def _keep_slow_params(tx: Any) -> Any:
    """Adapt optax's lookahead: the slow parameters become a state."""

    def init(params: Any) -> Any:
        state = tx.init(optax.LookaheadParams.init_synced(params))
        return state.fast_state, SlowParams(state.steps_since_sync, params)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        inner, own_state = state
        new_updates, new_state = tx.update(
            updates,
            optax.LookaheadState(inner, own_state.steps_since_sync),
            optax.LookaheadParams(params, own_state.slow),
        )
        slow = optax.apply_updates(own_state.slow, new_updates.slow)
        return new_updates.fast, (
            new_state.fast_state,
            SlowParams(new_state.steps_since_sync, slow),
        )

    return optax.GradientTransformation(init, update)


def _check_positive(what: str, argument: str, value: int) -> None:
    if value < 1:
        raise ProgramError(
            f"{what}: expected {argument} of 1 or more, got {value}.",
            fix="Use 1 for every step, 4 for every fourth.",
        )
