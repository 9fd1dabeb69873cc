"""Persistable variables of a run: transfer between scope and run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from braces.dtypes import DType, TensorType
from braces.errors import ProgramError, ShapeError, UninitializedError
from braces.ir.records import VarInfo
from braces.lazy import jax
from braces.lower.interpret.interpreter import Listener
from braces.lower.interpret.operator_timing import OperatorClock
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.lower.xla.narrow_dtypes import to_carrier
from braces.runtime.inputs.feeds import check_shape, describe_array
from braces.runtime.monitoring.compile_listener import NULL_LISTENER, CompileListener
from braces.scope import Scope

NO_REPLACEMENTS: Mapping[str, Any] = {}


@dataclass(eq=False, slots=True)
class Run:
    """Inputs and listeners of one run.

    Attributes:
        scope: The scope of persistable variables.
        feeds: The data, by name.
        watch: The cancellation token.
        given: Replacements of persistable variables, which the run does not change.
        listeners: Called after each operator; interpretation only.
        kept: Stores the scopes of iterations and branches, if requested; interpretation only.
        clock: Measures the time of each operator, if requested; interpretation only.
        making: The compilation listener.
        states: The values of the persistable variables that its plan reads, in that order;
            `None` for missing ones.
        constants: The last of these values that code is compiled for.
    """

    scope: Scope
    feeds: Mapping[str, Any]
    watch: CancellationToken
    given: Mapping[str, Any]
    listeners: Sequence[Listener] = ()
    kept: dict[str, Scope] | None = None
    clock: OperatorClock | None = None
    making: CompileListener = NULL_LISTENER
    states: list[Any] = field(init=False)
    constants: tuple[Any, ...] = ()

    def read(
        self,
        infos: Mapping[str, VarInfo],
        narrow: Mapping[str, DType],
        placed: StateMover | None = None,
    ) -> None:
        """Read the current values of persistable variables.

        Args:
            infos: The declarations of the variables that the plan reads.
            narrow: The declared dtypes of those with less than 8 bits.
            placed: Moves them to their devices, if there are several.
        """
        self.states = self.scope.raws(infos)
        if narrow:
            pairs = zip(infos, self.states, strict=True)
            self.states = [_to_carrier(name, value, narrow) for name, value in pairs]
        if self.given:
            values = zip(infos, self.states, strict=True)
            self.states = [self.given.get(name, value) for name, value in values]
        if placed is not None:
            placed.take(self)

    def named(self, infos: Mapping[str, VarInfo]) -> dict[str, Any]:
        """Return the persistable variables that were read, by name.

        Raises:
            UninitializedError: If a variable has no value.
        """
        return _collect_values(infos, self.states, self.scope)

    def sizes(self, data: Mapping[str, VarInfo], infos: Mapping[str, VarInfo]) -> Sizes:
        """Return the sizes of the feeds and of the persistable variables, which are checked.

        Args:
            data: The declarations of the feeds.
            infos: Those of the variables.
        """
        sizes = self.feed_sizes(data)
        check_states(infos, self.named(infos), sizes)
        return sizes

    def feed_sizes(self, data: Mapping[str, VarInfo]) -> Sizes:
        """Return the sizes of the feeds, which are checked against their declarations."""
        sizes = Sizes()
        for name, array in self.feeds.items():
            check_shape(data[name], array, sizes)
        return sizes


class StateMover(Protocol):
    """Moves the values that a run has read to their devices."""

    def take(self, run: Run) -> None:
        """Replace the values on other devices."""
        ...


def _to_carrier(name: str, value: Any, narrow: Mapping[str, DType]) -> Any:
    """Return a value of the scope in its carrier dtype.

    Raises:
        ShapeError: If the dtype differs from the declared one.
    """
    dtype = narrow.get(name)
    if value is None or dtype is None:
        return value
    if value.dtype != dtype:
        raise _misfit_error(
            name, f"expected {dtype}, got {value.dtype}", str(dtype), value, dtype
        )
    return to_carrier(value, dtype)


def _misfit_error(
    name: str, problem: str, declared: object, value: Any, dtype: DType
) -> ShapeError:
    return ShapeError(
        f"type mismatch of `{name}` between program and scope: {problem}.",
        given=f"{name}: declared {declared}, in the scope {describe_array(value)}",
        fix="Run exe.init, or set a value of the declared type: "
        f"scope.var({name!r}).set(array.astype({dtype.name!r})).",
    )


def seed_random_states(names: Iterable[str], seed: Any) -> dict[str, Any]:
    """Return random states by name, as `Executor.init` creates them for this seed.

    Raises:
        ProgramError: If the seed is not a 32-bit integer.
    """
    number = check_seed(seed)
    return {name: np.array([number, 0], np.uint32) for name in names}


def check_seed(seed: Any) -> np.uint32:
    """Return a validated seed.

    Raises:
        ProgramError: If the seed is not a 32-bit integer.
    """
    is_integer = type(seed) is int or isinstance(seed, np.integer)
    if not is_integer or not 0 <= seed < 2**32:
        raise ProgramError(
            f"invalid seed={seed!r:.80}.", fix="Use an integer from 0 to 2**32 - 1."
        )
    return np.uint32(seed)


def read_states(infos: Mapping[str, VarInfo], scope: Scope) -> dict[str, Any]:
    """Return the raw values of persistable variables, by name.

    Args:
        infos: Their declarations.
        scope: The scope of the variables.

    Raises:
        UninitializedError: If a variable has no value.
    """
    return _collect_values(infos, scope.raws(infos), scope)


def _collect_values(
    infos: Mapping[str, VarInfo], raws: Iterable[Any], scope: Scope
) -> dict[str, Any]:
    values = dict(zip(infos, raws, strict=True))
    for name, value in values.items():
        if value is None:
            scope.find_var(name)  # raises an error if the scope was closed meanwhile
            raise UninitializedError(
                f"uninitialized variable `{name}` in this scope.",
                given=f"{name}: {infos[name].type}",
                fix="Run exe.init(prog, scope) first, or load parameters.",
            )
    return values


def check_states(infos: Mapping[str, VarInfo], values: Mapping[str, Any], sizes: Sizes) -> None:
    """Refuse values that are not of the declared type.

    Unlike feeds they are not converted: only updates change a scope, and another program may
    share it.

    Raises:
        ShapeError: If the type of a value differs; the error names the variable, its
            declaration and its value.
    """
    for name, info in infos.items():
        value = values[name]
        assert isinstance(info.type, TensorType)
        problem = (
            None
            if value.dtype == info.type.dtype
            else f"expected {info.type.dtype}, got {value.dtype}"
        )
        problem = problem or bind_sizes(info.type, value.shape, sizes)
        if problem:
            raise _misfit_error(name, problem, info.type, value, info.type.dtype)


def keep_on_device(names: Iterable[str], replaced: Container[str], run: Run) -> None:
    """Move NumPy arrays of the scope to the device once, not in every run that reads them.

    Args:
        names: The persistable variables that the run reads, in order.
        replaced: The variables that it updates.
        run: The run, whose values are moved.
    """
    scope, values = run.scope, run.states
    for at, (name, value) in enumerate(zip(names, values, strict=True)):
        if type(value) is np.ndarray and name not in replaced and name not in run.given:
            with jax.enable_x64(True):
                values[at] = jax.device_put(value, may_alias=False)
            with scope.turn:
                variable = scope.find_var(name)
                if variable is not None and variable.raw is value:
                    variable.put(values[at])


def find_initialized(scope: Scope, name: str) -> Any:
    """Return a variable of a scope; `None` if it does not exist or has no value."""
    variable = scope.find_var(name)
    return variable if variable is not None and variable.initialized else None
