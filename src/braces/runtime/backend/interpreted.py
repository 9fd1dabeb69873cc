"""Interpreted runs, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from braces.define.core.jax_settings import braces_jax_settings
from braces.errors import InfinityError, NaNError
from braces.lazy import jax, jnp
from braces.lower.cache.persistent_cache import get_persistent_cache
from braces.lower.checks.value_checks import NAN, ValueChecks
from braces.lower.interpret.interpreter import BlockEntry, BlockPlan, Interpreter
from braces.lower.interrupt.ctrl_c import DeferredCtrlC
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.xla.concrete_attributes import Sizes
from braces.lower.xla.narrow_dtypes import from_carriers
from braces.passes.analysis.gradient_names import find_role
from braces.runtime.compile.executable_cache import CompileReporter, ExecutableCache
from braces.runtime.devices.device import Devices, detect_forks, open_device
from braces.runtime.devices.device_placement import ShardedPlan, refuse_sharded_values
from braces.runtime.inputs.persistables import Run, check_states
from braces.runtime.plan.plan import Plan


class InterpretedPlan:
    """A plan that runs in the interpreter; see `backend.interface`."""

    def __init__(
        self,
        plan: Plan,
        devices: Devices,
        checks: ValueChecks,
        recent: ExecutableCache,
        notice: CompileReporter,
    ) -> None:
        del recent  # only kernels are compiled, which all plans share
        self.prepare_process()
        self.plan = plan
        self.devices = devices
        self.checks = checks
        self.notice = notice
        self.used = 0
        self.started = False

    @staticmethod
    def open(name: str | None) -> Devices:
        """Return the device of this name."""
        return Devices(open_device(name))

    @staticmethod
    def prepare_process() -> None:
        """Detect forks of this process."""
        detect_forks()

    @cached_property
    def script(self) -> BlockPlan:
        """The block plan for the interpreter."""
        return prepare_block_plan(self.plan, self.devices)

    def run(self, run: Run) -> list[Any]:
        """Interpret and commit; all runs are serialized."""
        with run.watch.turn(run.scope.turn), self._keeping():
            results = interpret(self.plan, self.script, run, self.devices, self.checks)
        self.started = True
        return from_carriers(self.plan.wanted, results, self.plan.narrow)

    def _keeping(self) -> AbstractContextManager[Any]:
        """Return a context that caches kernels persistently, until the first run ends."""
        return nullcontext() if self.started else get_persistent_cache().keeping()

    def compile(self, run: Run) -> None:
        """Validate the inputs of a run; single operators are compiled as they run."""
        with run.scope.turn:
            begin_run(self.plan, run)


def prepare_block_plan(plan: Plan, devices: Devices) -> BlockPlan:
    """Return the block plan of a plan for the interpreter."""
    return BlockPlan(plan.interpreted, devices.target, wanted=plan.updates.values())


def interpret(
    plan: Plan, script: BlockPlan, run: Run, devices: Devices, checks: ValueChecks
) -> list[Any]:
    """Interpret a plan on one device; return the fetched values."""
    kept, device = run.kept, devices.alone
    placed = ShardedPlan.of(devices.placement, plan)
    sizes, values = begin_run(plan, run)
    if placed is None:
        refuse_sharded_values(values, values.values())
    for name in plan.learned:  # a case that does not run reports no size: it has no rows
        sizes.setdefault(name, 0)
    if kept is not None:
        kept[""] = run.scope.new_scope()
    with braces_jax_settings(), jax.threefry_partitionable(True), jax.default_device(device):
        env = {name: jax.device_put(v, device) for name, v in values.items()}
        clock = run.clock
        find = partial(find_role, plan.definition)
        interpreter = Interpreter(
            sizes, run.listeners, kept, checks, run.watch, clock=clock, find_role=find
        )
        if clock is not None:
            clock.begin(env.values())
        if interpreter.observers:
            interpreter.announce(BlockEntry("", "", None, "", 0, dict(env)))
        interpreter.run(script, env, "")
        results = [np.array(env[name]) for name in plan.fetches]
        updates = {n: env[v] for n, v in plan.updates.items() if n not in run.given}
        committed = _copy_aliases(updates.values(), [env[name] for name in plan.states])
        if placed is not None:
            committed = placed.committed(updates, committed)
        jax.block_until_ready(committed)
    interpreter.keep("", env)
    with DeferredCtrlC():
        run.scope.put_all(updates, from_carriers(tuple(updates), committed, plan.narrow))
    return results


def _copy_aliases(values: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Copy values that share an array: a compiled run donates each variable separately."""
    seen_ids, arrays = set(map(id, others)), list[Any]()
    for value in values:
        arrays.append(jnp.array(value) if id(value) in seen_ids else value)
        seen_ids.add(id(value))
    return arrays


def begin_run(plan: Plan, run: Run) -> tuple[Sizes, dict[str, Any]]:
    """Return the sizes and the initial values of a run.

    Raises:
        UninitializedError: If a persistable variable has no value.
        FeedError, ShapeError: If the type of a feed, or of a value of the scope, differs from
            the declared type.
    """
    sizes = run.feed_sizes(plan.data)
    run.read(plan.states, plan.narrow)
    states = run.named(plan.states)
    check_states(plan.states, states, sizes)
    return sizes, {**states, **run.feeds}


def find_source(plan: Plan, failed: Run, devices: Devices, checks: ValueChecks) -> None:
    """Raise at the first operator that produces a value that fails; the scope is only read.

    Raises:
        NaNError, InfinityError: If a value is found; the error names operator, source line,
            block and iteration.
    """
    repeated_run = Run(failed.scope, failed.feeds, CancellationToken(), failed.given)
    plan = replace(plan, updates={})
    interpret(plan, prepare_block_plan(plan, devices), repeated_run, devices, checks)
    kind, error = ("a NaN", NaNError) if NAN in checks else ("an infinity", InfinityError)
    raise error(f"the compiled run produced {kind}, which interpretation does not reproduce.")
