"""Running programs in scopes, compiled or interpreted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.errors import DeviceError, ProgramError, UninitializedError
from braces.executor import compiled, interpreted
from braces.executor.feeds import check_names, check_shape, convert
from braces.executor.attributes import Sizes
from braces.executor.interpret import Listener
from braces.executor.plan import Plan
from braces.ir.program import Program
from braces.lazy import jax
from braces.ops.build import Var
from braces.scope import Scope

MODES = ("compile", "interpret")


class Executor:
    """Runs programs.

    Args:
        mode: `compile` lowers a program to one function and lets XLA compile it; `interpret` runs
            operator by operator. Both give the same results.
        device: `"cpu:0"`, `"gpu:0"`, …; the default device of JAX where it is `None`.

    Raises:
        DeviceError: There is no such device.
    """

    def __init__(self, mode: str = "compile", device: str | None = None) -> None:
        if mode not in MODES:
            raise ProgramError(f"There is no mode {mode!r}.", fix="Use 'compile' or 'interpret'.")
        self.mode = mode
        self.device_name = device
        self.device = find_device(device)
        self.step_scopes: dict[str, Scope] = {}
        self._plans: dict[Any, Plan] = {}
        self._cache = compiled.Cache()

    # ---- public ------------------------------------------------------------------------------

    def init(
        self, program: Program, scope: Scope, seed: int = 0, *, missing_only: bool = False
    ) -> None:
        """Set every persistable variable of a program: run its startup program.

        Args:
            program: The program whose variables are set.
            scope: Where they live.
            seed: Each value is drawn from the seed and the variable's name.
            missing_only: Leave alone what has a value already.
        """
        startup = program.startup
        feed = {"seed": np.uint32(seed)} if "seed" in startup.vars else {}
        before = {n: v.raw for n in startup.updates if missing_only and (v := _value(scope, n))}
        self.run(startup, scope, feed=feed)
        for name, raw in before.items():
            scope.var(name).put(raw)

    def run(
        self,
        program: Program,
        scope: Scope,
        feed: Mapping[str, Any] | None = None,
        fetch: Any = (),
        *,
        listeners: Sequence[Listener] = (),
        keep_scopes: bool = False,
    ) -> Any:
        """Run what the fetches and all updates of a program need.

        One run is one transaction: the updates are committed together at the end, and a run that
        fails leaves the scope as it was.

        Args:
            program: What to run.
            scope: Where persistable variables live.
            feed: Name of a data variable, or the variable, to its value.
            fetch: A variable or name, a sequence of them, or a dict with them as values.
            listeners: Interpreting only: called after each operator with the path of its block,
                the operator, and the values that it bound.
            keep_scopes: Interpreting only: keep the scope of every trip and branch; they are in
                `step_scopes` by path, as `"loop_0/body[2]"`.

        Returns:
            NumPy arrays: one for a single fetch, a list for a sequence, a dict for a dict.

        Raises:
            FeedError: A feed is missing, unknown, or of another type.
            UnknownNameError: A fetch does not exist.
            UninitializedError: A persistable variable has no value yet.
            RunError: The run failed.
        """
        names, shape_up = read_fetch(fetch, program)
        plan = self._plan(program, names)
        fed = {key.name if isinstance(key, Var) else key: v for key, v in (feed or {}).items()}
        check_names(fed, plan.feeds, plan.data)
        arrays, sizes = self._arrays(plan, fed), Sizes()
        for name, array in arrays.items():
            check_shape(plan.data[name], array, sizes)
        if self.mode == "compile":
            if listeners or keep_scopes:
                raise ProgramError(
                    "Listeners and kept scopes need interpreting.",
                    fix='Use br.Executor(mode="interpret").',
                )
            results = compiled.run(self._cache, plan, scope, arrays, sizes, self.device)
        else:
            results, self.step_scopes = interpreted.run(
                plan, scope, arrays, sizes, self.device, listeners, keep_scopes
            )
        return shape_up(results)

    # ---- steps -------------------------------------------------------------------------------

    def _plan(self, program: Program, names: tuple[str, ...]) -> Plan:
        key = (id(program), program.version, names)
        if key not in self._plans:
            self._plans[key] = Plan.of(program.definition, names)
        return self._plans[key]

    def _arrays(self, plan: Plan, fed: Mapping[str, Any]) -> dict[str, Any]:
        return {name: convert(plan.data[name], value) for name, value in fed.items()
                if name in plan.feeds}  # fmt: skip


def _value(scope: Scope, name: str) -> Any:
    variable = scope.find_var(name)
    return variable if variable is not None and variable.initialized else None


def find_device(name: str | None) -> Any:
    """The device of JAX that `"cpu:0"` and the like mean."""
    if name is None:
        return None
    kind, _, number = name.partition(":")
    try:
        devices = jax.devices(kind)
        return devices[int(number or 0)]
    except (RuntimeError, ValueError, IndexError):
        there = ", ".join(f"{d.platform}:{d.id}" for d in jax.devices())
        raise DeviceError(f"There is no device {name!r}.", fix=f"There is {there}.") from None


def read_fetch(
    fetch: Any, program: Program
) -> tuple[tuple[str, ...], Callable[[list[Any]], Any]]:
    """The names to fetch, and how the results are handed back."""
    if isinstance(fetch, dict):
        keys = list(fetch)
        return _names(fetch.values(), program), lambda results: dict(zip(keys, results, strict=True))
    if isinstance(fetch, str | Var):
        return _names([fetch], program), lambda results: results[0]
    return _names(fetch or (), program), list


def _names(fetches: Iterable[Any], program: Program) -> tuple[str, ...]:
    return tuple(_name(fetch, program) for fetch in fetches)


def _name(fetch: Any, program: Program) -> str:
    if isinstance(fetch, str):
        return fetch
    if not isinstance(fetch, Var):
        raise ProgramError(
            f"{fetch!r:.80} cannot be fetched.", fix="Fetch variables or their names."
        )
    if fetch.table is not fetch.program.table:
        raise ProgramError(
            f"`{fetch.name}` is a variable of an inner block and has many values or none.",
            fix="Return it with add_output, or look at it by name: keep_scopes=True when "
            "interpreting.",
        )
    return fetch.name


def missing_state(name: str) -> UninitializedError:
    """The error for a persistable variable without a value."""
    return UninitializedError(
        f"`{name}` has no value in this scope.",
        fix="Run exe.init(prog, scope) first, or load parameters.",
    )
