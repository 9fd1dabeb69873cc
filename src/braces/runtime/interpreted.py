"""A run, operator by operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from braces.errors import NaNError
from braces.lazy import jax
from braces.lower.attributes import Sizes
from braces.lower.interpreter import Interpreter
from braces.lower.signals import Uninterrupted
from braces.lower.target import target_of
from braces.lower.watch import Watch
from braces.runtime.device import mind_forks, open_device, platform_of
from braces.runtime.feeds import check_shape
from braces.runtime.plan import Plan
from braces.runtime.recent import Notice, Recent
from braces.runtime.states import Run, check_states


class InterpretedPlan:
    """A plan that the interpreter reads anew in each run; see `braces.runtime.backend`."""

    def __init__(
        self, plan: Plan, device: Any, check_nan: bool, recent: Recent, notice: Notice
    ) -> None:
        del recent  # nothing is compiled but kernels, which all plans share
        mind_forks()
        self.plan = plan
        self.device = device
        self.check_nan = check_nan
        self.notice = notice
        self.used = 0

    @staticmethod
    def open(name: str | None) -> Any:
        """The device of this name, as JAX has it."""
        return open_device(name)

    def run(self, run: Run) -> list[Any]:
        """Interpret and commit; every run waits for its turn."""
        with run.watch.turn(run.scope.turn):
            return interpret(self.plan, run, self.device, self.check_nan)


def interpret(plan: Plan, run: Run, device: Any, check_nan: bool) -> list[Any]:
    """Interpret a plan; the fetched values."""
    sizes, kept, target = Sizes(), run.kept, target_of(platform_of(device))
    for name, array in run.feeds.items():
        check_shape(plan.data[name], array, sizes)
    run.read(plan.states)
    states = run.named(plan.states)
    check_states(plan.states, states, sizes)
    for name in plan.learned:  # a case that does not run tells none; the others give no rows
        sizes.setdefault(name, 0)
    if kept is not None:
        kept[""] = run.scope.new_scope()
    values = {**states, **run.feeds}
    with jax.enable_x64(True), jax.threefry_partitionable(True), jax.default_device(device):
        env = {name: jax.device_put(v, device) for name, v in values.items()}
        interpreter = Interpreter(sizes, run.listeners, kept, {}, check_nan, target, run.watch)
        interpreter.run(plan.interpreted, env, "")
        results = [np.array(env[name]) for name in plan.fetches]
        updates = {n: env[v] for n, v in plan.updates.items() if n not in run.given}
        jax.block_until_ready(list(updates.values()))
    interpreter.keep("", env)
    with Uninterrupted():
        run.scope.put_all(updates, list(updates.values()))
    return results


def find_nan(plan: Plan, failed: Run, device: Any) -> None:
    """Raise at the first operator that produces a NaN; the scope is only read.

    Raises:
        NaNError: It names operator, source line, block and trip.
    """
    again = Run(failed.scope, failed.feeds, Watch(), failed.given)
    interpret(replace(plan, updates={}), again, device, check_nan=True)
    raise NaNError("A NaN appeared compiled, and does not appear operator by operator.")
