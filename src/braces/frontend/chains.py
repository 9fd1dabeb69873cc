"""Chains: gradients pass through one transformation after the other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from braces.errors import DTypeError, ProgramError, UnknownNameError, suggest
from braces.frontend.transformations import LearningRate, Mask, Optimizer, Part, Rate, Step
from braces.ir.names import check_name
from braces.ops.build import Var
from braces.ops.define import OPS
from braces.ops.kinds import KINDS
from braces.ops.source import says_where
from braces.ops.transformation import Transformation

# ---- shared ----------------------------------------------------------------------------------


def step(
    op: str, *, mask: Mask = None, initial: Mapping[str, float] | None = None, **attrs: Any
) -> Step:
    """A step, its attributes checked."""
    if mask is not None and not callable(mask):
        raise ProgramError(
            f"{mask!r:.80} cannot be a mask.",
            fix="Pass a function from a parameter to True or False: lambda p: p.ndim > 1.",
        )
    return Step(op, OPS.get(op).bind_attrs(attrs), initial or {}, mask)


def rate(given: Any) -> Rate:
    """The step that descends, its learning rate checked."""
    if isinstance(given, Var) or callable(given):
        return Rate(cast("LearningRate", given))
    try:
        number = KINDS["float"](given)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DTypeError(
            f"{given!r:.80} is not a learning rate.",
            fix="Pass a number, a schedule of br.schedule, or a scalar variable.",
        )
    return Rate(number)


def decay(weight_decay: float, mask: Mask) -> list[Step]:
    """The step that pulls the parameters towards zero, if that is wanted."""
    made = step("add_decayed_weights", mask=mask, weight_decay=weight_decay)
    return [made] if weight_decay else []


def part(default: str, name: str | None, *steps: Step | Rate) -> Optimizer:
    """An optimizer that keeps its state under one name."""
    chosen = default if name is None else check_name(name)
    if "/" in chosen:
        raise ProgramError(f"`{chosen}` cannot name an optimizer.", fix="Leave out the `/`.")
    return Optimizer((Part(chosen, name is not None, steps),))


# ---- chains ----------------------------------------------------------------------------------


@says_where
def chain(*optimizers: Optimizer) -> Optimizer:
    """One after the other: what each gives is the gradient of the next.

    Args:
        *optimizers: Just one of them has a learning rate.

    Example:
        >>> from braces import optimizer as opt
        >>> clipped = opt.chain(opt.clip_by_global_norm(1.0), opt.adam(1e-3))
    """
    return Optimizer(tuple(part for one in optimizers for part in _linked(one)))


def _linked(given: Any) -> tuple[Part, ...]:
    if not isinstance(given, Optimizer):
        raise ProgramError(
            f"{given!r:.80} cannot be chained.",
            fix="Chain what br.optimizer makes: chain(clip(1.0), adam(1e-3)).",
        )
    return given.parts


@says_where
def transformation(
    op: str, *, name: str | None = None, mask: Mask = None, **attrs: Any
) -> Optimizer:
    """A transformation by its operator, for `chain`: `transformation("scale_by_adam", b1=0.5)`.

    Args:
        op: The operator; `scale_by_learning_rate` has a function of its own.
        name: The first part of the names of what is kept; the operator's by default.
        mask: Which parameters it is for.
        **attrs: The operator's attributes.

    Raises:
        UnknownNameError: There is no transformation of this name.
    """
    if not isinstance(OPS.find(op), Transformation):
        known = [d.type for d in OPS.definitions.values() if isinstance(d, Transformation)]
        raise UnknownNameError(f"There is no transformation `{op}`.", fix=suggest(op, known))
    return part(op, name, step(op, mask=mask, **attrs))


@says_where
def clip_by_global_norm(max_norm: float) -> Optimizer:
    """Shortens all gradients together where their common norm is above `max_norm`.

    Source: Pascanu, Mikolov, Bengio, On the Difficulty of Training Recurrent Neural Networks,
    2012.
    """
    return part("clip_by_global_norm", None, step("clip_by_global_norm", max_norm=max_norm))


@says_where
def clip_by_value(max_delta: float) -> Optimizer:
    """Brings every number of every gradient into [-max_delta, max_delta]."""
    return part("clip_by_value", None, step("clip_by_value", max_delta=max_delta))


@says_where
def add_decayed_weights(weight_decay: float, mask: Mask = None) -> Optimizer:
    """Adds `weight_decay` times the parameter to its gradient.

    Before an optimizer this is a squared penalty on the parameters; between its rescaling and
    its learning rate it is decoupled decay, as `adamw` has it.

    Args:
        weight_decay: How strongly.
        mask: For which parameters: `lambda p: p.ndim > 1` spares biases.
    """
    made = step("add_decayed_weights", mask=mask, weight_decay=weight_decay)
    return part("add_decayed_weights", None, made)


@says_where
def scale_by_learning_rate(
    learning_rate: LearningRate, *, name: str | None = None
) -> Optimizer:
    """Descends: the last of a chain that has no optimizer. It is `sgd` without momentum."""
    return part("scale_by_learning_rate", name, rate(learning_rate))
