"""Building blocks of optimizers: transformations of optax, and their learning rates."""

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
"""Selects parameters; `None` for all."""


@dataclass(frozen=True, eq=False)
class UpdateArgs:
    """Arguments of a transformation's constructor, at tracing time.

    Attributes:
        rate: The learning rate, a JAX array (of a wrapper: that of the wrapped optimizer);
            `None` without one.
        params: The selected parameters by name.
        inner: The wrapped transformation; `None` for transformations that wrap nothing.
    """

    rate: Any
    params: Mapping[str, Var]
    inner: Any = None

    def masked(self, mask: Mask) -> dict[str, bool] | None:
        """Return the mask in optax's form: a bool for each parameter."""
        if mask is None:
            return None
        return {name: bool(mask(param)) for name, param in self.params.items()}


Make: TypeAlias = "Callable[[UpdateArgs], Any]"
"""A function that returns a transformation of optax."""


@dataclass(frozen=True, eq=False)
class Transform:
    """A transformation whose states share a name prefix.

    Attributes:
        name: The prefix.
        chosen: Whether the user chose the prefix.
        make: Returns the optax transformation.
        rate: The learning rate, if it is one of ours.
        whole: Whether the transformation may include a learning rate.
        inner: The wrapped transformations, in order. The state of a wrapper is a pair: their
            states, and its own.
        of: Selects parameters; `None` for all.
        stays: Whether the selected parameters are frozen.
    """

    name: str
    chosen: bool
    make: Make
    rate: LearningRate | None = None
    whole: bool = False
    inner: tuple[Transform, ...] = ()
    of: Mask = None
    stays: bool = False

    def leaves(self) -> Iterator[Transform]:
        """Yield the transformations that wrap nothing, in order: this one, or nested ones."""
        if not self.inner:
            yield self
        for child in self.inner:
            yield from child.leaves()

    def holds(self, param: Var) -> bool:
        """Return whether a parameter is selected."""
        return self.of is None or self.of(param)

    def rates_of(self, param: Var) -> int:
        """Return the number of our learning rates that apply to a parameter."""
        if not self.holds(param):
            return 0
        return (self.rate is not None) + sum(child.rates_of(param) for child in self.inner)

    def descends(self, param: Var) -> bool:
        """Return whether a learning rate may apply to a parameter."""
        nested = (child.descends(param) for child in self.inner)
        return self.holds(param) and (self.rate is not None or self.whole or any(nested))

    def holds_still(self, param: Var) -> bool:
        """Return whether a parameter is frozen by it."""
        nested = (child.holds_still(param) for child in self.inner)
        return self.holds(param) and (self.stays or any(nested))

    def transformation(self, rates: Mapping[Transform, Any], params: Mapping[str, Var]) -> Any:
        """Return the optax transformation for the updates of these parameters.

        Args:
            rates: The learning rates by transformation, JAX arrays.
            params: All parameters of the step, by name.
        """
        own_params = {name: param for name, param in params.items() if self.holds(param)}
        inner = [child.transformation(rates, own_params) for child in self.inner]
        wrapped = optax.chain(*inner) if inner else None
        tx = self.make(UpdateArgs(rates.get(leading_transform([self])), own_params, wrapped))
        tx = _with_counter(tx) if callable(self.rate) else tx
        return tx if len(own_params) == len(params) else _restrict(tx, list(own_params))


def _restrict(transformation: Any, names: Sequence[str]) -> Any:
    """Restrict a transformation to some updates; the others pass through."""
    tx = optax.with_extra_args_support(transformation)

    def some(tree: Any) -> dict[str, Any]:
        return {name: tree[name] for name in names}

    def init(params: Any) -> Any:
        return tx.init(some(params))

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        def value_fn(own_params: Any) -> Any:
            return extra["value_fn"]({**params, **own_params})

        extra_args = dict(extra)
        if "value_fn" in extra:
            extra_args |= {"grad": some(extra["grad"]), "value_fn": value_fn}
        new_updates: Any
        new_updates, new_state = tx.update(some(updates), state, some(params), **extra_args)
        return {**updates, **new_updates}, new_state

    return optax.GradientTransformationExtraArgs(init, update)


def _with_counter(transformation: Any) -> Any:
    """Add a step counter named `count` to a transformation, unless it has one."""
    tx = optax.with_extra_args_support(transformation)

    def init(params: Any) -> Any:
        state = tx.init(params)
        leaves, _ = _library().tree_util.tree_flatten_with_path(state)
        if any(path_names(path) == ("count",) and _is_count(leaf) for path, leaf in leaves):
            return (), state
        return optax.ScaleByScheduleState(np.zeros([], "int32")), state

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        counter, leaves = state
        updates, leaves = tx.update(updates, leaves, params, **extra)
        return updates, (jax.tree.map(optax.safe_increment, counter), leaves)

    return optax.GradientTransformationExtraArgs(init, update)


def _is_count(state: Any) -> bool:
    array = _library().numpy.asarray(state)
    return array.shape == () and array.dtype == "int32"


def _library() -> Any:
    """Return JAX, typed as `Any` (its type annotations are incomplete)."""
    return jax


def part(
    default: str, name: str | None, make: Make, rate: Any = None, *, whole: bool = False
) -> Transform:
    """Return a transformation with a validated name."""
    chosen = default if name is None else check_name(name)
    if "/" in chosen:
        raise ProgramError(
            f"invalid optimizer name `{chosen}`: it contains a `/`.", fix="Remove the `/`."
        )
    return Transform(chosen, name is not None, make, rate, whole)


def leading_transform(parts: Sequence[Transform]) -> Transform:
    """Return the transformation that names the step: the one with the learning rate."""
    leaves = [leaf for item in parts for leaf in item.leaves()]
    return max(leaves, key=lambda leaf: (leaf.rate is not None, leaf.whole))


def check_rate(rate: Any) -> LearningRate:
    """Validate a learning rate.

    Raises:
        DTypeError: If the argument is not a learning rate.
    """
    if isinstance(rate, Var) or callable(rate):
        return cast("LearningRate", rate)
    try:
        number = KINDS["float"](rate)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DTypeError(
            f"invalid learning rate {rate!r:.80}.",
            fix="Pass a number, a schedule of br.optimizer, or a scalar variable.",
        )
    return number


def check_mask(mask: Mask) -> Mask:
    """Validate a mask.

    Raises:
        ProgramError: If the mask is not callable.
    """
    if mask is not None and not callable(mask):
        raise ProgramError(
            f"expected a function for `mask`, got {mask!r:.80}.",
            fix="Pass a function from a parameter to True or False: lambda p: p.ndim > 1.",
        )
    return mask
