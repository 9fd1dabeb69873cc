"""A run, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braces.errors import NaNError
from braces.lazy import jax
from braces.lower.attributes import Sizes
from braces.lower.interpreter import Interpreter, Listener
from braces.lower.signals import Uninterrupted
from braces.lower.watch import Watch
from braces.runtime.feeds import check_shape
from braces.runtime.plan import Plan
from braces.runtime.states import Run, check_states, commit, read_states
from braces.scope import Scope


def run(
    plan: Plan,
    run: Run,
    device: Any,
    listeners: Sequence[Listener],
    keep_scopes: bool,
    check_nan: bool = False,
) -> tuple[list[Any], dict[str, Scope]]:
    """Interpret a plan; the fetched values, and the step scopes where they are kept."""
    sizes = Sizes()
    for name, array in run.feeds.items():
        check_shape(plan.data[name], array, sizes)
    run.states = read_states(plan.states, run.scope, run.given)
    check_states(plan.states, run.states, sizes)
    kept = {"": run.scope.new_scope()} if keep_scopes else None
    with jax.enable_x64(True), jax.threefry_partitionable(True), jax.default_device(device):
        env = {name: jax.device_put(v, device) for name, v in run.values.items()}
        interpreter = Interpreter(sizes, listeners, kept, check_nan=check_nan, watch=run.watch)
        interpreter.run(plan.body, env, "")
        results = [np.array(env[name]) for name in plan.fetches]
        updates = {name: env[source] for name, source in plan.updates.items()}
        jax.block_until_ready(list(updates.values()))
    interpreter.keep("", env)
    with Uninterrupted():
        commit({name: v for name, v in updates.items() if name not in run.given}, run.scope)
    return results, kept or {}


def find_nan(plan: Plan, failed: Run, device: Any) -> None:
    """Raise at the first operator that produces a NaN; the scope is only read.

    Raises:
        NaNError: It names operator, source line, block and trip.
    """
    again = Run(failed.scope, failed.feeds, Watch(), failed.given)
    run(replace(plan, updates={}), again, device, (), False, check_nan=True)
    raise NaNError("A NaN appeared compiled, and does not appear operator by operator.")
