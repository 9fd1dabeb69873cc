"""Persistable variables between scope and run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braces.dtypes import TensorType
from braces.errors import ProgramError, ShapeError, UninitializedError
from braces.ir.records import VarInfo
from braces.lazy import jax
from braces.lower.attributes import Sizes, bind_sizes
from braces.lower.interpreter import Listener
from braces.lower.watch import Watch
from braces.runtime.feeds import describe
from braces.scope import Scope

NONE_GIVEN: Mapping[str, Any] = {}


@dataclass(eq=False, slots=True)
class Run:
    """What one run has.

    Attributes:
        scope: Where persistable variables live.
        feeds: The data, by name.
        watch: What may end it.
        given: What stands in place of persistable variables, which are left alone.
        listeners: Called after each operator; interpreting only.
        kept: Where the scopes of trips and branches are kept, if at all; interpreting only.
        states: The persistable variables that it reads, by name.
    """

    scope: Scope
    feeds: Mapping[str, Any]
    watch: Watch
    given: Mapping[str, Any]
    listeners: Sequence[Listener] = ()
    kept: dict[str, Scope] | None = None
    states: dict[str, Any] = field(init=False)

    @property
    def values(self) -> dict[str, Any]:
        """All that the run reads, by name."""
        return {**self.states, **self.feeds}


def seeded(names: Iterable[str], seed: Any) -> dict[str, Any]:
    """Random states by name, as `Executor.init` makes them of this seed.

    Raises:
        ProgramError: The seed is not an integer of 32 bits.
    """
    number = check_seed(seed)
    return {name: np.array([number, 0], np.uint32) for name in names}


def check_seed(seed: Any) -> np.uint32:
    """A seed as a number.

    Raises:
        ProgramError: It is not an integer of 32 bits.
    """
    is_integer = type(seed) is int or isinstance(seed, np.integer)
    if not is_integer or not 0 <= seed < 2**32:
        raise ProgramError(
            f"seed={seed!r:.80} is not a seed.", fix="Use an integer from 0 to 2**32 - 1."
        )
    return np.uint32(seed)


def read_states(
    infos: Mapping[str, VarInfo], scope: Scope, given: Mapping[str, Any] = NONE_GIVEN
) -> dict[str, Any]:
    """The raw values of persistable variables.

    Args:
        infos: Their declarations.
        scope: Where they live.
        given: What a run has in place of the values in the scope.

    Raises:
        UninitializedError: One has no value.
    """
    names = [name for name in infos if name not in given] if given else infos
    found = scope.raws(names)
    if len(found) < len(names):
        name = next(name for name in names if name not in found)
        raise UninitializedError(
            f"`{name}` has no value in this scope.",
            given=f"{name}: {infos[name].type}",
            fix="Run exe.init(prog, scope) first, or load parameters.",
        )
    if not given:
        return found
    return {name: given[name] if name in given else found[name] for name in infos}


def check_states(infos: Mapping[str, VarInfo], values: Mapping[str, Any], sizes: Sizes) -> None:
    """Refuse values that are not of the declared type.

    Unlike feeds they are not converted: what a scope holds is changed by updates alone, and
    another program may share it.

    Raises:
        ShapeError: It names the variable, what was declared, and what the scope has.
    """
    for name, info in infos.items():
        value = values[name]
        assert isinstance(info.type, TensorType)
        problem = None if value.dtype == info.type.dtype else f"{info.type.dtype} is declared"
        problem = problem or bind_sizes(info.type, value.shape, sizes)
        if problem:
            raise ShapeError(
                f"The value of `{name}` in the scope does not fit the program: {problem}.",
                given=f"{name}: declared {info.type}, in the scope {describe(value)}",
                fix="Run exe.init, or set a value of the declared type: "
                f"scope.var({name!r}).set(array.astype({info.type.dtype.name!r})).",
            )


def keep_on_device(names: Iterable[str], run: Run) -> None:
    """Hand what NumPy holds to JAX once, not anew in every run that reads it."""
    scope, values = run.scope, run.states
    for name in names:
        value = values[name]
        if type(value) is np.ndarray and name not in run.given:
            with jax.enable_x64(True):
                values[name] = jax.device_put(value, may_alias=False)
            with scope.turn:
                variable = scope.find_var(name)
                if variable is not None and variable.raw is value:
                    variable.put(values[name])
