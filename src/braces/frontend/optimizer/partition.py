"""Groups of parameters, each moved by an optimizer of its own.

    br.optimizer.partition(
        {"decay": br.optimizer.adamw(1e-3), "rest": br.optimizer.adam(1e-3), "frozen": None},
        lambda p: "frozen" if p.name.startswith("enc/") else "decay" if p.ndim > 1 else "rest",
    )

Each is one part or more of the same step, for its own parameters, so that what stands before
or around all of them, as clipping by the global norm, sees all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from braces.builder.source_line import says_where
from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend.optimizer.core.minimize import Optimizer, refuse_scaling
from braces.frontend.optimizer.core.recorded_call import recorded
from braces.frontend.optimizer.core.transforms import Given, Part, leading
from braces.lazy import optax


@recorded
@says_where
def partition(
    optimizers: Mapping[Any, Optimizer | None], label: Callable[[Var], Any]
) -> Optimizer:
    """Groups of parameters, each with an optimizer, and so with a learning rate, of its own.

    What a group keeps begins with its label, where that can be a name and the optimizer has no
    `name=`: `decay/learning_rate`, `decay/mu/fc.w`. It may stand in a chain and be wrapped.

    Args:
        optimizers: Of each label; `None` for parameters that stay as they are.
        label: From a parameter to its label.

    Raises:
        ProgramError: There is no group, or what is no optimizer; a parameter has a label that
            no optimizer has.

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
            f"partition is given the groups {optimizers!r:.80} and the label {label!r:.40}.",
            fix="Write partition({'a': adam(1e-3), 'b': None}, lambda p: 'a' or 'b').",
        )
    parts = list[Part]()
    for one, given in optimizers.items():
        parts.extend(_group(one, given, _labelled(one, tuple(optimizers), label)))
    return Optimizer(tuple(parts))


def _group(label: Any, given: Any, of: Callable[[Var], bool]) -> list[Part]:
    """The parts of an optimizer, for the parameters of one label."""
    if given is None:
        return [Part("frozen", False, _passing, of=of, stays=True)]
    if not isinstance(given, Optimizer) or not given.parts:
        raise ProgramError(
            f"{given!r:.80} cannot move the parameters of the label {label!r:.60}.",
            fix="Give an optimizer of br.optimizer, or None where they stay as they are.",
        )
    refuse_scaling("partition", given)
    first = leading(given.parts)
    parts = [one if first.chosen else _renamed(one, first, label) for one in given.parts]
    return [replace(one, of=_both(of, one.of)) for one in parts]


def _renamed(one: Part, first: Part, label: Any) -> Part:
    """A part whose learning rate is called as the group."""
    if not isinstance(label, str) or not (label.isascii() and label.isidentifier()):
        return one
    inner = tuple(_renamed(inside, first, label) for inside in one.inner)
    return replace(one, inner=inner, name=label if one is first else one.name)


def _both(left: Callable[[Var], bool], right: Any) -> Callable[[Var], bool]:
    return left if right is None else lambda param: left(param) and right(param)


def _labelled(
    wanted: Any, labels: tuple[Any, ...], label: Callable[[Var], Any]
) -> Callable[[Var], bool]:
    """Whether a parameter has a label, which one of the optimizers has."""

    def has(param: Var) -> bool:
        found = label(param)
        if found not in labels:
            raise ProgramError(
                f"`{param.name}` has the label {found!r:.60}, which no optimizer has.",
                given=f"labels: {', '.join(map(repr, labels))}",
                fix="Give the label an optimizer, or None where its parameters stay.",
            )
        return found == wanted

    return has


def _passing(given: Given) -> Any:
    del given
    return optax.identity()
