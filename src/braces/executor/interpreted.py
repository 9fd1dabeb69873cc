"""A run, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braces.errors import NaNError
from braces.executor.attributes import Sizes
from braces.executor.feeds import check_shape
from braces.executor.interpret import Interpreter, Listener
from braces.executor.plan import Plan
from braces.executor.signals import Uninterrupted
from braces.executor.states import NONE_GIVEN, check_states, commit, read_states
from braces.executor.watch import Watch
from braces.lazy import jax
from braces.scope import Scope


def run(
    plan: Plan,
    scope: Scope,
    feeds: Mapping[str, Any],
    device: Any,
    listeners: Sequence[Listener],
    keep_scopes: bool,
    check_nan: bool = False,
    given: Mapping[str, Any] = NONE_GIVEN,
    watch: Watch | None = None,
) -> tuple[list[Any], dict[str, Scope]]:
    """Interpret a plan; the fetched values, and the step scopes where they are kept.

    What is `given` stands in place of persistable variables, which are left alone.
    """
    sizes = Sizes()
    for name, array in feeds.items():
        check_shape(plan.data[name], array, sizes)
    states = read_states(plan.states, scope, given)
    check_states(plan.states, states, sizes)
    kept = {"": scope.new_scope()} if keep_scopes else None
    with jax.enable_x64(True), jax.threefry_partitionable(True), jax.default_device(device):
        env = {name: jax.device_put(v, device) for name, v in {**states, **feeds}.items()}
        interpreter = Interpreter(
            sizes, listeners, kept, check_nan=check_nan, watch=watch or Watch()
        )
        interpreter.run(plan.body, env, "")
        results = [np.array(env[name]) for name in plan.fetches]
        updates = {name: env[source] for name, source in plan.updates.items()}
        jax.block_until_ready(list(updates.values()))
    interpreter.keep("", env)
    with Uninterrupted():
        commit({name: v for name, v in updates.items() if name not in given}, scope)
    return results, kept or {}


def find_nan(
    plan: Plan,
    scope: Scope,
    feeds: Mapping[str, Any],
    device: Any,
    given: Mapping[str, Any] = NONE_GIVEN,
) -> None:
    """Raise at the first operator that produces a NaN; the scope is only read.

    Raises:
        NaNError: It names operator, source line, block and trip.
    """
    run(replace(plan, updates={}), scope, feeds, device, (), False, check_nan=True, given=given)
    raise NaNError("A NaN appeared compiled, and does not appear operator by operator.")
