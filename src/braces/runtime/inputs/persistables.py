"""Persistable variables between scope and run."""

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
from braces.lower.interpret.operator_timing import Clock
from braces.lower.interrupt.deadline import Watch
from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.lower.xla.narrow_dtypes import taken_in
from braces.runtime.inputs.feeds import describe
from braces.runtime.monitoring.compile_listener import UNHEARD, Making
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
        clock: Takes the time of each operator, if at all; interpreting only.
        making: Hears how code is made for it.
        states: The values of the persistable variables that its plan reads, in that order;
            `None` where there is none.
    """

    scope: Scope
    feeds: Mapping[str, Any]
    watch: Watch
    given: Mapping[str, Any]
    listeners: Sequence[Listener] = ()
    kept: dict[str, Scope] | None = None
    clock: Clock | None = None
    making: Making = UNHEARD
    states: list[Any] = field(init=False)

    def read(
        self,
        infos: Mapping[str, VarInfo],
        narrow: Mapping[str, DType],
        placed: Taker | None = None,
    ) -> None:
        """Take the values of persistable variables as they are now.

        Args:
            infos: The declarations of those that the plan reads.
            narrow: Which of them have less than 8 bits, as the program says.
            placed: Brings them to where they belong, if on several devices.
        """
        self.states = self.scope.raws(infos)
        if narrow:
            pairs = zip(infos, self.states, strict=True)
            self.states = [_taken_in(name, value, narrow) for name, value in pairs]
        if self.given:
            values = zip(infos, self.states, strict=True)
            self.states = [self.given.get(name, value) for name, value in values]
        if placed is not None:
            placed.take(self)

    def named(self, infos: Mapping[str, VarInfo]) -> dict[str, Any]:
        """The values of persistable variables that were read, by name.

        Raises:
            UninitializedError: One has no value.
        """
        return _named(infos, self.states, self.scope)


class Taker(Protocol):
    """Brings the values that a run has read to where they belong."""

    def take(self, run: Run) -> None:
        """Replace those that lie elsewhere."""
        ...


def _taken_in(name: str, value: Any, narrow: Mapping[str, DType]) -> Any:
    """A value of the scope as runs have it.

    Raises:
        ShapeError: It has not the dtype that the program says, but that of the run, or another.
    """
    dtype = narrow.get(name)
    if value is None or dtype is None:
        return value
    if value.dtype != dtype:
        raise _misfit(name, f"{dtype} is declared", str(dtype), value, dtype)
    return taken_in(value, dtype)


def _misfit(name: str, problem: str, declared: object, value: Any, dtype: DType) -> ShapeError:
    return ShapeError(
        f"The value of `{name}` in the scope does not fit the program: {problem}.",
        given=f"{name}: declared {declared}, in the scope {describe(value)}",
        fix="Run exe.init, or set a value of the declared type: "
        f"scope.var({name!r}).set(array.astype({dtype.name!r})).",
    )


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


def read_states(infos: Mapping[str, VarInfo], scope: Scope) -> dict[str, Any]:
    """The raw values of persistable variables, by name.

    Args:
        infos: Their declarations.
        scope: Where they live.

    Raises:
        UninitializedError: One has no value.
    """
    return _named(infos, scope.raws(infos), scope)


def _named(infos: Mapping[str, VarInfo], raws: Iterable[Any], scope: Scope) -> dict[str, Any]:
    found = dict(zip(infos, raws, strict=True))
    for name, value in found.items():
        if value is None:
            scope.find_var(name)  # a scope that was closed meanwhile says so
            raise UninitializedError(
                f"`{name}` has no value in this scope.",
                given=f"{name}: {infos[name].type}",
                fix="Run exe.init(prog, scope) first, or load parameters.",
            )
    return found


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
            raise _misfit(name, problem, info.type, value, info.type.dtype)


def keep_on_device(names: Iterable[str], replaced: Container[str], run: Run) -> None:
    """Hand what NumPy holds to JAX once, not anew in every run that reads it.

    Args:
        names: The persistable variables that the run reads, in order.
        replaced: Those that it gives new values.
        run: The run, whose values are handed over.
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
