"""What optimizers are made of: transformations of optax, and their learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from braces.builder.var import Var
from braces.define.kinds import KINDS
from braces.errors import DTypeError, ProgramError
from braces.ir.names import check_name

LearningRate: TypeAlias = "float | Var | Callable[[Var], Var]"
"""A number, a scalar variable, or a schedule: from the count of steps to a scalar variable."""
Mask: TypeAlias = "Callable[[Var], bool] | None"
"""Which parameters it is for; all where there is none."""


@dataclass(frozen=True, eq=False)
class Given:
    """What a transformation is made from, where it is traced.

    Attributes:
        rate: The learning rate, an array of JAX; `None` where the part has none.
        params: The parameters, by name.
    """

    rate: Any
    params: Mapping[str, Var]

    def masked(self, mask: Mask) -> dict[str, bool] | None:
        """The mask as optax takes it: a bool for each parameter."""
        if mask is None:
            return None
        return {name: bool(mask(param)) for name, param in self.params.items()}


Make: TypeAlias = "Callable[[Given], Any]"
"""What gives a transformation of optax."""


@dataclass(frozen=True, eq=False)
class Part:
    """What keeps its state under one name.

    Attributes:
        name: The first part of the names.
        chosen: Whether the user chose it.
        make: What gives its transformation.
        rate: The learning rate, where it has one of ours.
        whole: Whether its transformation may have a learning rate inside.
    """

    name: str
    chosen: bool
    make: Make
    rate: LearningRate | None = None
    whole: bool = False


def part(
    default: str, name: str | None, make: Make, rate: Any = None, *, whole: bool = False
) -> Part:
    """A part, its name checked."""
    chosen = default if name is None else check_name(name)
    if "/" in chosen:
        raise ProgramError(f"`{chosen}` cannot name an optimizer.", fix="Leave out the `/`.")
    return Part(chosen, name is not None, make, rate, whole)


def checked_rate(given: Any) -> LearningRate:
    """A learning rate.

    Raises:
        DTypeError: It is none.
    """
    if isinstance(given, Var) or callable(given):
        return cast("LearningRate", given)
    try:
        number = KINDS["float"](given)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DTypeError(
            f"{given!r:.80} is not a learning rate.",
            fix="Pass a number, a schedule of br.optimizer, or a scalar variable.",
        )
    return number


def checked_mask(mask: Mask) -> Mask:
    """A mask.

    Raises:
        ProgramError: It is none.
    """
    if mask is not None and not callable(mask):
        raise ProgramError(
            f"{mask!r:.80} cannot be a mask.",
            fix="Pass a function from a parameter to True or False: lambda p: p.ndim > 1.",
        )
    return mask
