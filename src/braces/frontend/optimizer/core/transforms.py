"""What optimizers are made of: transformations of optax, and their learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from braces.builder.var import Var
from braces.define.core.attribute_kinds import KINDS
from braces.errors import DTypeError, ProgramError
from braces.ir.names import check_name
from braces.jaxpr.trace import path_names
from braces.lazy import jax, optax

LearningRate: TypeAlias = "float | Var | Callable[[Var], Var]"
"""A number, a scalar variable, or a schedule: from the count of steps to a scalar variable."""
Mask: TypeAlias = "Callable[[Var], bool] | None"
"""Which parameters it is for; all where there is none."""


@dataclass(frozen=True, eq=False)
class Given:
    """What a transformation is made from, where it is traced.

    Attributes:
        rate: The learning rate, an array of JAX, of a wrapper that of what it wraps; `None`
            where there is none.
        params: The parameters that the part is for, by name.
        inner: The transformation that a wrapper wraps; `None` for what wraps nothing.
    """

    rate: Any
    params: Mapping[str, Var]
    inner: Any = None

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
        inner: What it wraps: parts, in their order. What a wrapper keeps is a pair: what
            each of these keeps, and what it keeps itself.
        of: Which parameters it is for; all where nothing is said.
        stays: Whether these do not move.
    """

    name: str
    chosen: bool
    make: Make
    rate: LearningRate | None = None
    whole: bool = False
    inner: tuple[Part, ...] = ()
    of: Mask = None
    stays: bool = False

    def leaves(self) -> Iterator[Part]:
        """The parts that wrap nothing, in order: this one, or those in it."""
        if not self.inner:
            yield self
        for one in self.inner:
            yield from one.leaves()

    def holds(self, param: Var) -> bool:
        """Whether it is for a parameter."""
        return self.of is None or self.of(param)

    def rates_of(self, param: Var) -> int:
        """How many learning rates of ours a parameter has in it."""
        if not self.holds(param):
            return 0
        return (self.rate is not None) + sum(one.rates_of(param) for one in self.inner)

    def descends(self, param: Var) -> bool:
        """Whether something in it may have a learning rate for a parameter."""
        inside = (one.descends(param) for one in self.inner)
        return self.holds(param) and (self.rate is not None or self.whole or any(inside))

    def holds_still(self, param: Var) -> bool:
        """Whether a parameter does not move by it."""
        inside = (one.holds_still(param) for one in self.inner)
        return self.holds(param) and (self.stays or any(inside))

    def transformation(self, rates: Mapping[Part, Any], params: Mapping[str, Var]) -> Any:
        """Its transformation of optax, for updates of these parameters.

        Args:
            rates: The learning rates of the parts that have one, arrays of JAX.
            params: All parameters of the step, by name.
        """
        mine = {name: param for name, param in params.items() if self.holds(param)}
        inner = [one.transformation(rates, mine) for one in self.inner]
        wrapped = optax.chain(*inner) if inner else None
        made = self.make(Given(rates.get(leading([self])), mine, wrapped))
        made = _counting(made) if callable(self.rate) else made
        return made if len(mine) == len(params) else _limited(made, list(mine))


def _limited(made: Any, names: Sequence[str]) -> Any:
    """A transformation of some updates alone; the others pass."""
    tx = optax.with_extra_args_support(made)

    def some(tree: Any) -> dict[str, Any]:
        return {name: tree[name] for name in names}

    def init(params: Any) -> Any:
        return tx.init(some(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        def value_fn(mine: Any) -> Any:
            return extra["value_fn"]({**params, **mine})

        told = dict(extra)
        if "value_fn" in extra:
            told |= {"grad": some(extra["grad"]), "value_fn": value_fn}
        moved: Any
        moved, after = tx.update(some(updates), state, some(params), **told)
        return {**updates, **moved}, after

    return optax.GradientTransformationExtraArgs(init, update)


def _counting(made: Any) -> Any:
    """A transformation that keeps how often it was done, as `count`."""
    tx = optax.with_extra_args_support(made)

    def init(params: Any) -> Any:
        state = tx.init(params)
        kept, _ = _library().tree_util.tree_flatten_with_path(state)
        if any(path_names(path) == ("count",) and _is_count(one) for path, one in kept):
            return (), state
        return optax.ScaleByScheduleState(np.zeros([], "int32")), state

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        counter, kept = state
        updates, kept = tx.update(updates, kept, params, **extra)
        return updates, (jax.tree.map(optax.safe_increment, counter), kept)

    return optax.GradientTransformationExtraArgs(init, update)


def _is_count(state: Any) -> bool:
    array = _library().numpy.asarray(state)
    return array.shape == () and array.dtype == "int32"


def _library() -> Any:
    """JAX, whose own types are not all known."""
    return jax


def part(
    default: str, name: str | None, make: Make, rate: Any = None, *, whole: bool = False
) -> Part:
    """A part, its name checked."""
    chosen = default if name is None else check_name(name)
    if "/" in chosen:
        raise ProgramError(f"`{chosen}` cannot name an optimizer.", fix="Leave out the `/`.")
    return Part(chosen, name is not None, make, rate, whole)


def leading(parts: Sequence[Part]) -> Part:
    """The part after which a step is called: the one that has the learning rate."""
    leaves = [leaf for one in parts for leaf in one.leaves()]
    return max(leaves, key=lambda leaf: (leaf.rate is not None, leaf.whole))


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
