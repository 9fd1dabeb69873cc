"""Parameter groups, each with its own optimizer.

    br.optimizer.partition(
        {"decay": br.optimizer.adamw(1e-3), "rest": br.optimizer.adam(1e-3), "frozen": None},
        lambda p: "frozen" if p.name.startswith("enc/") else "decay" if p.ndim > 1 else "rest",
    )

All optimizers are parts of the same step, each for its own parameters. So transformations
before or around them, as clipping by the global norm, apply to all parameters together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from braces.builder.source_line import with_user_line
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend.optimizer.core.minimize import Optimizer, refuse_scaling
from braces.frontend.optimizer.core.recorded_call import record_call
from braces.frontend.optimizer.core.transforms import Transform, UpdateArgs, leading_transform
from braces.lazy import optax


@record_call
@with_user_line
def partition(
    optimizers: Mapping[Any, Optimizer | None], label: Callable[[Var], Any]
) -> Optimizer:
    """Parameter groups, each with its own optimizer and learning rate.

    The states of a group have its label as a prefix if the label is a valid name and the
    optimizer has no `name=`: `decay/learning_rate`, `decay/mu/fc.w`. The result may be chained
    and wrapped.

    Args:
        optimizers: The optimizer of each label; `None` freezes the parameters.
        label: Returns the label of a parameter.

    Raises:
        ProgramError: If there are no groups, a value is not an optimizer, or the label of a
            parameter has no optimizer.

    Example:
        >>> import braces as br
        >>> from braces import optimizer as opt
        >>> with br.Program() as prog:
        ...     y = br.fc(br.data("x", ["n", 3]), 2, name="fc")
        ...     groups = {"matrix": opt.adamw(1e-3), "bias": opt.sgd(1e-2)}
        ...     made = opt.partition(groups, lambda p: "matrix" if p.ndim > 1 else "bias")
        ...     pairs = made.minimize(br.mean(y * y))
        >>> [p.name for p in prog.persistables if "rate" in p.name]
        ['matrix/learning_rate', 'bias/learning_rate']
    """
    if not optimizers or not callable(label):
        raise ProgramError(
            "partition: expected a dict of optimizers and a function that returns a label.",
            given=f"optimizers: {optimizers!r:.80}   label: {label!r:.40}",
            fix="Use partition({'a': adam(1e-3), 'b': None}, lambda p: 'a' or 'b').",
        )
    parts = list[Transform]()
    for key, optimizer in optimizers.items():
        parts.extend(_group(key, optimizer, _has_label(key, tuple(optimizers), label)))
    return Optimizer(tuple(parts))


def _group(label: Any, optimizer: Any, of: Callable[[Var], bool]) -> list[Transform]:
    """Return the transformations of an optimizer, for the parameters of one label."""
    if optimizer is None:
        return [Transform("frozen", False, _make_identity, of=of, stays=True)]
    if not isinstance(optimizer, Optimizer) or not optimizer.parts:
        raise ProgramError(
            f"expected an optimizer for the label {label!r:.60}, got {optimizer!r:.80}.",
            fix="Pass an optimizer of br.optimizer, or None to freeze the parameters.",
        )
    refuse_scaling("partition", optimizer)
    first = leading_transform(optimizer.parts)
    parts = [
        item if first.chosen else _rename_leading(item, first, label)
        for item in optimizer.parts
    ]
    return [replace(item, of=_intersect(of, item.of)) for item in parts]


def _rename_leading(part: Transform, first: Transform, label: Any) -> Transform:
    """Rename the transformation with the learning rate after its group."""
    if not isinstance(label, str) or not (label.isascii() and label.isidentifier()):
        return part
    inner = tuple(_rename_leading(nested, first, label) for nested in part.inner)
    return replace(part, inner=inner, name=label if part is first else part.name)


def _intersect(left: Callable[[Var], bool], right: Any) -> Callable[[Var], bool]:
    return left if right is None else lambda param: left(param) and right(param)


def _has_label(
    target: Any, labels: tuple[Any, ...], label: Callable[[Var], Any]
) -> Callable[[Var], bool]:
    """Return a predicate: whether a parameter has a label; unknown labels are errors."""

    def has(param: Var) -> bool:
        actual = label(param)
        if actual not in labels:
            raise ProgramError(
                f"unknown label {actual!r:.60} of parameter `{param.name}`.",
                given=f"labels: {', '.join(map(repr, labels))}",
                fix="Add an optimizer for the label, or None to freeze its parameters.",
            )
        return actual == target

    return has


def _make_identity(args: UpdateArgs) -> Any:
    del args
    return optax.identity()
