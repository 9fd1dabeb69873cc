"""Wrappers: optimizers that say when and how far another one moves the parameters.

    br.optimizer.multi_steps(br.optimizer.adam(1e-3), every=4)

A wrapper is one part, made of optax's own and of the parts that it wraps. So the learning rate
and the states of these are called as they are alone, and a schedule follows from the count of
the steps that were taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from braces.builder.source_line import says_where
from braces.errors import ProgramError
from braces.frontend.optimizer.core.loss_scale import LossScale
from braces.frontend.optimizer.core.minimize import Optimizer, refuse_scaling
from braces.frontend.optimizer.core.recorded_call import recorded
from braces.frontend.optimizer.core.transforms import Given, Part, leading, part
from braces.lazy import jax, jnp, optax

ANY_NUMBER = 2**31 - 1
"""As many steps as a count may have."""


@recorded
@says_where
def multi_steps(optimizer: Optimizer, every: int, *, use_grad_mean: bool = True) -> Optimizer:
    """Gradient accumulation: a step of the optimizer after every few runs.

    The runs between leave the parameters and the states of the optimizer as they are. Beside
    these it keeps `mini_step`, the runs since the last step, `gradient_step`, and `acc_grads`,
    which has the dtype of the widest parameter. A schedule counts steps, not runs.

    Args:
        optimizer: What takes the steps, a chain say.
        every: After how many runs.
        use_grad_mean: Whether it is given the mean of their gradients, which is the gradient of
            the mean of losses of batches of one size; the sum otherwise.

    Raises:
        ProgramError: It is no optimizer, or `every` is below 1.

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

    def make(given: Given) -> Any:
        def init(params: Any) -> Any:
            return accumulating(params).init(params)

        def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
            return accumulating(params).update(updates, state, params, **extra)

        def accumulating(params: Any) -> Any:
            widest = jnp.result_type("float32", *jax.tree.leaves(params))
            return optax.MultiSteps(given.inner, every, use_grad_mean, accumulator_dtype=widest)

        made = optax.GradientTransformationExtraArgs(init, update)
        return _opened(made, "inner_opt_state")

    return wrapped("multi_steps", optimizer, make)


@recorded
@says_where
def apply_if_finite(
    optimizer: Optimizer, max_consecutive_errors: int = ANY_NUMBER
) -> Optimizer:
    """Skips steps whose gradients have an infinity or a NaN: nothing moves, no state either.

    Beside the states of the optimizer it keeps `notfinite_count`, how many runs in a row were
    skipped, `total_notfinite`, and `last_finite`.

    Args:
        optimizer: What takes the other steps.
        max_consecutive_errors: After how many runs in a row it gives up and takes the step.

    Raises:
        ProgramError: It is no optimizer, or the number is below 0.
    """
    if max_consecutive_errors < 0:
        raise ProgramError(
            f"apply_if_finite has max_consecutive_errors={max_consecutive_errors}.",
            fix="0 skips no step.",
        )
    return _finite("apply_if_finite", optimizer, max_consecutive_errors)


def _finite(what: str, optimizer: Optimizer, most: int) -> Optimizer:
    def make(given: Given) -> Any:
        return _opened(optax.apply_if_finite(given.inner, most), "inner_state")

    return wrapped(what, optimizer, make)


@recorded
@says_where
def lookahead(
    optimizer: Optimizer,
    sync_period: int = 5,
    slow_step_size: float = 0.5,
    *,
    reset_state: bool = False,
) -> Optimizer:
    """Takes a few steps, and goes a part of the way to where they led.

        slow' = slow + slow_step_size * (p - slow),   p' = slow'

    after every `sync_period` steps. The gradients are those at `p`; test with `slow`, which
    `prog.for_test(values={w: ...})` puts in the place of the parameters. Beside the states of
    the optimizer it keeps `slow` and `steps_since_sync`. Source: Zhang et al., Lookahead
    Optimizer: k steps forward, 1 step back, 2019.

    Args:
        optimizer: What takes the steps.
        sync_period: After how many.
        slow_step_size: Which part of the way.
        reset_state: Whether the optimizer then begins anew.

    Raises:
        ProgramError: It is no optimizer, or the period is below 1.
    """
    _check_positive("lookahead", "sync_period", sync_period)

    def make(given: Given) -> Any:
        made = optax.lookahead(given.inner, sync_period, slow_step_size, reset_state)
        return _with_slow(made)

    return wrapped("lookahead", optimizer, make)


@recorded
@says_where
def schedule_free(
    optimizer: Optimizer, b1: float = 0.9, weight_lr_power: float = 2.0
) -> Optimizer:
    """Averages in the place of momentum and of a learning rate that falls.

        z' = z + u,   x' = (1 - c) * x + c * z',   p' = b1 * x' + (1 - b1) * z'

    where u is the update of the optimizer, which has no momentum of its own (`b1=0` of adam),
    and c its weight among all so far. Gradients are those at `p`; test with x. Beside the
    states of the optimizer it keeps `z`, `b1`, `weight_sum`, `step_count` and `max_lr`. Source:
    Defazio et al., The Road Less Scheduled, 2024.

    Args:
        optimizer: What takes the steps, with a learning rate that is constant or warms up.
        b1: How near to the mean gradients are taken.
        weight_lr_power: Steps weigh as much as this power of the largest learning rate so far.

    Raises:
        ProgramError: It is no optimizer.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=1.0)
        ...     made = br.optimizer.schedule_free(br.optimizer.adam(0.1, b1=0.0), b1=0.9)
        ...     pairs = made.minimize(br.sum(w * w))
        ...     x = (w - 0.1 * prog.var("adam/z/w")) / 0.9
    """

    def make(given: Given) -> Any:
        made = optax.contrib.schedule_free(given.inner, given.rate, b1, weight_lr_power)
        return _opened(made, "base_optimizer_state")

    return wrapped("schedule_free", optimizer, make)


@recorded
@says_where
def dynamic_loss_scale(
    optimizer: Optimizer,
    init_scale: float = 2.0**15,
    growth_interval: int = 2000,
    *,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    name: str | None = None,
) -> Optimizer:
    """Gradients in float16: of the loss times a number, by which they are divided then.

    Where a gradient has an infinity or a NaN, nothing moves and the number is halved; it is
    doubled after `growth_interval` steps without. So small gradients do not become zero, and a
    loss is scaled as far as the range of the numbers allows. It goes around a whole optimizer,
    which keeps what `apply_if_finite` does. Source: Micikevicius et al., Mixed Precision
    Training, 2017.

        exe = br.Executor(passes=(*br.passes.default, br.passes.mixed_precision("float16")))

    The gradients that `minimize` gives are those of the loss. Parameters are best in float32,
    and so all of this is.

    Args:
        optimizer: What takes the steps.
        init_scale: The first number.
        growth_interval: After how many good steps in a row it grows.
        growth_factor: By what.
        backoff_factor: By what it is multiplied where a step was bad.
        name: The first part of the names of what is kept; `loss_scale` by default.

    Raises:
        ProgramError: It is no optimizer, scales already, or a number is out of range.

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
            "dynamic_loss_scale has a number out of range.",
            given=f"init_scale={init_scale}, growth_interval={growth_interval}, "
            f"growth_factor={growth_factor}, backoff_factor={backoff_factor}",
            fix="Scale and interval are above 0; it grows by 1 or more, and shrinks by 1 or "
            "less.",
        )
    called = part("loss_scale", name, lambda given: given)
    scaling = LossScale(
        called.name, called.chosen, init_scale, growth_interval, growth_factor, backoff_factor
    )
    return replace(_finite("dynamic_loss_scale", optimizer, ANY_NUMBER), scaling=scaling)


# ---- one part of several ---------------------------------------------------------------------


def wrapped(what: str, optimizer: Any, make: Callable[[Given], Any]) -> Optimizer:
    """An optimizer of one part, made of those of another.

    Args:
        what: The function that wraps.
        optimizer: What is wrapped.
        make: The transformation, of `given.inner`; what it keeps is a pair, of what that keeps
            and what it keeps itself.

    Raises:
        ProgramError: It is no optimizer.
    """
    if not isinstance(optimizer, Optimizer) or not optimizer.parts:
        raise ProgramError(
            f"{what} wraps an optimizer, not {optimizer!r:.80}.",
            fix=f"Write br.optimizer.{what}(br.optimizer.adam(1e-3), ...). What optax makes "
            "comes in by from_optax(tx).",
        )
    refuse_scaling(what, optimizer)
    first = leading(optimizer.parts)
    return Optimizer((Part(first.name, first.chosen, make, inner=optimizer.parts),))


def _opened(made: Any, field: str) -> Any:
    """A wrapper of optax, whose state is the pair of that of what it wraps, and its own."""
    tx = optax.with_extra_args_support(made)

    def pair(state: Any) -> Any:
        return getattr(state, field), state._replace(**{field: ()})

    def init(params: Any) -> Any:
        return pair(tx.init(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        inner, own = state
        whole = own._replace(**{field: inner})
        moved, after = tx.update(updates, whole, params, **extra)
        return moved, pair(after)

    return optax.GradientTransformationExtraArgs(init, update)


class Slow(NamedTuple):
    """What lookahead keeps beside the states of its optimizer.

    Attributes:
        steps_since_sync: The steps since the slow parameters moved.
        slow: The slow parameters.
    """

    steps_since_sync: Any
    slow: Any


def _with_slow(made: Any) -> Any:
    """Optax's lookahead, whose slow parameters are a state."""

    def init(params: Any) -> Any:
        state = made.init(optax.LookaheadParams.init_synced(params))
        return state.fast_state, Slow(state.steps_since_sync, params)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        inner, own = state
        moved, after = made.update(
            updates,
            optax.LookaheadState(inner, own.steps_since_sync),
            optax.LookaheadParams(params, own.slow),
        )
        slow = optax.apply_updates(own.slow, moved.slow)
        return moved.fast, (after.fast_state, Slow(after.steps_since_sync, slow))

    return optax.GradientTransformation(init, update)


def _check_positive(what: str, argument: str, given: int) -> None:
    if given < 1:
        raise ProgramError(
            f"{what} has {argument}={given}.", fix="1 takes every step; 4 every fourth."
        )
